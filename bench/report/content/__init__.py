"""What a report says, without a word of any format."""

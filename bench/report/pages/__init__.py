"""What each page says, in blocks."""

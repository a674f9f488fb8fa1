"""What a comparison leaves behind: records, the rows made of them, and the CSV that holds the rows."""

"""What a comparison leaves behind: records, their rows, and the CSV file that holds the rows."""

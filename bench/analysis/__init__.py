"""What the rows of comparisons say, for reports: divided speed-ups, warnings, predictions."""

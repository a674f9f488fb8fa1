"""What the rows of comparisons say, for reports: outcomes and warnings."""

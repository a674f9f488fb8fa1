"""What a comparison does, one stage after the other: a file for each."""

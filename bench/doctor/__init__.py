"""What would run on this machine, what would not, and how to mend it."""

"""What a user may ask for beside a comparison: other machines, trackers, what would run here."""

"""What the rows say: speed-ups with their intervals, verdicts, attribution, warnings, claims."""

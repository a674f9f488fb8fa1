"""What the rows say: attribution, warnings, claims, predictions; what others published."""

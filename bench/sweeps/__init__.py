"""Many comparisons from a plan file: measured one after the other, interrupted and resumed."""

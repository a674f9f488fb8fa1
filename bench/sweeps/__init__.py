"""Many comparisons, one after the other, that can be stopped and gone on with."""

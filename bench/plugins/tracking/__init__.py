"""Logs finished comparisons to experiment trackers, in a separate process, after the measurement."""

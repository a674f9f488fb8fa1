"""Logs finished comparisons to experiment trackers, in a process of its own, after the measurement."""

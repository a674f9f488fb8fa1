"""The figures: the only modules that import matplotlib, which takes a second."""

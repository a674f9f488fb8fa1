"""Which backends of an experiment train a model in a given memory, and which of those fastest: measured."""

COMMON = ("device=cpu", "experiment=advise", "study=advise")
"""The overrides that stand before those of the command line."""

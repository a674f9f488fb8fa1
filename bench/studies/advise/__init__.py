"""Which backends of an experiment train a model in a given memory, and which of those fastest: measured."""

from bench.study import Study

COMMON = ("device=cpu", "experiment=advise", "study=advise")
"""The overrides that stand before those of the command line."""

STUDY = Study(
    answers="Which backends train a model in a given memory, and which of these is the fastest?",
    command="make advise",
)

"""Many comparisons from a plan file: measured one after the other, interrupted and resumed."""

from bench.study import Study

STUDY = Study(
    answers="What holds over many comparisons: of models, methods, published claims, and on a GPU?",
    command="make reproduce",
)

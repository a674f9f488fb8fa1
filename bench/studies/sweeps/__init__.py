"""Many comparisons from a plan file: measured one after the other, interrupted and resumed."""

from bench.study import Study

STUDY = Study(
    answers="How are many comparisons measured one after the other, and gone on with?",
    command="make reproduce",
)

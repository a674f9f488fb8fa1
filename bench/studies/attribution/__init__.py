"""`experiment=attribution`: which choice makes the difference between two backends?"""

from bench.study import Study

STUDY = Study(
    answers="How much of a speed-up is the engine's, the optimizer's, the sharding's?",
    command="experiment=attribution",
)

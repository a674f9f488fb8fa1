"""`experiment=fairness`: what would a harness print that leaves threads, allocator and MKL's path alone?"""

from bench.study import Study

STUDY = Study(
    answers="What would a harness print that leaves threads, allocator and MKL's path alone?",
    command="experiment=fairness",
)

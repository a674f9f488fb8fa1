"""`make scale`: a step on 1 to 1,024 GPUs, predicted from counted bytes and published figures of links."""

from bench.study import Study

STUDY = Study(
    answers="How fast would a step be on 1 to 1,024 GPUs, under each sharding?", command="make scale"
)

"""In the parity launch: how fast does this machine multiply, and how near does a step come to that?"""

from bench.study import Study

STUDY = Study(
    answers="How fast does each engine multiply here, and how near does a step come to the device's limit?",
    command="make bench",
    is_wanted=lambda config: config.measure.launches > 0,
)

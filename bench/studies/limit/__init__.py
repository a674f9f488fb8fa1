"""In the parity launch: how fast are matrix products here, and how near does a step come to that rate?"""

from bench.study import Study

STUDY = Study(
    answers="How fast does each engine multiply here, and how near does a step come to the device's limit?",
    command="make bench",
    is_wanted=lambda config: config.measure.launches > 0,
)

"""`measure.collectives=count`: what do ranks send each other in a step?"""

from bench.study import Study

STUDY = Study(
    answers="What do ranks send each other in a step?",
    command="measure.collectives=count",
    is_wanted=lambda config: config.measure.collectives is not None,
)

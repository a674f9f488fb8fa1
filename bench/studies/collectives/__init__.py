"""`measure.collectives=count|ladder`: what do ranks send each other in a step, and how long does it take?"""

from bench.study import Study

STUDY = Study(
    answers="What do ranks send each other in a step, and how long does it take alone?",
    command="measure.collectives=count",
    is_wanted=lambda config: config.measure.collectives is not None,
)

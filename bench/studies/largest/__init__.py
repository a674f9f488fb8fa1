"""`measure.batch=max`: every backend is timed at the largest micro-batch that fits."""

from bench.study import Study

STUDY = Study(
    answers="Which micro-batch is the largest that each backend fits?",
    command="measure.batch=max",
    is_wanted=lambda config: config.measure.batch == "max",
)

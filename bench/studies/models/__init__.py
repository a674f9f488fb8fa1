"""Many models of one machine side by side: figures of its page, and one figure or table for a paper."""

from bench.study import Study

STUDY = Study(
    answers="How fast is each model, and how much memory does it take?",
    command="python -m bench.report figure",
)

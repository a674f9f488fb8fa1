"""`measure=converge`: how soon each backend comes to a target, which it is timed and evaluated for."""

from bench.study import Study

STUDY = Study(
    answers="How soon does each backend reach a held-out loss, and does it end at the same one?",
    command="measure=converge",
    is_wanted=lambda config: config.measure.evaluate_every is not None,
    block_steps=lambda config: config.measure.evaluate_every,
    file_word="converge",
)

"""What follows from an answer: what to train with, and what to measure next."""

from collections import Counter
from collections.abc import Sequence

from bench.analysis.answer import (
    FASTER,
    INCONCLUSIVE,
    SAME,
    SLOWER,
    VERDICTS,
    BackendAnswer,
    BestPyTorch,
    ModelsAnswer,
    Outcome,
)
from bench.report.content.answer_numbers import name_models, ratio_range

_CHOICES = {
    ("optimizer", "adamw_fused"): "torch.optim.AdamW(fused=True)",
    ("attention", "sdpa"): "PyTorch's own attention (sdpa)",
    ("engine", "compile"): "torch.compile",
    ("stack", "modern"): "today's PyTorch (make setup STACK=modern)",
}
"""A choice of the best PyTorch, as somebody would make it in a program of theirs."""


def advise(found: ModelsAnswer, subject: str) -> str:
    """What to do, for every model by the strictest PyTorch that the backend was measured beside.

    Args:
        found: of one setting; the advice is about its first backend.
        subject: what that backend is called.
    """
    one = found.backends[0]
    by_model = _by_model(one)
    verdicts = {model: {outcome.verdict for outcome in outcomes} for model, outcomes in by_model.items()}
    every = set().union(*verdicts.values())
    if all(outcome.failed for outcomes in by_model.values() for outcome in outcomes):
        return f"See in the table why {subject} has no result; make doctor says what this machine can run."
    if not every & set(VERDICTS):
        return "Measure several launches, as measure=default does."
    faster = [model for model, mine in verdicts.items() if mine == {FASTER}]
    untried = [model for model in faster if model in _not_tried_with_full_path(found)]
    pays = [model for model in faster if model not in untried]
    others = [model for model in verdicts if model not in faster]
    held_back = [model for model in _lost_with_full_path(one) if model in others]
    undecided = [model for model in others if verdicts[model] <= {FASTER, INCONCLUSIVE}]
    steps = []
    if pays:
        steps.append(f"Train {name_models(pays)} with {subject}.")
    if untried:
        steps.append(
            f"Before you train {name_models(untried)} with {subject}, measure with device.blas=full: MKL's "
            "slower path may be all that it gains."
        )
    if held_back:
        steps.append(
            "Give PyTorch MKL's full path (device.blas=full; docs/methodology.md, Fairness): with it "
            f"{subject} is not faster on {name_models(held_back)}."
        )
    with_path = [best for best in found.best_with_full_path if best.outcome.model in held_back]
    without = [
        best for best in found.best if best.outcome.model in others and best.outcome.model not in held_back
    ]
    steps += _use_best(with_path, than="plain PyTorch with that path", after_others=bool(faster))
    steps += _use_best(without, than="plain PyTorch", after_others=bool(faster or held_back))
    if found.only_one_pytorch:
        models = name_models(found.only_one_pytorch)
        steps.append(f"Measure pytorch_best beside {models}: only {found.reference} was.")
    if undecided:
        steps.append(f"Measure more launches of {name_models(undecided)} (measure=thorough).")
    return " ".join(steps) or f"Keep {found.reference}."


def _by_model(one: BackendAnswer) -> dict[str, list[Outcome]]:
    """What became of the backend on each model, over every PyTorch."""
    by_model: dict[str, list[Outcome]] = {}
    for outcomes in (one.over_reference, one.over_best, one.full_path, one.full_path_over_best):
        for outcome in outcomes:
            by_model.setdefault(outcome.model, []).append(outcome)
    return by_model


def _lost_with_full_path(one: BackendAnswer) -> list[str]:
    """The models on which it is faster as installed, but not with MKL's full path."""
    faster = {outcome.model for outcome in one.over_reference if outcome.verdict == FASTER}
    with_path = (*one.full_path, *one.full_path_over_best)
    lost = dict.fromkeys(outcome.model for outcome in with_path if outcome.verdict in (SAME, SLOWER))
    return [model for model in lost if model in faster]


def _not_tried_with_full_path(found: ModelsAnswer) -> set[str]:
    """The models on which MKL holds PyTorch back, and nobody has measured how much."""
    return set(found.held_back_by_mkl) - {outcome.model for outcome in found.backends[0].full_path}


def _use_best(mine: Sequence[BestPyTorch], *, than: str, after_others: bool) -> list[str]:
    """Which PyTorch to train with, if one was faster than the reference.

    Args:
        mine: of the models that this is about.
        than: what the reference is called.
        after_others: whether something was said of other models already.
    """
    faster = [best for best in mine if best.outcome.verdict == FASTER]
    if not faster:
        return []
    name = Counter(best.backend for best in faster).most_common(1)[0][0]
    chosen = [best for best in faster if best.backend == name]
    where = name_models([best.outcome.model for best in chosen])
    taken, speed = " and ".join(_choices_of(chosen)) or name, ratio_range([best.outcome for best in chosen])
    if after_others:
        return [f"Train {where} with PyTorch and take {taken}: {speed} the speed of {than}."]
    return [f"Train with PyTorch and take {taken}: {speed} the speed of {than} on {where}."]


def _choices_of(chosen: Sequence[BestPyTorch]) -> list[str]:
    """What one backend takes otherwise than the reference, on all of these models or on some of them."""
    count = Counter(choice for best in chosen for choice in best.choices)
    return [
        _CHOICES.get(choice, f"{choice[0]} {choice[1]}")
        + ("" if models == len(chosen) else " where the model has it")
        for choice, models in count.items()
    ]

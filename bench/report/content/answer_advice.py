"""What follows from an answer: what to train with, and what to measure next."""

from collections import Counter
from collections.abc import Sequence

from bench.analysis.answer import (
    FASTER,
    INCONCLUSIVE,
    SAME,
    SLOWER,
    VERDICTS,
    BestPyTorch,
    ModelsAnswer,
)
from bench.report.words.formatting import TIMES, name_models, ratio_range

_CHOICES = {
    ("optimizer", "adamw_fused"): "torch.optim.AdamW(fused=True)",
    ("attention", "sdpa"): "PyTorch's own attention (sdpa)",
    ("engine", "compile"): "torch.compile",
    ("stack", "modern"): "today's PyTorch (make setup STACK=modern)",
}
"""A choice of the best PyTorch, as somebody would make it in a program of theirs."""


def advise(answer: ModelsAnswer, subject: str) -> str:
    """What to do with the first backend, for every model by the strictest PyTorch measured beside it."""
    backend = answer.backends[0]
    over_any = (*backend.over_reference, *backend.over_best)
    with_path = (*backend.full_path, *backend.full_path_over_best)
    verdicts: dict[str, set[str]] = {}
    for outcome in (*over_any, *with_path):
        verdicts.setdefault(outcome.model, set()).add(outcome.verdict)
    if all(outcome.failed for outcome in (*over_any, *with_path)):
        return f"See in the table why {subject} has no result; make doctor says what this machine can run."
    if not set(VERDICTS) & set().union(*verdicts.values()):
        return "Measure several launches, as measure=default does."
    faster = [model for model, verdicts_of in verdicts.items() if verdicts_of == {FASTER}]
    others = [model for model in verdicts if model not in faster]
    # models on which MKL holds PyTorch back, and nobody has measured how much
    not_tried = set(answer.held_back_by_mkl) - {outcome.model for outcome in backend.full_path}
    untried = [model for model in faster if model in not_tried]
    pays = [model for model in faster if model not in not_tried]
    # models on which it is faster as installed, but not with MKL's full path
    faster_as_installed = {each.model for each in backend.over_reference if each.verdict == FASTER}
    lost = dict.fromkeys(outcome.model for outcome in with_path if outcome.verdict in (SAME, SLOWER))
    held_back = [model for model in lost if model in faster_as_installed and model in others]
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
    best_there = [best for best in answer.best_with_full_path if best.outcome.model in held_back]
    best_here = [best for best in answer.best if best.outcome.model in set(others) - set(held_back)]
    steps += _use_best(best_there, than="plain PyTorch with that path", after_others=bool(faster))
    steps += _use_best(best_here, than="plain PyTorch", after_others=bool(faster or held_back))
    if answer.only_one_pytorch:
        models = name_models(answer.only_one_pytorch)
        steps.append(f"Measure pytorch_best beside {models}: only {answer.reference} was.")
    if undecided:
        steps.append(f"Measure more launches of {name_models(undecided)} (measure=thorough).")
    return " ".join(steps) or f"Keep {answer.reference}."


def _use_best(bests: Sequence[BestPyTorch], *, than: str, after_others: bool) -> list[str]:
    """Which PyTorch to train with, if one was faster than the reference, which is called `than`.

    A sentence about other models may stand before it; then it begins with the models.
    """
    faster = [best for best in bests if best.outcome.verdict == FASTER]
    if not faster:
        return []
    name = Counter(best.backend for best in faster).most_common(1)[0][0]
    chosen = [best for best in faster if best.backend == name]
    where = name_models([best.outcome.model for best in chosen])
    # what it takes otherwise than the reference, on all of these models or on some of them
    taken = " and ".join(
        _CHOICES.get(choice, f"{choice[0]} {choice[1]}")
        + ("" if models == len(chosen) else " where the model has it")
        for choice, models in Counter(choice for best in chosen for choice in best.choices).items()
    )
    speed = ratio_range([best.outcome.speedup.ratio for best in chosen if best.outcome.speedup]) + TIMES
    if after_others:
        return [f"Train {where} with PyTorch and take {taken or name}: {speed} the speed of {than}."]
    return [f"Train with PyTorch and take {taken or name}: {speed} the speed of {than} on {where}."]

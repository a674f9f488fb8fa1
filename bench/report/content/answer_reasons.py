"""What follows the answer: why, from profiled steps; and what to train with and to measure next."""

from collections import Counter
from collections.abc import Sequence

from bench.analysis.answer import (
    FASTER,
    INCONCLUSIVE,
    NO_SPEEDUP,
    SAME,
    SLOWER,
    VERDICTS,
    BackendAnswer,
    BestPyTorch,
    Effect,
    ModelsAnswer,
    Why,
)
from bench.report.content.notes import LEAST_SHARE
from bench.report.words.formatting import TIMES, name_models, plural, ratio_range

MOST_KINDS = 2  # kinds of work that are named, of those that save time and of those that cost it

_KINDS = {
    "optimizer": "the optimizer's step",
    "loss": "the loss",
    "elementwise": "elementwise work",
    "embedding": "embeddings",
    "copies": "copies and casts",
}
"""Kinds of work that need other words in a sentence."""


def because(subject: str, why: Why) -> str:
    """What saves time, what costs it, in how many models; and what the profiles do not explain."""
    named = [effect for effect in why.effects if abs(effect.share) >= LEAST_SHARE]
    saves = _strongest([effect for effect in named if effect.amount.value < 0])
    costs = _strongest([effect for effect in named if effect.amount.value > 0])
    models = len(why.models)
    sentences = []
    if saves or costs:
        parts = [
            f"{verb} time in "
            + " and ".join(
                f"{_KINDS.get(kind, kind)} ({_shares(of, models)})" for kind, of in effects.items()
            )
            for verb, effects in (("saves", saves), ("loses", costs))
            if effects
        ]
        where = f"in {plural(models, 'profiled model')}" if models > 1 else f"on {why.models[0]}"
        sentences.append(f"Of PyTorch's step {where}, {subject} {' and '.join(parts)}.")
    elif why.models:
        sentences.append("The profiled steps show no kind of work that differs for sure by 1 % or more.")
    for kind in saves:
        if kind == "matrix products" and why.mkl_held_back:
            maker = "which takes a slower path on a CPU that Intel did not make"
            sentences.append(f"PyTorch multiplies with MKL, {maker}.")
        if kind == "optimizer" and why.optimizer == "adamw_fused":
            sentences.append("The optimizer is PyTorch's own fused AdamW, which needs no ONNX Runtime.")
    if why.unexplained:
        sentences.append(f"The profile does not explain the difference on {name_models(why.unexplained)}.")
    return " ".join(sentences)


def _strongest(effects: Sequence[Effect]) -> dict[str, list[Effect]]:
    """The kinds of work with the largest shares in all models together, with their effects."""
    by_kind: dict[str, list[Effect]] = {}
    for effect in effects:
        by_kind.setdefault(effect.kind, []).append(effect)
    ordered = sorted(by_kind.items(), key=lambda item: -sum(abs(effect.share) for effect in item[1]))
    return dict(ordered[:MOST_KINDS])


def _shares(effects: Sequence[Effect], models: int) -> str:
    """`4 to 8 %`, and in how many of the models if not in all."""
    shares = [abs(effect.share) for effect in effects]
    words = " to ".join(dict.fromkeys(f"{100 * share:.0f}" for share in (min(shares), max(shares))))
    return f"{words} %" if len(effects) == models else f"{words} % in {len(effects)} of them"


# What to do

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
        disturbed = set().union(*verdicts.values()) <= {"invalid", NO_SPEEDUP}
        doctor = "make doctor says what this machine can run"
        remedy = "put that right and measure anew" if disturbed else doctor
        return f"See in the table why {subject} has no result; {remedy}."
    if not set(VERDICTS) & set().union(*verdicts.values()):
        return "Measure several launches, as measure=default does."
    faster = [model for model, verdicts_of in verdicts.items() if verdicts_of == {FASTER}]
    others = [model for model in verdicts if model not in faster]
    # models on which MKL holds PyTorch back, and nobody has measured how much
    not_tried = set(answer.held_back_by_mkl) - {outcome.model for outcome in backend.full_path}
    untried = [model for model in faster if model in not_tried]
    pays = [model for model in faster if model not in not_tried]
    lost = _lost_with_path(backend)
    held_back = [model for models in lost.values() for model in models]
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
        path = "Give PyTorch MKL's full path (device.blas=full; docs/methodology.md, Fairness)"
        parts = [f"{begin} {subject} is not faster on {name_models(on)}" for begin, on in lost.items() if on]
        steps.append(f"{path}: {'; '.join(parts)}.")
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


def _lost_with_path(backend: BackendAnswer) -> dict[str, list[str]]:
    """Models on which it is faster as installed, but not with MKL's full path; by what else that takes."""
    faster = {each.model for each in backend.over_reference if each.verdict == FASTER}
    plain, best = (
        [each.model for each in outcomes if each.verdict in (SAME, SLOWER) and each.model in faster]
        for outcomes in (backend.full_path, backend.full_path_over_best)
    )
    of_best = [model for model in best if model not in plain]
    return {"with it": plain, "with it and PyTorch at its best,": of_best}


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

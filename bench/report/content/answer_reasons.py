"""What follows the answer: why, from profiled steps; and what to do, by three rules over the table beside."""

from collections.abc import Sequence
from itertools import chain

from bench.analysis.answer import FASTER, INCONCLUSIVE, ONE_LAUNCH, SAME, SLOWER, Effect, ModelsAnswer, Why
from bench.report.content.notes import LEAST_SHARE
from bench.report.words.formatting import enumerated, name_models, plural

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


def what_to_do(answer: ModelsAnswer, subject: str) -> str:
    """What follows for each model from the columns of the first backend in the table, by one of three rules.

    A model that none of them names has failed, or must not be compared: its row says so.
    """
    backend = answer.backends[0]
    columns = (backend.over_reference, backend.over_best, backend.full_path, backend.full_path_over_best)
    verdicts: dict[str, set[str]] = {}
    for outcome in chain(*columns):
        verdicts.setdefault(outcome.model, set()).add(outcome.verdict)
    beside, tried = {*answer.only_one_pytorch}, {outcome.model for outcome in backend.full_path}
    lacks_path = {*answer.held_back_by_mkl} - tried
    train, keep, measure = [], [], []
    for model, found in verdicts.items():
        if found & {SLOWER, SAME}:
            keep.append(model)
        elif found == {FASTER} and model not in beside | lacks_path:
            train.append(model)
        elif found <= {FASTER, INCONCLUSIVE, ONE_LAUNCH}:
            measure.append(model)
    undecided = [model for model in measure if verdicts[model] != {FASTER}]
    with_path = {each.model for each in chain(*columns[2:]) if each.verdict in (SLOWER, SAME)}
    reasons = [
        *["inconclusive or of one launch (measure=thorough)"] * bool(undecided),
        *["without a value over the best PyTorch (pytorch_best)"] * bool(beside.intersection(measure)),
        *["without a value for MKL's full path (device.blas=full)"] * bool(lacks_path.intersection(measure)),
    ]
    path = " (with device.blas=full where that is MKL's full path)" if with_path.intersection(keep) else ""
    pytorch = answer.reference if subject == backend.backend else "PyTorch"
    column = f"column of {backend.backend}"
    why = enumerated(reasons, " or ")
    rules = (
        (train, f"Train {name_models(train)} with {subject}: every {column} says faster."),
        (keep, f"Keep {pytorch} for {name_models(keep)}: a {column} says slower or same{path}."),
        (measure, f"Measure {name_models(measure)} before you decide: a {column} is {why}."),
    )
    return " ".join(rule for models, rule in rules if models)

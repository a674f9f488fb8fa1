"""Why a backend is faster or slower, in a sentence over several models: from their profiled steps."""

from collections.abc import Sequence

from bench.analysis.answer import Effect, Why
from bench.report.content.answer_numbers import name_models
from bench.report.words.formatting import plural

MOST_KINDS = 2
"""Kinds of work that are named, of those that save time and of those that cost it."""

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
    saves = _strongest([effect for effect in why.effects if effect.amount.value < 0])
    costs = _strongest([effect for effect in why.effects if effect.amount.value > 0])
    many = len(why.models)
    said = []
    if saves or costs:
        sides = (("saves", saves), ("loses", costs))
        parts = [f"{verb} time in {_kinds(effects, many)}" for verb, effects in sides if effects]
        of = f"in {plural(many, 'profiled model')}" if many > 1 else f"on {why.models[0]}"
        said.append(f"Of PyTorch's step {of}, {subject} {' and '.join(parts)}.")
    elif why.models:
        said.append("The profiled steps show no kind of work that differs for sure.")
    causes = {}
    if why.mkl_held_back:
        causes["matrix products"] = (
            "PyTorch multiplies with MKL, which takes a slower path on a CPU that Intel did not make."
        )
    if why.optimizer == "adamw_fused":
        causes["optimizer"] = "The optimizer is PyTorch's own fused AdamW, which needs no ONNX Runtime."
    said += [causes[kind] for kind, _ in saves if kind in causes]
    if why.unexplained:
        said.append(f"The profile does not explain the difference on {name_models(why.unexplained)}.")
    return " ".join(said)


def _strongest(effects: Sequence[Effect]) -> list[tuple[str, list[Effect]]]:
    """The kinds of work with the largest shares in all models together."""
    by_kind: dict[str, list[Effect]] = {}
    for effect in effects:
        by_kind.setdefault(effect.kind, []).append(effect)
    total = {kind: sum(abs(effect.share) for effect in of) for kind, of in by_kind.items()}
    return [(kind, by_kind[kind]) for kind in sorted(total, key=lambda kind: -total[kind])[:MOST_KINDS]]


def _kinds(found: Sequence[tuple[str, Sequence[Effect]]], many: int) -> str:
    return " and ".join(f"{_KINDS.get(kind, kind)} ({_shares(effects, many)})" for kind, effects in found)


def _shares(effects: Sequence[Effect], many: int) -> str:
    """`4 to 8 %`, and in how many of the models if not in all."""
    shares = sorted(abs(effect.share) for effect in effects)
    low, high = _percent(shares[0]), _percent(shares[-1])
    words = f"{high} %" if low == high else f"{low} to {high} %"
    return words if len(effects) == many else f"{words} in {len(effects)} of them"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}" if share >= 0.0095 else f"{100 * share:.1f}"

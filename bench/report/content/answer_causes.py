"""Why a backend is faster or slower, in a sentence over several models: from their profiled steps."""

from collections.abc import Sequence

from bench.analysis.answer import Effect, Why
from bench.report.words.formatting import name_models, plural

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
        sentences.append("The profiled steps show no kind of work that differs for sure.")
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
    words = " to ".join(dict.fromkeys(map(_percent, (min(shares), max(shares)))))
    return f"{words} %" if len(effects) == models else f"{words} % in {len(effects)} of them"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}" if share >= 0.0095 else f"{100 * share:.1f}"

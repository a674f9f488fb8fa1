"""How training is followed to a held-out loss."""

from dataclasses import dataclass

from bench.config.fields import above_zero, at_least

UNHASHED = ()


@dataclass(kw_only=True)
class Settings:
    """Keys of `measure`."""

    # steps of a block; after each block the held-out loss is computed
    evaluate_every: int | None = at_least(1, None)
    # of those, the one to reach
    target_loss: float | None = above_zero(None, most=5.5, why="a model that has learnt nothing is there")
    # final ones that differ by less are equivalent
    margin_loss: float | None = above_zero(None, most=0.5, why="learning little would equal learning much")

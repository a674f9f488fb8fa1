"""What all backends of a comparison train with alike: the optimizer's settings and the precision."""

from dataclasses import dataclass

from bench.config.choices import PRECISIONS
from bench.config.fields import above_zero, at_least, below_one, check_fields, one_of
from bench.errors import UserError

INITIAL_SCALE, GROWTH_STEPS = 65536.0, 2000
"""In fp16 the loss is multiplied by a scale that halves when a gradient overflows (that step is skipped) and
doubles after 2000 steps without one (Micikevicius et al. 2017, arXiv:1710.03740, 3.2). The defaults of
torch.amp.GradScaler."""

LEAST_LR, MOST_EPS = 1e-8, 1.0
"""An fp32 weight of 0.02, as models begin with, moves by steps of 2e-9, and Adam's step is no longer than the
learning rate; far shorter where `eps` is above the gradients."""


@dataclass(kw_only=True)
class Adam:
    """Settings of AdamW (decoupled weight decay), the same for every optimizer of a comparison."""

    lr: float = above_zero()
    beta1: float = below_one()
    beta2: float = below_one()
    eps: float = at_least(0)
    weight_decay: float = at_least(0)

    def __post_init__(self) -> None:
        check_fields(self, "adam.")
        if self.lr < LEAST_LR or self.eps > MOST_EPS:
            raise UserError(
                f"adam.lr={self.lr:g} with adam.eps={self.eps:g} hardly moves any weight, so that parity "
                "sees no lost update",
                f"set adam.lr={LEAST_LR:g} or more, and adam.eps={MOST_EPS:g} or less",
            )


@dataclass(kw_only=True)
class Precision:
    """Number formats of the matrix products; what the optimizer updates and its states are fp32.

    So are weights and gradients, unless the sharding has 16-bit ones (bench.config.choices.IN_16_BITS_ALONE).
    """

    name: str = one_of(*PRECISIONS)

    def __post_init__(self) -> None:
        check_fields(self, "precision.")

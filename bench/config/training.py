"""What all backends of a comparison train with alike: the optimizer's settings and the precision."""

from dataclasses import dataclass

from bench.config.choices import PRECISIONS
from bench.config.fields import above_zero, at_least, below_one, check_fields, one_of
from bench.errors import UserError

LARGEST_SCALE = 2**40
"""The largest loss scale to begin with: 40 halvings above 1;
bench.worker.rank.training allows 64 in a row."""

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
    # fp16: the loss is multiplied by a scale that halves when a gradient overflows (that step is skipped)
    # and doubles after `growth_steps` steps without (Micikevicius et al. 2017, arXiv:1710.03740, 3.2)
    initial_scale: float | None = at_least(1, None)
    growth_steps: int | None = at_least(1, None)

    @classmethod
    def named(cls, name: str) -> "Precision":
        """Return the precision of that name, fp16 with the defaults of torch.amp.GradScaler."""
        return cls(name=name, initial_scale=65536.0, growth_steps=2000) if name == "fp16" else cls(name=name)

    def __post_init__(self) -> None:
        check_fields(self, "precision.")
        scaled = self.name == "fp16"
        for key in ("initial_scale", "growth_steps"):
            if (getattr(self, key) is not None) != scaled:
                raise UserError(
                    f"precision.{key} scales the loss of fp16 alone; "
                    + (f"set precision.{key}=…." if scaled else f"set precision.{key}=null.")
                )
        if self.initial_scale is not None and self.initial_scale > LARGEST_SCALE:
            raise UserError(
                f"precision.initial_scale must be at most {LARGEST_SCALE}, not {self.initial_scale:g}: "
                "fp16 ends at 65504, and every halving costs a step."
            )

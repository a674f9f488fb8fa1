"""What all backends of a comparison train with alike: the optimizer's settings and the precision."""

from dataclasses import dataclass

from bench.config.checks import above_zero, at_least, one_of
from bench.config.choices import GROWTH_STEPS, INITIAL_SCALE, LARGEST_SCALE, PRECISIONS
from bench.errors import UserError


@dataclass(kw_only=True)
class Adam:
    """Settings of AdamW (decoupled weight decay), the same for every optimizer of a comparison."""

    lr: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float

    def __post_init__(self) -> None:
        above_zero("adam.lr", self.lr)
        at_least("adam.eps", self.eps, 0)
        at_least("adam.weight_decay", self.weight_decay, 0)
        for key, beta in (("adam.beta1", self.beta1), ("adam.beta2", self.beta2)):
            if not 0 <= beta < 1:
                raise UserError(f"{key} must be at least 0 and below 1, not {beta}.")


@dataclass(kw_only=True)
class Precision:
    """Number formats of the matrix products; what the optimizer updates and its states are fp32.

    So are weights and gradients, unless the sharding has 16-bit ones (bench.config.choices.IN_16_BITS_ALONE).
    """

    name: str
    # fp16: the loss is multiplied by a scale that halves when a gradient overflows (that step is skipped)
    # and doubles after `growth_steps` steps without (Micikevicius et al. 2017, arXiv:1710.03740, 3.2)
    initial_scale: float | None = None
    growth_steps: int | None = None

    @classmethod
    def named(cls, name: str) -> "Precision":
        """Return the precision of that name, fp16 with the defaults of torch.amp.GradScaler."""
        scaled = name == "fp16"
        return cls(
            name=name,
            initial_scale=INITIAL_SCALE if scaled else None,
            growth_steps=GROWTH_STEPS if scaled else None,
        )

    def __post_init__(self) -> None:
        one_of("precision.name", self.name, PRECISIONS)
        scaled = self.name == "fp16"
        for key in ("initial_scale", "growth_steps"):
            value = getattr(self, key)
            if (value is not None) != scaled:
                raise UserError(
                    f"precision.{key} scales the loss of fp16 alone; "
                    + (f"set precision.{key}=…." if scaled else f"set precision.{key}=null.")
                )
            if value is not None:
                at_least(f"precision.{key}", value, 1)
        if self.initial_scale is not None and self.initial_scale > LARGEST_SCALE:
            raise UserError(
                f"precision.initial_scale must be at most {LARGEST_SCALE}, not {self.initial_scale:g}: "
                "fp16 ends at 65504, and every halving costs a step."
            )

"""The settings of `measure`: how long and how often blocks are timed, and when to stop."""

from dataclasses import dataclass

from bench.config.checks import above_zero, at_least, at_most, one_of
from bench.config.choices import BATCHES, LARGEST_COUNTS, PARTS, RESIDENTS
from bench.errors import UserError


@dataclass(kw_only=True)
class Measure:
    """How long and how often is measured."""

    launches: int  # 0: parity alone, nothing is timed
    rounds: int
    block_seconds: float
    warmup_steps: int  # of each warm-up block; there are at least two after the first step
    preheat_s: float  # of training after the warm-up, the same for every backend; 0: none
    resident: str  # all: every group stays alive, rounds rotate; one: one group at a time
    parity_steps: int
    parity_tolerance: float  # relative, on the loss of every parity step
    margin: float  # a speed-up inside ± margin is called `same`
    repeats: int  # contaminated blocks that a backend may measure again in each launch
    until: float | None  # half-width, such as 0.01: launches are added until every interval is as narrow
    most_launches: int  # the caps of `until`
    most_seconds: float  # of all launches, not counting parity
    timeout_s: float  # the longest that one backend may take in one launch, everything together
    wait_s: float  # for other processes to leave the cores alone, of all launches together; 0: do not wait
    batch: str = "equal"  # max: each backend at the largest micro-batch that fits
    explain: bool = False  # profile every backend after the timed launches
    parts: str | None = None  # then find out what a step consists of, and what ranks send each other
    most_trials: int = 12  # launches that the search for it may take, of each backend
    evaluate_every: int | None = None  # steps of a block, after each of which the held-out loss is computed
    target_loss: float | None = None  # of those, the one to reach
    margin_loss: float | None = None  # final ones that differ by less are equivalent

    def __post_init__(self) -> None:
        one_of("measure.batch", self.batch, BATCHES)
        at_least("measure.most_trials", self.most_trials, 2)
        one_of("measure.resident", self.resident, RESIDENTS)
        if self.parts is not None:
            one_of("measure.parts", self.parts, PARTS)
        at_least("measure.launches", self.launches, 0)
        at_least("measure.rounds", self.rounds, 1)
        at_least("measure.warmup_steps", self.warmup_steps, 1)
        at_least("measure.parity_steps", self.parity_steps, 2)
        at_least("measure.repeats", self.repeats, 0)
        at_least("measure.most_launches", self.most_launches, 1)
        at_least("measure.timeout_s", self.timeout_s, 1)
        at_least("measure.wait_s", self.wait_s, 0)
        at_least("measure.preheat_s", self.preheat_s, 0)
        above_zero("measure.most_seconds", self.most_seconds)
        for key, most in LARGEST_COUNTS.items():
            at_most(f"measure.{key}", getattr(self, key), most, "a larger number is likely a typing mistake")
        if self.until is not None:
            above_zero("measure.until", self.until)
        if not self.launches and (self.until is not None or self.batch == "max"):
            key = "until" if self.until is not None else "batch=max"
            raise UserError(
                f"measure.{key} needs launches that are timed, and measure.launches=0 has none",
                "leave one of them out",
            )
        self._check_convergence()
        for key in ("block_seconds", "parity_tolerance", "margin"):
            above_zero(f"measure.{key}", getattr(self, key))
        blocks = self.rounds * self.block_seconds
        if blocks > self.timeout_s:
            raise UserError(
                f"measure.rounds={self.rounds} of measure.block_seconds={self.block_seconds:g} take longer "
                f"than measure.timeout_s={self.timeout_s:g}, which ends a launch",
                f"set measure.timeout_s={2 * blocks:g}",
            )

    def _check_convergence(self) -> None:
        """Refuse what leaves a way to the target without a meaning, and a target without a way to it."""
        if self.evaluate_every is None:
            for key in ("target_loss", "margin_loss"):
                if getattr(self, key) is not None:
                    raise UserError(
                        f"measure.{key} has no effect without measure.evaluate_every",
                        "choose measure=converge, or leave it out",
                    )
            return
        at_least("measure.evaluate_every", self.evaluate_every, 1)
        for key in ("target_loss", "margin_loss"):
            value = getattr(self, key)
            if value is None:
                raise UserError(
                    f"measure.evaluate_every needs measure.{key}, which says what the held-out losses are "
                    "judged by",
                    f"set measure.{key}=…",
                )
            above_zero(f"measure.{key}", value)
        if self.launches < 2:
            raise UserError(
                f"measure.evaluate_every needs several launches, each of which is a seed, and "
                f"measure.launches={self.launches} has no interval",
                "set measure.launches=5",
            )
        others = {
            "batch": ("equal", "gives each backend a batch, and so steps, of its own"),
            "until": (None, "ends when speed is known, not when the target is reached"),
            "repeats": (0, "would train a backend for longer than the others"),
            "preheat_s": (0, "would train a fast backend for more steps than a slow one"),
        }
        for key, (wanted, why) in others.items():
            found = getattr(self, key)
            if found != wanted:
                shown = "null" if wanted is None else wanted
                raise UserError(
                    f"measure.{key}={found} {why}, and with measure.evaluate_every equal steps are compared",
                    f"set measure.{key}={shown}",
                )

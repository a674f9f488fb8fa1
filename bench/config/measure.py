"""The settings of `measure`: how long and how often blocks are timed, and when to stop."""

from dataclasses import dataclass, make_dataclass

from bench.config.fields import above_zero, at_least, check_fields, one_of
from bench.errors import UserError
from bench.study import load_parts

SATURATING = "saturating"


@dataclass(kw_only=True)
class Measure:
    """How long and how often blocks are timed."""

    name: str = "default"  # of the file that the rest began with
    launches: int = at_least(0)  # 0: parity alone, nothing is timed
    rounds: int = at_least(1)
    block_seconds: float = above_zero()
    min_steps: int = at_least(1, 1)  # of a block, however long they take
    # of untimed steps that each block begins with, two of them at least; 0: none
    block_warmup_s: float = at_least(0, 0.0)
    # of each warm-up block; there are at least two after the first step
    warmup_steps: int = at_least(1)
    # of training after the warm-up, in equal parts by all groups that take turns; 0: none
    preheat_s: float = at_least(0)
    # all groups stay alive and rounds rotate, on GPUs as long as memory suffices; or one group at a time
    schedule: str = one_of("interleaved", "sequential")
    # the gradients of the first three are compared
    parity_steps: int = at_least(3)
    # relative, on the loss of every parity step
    parity_tolerance: float = above_zero(most=0.1, why="a backend that learns nothing could pass")
    # a speed-up inside ± margin is called `same`
    margin: float = above_zero(most=0.2, why="published speed-ups would be called `same`")
    # contaminated blocks that a backend may measure again in each launch
    repeats: int = at_least(0)
    # half-width, such as 0.01: launches are added until every interval is as narrow
    target_half_width: float | None = above_zero(
        most=0.2, why="launches would end before the faster one is known"
    )
    max_launches: int = at_least(1)  # the cap of `target_half_width`
    timeout_s: float = at_least(1)  # the longest that one backend may take in one launch, everything together
    wait_s: float = at_least(0)  # for others to leave the cores alone, all launches together; 0: do not wait
    # max: each backend at the largest micro-batch that fits
    # saturating: all at the one that fills the GPU, found by doubling
    batch: str = one_of("equal", "max", SATURATING, default="equal")
    max_trials: int = at_least(2, 12)  # launches that the search for the batch may take, of each backend

    def __post_init__(self) -> None:
        check_fields(self, "measure.")
        if not self.launches and (self.target_half_width is not None or self.batch != "equal"):
            key = "target_half_width" if self.target_half_width is not None else f"batch={self.batch}"
            raise UserError(
                f"measure.{key} needs launches that are timed, and measure.launches=0 has none",
                "leave one of them out",
            )


OF_STUDIES = load_parts("settings").values()

MeasureWithStudies: type[Measure] = make_dataclass(
    "MeasureWithStudies",
    (),
    bases=(*(part.Settings for part in OF_STUDIES), Measure),
    kw_only=True,
    namespace={"__module__": __name__},  # so that it can be pickled
)
"""`Measure` with the settings of every study that is there."""

UNHASHED = {"name", "timeout_s", "wait_s", "max_launches"}.union(*(part.UNHASHED for part in OF_STUDIES))
"""Those that do not change what is measured."""

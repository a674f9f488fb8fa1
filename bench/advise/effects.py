"""What choices did to the speed of training on this machine, in what was measured here."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from bench.advise.bounds import ANYTHING, Bounds
from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.methods import find_methods
from bench.report.content.collection import collect
from bench.report.files import files_of, is_machine

OTHER_MODEL = 0.25  # by what share a choice may do more or less for a model than for those that were measured

WRONG = ("diverged", "fallback")
"""Statuses that a choice has with every model of a kind: it computes something else."""

PARTS = "grad_accum"  # the choice of how many parts a micro-batch is trained in


Choice = tuple[str, str]  # a choice of a backend and its value, such as `("precision", "bf16")`


@dataclass(frozen=True, kw_only=True)
class Effects:
    """What choices did, against plain PyTorch."""

    # by the choices that were made together, the bounds of throughput over that without them, over all models
    # that were measured
    speed: Mapping[frozenset[Choice], Bounds]
    # by a choice that was made alone and never timed, how it ended, as `diverged on bert-mini`
    wrong: Mapping[Choice, str]

    def of(self, choices: Set[Choice]) -> tuple[Bounds, int]:
        """The bounds of speed of these choices together, and of how many measurements they are the product.

        Choices that were measured together count as one measurement; of a choice that was never measured
        nothing is known.
        """
        left, product, factors = set(choices), Bounds(1.0, 1.0), 0
        for known in sorted(self.speed, key=len, reverse=True):
            if known <= left:
                product *= self.speed[known]
                left -= known
                factors += 1
        return (ANYTHING, factors) if left else (product, factors)


def read_comparisons(results_dir: Path) -> Sequence[ComparisonResults]:
    """All comparisons of the machine of a study; what cannot be read is left out: `make report` names it."""
    machine = results_dir.parent
    folders = sorted(machine.iterdir()) if is_machine(machine) else [results_dir]
    return collect(files_of(*folders)).comparisons


def find_effects(
    comparisons: Sequence[ComparisonResults], machine_key: tuple[str, ...], plain: Mapping[str, str]
) -> Effects:
    """The effects on the machine of this key, whatever the ranks and threads.

    `plain` has the choices of plain PyTorch here; what was measured against another is left out.
    """
    seen: dict[frozenset[Choice], list[Bounds]] = {}
    before = {**plain, PARTS: "1"}  # what the baseline of a measurement must have
    wrong: dict[Choice, str] = {}
    for comparison in comparisons:
        if comparison.machine_key != machine_key or comparison.uncontrolled or comparison.at_largest:
            continue
        if (methods := find_methods(comparison)) is None or methods.reference != "pytorch":
            continue
        for method in methods.methods:
            changes = method.changes
            if not changes or any(change.before != before.get(change.choice) for change in changes):
                continue
            choices = frozenset((change.choice, change.after) for change in changes)
            speedup = method.speedup
            if speedup is not None and speedup.low is not None and speedup.high is not None:
                seen.setdefault(choices, []).append(Bounds(speedup.low, speedup.high))
            elif method.status in WRONG and len(choices) == 1:
                model = str(comparison.rows["model"].iloc[0])
                wrong.setdefault(next(iter(choices)), f"{method.status} on {model}")
    widened = {
        choices: Bounds(
            min(each.low for each in bounds) * (1 - OTHER_MODEL),
            max(each.high for each in bounds) * (1 + OTHER_MODEL),
        )
        for choices, bounds in seen.items()
    }
    never_timed = {choice: words for choice, words in wrong.items() if frozenset([choice]) not in seen}
    return Effects(speed=widened, wrong=never_timed)

"""Which comparisons and backends stand in a chart or a table of many models, and what stands together."""

from collections.abc import Sequence

from bench.errors import UserError
from bench.report.content.collection import Collection, ReportedComparison
from bench.report.words.formatting import one_line

CHART_BACKENDS = ("ortmodule", "ortmodule_zero1")
"""The bars of a chart and what a page answers about, unless others are asked for."""


def parse_names(words: str) -> list[str]:
    """The names in a list such as `gpt2,bert-large`."""
    return [name.strip() for name in words.split(",") if name.strip()]


def panels_of(comparisons: Sequence[ReportedComparison]) -> dict[str, list[ReportedComparison]]:
    """Comparisons by machine, rule of batches and reference, which its heading names."""
    machines = Collection(comparisons=comparisons).panels
    if len({comparison.reference for comparison in comparisons}) < 2:
        return machines
    panels: dict[str, list[ReportedComparison]] = {}
    for heading, group in machines.items():
        for comparison in group:
            panels.setdefault(f"{heading}; over {one_line(comparison.reference)}", []).append(comparison)
    return panels


def choose_one_of_each_model(comparisons: Sequence[ReportedComparison]) -> list[ReportedComparison]:
    """One comparison of each model and workload: that with most of the usual backends.

    If several have as many, that with fewest overrides, then that measured last.
    """

    def key(one: ReportedComparison) -> tuple[int, int]:
        return -sum(one.of(name) is not None for name in CHART_BACKENDS), len(one.overrides)

    latest_first = sorted(comparisons, key=lambda one: one.stem)
    latest_first.sort(key=lambda one: one.measured_at, reverse=True)
    chosen: dict[tuple[str, ...], ReportedComparison] = {}
    for one in sorted(latest_first, key=key):
        chosen.setdefault(one.workload_key, one)
    return [comparison for comparison in comparisons if chosen[comparison.workload_key] is comparison]


def choose_backends(comparisons: Sequence[ReportedComparison], wanted: Sequence[str]) -> list[str]:
    """The backends to show: those that are wanted, or the usual ones that at least one comparison tried.

    Raises:
        UserError: a wanted one is in no comparison, or there is no backend but references.
    """
    there = list(dict.fromkeys(other.backend for comparison in comparisons for other in comparison.others))
    references = {comparison.reference for comparison in comparisons}
    for name in wanted:
        if name in references:
            raise UserError(f"{name} is the reference, which is the line at 1", "leave it out of --backends")
        if name not in there:
            raise UserError(f"no comparison has the backend {name}", f"choose of {', '.join(sorted(there))}")
    chosen = list(dict.fromkeys(wanted)) or [name for name in CHART_BACKENDS if name in there] or there
    if not chosen:
        raise UserError("these comparisons have no backend beside the reference", "measure another one")
    return chosen


def choose_models(
    comparisons: Sequence[ReportedComparison], wanted: Sequence[str]
) -> list[ReportedComparison]:
    """The comparisons of these models, in the order of the files; all without any.

    Raises:
        UserError: a wanted model is in no comparison.
    """
    there = sorted({comparison.model for comparison in comparisons})
    if unknown := [name for name in wanted if name not in there]:
        raise UserError(f"no comparison is of the model {unknown[0]}", f"choose of {', '.join(there)}")
    return [comparison for comparison in comparisons if not wanted or comparison.model in wanted]


def showable(
    comparisons: Sequence[ReportedComparison], *, as_speedup: bool
) -> tuple[list[ReportedComparison], list[str]]:
    """The comparisons whose numbers are results, and a sentence for each of the others.

    Args:
        comparisons: of any kind.
        as_speedup: whether speeds are shown; less memory at each backend's largest batch means nothing.

    Raises:
        UserError: none is left.
    """
    kept, left_out = [], []
    for comparison in comparisons:
        if comparison.uncontrolled:
            reason = "it leaves threads or allocator alone on purpose"
        elif {"ok", "untimed"} & {summary.status for summary in comparison.summaries} == {"untimed"}:
            reason = "nothing of it was timed"
        elif comparison.at_largest and not as_speedup:
            reason = "each backend fills the memory with a batch of its own"
        else:
            kept.append(comparison)
            continue
        left_out.append(f"{comparison.stem} is left out: {reason}")
    if not kept:
        reasons = f" ({'; '.join(left_out)})" if left_out else ""
        raise UserError(f"there is no comparison to draw{reasons}", "measure with `make bench`")
    return kept, left_out

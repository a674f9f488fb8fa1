"""Words about a chart of many models: the caption below it, and its text alternative."""

from collections.abc import Sequence

from bench.analysis import reference
from bench.report.content.quantities import SPEEDUP, Ratio
from bench.report.figures.model_chart import ModelBar, ModelChart, ModelLine, hardware_of
from bench.report.words.formatting import TIMES, enumerated, one_line, plural

_OWN = ("task", "batch", "length")
"""Parts of a workload that may differ between the models of a chart without being named at each."""


def caption(chart: ModelChart) -> str:
    """How to read the chart, on which machine it was measured, and of which workload."""
    names = ", ".join(dict.fromkeys(one_line(line.best[0]) for line in chart.lines if line.best))
    sentences = [
        chart.quantity.caption.format(chart.reference),
        *_notes(chart),
        *machine_and_workload(chart),
        f"Upright mark: the fastest PyTorch of the same comparison{names and f' ({names})'}.",
        *_about_published(chart),
    ]
    return " ".join(sentences)


def machine_and_workload(chart: ModelChart) -> list[str]:
    """The machine, unless headings name several; what all have in common, and what is each model's own."""
    comparisons = chart.comparisons
    machine = [f"Machine: {comparisons[0].panel}."] if len(chart.panels) == 1 else []
    parts = [one.workload_parts for one in comparisons]
    own = [name for name in _OWN if len({workload[name] for workload in parts}) > 1]
    common = [
        value
        for name, value in parts[0].items()
        if name != "size" and {workload[name] for workload in parts} == {value}
    ]
    launches = {int(one.rows["launch"].max()) for one in comparisons}
    few, many = min(launches), max(launches)
    extent = plural(many, "launch", "es") if few == many else f"{few} to {many} launches"
    workload = f"Workload: {one_line(', '.join(filter(None, common)))}"
    if own:
        names = enumerated(own)
        workload += f"; {names} are each model's own" if len(own) > 1 else f"; each model's own {names}"
    return [*machine, f"{workload}; {extent}."]


def _notes(chart: ModelChart) -> list[str]:
    """What the intervals leave out."""
    if chart.quantity is not SPEEDUP:
        return []
    notes = {
        summary.speedup.note
        for line in chart.lines
        for bar in line.bars
        if (summary := line.comparison.of(bar.backend)) and summary.speedup and summary.speedup.note
    }
    return [f"{note[0].upper()}{note[1:]}." for note in sorted(notes)]


def _about_published(chart: ModelChart) -> list[str]:
    sentences = []
    if any(line.published for line in chart.lines):
        sentences.append("Diamonds: published for the whole model on other hardware, not comparable.")
    models: dict[str, set[str]] = {}
    for line in chart.lines:
        for mark in line.published:
            models.setdefault(mark.flag, set()).add(line.name)
    for flag, names in models.items():
        if flag:
            sentences.append(f"Of {enumerated(sorted(names))}: {reference.FLAGS[flag]}.")
    if chart.quantity is SPEEDUP and not any(one.at_largest for one in chart.comparisons):
        names = {line.name for line in chart.lines if _at_largest_only(line, chart.backends)}
        if names:
            rule = reference.FLAGS[reference.AT_LARGEST]
            sentences.append(f"Published with {rule} and so not drawn: {', '.join(sorted(names))}.")
    return sentences


def _at_largest_only(line: ModelLine, backends: Sequence[str]) -> bool:
    """Whether others published a figure of it that another rule of batches makes incomparable."""
    return any(
        mark.flag == reference.AT_LARGEST and mark.backend in backends
        for mark in reference.published_speedups_of(line.name)
    )


def describe_models(chart: ModelChart) -> str:
    """Everything that the chart shows but its caption, a sentence for each model."""
    panels = [" ".join([f"{panel.heading}:", *map(_sentence, panel.lines)]) for panel in chart.panels]
    return " ".join(panels)


def _sentence(line: ModelLine) -> str:
    parts = [f"{one_line(bar.backend)} {_value(bar)}" for bar in line.bars]
    if line.best:
        parts.append(f"best PyTorch ({one_line(line.best[0])}) {with_interval(line.best[1])}")
    parts += [
        f"published {mark.backend} {mark.ratio:.2f}{TIMES} on {hardware_of(mark)}" for mark in line.published
    ]
    return f"{line.label}: {', '.join(parts)}."


def _value(bar: ModelBar) -> str:
    if bar.ratio is None:
        return f"{bar.reason} ({bar.message})" if bar.message else bar.reason
    return with_interval(bar.ratio)


def with_interval(ratio: Ratio) -> str:
    """`1.250× [1.201, 1.310]`, or the ratio alone."""
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.3f}{TIMES}"
    return f"{ratio.value:.3f}{TIMES} [{ratio.low:.3f}, {ratio.high:.3f}]"

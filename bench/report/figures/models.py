"""The chart of many models: for each a bar of every backend, from the reference at 1 to the left or right."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.analysis import reference
from bench.report.content.quantities import SPEEDUP, Ratio
from bench.report.figures import style
from bench.report.figures.model_chart import ModelBar, ModelChart, ModelLine, hardware_of
from bench.report.figures.rows import Bar, Marks, Panel, Row, RowChart, RowGroup, ends_of, ratio_axis
from bench.report.figures.sheet import WIDE, Swatch
from bench.report.figures.style import Look, Theme
from bench.report.words.formatting import TIMES, as_sentence, enumerated, one_line, plural

_OWN = ("task", "batch", "length")
"""Parts of a workload that may differ between the models of a chart without being named at each."""


@dataclass(frozen=True)
class ModelRows:
    """Makes rows of models, for a drawing of so many inches."""

    chart: ModelChart
    theme: Theme
    width: float

    def make(self) -> RowChart:
        """The chart's rows."""
        chart = self.chart
        several, grouped = len(chart.panels) > 1, len({line.modality for line in chart.lines}) > 1
        panels = [
            Panel(
                heading=panel.heading if several else "",
                groups=[self._group(line, line.modality if grouped else "") for line in panel.lines],
            )
            for panel in chart.panels
        ]
        ratios = [bar.ratio for line in chart.lines for bar in line.bars if bar.ratio]
        values = [ratio.value for ratio in ratios] + [line.best[1].value for line in chart.lines if line.best]
        values += [mark.ratio for line in chart.lines for mark in line.published]
        ends = [end for ratio in ratios for end in (ratio.low, ratio.high) if end is not None]
        return RowChart(
            title=chart.quantity.title.format(chart.reference),
            panels=panels,
            axis=ratio_axis(values, ends),
            label=chart.quantity.axis.format(chart.reference),
            caption=caption(chart),
            legend=self._legend(has_intervals=bool(ends)),
            less=chart.quantity.less,
            more=chart.quantity.more,
            line=1,
            row=0.096,  # as high as the number beside it
            bar=0.096,
            between=0.075,
        )

    def _legend(self, *, has_intervals: bool) -> list[Swatch]:
        chart, best = self.chart, {"marker": "|", "color": self.theme.best, "mew": 1.7}
        published = [
            Swatch(words=f"published: {source}", mark=self._diamond(number))
            for number, source in enumerate(chart.sources)
        ]
        return [
            *(Swatch(words=one_line(name), bar=self._look(name)) for name in chart.backends),
            *([Swatch(words="95 % interval")] if has_intervals else []),
            *([Swatch(words="best PyTorch", mark=best)] if any(line.best for line in chart.lines) else []),
            *published,
        ]

    def _look(self, backend: str) -> Look:
        """Colour and hatch, which is dense where bars are short."""
        colour, hatch = style.look(backend)
        return colour, hatch if self.width >= WIDE else 2 * hatch

    def _diamond(self, number: int) -> dict[str, object]:
        """A diamond for each hardware that others measured on."""
        fill = (self.theme.ground, self.theme.ink, "#8C8C8C")[number % 3]
        return style.diamond(self.theme, fill) | {"marker": "D" if number < 3 else "s"}

    def _group(self, line: ModelLine, section: str) -> RowGroup:
        return RowGroup(
            name=line.name,
            detail=line.detail,
            section=section,
            rows=[self._row(line, bar) for bar in line.bars],
            best=line.best[1].value if line.best else None,
        )

    def _row(self, line: ModelLine, bar: ModelBar) -> Row:
        published = [mark for mark in line.published if mark.backend == bar.backend]
        marks = [
            Marks(
                values=[mark.ratio],
                down=[0.4 * (place - (len(published) - 1) / 2)],  # equal ones do not hide each other
                mark=self._diamond(self.chart.sources.index(hardware_of(mark))),
            )
            for place, mark in enumerate(published)
        ]
        ratio = bar.ratio
        if ratio is None:
            return Row(marks=marks, reason=bar.reason)
        return Row(
            bars=[Bar(1, ratio.value, self._look(bar.backend))],
            interval=ends_of(ratio),
            marks=marks,
            beside=self._number(ratio),
        )

    def _number(self, ratio: Ratio) -> str:
        return with_interval(ratio) if self.width >= WIDE else f"{ratio.value:.2f}{TIMES}"


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
    parts = [comparison.workload_parts for comparison in comparisons]
    own = [name for name in _OWN if len({workload[name] for workload in parts}) > 1]
    common = [
        value
        for name, value in parts[0].items()
        if name != "size" and {workload[name] for workload in parts} == {value}
    ]
    launches = {int(comparison.rows["launch"].max()) for comparison in comparisons}
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
    return [as_sentence(note) for note in sorted(notes)]


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
    if chart.quantity is SPEEDUP and not any(comparison.at_largest for comparison in chart.comparisons):
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

"""The chart of many models: for each a bar of every backend, from the reference at 1 to the left or right."""

from dataclasses import dataclass

from bench.report.content.quantities import Ratio
from bench.report.figures import chart_words, style
from bench.report.figures.axis import ratio_axis
from bench.report.figures.model_chart import ModelBar, ModelChart, ModelLine, hardware_of
from bench.report.figures.rows import Bar, Marks, Panel, Row, RowChart, RowGroup, ends_of
from bench.report.figures.sheet import WIDE, Swatch
from bench.report.figures.style import Look, Theme
from bench.report.words.formatting import TIMES, one_line


def model_rows(chart: ModelChart, theme: Theme, width: float) -> RowChart:
    """The chart's rows, for a drawing of so many inches."""
    return _Rows(chart, theme, width).chart_of_rows()


@dataclass(frozen=True)
class _Rows:
    """Makes rows of models."""

    chart: ModelChart
    theme: Theme
    width: float

    def chart_of_rows(self) -> RowChart:
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
            caption=chart_words.caption(chart),
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
        return chart_words.with_interval(ratio) if self.width >= WIDE else f"{ratio.value:.2f}{TIMES}"

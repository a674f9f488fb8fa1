"""The figure of what was published of ZeRO-1 over DDP, filled, beside what is predicted of it, hollow."""

from collections.abc import Sequence
from itertools import groupby

from matplotlib.figure import Figure

from bench.report.content.scale import PublishedRatio
from bench.report.figures.row_chart import draw_rows
from bench.report.figures.rows import Axis, Marks, Panel, Row, RowChart, RowGroup
from bench.report.figures.sharding_marks import look
from bench.report.figures.sheet import Mark, Swatch
from bench.report.figures.style import Theme
from bench.report.words.formatting import TIMES

TITLE_OF_PUBLISHED = "ZeRO-1 over DDP: published and predicted ratio of samples/s"


def draw_published(ratios: Sequence[PublishedRatio], theme: Theme) -> Figure:
    """For each model the published ratio, filled, and the predicted one, hollow, with its interval."""
    published = {"marker": "D", "mfc": theme.ink, "mec": theme.ink, "mew": 0.7, "markersize": 3.1}
    predicted = {
        "marker": "o",
        "mfc": theme.ground,
        "mec": look("zero1").colour,
        "mew": 1.0,
        "markersize": 3.8,
    }
    settings = list(dict.fromkeys(ratio.setting for ratio in ratios))
    largest_first = sorted(ratios, key=lambda ratio: (settings.index(ratio.setting), -ratio.published))
    groups = [
        RowGroup(heading=setting, rows=[_row(ratio, published, predicted) for ratio in members])
        for setting, members in groupby(largest_first, lambda ratio: ratio.setting)
    ]
    ends = [end for ratio in ratios for end in (*ratio.predicted.ends, ratio.published, 1.0)]
    room = 0.05 * (max(ends) - min(ends)) + 0.01
    chart = RowChart(
        title=TITLE_OF_PUBLISHED,
        panels=[Panel(groups=groups)],
        axis=Axis(low=min(ends) - room, high=max(ends) + room),
        label="samples/s of ZeRO-1 over those of DDP",
        unit=TIMES,
        caption="Samples/s of ZeRO stage 1 over those of DDP; right of the line ZeRO-1 is faster. Numbers: "
        "published, predicted, and how far the prediction is off.",
        legend=[
            Swatch(words="published", mark=published),
            Swatch(words="predicted", mark=predicted),
            Swatch(words="predicted: 95 % of what follows from the assumptions"),
        ],
        line=1,
        row=0.16,
        bar=0.2,
    )
    return draw_rows(chart, theme)


def _row(ratio: PublishedRatio, published: Mark, predicted: Mark) -> Row:
    low, high = ratio.predicted.ends
    percent = f"{100 * ratio.error:+.0f}".replace("-", "\N{MINUS SIGN}") if abs(ratio.error) >= 0.005 else "0"
    return Row(
        name=ratio.title,
        interval=(low, high) if low < high else None,
        marks=[
            Marks(values=[ratio.predicted.value], mark={**predicted, "gid": "predicted"}),
            # Above the other, so that equal ones do not hide each other.
            Marks(
                values=[ratio.published], down=[-0.26], mark={**published, "gid": "published", "zorder": 8}
            ),
        ],
        beside=f"{ratio.published:.2f}  {ratio.predicted.value:.2f}  {percent} %",
    )


def describe_published(ratios: Sequence[PublishedRatio]) -> str:
    """All that the figure shows, in words."""
    sentences = [
        f"{ratio.title}, {ratio.setting}: published {ratio.published:.3f}, "
        f"predicted {ratio.predicted.written(3)}."
        for ratio in ratios
    ]
    return " ".join(["Samples/s of ZeRO-1 over those of DDP.", *sentences])

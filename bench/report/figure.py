"""The speed-up figure of one comparison, as SVG. The only user of matplotlib."""

import io
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bench.records import write_atomically
from bench.report import style, text
from bench.stats import BackendSummary, log_ratios, summarise

Floats = npt.NDArray[np.float64]

_LINE_INCHES = 0.16
_NAME_CHARACTERS = 18
_CAPTION_CHARACTERS = 96
_TITLE_CHARACTERS = 62


def save(rows: pd.DataFrame, path: Path) -> None:
    """Draw the comparison and write the file, atomically."""
    with rc_context(style.RC), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script without font
        vector = io.StringIO()
        draw(rows).savefig(vector, format="svg", metadata={"Date": None, "Creator": None})
    write_atomically(path, vector.getvalue())


def draw(rows: pd.DataFrame) -> Figure:
    """One bar per backend, the reference on top at 1.0; a failed one shows its status instead."""
    summaries = summarise(rows)
    reference = text.distinct(rows, "reference")
    names = [_wrapped(one.backend, _NAME_CHARACTERS) for one in summaries]
    title = _wrapped(_title(rows), _TITLE_CHARACTERS)
    caption = _wrapped(_caption(rows, summaries), _CAPTION_CHARACTERS)
    points = {one.backend: np.exp(log_ratios(rows, one.backend, reference)) for one in summaries}

    figure, axes = _canvas(names, title, caption)
    for place, one in enumerate(summaries):
        if one.status == "ok" and (one.is_reference or one.speedup):
            _bar(axes, place, one, points[one.backend].to_numpy(float))
        else:
            _absence(axes, place, one)
    axes.axvline(1, color=style.INK, linewidth=1, linestyle=(0, (4, 2)), zorder=4)
    axes.set_xlim(0, _limit(summaries, points))
    axes.set_ylim(len(summaries) - 0.45, -0.55)
    axes.set_yticks(range(len(summaries)), names)
    axes.set_xlabel(f"throughput relative to {_wrapped(reference, 40)} ({text.TIMES})")
    axes.set_axisbelow(True)
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.6)
    return figure


def _canvas(names: list[str], title: str, caption: str) -> tuple[Figure, Axes]:
    """An empty figure whose margins hold exactly the names, the title and the caption."""
    tallest = _LINE_INCHES * max(map(_lines, names), default=1) + 0.1
    rows = max(len(names), 1) * max(style.ROW_INCHES, tallest)
    top = 0.2 + _LINE_INCHES * 1.25 * _lines(title)
    bottom = 0.62 + _LINE_INCHES * _lines(caption)
    height = top + rows + bottom
    width = style.WIDTH_INCHES
    longest = max((len(line) for name in names for line in name.split("\n")), default=0)
    left = 0.2 + 0.085 * longest
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    right = 1.3  # verdict and interval
    axes = figure.add_axes((left / width, bottom / height, (width - left - right) / width, rows / height))
    figure.text(0.1 / width, 1 - 0.1 / height, title, va="top", fontweight="bold", fontsize=10)
    figure.text(0.1 / width, 0.08 / height, caption, va="bottom", color=style.FAINT, fontsize=8)
    return figure, axes


def _bar(axes: Axes, place: int, one: BackendSummary, points: Floats) -> None:
    speedup = one.speedup
    ratio = speedup.ratio if speedup else 1.0
    colour, hatch = style.look(one.backend)
    axes.barh(place, ratio, height=0.62, color=colour, hatch=hatch, edgecolor=style.INK, linewidth=0.6)
    _label(axes, place, text.ratio(ratio), weight="bold")
    if not speedup:
        _margin(axes, place, "reference")
        return
    _margin(axes, place, f"{one.verdict}\n{text.interval(speedup)}")
    offsets = np.linspace(-0.2, 0.2, len(points)) if len(points) > 1 else np.zeros(1)
    axes.scatter(points, place + offsets, s=9, color=style.INK, alpha=0.35, linewidths=0, zorder=5)
    if speedup.low is not None and speedup.high is not None:
        far = min(speedup.high, 1e6)  # an infinite end would not be drawn at all
        axes.errorbar(
            ratio,
            place,
            xerr=[[ratio - speedup.low], [far - ratio]],
            color=style.INK,
            elinewidth=1.4,
            capsize=4,
            zorder=6,
        )


def _absence(axes: Axes, place: int, one: BackendSummary) -> None:
    """What stands in place of a bar: the status, or why there is no speed-up."""
    words = one.status if one.status != "ok" else one.message
    _label(axes, place, _wrapped(text.one_line(words), 46), color=style.ALARM, style="italic")


def _label(axes: Axes, place: int, words: str, **look: Any) -> None:
    """Text at the foot of a bar, on white so that colour and hatch do not cut into it."""
    box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none"}
    transform = axes.get_yaxis_transform()
    axes.text(0.025, place, words, transform=transform, va="center_baseline", bbox=box, zorder=7, **look)


def _margin(axes: Axes, place: int, words: str) -> None:
    transform = axes.get_yaxis_transform()
    axes.text(1.03, place, words, transform=transform, va="center_baseline", fontsize=8.5)


def _limit(summaries: list[BackendSummary], points: dict[str, pd.Series]) -> float:
    """Right end of the axis: all bars and points, and intervals unless they dwarf them."""
    seen = [1.0, *(float(ratios.max()) for ratios in points.values() if len(ratios))]
    seen += [one.speedup.ratio for one in summaries if one.speedup]
    ends = [one.speedup.high for one in summaries if one.speedup and one.speedup.high]
    return 1.06 * max(max(seen), min(max(ends, default=0.0), 1.5 * max(seen)))


def _title(rows: pd.DataFrame) -> str:
    parts = [
        f"{text.distinct(rows, 'model')}, {text.distinct(rows, 'task')}",
        f"global batch {text.distinct(rows, 'global_batch')} {text.TIMES} "
        f"length {text.distinct(rows, 'seq_len')}",
        text.distinct(rows, "precision"),
    ]
    return text.one_line(", ".join(parts))


def _caption(rows: pd.DataFrame, summaries: list[BackendSummary]) -> str:
    notes = sorted({one.speedup.note for one in summaries if one.speedup} - {""})
    whiskers = "; ".join(["Whiskers: 95 % interval", *notes])
    return f"{text.hardware(rows)}; {text.extent(rows)}. {whiskers}. Points: single rounds."


def _wrapped(words: str, width: int) -> str:
    """Broken at spaces, and behind the signs that names are made of; anywhere if need be."""
    lines = [""]
    for piece in re.findall(rf"[^\s_/-]{{0,{width}}}[\s_/-]*", text.one_line(words)):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def _lines(words: str) -> int:
    return words.count("\n") + 1

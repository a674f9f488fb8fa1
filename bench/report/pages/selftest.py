"""selftest.md of a machine: what the self-test and the simulation of coverage found."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from bench.analysis.selftest import (
    MOST_FALSE_ALARMS,
    beyond_the_margin,
    count_covered,
    false_alarms,
    read_table,
)
from bench.machine.processor_identity import NOT_RECORDED
from bench.report.content.blocks import (
    Block,
    Bullets,
    Column,
    Heading,
    Paragraph,
    table,
    table_of_texts,
    text_column,
    with_code,
)
from bench.report.words.formatting import MISSING
from bench.statistics.table_values import distinct_text

_VERDICT_COLUMNS: list[Column[Any]] = [
    text_column("case", lambda row: f"{row.case} {row.number}"),
    text_column("preset", lambda row: row.preset),
    text_column("backend", lambda row: row.backend),
    Column("truth", lambda row: f"{row.truth:.3f}"),
    Column("ratio [95 %]", lambda row: f"{row.ratio:.3f} [{row.low:.3f}, {row.high:.3f}]"),
    text_column("verdict", lambda row: row.verdict),
]
_COVERAGE_COLUMNS: list[Column[Any]] = [
    text_column("noise", lambda row: row.noise),
    text_column("preset", lambda row: row.preset),
    text_column("launches × rounds", lambda row: f"{row.launches} × {row.rounds}"),
    text_column("until", lambda row: _half_width(row.until)),
    Column("coverage", lambda row: f"{row.coverage:.1%}"),
    Column("median half-width", lambda row: _half_width(row.half_width)),
    Column("launches, mean", lambda row: f"{row.mean_launches:.1f}"),
]


def summary_lines(verdicts: pd.DataFrame) -> list[str]:
    """What the self-test found, a line for every question."""
    same = verdicts[verdicts["slowed_by"] == 0]
    lines = [
        f"A/A: {len(false_alarms(same))} of {len(same)} comparisons say faster or slower (allowed: "
        f"{MOST_FALSE_ALARMS} of 40); "
        f"{len(beyond_the_margin(same))} beyond the margin by more than the interval explains; "
        f"the truth lies in {count_covered(same)} of {len(same)} intervals"
    ]
    for (share, preset), group in verdicts[verdicts["slowed_by"] > 0].groupby(["slowed_by", "preset"]):
        hits = int((group["verdict"] == "slower").sum())
        lines.append(
            f"A/B: slowed by {share:.0%}, {preset}: {hits} of {len(group)} comparisons say slower; "
            f"the truth lies in {count_covered(group)} of {len(group)} intervals"
        )
    return lines


def selftest_page(folder: Path) -> list[Block]:
    """The page about a machine's study selftest.

    Raises:
        UserError: one of its tables is damaged.
    """
    blocks: list[Block] = [
        Heading("Self-test", 1),
        Paragraph(
            with_code("Comparisons whose outcome is known (`make selftest`): what did the harness say?")
        ),
    ]
    for name, section in (
        ("all.verdicts", _comparisons),
        ("one.verdicts", _in_turn),
        ("simulated.coverage", _coverage),
        ("simulated.estimators", _estimators),
    ):
        if (path := folder / f"{name}.csv").exists():
            blocks += section(read_table(path))
    return blocks


def _in_turn(verdicts: pd.DataFrame) -> list[Block]:
    return [
        Heading("Groups one after the other"),
        Paragraph(
            with_code(
                "The same with `measure.resident=one`, as on GPUs "
                '(`make selftest ARGS="measure.resident=one"`):'
            )
        ),
        *_comparisons(verdicts),
    ]


def _comparisons(verdicts: pd.DataFrame) -> list[Block]:
    comparisons = verdicts.drop_duplicates(["case", "number"])
    text = partial(distinct_text, verdicts)
    lines = [
        *summary_lines(verdicts),
        f"measured {_days(verdicts)} on {text('device')} ({_cpus(verdicts)}, {text('world_size')} ranks "
        f"× {text('threads_per_rank')} threads), commit {text('git_commit')}",
        f"{text('model')}, batch {text('micro_batch')}, length {text('seq_len')}, blocks of "
        f"{_range_of_seconds(comparisons['block_seconds'])} s; "
        f"{int(comparisons['invalid_blocks'].sum())} blocks were contaminated and measured again",
    ]
    return [Bullets(lines), table(verdicts.itertuples(), _VERDICT_COLUMNS)]


def _coverage(simulated: pd.DataFrame) -> list[Block]:
    return [
        Heading("Coverage of the 95 % interval"),
        Paragraph(
            with_code(
                "Simulated comparisons (`make coverage`): how often does the interval contain the truth?"
            )
        ),
        table(simulated.itertuples(), _COVERAGE_COLUMNS),
    ]


def _estimators(simulated: pd.DataFrame) -> list[Block]:
    """Coverage and median half-width of the interval over launches, for several middles of a launch."""
    middles = list(dict.fromkeys(simulated["middle"]))
    cells = {
        (str(row.noise), str(row.preset), row.middle): f"{row.coverage:.1%}, ± {row.half_width:.2%}"
        for row in simulated.itertuples()
    }
    keys = dict.fromkeys((noise, preset) for noise, preset, _ in cells)
    rows = [[noise, preset, *(cells[noise, preset, middle] for middle in middles)] for noise, preset in keys]
    return [
        Heading("Estimators"),
        Paragraph(
            "Which middle of a launch's rounds gives the narrowest interval that still covers? Coverage "
            "and median half-width under each; the harness uses the midmean."
        ),
        table_of_texts(["noise", "preset", *middles], rows, text_columns=["noise", "preset"]),
    ]


def _half_width(share: float) -> str:
    return MISSING if math.isnan(share) else f"± {share:.2%}"


def _cpus(verdicts: pd.DataFrame) -> str:
    """The CPUs; tables from before their family was recorded have the marketing name alone."""
    names = sorted(set(verdicts["cpu"].dropna().astype(str)))
    return "/".join(name if name.endswith(")") else f"{name} ({NOT_RECORDED})" for name in names)


def _days(verdicts: pd.DataFrame) -> str:
    """The day, or the first and the last, on which it was measured."""
    days = sorted({moment[:10] for moment in verdicts["started_at"]})
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _range_of_seconds(values: pd.Series) -> str:
    """`0.15`, or `0.15 to 0.86` where the cases differ."""
    ends = dict.fromkeys((f"{values.min():.2f}", f"{values.max():.2f}"))
    return " to ".join(ends)

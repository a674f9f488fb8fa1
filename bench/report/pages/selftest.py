"""selftest.md of a machine: what the self-test and the simulation of coverage found."""

import math
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
from bench.machine.identity import NOT_RECORDED
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
    known = "Comparisons whose outcome is known (`make selftest`): what did the harness say?"
    in_turn = (
        'The same with `measure.resident=one`, as on GPUs (`make selftest ARGS="measure.resident=one"`):'
    )
    simulated = "Simulated comparisons (`make coverage`): how often does the interval contain the truth?"
    middles = (
        "Which middle of a launch's rounds gives the narrowest interval that still covers? Coverage and "
        "median half-width under each; the harness uses the midmean."
    )
    blocks: list[Block] = [Heading("Self-test", 1), Paragraph(with_code(known))]
    for name, heading, about, section in (
        ("all.verdicts", "", "", _comparisons),
        ("one.verdicts", "Groups one after the other", in_turn, _comparisons),
        ("simulated.coverage", "Coverage of the 95 % interval", simulated, _coverage),
        ("simulated.estimators", "Estimators", middles, _estimators),
    ):
        if (path := folder / f"{name}.csv").exists():
            blocks += [Heading(heading), Paragraph(with_code(about))] if heading else []
            blocks.append(section(read_table(path)))
            if section is _comparisons:
                blocks.append(Paragraph(with_code(f"Every comparison is a row of `selftest/{path.name}`.")))
    return blocks


def _comparisons(verdicts: pd.DataFrame) -> Block:
    comparisons = verdicts.drop_duplicates(["case", "number"])
    names = ("device", "world_size", "threads_per_rank", "git_commit", "model", "micro_batch", "seq_len")
    text = {name: distinct_text(verdicts, name) for name in names}
    # tables from before a CPU's family was recorded have the marketing name alone
    cpus = "/".join(
        name if name.endswith(")") else f"{name} ({NOT_RECORDED})"
        for name in sorted(set(verdicts["cpu"].dropna().astype(str)))
    )
    started, seconds = verdicts["started_at"], comparisons["block_seconds"]
    days = _span(started.min()[:10], started.max()[:10])
    lengths = _span(f"{seconds.min():.2f}", f"{seconds.max():.2f}")
    return Bullets(
        [
            *summary_lines(verdicts),
            f"measured {days} on {text['device']} ({cpus}, {text['world_size']} ranks × "
            f"{text['threads_per_rank']} threads), commit {text['git_commit']}",
            f"{text['model']}, batch {text['micro_batch']}, length {text['seq_len']}, blocks of "
            f"{lengths} s; {int(comparisons['invalid_blocks'].sum())} blocks were contaminated and "
            "measured again",
        ]
    )


def _coverage(simulated: pd.DataFrame) -> Block:
    return table(simulated.itertuples(), _COVERAGE_COLUMNS)


def _estimators(simulated: pd.DataFrame) -> Block:
    """Coverage and median half-width of the interval over launches, for several middles of a launch."""
    keys = ["noise", "preset"]
    written = [f"{row.coverage:.1%}, ± {row.half_width:.2%}" for row in simulated.itertuples()]
    by_middle = simulated.assign(written=written).pivot_table(
        "written", index=keys, columns="middle", aggfunc="first", sort=False
    )
    rows = [[*key, *cells] for key, cells in zip(by_middle.index, by_middle.to_numpy(), strict=True)]
    return table_of_texts([*keys, *by_middle.columns], rows, text_columns=keys)


def _half_width(share: float) -> str:
    return MISSING if math.isnan(share) else f"± {share:.2%}"


def _span(low: str, high: str) -> str:
    """`0.15`, or `0.15 to 0.86` where they differ."""
    return low if low == high else f"{low} to {high}"

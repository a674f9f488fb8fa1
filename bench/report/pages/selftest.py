"""selftest.md of a machine: what the self-test found."""

from pathlib import Path

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
    Heading,
    Paragraph,
    with_code,
)
from bench.statistics.table_values import distinct_text


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
    blocks: list[Block] = [Heading("Self-test", 1), Paragraph(with_code(known))]
    for name, heading, about in (
        ("all.verdicts", "", ""),
        ("one.verdicts", "Groups one after the other", in_turn),
    ):
        if (path := folder / f"{name}.csv").exists():
            blocks += [Heading(heading), Paragraph(with_code(about))] if heading else []
            blocks.append(_comparisons(read_table(path)))
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


def _span(low: str, high: str) -> str:
    """`0.15`, or `0.15 to 0.86` where they differ."""
    return low if low == high else f"{low} to {high}"

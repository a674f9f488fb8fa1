"""python -m bench.compare BASE NEW: did training become slower between two results files?

With no files: every results/*.csv of the working tree against its committed version.

Exit status: 0 fine, 1 a regression (slower beyond the tolerance with an interval that excludes 1,
or a backend that no longer runs), 2 nothing, or not every file, could be compared.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from bench import environment, results, stats
from bench.errors import UserError
from bench.report import text

FINE, REGRESSION, NOT_COMPARED = 0, 1, 2
WIDTH = 100
RESULTS = "results"

WORKLOAD = ("model", "task", "global_batch", "seq_len", "precision", "attention")
HARDWARE = ("device", "world_size", "threads_per_rank")
NAMED = ("git_commit", "stack", "allocator", "seed", "config_hash", "environment_hash")
"""Columns whose difference does not forbid a comparison and is named below it."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One backend in two files. A figure is None where it cannot be had."""

    backend: str
    base: str  # throughput in samples/s, or the status
    new: str
    ratio: stats.Speedup | None  # of throughputs, new over base
    speedup_change: stats.Speedup | None  # of speed-ups over the file's own reference backend
    verdict: str
    regressed: bool


def compare(base: pd.DataFrame, new: pd.DataFrame, tolerance: float) -> list[Change]:
    """Every backend of either file; `tolerance` is a share, such as 0.02.

    Raises:
        UserError: if they differ in workload or hardware, so that no ratio would mean anything.
    """
    if obstacles := [*_unequal(base, new, WORKLOAD + HARDWARE), *_unequal_hardware(base, new)]:
        raise UserError(
            f"these files cannot be compared, since {'; '.join(obstacles)} differ between base and "
            "new; measure both with the same workload on the same hardware"
        )
    sides = [{one.backend: one for one in stats.summarise(rows)} for rows in (base, new)]
    names = dict.fromkeys([*sides[0], *sides[1]])
    return [_change(name, base, new, sides, tolerance) for name in names]


def _change(
    name: str,
    base: pd.DataFrame,
    new: pd.DataFrame,
    sides: list[dict[str, stats.BackendSummary]],
    tolerance: float,
) -> Change:
    before, after = (side.get(name) for side in sides)
    both_ok = bool(before and after and before.status == after.status == "ok")
    ratio = _throughput_ratio(base, new, name) if both_ok else None
    return Change(
        backend=name,
        base=_throughput(before),
        new=_throughput(after),
        ratio=ratio,
        speedup_change=_speedup_change(base, new, before, after),
        verdict=stats.verdict(ratio, tolerance) if ratio else "",
        regressed=_broke(before, after) or (ratio is not None and _slower(ratio, tolerance)),
    )


def _throughput_ratio(base: pd.DataFrame, new: pd.DataFrame, name: str) -> stats.Speedup | None:
    return stats.across_runs(
        stats.log_throughput(base, name),
        stats.log_throughput(new, name),
        stopped=stats.stopped(base, new),
    )


def _speedup_change(
    base: pd.DataFrame,
    new: pd.DataFrame,
    before: stats.BackendSummary | None,
    after: stats.BackendSummary | None,
) -> stats.Speedup | None:
    """Ratio of the two speed-ups, which the machine's drift cannot move.

    None for the reference, and where the files have different references.
    """
    references = [str(rows["reference"].iloc[0]) for rows in (base, new)]
    if not (before and after and before.speedup and after.speedup):
        return None
    if references[0] != references[1]:
        return None
    return stats.across_runs(
        stats.log_ratios(base, before.backend, references[0]),
        stats.log_ratios(new, after.backend, references[1]),
        stopped=stats.stopped(base, new),
    )


def _slower(ratio: stats.Speedup, tolerance: float) -> bool:
    return ratio.ratio < 1 - tolerance and ratio.high is not None and ratio.high < 1


def _broke(before: stats.BackendSummary | None, after: stats.BackendSummary | None) -> bool:
    return bool(before and after and before.status == "ok" and after.status != "ok")


def _throughput(side: stats.BackendSummary | None) -> str:
    if side is None:
        return "not measured"
    return text.number(side.samples_per_s) if side.status == "ok" else side.status


# What differs


def _unequal(base: pd.DataFrame, new: pd.DataFrame, columns: tuple[str, ...]) -> list[str]:
    """`column (base value, new value)` for every column that differs."""
    return [
        f"{column} ({text.distinct(base, column)}, {text.distinct(new, column)})"
        for column in columns
        if set(base[column].dropna()) != set(new[column].dropna())
    ]


def _unequal_hardware(base: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    old, now = results.environment(base), results.environment(new)
    named = {
        "cpu model": [results.entry(side, "cpu", "model") for side in (old, now)],
        "gpu names": [results.gpu_names(side) for side in (old, now)],
    }
    return [f"{key} ({sides[0]}, {sides[1]})" for key, sides in named.items() if sides[0] != sides[1]]


def named_differences(base: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    """Everything else that differs, one line each."""
    columns = [
        f"{column}: {text.distinct(base, column)}, now {text.distinct(new, column)}"
        for column in NAMED
        if set(base[column]) != set(new[column])
    ]
    entries = environment.differences(results.environment(base), results.environment(new))
    return [text.one_line(line) for line in columns + entries]


# The terminal


def shown(title: str, changes: list[Change], differences: list[str]) -> Group:
    """The table of one pair of files and what differs between them, at most 100 columns wide."""
    table = Table(title=Text(text.one_line(title)), box=box.HORIZONTALS, padding=(0, 0, 0, 1), width=WIDTH)
    table.add_column("backend", overflow="fold")
    for header in (
        "base\nsamples/s",
        "new\nsamples/s",
        "new / base\n[95 %]",
        "its speed-up\n[95 %]",
    ):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for change in changes:
        cells = [change.base, change.new, _ratio(change.ratio), _ratio(change.speedup_change)]
        name = text.one_line(change.backend)
        table.add_row(*map(Text, [name, *cells, _verdict(change)]))
    notes = {c.ratio.note for c in changes if c.ratio and c.ratio.note}
    below = [*sorted(notes), *(differences or ["nothing differs in the environment"])]
    return Group(table, *(Text(f"- {line}") for line in below))


def _ratio(ratio: stats.Speedup | None) -> str:
    return f"{text.ratio(ratio.ratio)}\n{text.interval(ratio)}" if ratio else text.MISSING


def _verdict(change: Change) -> str:
    return f"{change.verdict} REGRESSION".strip() if change.regressed else change.verdict


# Which files


@dataclass(frozen=True)
class Pair:
    """Two files to compare, not read yet, so that a damaged one stops no other pair."""

    title: str
    base: Callable[[], pd.DataFrame]
    new: Callable[[], pd.DataFrame]


def _pairs(options: argparse.Namespace) -> list[Pair]:
    """Every pair that was asked for; a file that was never committed is named and left out."""
    if options.base:
        title = f"{options.base.name}, then {options.new.name}"
        return [Pair(title, partial(results.read, options.base), partial(results.read, options.new))]
    committed = _committed()
    pairs = []
    for file in results.files(Path(RESULTS)):
        if file.as_posix() in committed:
            pairs.append(Pair(file.stem, partial(_read_committed, file), partial(results.read, file)))
        else:
            print(f"{file.as_posix()} is new: there is no committed version to compare with")
    return pairs


def _read_committed(file: Path) -> pd.DataFrame:
    return results.parse(_git("show", f"HEAD:./{file.as_posix()}"), f"HEAD:{file.as_posix()}")


def _committed() -> set[str]:
    """Paths under results/ in the last commit; none before the first commit."""
    _git("rev-parse", "--git-dir")
    try:
        _git("rev-parse", "--quiet", "--verify", "HEAD")
    except UserError:
        return set()
    return set(_git("ls-tree", "-z", "--name-only", "HEAD", f"{RESULTS}/").decode().split("\0"))


def _git(*arguments: str) -> bytes:
    try:
        return subprocess.run(["git", *arguments], capture_output=True, check=True).stdout
    except FileNotFoundError:
        raise UserError(f"git is not installed; install it, or {NAME_TWO}") from None
    except (OSError, subprocess.CalledProcessError):
        raise UserError(f"`git {' '.join(arguments)}` failed; run in a git checkout, or {NAME_TWO}") from None


NAME_TWO = "name two files: python -m bench.compare BASE NEW"


# The command


def main(arguments: list[str] | None = None) -> int:
    """Compare, print, and return the exit status."""
    options = _options(arguments)
    try:
        pairs = _pairs(options)
    except UserError as error:
        print(error, file=sys.stderr)
        return NOT_COMPARED
    outcomes = [_compared(pair, options.tolerance) for pair in pairs]
    if REGRESSION in outcomes:
        return REGRESSION
    return NOT_COMPARED if NOT_COMPARED in outcomes or not outcomes else FINE


def _compared(pair: Pair, tolerance: float) -> int:
    """Print one pair's table and return its exit status."""
    try:
        base, new = pair.base(), pair.new()
        changes = compare(base, new, tolerance)
    except UserError as error:
        print(error, file=sys.stderr)
        return NOT_COMPARED
    Console(width=WIDTH).print(shown(pair.title, changes, named_differences(base, new)))
    if any(change.regressed for change in changes):
        return REGRESSION
    if any(change.ratio and change.ratio.low is not None for change in changes):
        return FINE
    print(
        f"{pair.title}: nothing could be compared, since no backend is ok with at least two "
        "launches in both files; measure with measure.launches=2 or more",
        file=sys.stderr,
    )
    return NOT_COMPARED


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("base", nargs="?", type=Path, metavar="BASE")
    parser.add_argument("new", nargs="?", type=Path, metavar="NEW")
    parser.add_argument(
        "--tolerance", type=float, default=0.02, help="a share of the throughput (default: 0.02)"
    )
    options = parser.parse_args(arguments)
    if options.base and not options.new:
        parser.error("name both files, BASE and NEW, or none")
    if not 0 <= options.tolerance < 1:
        parser.error(f"--tolerance is a share from 0 to below 1, not {options.tolerance}")
    return options


if __name__ == "__main__":
    sys.exit(main())

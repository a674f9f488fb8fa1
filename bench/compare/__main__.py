"""python -m bench.compare BASE NEW: did training become slower, or larger, between two sets of results?

BASE and NEW are results files, folders or git revisions. Without NEW: the working tree; without both: every
results/*.csv of the working tree against its committed version.

Exit status: 0 fine, 1 a regression (beyond its tolerance in conf/tolerances.yaml with an interval that
excludes no change, or a backend that no longer runs), 2 nothing, or not every file, could be compared.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd
import yaml  # type: ignore[import-untyped]
from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from bench.analysis import intervals
from bench.analysis.summary import BackendSummary, summarise
from bench.analysis.throughput import log_ratios, log_throughput, stopped_by_width
from bench.errors import UserError
from bench.machine import environment
from bench.report import text
from bench.results import csv_files
from bench.results.environment_cell import environment_entry, gpu_names, latest_environment

FINE, REGRESSION, NOT_COMPARED = 0, 1, 2
WIDTH = 100
RESULTS = "results"
TOLERANCES = Path(__file__).resolve().parents[2] / "conf" / "tolerances.yaml"
METRICS = ("throughput", "speedup", "memory")

WORKLOAD = (
    *("model", "size", "parameters", "trainable_parameters", "task", "data", "lengths", "padding_share"),
    *("batch_rule", "micro_batch", "grad_accum", "global_batch", "seq_len"),
    *("precision", "attention", "checkpointing", "memory_limit_gib"),
)
HARDWARE = ("device", "world_size", "threads_per_rank", "cores_per_rank")
NAMED = ("git_commit", "stack", "allocator", "seed", "config_hash", "environment_hash")
"""Columns whose difference does not forbid a comparison and is named below it."""

OF_OWN_BATCH = ("micro_batch", "global_batch", "padding_share")
"""Of `WORKLOAD` what is a result where each backend is measured at its largest batch."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One backend in two files. A figure is None where it cannot be had.

    Attributes:
        base, new: throughput in samples/s, or the status.
        ratio: of throughputs, new over base.
        speedup_change: of the speed-ups over each file's own reference backend.
        memory_change: of the peaks.
        verdict: of `ratio`.
        regressions: the metrics that became worse beyond their tolerance, or `status`.
    """

    backend: str
    base: str
    new: str
    ratio: intervals.Speedup | None = None
    speedup_change: intervals.Speedup | None = None
    memory_change: intervals.Speedup | None = None
    verdict: str = ""
    regressions: tuple[str, ...] = ()


def compare(base: pd.DataFrame, new: pd.DataFrame, tolerances: Mapping[str, float]) -> list[Change]:
    """Every backend of either file; `tolerances` are shares, such as 0.02, one for each of `METRICS`.

    Raises:
        UserError: if they differ in workload or hardware, so that no ratio would mean anything.
    """
    both_largest = text.at_largest(base) and text.at_largest(new)
    workload = [name for name in WORKLOAD if not (both_largest and name in OF_OWN_BATCH)]
    if obstacles := [*_unequal(base, new, (*workload, *HARDWARE)), *_unequal_hardware(base, new)]:
        raise UserError(
            f"these files cannot be compared, since {'; '.join(obstacles)} differ between base and "
            "new; measure both with the same workload on the same hardware"
        )
    sides = [{one.backend: one for one in summarise(rows)} for rows in (base, new)]
    names = dict.fromkeys([*sides[0], *sides[1]])
    return [_change(name, base, new, sides, tolerances) for name in names]


def _change(
    name: str,
    base: pd.DataFrame,
    new: pd.DataFrame,
    sides: list[dict[str, BackendSummary]],
    tolerances: Mapping[str, float],
) -> Change:
    before, after = (side.get(name) for side in sides)
    if not (before and after and before.status == after.status == "ok"):
        broke = before is not None and before.status == "ok"  # it is ok no more, or was not even asked for
        return Change(
            backend=name,
            base=_throughput(before),
            new=_throughput(after),
            regressions=("status",) if broke else (),
        )
    ratio = _across(base, new, partial(log_throughput, backend=name))
    speedup_change = _speedup_change(base, new, before, after)
    memory_change = _across(base, new, partial(_log_peaks, backend=name))
    worse = {
        "throughput": _below(ratio, tolerances["throughput"]),
        "speedup": _below(speedup_change, tolerances["speedup"]),
        "memory": _above(memory_change, tolerances["memory"]),
    }
    return Change(
        backend=name,
        base=_throughput(before),
        new=_throughput(after),
        ratio=ratio,
        speedup_change=speedup_change,
        memory_change=memory_change,
        verdict=intervals.verdict(ratio, tolerances["throughput"]) if ratio else "",
        regressions=tuple(metric for metric in METRICS if worse[metric]),
    )


def _across(
    base: pd.DataFrame, new: pd.DataFrame, logs: Callable[[pd.DataFrame], pd.Series]
) -> intervals.Speedup | None:
    return intervals.speedup_across_runs(logs(base), logs(new), stopped=stopped_by_width(base, new))


def _log_peaks(rows: pd.DataFrame, backend: str) -> pd.Series:
    """Log of each valid block's peak: the device's where there is one, else the host's."""
    column = "host_peak_mib" if text.distinct(rows, "device") == "cpu" else "device_peak_mib"
    blocks = rows[(rows["backend"] == backend) & (rows["status"] == "ok")].set_index(["launch", "round"])
    return np.log(blocks[column].dropna().astype(float))


def _speedup_change(
    base: pd.DataFrame, new: pd.DataFrame, before: BackendSummary, after: BackendSummary
) -> intervals.Speedup | None:
    """Ratio of the two speed-ups, which the machine's drift cannot move.

    None for the reference, and where the files have different references.
    """
    references = [str(rows["reference"].iloc[0]) for rows in (base, new)]
    if not (before.speedup and after.speedup) or references[0] != references[1]:
        return None
    return _across(base, new, partial(log_ratios, backend=after.backend, reference=references[0]))


def _below(ratio: intervals.Speedup | None, tolerance: float) -> bool:
    return ratio is not None and ratio.ratio < 1 - tolerance and ratio.high is not None and ratio.high < 1


def _above(ratio: intervals.Speedup | None, tolerance: float) -> bool:
    return ratio is not None and ratio.ratio > 1 + tolerance and ratio.low is not None and ratio.low > 1


def _throughput(side: BackendSummary | None) -> str:
    if side is None:
        return "not measured"
    return text.number(side.samples_per_s) if side.status == "ok" else side.status


def tolerances(path: Path) -> dict[str, float]:
    """Read a file such as conf/tolerances.yaml.

    Raises:
        UserError: it is missing, no YAML, or does not hold a share for each of `METRICS` and nothing else.
    """
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"{path} cannot be read as YAML ({reason}); give such a file as {TOLERANCES.name}"
        ) from None
    names = set(found) if isinstance(found, dict) else set()
    if names != set(METRICS):
        raise UserError(f"{path} must hold {', '.join(METRICS)}, and nothing else; see {TOLERANCES.name}")
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
            raise UserError(f"{path}: {name} is a share from 0 to below 1, not {value}")
    return {name: float(value) for name, value in found.items()}


# What differs


def _unequal(base: pd.DataFrame, new: pd.DataFrame, columns: tuple[str, ...]) -> list[str]:
    """`column (base value, new value)` for every column that differs."""
    return [
        f"{column} ({text.distinct(base, column)}, {text.distinct(new, column)})"
        for column in columns
        if set(base[column].dropna()) != set(new[column].dropna())
    ]


def _unequal_hardware(base: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    old, now = latest_environment(base), latest_environment(new)
    named = {
        "cpu model": [environment_entry(side, "cpu", "model") for side in (old, now)],
        "gpu names": [gpu_names(side) for side in (old, now)],
    }
    return [f"{key} ({sides[0]}, {sides[1]})" for key, sides in named.items() if sides[0] != sides[1]]


def named_differences(base: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    """Everything else that differs, one line each."""
    columns = [
        f"{column}: {text.distinct(base, column)}, now {text.distinct(new, column)}"
        for column in NAMED
        if set(base[column]) != set(new[column])
    ]
    entries = environment.differences(latest_environment(base), latest_environment(new))
    return [text.one_line(line) for line in _largest_batches(base, new) + columns + entries]


def _largest_batches(base: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    """Whose largest micro-batch has changed; nothing if batches are equal by rule."""
    if not (text.at_largest(base) and text.at_largest(new)):
        return []
    before, after = (
        {one.backend: one.micro_batch for one in summarise(rows) if one.micro_batch} for rows in (base, new)
    )
    return [
        f"largest micro-batch of {name}: {before[name]}, now {after[name]}"
        for name in before
        if name in after and before[name] != after[name]
    ]


# What is printed

HEADERS = (
    "backend",
    "base samples/s",
    "new samples/s",
    "new / base [95 %]",
    "its speed-up [95 %]",
    "memory",
    "verdict",
)


def shown(title: str, changes: list[Change], differences: list[str]) -> Group:
    """The table of one pair of files and what differs between them, at most 100 columns wide."""
    table = Table(title=Text(text.one_line(title)), box=box.HORIZONTALS, padding=(0, 0, 0, 1), width=WIDTH)
    for header in HEADERS:
        name = header == "backend"
        table.add_column(
            header.replace(" samples", "\nsamples").replace(" [", "\n["),
            justify="left" if name or header == "verdict" else "right",
            overflow="fold",
            no_wrap=not name,
        )
    for change in changes:
        *cells, verdict = _cells(change)
        broken = verdict.replace(" REGRESSION: ", "\nREGRESSION: ").replace(", ", ",\n")
        table.add_row(*(Text(cell.replace(" [", "\n[")) for cell in cells), Text(broken))
    return Group(table, *(Text(f"- {line}") for line in _below_the_table(changes, differences)))


def markdown(title: str, changes: list[Change], differences: list[str]) -> str:
    """The same, to paste into a pull request."""
    lines = [list(HEADERS), ["---", *["---:"] * (len(HEADERS) - 2), "---"]]
    lines += [[text.escaped(cell) for cell in _cells(change)] for change in changes]
    return "\n".join(
        [
            f"### {text.escaped(title)}",
            "",
            *(f"| {' | '.join(line)} |" for line in lines),
            "",
            *(f"- {text.escaped(line)}" for line in _below_the_table(changes, differences)),
            "",
        ]
    )


def _cells(change: Change) -> list[str]:
    memory = change.memory_change
    return [
        text.one_line(change.backend),
        change.base,
        change.new,
        _ratio(change.ratio),
        _ratio(change.speedup_change),
        text.ratio(memory.ratio) if memory else text.MISSING,
        _verdict(change),
    ]


def _below_the_table(changes: list[Change], differences: list[str]) -> list[str]:
    notes = {c.ratio.note for c in changes if c.ratio and c.ratio.note}
    return [*sorted(notes), *(differences or ["nothing differs in the environment"])]


def _ratio(ratio: intervals.Speedup | None) -> str:
    return f"{text.ratio(ratio.ratio)} {text.interval(ratio)}" if ratio else text.MISSING


def _verdict(change: Change) -> str:
    if not change.regressions:
        return change.verdict or text.MISSING
    return f"{change.verdict} REGRESSION: {', '.join(change.regressions)}".strip()


# Which files

Reader = Callable[[], pd.DataFrame]


@dataclass(frozen=True, kw_only=True)
class Side:
    """Results files by their stem, not read yet, so that a damaged one stops no other."""

    name: str
    files: Mapping[str, Reader]
    single: bool = False  # one file that was named itself: its stem need not match


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to compare, and what is on one side only."""

    pairs: Sequence[tuple[str, Reader, Reader]]
    new: Mapping[str, Reader] = field(default_factory=dict)
    missing: Sequence[str] = field(default_factory=tuple)


def plan(base: Side, new: Side) -> Plan:
    """Pair the files of two sides by their stems."""
    if base.single and new.single:
        (old,), (now,) = base.files.values(), new.files.values()
        return Plan(pairs=[(f"{base.name}, then {new.name}", old, now)])
    both = [stem for stem in new.files if stem in base.files]
    return Plan(
        pairs=[(stem, base.files[stem], new.files[stem]) for stem in both],
        new={} if base.single else {k: read for k, read in new.files.items() if k not in base.files},
        missing=[] if new.single else [stem for stem in base.files if stem not in new.files],
    )


def side(given: str) -> Side:
    """A file, a folder or a git revision.

    Raises:
        UserError: it is none of them.
    """
    path = Path(given)
    if path.is_dir():
        return folder(path, given)
    if path.exists() or path.suffix == ".csv":
        return Side(name=path.name, files={path.stem: partial(csv_files.read, path)}, single=True)
    if _is_revision(given):
        return revision(given)
    raise UserError(f"{given} is no file, no folder and no git revision; check the path, or `git log`")


def folder(path: Path, name: str) -> Side:
    """Every results file right inside a folder."""
    return Side(
        name=name, files={file.stem: partial(csv_files.read, file) for file in csv_files.list_files(path)}
    )


def revision(name: str) -> Side:
    """Every results file of a git revision, as the present folder has them under results/."""
    listed = _git("ls-tree", "-z", "--name-only", name, f"{RESULTS}/").decode().split("\0")
    paths = [Path(line) for line in listed if line.endswith(".csv")]
    return Side(name=name, files={path.stem: partial(_read_revision, name, path) for path in paths})


def _read_revision(name: str, path: Path) -> pd.DataFrame:
    return csv_files.parse(_git("show", f"{name}:./{path.as_posix()}"), f"{name}:{path.as_posix()}")


def _is_revision(name: str) -> bool:
    try:
        _git("rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}")
    except UserError:
        return False
    return True


def _last_commit() -> Side:
    """The results of HEAD; none before the first commit."""
    _git("rev-parse", "--git-dir")
    return revision("HEAD") if _is_revision("HEAD") else Side(name="HEAD", files={})


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
    options = _parser().parse_args(arguments)
    try:
        allowed = tolerances(options.tolerances)
        base = side(options.base) if options.base else _last_commit()
        new = side(options.new) if options.new else folder(Path(RESULTS), "the working tree")
        planned = plan(base, new)
    except UserError as error:
        print(error, file=sys.stderr)
        return NOT_COMPARED
    outcomes = []
    for stem, read in planned.new.items():
        try:
            read()
            print(f"{stem} is new: {base.name} has no version of it to compare with")
        except UserError as error:
            print(error, file=sys.stderr)
            outcomes.append(NOT_COMPARED)
    for stem in planned.missing:
        print(f"{stem} is in {base.name}, but not in {new.name}; measure it again", file=sys.stderr)
    outcomes += [_compared(*pair, allowed, options.markdown) for pair in planned.pairs]
    if REGRESSION in outcomes:
        return REGRESSION
    if planned.missing or NOT_COMPARED in outcomes or not outcomes:
        return NOT_COMPARED
    return FINE


def _compared(
    title: str, read_base: Reader, read_new: Reader, allowed: Mapping[str, float], as_markdown: bool
) -> int:
    """Print one pair's table and return its exit status."""
    try:
        base, new = read_base(), read_new()
        changes = compare(base, new, allowed)
    except UserError as error:
        print(error, file=sys.stderr)
        return NOT_COMPARED
    differences = named_differences(base, new)
    if as_markdown:
        print(markdown(title, changes, differences))
    else:
        _Terminal(width=WIDTH).print(shown(title, changes, differences))
    if any(change.regressions for change in changes):
        return REGRESSION
    if any(change.ratio and change.ratio.low is not None for change in changes):
        return FINE
    print(
        f"{title}: nothing could be compared, since no backend is ok with at least two "
        "launches in both files; measure with measure.launches=2 or more",
        file=sys.stderr,
    )
    return NOT_COMPARED


class _Terminal(Console):
    def on_broken_pipe(self) -> None:
        _nobody_reads()


def _nobody_reads() -> NoReturn:
    """Such as `| head`: Python's and rich's own exit status for that would read as a regression."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(NOT_COMPARED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("base", nargs="?", metavar="BASE")
    parser.add_argument("new", nargs="?", metavar="NEW")
    parser.add_argument("--tolerances", type=Path, default=TOLERANCES, metavar="FILE")
    parser.add_argument("--markdown", action="store_true", help="print Markdown, for a pull request")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        _nobody_reads()

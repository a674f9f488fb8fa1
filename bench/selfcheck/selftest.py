"""`make selftest`: comparisons whose outcome is known. What does the harness say?

A/A: the reference against itself under another name. A/B: against itself slowed by a known share of every step.
Writes results/selftest/verdicts.csv and rounds.csv after every comparison; stopped, it goes on where it was, as
long as the harness and the machine are the same.

Exit status: 0 as good as it must be, 1 not, 2 wrong command line.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console

from bench import environment, results, stats
from bench.compose import compose
from bench.coordinator import Comparison, stepped_aside
from bench.errors import UserError
from bench.machine import (
    available_cores,
    available_gpus,
    check_machine,
    check_packages,
    default_device,
)
from bench.progress import Bar
from bench.records import write_atomically
from bench.report import checks

FOLDER = "selftest"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kind of comparison: how often it is made and what must come out."""

    name: str
    preset: str
    comparisons: int
    slowed_by: dict[str, float]  # by backend; the reference is pytorch

    def overrides(self) -> list[str]:
        """Of the command line that makes such a comparison."""
        slowed = [f"backends.{name}.slowed_by={share}" for name, share in self.slowed_by.items() if share]
        return [f"measure={self.preset}", f"backend=[{','.join(['pytorch', *self.slowed_by])}]", *slowed]


CASES = (
    # The first quick comparisons serve both questions; a third backend costs less than a further comparison.
    Case(
        name="both",
        preset="quick",
        comparisons=10,
        slowed_by={"pytorch_again": 0.0, "pytorch_slowed": 0.05},
    ),
    Case(name="thorough", preset="thorough", comparisons=5, slowed_by={"pytorch_slowed": 0.02}),
    Case(name="same", preset="quick", comparisons=30, slowed_by={"pytorch_again": 0.0}),
)


SMALL = ("micro_batch=2", "seq_len=32", "measure.block_seconds=0.5")
"""On a CPU: short steps, so that 45 comparisons take little more than an hour. Shorter blocks scatter more, which
makes differences harder to find and false alarms no rarer."""


def main(arguments: list[str] | None = None) -> int:
    """Make what is missing, print the table, and return the exit status."""
    options = _options(arguments)
    console = Console(stderr=True)
    try:
        folder = Path(options.results) / FOLDER
        verdicts, rounds = _measure(folder, options.overrides, console, options.minutes)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(checks.lines(verdicts)))
    return 0 if checks.passed(verdicts) else 1


def _measure(
    folder: Path, overrides: Sequence[str], console: Console, minutes: float
) -> tuple[pd.DataFrame, pd.DataFrame]:
    if default_device() == "cpu":
        overrides = [*SMALL, *overrides]
    started = time.monotonic()
    verdicts, rounds = _kept(folder, overrides)
    todo = [(case, number) for case in CASES for number in range(1, case.comparisons + 1)]
    for place, (case, number) in enumerate(todo, start=1):
        done = set(zip(verdicts["case"], verdicts["number"], strict=True)) if len(verdicts) else set()
        if (case.name, number) in done:
            continue
        if time.monotonic() - started > 60 * minutes:
            console.print(f"stopped after {minutes:g} minutes; the next call goes on", highlight=False)
            break
        console.print(f"self-test {place}/{len(todo)}: {case.name} {number}", highlight=False)
        raw = f"results_dir={folder.parent / 'runs' / FOLDER}"
        rows = _compared(case, number, [*overrides, raw], console)
        verdicts = pd.concat([verdicts, checks.verdicts(rows, case.name, number, case.preset)])
        rounds = pd.concat([rounds, checks.rounds(rows, case.name, number)])
        for name, table in (("verdicts", verdicts), ("rounds", rounds)):
            write_atomically(folder / f"{name}.csv", table.to_csv(index=False))
    return verdicts, rounds


def _compared(case: Case, number: int, overrides: Sequence[str], console: Console) -> pd.DataFrame:
    """The rows of one comparison."""
    config = compose([*case.overrides(), *overrides])
    check_machine(config, cores=available_cores(), gpus=available_gpus())
    check_packages(config)
    comparison = Comparison(config, f"{case.name}-{number}")
    with stepped_aside(comparison.cores), Bar(comparison.planned(), console) as bar:
        comparison.measure(bar)
    if failures := comparison.failures():
        raise UserError(f"the self-test cannot go on: {'; '.join(failures)}")
    return results.read(comparison.ledger.csv)


def _kept(folder: Path, overrides: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What an earlier call measured with the same harness on the same machine; else empty tables."""
    config = compose([*CASES[0].overrides(), *overrides])
    now = environment.digest(environment.collect(config))
    tables = []
    for name in ("verdicts", "rounds"):
        path = folder / f"{name}.csv"
        tables.append(pd.read_csv(path) if path.exists() else pd.DataFrame())
    verdicts, rounds = tables
    if len(verdicts) and set(verdicts["environment_hash"]) == {now}:
        return verdicts, rounds
    return pd.DataFrame(), pd.DataFrame()


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.selfcheck.selftest",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("overrides", nargs="*", help="Hydra overrides for every comparison, e.g. model=gpt2")
    parser.add_argument("--results", default="results", help="where selftest/ lies (default: results)")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="start no comparison after so long"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

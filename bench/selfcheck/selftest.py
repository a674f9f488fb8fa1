"""`make selftest`: comparisons whose outcome is known. What does the harness say?

A/A: the reference against itself under another name. A/B: against itself slowed by a known share of every
step. Writes results/selftest/verdicts.csv and rounds.csv after every comparison; stopped, it goes on where it
was, as long as the harness and the machine are the same.

Exit status: 0 as good as it must be, 1 not, 2 wrong command line.
"""

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console

from bench.config import identity
from bench.config.compose import compose
from bench.config.schema import Config
from bench.errors import UserError
from bench.machine import environment
from bench.machine.facts import available_cores, available_gpus, default_device
from bench.measure.comparison import Comparison, leaving_the_ranks_cores
from bench.measure.preflight import check_machine, check_packages
from bench.measure.progress import Bar
from bench.report import checks
from bench.results import csv_files
from bench.results.atomic import write_atomically

FOLDER = "selftest"

SMALL = ("micro_batch=2", "seq_len=32")
"""For the quick comparisons on a CPU: short steps, so that 40 of them take an hour."""


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
        chosen = [f"measure={self.preset}", f"backend=[{','.join(['pytorch', *self.slowed_by])}]", *slowed]
        small = self.preset == "quick" and default_device() == "cpu"
        return [*chosen, *SMALL] if small else chosen


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


def main(arguments: list[str] | None = None) -> int:
    """Make what is missing, print the table, and return the exit status."""
    options = _options(arguments)
    console = Console(stderr=True)
    try:
        folder = Path(options.results) / FOLDER
        cases = [case for case in CASES if options.case in (None, case.name)]
        verdicts = _measure(folder, cases, options.overrides, console, options.minutes)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(checks.lines(verdicts)))
    return 0 if checks.passed(verdicts) else 1


def _measure(
    folder: Path, cases: Sequence[Case], overrides: Sequence[str], console: Console, minutes: float
) -> pd.DataFrame:
    configs = {case.name: compose([*case.overrides(), *overrides]) for case in CASES}
    started = time.monotonic()
    verdicts, rounds = _kept(folder, configs)
    todo = [(case, number) for case in cases for number in range(1, case.comparisons + 1)]
    for place, (case, number) in enumerate(todo, start=1):
        if (case.name, number) in _comparisons(verdicts):
            continue
        if time.monotonic() - started > 60 * minutes:
            console.print(f"stopped after {minutes:g} minutes; the next call goes on", highlight=False)
            break
        console.print(f"self-test {place}/{len(todo)}: {case.name} {number}", highlight=False)
        rows = _compared(
            configs[case.name], f"{case.name}-{number}", folder.parent / "runs" / FOLDER, console
        )
        verdicts = pd.concat([verdicts, checks.verdicts(rows, case.name, number, case.preset)])
        rounds = pd.concat([rounds, checks.rounds(rows, case.name, number)])
        for name, table in (("verdicts", verdicts), ("rounds", rounds)):
            write_atomically(folder / f"{name}.csv", table.to_csv(index=False, float_format="%.6g"))
    return verdicts


def _compared(config: Config, stem: str, raw: Path, console: Console) -> pd.DataFrame:
    """The rows of one comparison; its raw files go below `raw`.

    Raises:
        UserError: a launch failed.
    """
    check_machine(config, cores=available_cores(), gpus=available_gpus())
    check_packages(config)
    comparison = Comparison(dataclasses.replace(config, results_dir=str(raw)), stem)
    with leaving_the_ranks_cores(comparison.cores), Bar(comparison.planned(), console) as bar:
        comparison.measure(bar)
    rows = csv_files.read(comparison.ledger.csv)
    if not rows["status"].isin(["ok", "invalid"]).all():
        raise UserError(f"the self-test cannot go on: {'; '.join(comparison.failures())}")
    return rows


def _kept(folder: Path, configs: dict[str, Config]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What an earlier call measured of the same comparisons with the same harness on the same machine."""
    if not (folder / "verdicts.csv").exists() or not (folder / "rounds.csv").exists():
        return pd.DataFrame(), pd.DataFrame()
    verdicts, rounds = (checks.read(folder / f"{name}.csv") for name in ("verdicts", "rounds"))
    config = next(iter(configs.values()))
    here = environment.hash_environment(identity.collect_environment(config))
    wanted = {name: identity.config_hash(config) for name, config in configs.items()}
    verdicts = verdicts[
        (verdicts["environment_hash"] == here) & (verdicts["config_hash"] == verdicts["case"].map(wanted))
    ]
    # A comparison in which a backend got no speed-up is made again, as a whole.
    without = _comparisons(verdicts[verdicts["ratio"].isna()])
    kept = _comparisons(verdicts) - without
    verdicts, rounds = (
        table[[key in kept for key in zip(table["case"], table["number"], strict=True)]]
        for table in (verdicts, rounds)
    )
    return verdicts, rounds


def _comparisons(table: pd.DataFrame) -> set[tuple[str, int]]:
    return set(zip(table["case"], table["number"], strict=True)) if len(table) else set()


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.selfcheck.selftest",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("overrides", nargs="*", help="Hydra overrides for every comparison, e.g. model=gpt2")
    parser.add_argument("--results", default="results", help="where selftest/ lies (default: results)")
    parser.add_argument("--case", choices=[case.name for case in CASES], help="only this kind")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="start no comparison after so long"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

"""`make selftest`: comparisons whose outcome is known, and what the harness says of them.

A/A compares the reference with itself under another name; A/B with itself, slowed by a known share of every
step. interleaved.verdicts.csv and interleaved.rounds.csv in results/<machine>/selftest/ are written after
every comparison. The next call goes on where this one was stopped, as long as the harness and the machine
are the same.

`measure.schedule=sequential` asks the same of groups that run one after the other, as on GPUs; its tables are
sequential.verdicts.csv and sequential.rounds.csv. Starting a group takes longer than timing it there, so that
ten comparisons are measured as one of ten times as many launches, which is then split.

Exit status: 0 if all comparisons are made and the harness is right as often as it must be, 1 if not, 2 if
the command line is wrong or a launch failed, 130 after Ctrl-C, 143 after SIGTERM.
"""

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console

from bench.closing import command_parser, print_closing, run_command
from bench.config import identity
from bench.config.compose import compose
from bench.config.schema import Config
from bench.errors import UserError
from bench.machine import environment
from bench.machine.hardware import default_device
from bench.measure.comparison import measure_comparison
from bench.measure.plan.preflight import check_and_name
from bench.measure.plan.resolve import collect_environment
from bench.results import csv_files
from bench.results.atomic import write_atomically
from bench.results.columns import HASHES
from bench.studies.selfcheck.outcomes import noise_table, passed, split_launches, summary_lines, verdict_table

TABLES = ("verdicts", "rounds")
"""The files of a `measure.schedule`: interleaved.verdicts.csv and so on, in the study's folder."""

SMALL = ("micro_batch=2", "seq_len=32")
"""For the quick comparisons on a CPU: short steps, so that 40 of them take an hour."""


@dataclass(frozen=True, kw_only=True)
class KnownCase:
    """One kind of comparison."""

    name: str  # its value in the column `case`
    preset: str  # the choice of `measure`
    comparisons: int  # how many are made
    # by how much of each step each backend is slowed; they are compared with `pytorch`
    slowed_by: dict[str, float]
    measured_as_one: int = 1  # comparisons that are measured as a single one and then split by launches

    def overrides(self) -> list[str]:
        """The Hydra overrides of such a comparison."""
        slowed = [f"backends.{name}.slowed_by={share}" for name, share in self.slowed_by.items() if share]
        chosen = [f"measure={self.preset}", f"backend=[{','.join(['pytorch', *self.slowed_by])}]", *slowed]
        small = self.preset == "quick" and default_device() == "cpu"
        return [*chosen, *SMALL] if small else chosen


BOTH = {"pytorch_again": 0.0, "pytorch_slowed": 0.05}
"""These comparisons serve both questions; a third backend costs less than a further comparison."""

CASES = {
    "interleaved": (
        KnownCase(name="both", preset="quick", comparisons=10, slowed_by=BOTH),
        KnownCase(name="thorough", preset="thorough", comparisons=5, slowed_by={"pytorch_slowed": 0.02}),
        KnownCase(name="same", preset="quick", comparisons=30, slowed_by={"pytorch_again": 0.0}),
    ),
    "sequential": (
        KnownCase(name="both", preset="quick", comparisons=10, slowed_by=BOTH, measured_as_one=10),
        KnownCase(
            name="same", preset="quick", comparisons=30, slowed_by={"pytorch_again": 0.0}, measured_as_one=10
        ),
    ),
}
"""By `measure.schedule`."""


def main(arguments: list[str] | None = None) -> int:
    """Measure what is missing, print what was found, and return the exit status."""
    parser = command_parser("bench.studies.selfcheck.selftest", __doc__)
    parser.add_argument("overrides", nargs="*", help="Hydra overrides for every comparison, e.g. model=gpt2")
    options = parser.parse_intermixed_args(arguments)
    given = " ".join(sys.argv[1:] if arguments is None else arguments)
    return run_command(
        lambda: _run(options.overrides, f'make selftest ARGS="{given}"' if given else "make selftest"),
        "interrupted; the same command goes on with the comparison that is missing.",
    )


def _run(overrides: Sequence[str], command: str) -> int:
    config = compose(["study=selftest", *overrides])
    schedule, folder = config.measure.schedule, Path(config.results_dir)
    paths = {name: folder / f"{schedule}.{name}.csv" for name in TABLES}
    cases = CASES[schedule]
    lines = {case.name: _overrides_of(case, overrides) for case in cases}
    earlier = _read_earlier(paths, lines)
    verdicts = _measure_missing(paths, folder / "runs" / schedule, cases, lines, earlier)
    planted = {share for case in cases for share in case.slowed_by.values() if share}
    wanted = sum(case.comparisons for case in cases)
    made = len(_comparisons_in(verdicts))
    right = made > 0 and passed(verdicts, planted)
    print_closing(
        describe_outcome(right=right, made=made, wanted=wanted),
        table="\n".join(f"- {line}" for line in summary_lines(verdicts)) if made else "",
        files=[path for path in paths.values() if path.exists()],
        next_command=command if made < wanted else "",
        purpose="go on where it was stopped",
    )
    return 0 if right else 1


def describe_outcome(*, right: bool, made: int, wanted: int) -> str:
    """Whether the harness is right often enough, in a sentence; missing comparisons are no mistakes."""
    if made < wanted:
        return f"The self-test is not complete: {made} of {wanted} comparisons are made."
    often = "as often as it must be" if right else "less often than it must be"
    return f"Of {made} comparisons whose outcome is known, the harness is right {often}."


def _overrides_of(case: KnownCase, overrides: Sequence[str]) -> list[str]:
    line = [*case.overrides(), *overrides]
    return [*line, f"measure.launches={compose(line).measure.launches * case.measured_as_one}"]


def _measure_missing(
    paths: Mapping[str, Path],
    raw: Path,
    cases: Sequence[KnownCase],
    lines: Mapping[str, Sequence[str]],
    earlier: tuple[pd.DataFrame, pd.DataFrame],
) -> pd.DataFrame:
    """Measure into `raw` what is not among the verdicts and rounds of `earlier`; the verdicts of all."""
    console = Console(stderr=True, highlight=False)
    verdicts, rounds = earlier
    for case in cases:
        for first in range(1, case.comparisons + 1, case.measured_as_one):
            numbers = range(first, first + case.measured_as_one)
            if {(case.name, number) for number in numbers} <= _comparisons_in(verdicts):
                continue
            several = f" to {numbers[-1]}" if len(numbers) > 1 else ""
            console.print(f"self-test: {case.name} {first}{several} of {case.comparisons}")
            rows = _measure_rows(lines[case.name], f"{case.name}-{first}", raw)
            verdicts, rounds = (
                table[[row.case != case.name or row.number not in numbers for row in table.itertuples()]]
                for table in (verdicts, rounds)
            )
            for number, part in zip(numbers, split_launches(rows, len(numbers)), strict=True):
                verdicts = pd.concat([verdicts, verdict_table(part, case.name, number, case.preset)])
                rounds = pd.concat([rounds, noise_table(part, case.name, number)])
            for name, table in zip(TABLES, (verdicts, rounds), strict=True):
                write_atomically(paths[name], table.to_csv(index=False, float_format="%.6g"))
    return verdicts


def _measure_rows(line: Sequence[str], stem: str, raw: Path) -> pd.DataFrame:
    """Measure what is missing of a comparison in folder `raw`; its rows, or UserError if a launch failed."""
    config = dataclasses.replace(compose(line), results_dir=str(raw))
    check_and_name(config)
    config = dataclasses.replace(config, resume=_is_interrupted(raw / f"{stem}.csv", config))
    outcome = measure_comparison(config, stem)
    rows = csv_files.read(outcome.csv)
    if not rows["status"].isin(["ok", "invalid"]).all():
        raise UserError(f"the self-test cannot go on: {'; '.join(outcome.failures)}")
    return rows


def _is_interrupted(csv: Path, config: Config) -> bool:
    """Whether a results file of this comparison, harness and machine lacks launches."""
    try:
        table = csv_files.read(csv)
    except UserError:  # missing, damaged, or of another schema
        return False
    wanted = {_hash_of_this_machine(config)}, {identity.config_hash(config)}
    same = ({*table["environment_hash"]}, {*table["config_hash"]}) == wanted
    return same and table["launch"].max() < config.measure.launches


def _hash_of_this_machine(config: Config) -> str:
    return environment.hash_environment(collect_environment(config))


def _read_earlier(
    paths: Mapping[str, Path], lines: Mapping[str, Sequence[str]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The verdicts and rounds of earlier calls: of the same harness and machine."""
    if not all(path.exists() for path in paths.values()):
        return pd.DataFrame(), pd.DataFrame()
    verdicts, rounds = (pd.read_csv(paths[name], dtype=HASHES) for name in TABLES)
    configs = {name: compose(line) for name, line in lines.items()}
    here = _hash_of_this_machine(next(iter(configs.values())))
    wanted = {name: identity.config_hash(config) for name, config in configs.items()}
    same = verdicts["config_hash"] == verdicts["case"].map(wanted)
    verdicts = verdicts[same & (verdicts["environment_hash"] == here)]
    # A comparison in which a backend got no speed-up is made again, as a whole.
    kept = _comparisons_in(verdicts) - _comparisons_in(verdicts[verdicts["ratio"].isna()])
    verdicts, rounds = (
        table[[key in kept for key in zip(table["case"], table["number"], strict=True)]]
        for table in (verdicts, rounds)
    )
    return verdicts, rounds


def _comparisons_in(table: pd.DataFrame) -> set[tuple[str, int]]:
    """The case and the number of each comparison in a table."""
    return set(zip(table["case"], table["number"], strict=True)) if len(table) else set()


if __name__ == "__main__":
    sys.exit(main())

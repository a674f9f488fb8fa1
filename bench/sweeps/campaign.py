"""`make gpu-campaign`: many comparisons, a call of a few minutes at a time, until all of them are there.

`python -m bench.sweeps.campaign [minutes=9] [parts=a,b] [campaign=FILE] [overrides]` measures what
conf/campaign.yaml lists, in its order, and ends in time: what has begun by then keeps its complete rounds,
and the next call goes on. What is done, the results files themselves tell; there is no other state. Complete
results of the same configuration count wherever they were measured, which every row says, and so do launches
that failed; to measure one anew, delete its file.

Exit status 0 if all is done, 1 if all is done and some launches were not ok, 2 if a command line or the list
is wrong, 3 if there is more to do, 130 after Ctrl-C.
"""

import math
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml  # type: ignore[import-untyped]
from rich.console import Console

from bench import report
from bench.config import identity
from bench.config.compose import compose
from bench.config.naming import command, stem
from bench.config.refusals import CONF
from bench.config.schema import Config
from bench.errors import CannotKeep, UserError
from bench.launch.lifeline import Terminated
from bench.machine import environment
from bench.measure import plan
from bench.measure.preflight import checked
from bench.measure.resume import kept
from bench.results import files
from bench.setup import stacks

CAMPAIGN = CONF / "campaign.yaml"

SECONDS_TO_END = 20
"""Of a call, for ending what runs and for the tables."""

MORE_TO_DO = 3


class OutOfTime(KeyboardInterrupt):
    """The call's time is over, with a little left to tidy up."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One comparison of a campaign.

    Attributes:
        part: its heading in the list.
        expected_s: the seconds that it may take.
        overrides: as for `python -m bench`.
        config: what they are composed into.
        stem: its results file's name without the ending.
    """

    part: str
    expected_s: float
    overrides: Sequence[str]
    config: Config
    stem: str

    @property
    def csv(self) -> Path:
        """Its results file."""
        return Path(self.config.results_dir) / f"{self.stem}.csv"


def main(arguments: Sequence[str] | None = None, clock: Callable[[], float] = time.monotonic) -> int:
    """Measure what is missing and fits into this call; the exit status."""
    started = clock()
    Terminated.catch()
    console = Console(stderr=True, highlight=False)
    try:
        own, overrides = divided(sys.argv[1:] if arguments is None else arguments)
        deadline = started + seconds_of(own)
        campaign = planned(read(Path(own.get("campaign", CAMPAIGN))), own.get("parts"), overrides)
        measure(campaign, deadline, clock, console)
        return told(campaign, console)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1 if isinstance(error, CannotKeep) else 2
    except KeyboardInterrupt as interruption:
        print("interrupted; complete rounds are kept, and the same command goes on.", file=sys.stderr)
        return 143 if isinstance(interruption, Terminated) else 130


def divided(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """What is for the campaign itself, by its key, and the overrides of all comparisons."""
    pairs = [(word.partition("="), word) for word in arguments]
    mine = {key: value for (key, _, value), _ in pairs if key in ("minutes", "parts", "campaign")}
    return mine, [word for (key, _, _), word in pairs if key not in mine]


def seconds_of(own: dict[str, str]) -> float:
    """How long the call may take; for ever unless it is said."""
    if "minutes" not in own:
        return math.inf
    try:
        seconds = 60 * float(own["minutes"])
    except ValueError:
        seconds = 0.0
    if not SECONDS_TO_END < seconds < math.inf:
        raise UserError(f"minutes={own['minutes']} must be a number above {SECONDS_TO_END / 60:.2f}.")
    return seconds


def read(path: Path) -> dict[str, Any]:
    """The list of a campaign.

    Raises:
        UserError: it cannot be read.
    """
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"campaign={path} cannot be read: {' '.join(str(error).split())}.") from None
    if not isinstance(found, dict) or not {"common", "backends", "parts"} <= found.keys():
        raise UserError(f"campaign={path} needs common, backends and parts, as conf/campaign.yaml has them.")
    return found


def planned(campaign: dict[str, Any], parts: str | None, overrides: Sequence[str]) -> list[Planned]:
    """Every comparison, composed and checked, so that a mistake is known before any work.

    Args:
        campaign: the list.
        parts: the names of those that are wanted, with commas between; all if None.
        overrides: of all comparisons; `backend=[…]` takes the place of the list's.

    Raises:
        UserError: a name is unknown, or an override is wrong.
    """
    names = [part["name"] for part in campaign["parts"]]
    wanted = names if parts is None else parts.split(",")
    if unknown := [name for name in wanted if name not in names]:
        raise UserError(f"parts={','.join(unknown)} is not in the campaign; choose from: {', '.join(names)}.")
    own = stacks.own()
    backend = [f"backend=[{','.join(campaign['backends'][own])}]"]
    if any(word.startswith("backend=") for word in overrides):
        backend = []
    made = []
    for part in [part for part in campaign["parts"] if part["name"] in wanted]:
        for model, particular in part["models"].items():
            line = [
                f"model={model}",
                *backend,
                *campaign["common"],
                *part["overrides"],
                *particular,
                *overrides,
            ]
            config = compose([*line, "resume=true"])
            name = stem(config, checked(config), line, own)
            made.append(
                Planned(
                    part=part["name"],
                    expected_s=float(part["expected_s"]),
                    overrides=line,
                    config=config,
                    stem=name,
                )
            )
    return made


def measure(
    campaign: Sequence[Planned], deadline: float, clock: Callable[[], float], console: Console
) -> None:
    """What is missing, one after the other, as long as it is expected to fit.

    The first is measured in any case: a comparison that never fits gets on by what each call adds.
    """
    missing = [one for one in campaign if not over(one)]
    for number, one in enumerate(missing, start=1):
        left = deadline - SECONDS_TO_END - clock()
        if left <= 0 or (number > 1 and left < one.expected_s):
            break
        console.rule(f"{one.part}: {one.stem}, {number} of {len(missing)} missing", style="none")
        try:
            with ended_after(left):
                run(one)
        except OutOfTime:
            console.print(f"ended in time: {one.csv} keeps its complete rounds", markup=False, soft_wrap=True)
            break
    if any(one.csv.exists() for one in missing):
        config = campaign[0].config
        _, refused = report.render(Path(config.results_dir), Path(config.reports_dir))
        for sentence in refused:
            console.print(sentence, markup=False, soft_wrap=True)


def run(one: Planned) -> None:
    """Measure one comparison, or what is missing of it; what fails has its row in the results file."""
    from bench.measure.comparison import measure_comparison  # not for what only looks

    config = one.config if fits_here(one) else compose(one.overrides)
    measure_comparison(config, one.stem, command(list(one.overrides), stacks.own()))


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """Raise OutOfTime within, when so many seconds have passed."""
    if math.isinf(seconds):
        yield
        return

    def rise(_: int, __: object) -> NoReturn:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, rise)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def over(one: Planned) -> bool:
    """Whether nothing is missing: as many rounds as were asked for of every backend that did not fail."""
    try:
        table = files.read(one.csv)
        found = kept(
            table,
            name=str(one.csv),
            config_hash=identity.config_hash(one.config),
            environments=dict(zip(table["backend"], table["environment"], strict=True)),
            fingerprints=dict(zip(table["backend"], table["environment_hash"], strict=True)),
        )
    except UserError:  # missing, damaged, or of another configuration
        return False
    failed = set(table[table["round"].isna()]["backend"])
    if one.config.reference in failed:
        return True
    timed = [name for name in one.config.backends if name not in failed]
    settings = one.config.measure
    return not plan.missing_launches(
        launches=settings.launches, rounds=settings.rounds, done=found.fewest(timed)
    )


def fits_here(one: Planned) -> bool:
    """Whether what is there of a comparison can be gone on with; else it is measured anew."""
    try:
        table = files.read(one.csv)
    except UserError:
        return not one.csv.exists()
    if set(table["config_hash"]) != {identity.config_hash(one.config)}:
        return False
    here = {
        name: environment.fingerprint(identity.collect(one.config, backend.stack))
        for name, backend in one.config.backends.items()
    }
    measured_in = zip(table["backend"], table["environment_hash"], strict=True)
    return all(here[name] == found for name, found in measured_in)


def told(campaign: Sequence[Planned], console: Console) -> int:
    """Say what is done, what failed and what is left; the exit status."""
    left = [one for one in campaign if not over(one)]
    troubled = {one.stem: trouble for one in campaign if one not in left and (trouble := troubles(one))}
    console.print(f"{len(campaign) - len(left)} of {len(campaign)} comparisons are there")
    for name, trouble in troubled.items():
        console.print(f"  {name}: {trouble}", markup=False, soft_wrap=True)
    if left:
        minutes = sum(one.expected_s for one in left) / 60
        console.print(f"left, about {minutes:.0f} minutes; the same command goes on:")
        for one in left:
            console.print(f"  {one.part}: {one.stem}", markup=False, soft_wrap=True)
        return MORE_TO_DO
    return 1 if troubled else 0


def troubles(one: Planned) -> str:
    """`compile oom, pytorch_zero1 invalid`: the backends that are not ok."""
    from bench.analysis.stats import summarise

    found = [summary for summary in summarise(files.read(one.csv)) if summary.status != "ok"]
    return ", ".join(f"{summary.backend} {summary.status}" for summary in found)


if __name__ == "__main__":
    sys.exit(main())

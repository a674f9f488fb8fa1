"""Interrupts a comparison and goes on with it: is anything lost, does anything stay behind?"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from bench.results.columns import COLUMNS
from bench.setup.checkout import ROOT
from tests.support.comparisons import cells_of
from tests.support.configs import TINY_MODEL
from tests.support.processes import alive, children, descendants, gone, name_of

SECONDS_TO_END = 120.0
"""After the kill of a coordinator, or after its end: a process that is left then stays for good."""


RANK = "bench-rank"  # the name of a process that trains


class Wrong(Exception):
    """Something was lost or left behind."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is asked of the comparison."""

    backends: tuple[str, ...]
    launches: int
    rounds: int
    world_size: int = 2


@dataclass(frozen=True, kw_only=True)
class Interruption:
    """What an interrupted run left."""

    before: pd.DataFrame  # the rows of complete rounds in the results file when the signal was sent
    status: int  # of the interrupted run; negative: the signal


def command(plan: Plan, folder: Path, *more: str) -> list[str]:
    """The comparison of a tiny model."""
    return [
        *(sys.executable, "-m", "tests.support.on_any_machine", "--own-pages", "bench"),
        *("device=cpu", f"device.world_size={plan.world_size}", *TINY_MODEL),
        *(f"backend=[{','.join(plan.backends)}]", "measure=quick"),
        *(f"measure.launches={plan.launches}", f"measure.rounds={plan.rounds}", "measure.block_seconds=0.1"),
        *(f"results_dir={folder}/results", f"reports_dir={folder}/reports"),
        *more,
    ]


def start(plan: Plan, folder: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start it, with what it says in a file."""
    with (folder / "said.txt").open("wb") as said:
        return subprocess.Popen(
            command(plan, folder, *more),
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(folder / "tmp")},
            stdout=subprocess.DEVNULL,
            stderr=said,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )


def interrupt(
    plan: Plan,
    folder: Path,
    victim: str,
    moment: str,
    number: signal.Signals,
    *more: str,
    choose: Callable[[list[int]], int] = max,
) -> Interruption:
    """Start the comparison, send `victim` a signal, and see that everything ends.

    Args:
        plan: of the comparison.
        folder: for everything that it leaves.
        victim: coordinator, agent or rank.
        moment: the words that the coordinator must have said.
        number: of the signal.
        more: overrides.
        choose: one of the victims' process ids.

    Raises:
        Wrong: something stayed behind.
    """
    process = start(plan, folder, *more)
    wait_for(moment, folder / "said.txt", process)
    everybody = family(process.pid)
    while not (candidates := of_kind(victim, process.pid)):
        if process.poll() is not None:
            raise Wrong(f"the comparison ended before there was any {victim} to kill")
        time.sleep(0.05)
    everybody |= family(process.pid)
    before = rounds_of(plan, folder)
    os.kill(choose(candidates), number)
    while process.poll() is None:
        everybody |= family(process.pid)
        time.sleep(0.2)
    wait_until_gone(everybody)
    if leftovers := sockets(process.pid):
        raise Wrong(f"a socket is left: {leftovers}")
    return Interruption(before=before, status=process.returncode)


def resume(plan: Plan, folder: Path, before: pd.DataFrame) -> int:
    """Go on with an interrupted comparison, and check everything; how many rounds it has then.

    Args:
        plan: of the comparison.
        folder: what `interrupt` was given.
        before: the rows that must not be lost.

    Raises:
        Wrong: a round was lost or changed, or something stayed behind.
    """
    resumed = start(plan, folder, "resume=true")
    everybody: set[int] = set()
    while resumed.poll() is None:
        everybody |= family(resumed.pid)
        time.sleep(0.2)
    wait_until_gone(everybody)
    if resumed.returncode != 0:
        raise Wrong(f"the resumed run ended with {resumed.returncode}: {last_line(folder / 'said.txt')}")
    if left := [path.name for path in (folder / "tmp").iterdir() if path.name.startswith("bench-")]:
        raise Wrong(f"temporary folders are left: {left}")
    if left := [path.name for path in (folder / "results").rglob("initial.safetensors")]:
        raise Wrong(f"weights are left: {left}")
    return rounds_in(check(plan, folder, before))


def wait_for(moment: str, said: Path, process: subprocess.Popen[bytes]) -> None:
    """Sleep until the coordinator has said so."""
    while moment not in said.read_text(errors="replace"):
        if process.poll() is not None:
            raise Wrong(f"the comparison ended without {moment!r}: {last_line(said)}")
        time.sleep(0.02)


def check(plan: Plan, folder: Path, before: pd.DataFrame) -> pd.DataFrame:
    """The rows after all: every key once, all rounds there, those of before unchanged."""
    rows = table_of(folder)
    if failed := set(rows[rows["round"] == ""]["status"]):
        raise Wrong(f"a launch is {failed}")
    if rows.duplicated(["backend", "launch", "round", "attempt"]).any():
        raise Wrong("a backend was measured twice in a round")
    for backend in plan.backends:
        mine = rows[rows["backend"] == backend]
        found = len(mine.drop_duplicates(["launch", "round"]))
        if found < plan.launches * plan.rounds:
            raise Wrong(f"{backend} has {found} rounds, fewer than {plan.launches * plan.rounds}")
    merged = before.merge(rows, how="left", indicator=True)
    if not (merged["_merge"] == "both").all():
        raise Wrong("a round that was complete before is lost or changed")
    return rows


def rounds_of(plan: Plan, folder: Path) -> pd.DataFrame:
    """The rows of complete rounds that the results file holds now."""
    rows = table_of(folder)
    if rows.empty:
        return rows
    rows = rows[rows["round"] != ""]
    backends = rows.groupby(["launch", "round"])["backend"].transform("nunique")
    return rows[backends == len(plan.backends)]


def table_of(folder: Path) -> pd.DataFrame:
    """The results file's cells as text; empty if there is none yet."""
    found = [path for path in (folder / "results").glob("*.csv") if "." not in path.stem]
    if not found:
        return pd.DataFrame(columns=list(COLUMNS))
    if len(found) > 1:
        raise Wrong(f"there are several results files: {found}")
    return pd.DataFrame(cells_of(found[0]))  # which refuses what is damaged


def rounds_in(rows: pd.DataFrame) -> int:
    """How many rounds these rows are of."""
    return len(rows.drop_duplicates(["launch", "round"]))


def family(pid: int) -> set[int]:
    """A process and all below it."""
    return set(descendants(pid))


def of_kind(kind: str, coordinator: int) -> list[int]:
    """The coordinator, its agents or their ranks."""
    if kind == "coordinator":
        return [coordinator]
    everybody = descendants(coordinator)
    if kind == "rank":
        return [pid for pid in everybody if name_of(pid) == RANK]
    return [pid for pid in everybody if RANK in map(name_of, children(pid))]  # which torch names anew


def wait_until_gone(pids: set[int]) -> None:
    """Until none of them runs any more."""
    if not gone([*pids], SECONDS_TO_END):
        left = [pid for pid in pids if alive(pid)]
        raise Wrong(f"{len(left)} processes are left after {SECONDS_TO_END:.0f} s: {left}")


def sockets(coordinator: int) -> list[str]:
    """The abstract sockets of a coordinator that still exist."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return [line for line in lines if f"@bench-{coordinator}-" in line]


def last_line(path: Path) -> str:
    """What the coordinator said last."""
    lines = path.read_text(errors="replace").splitlines()
    return lines[-1].split(" s  ", 1)[-1].split("  (about")[0] if lines else ""

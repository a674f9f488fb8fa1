"""Kill a comparison at random moments and go on with it: is anything lost, does anything stay behind?

    python -m tests.support.interruptions --times 20 --out tests/support/interruptions.md

The coordinator, an agent (torchrun) and a rank get SIGKILL in turn. Afterwards the comparison is resumed
and checked; the first thing that is wrong ends the script with status 1.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from bench.results.columns import COLUMNS
from bench.setup.checkout import ROOT
from tests.support.comparisons import cells_of
from tests.support.processes import alive

VICTIMS = ("coordinator", "agent", "rank")
PARENT = "bench.worker.parent"  # what forks agents, and they their ranks
SECONDS_TO_END = 120.0
"""After the kill of a coordinator, or after its end: a process that is left then stays for good."""


class Wrong(Exception):
    """Something was lost or left behind."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is asked of the comparison."""

    backends: tuple[str, ...]
    launches: int
    rounds: int
    world_size: int = 2


PLAN = Plan(backends=("pytorch", "pytorch_zero1"), launches=2, rounds=4)


@dataclass(frozen=True, kw_only=True)
class Interruption:
    """One line of the table."""

    victim: str
    after_s: float  # into the run
    during: str  # what the coordinator said last
    before: pd.DataFrame  # the rows of complete rounds in the results file at that moment
    status: int  # of the interrupted run; negative: the signal
    gone_s: float  # until no process was left


def command(plan: Plan, folder: Path, *more: str) -> list[str]:
    """The comparison of a tiny model."""
    return [
        *(sys.executable, "-m", "tests.support.on_any_machine", "bench"),
        f"hydra.searchpath=[file://{ROOT}/tests/conf]",
        *("device=cpu", f"device.world_size={plan.world_size}", "model=bert-for-tests"),
        *(f"backend=[{','.join(plan.backends)}]", "measure=quick"),
        *(f"measure.launches={plan.launches}", f"measure.rounds={plan.rounds}", "measure.block_seconds=0.3"),
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
    moment: float | str,
    number: signal.Signals = signal.SIGKILL,
    *more: str,
    choose: Callable[[list[int]], int] = random.choice,
) -> Interruption:
    """Start the comparison, send `victim` a signal, and see that everything ends.

    Args:
        plan: of the comparison.
        folder: for everything that it leaves.
        victim: one of `VICTIMS`.
        moment: in seconds, or the words that the coordinator must have said.
        number: of the signal.
        more: overrides.
        choose: one of the victims' process ids.

    Raises:
        Wrong: something stayed behind.
    """
    begun = time.monotonic()
    process = start(plan, folder, *more)
    wait_for(moment, folder / "said.txt", process)
    everybody = family(process.pid)
    while not (candidates := of_kind(victim, process.pid)):
        if process.poll() is not None:
            raise Wrong(f"the comparison ended before there was any {victim} to kill")
        time.sleep(0.05)
    everybody |= family(process.pid)
    before = rounds_of(plan, folder)
    after = time.monotonic() - begun
    os.kill(choose(candidates), number)
    during = last_line(folder / "said.txt")
    while process.poll() is None:
        everybody |= family(process.pid)
        time.sleep(0.2)
    gone = seconds_until_gone(everybody)
    if leftovers := sockets(process.pid):
        raise Wrong(f"a socket is left: {leftovers}")
    return Interruption(
        victim=victim,
        after_s=after,
        during=during,
        before=before,
        status=process.returncode,
        gone_s=gone,
    )


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
    seconds_until_gone(everybody)
    if resumed.returncode != 0:
        raise Wrong(f"the resumed run ended with {resumed.returncode}: {last_line(folder / 'said.txt')}")
    if left := [path.name for path in (folder / "tmp").iterdir() if path.name.startswith("bench-")]:
        raise Wrong(f"temporary folders are left: {left}")
    if left := [path.name for path in (folder / "results").rglob("initial.safetensors")]:
        raise Wrong(f"weights are left: {left}")
    return rounds_in(check(plan, folder, before))


def wait_for(moment: float | str, said: Path, process: subprocess.Popen[bytes]) -> None:
    """Sleep so many seconds, or until the coordinator has said so."""
    if not isinstance(moment, str):
        time.sleep(moment)
        return
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
    return {pid}.union(*map(family, children(pid)))


def of_kind(kind: str, coordinator: int) -> list[int]:
    """The coordinator, its agents or their ranks."""
    if kind == "coordinator":
        return [coordinator]
    agents = [agent for parent in children(coordinator) if runs(parent, PARENT) for agent in children(parent)]
    return agents if kind == "agent" else [rank for agent in agents for rank in children(agent)]


def children(pid: int) -> list[int]:
    """The processes that a process has started or forked, and that it has not reaped."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def runs(pid: int, module: str) -> bool:
    """Whether a process was started as `python -m module`; one that it has forked looks alike."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return False
    return "-m" in words and words[words.index("-m") + 1] == module


def seconds_until_gone(pids: set[int]) -> float:
    """How long it takes until none of them runs any more."""
    begun = time.monotonic()
    while left := [pid for pid in pids if alive(pid)]:
        if time.monotonic() - begun > SECONDS_TO_END:
            raise Wrong(f"{len(left)} processes are left after {SECONDS_TO_END:.0f} s: {left}")
        time.sleep(0.05)
    return time.monotonic() - begun


def sockets(coordinator: int) -> list[str]:
    """The abstract sockets of a coordinator that still exist."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return [line for line in lines if f"@bench-{coordinator}-" in line]


def shared_memory() -> set[str]:
    """The names of this machine's shared memory objects."""
    return {path.name for path in Path("/dev/shm").iterdir()}


def last_line(path: Path) -> str:
    """What the coordinator said last."""
    lines = path.read_text(errors="replace").splitlines()
    return lines[-1].split(" s  ", 1)[-1].split("  (about")[0] if lines else ""


def markdown(plan: Plan, found: Sequence[tuple[Interruption, int]], whole: float, seed: int) -> str:
    """The table."""
    return "\n".join(
        [
            "# A comparison killed at random moments, and resumed",
            "",
            f"`python -m tests.support.interruptions --times {len(found)} --seed {seed}`: "
            f"{plan.launches} launches of {plan.rounds} rounds of {' and '.join(plan.backends)} "
            f"({whole:.0f} s without interruption). "
            "SIGKILL to the coordinator, an agent or a rank; then the same command with `resume=true`. In "
            "every line: each backend has each round once, the rounds that were complete before the kill "
            "are unchanged, at least as many as were asked for are there, every row is ok, and no process, "
            "socket, shared memory or temporary folder was left.",
            "",
            "| | killed | after s | while | complete rounds then | ended with | rounds after resuming | "
            "all gone within s |",
            "| ---: | --- | ---: | --- | ---: | ---: | ---: | ---: |",
            *(
                f"| {number} | {one.victim} | {one.after_s:.1f} | {one.during} | {rounds_in(one.before)} | "
                f"{one.status} | {rounds} | {one.gone_s:.1f} |"
                for number, (one, rounds) in enumerate(found, start=1)
            ),
            "",
        ]
    )


def uninterrupted(plan: Plan) -> float:
    """How long the comparison takes."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tmp").mkdir()
        begun = time.monotonic()
        if start(plan, Path(folder)).wait() != 0:
            raise Wrong("the comparison fails even when nobody interrupts it")
        return time.monotonic() - begun


def main() -> int:
    """Interrupt so many times, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    random.seed(options.seed)
    found: list[tuple[Interruption, int]] = []
    try:
        whole = uninterrupted(PLAN)
        for number in range(options.times):
            victim = VICTIMS[number % len(VICTIMS)]
            moment = random.uniform(1, 0.9 * whole)
            print(f"{number + 1}/{options.times}: {victim} after {moment:.1f} s", flush=True)
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                (folder / "tmp").mkdir()
                shared = shared_memory()
                one = interrupt(PLAN, folder, victim, moment)
                found.append((one, resume(PLAN, folder, one.before)))
                if left := sorted(shared_memory() - shared):
                    raise Wrong(f"shared memory is left: {left}")
    except Wrong as wrong:
        print(wrong, file=sys.stderr)
        return 1
    table = markdown(PLAN, found, whole, options.seed)
    print(table)
    if options.out:
        options.out.write_text(table, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Commands of `python -m bench.report` that studies bring along."""

import argparse
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.closing import this_python
from bench.study import load_parts

FIGURE = "figure"  # the command that is suggested where results can be drawn


@dataclass(frozen=True, kw_only=True)
class StudyCommand:
    """One of `COMMANDS`, by its name, in the `commands.py` of a study."""

    about: str  # what it does, in a line of --help
    parser: Callable[[], argparse.ArgumentParser]
    run: Callable[[argparse.Namespace], int]  # the exit status


def find_commands() -> dict[str, StudyCommand]:
    """The commands of all studies, by name."""
    parts = load_parts("commands").values()
    return {name: command for part in parts for name, command in part.COMMANDS.items()}


def suggest_figure(results: Path) -> str:
    """The line that draws these results; empty if no study draws."""
    line = [this_python(), "-m", "bench.report", FIGURE, str(results), "--out", "speedup.pdf"]
    return shlex.join(line) if FIGURE in find_commands() else ""

"""What would run on this machine, what would not, and how to repair it: `make doctor`.

Any Python from 3.10 on will do, with nothing installed: the machine to examine is one on which nothing works.
"""

import shutil
import sys
from collections.abc import Sequence

from bench.closing import command_parser, print_closing, run_command
from bench.doctor.judge import judge
from bench.doctor.probe import examine
from bench.doctor.table import render
from bench.setup import stacks
from bench.setup.checkout import ROOT


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the diagnoses; return 1 if something is broken that the stack needs."""
    parser = command_parser("bench.doctor", "What would run on this machine?")
    parser.add_argument("--stack", choices=stacks.NAMES, default=stacks.own())
    stack = parser.parse_args(arguments).stack
    return run_command(lambda: _run(stack), "interrupted.")


def _run(stack: str) -> int:
    if sys.stderr.isatty():
        print("looking at cores, memory, GPUs and stacks …", end="\r", file=sys.stderr, flush=True)
    diagnoses = judge(examine(stack))
    if sys.stderr.isatty():
        print("\x1b[K", end="", file=sys.stderr, flush=True)
    width = shutil.get_terminal_size().columns
    broken = sum(diagnosis.state == "broken" for diagnosis in diagnoses)
    poor = sum(diagnosis.state == "poor" for diagnosis in diagnoses)
    state = f"{broken} broken, {poor} poor" if broken or poor else "all is well"
    other_stack = f" STACK={stack}" if stack != next(iter(stacks.NAMES)) else ""
    print_closing(
        f"{stack} stack at {ROOT}: {state}.",
        table=render(diagnoses, width=width, coloured=sys.stdout.isatty()),
        next_command=f"make {'doctor' if broken else 'bench'}{other_stack}",
        purpose="after what is broken is repaired as the arrows say" if broken else "",
    )
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())

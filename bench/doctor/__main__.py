"""What would run on this machine, what would not, and how to repair it: `make doctor`.

Any Python from 3.10 on will do, with nothing installed: the machine to examine is one on which nothing works.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence

from bench.doctor.judge import judge
from bench.doctor.probe import examine
from bench.doctor.table import render
from bench.setup import stacks
from bench.setup.checkout import ROOT


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the findings; return 1 if something is broken that the stack needs."""
    parser = argparse.ArgumentParser(prog="bench.doctor", description="What would run on this machine?")
    parser.add_argument("--stack", choices=stacks.NAMES, default=stacks.own())
    stack = parser.parse_args(arguments).stack
    if sys.stderr.isatty():
        print("looking at cores, memory, GPUs and stacks …", end="\r", file=sys.stderr, flush=True)
    findings = judge(examine(stack))
    print(f"\x1b[K{stack} stack at {ROOT}\n" if sys.stderr.isatty() else f"{stack} stack at {ROOT}\n")
    width = shutil.get_terminal_size().columns
    print(render(findings, width=width, coloured=sys.stdout.isatty()))
    broken = sum(finding.state == "broken" for finding in findings)
    poor = sum(finding.state == "poor" for finding in findings)
    print(f"\n{broken} broken, {poor} poor" if broken or poor else "\nall is well")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())

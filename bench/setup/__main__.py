"""Make, repair or pack the environment of a checkout: `python3 -m bench.setup`, which `make setup` runs.

It runs before anything is installed. So this module and those that it imports use the standard library alone
and no syntax newer than Python 3.8: any Python can start them, and they find the one that the stack needs.
"""

from __future__ import annotations

import argparse
import io
import signal
import sys
from pathlib import Path

from bench.errors import UserError
from bench.setup.bundle import make_bundle
from bench.setup.checkout import ROOT
from bench.setup.choice import DEVICES, device_here
from bench.setup.install import set_up
from bench.setup.recipes import STACKS
from bench.setup.session import INTERRUPTS


def main(arguments: list[str] | None = None) -> int:
    """Make or repair the environment of this checkout and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python3 -m bench.setup", description="Make or repair the environment of this checkout."
    )
    parser.add_argument("--stack", choices=STACKS, default="ort", help="versions to install (default: ort)")
    parser.add_argument(
        "--device",
        choices=DEVICES,
        help="the packages to install (default: as before, else cuda if there is an NVIDIA GPU)",
    )
    parser.add_argument("--cpu-adam", action="store_true", help="compile DeepSpeed's Adam for CPUs, for good")
    parser.add_argument("--bundle", action="store_true", help="pack it for machines without a network")
    parser.add_argument("--out", type=Path, default=ROOT / "bundle", help="its folder (default: bundle)")
    parser.add_argument("--piece-mib", type=int, default=4000, help="largest piece, in MiB (default: 4000)")
    options = parser.parse_args(arguments)
    stack = STACKS[options.stack]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a path may have characters that the terminal lacks
    for number in INTERRUPTS:
        if signal.getsignal(number) == signal.SIG_DFL:  # under nohup SIGHUP stays ignored
            signal.signal(number, signal.default_int_handler)
    try:
        if options.bundle:
            make_bundle(stack, options.device or device_here(), options.out.absolute(), options.piece_mib)
        else:
            set_up(stack, ROOT, options.device, cpu_adam=options.cpu_adam)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("The set-up was interrupted; `make setup` goes on from there.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

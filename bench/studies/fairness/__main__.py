"""`python -m bench.studies.fairness results/MACHINE/fairness`: divides what an uncontrolled harness prints.

Measured by `make bench ARGS="experiment=fairness"`.
"""

import sys
from pathlib import Path

from bench.closing import command_parser, run_command
from bench.errors import UserError
from bench.report.files import files_of
from bench.results import csv_files
from bench.studies.fairness.division import Fairness, attribute_to_settings


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each part; the exit status."""
    parser = command_parser("bench.studies.fairness", __doc__)
    parser.add_argument("folder", type=Path, help="of the results of experiment=fairness")
    parser.add_argument("--backend", default="ortmodule", help="whose speed-up (default: ortmodule)")
    options = parser.parse_args(arguments)
    return run_command(lambda: _print(options.folder, options.backend), "interrupted.")


def divide_folder(folder: Path, backend: str) -> Fairness:
    """Divide a backend's speed-up by the files of a folder; UserError if a combination is missing."""
    divided = attribute_to_settings([csv_files.read(path) for path in files_of(folder)], backend)
    if divided is None:
        raise UserError(
            f"{folder} has not every combination of threads, allocator and MKL's path of one machine",
            'measure them: make bench ARGS="experiment=fairness"',
        )
    return divided


def _print(folder: Path, backend: str) -> int:
    divided = divide_folder(folder, backend)
    print(f"{divided.backend} over {divided.reference}")
    for part in divided.parts:
        print(f"{part.factor} left alone: {part.effect}")
    print(f"with all of them held: {divided.own}")
    print(f"what a harness prints that holds none: {divided.naive}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

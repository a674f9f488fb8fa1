"""Logs results files that are there already to experiment trackers; measures nothing.

`python -m bench.tracking results/FILE.csv … track=mlflow [track.mlflow.uri=…]`: files, and settings
of `track` as `python -m bench` takes them.

Exit status: 0 all logged, 1 some were not, 2 the command line is wrong or a library is missing.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.closing import command_parser, run_command
from bench.config.compose import compose
from bench.config.overrides import is_about_trackers
from bench.errors import UserError
from bench.measure.plan.preflight import check_trackers
from bench.results import csv_files
from bench.tracking.track import track


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    parser = command_parser("bench.tracking", __doc__)
    parser.add_argument("words", nargs="*", metavar="FILE|track…=…")
    words = parser.parse_args(arguments).words
    return run_command(lambda: _log(words), "interrupted; what was logged stays, and results are kept.")


def _log(words: Sequence[str]) -> int:
    settings = [word for word in words if is_about_trackers(word)]
    files = [Path(word) for word in words if word not in settings]
    config = compose(settings)
    if not files or not config.track.names:
        raise UserError(
            "Nothing to log" if config.track.names else "No tracker is chosen",
            "write python -m bench.tracking results/….csv track=mlflow",
        )
    check_trackers(config)
    for file in files:
        csv_files.read(file)
    status = 0
    for file in files:
        outcome = track(file, config.track)
        for sentence in outcome.logged:
            print(sentence)
        for sentence in outcome.failed:
            print(sentence, file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())

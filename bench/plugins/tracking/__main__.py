"""Logs results files that are there already to experiment trackers; measures nothing.

`python -m bench.plugins.tracking results/FILE.csv … track=mlflow [track.mlflow.uri=…]`: files, and settings
of `track` as `python -m bench` takes them.

Exit status: 0 all logged, 1 some were not, 2 the command line is wrong or a library is missing.
"""

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from bench.closing import command_parser, run_command
from bench.config.compose import compose
from bench.errors import UserError
from bench.plugins.tracking import clients
from bench.plugins.tracking.content import content_of
from bench.plugins.tracking.track import check, not_logged
from bench.report.content.collection import read_comparison


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    parser = command_parser("bench.plugins.tracking", __doc__)
    parser.add_argument("words", nargs="*", metavar="FILE|track…=…")
    words = parser.parse_args(arguments).words
    return run_command(lambda: _log(words), "interrupted; what was logged stays, and results are kept.")


def _log(words: Sequence[str]) -> int:
    settings = [word for word in words if re.match(r"[+]*track[.=]", word)]
    files, config = [Path(word) for word in words if word not in settings], compose(settings)
    if not files or not config.track.names:
        lacking = "Nothing to log" if config.track.names else "No tracker is chosen"
        raise UserError(lacking, "write python -m bench.plugins.tracking results/….csv track=mlflow")
    check(config)
    failed, folder = 0, Path(config.track.folder)
    with tempfile.TemporaryDirectory(prefix="bench-tracking-") as drawn:
        contents = [content_of(read_comparison(file), Path(drawn)) for file in files]
        for content, name in product(contents, config.track.names):
            log = getattr(clients, f"log_to_{name}")
            try:
                print(f"logged to {name}: {log(content, getattr(config.track, name), folder)}", flush=True)
            except (Exception, SystemExit) as error:  # whatever a client raises
                reason = ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
                print(not_logged(name, reason, content.files[0]), file=sys.stderr, flush=True)
                failed = 1
    return failed


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # all is written: what a client still does at exit must keep nobody waiting

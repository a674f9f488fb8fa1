"""python -m bench.report RESULTS_DIR --out REPORTS_DIR: rebuild reports from committed results."""

import argparse
import gc
import sys
from pathlib import Path
from textwrap import fill

from bench.closing import WIDTH, command_parser, print_closing, run_command
from bench.report.build import render_all, render_report
from bench.report.content.answer import NO_ANSWER
from bench.report.content.study_commands import find_commands, suggest_figure
from bench.report.files import RENDERED
from bench.results.machines import list_machines


def main(arguments: list[str] | None = None) -> int:
    """Run a study's command, or render every results file; 2 if one could not be read, else 0."""
    given = sys.argv[1:] if arguments is None else arguments
    if command := find_commands().get(" ".join(given[:1])):
        options, run = command.parser().parse_intermixed_args(given[1:]), command.run
    else:
        options, run = _parser().parse_args(given), _run
    return run_command(lambda: run(options), "interrupted; the same command makes everything anew.")


def _run(options: argparse.Namespace) -> int:
    results: Path = options.results_dir
    if list_machines(results):
        rendered = render_all(results, options.out, options.rendered)
    else:  # of one machine, or of another folder
        rendered = render_report(results, options.out)
    for sentence in rendered.refused:
        print(sentence, file=sys.stderr)
    sentences = [f"{answer.setting}: {answer.short}" for answer in rendered.answers]
    first, *further = sentences or [NO_ANSWER]
    print_closing(
        first,
        table="\n".join(fill(f"- {sentence}", WIDTH, subsequent_indent="  ") for sentence in further),
        files=rendered.written,
        next_command=suggest_figure(results),
        purpose="the models side by side",
    )
    return 2 if rendered.refused else 0


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("bench.report", __doc__)
    lines = [f"  python -m bench.report {name} --help: {one.about}" for name, one in find_commands().items()]
    parser.epilog = "\n".join(["of chosen results:", *lines]) if lines else None
    parser.add_argument("results_dir", type=Path, metavar="RESULTS_DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="REPORTS_DIR")
    parser.add_argument(
        "--rendered",
        type=Path,
        default=RENDERED,
        metavar="FOLDER",
        help="where each machine has an index.html, too, if RESULTS_DIR is of several (default: rendered)",
    )
    return parser


if __name__ == "__main__":
    gc.disable()  # it ends soon, and leaves hardly any garbage: 0.7 s of 10 (Intel Xeon, family 6, model 207)
    sys.exit(main())

"""Measures the comparisons that a plan file lists, one after the other.

`python -m bench.studies.sweeps PLAN [parts=a,b] [model=a,b] [overrides]`. PLAN is the name of a file in
conf/sweeps/, such as `matrix`, or the path of another. All comparisons are composed and checked before the
first is measured. `parts` and `model` choose what is measured; overrides hold for all comparisons. A
comparison that is interrupted keeps its complete rounds, and the same command goes on with it if resume=true
stands in the plan or on the command line.

Exit status:
  0    everything is measured, and every launch was ok or its failure is a result
  1    everything is measured, and some launches were not ok or a tracker failed; or the disk takes no more
  2    the command line, the plan or the configuration is wrong
  130  interrupted by Ctrl-C; 143: by SIGTERM
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.closing import RESUMABLE, command_parser, print_closing, run_command

OWN_KEYS = ("parts", "model")
"""Settings of the sweep itself; everything else is an override of its comparisons."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    parser = command_parser("bench.studies.sweeps", __doc__)
    parser.add_argument("plan", metavar="PLAN", help="matrix, gpu-campaign, or the path of a YAML file")
    parser.add_argument("settings", nargs="*", default=[], metavar="KEY=VALUE", help="as described above")
    options = parser.parse_args(arguments)
    return run_command(lambda: _run(options.plan, options.settings), RESUMABLE)


def _run(plan_name: str, settings: Sequence[str]) -> int:
    # Not for --help, which should take no time.
    from bench.studies.sweeps.comparisons import plan_comparisons
    from bench.studies.sweeps.made_images import make_images
    from bench.studies.sweeps.plan_file import load_plan, select_parts
    from bench.studies.sweeps.runner import run_sweep

    pairs = [setting.partition("=") for setting in settings]
    own = {key: value.split(",") for key, _, value in pairs if key in OWN_KEYS}
    overrides = ["".join(pair) for pair in pairs if pair[0] not in OWN_KEYS]
    plan = load_plan(plan_name)
    parts = select_parts(plan, own.get("parts"), own.get("model"))
    if plan.images is not None:
        make_images(Path(plan.images))
    comparisons = plan_comparisons(plan, parts, overrides)
    outcome = run_sweep(plan, comparisons)
    print_closing(
        outcome.sentence,
        table="\n".join(f"- {stem}: {words}" for stem, words in outcome.failures.items()),
        files=outcome.files,
        next_command="make report",
        purpose="rebuild tables, figures and page",
    )
    failed = outcome.failures and not plan.failures_are_results
    return 1 if failed or outcome.untracked else 0


if __name__ == "__main__":
    sys.exit(main())

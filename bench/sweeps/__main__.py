"""Measures the comparisons that a plan file lists, one after the other.

`python -m bench.sweeps PLAN [minutes=9] [parts=a,b] [model=a,b] [plan_only=true] [overrides]`.
PLAN is the name of a file in conf/sweeps/, such as `matrix`, or the path of another. All comparisons are
composed and checked before the first is measured. `minutes` limits the call: a comparison that is stopped
keeps its complete rounds, and the same command goes on with it if resume=true stands in the plan or on the
command line. `parts` and `model` choose what is measured; overrides hold for all comparisons.
`plan_only=true` says what would be measured.

Exit status:
  0    everything is measured, and every launch was ok or its failure is a result
  1    everything is measured, and some launches were not ok or a tracker failed; or the disk takes no more
  2    the command line, the plan or the configuration is wrong
  3    something is left to measure: the same command goes on
  130  interrupted by Ctrl-C; 143: by SIGTERM
"""

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.closing import RESUMABLE, command_parser, print_closing, run_command, this_python
from bench.errors import UserError

LEFT_TO_MEASURE = 3

OWN_KEYS = ("minutes", "parts", "model", "plan_only")
"""Settings of the sweep itself; everything else is an override of its comparisons."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    started = time.monotonic()
    parser = command_parser("bench.sweeps", __doc__)
    parser.add_argument("plan", metavar="PLAN", help="matrix, gpu-campaign, or the path of a YAML file")
    parser.add_argument("settings", nargs="*", default=[], metavar="KEY=VALUE", help="as described above")
    options = parser.parse_args(arguments)
    return run_command(lambda: _run(options.plan, options.settings, started), RESUMABLE)


def _run(plan_name: str, settings: Sequence[str], started: float) -> int:
    # Not for --help, which should take no time.
    from bench.sweeps.comparisons import plan_comparisons
    from bench.sweeps.fitted_plan import fit_to_machine
    from bench.sweeps.made_images import make_images
    from bench.sweeps.plan_file import load_plan, select_parts
    from bench.sweeps.runner import Sweep, parse_minutes

    pairs = [setting.partition("=") for setting in settings]
    own = {key: value for key, _, value in pairs if key in OWN_KEYS}
    overrides = ["".join(pair) for pair in pairs if pair[0] not in OWN_KEYS]
    seconds = parse_minutes(own.get("minutes"))
    plan = load_plan(plan_name)
    chosen = (own[key].split(",") if key in own else None for key in ("parts", "model"))
    parts = select_parts(plan, *chosen)
    if plan.images is not None:
        make_images(Path(plan.images))
    console = Console(stderr=True, highlight=False)
    parts, unmeasured, seconds = fit_to_machine(plan, parts, overrides, seconds=seconds, console=console)
    comparisons = plan_comparisons(plan, parts, overrides)
    if "minutes" in own and not all(comparison.config.resume for comparison in comparisons):
        raise UserError("minutes=… needs resume=true: without it the next call would begin anew.")
    sweep = Sweep(plan, comparisons, unmeasured=unmeasured, deadline=started + seconds, console=console)
    if own.get("plan_only") == "true":
        if not sweep.announce():
            console.print("nothing is left to measure.")
        return 0
    outcome = sweep.run()
    again = shlex.join([this_python(), "-m", "bench.sweeps", plan_name, *settings])
    print_closing(
        outcome.sentence,
        table="\n".join(outcome.lines),
        files=outcome.files,
        next_command=again if outcome.left else "make report",
        purpose="goes on" if outcome.left else "rebuild tables, figures and page",
    )
    if outcome.left:
        return LEFT_TO_MEASURE
    failed = outcome.failures and not plan.failures_are_results
    return 1 if failed or outcome.untracked else 0


if __name__ == "__main__":
    sys.exit(main())

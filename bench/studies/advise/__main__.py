"""`make advise`: which configuration trains a model fastest in a given memory on this machine's CPU.

`python -m bench.studies.advise model=bert-base device.memory_limit_gib=6 [Hydra overrides]` measures the
backends of conf/backend/advised.yaml, or those of another experiment=… or backend=…, in one comparison under
the limit, and shows those that fit, the fastest first. If the reference does not train within the limit,
the other backends are measured again against the next one. The results lie in results/<machine>/advise/.

Exit status: 0 if something trains within the limit, 1 if nothing does, 2 if the command line is wrong, 130
after Ctrl-C, 143 after SIGTERM.
"""

import sys
from collections.abc import Sequence

from bench.closing import command_parser, run_command
from bench.errors import UserError
from bench.studies.advise import COMMON


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    parser = command_parser("bench.studies.advise", __doc__)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="overrides, as for `make bench`")
    line = [*COMMON, *parser.parse_args(arguments).overrides]
    return run_command(lambda: _advise(line), "interrupted; what was measured is kept.")


def _advise(line: Sequence[str]) -> int:
    # Not for --help, which should take no time.
    from bench.config.compose import compose
    from bench.studies.advise.fitting import measure_fitting
    from bench.studies.advise.words import print_advice

    config = compose(line)
    if config.device.memory_limit_gib is None:
        raise UserError(
            "make advise needs to know how much memory training may take",
            'set device.memory_limit_gib=…, as in ARGS="device.memory_limit_gib=6"; a GPU is a limit itself: '
            'make bench ARGS="experiment=advise device=cuda"',
        )
    comparisons = measure_fitting(config)
    return print_advice(comparisons, config)


if __name__ == "__main__":
    sys.exit(main())

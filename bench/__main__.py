"""`python -m bench [overrides]` measures one comparison, or with --multirun each point of a sweep.

Compose, load, check, run, exit: 0 if every launch was ok, 1 if some were not, 2 if the command line
or the configuration is wrong, 130 after Ctrl-C, 143 after SIGTERM. This is the one place that prints errors.
"""

import os
import re
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from bench.closing import RESUMABLE, run_command
from bench.config.choices import CONF
from bench.config.compose import load, register
from bench.config.overrides import for_hydra
from bench.config.refusals import as_user_errors
from bench.config.schema import Config
from bench.errors import CannotWriteResults, Terminated, UserError
from bench.measure.plan.preflight import check_and_name


def main() -> int:
    """Run the command line in `sys.argv`; the exit status."""
    return run_command(_run, RESUMABLE)


def _run() -> int:
    outcome = CommandOutcome()
    register()
    try:
        overrides, flags = read_words(sys.argv[1:])
        with as_user_errors():
            sys.argv[1:] = [*flags, *for_hydra(overrides)]  # Hydra reads them there
            os.environ["HYDRA_FULL_ERROR"] = "1"  # else Hydra prints exceptions its own way and exits
            hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(outcome.measure)()
    except UserError as error:
        outcome.refused.append(str(error))
    except KeyboardInterrupt:
        outcome.print()
        raise
    outcome.print()
    return outcome.status


def read_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The overrides and Hydra's flags, which Hydra does not take between overrides."""
    overrides = [word for word in words if re.match("(?!-).*=|~", word)]
    return overrides, [word for word in words if word not in overrides]


def measure_point(cfg: DictConfig) -> list[str]:
    """Measure one comparison; a line for each of its launches that was not ok."""
    if HydraConfig.get().job.chdir:
        raise UserError("hydra.job.chdir=true would resolve every path in another folder", "leave it out")
    config = load(cfg)
    name = check_and_name(config)
    in_sweep = HydraConfig.get().mode == RunMode.MULTIRUN
    trouble = measure_and_report(config, name, in_sweep=in_sweep)
    return [f"{name}:", *trouble] if trouble and in_sweep else trouble


def measure_and_report(config: Config, stem: str, *, in_sweep: bool = False) -> list[str]:
    """Measure the comparison, render its reports and print the answer, the table and the files.

    Answer and table are printed before the pages and the rest; Ctrl-C then ends only that rest, unless
    other comparisons follow `in_sweep`. Returns a line for each launch that was not ok, and for each
    tracker that did not get the results.
    """
    # these are not imported for --help, which answers at once
    from bench.measure.comparison import ComparisonOutcome, measure_comparison
    from bench.report.build import render_report
    from bench.report.closing_words import print_rest, print_verdict
    from bench.report.content.collection import read_comparison
    from bench.report.files import reported_folders
    from bench.results.atomic import reporting_write_errors
    from bench.study import load_plugin

    shown: list[ComparisonOutcome] = []
    interrupted = False

    def show_verdict(measured: ComparisonOutcome) -> None:
        print_verdict(read_comparison(measured.csv))
        shown.append(measured)

    try:
        outcome = measure_comparison(config, stem, show_verdict)
    except KeyboardInterrupt as interruption:
        if not shown or in_sweep or isinstance(interruption, Terminated):
            raise
        (outcome,), interrupted = shown, True
    with reporting_write_errors(outcome.csv):
        rendered = render_report(*reported_folders(Path(config.results_dir), Path(config.reports_dir)))
    for sentence in rendered.refused:
        print(sentence, file=sys.stderr)
    comparison = read_comparison(outcome.csv)
    untracked = []
    if config.track.names:
        say = partial(print, file=sys.stderr)
        untracked = load_plugin("tracking.track").track(outcome.csv, config.track, say)
    if not shown:
        print_verdict(comparison)
    page = Path(f"{rendered.written[0]}#{comparison.anchor}")
    print_rest(comparison, [outcome.csv, page], config, interrupted=interrupted)
    return [*outcome.failures, *untracked]


@dataclass
class CommandOutcome:
    """What has gone wrong so far. An error in one comparison does not stop the next."""

    refused: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    bugs: list[str] = field(default_factory=list)  # tracebacks

    def measure(self, cfg: DictConfig) -> None:
        """Measure one comparison and note its errors: no exception of ours reaches Hydra."""
        try:
            self.failed += measure_point(cfg)
        except CannotWriteResults as error:
            self.failed.append(str(error))
        except UserError as error:
            self.refused.append(str(error))
        except Exception as error:
            self.bugs.append("".join(traceback.format_exception(error)))

    @property
    def status(self) -> int:
        """The exit status."""
        if self.refused and not self.bugs:
            return 2
        return 1 if self.failed or self.bugs else 0

    def print(self) -> None:
        """Everything that went wrong, to stderr, a refusal once; only our own errors with a traceback."""
        for text in (*self.bugs, *self.failed, *dict.fromkeys(self.refused)):
            print(text.rstrip(), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m bench [overrides]` measures one comparison, or with --multirun each point of a sweep.

Compose, load, check, run, exit: 0 if every launch was ok, 1 if some were not, 2 if the command line
or the configuration is wrong, 130 after Ctrl-C, 143 after SIGTERM. This is the one place that prints errors.
"""

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NoReturn

import hydra
from hydra._internal.utils import get_args_parser
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

FULL_ERROR = "HYDRA_FULL_ERROR"
"""The variable with which Hydra lets exceptions out; without it, Hydra prints them its own way and exits."""


def main() -> int:
    """Run the command line in `sys.argv`; the exit status."""
    return run_command(_run, RESUMABLE)


def _run() -> int:
    outcome = CommandOutcome()
    register()
    try:
        overrides, flags = read_words(sys.argv[1:])
        with as_user_errors():
            sys.argv[1:] = [*for_hydra(overrides), *flags]  # Hydra reads them there
            for_each_point(outcome.measure)
    except UserError as error:
        outcome.refused.append(str(error))
    except KeyboardInterrupt:
        outcome.print()
        raise
    outcome.print()
    return outcome.status


def read_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The overrides and Hydra's flags, which Hydra does not take between overrides.

    Refuses an unknown flag, and a word or a present folder that is not text in this locale.
    """
    encoding = sys.getfilesystemencoding()
    for text in [*words, str(Path.cwd())]:
        if re.search("[\ud800-\udfff]", text):  # Python's stand-ins for bytes that it could not read
            readable = text.encode("utf-8", "replace").decode()
            raise UserError(f"{readable} cannot be read as {encoding}", "set LC_ALL=C.UTF-8, or rename it")

    def refuse(message: str) -> NoReturn:
        raise UserError(message, "python -m bench --help shows what there is")

    parser = get_args_parser()
    parser.error = refuse  # else it prints its usage and exits
    given = [word for word in words if re.match(r"(?!-).*=", word)]
    rest = [word for word in words if word not in given]
    overrides = parser.parse_intermixed_args([*given, *rest]).overrides
    return overrides, [word for word in rest if word not in overrides]


def for_each_point(measure: Callable[[DictConfig], None]) -> None:
    """Let Hydra call `measure` with every configuration that the command line asks for."""
    before = os.environ.get(FULL_ERROR)

    def task(cfg: DictConfig) -> None:
        with environment_variable(FULL_ERROR, before):  # child processes do not get the variable
            measure(cfg)

    with environment_variable(FULL_ERROR, "1"):
        hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(task)()


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


@contextmanager
def environment_variable(name: str, value: str | None) -> Iterator[None]:
    """Hold an environment variable at `value` (None: unset), then restore its old value."""
    before = os.environ.pop(name, None)
    os.environ.update({} if value is None else {name: value})
    try:
        yield
    finally:
        os.environ.pop(name, None)
        os.environ.update({} if before is None else {name: before})


if __name__ == "__main__":
    sys.exit(main())

"""`make advise`: which configuration trains a model fastest in a given memory on this machine.

`python -m bench.advise model=bert-base device.memory_limit_gib=6 [Hydra overrides]`. A short trial shows what
plain PyTorch needs. From it, and from what every choice did on this machine in results/ (`make methods`), the
memory and the speed of each configuration of conf/backend/advised.yaml are predicted as bounds. What cannot
be the best is left out and named with the reason; the rest is measured under the limit. The results lie in
results/advise/.

Exit status: 0 if something trains within the limit, 1 if nothing does, 2 if the command line is wrong, 130
after Ctrl-C, 143 after SIGTERM.
"""

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.closing import print_closing
from bench.errors import CannotWriteResults, UserError
from bench.launch.lifeline import Terminated

COMMON = ("experiment=advise", "results_dir='results/advise/${bench.machine:${device.type}}'")

TRIAL_PARTS = 4
"""At most so many parts of a micro-batch in the trial: it then needs less memory than most configurations."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.advise",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="Hydra overrides, as of `make bench`"
    )
    options = parser.parse_args(arguments)
    Terminated.catch()
    try:
        return _advise(options.overrides)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1 if isinstance(error, CannotWriteResults) else 2
    except KeyboardInterrupt as interruption:
        print("interrupted; what was measured is kept.", file=sys.stderr)
        return 143 if isinstance(interruption, Terminated) else 130


def _advise(overrides: Sequence[str]) -> int:
    # Not for --help, which should take no time.
    from bench.advise import measured, words
    from bench.advise.effects import find_effects, read_comparisons
    from bench.advise.predict import divisors, predict, select
    from bench.analysis.comparison_results import ComparisonResults
    from bench.config.compose import compose
    from bench.machine.hardware import memory_bytes
    from bench.report import describe
    from bench.results import csv_files
    from bench.sweeps.fitted_plan import effort_of
    from bench.sweeps.trials import train_shortly

    console = Console(stderr=True, highlight=False)
    line = [*COMMON, *overrides]
    config = compose(line)
    limit_gib = config.device.memory_limit_gib
    if limit_gib is None:
        raise UserError(
            "make advise needs to know how much memory training may take",
            'set device.memory_limit_gib=…, as in ARGS="device.memory_limit_gib=6"',
        )
    if config.device.type != "cpu":
        raise UserError(
            "make advise predicts the memory of a CPU alone so far",
            'on a GPU measure them all: make bench ARGS="experiment=advise device=cuda"',
        )
    results = Path(config.results_dir)
    parts = max(one for one in divisors(config.micro_batch) if one <= TRIAL_PARTS)
    console.print("a short trial of plain PyTorch")
    accumulated = [f"backends.pytorch.accumulate={parts}"] if parts > 1 else []
    trial, tried = train_shortly([*line, "device.memory_limit_gib=null", *accumulated], results)
    here = ComparisonResults(stem=tried.stem, rows=csv_files.read(tried))
    machine = describe.short_machine(here.rows)
    effects = find_effects(read_comparisons(results.parents[1]), here.hardware_key)
    limit = limit_gib * 2**30
    candidates = [
        predict(config, name, trial, trial_parts=parts, effects=effects, limit_bytes=limit)
        for name in config.backends
    ]
    selection = select(candidates, limit)
    if not selection.open:
        print_closing(
            words.answer([], config.model.name, limit_gib, machine), table=words.table([], selection)
        )
        return 1
    together = limit * len(selection.open) <= memory_bytes()
    line += [] if together else ["measure.resident=one"]
    effort = dataclasses.replace(effort_of(config), backends=len(selection.open))
    trial_words = (
        f"plain PyTorch with each micro-batch in {parts} parts: {trial.seconds:.2f} s a step, peak of a rank "
        f"{trial.peak_bytes / 2**30:.2f} GiB"
    )
    for said in words.plan_lines(selection, trial_words, effort.seconds(trial.seconds)):
        console.print(said, markup=False, soft_wrap=True)
    outcomes = measured.measure(selection.open, line)
    again = [
        smaller
        for one in outcomes
        if one.status == measured.OUT_OF_MEMORY
        and (smaller := measured.in_more_parts(one.candidate, config.micro_batch)) is not None
    ]
    if again:
        outcomes = measured.measure_again(outcomes, again, line)
    print_closing(
        words.answer(outcomes, config.model.name, limit_gib, machine),
        table=words.table(outcomes, selection),
        files=list(dict.fromkeys(one.csv for one in outcomes)),
        next_command=outcomes[0].command if outcomes and outcomes[0].samples_per_s else "",
        purpose="measures the first alone",
    )
    return 0 if any(one.samples_per_s for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())

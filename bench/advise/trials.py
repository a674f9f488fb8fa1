"""Tries plain PyTorch for some steps, with micro-batches in several numbers of parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.advise.plain import PlainTraining, learn, parts_of_trials
from bench.advise.predict import PLAIN, held_bytes
from bench.config.compose import compose
from bench.config.schema import Config
from bench.report.content.collection import ReportedComparison, read_comparison
from bench.sweeps.trials import train_shortly


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What the trials have shown."""

    config: Config  # of all of them
    training: PlainTraining  # the line through them
    results: ReportedComparison  # of the last


def try_plain(line: Sequence[str], results_dir: Path, say: Callable[[str], None]) -> Tried:
    """Train plain PyTorch for some steps, without a limit.

    Args:
        line: the overrides of the comparison that the trials are for.
        results_dir: in which the trials' folder lies.
        say: is told what is tried.

    Raises:
        TrialFailed: it did not train; with the reason.
    """
    whole = [
        *(one for one in line if not one.startswith(("reference=", "backends."))),
        *("backend=[pytorch]", "device.memory_limit_gib=null"),
    ]
    config = compose(whole)
    trials = {}
    for parts in parts_of_trials(config.micro_batch):
        say(f"a short trial of plain PyTorch, each micro-batch in {parts} parts")
        trials[parts], csv = train_shortly([*whole, f"backends.{PLAIN}.accumulate={parts}"], results_dir)
    held = held_bytes(config, PLAIN, next(iter(trials.values())))
    return Tried(
        config=config, training=learn(trials, config.micro_batch, held), results=read_comparison(csv)
    )

"""Measures backends under a memory limit; each reference that does not fit needs another comparison."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from bench.config.backend import choose_reference
from bench.config.schema import Config
from bench.machine.hardware import memory_bytes
from bench.measure.comparison import measure_comparison
from bench.measure.plan.preflight import check_and_name
from bench.report.content.collection import ReportedComparison, read_comparison

MEMORY_SHARE = 0.8
"""Share of the machine's memory that all ranks together may take; the rest is for the system and files."""

UNDECIDED = ("ok", "skipped")
"""Statuses of backends that may get a speed-up over another reference, since this one failed."""


def measure_together(config: Config) -> ReportedComparison:
    """Measure one comparison; its results."""
    return read_comparison(measure_comparison(config, check_and_name(config)).csv)


def measure_fitting(
    config: Config, measure: Callable[[Config], ReportedComparison] = measure_together
) -> list[ReportedComparison]:
    """Measure backends under a memory limit; if the reference fails, measure the rest again without it.

    A reference whose blocks other processes on its cores have spoiled is kept: the next would do no better.
    Tests give another `measure`.
    """
    # Only transformers' models can compute activations again.
    has_module = config.model.module is not None
    names = [name for name in config.backends if not (has_module and config.checkpointing_of(name))]
    comparisons: list[ReportedComparison] = []
    while names:
        results = measure(with_backends(names, config))
        comparisons.append(results)
        base = results.base
        if base is None or base.status in ("ok", "invalid"):
            break
        names = [each.backend for each in results.others if each.status in UNDECIDED]
    return comparisons


def with_backends(names: Sequence[str], config: Config) -> Config:
    """The comparison of fewer backends, each as it was.

    Backends that would together fill this machine's memory are measured one after the other, in no more
    launches: which of them is fastest is a coarse question.
    """
    fewer = replace(
        config,
        backends={name: config.backends[name] for name in names},
        reference=config.reference if config.reference in names else choose_reference(names),
    )
    needed = (config.device.memory_limit_gib or 0.0) * 2**30 * len(names)
    if needed <= MEMORY_SHARE * memory_bytes():
        return fewer
    return replace(fewer, measure=replace(fewer.measure, schedule="sequential"))

"""Measures backends under a memory limit, in as many comparisons as there are references that do not fit."""

import re
from collections.abc import Callable, Sequence

from bench.config.compose import compose
from bench.config.schema import Config
from bench.machine.hardware import memory_bytes
from bench.measure.comparison import measure_comparison
from bench.measure.plan.preflight import check_and_name
from bench.report.content.collection import ReportedComparison, read_comparison
from bench.sweeps.fit import MEMORY_SHARE

UNDECIDED = ("ok", "skipped")
"""Statuses of what another reference may give a speed-up: it has none, since the reference failed."""

OF_A_BACKEND = re.compile(r"[+~]*backends\.([^.=]+)")


def measure_together(line: Sequence[str]) -> ReportedComparison:
    """Measure one comparison by its overrides; its results."""
    config = compose(line)
    return read_comparison(measure_comparison(config, check_and_name(config, line), line).csv)


def measure_fitting(
    config: Config,
    line: Sequence[str],
    measure: Callable[[Sequence[str]], ReportedComparison] = measure_together,
) -> list[ReportedComparison]:
    """Measure the backends of a configuration that has a limit; if the reference fails, the rest once more.

    A reference whose blocks others on its cores have spoiled is kept: the next would fare no better. Tests
    give another `measure`.
    """
    # Only transformers' models can compute activations again.
    is_own = config.model.module is not None
    names = [name for name in config.backends if not (is_own and config.checkpointing_of(name))]
    comparisons: list[ReportedComparison] = []
    while names:
        results = measure(overrides_of(names, config, line))
        comparisons.append(results)
        base = results.base
        if base is None or base.status in ("ok", "invalid"):
            break
        names = [each.backend for each in results.others if each.status in UNDECIDED]
    return comparisons


def overrides_of(names: Sequence[str], config: Config, line: Sequence[str]) -> list[str]:
    """The overrides of a comparison of these of the backends that `line` chooses, without what sets others.

    Those that would fill this machine's memory together are measured one after the other.
    """
    kept = [
        override
        for override in line
        if not override.startswith(("backend=", "reference="))
        and ((named := OF_A_BACKEND.match(override)) is None or named[1] in names)
    ]
    reference = [f"reference={config.reference}"] * (config.reference in names)
    needed = (config.device.memory_limit_gib or 0.0) * 2**30 * len(names)
    one_by_one = ["measure.resident=one"] * (needed > MEMORY_SHARE * memory_bytes())
    return [*kept, f"backend=[{','.join(names)}]", *reference, *one_by_one]

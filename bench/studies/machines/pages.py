"""reports/machines.md: comparisons that several machines made; the page over all machines has its figure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.analysis.comparison_results import ComparisonResults
from bench.compare.kinds import (
    HostSpread,
    SameComparison,
    group_by_comparison,
    group_by_kind,
    spread_between_hosts,
)
from bench.report.content.backend_columns import ratio_above_interval
from bench.report.content.blocks import Block, Heading, Paragraph, Table, Text, table_of_texts
from bench.report.content.study_pages import ByMachine, StudyPage, WrittenPage
from bench.report.render.markdown import render_markdown
from bench.report.words.formatting import number
from bench.report.words.titles import make_title
from bench.results.atomic import write_atomically
from bench.statistics.intervals import Speedup, from_logs, squared_standard_error, t_quantile
from bench.statistics.table_values import model_label
from bench.studies.limit.rates import GIGA, rates_by_stack

PRODUCTS = "GFLOP/s: PyTorch, ONNX Runtime"

EXPLANATION = (
    "In brackets the 95 % interval: in a machine's row over its own launches, which says nothing of other "
    "machines; in the mean of a kind's hosts over hosts."
)


SMALLEST_VARIANCE = 1e-12
"""Least squared standard error of a mean of logarithms: launches that agree to more digits than a clock has
would outweigh all others."""


@dataclass(frozen=True, kw_only=True)
class BackendOnMachines:
    """A backend's speed-up over another on each machine."""

    backend: str
    base: str
    speedups: Mapping[str, Speedup]
    kinds: Mapping[str, Speedup]  # by the first of a kind's machines, the mean of those with several launches


def compare_backends(same: SameComparison, hosts: HostSpread) -> list[BackendOnMachines]:
    """Each backend that at least two machines have measured."""
    return [_compare_backend(same, backend, hosts) for backend in same.launches]


def _compare_backend(same: SameComparison, backend: str, hosts: HostSpread) -> BackendOnMachines:
    base = next(iter(same.machines.values())).reference
    measured = same.launches[backend]
    speedups = {name: same.machines[name].speedup_between(backend, base) for name in measured}
    several = {name: launches for name, launches in measured.items() if len(launches) > 1}
    kinds: dict[str, Speedup] = {}
    for names in group_by_kind({name: same.machines[name] for name in several}):
        squared = [squared_standard_error(several[name]) + hosts.deviation**2 for name in names]
        weights = 1 / np.maximum(squared, SMALLEST_VARIANCE)
        mean = float(np.average([several[name].mean() for name in names], weights=weights))
        half = t_quantile(hosts.freedom) / math.sqrt(weights.sum())
        kinds[names[0]] = from_logs(mean, half, launches=len(names), rounds=0)
    return BackendOnMachines(
        backend=backend,
        base=base,
        speedups={name: speedup for name, speedup in speedups.items() if speedup},
        kinds=kinds,
    )


def machines_page(groups: Sequence[SameComparison], hosts: HostSpread) -> list[Block]:
    """A table for every comparison that at least two machines made."""
    text = EXPLANATION if groups else "No two machines have made the same comparison."
    blocks: list[Block] = [Heading("The same comparison on several machines", 1), Paragraph(text)]
    for same in groups:
        blocks += [Heading(title_of(same)), machines_table(same, hosts)]
    return blocks


def title_of(same: SameComparison) -> str:
    """What was compared: the model, the ranks, and settings beside the defaults."""
    rows = next(iter(same.machines.values())).rows
    columns = ("model", "size", "layers", "published_layers")
    return make_title(rows, model_label(*(rows[column].iloc[0] for column in columns)))


def machines_table(same: SameComparison, hosts: HostSpread) -> Table:
    """A row for each machine, and the mean of a kind's hosts."""
    backends = compare_backends(same, hosts)
    headers = ["machine", PRODUCTS, *(f"{backend.backend} over {backend.base}" for backend in backends)]
    rows: list[list[Text]] = []
    for names in group_by_kind(same.machines):
        for name in names:
            cells = [ratio_above_interval(backend.speedups.get(name)) for backend in backends]
            rows.append([name, _products(same.machines[name]), *cells])
        if len(names) > 1:
            means = [next(filter(None, map(backend.kinds.get, names)), None) for backend in backends]
            rows.append([f"mean of these {len(names)} hosts", "", *map(ratio_above_interval, means)])
    return table_of_texts(headers, rows, text_columns=headers[:2])


def _products(results: ComparisonResults) -> str:
    """`194, 205`: billions of operations per second in matrix products, by PyTorch and by ONNX Runtime."""
    rates = next(iter(rates_by_stack(results.rows)), None)
    known = [rates.torch, rates.onnxruntime] if rates else []
    return ", ".join(number(rate and rate / GIGA, 3) for rate in known)


def _write(by_machine: ByMachine, out_dir: Path) -> WrittenPage:
    from bench.studies.machines.figure import draw_machines  # matplotlib: 1 s that tables need not pay

    groups = group_by_comparison(
        {
            machine: [one for one in comparisons if not (one.uncontrolled or one.at_largest)]
            for machine, comparisons in by_machine.items()
        }
    )
    page, hosts = out_dir / "machines.md", spread_between_hosts(groups)
    write_atomically(page, render_markdown(machines_page(groups, hosts)))
    pictures = draw_machines(groups, hosts, page.with_suffix(".svg"))
    return WrittenPage(files=[page], pictures=pictures)


PAGE = StudyPage(
    about="The same comparison on several machines, and how far these lie apart",
    folders=("reproduce", "bench"),
    over_machines=True,
    write=_write,
)

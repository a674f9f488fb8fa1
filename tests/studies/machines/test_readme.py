"""README's table and answer are the figures of every kind of machine."""

import csv
import re
from dataclasses import replace

from bench.compare.kinds import group_by_comparison, group_by_kind, settings_of, spread_between_hosts
from bench.report.content.collection import read_comparison
from bench.statistics.intervals import Speedup
from bench.studies.machines.pages import compare_backends
from tests.support.git import COMMITTED
from tests.support.pages import text_of

OTHERS = ("pytorch_best", "ortmodule", "ortmodule_zero1")


def of_kinds(base: str, blas: str) -> dict[str, dict[str, Speedup]]:
    """BERT-Mini's speed-ups over a backend by the first host of each kind of machine, then by backend."""
    by_machine = {}
    for folder in sorted(path.parent for path in COMMITTED.glob("results/*/machine.json")):
        paths = [folder / "bench" / f"bert-mini-cpux2{end}.csv" for end in ("", "-blas-full-f41f")]
        there = [read_comparison(path) for path in paths if path.exists()]
        by_machine[folder.name] = [replace(one, rows=one.rows.assign(reference=base)) for one in there]
    groups = group_by_comparison(by_machine)
    (same,) = [
        same for same in groups if {settings_of(one)["blas"] for one in same.machines.values()} == {blas}
    ]
    backends = compare_backends(same, spread_between_hosts(groups))
    kinds: dict[str, dict[str, Speedup]] = {}
    for first, *others in group_by_kind(same.machines):
        known = {each.backend: (each.kinds if others else each.speedups).get(first) for each in backends}
        kinds[first] = {name: speedup for name, speedup in known.items() if speedup}
    return kinds


def rounded(speedup: Speedup | None) -> str:
    """`1.52 [1.49, 1.54]`; empty where there is none."""
    return f"{speedup.ratio:.2f} [{speedup.low:.2f}, {speedup.high:.2f}]" if speedup else ""


def memory_ratios(machine: str) -> dict[str, float]:
    """Each backend's peak memory over plain PyTorch's, from a machine's summary.csv."""
    with (COMMITTED / "reports" / machine / "summary.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["file"].endswith("bench/bert-mini-cpux2.csv")]
    peaks = {row["backend"]: float(row["peak_mib"]) for row in rows}
    return {name: peaks[name] / peaks["pytorch"] for name in OTHERS}


def test_readmes_table_and_answer_are_the_figures_of_every_kind_of_machine() -> None:
    readme = text_of("README.md")
    lines = re.findall(r"^\| (.*?\]\(reports/.*)\|$", readme, re.MULTILINE)
    table = {re.findall(r"\(reports/([^/]+)/", line)[0]: [*map(str.strip, line.split("|"))] for line in lines}
    stock, over_best, full = (
        of_kinds("pytorch", "stock"),
        of_kinds("pytorch_best", "stock"),
        of_kinds("pytorch_best", "full"),
    )
    assert table.keys() == stock.keys()
    for machine, (_, *cells) in table.items():
        shown = [rounded(stock[machine].get(name)) for name in OTHERS]
        shown += [rounded(found.get(machine, {}).get("ortmodule")) for found in (over_best, full)]
        assert [cell if "[" in cell else "" for cell in cells] == shown, machine
    memory = [[memory_ratios(machine)[name] for machine in table] for name in OTHERS]
    spans = [f"{min(values):.2f} to {max(values):.2f}" for values in memory]
    assert f"| {' | '.join(spans)} |" in readme
    assert f"takes {spans[2]} times the memory" in readme
    for found in (stock, over_best):
        fastest, *rest = sorted((kind["ortmodule"].ratio for kind in found.values()), reverse=True)
        assert f"({rest[-1]:.2f} to {rest[0]:.2f} times)" in readme
        assert found is over_best or f"it is {fastest:.2f} times as fast as plain PyTorch" in readme

"""Results at equal batch and at each backend's largest batch are never mixed."""

import re
from pathlib import Path

import pytest

from bench.report.build import render_report
from bench.results.records import Record
from tests.support.factories import comparison, workload
from tests.support.reports import save, section_of, svg_texts


def at_largest(**sizes: int) -> list[Record]:
    """Each backend at its own micro-batch, with one speed-up that no other comparison has."""
    return [
        one
        for (name, size), seconds in zip(sizes.items(), (2.0, 1.0), strict=True)
        for one in comparison(
            {name: [[seconds], [seconds]]},
            workload=workload(model="vit-base", micro_batch=size, batch_rule="max", memory_limit_gib=4.0),
        )
    ]


@pytest.fixture
def both_rules(tmp_path: Path) -> Path:
    """The reports on a comparison at equal batch and one at the largest."""
    equal = comparison(
        {"pytorch": [[2.0], [2.0]], "ortmodule_zero1": [[1.6], [1.6]]}, workload=workload(model="vit-base")
    )
    save(tmp_path, equal, "equal")
    save(tmp_path, at_largest(pytorch=18, ortmodule_zero1=34), "largest")
    render_report(tmp_path / "results", tmp_path / "reports")
    return tmp_path / "reports"


def test_results_at_equal_and_at_the_largest_batch_never_share_a_table(both_rules: Path) -> None:
    index = (both_rules / "index.md").read_text(encoding="utf-8")
    equal, largest = (section_of(index, anchor) for anchor in ("equal", "largest"))
    assert "micro-batch" not in equal
    assert "| backend | what runs | micro-batch |" in largest
    assert re.search(r"\| pytorch \| [^|]* \| 18 \|", largest)
    assert re.search(r"\| ortmodule_zero1 \| [^|]* \| 34 \|", largest)
    assert "| 1.250× [" in equal
    assert f"| {2 * 34 / 18:.3f}× [" in largest  # 34 x 4 samples in half the time of 18 x 4
    assert "batch 18/34" not in index


def test_nor_do_they_share_a_figure(both_rules: Path) -> None:
    equal, largest = (svg_texts(both_rules / name) for name in ("speedup.svg", "speedup-2.svg"))
    assert "Throughput relative to pytorch" in equal
    assert "Throughput relative to pytorch, each backend at its largest batch" in largest
    assert "(pytorch 18, ortmodule_zero1 34)" in " ".join(largest)

"""The figure of where the time of many models' steps goes."""

from pathlib import Path

import pytest

from bench.report.content.collection import read_comparison
from bench.results import csv_files
from bench.studies.explain.chart import LOOKS, can_show, make_chart
from tests.studies.explain.fakes import PARTS, write_breakdowns
from tests.support.many_models import BY_NAME, comparisons_of, write


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two models, both profiled."""
    folder = tmp_path_factory.mktemp("two")
    models = (BY_NAME["gpt2"], BY_NAME["t5-large"])
    write(folder, models)
    write_breakdowns(folder, models)
    return folder


def test_a_breakdown_is_over_the_reference_s_timed_step(two: Path) -> None:
    profiled = [read_comparison(path) for path in csv_files.list_files(two)]
    assert [*map(can_show, [*profiled, *comparisons_of("bert-large")])] == [True, True, False]
    (panel,) = make_chart({"": profiled}).panels.values()
    rows = {row.name: row for row in panel[0].rows}
    assert list(rows) == ["pytorch", "pytorch_best", "ortmodule", "ortmodule_zero1"]
    for name, speed in (("pytorch", 1.0), ("pytorch_best", 1.05), ("ortmodule", 0.8)):
        parts = {bar.look: bar.end - bar.start for bar in rows[name].bars}
        assert list(rows[name].marks[0].values) == pytest.approx([1 / speed])
        assert parts[LOOKS["optimizer"]] == pytest.approx(PARTS["optimizer"] / speed, rel=1e-5)
        assert parts[LOOKS["not in the profile"]] == pytest.approx(0.02 / speed, rel=1e-4)


def test_a_profile_too_far_from_the_timed_step_has_no_bar_and_says_so(tmp_path: Path) -> None:
    models = (BY_NAME["gpt2"], BY_NAME["t5-large"])
    write(tmp_path, models)
    write_breakdowns(tmp_path, models, profiled={"ortmodule_zero1": 1.5})
    chart = make_chart({"": [*map(read_comparison, csv_files.list_files(tmp_path))]})
    rows = {row.name: row for groups in chart.panels.values() for group in groups for row in group.rows}
    far = rows["ortmodule_zero1"]
    assert (far.bars, far.reason) == ([], "profile too far from the timed step")
    assert rows["ortmodule"].bars

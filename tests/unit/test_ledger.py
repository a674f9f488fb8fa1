"""The results file of a comparison is replaced at every block, however many there are by then."""

from pathlib import Path

import pytest

from bench.measure.plan.plans import Output, timed
from bench.measure.record.ledger import Ledger
from bench.measure.record.resume import EarlierRun
from bench.results import csv_files
from bench.results.records import Record
from bench.results.rows import rows_of_record
from tests.support.factories import block, record
from tests.support.result_files import write_records


def test_a_record_is_formatted_again_only_if_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    formatted: list[int] = []

    def counted(one: Record) -> list[dict[str, object]]:
        formatted.append(one.launch)
        return rows_of_record(one)

    monkeypatch.setattr("bench.measure.record.ledger.rows_of_record", counted)
    output = Output(stem="x", csv=tmp_path / "x.csv", folder=tmp_path / "runs")
    kept = Ledger(output, {}, EarlierRun())
    for launch in (1, 2, 3):
        kept.records[launch, "pytorch"] = record("pytorch", launch)
    kept.write()
    assert formatted == [1, 2, 3]
    kept.add_block("pytorch", timed(2), block(2), {})
    kept.write()
    kept.write()
    assert formatted == [1, 2, 3, 2]
    write_records(tmp_path / "whole.csv", kept.records.values())
    assert output.csv.read_text() == (tmp_path / "whole.csv").read_text()
    kept.forget("pytorch")
    kept.records[1, "ortmodule"] = record("ortmodule", 1)
    kept.write()
    assert set(csv_files.read(output.csv)["backend"]) == {"ortmodule"}

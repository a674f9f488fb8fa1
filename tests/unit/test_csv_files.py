"""Results files written and read back."""

import csv
import json
from pathlib import Path

import pandas as pd
import pytest

from bench.results import csv_files
from bench.results.columns import COLUMNS, DTYPES
from tests.support.factories import block, comparison, failed, record, workload
from tests.support.result_files import table_of_records, write_records, write_rows


def test_the_file_has_one_header_unix_line_ends_and_blanks_for_what_is_missing(saved: Path) -> None:
    content = saved.read_bytes()
    assert b"\r" not in content
    assert content.count(b"schema_version") == 1
    with saved.open(encoding="utf-8", newline="") as file:
        row = next(csv.DictReader(file))
    assert (row["device_peak_mib"], row["energy_j"], row["message"]) == ("", "", "")


@pytest.mark.parametrize(
    "message",
    [
        'a, "quoted" | cell',
        "two\nlines",
        "carriage\rreturn\r\n",
        "lone\rreturn",
        "NA",
        "007",
        "1e5",
        "nan",
        " padded ",
        "größer als 日本 🚀",
        "=1+1",
    ],
)
def test_foreign_text_survives_a_round_trip(tmp_path: Path, message: str) -> None:
    path = tmp_path / "x.csv"
    work = workload(model=message)
    write_records(path, [record(workload=work), failed("ortmodule", "oom", message, workload=work)])
    table = csv_files.read(path)
    assert list(table["message"]) == ["", message]
    assert list(table["model"]) == [message, message]


def test_text_that_no_file_can_hold_is_written_readably(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    write_records(path, [failed("pytorch", "crashed", "bad \udcff byte\0")])
    assert csv_files.read(path)["message"].iloc[0] == "bad \\udcff byte\\x00"


def test_reading_gives_numbers_as_numbers_and_the_missing_as_missing(saved: Path) -> None:
    table = csv_files.read(saved)
    assert tuple(table.columns) == COLUMNS
    assert {column: str(dtype) for column, dtype in table.dtypes.items()} == DTYPES
    assert table["seconds"].tolist() == [2.0, 2.1, 1.5, 1.6]
    assert table["device_peak_mib"].isna().all()
    assert table["config_hash"].iloc[0] == "c0ffee"
    assert json.loads(table["environment"].iloc[0])["packages"]["torch"] == "2.6.0"


def test_a_figure_that_is_not_finite_is_blank(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    nan = float("nan")
    write_records(path, [record(blocks=(block(last_loss=(nan, 1.0)),), loss_difference=nan)])
    assert "nan" not in path.read_text(encoding="utf-8")
    assert csv_files.read(path)[["last_loss", "loss_difference"]].isna().all(axis=None)


def test_rows_that_were_read_are_written_back_byte_for_byte(saved: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.csv"
    write_rows(copy, csv_files.read(saved).to_dict("records"))
    assert copy.read_bytes() == saved.read_bytes()


def test_a_frame_of_records_equals_what_the_file_would_give(saved: Path) -> None:
    records = comparison({"pytorch": [[2.0, 2.1]], "ortmodule": [[1.5, 1.6]]})
    pd.testing.assert_frame_equal(table_of_records(records), csv_files.read(saved))


def test_an_interrupted_write_leaves_the_old_file_whole(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_records(saved, [record()])
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_only_a_folder_s_own_files_are_results(saved: Path) -> None:
    matrix = saved.parent / "matrix"
    matrix.mkdir()
    (matrix / "support.csv").write_text("model\n")
    assert [path.stem for path in csv_files.list_files(saved.parent)] == ["bert-tiny-cpux2"]

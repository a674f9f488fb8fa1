import csv
import json
from pathlib import Path

import pandas as pd
import pytest

from bench.errors import UserError
from bench.results import csv_files
from bench.results.columns import COLUMNS, DTYPES
from bench.results.records import SCHEMA_VERSION
from bench.results.rows import rows_of_record
from tests.support.factories import MIB, block, comparison, failed, phase, record, sample, workload

DESIGNED = [
    "schema_version",
    "comparison",
    "status",
    "message",
    "started_at",
    "git_commit",
    "stack",
    "device",
    "model",
    "task",
    "backend",
    "engine",
    "optimizer",
    "sharding",
    "precision",
    "attention",
    "world_size",
    "micro_batch",
    "grad_accum",
    "global_batch",
    "seq_len",
    "padding_share",
    "threads_per_rank",
    "launch",
    "round",
    "position",
    "steps",
    "seconds",
    "samples_per_s",
    "cpu_seconds",
    "page_faults",
    "setup_s",
    "first_step_s",
    "host_peak_mib",
    "device_peak_mib",
    "torch_peak_allocated_mib",
    "torch_peak_reserved_mib",
    "optimizer_state_bytes",
    "energy_j",
    "loss_difference",
    "config_hash",
    "environment_hash",
    "environment",
]

MEASUREMENTS = COLUMNS[COLUMNS.index("round") : COLUMNS.index("config_hash")]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "bert-tiny-cpux2.csv"
    csv_files.write_records(path, comparison({"pytorch": [[2.0, 2.1]], "ortmodule": [[1.5, 1.6]]}))
    return path


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


# Records to rows


def test_the_columns_of_the_design_are_there_in_their_order() -> None:
    assert [column for column in COLUMNS if column in DESIGNED] == DESIGNED


def test_a_block_becomes_a_row_with_exact_figures() -> None:
    gpu = block(
        round=3,
        seconds=2.5,
        position=2,
        steps=7,
        cpu_seconds=(1.25, 1.5),
        torch_peak_allocated_bytes=(10 * MIB, 20 * MIB),
        torch_peak_reserved_bytes=(30 * MIB, 25 * MIB),
        device_used_bytes=(1024 * MIB, 1536 * MIB),
        device_process_bytes=(900 * MIB, 800 * MIB),
        energy_joules=(100.5, 200.25),
        other_cpu_seconds=(0.01, 0.02),
        stolen_seconds=(0.0, 0.03),
        samples=(
            (sample(), sample(used_bytes=1100 * MIB, power_watts=320.0)),
            (sample(temperature_c=70.0, throttled_by=("power cap",)), sample(utilisation_percent=97.0)),
        ),
    )
    before = (sample(used_bytes=24 * MIB, utilisation_percent=0.0), sample(used_bytes=36 * MIB))
    (row,) = rows_of_record(record("ortmodule", launch=2, blocks=(gpu,), device_before=before))
    assert tuple(row) == COLUMNS
    expected = {
        "status": "ok",
        "message": "",
        "backend": "ortmodule",
        "reference": "pytorch",
        "optimizer": "adamw_fused",
        "global_batch": 16,
        "parameters": 4_416_698,
        "padding_share": 0.25,
        "launch": 2,
        "round": 3,
        "position": 2,
        "steps": 7,
        "seconds": 2.5,
        "samples_per_s": 7 * 16 / 2.5,
        "cpu_seconds": 2.75,
        "page_faults": 5,
        "setup_s": 4.0,
        "first_step_s": 1.0,
        "setup_host_peak_mib": 300.0,
        "first_step_host_peak_mib": 350.0,
        "host_peak_mib": 500.0,
        "device_peak_mib": 4000.0 - 24,
        "device_process_mib": 900.0,
        "device_baseline_mib": 36.0,
        "gpu_utilisation": 98.5,
        "gpu_utilisation_before": 99.0,
        "gpu_clock_mhz": 1700.0,
        "gpu_temperature_c": 70.0,
        "gpu_power_w": 610.0,
        "gpu_throttled_by": "power cap",
        "attempt": 1,
        "other_cpu_seconds": 0.03,
        "stolen_seconds": 0.03,
        "warm_up_s": 4.2,
        "warm_up_steps": 20,
        "warm_up_settled": 1,
        "setup_cpu_seconds": 7.0,
        "first_step_cpu_seconds": 1.5,
        "torch_peak_allocated_mib": 20.0,
        "torch_peak_reserved_mib": 30.0,
        "optimizer_state_bytes": 2000,
        "energy_j": 300.75,
        "last_loss": 6.25,
        "loss_difference": 1e-6,
    }
    assert {column: row[column] for column in expected} == expected


def test_what_one_rank_or_device_could_not_measure_is_blank_and_never_zero() -> None:
    partial = block(host_peak_bytes=(None, 5), device_used_bytes=(), energy_joules=(1.0, None))
    (row,) = rows_of_record(
        record(
            blocks=(partial,),
            setup=None,
            optimizer_state_bytes=(),
            workload=workload(parameters=None, padding_share=None),
        )
    )
    blank = ["host_peak_mib", "device_peak_mib", "torch_peak_allocated_mib", "energy_j", "setup_s"]
    blank += ["setup_host_peak_mib", "optimizer_state_bytes", "parameters", "padding_share"]
    blank += ["gpu_utilisation", "gpu_power_w", "gpu_temperature_c", "device_baseline_mib"]
    assert [row[column] for column in blank] == [None] * len(blank)


def test_a_failed_launch_keeps_its_measured_blocks_and_adds_one_blank_row() -> None:
    broken = record(status="crashed", message="rank 1 died", blocks=(block(1), block(2)))
    first, second, last = rows_of_record(broken)
    assert [row["status"] for row in (first, second, last)] == ["ok", "ok", "crashed"]
    assert (first["message"], last["message"]) == ("", "rank 1 died")
    assert [last[column] for column in MEASUREMENTS] == [None] * len(MEASUREMENTS)
    assert (last["launch"], last["global_batch"], last["model"]) == (1, 16, "bert-tiny")


def test_a_block_that_used_more_cpu_than_its_share_is_invalid_and_says_why_in_numbers() -> None:
    # 2 s x 2 ranks x 1 core x 1.1 = 4.4 CPU seconds
    fair, unfair = block(1, 2.0, cpu_seconds=(2.2, 2.2)), block(2, 2.0, cpu_seconds=(2.2, 2.3))
    first, second = rows_of_record(record(blocks=(fair, unfair)))
    assert first["status"] == "ok"
    assert second["status"] == "invalid"
    assert second["message"] == (
        "used 4.500 CPU seconds, more than 4.400 = 1.1 x 2.000 s x 2 ranks x 1 cores"
    )
    assert second["samples_per_s"] == 80.0


def test_more_cores_per_rank_raise_the_cpu_budget() -> None:
    (row,) = rows_of_record(record(cores_per_rank=2, blocks=(block(cpu_seconds=(4.3, 4.3)),)))
    assert row["status"] == "ok"


def test_the_environment_is_compact_json_with_sorted_keys() -> None:
    (row,) = rows_of_record(record(environment={"b": {"y": 1, "x": "ä"}, "a": None}))
    assert row["environment"] == '{"a":null,"b":{"x":"ä","y":1}}'


# The file


def test_every_derived_figure_can_be_recomputed_from_the_file_alone(saved: Path) -> None:
    with saved.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    for row in rows:
        derived = int(row["steps"]) * int(row["global_batch"]) / float(row["seconds"])
        assert float(row["samples_per_s"]) == pytest.approx(derived, rel=1e-15)
        batch = int(row["micro_batch"]) * int(row["grad_accum"]) * int(row["world_size"])
        assert int(row["global_batch"]) == batch


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
    csv_files.write_records(path, [record(workload=work), failed("ortmodule", "oom", message, workload=work)])
    table = csv_files.read(path)
    assert list(table["message"]) == ["", message]
    assert list(table["model"]) == [message, message]


def test_text_that_no_file_can_hold_is_written_readably(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    csv_files.write_records(path, [failed("pytorch", "crashed", "bad \udcff byte\0")])
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
    csv_files.write_records(path, [record(blocks=(block(last_loss=(nan, 1.0)),), loss_difference=nan)])
    assert "nan" not in path.read_text(encoding="utf-8")
    assert csv_files.read(path)[["last_loss", "loss_difference"]].isna().all(axis=None)


def test_rows_that_were_read_are_written_back_byte_for_byte(saved: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.csv"
    csv_files.write_rows(copy, csv_files.read(saved).to_dict("records"))
    assert copy.read_bytes() == saved.read_bytes()


def test_a_frame_of_records_equals_what_the_file_would_give(saved: Path) -> None:
    records = comparison({"pytorch": [[2.0, 2.1]], "ortmodule": [[1.5, 1.6]]})
    pd.testing.assert_frame_equal(csv_files.table_of_records(records), csv_files.read(saved))


def test_an_interrupted_write_leaves_the_old_file_whole(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        csv_files.write_records(saved, [record()])
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_only_a_folder_s_own_files_are_results(saved: Path) -> None:
    matrix = saved.parent / "matrix"
    matrix.mkdir()
    (matrix / "support.csv").write_text("model\n")
    assert [path.stem for path in csv_files.list_files(saved.parent)] == ["bert-tiny-cpux2"]


# What is refused


def refused(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        csv_files.read(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_a_missing_file_is_named_with_the_remedy(tmp_path: Path) -> None:
    message = refused(tmp_path / "x.csv")
    assert "no such file or directory" in message
    assert "make bench" in message


def test_a_folder_without_results_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no results file; measure with `make bench`"):
        csv_files.list_files(tmp_path)


@pytest.mark.parametrize("cut", [1, 10, 100, 400])
def test_a_truncated_file_is_refused_wherever_it_breaks_off(saved: Path, cut: int) -> None:
    saved.write_bytes(saved.read_bytes()[:-cut])
    assert "is damaged" in refused(saved)


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe\x00", b"a,b\n1,2\n"])
def test_a_file_that_is_something_else_is_refused(saved: Path, content: bytes) -> None:
    saved.write_bytes(content)
    refused(saved)


def test_a_file_with_nothing_but_its_header_is_refused(saved: Path) -> None:
    saved.write_text(lines(saved)[0])
    assert "it has no rows" in refused(saved)


def test_foreign_columns_are_named(saved: Path) -> None:
    header, *rest = lines(saved)
    saved.write_text(header.replace("samples_per_s", "speed") + "".join(rest))
    assert "samples_per_s, speed" in refused(saved)


def test_another_schema_version_is_named(saved: Path) -> None:
    header, first, *rest = lines(saved)
    saved.write_text(header + "99" + first[1:] + "".join(rest))
    assert f"has schema version 99, this harness reads {SCHEMA_VERSION}" in refused(saved)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (",80.0,", ",81.0,", "samples_per_s is not steps x global_batch / seconds"),
        (",80.0,", ",fast,", "samples_per_s holds something that is not a number"),
        (",80.0,", ",,", "a measured row lacks its figures"),
        (",10,2.0,", ",10,-2.0,", "a measured row lacks its figures"),
        (",ok,", ",fine,", "a status that does not exist"),
        (",ok,", ",,", "a status that does not exist"),
        ("bert-tiny-cpux2,", "another,", "it mixes comparisons"),
    ],
)
def test_a_row_that_was_tampered_with_is_refused(saved: Path, old: str, new: str, reason: str) -> None:
    header, first, *rest = lines(saved)
    assert old in first
    saved.write_text(header + first.replace(old, new, 1) + "".join(rest))
    assert reason in refused(saved)


@pytest.mark.parametrize("row", ["1,2\n", "\n"])
def test_a_row_with_too_few_cells_is_refused(saved: Path, row: str) -> None:
    saved.write_text("".join([*lines(saved), row]))
    assert "too few or too many cells" in refused(saved)


def test_a_backend_twice_in_one_round_is_refused(saved: Path) -> None:
    saved.write_text("".join([*lines(saved), lines(saved)[1]]))
    assert "an attempt of a backend in a round is there twice" in refused(saved)


def test_two_valid_blocks_of_one_round_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    csv_files.write_records(path, [record(blocks=(block(1), block(1, attempt=2)))])
    assert "two valid blocks in one round" in refused(path)


def test_a_contaminated_block_and_the_one_measured_again_are_both_kept(tmp_path: Path) -> None:
    path = tmp_path / "again.csv"
    spoilt = block(1, other_cpu_seconds=(1.0, 1.0))
    csv_files.write_records(path, [record(blocks=(spoilt, block(1, attempt=2)))])
    table = csv_files.read(path)
    assert list(table["attempt"]) == [1, 2]
    assert list(table["status"]) == ["invalid", "ok"]
    assert "other processes had 2.000 CPU seconds" in table["message"].iloc[0]


def test_the_peak_of_a_phase_is_the_largest_use_seen_less_what_was_there_before() -> None:
    seen = (sample(used_bytes=700 * MIB), sample(used_bytes=None))
    first = phase(device_used_bytes=(500 * MIB, None), samples=(seen, seen))
    one = record(
        first_step=phase(device_used_bytes=(500 * MIB,), samples=(seen,)),
        device_before=(sample(used_bytes=100 * MIB),),
    )
    assert rows_of_record(one)[0]["first_step_device_peak_mib"] == 600.0
    unknown = record(first_step=first, device_before=(sample(used_bytes=100 * MIB),) * 2)
    assert rows_of_record(unknown)[0]["first_step_device_peak_mib"] is None, "one device is silent"

"""A record's rows: exact figures, and blanks for what is missing."""

from bench.results.columns import COLUMNS
from bench.results.rows import rows_of_record
from tests.support.factories import MIB, block, phase, record, sample, workload

MEASUREMENTS = COLUMNS[COLUMNS.index("round") : COLUMNS.index("config_hash")]


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
        device_others_bytes=(24 * MIB, 136 * MIB),
        device_foreign_bytes=(24 * MIB, 36 * MIB),
        energy_joules=(100.5, 200.25),
        other_cpu_seconds=(0.01, 0.02),
        stolen_seconds=(0.0, 0.03),
        samples=(
            (sample(), sample(used_bytes=1100 * MIB, power_watts=320.0)),
            (sample(temperature_c=70.0, throttled_by=("power cap",)), sample(utilisation_percent=97.0)),
        ),
    )
    before = (sample(utilisation_percent=0.0), sample())
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
        "device_peak_mib": 4000.0 - (1024 - 900),
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
        "weights_bytes": 4000,
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


def test_what_a_reader_would_look_for_in_messages_and_commands_has_columns_of_its_own() -> None:
    skipped = block(loss_scale=2.0, skipped_steps=1)
    shape = workload(link_gbit_per_s=0.25)
    (row,) = rows_of_record(record(blocks=(skipped,), overrides=("seed=3", "label=ä b"), workload=shape))
    assert row["overrides"] == '["seed=3", "label=ä b"]'
    assert row["link_gbit_per_s"] == 0.25
    assert row["invalid_because"] == "skipped steps"
    assert row["message"].endswith("overflowed in fp16"), "without a remedy"
    assert rows_of_record(record())[0]["invalid_because"] == ""


def test_the_environment_is_compact_json_with_sorted_keys() -> None:
    (row,) = rows_of_record(record(environment={"b": {"y": 1, "x": "ä"}, "a": None}))
    assert row["environment"] == '{"a":null,"b":{"x":"ä","y":1}}'


def test_the_ends_of_a_block_tell_of_its_gpu_where_it_is_too_short_for_a_sample() -> None:
    ends = (
        sample(sm_clock_mhz=1200, temperature_c=50, utilisation_percent=1.0),
        sample(sm_clock_mhz=1400, temperature_c=70, utilisation_percent=50.0),
    )
    throttled = (sample(sm_clock_mhz=900, temperature_c=60, throttled_by=("power cap",)),)
    alone, sampled = (
        rows_of_record(record(blocks=(block(device_ends=(ends,), samples=samples),)))[0]
        for samples in ((), (throttled,))
    )
    assert (alone["gpu_clock_mhz"], alone["gpu_temperature_c"], alone["gpu_throttled_by"]) == (1300, 70, "")
    assert alone["gpu_utilisation"] == 50, "NVML looks back for up to a second, at the block before its end"
    (short,) = rows_of_record(record(blocks=(block(seconds=1.0, device_ends=(ends,)),)))
    assert short["gpu_utilisation"] is None, "it would be somebody else's, too"
    assert (sampled["gpu_clock_mhz"], sampled["gpu_temperature_c"]) == (900, 70)
    assert sampled["gpu_throttled_by"] == "power cap"


def test_the_peak_of_a_phase_is_the_largest_use_seen_less_what_others_have() -> None:
    seen, others = (sample(used_bytes=700 * MIB), sample(used_bytes=None)), 100 * MIB
    for used, peak in (((500 * MIB,), 600.0), ((500 * MIB, None), None)):  # None: one device is silent
        of_others = (others,) * len(used)
        first = phase(device_used_bytes=used, device_others_bytes=of_others, samples=(seen,) * len(used))
        one = record(first_step=first)
        assert rows_of_record(one)[0]["first_step_device_peak_mib"] == peak

"""What a comparison's rows say of each backend."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import scipy.stats

from bench.report.words.describe import stopping_rule
from bench.results.records import Record
from bench.statistics import intervals
from bench.statistics.intervals import Speedup
from bench.statistics.summary import BackendSummary, summarise, widest_half_width
from tests.support.factories import block, comparison, failed, phase, record, with_environment, workload
from tests.support.result_files import table_of_records


def summary(records: list[Record], backend: str) -> BackendSummary:
    return next(s for s in summarise(table_of_records(records)) if s.backend == backend)


def speedup_of(records: list[Record], backend: str) -> Speedup:
    found = summary(records, backend).speedup
    assert found is not None
    return found


THREE_BY_TWO = {
    "ortmodule": [[1.6, 1.5], [1.4, 1.5], [1.55, 1.45]],
    "pytorch": [[2.0, 2.1], [2.2, 1.9], [2.0, 2.05]],
}


def beside(**changes: Any) -> list[Record]:
    """A reference, and a backend of whose records something is changed."""
    return comparison({"pytorch": [[2.0], [2.0]]}) + comparison({"ortmodule": [[1.5], [1.5]]}, **changes)


def test_the_summary_agrees_with_a_few_lines_of_pandas() -> None:
    rows = table_of_records(comparison(THREE_BY_TWO))
    wide = rows.pivot(index=["launch", "round"], columns="backend", values="seconds").astype(float)
    ratio = np.log(wide["pytorch"] / wide["ortmodule"]).groupby("launch").mean()
    low, high = scipy.stats.t.interval(0.95, 2, ratio.mean(), ratio.sem())
    throughput = np.exp(np.log(160 / wide).groupby("launch").mean().mean())

    base, mine = summarise(rows)
    assert (base.backend, mine.backend) == ("pytorch", "ortmodule")
    assert mine.speedup is not None
    assert base.samples_per_s is not None
    assert mine.samples_per_s is not None
    assert mine.speedup.ratio == pytest.approx(np.exp(ratio.mean()), rel=1e-10)
    assert (mine.speedup.low, mine.speedup.high) == pytest.approx((np.exp(low), np.exp(high)))
    assert mine.samples_per_s == pytest.approx(throughput["ortmodule"], rel=1e-10)
    assert mine.samples_per_s / base.samples_per_s == pytest.approx(mine.speedup.ratio, rel=1e-10)
    assert mine.verdict == "faster"
    assert (base.speedup, base.verdict, base.is_reference) == (None, None, True)


def test_an_interval_whose_width_ended_the_comparison_uses_the_larger_quantile() -> None:
    seconds = {"pytorch": [[2.0]] * 3, "ortmodule": [[1.6], [1.7], [1.8]]}
    planned = speedup_of(comparison(seconds), "ortmodule")
    stopped = speedup_of(comparison(seconds, target_half_width=0.05), "ortmodule")
    assert planned.ratio == stopped.ratio
    widths = [math.log(one.high / one.low) for one in (planned, stopped)]  # type: ignore[operator]
    quantiles = [scipy.stats.t.ppf(0.975, 2), scipy.stats.t.ppf(0.99, 2)]
    assert widths[1] / widths[0] == pytest.approx(quantiles[1] / quantiles[0])


def test_launches_that_were_added_by_hand_get_the_larger_quantile_too() -> None:
    """Somebody had seen the first intervals, and would have stopped had they been narrow."""
    planned = comparison({"pytorch": [[2.0]] * 3, "ortmodule": [[1.6], [1.7], [1.8]]})

    def with_last_launch_of(override: str) -> list[Record]:
        return [
            dataclasses.replace(each, overrides=(override,)) if each.launch == 3 else each for each in planned
        ]

    added, resumed = map(with_last_launch_of, ("measure.launches=3", "resume=true"))
    assert speedup_of(added, "ortmodule") == speedup_of(
        comparison({"pytorch": [[2.0]] * 3, "ortmodule": [[1.6], [1.7], [1.8]]}, target_half_width=0.05),
        "ortmodule",
    )
    assert speedup_of(resumed, "ortmodule") == speedup_of(planned, "ortmodule")
    assert "Launches were added later" in stopping_rule(table_of_records(added))
    assert stopping_rule(table_of_records(resumed)) == ""


def test_peaks_are_the_highest_block_and_setup_the_median_over_launches() -> None:
    records = [
        record(
            launch=launch,
            setup=phase((setup, 1.0)),
            blocks=tuple(
                block(
                    n,
                    host_peak_bytes=(mib * 2**20, 0),
                    device_used_bytes=(mib * 2**21,),
                    device_others_bytes=(0,),
                )
                for n, mib in enumerate(peaks, 1)
            ),
        )
        for launch, setup, peaks in [(1, 3.0, (100, 110)), (2, 9.0, (120, 90)), (3, 4.0, (80, 80))]
    ]
    found = summary(records, "pytorch")
    assert found.peak_mib == 120.0
    assert (found.setup_s, found.first_step_s) == (4.0, 1.0)
    assert (found.optimizer_state_bytes, found.loss_difference) == (2000, 0.0)


def test_energy_is_divided_among_all_samples_and_blank_if_one_block_lacks_it() -> None:
    # 10 steps of 16 samples in each block
    measured = [record(launch=n, blocks=(block(energy_joules=(100.0 * n, 60.0)),)) for n in (1, 2)]
    assert summary(measured, "pytorch").energy_per_sample_j == pytest.approx((160 + 260) / 320)
    silent = [*measured, record(launch=3, blocks=(block(energy_joules=(100.0, None)),))]
    assert summary(silent, "pytorch").energy_per_sample_j is None


def test_break_even_is_the_extra_start_over_the_seconds_saved_per_step() -> None:
    late = {"setup": phase((31.0, 20.0)), "first_step": phase((3.0, 1.0))}
    records = comparison({"pytorch": [[2.0], [2.0]]}) + comparison({"ortmodule": [[1.6], [1.6]]}, **late)
    # 27 s of extra set-up and 2 s of the first step; a step takes 0.16 s instead of 0.2 s
    assert summary(records, "ortmodule").break_even_steps == 725


@pytest.mark.parametrize(
    ("ortmodule", "changes", "steps"),
    [
        ([[1.6], [1.6]], {}, 0),
        ([[1.6], [1.6]], {"setup": phase((1.0,))}, 0),
        ([[2.4], [2.4]], {}, None),
        ([[1.6], [2.3]], {}, None),
    ],
)
def test_break_even_is_zero_without_extra_start_and_absent_unless_faster(
    ortmodule: list[list[float]], changes: dict[str, Any], steps: int | None
) -> None:
    records = comparison({"pytorch": [[2.0], [2.0]]}) + comparison({"ortmodule": ortmodule}, **changes)
    assert summary(records, "ortmodule").break_even_steps == steps


def test_a_failed_launch_replaces_speedup_throughput_and_every_other_figure() -> None:
    records = [*comparison(THREE_BY_TWO), failed("ortmodule", "oom", "out of memory", launch=4)]
    found = summary(records, "ortmodule")
    assert (found.status, found.message) == ("oom", "out of memory")
    figures = (found.samples_per_s, found.speedup, found.verdict, found.peak_mib)
    assert figures == (None, None, None, None)
    assert summary(records, "pytorch").samples_per_s is not None


def test_the_most_recent_failure_speaks_but_never_a_mere_skip() -> None:
    records = [
        *comparison({"pytorch": [[2.0]]}),
        failed("ortmodule", "oom", "first", launch=1),
        failed("ortmodule", "crashed", "second", launch=2),
        failed("ortmodule", "skipped", "it failed before", launch=3),
    ]
    assert summary(records, "ortmodule").status == "crashed"
    only_skipped = [*comparison({"pytorch": [[2.0]]}), failed("ortmodule", "skipped", "no GPU")]
    assert summary(only_skipped, "ortmodule").status == "skipped"


def test_a_failed_reference_takes_everybodys_speedup_and_says_so() -> None:
    records = [*comparison(THREE_BY_TWO), failed("pytorch", "timeout", "too slow", launch=4)]
    found = summary(records, "ortmodule")
    assert found.speedup is None
    assert found.samples_per_s is not None
    assert found.message == "no speed-up: the reference pytorch is timeout"


def test_a_reference_without_any_row_takes_everybodys_speedup() -> None:
    found = summary(comparison({"ortmodule": [[1.5]]}), "ortmodule")
    assert found.message == "no speed-up: the reference pytorch was not measured"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"workload": workload(precision="tf32")}, "precision tf32 (reference fp32)"),
        ({"workload": workload(checkpointing=True)}, "checkpointing 1 (reference 0)"),
        ({"workload": workload(micro_batch=2, grad_accum=4)}, "grad_accum 4 (reference 2)"),
        ({"workload": workload(attention="sdpa")}, "attention sdpa (reference eager)"),
        ({"slowed_by": 0.05}, "slowed on purpose by 5%"),
    ],
)
def test_what_a_backend_may_have_otherwise_is_named_beside_its_speedup(
    changes: dict[str, Any], named: str
) -> None:
    found = summary(beside(**changes), "ortmodule")
    assert found.speedup is not None
    assert found.message == named


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"threads_per_rank": 2}, "threads_per_rank 2 (reference 1)"),
        ({"device": "cuda"}, "device cuda (reference cpu)"),
        ({"allocator": "system"}, "allocator system (reference tuned)"),
        ({"blas": "full"}, "blas full (reference stock)"),
        ({"workload": workload(parameters=6_960_768)}, "parameters 6960768 (reference 4416698)"),
        ({"workload": workload(micro_batch=8)}, "global_batch 32 (reference 16)"),
        ({"workload": workload(seq_len=64)}, "seq_len 64 (reference 128)"),
        ({"workload": workload(memory_limit_gib=4.0)}, "memory_limit_gib 4 (reference blank)"),
        ({"workload": workload(world_size=4, micro_batch=2)}, "world_size 4 (reference 2)"),
        ({"workload": workload(nodes=2)}, "nodes 2 (reference 1)"),
        ({"loss_difference": None}, "its losses were never compared with the reference's"),
    ],
)
def test_what_differs_from_the_reference_is_named_in_place_of_a_speedup(
    changes: dict[str, Any], named: str
) -> None:
    found = summary(beside(**changes), "ortmodule")
    assert found.speedup is None
    assert found.message == f"no speed-up: {named}"


def test_another_environment_is_refused_and_it_is_said_in_what_it_differs() -> None:
    base, mine = beside()[:2], beside()[2:]
    mine = with_environment(mine, driver="560", packages={"torch": "2.7.0"})
    found = summary([*base, *mine], "ortmodule")
    assert found.speedup is None
    assert found.message == (
        "no speed-up: measured in different environments: driver: missing, now 560, "
        "packages.deepspeed: 0.16.9, now missing, packages.numpy: 2.2.6, now missing, "
        "packages.onnxruntime-training-cpu: 1.19.2, now missing, and 2 more"
    )


def test_another_stack_may_bring_other_versions_and_nothing_else() -> None:
    records = comparison({"pytorch": [[2.0], [2.0]]})
    mine = comparison({"pytorch@modern": [[1.0], [1.0]]}, stack="modern", environment_hash="other")
    todays = with_environment(mine, stack="modern", python="3.13.1", packages={"torch": "2.13.0"})
    found = summary([*records, *todays], "pytorch@modern")
    assert found.speedup is not None
    assert found.message == "stack modern (reference ort)"
    elsewhere = with_environment(todays, stack="modern", packages={"torch": "2.13.0"}, driver="560")
    found = summary([*records, *elsewhere], "pytorch@modern")
    assert found.speedup is None
    assert found.message == "no speed-up: measured in different environments: driver: missing, now 560"


def test_one_backend_may_not_mix_environments_either() -> None:
    both = {"pytorch": [[2.0]], "ortmodule": [[1.5]]}
    later = [
        dataclasses.replace(one, launch=2, environment_hash="other")
        for one in with_environment(comparison(both), driver="560")
    ]
    found = summary([*comparison(both), *later], "ortmodule")
    assert found.speedup is None
    assert found.message == "no speed-up: measured in different environments: driver: missing, now 560"


def test_every_backend_is_compared_with_the_fastest_pytorch_too() -> None:
    seconds = {
        "pytorch": [[2.0]] * 3,
        "pytorch_best": [[1.6], [1.6], [1.6]],
        "ortmodule": [[1.5], [1.6], [1.7]],
    }
    records = comparison(seconds)
    base, best, ours = summarise(table_of_records(records))
    directly = [dataclasses.replace(one, reference="pytorch_best") for one in records]
    expected = summary(directly, "ortmodule").speedup
    assert expected is not None
    assert ours.over_best == expected
    assert base.over_best is not None
    assert base.over_best.ratio == pytest.approx(0.8)
    assert [one.is_best_pytorch for one in (base, best, ours)] == [False, True, False]
    assert best.over_best is None


def test_a_backend_that_failed_or_was_never_checked_has_no_speedup_over_the_fastest_pytorch() -> None:
    records = comparison({"pytorch": [[2.0]] * 2, "pytorch_best": [[1.6]] * 2, "ortmodule": [[1.5]] * 2})
    records.append(failed("ortmodule", "crashed", "died"))
    records += comparison({"ortmodule_zero1": [[1.5]] * 2}, loss_difference=None)
    base, _, *others = summarise(table_of_records(records))
    assert base.over_best is not None
    assert [(one.backend, one.over_best) for one in others] == [
        ("ortmodule", None),
        ("ortmodule_zero1", None),
    ]


def test_where_the_reference_is_the_fastest_pytorch_its_speedup_is_not_said_twice() -> None:
    base, ours = summarise(table_of_records(comparison({"pytorch": [[2.0]], "ortmodule": [[1.5]]})))
    assert (base.is_best_pytorch, ours.is_best_pytorch) == (True, False)
    assert (base.over_best, ours.over_best) == (None, None)


def test_a_row_that_is_no_pytorch_or_slowed_on_purpose_or_failed_is_not_the_best() -> None:
    fast = [[1.0]] * 2
    records = comparison({"pytorch": [[2.0]] * 2, "ortmodule": fast})
    records += comparison({"pytorch_slowed": fast}, slowed_by=0.05)
    found = {one.backend: one for one in summarise(table_of_records(records))}
    assert [name for name, one in found.items() if one.is_best_pytorch] == ["pytorch"]


def test_the_widest_interval_is_that_of_the_least_certain_backend() -> None:
    seconds = {"pytorch": [[2.0]] * 3, "ortmodule": [[1.0], [1.01], [1.02]], "ortmodule_zero1": [[1.0]] * 3}
    rows = table_of_records(comparison(seconds))
    certain, unsure = (
        intervals.half_width(speedup_of(comparison(seconds), name)) for name in seconds if name != "pytorch"
    )
    assert widest_half_width(rows) == max(certain, unsure) > 0.01
    assert widest_half_width(table_of_records(comparison({"pytorch": [[2.0]]}))) is None
    alone = table_of_records(comparison({"pytorch": [[2.0, 2.0]], "ortmodule": [[1.0, 1.1]]}))
    assert widest_half_width(alone) == math.inf, "one launch does not contain the variation between launches"


def test_the_same_global_batch_from_another_accumulation_is_compared() -> None:
    records = beside(workload=workload(micro_batch=8, grad_accum=1))
    assert speedup_of(records, "ortmodule").ratio == pytest.approx(2 / 1.5)


def contaminated(backend: str, bad_rounds: set[int], rounds: int = 6) -> list[Record]:
    blocks = tuple(
        block(n, 4.0 if n in bad_rounds else 2.0, cpu_seconds=(9.0 if n in bad_rounds else 2.0, 2.0))
        for n in range(1, rounds + 1)
    )
    return [record(backend, launch, blocks=blocks) for launch in (1, 2)]


def test_contaminated_blocks_drop_out_of_the_pairs_on_either_side() -> None:
    records = contaminated("pytorch", {1}) + contaminated("ortmodule", {2})
    found = speedup_of(records, "ortmodule")
    assert (found.ratio, found.rounds) == (1.0, 8)
    assert summary(records, "ortmodule").message == "2 of 12 blocks invalid and left out"


def test_a_round_that_was_measured_again_is_not_missing() -> None:
    again = tuple(block(n, attempt=2) for n in range(1, 7))
    records = [
        dataclasses.replace(one, blocks=(*one.blocks, *again))
        for one in contaminated("ortmodule", set(range(1, 7)))
    ]
    found = summary(contaminated("pytorch", set()) + records, "ortmodule")
    assert (found.status, found.message) == ("ok", "12 of 24 blocks invalid and left out")
    assert found.speedup is not None
    assert (found.speedup.ratio, found.speedup.rounds) == (1.0, 12)


def test_more_than_a_third_of_rounds_without_a_valid_block_voids_the_backend() -> None:
    kept = contaminated("pytorch", set()) + contaminated("ortmodule", {1, 2})
    assert summary(kept, "ortmodule").status == "ok"
    voided = contaminated("pytorch", set()) + contaminated("ortmodule", {1, 2, 3})
    found = summary(voided, "ortmodule")
    assert (found.status, found.speedup) == ("invalid", None)
    assert found.message.startswith("6 of 12 blocks invalid and left out (own threads); set device.threads")

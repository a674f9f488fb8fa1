import dataclasses
import math
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from bench.analysis import intervals
from bench.analysis.intervals import Speedup
from bench.analysis.summary import BackendSummary, summarise, widest_half_width
from bench.config.schema import global_batch
from bench.results import arithmetic, csv_files
from bench.results.records import Record
from tests.support.factories import (
    block,
    comparison,
    failed,
    phase,
    record,
    sample,
    with_environment,
    workload,
)

T = {1: 12.706204736432095, 2: 4.302652729911275, 3: 3.182446305284263}  # 97.5 % quantiles


def logs(values: dict[tuple[int, int], float]) -> pd.Series:
    index = pd.MultiIndex.from_tuples(list(values), names=["launch", "round"])
    return pd.Series(list(values.values()), index=index)


def known_speedup(low: float | None, high: float | None) -> Speedup:
    return Speedup(ratio=1.0, low=low, high=high, launches=3, rounds=15)


def estimate(values: dict[tuple[int, int], float]) -> Speedup:
    found = intervals.speedup_of_rounds(logs(values))
    assert found is not None
    return found


def summary(records: list[Record], backend: str) -> BackendSummary:
    return next(s for s in summarise(csv_files.table_of_records(records)) if s.backend == backend)


def speedup_of(records: list[Record], backend: str) -> Speedup:
    found = summary(records, backend).speedup
    assert found is not None
    return found


# Arithmetic


def test_global_batch_is_the_product_over_accumulation_and_ranks() -> None:
    assert global_batch(micro_batch=4, grad_accum=3, world_size=8) == 96


def test_throughput_counts_the_samples_of_all_steps_over_the_time_of_all_steps() -> None:
    assert arithmetic.samples_per_s(steps=10, global_batch=16, seconds=2.0) == 80.0


def test_a_block_takes_as_long_as_its_slowest_rank() -> None:
    assert arithmetic.block_seconds((1.9, 2.5, 2.0)) == 2.5


# The interval of a comparison


def test_three_launches_give_a_t_interval_over_their_means_with_two_degrees_of_freedom() -> None:
    found = estimate({(1, 1): 0.0, (1, 2): 0.2, (2, 1): 0.1, (2, 2): 0.3, (3, 1): 0.2, (3, 2): 0.4})
    half = T[2] * 0.1 / math.sqrt(3)  # launch means 0.1, 0.2, 0.3
    assert found is not None
    assert found.ratio == pytest.approx(math.exp(0.2), rel=1e-12)
    assert (found.low, found.high) == pytest.approx((math.exp(0.2 - half), math.exp(0.2 + half)))
    assert (found.launches, found.rounds, found.note) == (3, 6, "")


def test_two_launches_give_an_interval_with_one_degree_of_freedom() -> None:
    found = estimate({(1, 1): 0.1, (2, 1): 0.3})
    half = T[1] * math.sqrt(0.02 / 2)
    assert (found.low, found.high) == pytest.approx((math.exp(0.2 - half), math.exp(0.2 + half)))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0], 3.0),
        ([1.0, 3.0], 2.0),
        ([0.0, 1.0, 8.0], (0.25 * 0 + 1 + 0.25 * 8) / 1.5),
        ([100.0, 1.0, 3.0, -50.0], 2.0),
        ([9.0, 0.0, 4.0, 2.0, 3.0], (0.75 * 2 + 3 + 0.75 * 4) / 2.5),
        ([0.0, 1.0, 2.0, 3.0, 4.0, 99.0], (0.5 * 1 + 2 + 3 + 0.5 * 4) / 3),
        ([*range(4), *range(10, 18), *[1e6] * 4], 13.5),
    ],
)
def test_the_midmean_is_the_mean_of_the_middle_half(values: list[float], expected: float) -> None:
    assert intervals.midmean(np.array(values, float)) == pytest.approx(expected)


def test_a_launch_with_one_disturbed_round_counts_as_if_it_had_not_been() -> None:
    calm = estimate({(n, r): 0.1 for n in (1, 2) for r in (1, 2, 3, 4)})
    disturbed = estimate({(n, r): 0.9 if (n, r) == (1, 2) else 0.1 for n in (1, 2) for r in (1, 2, 3, 4)})
    assert disturbed == calm


def test_an_interval_whose_width_ended_the_comparison_uses_the_larger_quantile() -> None:
    seconds = {"pytorch": [[2.0]] * 3, "ortmodule": [[1.6], [1.7], [1.8]]}
    planned = speedup_of(comparison(seconds), "ortmodule")
    stopped = speedup_of(comparison(seconds, until=0.05), "ortmodule")
    assert planned.ratio == stopped.ratio
    widths = [math.log(one.high / one.low) for one in (planned, stopped)]  # type: ignore[operator]
    quantiles = [scipy.stats.t.ppf(0.975, 2), scipy.stats.t.ppf(0.99, 2)]
    assert widths[1] / widths[0] == pytest.approx(quantiles[1] / quantiles[0])


def test_launches_weigh_the_same_however_many_rounds_they_have() -> None:
    found = estimate({(1, 1): 0.1, (2, 1): 0.3, (2, 2): 0.3, (2, 3): 0.3})
    assert found.ratio == pytest.approx(math.exp(0.2), rel=1e-12)


def test_a_single_launch_gets_an_interval_over_its_rounds_and_says_what_is_missing() -> None:
    values = [0.1, 0.2, 0.3, 0.2]
    found = estimate({(1, n): value for n, value in enumerate(values, 1)})
    half = T[3] * np.std(values, ddof=1) / 2
    assert (found.low, found.high) == pytest.approx((math.exp(0.2 - half), math.exp(0.2 + half)))
    assert found.note == "single launch: the variation between launches is not in the interval"


def test_one_round_alone_has_no_interval_and_is_inconclusive() -> None:
    found = estimate({(1, 1): 0.7})
    assert (found.low, found.high, found.note) == (None, None, "one round: no interval")
    assert intervals.verdict(found, 0.02) == "inconclusive"


def test_no_round_gives_no_speedup() -> None:
    assert intervals.speedup_of_rounds(logs({(1, 1): 0.7}).iloc[:0]) is None


def test_launches_that_are_far_apart_give_an_infinite_interval_and_no_error() -> None:
    found = estimate({(1, 1): 0.0, (2, 1): 200.0})
    assert (found.low, found.high) == (0.0, math.inf)


@pytest.mark.parametrize(("launches", "rounds"), [(3, 5), (2, 4), (6, 8)])
@pytest.mark.parametrize("launch_spread", [0.0, 0.8, 3.0])
def test_the_interval_covers_the_truth_although_launches_differ(
    launches: int, rounds: int, launch_spread: float
) -> None:
    """`launch_spread` is in units of a block's spread; FACTS.md reports 0.8."""
    generator = np.random.default_rng(20261120)
    index = pd.MultiIndex.from_tuples(
        list(product(range(1, launches + 1), range(1, rounds + 1))), names=["launch", "round"]
    )
    truth, draws, covered = math.log(1.3), 2000, 0
    for _ in range(draws):
        shift = generator.normal(0, 0.02 * launch_spread, launches).repeat(rounds)
        noise = generator.normal(0, 0.02, launches * rounds)
        found = intervals.speedup_of_rounds(pd.Series(truth + shift + noise, index=index))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 1.3 <= found.high
    assert 0.93 <= covered / draws <= 0.97


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.05, 1.10, "faster"),
        (1.001, 1.10, "faster"),
        (0.90, 0.95, "slower"),
        (0.90, 0.999, "slower"),
        (0.99, 1.01, "same"),
        (1.005, 1.015, "same"),  # excludes 1, yet inside the margin
        (0.985, 0.995, "same"),
        (0.98, 1.02, "same"),
        (0.97, 1.01, "inconclusive"),
        (0.99, 1.03, "inconclusive"),
        (0.5, 2.0, "inconclusive"),
        (None, None, "inconclusive"),
    ],
)
def test_the_verdict_follows_the_interval_and_the_margin(
    low: float | None, high: float | None, expected: str
) -> None:
    assert intervals.verdict(known_speedup(low, high), 0.02) == expected


# Across runs


def test_two_runs_are_compared_by_welchs_interval_over_launch_means() -> None:
    base = logs({(1, 1): 0.0, (1, 2): 0.0, (2, 1): 0.0, (2, 2): 0.2})  # launch means 0, 0.1
    new = logs({(1, 1): 0.2, (2, 1): 0.3, (3, 1): 0.4})
    found = intervals.speedup_across_runs(base, new)
    test = scipy.stats.ttest_ind([0.2, 0.3, 0.4], [0.0, 0.1], equal_var=False)
    interval = test.confidence_interval(0.95)
    assert found is not None
    assert found.ratio == pytest.approx(math.exp(0.25), rel=1e-12)
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(interval)), rel=1e-9)
    assert found.launches == 2


def test_a_run_that_ended_when_it_was_narrow_is_compared_with_the_larger_quantile() -> None:
    base, new = logs({(1, 1): 0.0, (2, 1): 0.1}), logs({(1, 1): 0.2, (2, 1): 0.3})
    planned, stopped = (
        intervals.speedup_across_runs(base, new),
        intervals.speedup_across_runs(base, new, stopped=True),
    )
    assert planned is not None
    assert stopped is not None
    widths = [math.log(one.high / one.low) for one in (planned, stopped)]  # type: ignore[operator]
    assert widths[1] / widths[0] == pytest.approx(scipy.stats.t.ppf(0.99, 2) / scipy.stats.t.ppf(0.975, 2))


def test_a_run_with_one_launch_has_no_interval_across_runs() -> None:
    found = intervals.speedup_across_runs(logs({(1, 1): 0.0, (1, 2): 0.1}), logs({(1, 1): 0.2, (2, 1): 0.3}))
    assert found is not None
    assert (found.low, found.high) == (None, None)
    assert found.note == "single launch on one side: no interval across runs"


def test_runs_without_any_variation_have_an_interval_of_no_width() -> None:
    same = logs({(1, 1): 0.5, (2, 1): 0.5})
    found = intervals.speedup_across_runs(same, same)
    assert found is not None
    assert (found.ratio, found.low, found.high) == (1.0, 1.0, 1.0)


# The summary of a comparison

THREE_BY_TWO = {
    "ortmodule": [[1.6, 1.5], [1.4, 1.5], [1.55, 1.45]],
    "pytorch": [[2.0, 2.1], [2.2, 1.9], [2.0, 2.05]],
}


def test_the_summary_agrees_with_a_few_lines_of_pandas() -> None:
    rows = csv_files.table_of_records(comparison(THREE_BY_TWO))
    wide = rows.pivot(index=["launch", "round"], columns="backend", values="seconds").astype(float)
    ratio = np.log(wide["pytorch"] / wide["ortmodule"]).groupby("launch").mean()
    low, high = scipy.stats.t.interval(0.95, 2, ratio.mean(), ratio.sem())
    throughput = np.exp(np.log(160 / wide).groupby("launch").mean().mean())

    base, mine = summarise(rows)
    assert (base.backend, mine.backend) == ("pytorch", "ortmodule")
    assert mine.speedup is not None
    assert base.samples_per_s is not None
    assert mine.samples_per_s is not None
    assert mine.speedup.ratio == pytest.approx(np.exp(ratio.mean()), rel=1e-12)
    assert (mine.speedup.low, mine.speedup.high) == pytest.approx((np.exp(low), np.exp(high)))
    assert mine.samples_per_s == pytest.approx(throughput["ortmodule"], rel=1e-12)
    assert mine.samples_per_s / base.samples_per_s == pytest.approx(mine.speedup.ratio, rel=1e-12)
    assert mine.verdict == "faster"
    assert (base.speedup, base.verdict, base.is_reference) == (None, None, True)


def test_peaks_are_the_highest_block_and_setup_the_median_over_launches() -> None:
    records = [
        record(
            launch=launch,
            setup=phase((setup, 1.0)),
            device_before=(sample(used_bytes=0),),
            blocks=tuple(
                block(n, host_peak_bytes=(mib * 2**20, 0), device_used_bytes=(mib * 2**21,))
                for n, mib in enumerate(peaks, 1)
            ),
        )
        for launch, setup, peaks in [(1, 3.0, (100, 110)), (2, 9.0, (120, 90)), (3, 4.0, (80, 80))]
    ]
    found = summary(records, "pytorch")
    assert (found.host_peak_mib, found.device_peak_mib) == (120.0, 240.0)
    assert (found.setup_s, found.first_step_s) == (4.0, 1.0)
    assert found.torch_peak_allocated_mib is None
    assert (found.optimizer_state_bytes, found.loss_difference) == (2000, 0.0)


def test_energy_is_divided_among_all_samples_and_blank_if_one_block_lacks_it() -> None:
    # 10 steps of 16 samples in each block
    measured = [record(launch=n, blocks=(block(energy_joules=(100.0 * n, 60.0)),)) for n in (1, 2)]
    assert summary(measured, "pytorch").energy_per_sample_j == pytest.approx((160 + 260) / 320)
    silent = [*measured, record(launch=3, blocks=(block(energy_joules=(100.0, None)),))]
    assert summary(silent, "pytorch").energy_per_sample_j is None


def test_waiting_for_batches_is_a_share_of_the_slowest_rank_s_block_and_blank_where_nobody_waits() -> None:
    # blocks of 2 s
    waited = [
        record(launch=n, blocks=(block(loader_seconds=(0.01, seconds)),))
        for n, seconds in enumerate((0.1, 0.2, 0.9), start=1)
    ]
    assert summary(waited, "pytorch").loader_share == pytest.approx(0.1)
    assert summary([record()], "pytorch").loader_share is None


def test_break_even_is_the_extra_start_over_the_seconds_saved_per_step() -> None:
    late = phase((31.0, 20.0))
    records = comparison({"pytorch": [[2.0], [2.0]]}) + comparison({"ortmodule": [[1.6], [1.6]]}, setup=late)
    # 27 s of extra set-up; a step takes 0.16 s instead of 0.2 s
    assert summary(records, "ortmodule").break_even_steps == 675


def test_break_even_is_zero_without_extra_start_and_absent_unless_faster() -> None:
    quick = comparison({"pytorch": [[2.0], [2.0]], "ortmodule": [[1.6], [1.6]]})
    slow = comparison({"pytorch": [[2.0], [2.0]], "ortmodule": [[2.4], [2.4]]})
    early = phase((1.0,))
    ahead = comparison({"pytorch": [[2.0]] * 2}) + comparison({"ortmodule": [[1.6]] * 2}, setup=early)
    unsure = comparison({"pytorch": [[2.0], [2.0]], "ortmodule": [[1.6], [2.3]]})
    assert summary(quick, "ortmodule").break_even_steps == 0
    assert summary(ahead, "ortmodule").break_even_steps == 0
    assert summary(slow, "ortmodule").break_even_steps is None
    assert summary(unsure, "ortmodule").break_even_steps is None


def test_a_failed_launch_replaces_speedup_throughput_and_every_other_figure() -> None:
    records = [*comparison(THREE_BY_TWO), failed("ortmodule", "oom", "out of memory", launch=4)]
    found = summary(records, "ortmodule")
    assert (found.status, found.message) == ("oom", "out of memory")
    figures = (found.samples_per_s, found.speedup, found.verdict, found.host_peak_mib)
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
        ({"threads_per_rank": 2}, "threads_per_rank 2 (reference 1)"),
        ({"device": "cuda"}, "device cuda (reference cpu)"),
        ({"allocator": "system"}, "allocator system (reference tuned)"),
        ({"workload": workload(parameters=6_960_768)}, "parameters 6960768 (reference 4416698)"),
        ({"workload": workload(micro_batch=8)}, "global_batch 32 (reference 16)"),
        ({"workload": workload(seq_len=64)}, "seq_len 64 (reference 128)"),
        ({"workload": workload(precision="tf32")}, "precision tf32 (reference fp32)"),
        (
            {"workload": workload(world_size=4, micro_batch=2)},
            "world_size 4 (reference 2)",
        ),
    ],
)
def test_what_differs_from_the_reference_is_named_in_place_of_a_speedup(
    changes: dict[str, Any], named: str
) -> None:
    records = comparison({"pytorch": [[2.0], [2.0]]}) + comparison({"ortmodule": [[1.5], [1.5]]}, **changes)
    found = summary(records, "ortmodule")
    assert found.speedup is None
    assert found.message == f"no speed-up: {named}"


def test_another_environment_is_refused_and_it_is_said_in_what_it_differs() -> None:
    mine = comparison({"ortmodule": [[1.5], [1.5]]}, environment_hash="other")
    mine = with_environment(mine, driver="560", packages={"torch": "2.7.0"})
    found = summary([*comparison({"pytorch": [[2.0], [2.0]]}), *mine], "ortmodule")
    assert found.speedup is None
    assert found.message == (
        "no speed-up: measured in different environments: driver: missing, now 560, "
        "packages.deepspeed: 0.16.9, now missing, packages.numpy: 2.2.6, now missing, "
        "packages.onnxruntime-training-cpu: 1.19.2, now missing, and 2 more"
    )


def test_another_attention_is_said_beside_the_speedup() -> None:
    records = comparison({"pytorch": [[2.0], [2.0]]})
    records += comparison({"pytorch_sdpa": [[1.0], [1.0]]}, workload=workload(attention="sdpa"))
    found = summary(records, "pytorch_sdpa")
    assert found.speedup is not None
    assert found.message == "attention sdpa (reference eager)"


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


def test_one_backend_may_not_mix_stacks() -> None:
    records = comparison({"pytorch": [[2.0], [2.0]]})
    mixed = [
        dataclasses.replace(
            one, stack=stack, environment={**one.environment, "stack": stack}, environment_hash=stack
        )
        for one, stack in zip(comparison({"ortmodule": [[1.0], [1.0]]}), ("ort", "modern"), strict=True)
    ]
    assert summary([*records, *mixed], "ortmodule").speedup is None


def test_one_backend_may_not_mix_environments_either() -> None:
    both = {"pytorch": [[2.0]], "ortmodule": [[1.5]]}
    later = [
        dataclasses.replace(one, launch=2, environment_hash="other")
        for one in with_environment(comparison(both), driver="560")
    ]
    found = summary([*comparison(both), *later], "ortmodule")
    assert found.speedup is None
    assert found.message == "no speed-up: measured in different environments: driver: missing, now 560"


def test_without_a_parity_check_there_is_no_speedup() -> None:
    records = comparison({"pytorch": [[2.0]] * 2}) + comparison(
        {"ortmodule": [[1.5]] * 2}, loss_difference=None
    )
    found = summary(records, "ortmodule")
    assert found.speedup is None
    assert found.message == "no speed-up: its losses were never compared with the reference's"


def test_a_backend_that_was_slowed_on_purpose_says_so() -> None:
    records = comparison({"pytorch": [[2.0], [2.0]]})
    records += comparison({"ortmodule": [[2.1], [2.1]]}, slowed_by=0.05)
    assert summary(records, "ortmodule").message == "slowed on purpose by 5%"


def test_the_widest_interval_is_that_of_the_least_certain_backend() -> None:
    seconds = {"pytorch": [[2.0]] * 3, "ortmodule": [[1.0], [1.01], [1.02]], "ortmodule_zero1": [[1.0]] * 3}
    rows = csv_files.table_of_records(comparison(seconds))
    certain, unsure = (
        intervals.half_width(speedup_of(comparison(seconds), name)) for name in seconds if name != "pytorch"
    )
    assert widest_half_width(rows) == max(certain, unsure) > 0.01
    assert widest_half_width(csv_files.table_of_records(comparison({"pytorch": [[2.0]]}))) is None
    alone = csv_files.table_of_records(comparison({"pytorch": [[2.0, 2.0]], "ortmodule": [[1.0, 1.1]]}))
    assert widest_half_width(alone) == math.inf, "one launch does not contain the variation between launches"


def test_the_same_global_batch_from_another_accumulation_is_compared() -> None:
    records = comparison({"pytorch": [[2.0], [2.0]]}) + comparison(
        {"ortmodule": [[1.6], [1.6]]}, workload=workload(micro_batch=8, grad_accum=1)
    )
    assert speedup_of(records, "ortmodule").ratio == pytest.approx(1.25)


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
    assert found.message.startswith("6 of 12 blocks invalid and left out; the last one: used 11.0")


def test_an_empty_table_has_no_summary() -> None:
    assert summarise(csv_files.table_of_records([])) == []

import dataclasses
from typing import Any

import pytest

from bench.results import validity
from bench.results.records import WarmUp
from tests.support.factories import MIB, block, warm_up


def test_a_block_that_kept_to_its_share_counts() -> None:
    assert validity.find_contamination(block(seconds=2.0), cores_per_rank=1) is None


def test_more_cpu_than_cores_is_unfair() -> None:
    unfair = block(seconds=2.0, cpu_seconds=(2.2, 2.3))
    found = validity.find_contamination(unfair, cores_per_rank=1)
    assert found is not None
    assert found.reason == "used 4.500 CPU seconds, more than 4.400 = 1.1 x 2.000 s x 2 ranks x 1 cores"
    assert validity.find_contamination(unfair, cores_per_rank=2) is None


def _given(field: str, *seconds: float) -> dict[str, Any]:
    return {field: seconds}


@pytest.mark.parametrize(
    ("field", "who"),
    [("other_cpu_seconds", "other processes had"), ("stolen_seconds", "the hypervisor took")],
)
def test_core_time_that_somebody_else_had_spoils_a_block(field: str, who: str) -> None:
    # 5 % of 2 s on two cores are 0.2 s.
    assert validity.find_contamination(block(seconds=2.0, **_given(field, 0.1, 0.09)), 1) is None
    found = validity.find_contamination(block(seconds=2.0, **_given(field, 0.0, 0.21)), 1)
    assert str(found).startswith(
        f"{who} 0.210 CPU seconds of the ranks' cores, more than the 0.200 allowed in"
    )


def test_in_a_short_block_the_kernel_s_ticks_are_no_disturbance() -> None:
    # 5 % of 0.2 s on two cores are 0.02 s: two ticks.
    assert validity.find_contamination(block(seconds=0.2, other_cpu_seconds=(0.02, 0.02)), 1) is None
    assert "more than the 0.04" in str(
        validity.find_contamination(block(seconds=0.2, other_cpu_seconds=(0.03, 0.02)), 1)
    )


def test_a_block_that_skipped_steps_did_less_work() -> None:
    skipped = dataclasses.replace(block(seconds=2.0), loss_scale=2048.0, skipped_steps=2)
    assert str(validity.find_contamination(skipped, 1)).startswith(
        f"skipped 2 of {skipped.steps} optimizer steps since gradients overflowed in fp16; "
    )
    none = dataclasses.replace(block(seconds=2.0), loss_scale=2048.0, skipped_steps=0)
    assert validity.find_contamination(none, 1) is None


@pytest.mark.parametrize(
    ("spoiled", "cause"),
    [
        ({"other_cpu_seconds": (0.5, 0.5)}, "other processes"),
        ({"stolen_seconds": (0.5, 0.5)}, "hypervisor"),
        ({"cpu_seconds": (2.2, 2.3)}, "own threads"),
        ({"loss_scale": 2.0, "skipped_steps": 1}, "skipped steps"),
    ],
)
def test_the_cause_is_a_word_of_its_own_for_which_there_is_a_remedy(
    spoiled: dict[str, Any], cause: str
) -> None:
    found = validity.find_contamination(block(seconds=2.0, **spoiled), 1)
    assert found is not None
    assert found.cause == cause
    assert str(found) == f"{found.reason}; {validity.REMEDIES[cause]}"


def test_what_is_unknown_spoils_nothing() -> None:
    unknown = block(other_cpu_seconds=(None, None), stolen_seconds=(None, None))
    assert validity.find_contamination(unknown, 1) is None


def test_speed_alone_never_spoils_a_block() -> None:
    slow = block(seconds=200.0, cpu_seconds=(200.0, 200.0))
    assert validity.find_contamination(slow, 1) is None


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([], False),
        ([warm_up(2.0)], False),
        ([warm_up(2.0), warm_up(2.0)], True),
        ([warm_up(2.0), warm_up(2.5)], True),
        ([warm_up(2.0), warm_up(1.91)], True),
        ([warm_up(2.0), warm_up(1.89)], False),
        ([warm_up(4.0), warm_up(2.0), warm_up(2.0)], True),
        ([warm_up(2.0), warm_up(2.0, page_faults=(0, 20_481))], False),
        ([warm_up(2.0, page_faults=(0, 20_481)), warm_up(2.0, page_faults=(0, 20_480))], True),
        ([warm_up(2.0), warm_up(2.0, host_peak_bytes=(400 * MIB, 581 * MIB))], False),
        ([warm_up(2.0), warm_up(2.0, host_peak_bytes=(480 * MIB, 300 * MIB))], True),
        ([warm_up(2.0), warm_up(2.0, host_peak_bytes=(None, None))], True),
        ([warm_up(2.0), warm_up(3.8, steps=20)], True),
        ([warm_up(2.0), warm_up(3.7, steps=20)], False),
    ],
)
def test_warm_up_ends_when_memory_and_speed_have_settled(blocks: list[WarmUp], expected: bool) -> None:
    assert validity.has_settled(blocks) is expected

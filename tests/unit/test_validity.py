from typing import Any

import pytest

from bench.results import validity
from bench.results.records import WarmUp
from tests.support.factories import MIB, block, warm_up


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"seconds": 200.0, "cpu_seconds": (200.0, 200.0)}, ""),  # speed alone never spoils a block
        ({"other_cpu_seconds": (None, None), "stolen_seconds": (None, None)}, ""),
        ({"cpu_seconds": (2.2, 2.3)}, "used 4.500 CPU seconds, more than 4.400 = 1.1 x 2.000 s x 2 ranks x"),
        # 5 % of 2 s on two cores are 0.2 s
        ({"other_cpu_seconds": (0.1, 0.09)}, ""),
        ({"stolen_seconds": (0.1, 0.09)}, ""),
        ({"other_cpu_seconds": (0.0, 0.21)}, "other processes had 0.210 CPU seconds of the ranks' cores, mo"),
        ({"stolen_seconds": (0.0, 0.21)}, "the hypervisor took 0.210 CPU seconds of the ranks' cores, more "),
        # 5 % of 0.2 s are 0.02 s, or two of the kernel's ticks
        ({"seconds": 0.2, "other_cpu_seconds": (0.02, 0.02)}, ""),
        ({"seconds": 0.2, "other_cpu_seconds": (0.03, 0.02)}, "more than the 0.04"),
        ({"loss_scale": 2048.0, "skipped_steps": 0}, ""),
        ({"loss_scale": 2048.0, "skipped_steps": 2}, "skipped 2 of 10 optimizer steps since gradients overf"),
    ],
)
def test_a_block_is_spoiled_by_what_took_its_cores_or_its_steps(changes: dict[str, Any], words: str) -> None:
    found = validity.find_contamination(block(**changes), cores_per_rank=1)
    assert (words in str(found)) if words else (found is None)


def test_more_cores_have_more_cpu_time() -> None:
    assert validity.find_contamination(block(cpu_seconds=(4.3, 4.3)), cores_per_rank=2) is None


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

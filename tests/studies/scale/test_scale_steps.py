"""The predicted seconds of a step, as known by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from bench.statistics.intervals import Floats
from bench.studies.scale.estimates import Dice
from bench.studies.scale.steps import Parts, StepSeconds, predict_step
from bench.studies.scale.topology import LinkedNodes, load
from bench.studies.scale.traffic import AFTER_BACKWARD, AFTER_UPDATE, BACKWARD, FORWARD, Traffic, traffic_of
from tests.studies.scale.shapes import facts_of_shapes

SEVERAL = np.array([4.0])

SIXTEEN_MB = 4_000_000
"""Elements of four bytes."""


@dataclass(frozen=True, kw_only=True)
class Links(LinkedNodes):
    """A network whose calls take a time, and a time for each byte."""

    call_s: float = 0.0
    byte_s: float = 0.0

    def seconds(self, kind: str, size: float, ranks: Floats) -> Floats:
        return np.where(ranks > 1, self.call_s + self.byte_s * size, 0.0)


def parts(**changes: object) -> Parts:
    """One second forward, two backward, in which gradients come evenly."""
    one = Parts(
        forward=np.array([[1.0]]),
        backward=np.array([[2.0]]),
        update=np.array([[0.25]]),
        copies=np.array([[0.0]]),
        grad_accum=1,
        elements_ready=np.array([0.0, 1.0]),
        share_ready=np.array([0.0, 1.0]),
    )
    return replace(one, **changes)  # type: ignore[arg-type]


def sent(kind: str, moment: str, calls: int) -> Traffic:
    """Calls of a hundred elements, four bytes each."""
    return Traffic(kind, [100] * calls, moment)


def predicted(
    traffic: Sequence[Traffic], network: Links, own: Parts | None = None, ranks: Floats = SEVERAL
) -> StepSeconds:
    return predict_step(own or parts(), traffic, network, ranks, divides_update=False)


def exposed(traffic: Sequence[Traffic], network: Links, own: Parts | None = None) -> float:
    return float(predicted(traffic, network, own).exposed[0, 0])


@pytest.mark.parametrize("moment", [AFTER_BACKWARD, AFTER_UPDATE])
def test_what_comes_after_a_pass_hides_behind_nothing(moment: str) -> None:
    assert exposed([sent("all_gather", moment, 5)], Links(call_s=0.3)) == pytest.approx(1.5)


def test_gradients_hide_behind_the_rest_of_the_backward_pass_but_for_the_last() -> None:
    assert exposed([sent("all_reduce", BACKWARD, 4)], Links(call_s=0.4)) == pytest.approx(0.4)
    assert exposed([sent("all_reduce", BACKWARD, 1)], Links(call_s=0.4)) == pytest.approx(0.4)
    slow = exposed([sent("all_reduce", BACKWARD, 4)], Links(call_s=0.8))
    assert slow == pytest.approx(0.5 + 4 * 0.8 - 2), "the link has enough to do from the first on"


def test_gradients_count_from_when_they_are_there_and_not_evenly() -> None:
    late = parts(elements_ready=np.array([0.0, 0.1, 1.0]), share_ready=np.array([0.0, 0.9, 1.0]))
    found = [sent("all_reduce", BACKWARD, 10)]
    assert exposed(found, Links(call_s=0.19), late) == pytest.approx(10 * 0.19 - 0.2)
    early = parts(elements_ready=np.array([0.0, 0.9, 1.0]), share_ready=np.array([0.0, 0.1, 1.0]))
    assert exposed(found, Links(call_s=0.19), early) == pytest.approx(0.19)


@pytest.mark.parametrize(("moment", "a_layer"), [(FORWARD, 0.25), (BACKWARD, 0.5)])
def test_weights_are_gathered_one_layer_ahead_and_the_first_are_waited_for(
    moment: str, a_layer: float
) -> None:
    found = [sent("all_gather", moment, 4)]
    assert exposed(found, Links(call_s=a_layer / 2)) == pytest.approx(a_layer / 2)
    assert exposed(found, Links(call_s=2 * a_layer)) == pytest.approx(2 * a_layer + 3 * a_layer)


def test_no_layer_is_gathered_further_ahead_than_the_next() -> None:
    """The small first one leaves the link free, and yet the large one waits until its turn."""
    first_small = Traffic("all_gather", [100, 200], FORWARD, element_bytes=1)
    # Asked for when the first layer begins, at 0.1 s; a third of a second is computed meanwhile.
    assert exposed([first_small], Links(byte_s=0.001)) == pytest.approx(0.1)
    three = replace(first_small, sizes=[100, 200, 200])
    assert exposed([three], Links(byte_s=0.003)) == pytest.approx(0.3 + (0.6 - 0.2) + (0.6 - 0.4))


def test_layers_are_computed_as_long_as_they_have_parameters() -> None:
    last_small = Traffic("all_gather", [100, 10], FORWARD, element_bytes=1)
    # The first call has ten elevenths of the parameters: 0.91 s are computed while the second is on its way.
    assert exposed([last_small], Links(call_s=0.8)) == pytest.approx(0.8)


def test_gradients_go_before_the_weights_that_are_asked_for_at_the_same_moment() -> None:
    found = [sent("all_gather", BACKWARD, 4), sent("reduce_scatter", BACKWARD, 4)]
    # Layers begin at 0.5, 1, 2 and 3 s: gradients of the one before and weights of the one after take 1 s.
    assert exposed(found, Links(call_s=0.5)) == pytest.approx(3.5 + 0.5 - 2)


def test_what_is_sent_in_every_pass_is_sent_as_often_as_there_are_micro_batches() -> None:
    twice, network = parts(grad_accum=2), Links(call_s=0.2)
    late = sent("all_reduce", AFTER_BACKWARD, 4)
    assert exposed([replace(late, each_pass=True)], network, twice) == pytest.approx(1.6)
    assert exposed([late], network, twice) == pytest.approx(0.8)
    assert exposed([sent("reduce_scatter", BACKWARD, 4)], network, twice) == pytest.approx(0.2)
    for moment in (FORWARD, BACKWARD):
        weights = replace(sent("all_gather", moment, 4), each_pass=True)
        assert exposed([weights], network, twice) == pytest.approx(0.4)


def test_one_rank_alone_sends_nothing_and_copies_nothing() -> None:
    found = [
        sent(kind, moment, 3)
        for kind, moment in (
            ("all_gather", FORWARD),
            ("all_gather", BACKWARD),
            ("all_reduce", BACKWARD),
            ("broadcast", AFTER_UPDATE),
        )
    ]
    own = parts(copies=np.array([[0.5]]))
    step = predicted(found, Links(call_s=0.6), own, np.array([1.0, 2.0]))
    assert step.exposed[0, 0] == 0
    assert step.total[0, 0] == pytest.approx(1 + 2 + 0.25)
    assert step.computed[0, 1] == pytest.approx(1 + 2 + 0.25 + 0.5)


def test_an_update_is_divided_among_the_ranks_where_the_sharding_does_that() -> None:
    ranks = np.array([1.0, 4.0])
    whole, divided = (
        predict_step(parts(), [], Links(), ranks, divides_update=divides).total[0]
        for divides in (False, True)
    )
    assert whole.tolist() == pytest.approx([3.25, 3.25])
    assert divided.tolist() == pytest.approx([3.25, 3.0625])


def test_draws_and_world_sizes_have_nothing_to_do_with_each_other() -> None:
    topology, ranks = load("dgx-a100"), np.array([1.0, 8.0, 64.0])
    found = traffic_of("fsdp2", facts_of_shapes([SIXTEEN_MB] * 6, layers=6), ranks=2)
    network = LinkedNodes(topology, Dice(5))
    own = parts(forward=Dice(5).draw(topology.device.reached_share) / 100, backward=np.full((5, 1), 0.01))
    together = predict_step(own, found, network, ranks, divides_update=True)
    assert together.total.shape == together.exposed.shape == (5, 3)
    for place, one in enumerate(ranks):
        alone = predict_step(own, found, network, np.array([one]), divides_update=True)
        assert alone.total[:, 0] == pytest.approx(together.total[:, place])
    best = LinkedNodes(topology, Dice(1))
    guess = predict_step(replace(own, forward=own.forward[:1]), found, best, ranks, divides_update=True)
    assert guess.total[0] == pytest.approx(together.total[0])

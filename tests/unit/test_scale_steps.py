"""The predicted seconds of a step: as a simulation of the same step has them, and as known by hand."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from bench.analysis.scale.estimates import Dice, Estimate
from bench.analysis.scale.network import Duration, LinkedNodes
from bench.analysis.scale.sendings import (
    AFTER_BACKWARD,
    AFTER_UPDATE,
    BACKWARD,
    FORWARD,
    TEXTBOOK,
    Sending,
    in_buckets,
    sendings,
)
from bench.analysis.scale.steps import Parts, StepSeconds, predict_step
from bench.analysis.scale.topology import NetworkLink, load
from bench.results.collectives import SENT
from bench.statistics.intervals import Floats
from tests.support.factories import facts_of_shapes
from tests.support.step_simulator import Call, Step, simulate_step

STEPS = 100
"""Random ones of each kind."""

SEVERAL = np.array([4.0])

SIXTEEN_MB = 4_000_000
"""Numbers of four bytes."""


@dataclass(frozen=True, kw_only=True)
class Links(LinkedNodes):
    """A network whose calls take a time of their own, and a time for each byte.

    Attributes:
        kinds: that take other times.
    """

    busy_s: float = 0.0
    busy_s_per_byte: float = 0.0
    way_s: float = 0.0
    way_s_per_byte: float = 0.0
    kinds: Mapping[str, "Links"] = field(default_factory=dict)

    def seconds(self, kind: str, size: float, ranks: Floats) -> Duration:
        if kind in self.kinds:
            return self.kinds[kind].seconds(kind, size, ranks)
        several = np.where(ranks > 1, 1.0, 0.0)
        return Duration(
            busy=several * (self.busy_s + self.busy_s_per_byte * size),
            on_the_way=several * (self.way_s + self.way_s_per_byte * size),
        )


def parts(**changes: object) -> Parts:
    """One second forward, two backward, in which gradients come evenly."""
    one = Parts(
        forward=np.array([[1.0]]),
        backward=np.array([[2.0]]),
        update=np.array([[0.25]]),
        copies=np.array([[0.0]]),
        host=np.array([[0.0]]),
        grad_accum=1,
        elements_ready=np.array([0.0, 1.0]),
        share_ready=np.array([0.0, 1.0]),
    )
    return replace(one, **changes)  # type: ignore[arg-type]


def sent(kind: str, moment: str, calls: int) -> Sending:
    """Calls of a hundred numbers, four bytes each."""
    return Sending(kind, [100] * calls, moment)


def predicted(
    found: Sequence[Sending],
    network: Links,
    own: Parts | None = None,
    ranks: Floats = SEVERAL,
) -> StepSeconds:
    return predict_step(own or parts(), found, network, ranks, divides_update=False)


def exposed(found: Sequence[Sending], network: Links, own: Parts | None = None) -> float:
    return float(predicted(found, network, own).exposed[0, 0])


# --- random steps, simulated ----------------------------------------------------------------------


def random_step(generator: np.random.Generator, busy: str) -> tuple[Parts, list[Sending], Links]:
    """Any parts; weights, gradients or what comes after may be missing; little or much is sent."""
    inner = [np.sort(generator.uniform(0, 1, 3)) for _ in range(2)]
    elements, times = (np.concatenate([[0.0], one, [1.0]]) for one in inner)
    seconds = generator.uniform(0.1, 2, (5, 1, 1))
    own = Parts(
        forward=seconds[0],
        backward=seconds[1],
        update=seconds[2],
        copies=seconds[3],
        host=seconds[4],
        grad_accum=int(generator.integers(1, 4)),
        elements_ready=elements,
        share_ready=times,
    )
    of_layers = int(generator.integers(40, 400))
    found = [
        Sending(
            kind,
            [10, 90, 300]
            if kind == "reduce_scatter" and generator.random() < 0.3
            else in_buckets(
                400, of_layers if kind == "all_gather" else int(generator.choice([of_layers, 30, 150]))
            ),
            moment,
            element_bytes=int(generator.choice([2, 4])),
            each_pass=moment != AFTER_UPDATE and bool(generator.random() < 0.5),
        )
        for kind, moment in (
            ("all_gather", FORWARD),
            ("all_gather", BACKWARD),
            ("reduce_scatter", BACKWARD),
            ("all_reduce", AFTER_BACKWARD),
            ("all_gather", AFTER_UPDATE),
        )
        if generator.random() < 0.7
    ]
    scale = 10 ** generator.uniform(-1.5, 1)
    return own, found, Links(kinds={kind: random_links(generator, busy, scale) for kind in SENT})


def random_links(generator: np.random.Generator, busy: str, scale: float) -> Links:
    never, always = float(busy != "never"), float(busy != "always")
    times = generator.uniform(0, scale, 4) * (0.05, 0.0005, 0.05, 0.0005)
    return Links(
        busy_s=never * times[0],
        busy_s_per_byte=never * times[1],
        way_s=always * times[2],
        way_s_per_byte=always * times[3],
    )


def as_events(own: Parts, found: Sequence[Sending], network: Links, ranks: float) -> Step:
    """The same for the simulator, which takes plain numbers."""

    def calls(kinds: Iterable[str], moment: str, *, evenly: bool = False) -> list[Call]:
        each: list[Call] = []
        for one in found:
            if one.moment != moment or one.kind not in kinds:
                continue
            before = 0
            for elements in one.sizes:
                gathers = one.kind == "all_gather"
                share = (before if gathers else before + elements) / one.elements
                if not evenly:
                    share = float(np.interp(share, own.elements_ready, own.share_ready))
                took = network.seconds(one.kind, elements * one.element_bytes, np.array([ranks]))
                each.append(
                    Call(
                        busy=took.busy.item(),
                        on_the_way=took.on_the_way.item(),
                        share=share,
                        each_pass=one.each_pass,
                    )
                )
                before += elements
        return each

    rest = own.update + own.host + (own.copies if ranks > 1 else 0.0)
    return Step(
        forward=own.forward.item(),
        backward=own.backward.item(),
        rest=rest.item(),
        grad_accum=int(own.grad_accum),
        forward_weights=calls(["all_gather"], FORWARD, evenly=True),
        backward_weights=calls(["all_gather"], BACKWARD),
        gradients=calls(["reduce_scatter", "all_reduce"], BACKWARD),
        after_backward=calls(["all_reduce"], AFTER_BACKWARD),
        after_update=calls(["all_gather"], AFTER_UPDATE),
    )


@pytest.mark.parametrize(
    ("busy", "busy_first"),
    [("never", 1.0), ("always", 1.0), ("partly", 1.0), ("partly", 0.5), ("partly", 0.0)],
)
def test_a_step_takes_as_long_as_its_simulation(busy: str, busy_first: float) -> None:
    """Whichever part of a collective's time it is in which it keeps the processor busy."""
    generator = np.random.default_rng(1)
    for number in range(STEPS):
        own, found, network = random_step(generator, busy)
        ranks = np.array([1.0, 4.0])
        total = predicted(found, network, own, ranks).total[0]
        for place, several in enumerate(ranks):
            simulated = simulate_step(as_events(own, found, network, several), busy_first=busy_first)
            assert total[place] == pytest.approx(simulated, rel=1e-9), f"step {number}, {several:g} ranks"


def test_random_steps_send_little_and_much_and_hide_some_of_it() -> None:
    generator = np.random.default_rng(1)
    each = [random_step(generator, "partly") for _ in range(STEPS)]
    steps = [predicted(found, network, own) for own, found, network in each]
    longer = [(one.exposed / one.computed).item() for one in steps]
    assert np.quantile(longer, 0.1) < 0.1
    assert np.quantile(longer, 0.9) > 1
    hidden = [(1 - one.exposed / one.sent).item() for one in steps if one.sent.item()]
    assert np.mean(np.array(hidden) > 0.1) > 0.3


# --- by hand --------------------------------------------------------------------------------------


def test_the_simulation_itself_gives_what_is_known_by_hand() -> None:
    quarters = [Call(busy=0.0, on_the_way=0.3, share=share) for share in (0.25, 0.5, 0.75, 1.0)]
    assert simulate_step(Step(forward=1, backward=2, rest=0.5)) == pytest.approx(3.5)
    assert simulate_step(Step(forward=1, backward=2, grad_accum=3)) == pytest.approx(9)
    assert simulate_step(Step(forward=1, backward=2, gradients=quarters)) == pytest.approx(3.3)
    assert simulate_step(Step(forward=1, backward=1, gradients=quarters)) == pytest.approx(2.45)
    at_its_start = [Call(busy=0.25, on_the_way=10, share=0.0)]
    assert simulate_step(Step(forward=1, backward=20, gradients=at_its_start)) == pytest.approx(21.25)
    weights = [Call(busy=0.0, on_the_way=0.25, share=share) for share in (0.0, 0.5)]
    assert simulate_step(Step(forward=1, backward=1, forward_weights=weights)) == pytest.approx(2.25)
    assert simulate_step(Step(forward=0.25, backward=1, forward_weights=weights)) == pytest.approx(1.625)


@pytest.mark.parametrize("moment", [AFTER_BACKWARD, AFTER_UPDATE])
def test_what_comes_after_a_pass_hides_behind_nothing(moment: str) -> None:
    step = predicted([sent("all_gather", moment, 5)], Links(busy_s=0.1, way_s=0.2))
    assert step.exposed.item() == pytest.approx(1.5)
    assert step.sent.item() == pytest.approx(1.5)


def test_gradients_hide_behind_the_rest_of_the_backward_pass_but_for_the_last() -> None:
    assert exposed([sent("all_reduce", BACKWARD, 4)], Links(way_s=0.4)) == pytest.approx(0.4)
    assert exposed([sent("all_reduce", BACKWARD, 1)], Links(way_s=0.4)) == pytest.approx(0.4)
    slow = exposed([sent("all_reduce", BACKWARD, 4)], Links(way_s=0.8))
    assert slow == pytest.approx(0.5 + 4 * 0.8 - 2), "the link has enough to do from the first on"


def test_gradients_count_from_when_they_are_there_and_not_evenly() -> None:
    late = parts(elements_ready=np.array([0.0, 0.1, 1.0]), share_ready=np.array([0.0, 0.9, 1.0]))
    found = [sent("all_reduce", BACKWARD, 10)]
    assert exposed(found, Links(way_s=0.19), late) == pytest.approx(10 * 0.19 - 0.2)
    early = parts(elements_ready=np.array([0.0, 0.9, 1.0]), share_ready=np.array([0.0, 0.1, 1.0]))
    assert exposed(found, Links(way_s=0.19), early) == pytest.approx(0.19)


def test_a_busy_collective_hides_behind_nothing() -> None:
    assert exposed([sent("all_reduce", BACKWARD, 4)], Links(busy_s=0.4)) == pytest.approx(1.6)
    assert exposed([sent("all_gather", FORWARD, 4)], Links(busy_s=0.1)) == pytest.approx(0.4)


@pytest.mark.parametrize(("moment", "a_layer"), [(FORWARD, 0.25), (BACKWARD, 0.5)])
def test_weights_are_gathered_one_layer_ahead_and_the_first_are_waited_for(
    moment: str, a_layer: float
) -> None:
    found = [sent("all_gather", moment, 4)]
    assert exposed(found, Links(way_s=a_layer / 2)) == pytest.approx(a_layer / 2)
    assert exposed(found, Links(way_s=2 * a_layer)) == pytest.approx(2 * a_layer + 3 * a_layer)


def test_no_layer_is_gathered_further_ahead_than_the_next() -> None:
    """The small first one leaves the link free, and yet the large one waits until its turn."""
    first_small = Sending("all_gather", [100, 200], FORWARD, element_bytes=1)
    # Asked for when the first layer begins, at 0.1 s; a third of a second is computed meanwhile.
    assert exposed([first_small], Links(way_s_per_byte=0.001)) == pytest.approx(0.1)
    three = replace(first_small, sizes=[100, 200, 200])
    assert exposed([three], Links(way_s_per_byte=0.003)) == pytest.approx(0.3 + (0.6 - 0.2) + (0.6 - 0.4))


def test_layers_are_computed_as_long_as_they_have_parameters() -> None:
    last_small = Sending("all_gather", [100, 10], FORWARD, element_bytes=1)
    # The first call has ten elevenths of the parameters: 0.91 s are computed while the second is on its way.
    assert exposed([last_small], Links(way_s=0.8)) == pytest.approx(0.8)


def test_gradients_go_before_the_weights_that_are_asked_for_at_the_same_moment() -> None:
    found = [sent("all_gather", BACKWARD, 4), sent("reduce_scatter", BACKWARD, 4)]
    both = exposed(found, Links(way_s=0.5))
    # Layers begin at 0.5, 1, 2 and 3 s: gradients of the one before and weights of the one after take 1 s.
    assert both == pytest.approx(3.5 + 0.5 - 2 + 0.0)


def test_what_is_sent_in_every_pass_is_sent_as_often_as_there_are_micro_batches() -> None:
    twice, network = parts(grad_accum=2), Links(way_s=0.2)
    again = replace(sent("reduce_scatter", BACKWARD, 4), each_pass=True)
    assert predicted([again], network, twice).sent.item() == pytest.approx(1.6)
    late = replace(sent("all_reduce", AFTER_BACKWARD, 4), each_pass=True)
    assert predicted([late], network, twice).exposed.item() == pytest.approx(1.6)
    once = predicted([sent("reduce_scatter", BACKWARD, 4)], network, twice)
    assert once.exposed.item() == pytest.approx(0.2)
    assert once.sent.item() == pytest.approx(0.8)
    for moment in (FORWARD, BACKWARD):
        weights = replace(sent("all_gather", moment, 4), each_pass=True)
        gathered = predicted([weights], network, twice)
        assert gathered.exposed.item() == pytest.approx(0.4)
        assert gathered.sent.item() == pytest.approx(1.6)
    after = predicted([sent("all_gather", AFTER_UPDATE, 4)], network, twice)
    assert after.exposed.item() == pytest.approx(0.8)


def test_world_sizes_may_have_micro_batches_of_their_own() -> None:
    found, network = [sent("all_gather", FORWARD, 4), sent("all_reduce", BACKWARD, 4)], Links(way_s=0.2)
    ranks, micro_batches = np.array([4.0, 4.0, 4.0]), np.array([3.0, 1.0, 0.5])
    step = predicted(found, network, parts(grad_accum=micro_batches), ranks)
    for place, number in enumerate(micro_batches):
        own = parts(grad_accum=max(1, int(number)))
        if number < 1:
            own = replace(own, forward=own.forward * number, backward=own.backward * number)
        alone = predicted(found, network, own)
        assert step.total[0, place] == pytest.approx(alone.total.item())
        assert step.sent[0, place] == pytest.approx(alone.sent.item())


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
    own = parts(copies=np.array([[0.5]]), host=np.array([[0.125]]))
    step = predicted(found, Links(busy_s=0.3, way_s=0.3), own, np.array([1.0, 2.0]))
    assert (step.exposed[0, 0], step.sent[0, 0]) == (0, 0)
    assert step.total[0, 0] == pytest.approx(1 + 2 + 0.25 + 0.125)
    assert step.computed[0, 1] == pytest.approx(1 + 2 + 0.25 + 0.125 + 0.5)
    nothing = predict_step(own, [], Links(), np.array([1.0]), divides_update=True)
    assert nothing.total.item() == pytest.approx(1 + 2 + 0.25 + 0.125)


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
    found = sendings("fsdp2", facts_of_shapes([SIXTEEN_MB] * 6, layers=6), ranks=2, on_cuda=True)
    network = LinkedNodes(topology, Dice(5))
    own = parts(forward=Dice(5).draw(topology.device.reached_share) / 100, backward=np.full((5, 1), 0.01))
    together = predict_step(own, found, network, ranks, divides_update=True)
    assert together.total.shape == together.sent.shape == together.exposed.shape == (5, 3)
    for place, one in enumerate(ranks):
        alone = predict_step(own, found, network, np.array([one]), divides_update=True)
        assert alone.total[:, 0] == pytest.approx(together.total[:, place])
    best = LinkedNodes(topology, Dice(1))
    guess = predict_step(replace(own, forward=own.forward[:1]), found, best, ranks, divides_update=True)
    assert guess.total[0] == pytest.approx(together.total[0])


def slow(link: NetworkLink) -> NetworkLink:
    known = link.bytes_per_s
    rate = Estimate(value=known.value / 10, low=known.low / 10, high=known.high / 10)
    return replace(link, bytes_per_s=rate, ring_bytes_per_s=rate)


def test_more_is_exposed_where_links_are_slower_and_never_more_than_is_sent() -> None:
    topology, ranks = load("dgx-a100"), np.array([8.0, 64.0])
    slower = replace(
        topology, inside_node=slow(topology.inside_node), between_nodes=slow(topology.between_nodes)
    )
    own = parts(forward=np.array([[0.02]]), backward=np.array([[0.04]]))
    for sharding in TEXTBOOK:
        found = sendings(sharding, facts_of_shapes([SIXTEEN_MB] * 50, layers=10), ranks=8, on_cuda=True)
        fast, slowed = (
            predict_step(own, found, LinkedNodes(machine, Dice()), ranks, divides_update=True)
            for machine in (topology, slower)
        )
        assert (slowed.exposed > fast.exposed).all(), sharding
        assert (slowed.exposed <= slowed.sent * (1 + 1e-12)).all(), sharding

"""Lets a training step happen event by event: what `bench.analysis.scale.steps` works out must come to this.

Nothing here is taken from there. A rank has a processor and a link, and both do one thing at a time. A
collective holds the link; for a part of that time it takes the processor away from whatever is computed.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import simpy

COMPUTING, SENDING = 1, 0
"""Who may use the processor first: the smaller one."""

Process = Generator[simpy.Event, Any, None]


@dataclass(frozen=True, kw_only=True)
class Call:
    """A collective.

    Attributes:
        busy: seconds in which it keeps the processor busy.
        on_the_way: the seconds besides.
        share: of a pass, at which gradients are there or weights are needed.
        each_pass: it happens with every micro-batch; else weights are gathered in the first forward and the
            last backward pass, and gradients are sent in the last.
    """

    busy: float
    on_the_way: float
    share: float = 0.0
    each_pass: bool = True


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a rank does in a step.

    Attributes:
        forward: seconds of computing one micro-batch.
        backward: likewise.
        rest: of computing once a step: the update, copies, whatever else.
        grad_accum: micro-batches.
        forward_weights: that a forward pass gathers; the first are needed at its beginning.
        backward_weights: that a backward pass gathers, likewise.
        gradients: that a backward pass sends.
        after_backward: collectives that follow one.
        after_update: collectives at the end.
    """

    forward: float
    backward: float
    rest: float = 0.0
    grad_accum: int = 1
    forward_weights: Sequence[Call] = field(default=())
    backward_weights: Sequence[Call] = field(default=())
    gradients: Sequence[Call] = field(default=())
    after_backward: Sequence[Call] = field(default=())
    after_update: Sequence[Call] = field(default=())


def simulate_step(step: Step, *, busy_first: float = 1.0) -> float:
    """The seconds that a step takes.

    Args:
        step: what happens in it.
        busy_first: so much of a collective's busy part comes before it is on its way, the rest comes after.
    """
    rank = _Rank(busy_first)
    rank.clock.run(rank.clock.process(rank.step(step)))
    return float(rank.clock.now)


class _Rank:
    def __init__(self, busy_first: float) -> None:
        self.clock = simpy.Environment()
        self._processor = simpy.PreemptiveResource(self.clock)
        self._link = simpy.Resource(self.clock)
        self._busy_first = busy_first

    def step(self, step: Step) -> Process:
        for number in range(1, step.grad_accum + 1):
            first, last = number == 1, number == step.grad_accum
            yield self.clock.process(self._pass(step.forward, _now(step.forward_weights, first), ()))
            weights, gradients = _now(step.backward_weights, last), _now(step.gradients, last)
            yield self.clock.process(self._pass(step.backward, weights, gradients))
            for call in _now(step.after_backward, last):
                yield self._ask(call)
        yield self.clock.process(self._compute(step.rest))
        for call in step.after_update:
            yield self._ask(call)

    def _pass(self, seconds: float, weights: Sequence[Call], gradients: Sequence[Call]) -> Process:
        """Layers are computed; others look on, and ask for collectives when their time has come."""
        shares = sorted({0.0, 1.0} | {one.share for one in (*weights, *gradients)})
        reached = {share: self.clock.event() for share in shares}
        begun = [self.clock.event() for _ in weights]
        there = [self.clock.event() for _ in weights]
        sent = self.clock.process(self._send_gradients(gradients, reached))
        self.clock.process(self._fetch_weights(weights, begun, there))
        for share, until in zip(shares, [*shares[1:], 1.0], strict=True):
            reached[share].succeed()
            for call, begins, arrived in zip(weights, begun, there, strict=True):
                if call.share == share:
                    yield arrived
                    begins.succeed()
            yield self.clock.process(self._compute(seconds * (until - share)))
        yield sent

    def _send_gradients(self, gradients: Sequence[Call], reached: dict[float, simpy.Event]) -> Process:
        arriving = []
        for call in gradients:
            yield reached[call.share]
            arriving.append(self._ask(call))
        yield self.clock.all_of(arriving)

    def _fetch_weights(
        self, weights: Sequence[Call], begun: Sequence[simpy.Event], there: Sequence[simpy.Event]
    ) -> Process:
        """One layer ahead: the next is asked for once the one before is being computed."""
        for number, call in enumerate(weights):
            if number:
                yield begun[number - 1]
            yield self._ask(call)
            there[number].succeed()

    def _compute(self, seconds: float) -> Process:
        """Whenever a collective takes the processor away, it goes on later with what is left."""
        left = seconds
        while left > 0:
            with self._processor.request(priority=COMPUTING) as turn:
                try:
                    yield turn
                    yield self.clock.timeout(left)
                    left = 0.0
                except simpy.Interrupt as taken:
                    left -= self.clock.now - taken.args[0].usage_since

    def _ask(self, call: Call) -> simpy.Process:
        return self.clock.process(self._carry(call))

    def _carry(self, call: Call) -> Process:
        with self._link.request() as turn:
            yield turn
            yield self.clock.process(self._keep_busy(call.busy * self._busy_first))
            yield self.clock.timeout(call.on_the_way)
            yield self.clock.process(self._keep_busy(call.busy * (1 - self._busy_first)))

    def _keep_busy(self, seconds: float) -> Process:
        if seconds > 0:
            with self._processor.request(priority=SENDING) as turn:
                yield turn
                yield self.clock.timeout(seconds)


def _now(calls: Sequence[Call], once: bool) -> list[Call]:
    """Those that happen in this pass; `once`: what happens once a step happens in it, too."""
    return [call for call in calls if call.each_pass or once]

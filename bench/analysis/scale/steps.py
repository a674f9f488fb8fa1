"""The seconds of a step on many ranks: when what it sends has arrived, and what is computed meanwhile.

The link carries one collective after the other, each as soon as it is asked for and the link is free, so that
a pass is over after the longest path through it: sums and maxima, for all draws and world sizes at a time.
`tests/support/step_simulator.py` lets the same step happen event by event and comes to the same seconds.

What keeps the processor busy is added to what is computed when a collective is asked for, even if it has to
wait for the link. That changes nothing: until the link is free again, the link is what everything waits for.
"""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.analysis.scale.estimates import Draws
from bench.analysis.scale.network import Duration, Network
from bench.analysis.scale.sendings import AFTER_BACKWARD, AFTER_UPDATE, BACKWARD, FORWARD, Sending
from bench.statistics.intervals import Floats

Call = tuple[float, Duration]  # a collective, and the share of a pass at which it is sent or needed

_FIRST, _GRADIENTS, _LAYER = range(3)
"""What happens in a pass, in the order of what happens at the same moment: the first weights are asked for,
gradients are sent, a layer begins and the next one's weights are asked for."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a rank computes in a step; seconds of shape (draws, 1).

    Attributes:
        elements_ready, share_ready: at these shares of the backward pass so large shares of all gradients are
            there; both rise from 0 to 1.
    """

    forward: Draws  # of one micro-batch
    backward: Draws  # of one micro-batch
    update: Draws  # of all parameters by one rank
    copies: Draws  # of all gradients into what is sent, and back
    host: Draws  # whatever else a step takes, however many ranks there are
    # micro-batches of a step, at every world size or at each; below 1 it is one that has so much fewer
    # samples, and is taken to compute so much sooner
    grad_accum: float | Floats
    elements_ready: Floats
    share_ready: Floats


@dataclass(frozen=True, kw_only=True)
class StepSeconds:
    """What a step takes; seconds of shape (draws, world sizes)."""

    computed: Floats  # forward and backward passes, the update, copies and the rest
    exposed: Floats  # that sending makes the step longer
    sent: Floats  # that it would take if nothing hid it

    @property
    def total(self) -> Floats:
        """The whole step."""
        return self.computed + self.exposed


def predict_step(
    parts: Parts, sendings: Sequence[Sending], network: Network, ranks: Floats, *, divides_update: bool
) -> StepSeconds:
    """The seconds of a step.

    Args:
        parts: what a rank computes.
        sendings: of a step, as for more than one rank; one alone sends nothing.
        network: that carries them.
        ranks: world sizes, shape (world sizes,).
        divides_update: each rank updates its part of the parameters alone.
    """
    several = ranks > 1
    update = parts.update / np.where(divides_update, ranks, 1.0)
    number = np.asarray(parts.grad_accum, dtype=float)
    passes, size = np.maximum(1.0, number), np.minimum(1.0, number)
    computed = number * (parts.forward + parts.backward) + update
    computed = computed + np.where(several, parts.copies, 0.0) + parts.host
    nothing = np.zeros_like(computed * ranks)
    exposed, sent = nothing, nothing
    along: dict[tuple[str, bool, bool], list[Call]] = defaultdict(list)
    for sending in sendings:
        known = {  # equal calls are asked for once
            elements: network.seconds(sending.kind, elements * sending.element_bytes, ranks)
            for elements in dict.fromkeys(sending.sizes)
        }
        durations = [known[elements] for elements in sending.sizes]
        together = sum((each.total for each in durations), nothing)
        until = np.cumsum(sending.sizes) / sending.elements
        since = np.concatenate([[0.0], until])[:-1]
        gathers = sending.kind == "all_gather"
        times = passes if sending.each_pass else 1.0
        if sending.moment in (AFTER_BACKWARD, AFTER_UPDATE):
            exposed = exposed + times * together
        else:
            when = since if gathers else until
            if sending.moment == BACKWARD:
                when = np.interp(when, parts.elements_ready, parts.share_ready)
            along[sending.moment, gathers, sending.each_pass] += zip(when.tolist(), durations, strict=True)
        sent = sent + times * together
    for moment, seconds in ((FORWARD, parts.forward), (BACKWARD, parts.backward)):
        in_pass = size * seconds + nothing
        weights, gradients = along[moment, True, True], along[moment, False, True]
        exposed = exposed + (passes - 1) * _exposed(in_pass, weights, gradients)
        once = along[moment, True, False], along[moment, False, False]
        exposed = exposed + _exposed(in_pass, weights + once[0], gradients + once[1])  # the last pass
    return StepSeconds(computed=computed + nothing, exposed=exposed, sent=sent)


def _exposed(computed: Floats, gathers: Sequence[Call], gradients: Sequence[Call]) -> Floats:
    """How much longer a pass takes by what is sent along with it, until the last has arrived.

    Weights are gathered one layer ahead: when the computing of a layer begins, the next one's are asked for,
    and that layer waits for them. The first of a pass have nothing to hide behind. Gradients are sent when
    they are there, before weights that are asked for at the same moment (as FSDP2 does it: `post_backward` of
    a layer comes before `pre_backward` of the next). While a collective keeps the processor busy, computing
    waits. `computed` are the seconds of the pass if nothing were sent.
    """
    late = np.zeros_like(computed)  # how much later computing is than if nothing were sent
    free = np.zeros_like(computed)  # when the link has carried all that it was asked for
    there, busy_since = free, late  # when the weights needed next arrive, and what is busy after them
    layers = sorted(gathers, key=lambda call: call[0])
    events: list[tuple[float, int, Duration | None]] = [(0.0, _FIRST, weights) for _, weights in layers[:1]]
    events += [(share, _GRADIENTS, duration) for share, duration in gradients]
    for layer, following in itertools.zip_longest(layers, layers[1:]):
        events.append((layer[0], _LAYER, following and following[1]))
    for share, kind, duration in sorted(events, key=lambda event: event[:2]):
        if kind == _LAYER:
            late = np.maximum(late, there + busy_since - share * computed)
        if duration is None:  # the last layer has no next one
            continue
        free = np.maximum(free, share * computed + late) + duration.total
        late = late + duration.busy
        busy_since = busy_since + duration.busy
        if kind != _GRADIENTS:
            there, busy_since = free, np.zeros_like(late)
    return np.maximum(late, free - computed)

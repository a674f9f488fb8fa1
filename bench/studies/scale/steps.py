"""The seconds of a step on many ranks: when collectives have arrived, and what is computed meanwhile.

The link carries one collective after the other, each as soon as it is asked for and the link is free, so that
a pass is over after the longest path through it: sums and maxima, for all draws and world sizes at a time.
"""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.statistics.intervals import Floats
from bench.studies.scale.estimates import Draws
from bench.studies.scale.topology import LinkedNodes
from bench.studies.scale.traffic import AFTER_BACKWARD, AFTER_UPDATE, BACKWARD, FORWARD, Traffic

Call = tuple[float, Floats]  # the share of a pass at which a collective is sent or needed, and its seconds

_FIRST, _GRADIENTS, _LAYER = range(3)
"""The events of a pass, in the order in which simultaneous ones happen: the first weights are asked for,
gradients are sent, a layer begins and the next layer's weights are asked for."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a rank computes in a step; seconds of shape (draws, 1)."""

    forward: Draws  # of one micro-batch
    backward: Draws  # of one micro-batch
    update: Draws  # of all parameters by one rank
    copies: Draws  # of all gradients into what is sent, and back
    grad_accum: int  # micro-batches of a step
    elements_ready: Floats  # shares of all gradients that are ready, rising from 0 to 1
    share_ready: Floats  # the shares of the backward pass at which they are


@dataclass(frozen=True, kw_only=True)
class StepSeconds:
    """What a step takes; seconds of shape (draws, world sizes)."""

    computed: Floats  # forward and backward passes, the update and copies
    exposed: Floats  # that sending makes the step longer

    @property
    def total(self) -> Floats:
        """The whole step."""
        return self.computed + self.exposed


def predict_step(
    parts: Parts, traffic: Sequence[Traffic], network: LinkedNodes, ranks: Floats, *, divides_update: bool
) -> StepSeconds:
    """The seconds of a step at each of these world sizes, shape (world sizes,).

    `traffic` is that of more than one rank; one alone sends nothing. With `divides_update` each rank updates
    its part of the parameters alone.
    """
    passes = parts.grad_accum
    computed = passes * (parts.forward + parts.backward)
    computed = computed + parts.update / np.where(divides_update, ranks, 1.0)
    computed = computed + np.where(ranks > 1, parts.copies, 0.0)
    exposed = nothing = np.zeros_like(computed)
    along: dict[tuple[str, bool, bool], list[Call]] = defaultdict(list)
    for each in traffic:
        known = {  # equal calls are asked for once
            elements: network.seconds(each.kind, elements * each.element_bytes, ranks)
            for elements in dict.fromkeys(each.sizes)
        }
        durations = [known[elements] for elements in each.sizes]
        if each.moment in (AFTER_BACKWARD, AFTER_UPDATE):
            exposed = exposed + (passes if each.each_pass else 1) * sum(durations, nothing)
            continue
        gathers = each.kind == "all_gather"
        until = np.cumsum(each.sizes) / each.elements
        when = np.concatenate([[0.0], until])[:-1] if gathers else until
        if each.moment == BACKWARD:
            when = np.interp(when, parts.elements_ready, parts.share_ready)
        along[each.moment, gathers, each.each_pass] += zip(when.tolist(), durations, strict=True)
    for moment, seconds in ((FORWARD, parts.forward), (BACKWARD, parts.backward)):
        in_pass = seconds + nothing
        weights, gradients = along[moment, True, True], along[moment, False, True]
        exposed = exposed + (passes - 1) * _exposed(in_pass, weights, gradients)
        once = along[moment, True, False], along[moment, False, False]
        exposed = exposed + _exposed(in_pass, weights + once[0], gradients + once[1])  # the last pass
    return StepSeconds(computed=computed, exposed=exposed)


def _exposed(computed: Floats, gathers: Sequence[Call], gradients: Sequence[Call]) -> Floats:
    """How much longer a pass takes because of its collectives, until the last has arrived.

    Weights are gathered one layer ahead: when the computing of a layer begins, the next one's are asked for,
    and that layer waits for them. A pass's first weights have nothing to hide behind. Gradients are sent when
    they are ready, before weights that are asked for at the same moment (as in FSDP2: `post_backward` of
    a layer comes before `pre_backward` of the next). `computed` are the seconds of the pass if nothing were
    sent.
    """
    late = np.zeros_like(computed)  # how much later computing is than if nothing were sent
    free = np.zeros_like(computed)  # when the link has carried all that it was asked for
    there = free  # when the weights needed next arrive
    layers = sorted(gathers, key=lambda call: call[0])
    events: list[tuple[float, int, Floats | None]] = [(0.0, _FIRST, weights) for _, weights in layers[:1]]
    events += [(share, _GRADIENTS, seconds) for share, seconds in gradients]
    for layer, following in itertools.zip_longest(layers, layers[1:]):
        events.append((layer[0], _LAYER, None if following is None else following[1]))
    for share, kind, seconds in sorted(events, key=lambda event: event[:2]):
        if kind == _LAYER:
            late = np.maximum(late, there - share * computed)
        if seconds is None:  # the last layer has no next one
            continue
        free = np.maximum(free, share * computed + late) + seconds
        if kind != _GRADIENTS:
            there = free
    return np.maximum(late, free - computed)

"""What ranks are asked for: the loss on held-out data so far."""

from typing import ClassVar

from bench.launch.messages import Answer, Request


class Evaluated(Answer, frozen=True, kw_only=True):
    """The loss on this rank's part of the held-out data, by the plain model in PyTorch."""

    loss_sum: float  # over all that was predicted; NaN is possible
    predicted: int  # how many tokens that were
    steps: int  # that the rank has trained so far


class Evaluate(Request[Evaluated], frozen=True, tag="evaluate"):
    """Compute the loss on the held-out data, untimed; training goes on unchanged afterwards."""

    answered_by: ClassVar[str] = "bench.studies.converge.ranks"

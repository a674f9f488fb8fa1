"""What a rank does: it computes its part of the held-out loss."""

from weakref import WeakKeyDictionary

from bench.config.choices import WITHOUT_WHOLE_WEIGHTS
from bench.errors import LaunchFailed
from bench.studies.converge.evaluation import Evaluation
from bench.studies.converge.messages import Evaluated
from bench.worker.rank.rank import Rank

_EVALUATIONS: "WeakKeyDictionary[Rank, Evaluation]" = WeakKeyDictionary()


def evaluate(rank: Rank) -> Evaluated:
    """The loss on this rank's part of the held-out data; training is as it was before."""
    sharding, training = rank.spec.sharding, rank.training
    if sharding in WITHOUT_WHOLE_WEIGHTS:
        words = f"sharding={sharding} leaves no rank the whole weights that a held-out loss needs"
        raise LaunchFailed("unsupported", words)
    if rank not in _EVALUATIONS:
        _EVALUATIONS[rank] = Evaluation(rank.spec, training.model, rank=rank.rank, device=training.device)
    loss_sum, predicted = _EVALUATIONS[rank].sum_losses()
    return Evaluated(loss_sum=loss_sum, predicted=predicted, steps=rank.steps_taken)

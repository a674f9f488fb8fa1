"""What a rank does: its part of the held-out loss, by PyTorch whatever the engine is, as for all others."""

from weakref import WeakKeyDictionary

import torch
import torch.distributed

from bench.config.choices import WITHOUT_WHOLE_WEIGHTS
from bench.errors import LaunchFailed
from bench.launch.spec import WorkerSpec
from bench.plugins.python_docs import text as python_docs
from bench.studies.converge.messages import Evaluated
from bench.worker.rank.rank import Rank
from bench.worker.sharding import Batch
from bench.worker.workload import model as models
from bench.worker.workload.feeds import tensors

AT_ONCE = 8  # samples in a forward pass


class Evaluation:
    """Evaluates the trained model on this rank's share of the held-out samples, the same ones each time."""

    def __init__(self, spec: WorkerSpec, model: torch.nn.Module, *, rank: int, device: torch.device) -> None:
        assert spec.seq_len is not None, (
            "its tasks have lengths; bench.measure.plan.preflight_dataset sees to it"
        )
        self._model = model
        self._device = device
        task = spec.model.task
        whole = python_docs.held_out_batch(spec.seq_len, task=task)
        shares = {name: array[rank :: torch.distributed.get_world_size()] for name, array in whole.items()}
        names = models.accepted(model, list(shares))
        self._batches: list[tuple[Batch, int]] = []
        for start in range(0, len(shares["labels"]), AT_ONCE):
            arrays = {name: array[start : start + AT_ONCE].copy() for name, array in shares.items()}
            predicted = python_docs.count_predicted(arrays["labels"], task=task)
            self._batches.append((tensors(arrays, names, pinned=False), predicted))

    def sum_losses(self) -> tuple[float, int]:
        """The losses of all tokens that are predicted, added up, and how many these are."""
        total, count = 0.0, 0
        devices = [self._device] if self._device.type == "cuda" else []
        self._model.eval()
        try:
            with torch.no_grad(), torch.random.fork_rng(devices):
                for batch, predicted in self._batches:
                    there = {name: value.to(self._device) for name, value in batch.items()}
                    # Not `model(…)`, which torch.compile takes over.
                    total += float(self._model.forward(**there).loss) * predicted
                    count += predicted
        finally:
            self._model.train()
        return total, count


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

"""What a rank does for an export: it writes down what it has trained, and has another process export it."""

from pathlib import Path

from safetensors.torch import save_file

from bench.studies.export.child import BATCH, TRAINED, request_export
from bench.studies.export.messages import ModelExported
from bench.worker.rank.torch_rank import TorchRank
from bench.worker.sharding import held


def export(rank: TorchRank, folder: str) -> ModelExported:
    """Export what was trained, by torch's own exporter; rank 0 alone."""
    if rank.rank != 0:
        return ModelExported()
    rank.check_whole_weights("an export")
    # The same for all: the reference has trained on more of them, since it counted FLOPs.
    rank.training.feed.repeat([0])
    (first, *_), *_ = rank.training.steps(1)
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    # DeepSpeed's weights are views of one flat tensor: each is written as one of its own.
    trained = {name: value.detach().cpu().clone() for name, value in held(rank.training.model)}
    save_file(trained, path / TRAINED)
    save_file({name: value.contiguous() for name, value in first.items()}, path / BATCH)
    return request_export(path, rank.spec)

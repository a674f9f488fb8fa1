"""Federated averaging: devices train the same model on data of their own, and their weights are averaged.

`python -m bench.worker.on_device.averaging CHECKPOINT … --graph TRAINING_MODEL --out AVERAGE`, without torch,
as a server of devices may do it. As McMahan et al. 2017 (arXiv:1602.05629, algorithm 1): with `--samples N …`
each device counts by the number of its samples. What the optimizers remember is left out.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.errors import UserError
from bench.worker.on_device.training import import_runtime, naming_missing_kernels


def average(checkpoints: Sequence[Path], graph: Path, out: Path, samples: Sequence[float] = ()) -> None:
    """Write a checkpoint whose weights are the mean of others'; `UserError` if they do not belong together.

    Without the training model, `graph`, ONNX Runtime 1.19.2 writes no weight into a checkpoint.
    """
    runtime = import_runtime()
    states = [runtime.CheckpointState.load_checkpoint(path) for path in checkpoints]
    shares = np.asarray(samples or [1.0] * len(states), dtype=np.float64)
    if not states or len(shares) != len(states) or not (shares > 0).all():
        raise UserError(
            f"{len(states)} checkpoints and {len(shares)} numbers of samples do not belong together",
            "give at least one checkpoint, and for each a positive number, or none at all",
        )
    shares /= shares.sum()
    names = [{name for name, _ in state.parameters} for state in states]
    if any(one != names[0] for one in names):
        raise UserError(
            "these checkpoints have other parameters than the first", "average those of one model"
        )
    mean = states[0]
    with naming_missing_kernels():
        module = runtime.Module(graph, mean)
    for name in sorted(names[0]):
        parts = [
            share * state.parameters[name].data.astype(np.float64)
            for share, state in zip(shares, states, strict=True)
        ]
        mean.parameters[name] = np.sum(parts, axis=0).astype(np.float32)
    runtime.CheckpointState.save_checkpoint(mean, out, include_optimizer_state=False)
    del module  # which the weights have lived in


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.worker.on_device.averaging",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkpoints", nargs="+", type=Path, metavar="CHECKPOINT")
    parser.add_argument("--graph", required=True, type=Path, metavar="TRAINING_MODEL")
    parser.add_argument("--out", required=True, type=Path, metavar="AVERAGE")
    parser.add_argument("--samples", nargs="+", type=float, default=[], metavar="N")
    options = parser.parse_args()
    missing = [str(path) for path in (*options.checkpoints, options.graph) if not path.exists()]
    try:
        if missing:
            raise UserError(f"{', '.join(missing)} is not there", "give what a device has saved")
        average(options.checkpoints, options.graph, options.out, options.samples)
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()

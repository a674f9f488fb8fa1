"""`python -m bench.studies.export.checking FOLDER THREADS REFERENCE NAME…`: run exports in ONNX Runtime.

In a process of its own without torch, as they are deployed. Every model runs on the inputs that lie beside
it; then all take turns, so that their latencies can be compared.

Importing torch is made to fail before ONNX Runtime is imported: the package for training would bring torch
and DeepSpeed along, and with them a process that starts beside what is timed.
"""

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

from bench.studies.export.files import CHECKED, MODEL, OUTPUT, TENSORS, CheckedExport, input_key

WARMUPS, ROUNDS = 3, 20  # inferences of each model that are not timed, and those that are

Array = npt.NDArray[np.float32]


def check(folder: Path, threads: int, reference: str, names: list[str]) -> dict[str, CheckedExport]:
    """What becomes of each model, by the backend that trained it; `folder` has a folder for each.

    On `threads` of ONNX Runtime. All backends are compared with the `reference`, one of their `names`.
    """
    import onnxruntime

    checked: dict[str, CheckedExport] = {}
    outputs: dict[str, Array] = {}
    runs: dict[str, Callable[[], Array]] = {}
    for name in sorted(names, key=lambda one: one != reference):
        try:
            runs[name] = run = prepare(folder / name, threads)
            outputs[name] = output = run()
        except Exception as error:  # whatever ONNX Runtime says of a model; the others are checked
            checked[name] = CheckedExport(
                runtime=onnxruntime.__version__, failure=f"{type(error).__name__}: {error}".splitlines()[0]
            )
            runs.pop(name, None)
            continue
        expected = load_file(folder / name / TENSORS)[OUTPUT]
        checked[name] = CheckedExport(
            runtime=onnxruntime.__version__,
            difference=largest_difference(output, expected),
            from_reference=(
                largest_difference(output, outputs[reference])
                if reference in outputs and have_equal_inputs(folder / name, folder / reference)
                else None
            ),
            scale=float(np.abs(expected).max()),
        )
    latencies = time_in_turns(runs)
    return {
        name: msgspec.structs.replace(export, latencies=latencies.get(name, []))
        for name, export in checked.items()
    }


def prepare(folder: Path, threads: int) -> Callable[[], Array]:
    """A function that runs the model in a folder once on its inputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / MODEL, options, providers=["CPUExecutionProvider"])
    tensors = load_file(folder / TENSORS)
    # An exporter leaves out an input that the model does not use.
    inputs: Mapping[str, Any] = {given.name: tensors[input_key(given.name)] for given in session.get_inputs()}

    def run() -> Array:
        output: Array = session.run(None, inputs)[0]
        return output

    return run


def have_equal_inputs(folder: Path, other: Path) -> bool:
    """Whether two models ran on the same inputs; otherwise their outputs say nothing of each other."""
    ours, theirs = load_file(folder / TENSORS), load_file(other / TENSORS)
    names = (ours.keys() | theirs.keys()) - {OUTPUT}
    return all(name in ours and name in theirs and np.array_equal(ours[name], theirs[name]) for name in names)


def largest_difference(output: Array, expected: Array) -> float:
    """The largest absolute difference; infinite if the shapes differ or one is not finite."""
    if output.shape != expected.shape:
        return float("inf")
    largest = float(np.abs(output.astype(np.float64) - expected.astype(np.float64)).max())
    return largest if np.isfinite(largest) else float("inf")


def time_in_turns(runs: Mapping[str, Callable[[], Array]]) -> dict[str, list[float]]:
    """Seconds of single inferences, one of each model in every round."""
    for run in runs.values():
        for _ in range(WARMUPS):
            run()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(ROUNDS):
        order = [*runs][:: 1 if number % 2 else -1]
        for name in order:
            begun = time.perf_counter()
            runs[name]()
            seconds[name].append(time.perf_counter() - begun)
    return seconds


def main() -> None:
    """Write what was checked beside the models."""
    sys.modules["torch"] = None  # type: ignore[assignment]  # to ONNX Runtime a package without ORTModule
    folder, threads, reference, *names = sys.argv[1:]
    checked = check(Path(folder), int(threads), reference, names)
    (Path(folder) / CHECKED).write_bytes(msgspec.json.encode(checked))


if __name__ == "__main__":
    main()

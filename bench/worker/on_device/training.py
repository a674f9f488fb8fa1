"""A rank's training as on a device: artifacts are loaded and stepped by ONNX Runtime's API, without torch."""

import os
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

from bench.errors import LaunchFailed
from bench.launch.spec import WorkerSpec
from bench.machine.telemetry.host_memory import runtime_bytes
from bench.worker.on_device import files
from bench.worker.on_device.files import CHECKPOINT, DeviceFiles
from bench.worker.rank.any_training import TORCH_PEAKS, AnyTraining, size_of
from bench.worker.state.tensor_differences import compare, norm

NOT_HERE = ("torch", "transformers")  # what a device does not have

NOT_IMPLEMENTED = "NOT_IMPLEMENTED : "
"""Before the reason in ONNX Runtime's message about an operator without a kernel."""

Inputs = list[Any]  # ONNX Runtime's values of a micro-batch, in the order of the training model's inputs


class DeviceTraining(AnyTraining):
    """The artifacts that `bench.worker.on_device.prepare` has made in `folder`, loaded and ready to step."""

    def __init__(self, spec: WorkerSpec, folder: Path, prepared: DeviceFiles) -> None:
        self.spec = spec
        self.absent = dict.fromkeys(TORCH_PEAKS, "torch's caching allocator is not in this process")
        self._folder, self._scratch = folder, folder.parent
        self._prepared = prepared
        self._api = import_runtime()
        self.imported_at = time.perf_counter()
        runtime = runtime_bytes()
        self._open(folder / CHECKPOINT)
        self.facts = {
            **prepared.facts,
            "loaded_bytes": sum((folder / name).stat().st_size for name in files.ARTIFACTS),
            "weights": "",  # the reference's row says it
            **runtime,
            "library": "onnxruntime on a device",  # as ORTModule's, but no product is timed alone
        }
        self.feed = self.engine = self
        self._batches = self._read_batches()
        self._next: Iterator[Inputs] = cycle(self._batches)
        self.watches_gradient = False
        self.gradient_kind: str | None = None  # of the next step's gradients, if they are compared
        self.gradient_norm = 0.0
        self.differences: dict[str, float] = {}

    def _open(self, checkpoint: Path) -> None:
        """Load the graphs, with the state of a checkpoint."""
        runtime = self._api
        options = runtime.SessionOptions()
        if self.spec.holds_threads:
            options.intra_op_num_threads = self.spec.threads
            options.inter_op_num_threads = 1
        options.log_severity_level = 3  # its warnings are about initializers that its own artifacts leave
        self._state = runtime.CheckpointState.load_checkpoint(checkpoint)
        with naming_missing_kernels():
            self._module = runtime.Module(self._folder / files.TRAINING, self._state, session_options=options)
        self._optimizer = runtime.Optimizer(self._folder / files.OPTIMIZER, self._module)
        self._optimizer.set_learning_rate(self.spec.adam.lr)

    def _read_batches(self) -> list[Inputs]:
        arrays = load_file(self._folder / files.BATCHES)
        self.first_batch = {name: arrays[files.batch_key(0, name)] for name in self._prepared.inputs}
        value = self._api.OrtValue.ortvalue_from_numpy
        return [
            [value(arrays[files.batch_key(number, name)]) for name in self._module.input_names()]
            for number in range(self._prepared.batches)
        ]

    # The feed

    def steps(self, count: int) -> list[list[Inputs]]:
        """The micro-batches of the next `count` steps; all of them lie ready."""
        return [list(islice(self._next, self.spec.passes)) for _ in range(count)]

    def make(self, numbers: Sequence[int]) -> list[list[Inputs]]:
        """The comparison's micro-batches of these numbers, each in its parts."""
        parts = self.spec.accumulate
        places = (number * parts % len(self._batches) for number in numbers)
        return [self._batches[place : place + parts] for place in places]

    def repeat(self, numbers: Sequence[int]) -> None:
        """From now on cycle through these micro-batches only."""
        self._next = cycle([*chain(*self.make(numbers))])

    def waited(self) -> None:
        """Nobody waits for what is there."""

    def size_of(self, micro_batch: Inputs) -> tuple[int, int | None]:
        """Its samples and tokens."""
        shapes = [value.shape() for value in micro_batch]
        return size_of(dict(zip(self._module.input_names(), shapes, strict=True)))

    # A step

    def step(self, micro_batches: Sequence[Inputs]) -> float:
        """One optimizer step; the mean loss of its micro-batches, each of which the graph has divided."""
        loss = 0.0
        for inputs in micro_batches:
            loss += float(self._module(*inputs).numpy())
        if self.watches_gradient:
            gradients = dict(self._gradients())
            self.gradient_norm = norm(np.array([norm(gradient) for gradient in gradients.values()]))
            if self.gradient_kind is not None:
                self.compare(self.gradient_kind, gradients)
        self._optimizer.step()
        self._module.lazy_reset_grad()
        return loss

    def compute_loss(self, parts: Sequence[Inputs]) -> float:
        """Their mean loss, which the graph has divided by the parts of a step; gradients are dropped."""
        loss = sum(float(self._module(*inputs).numpy()) for inputs in parts)
        self._module.lazy_reset_grad()
        return loss * self.spec.grad_accum / len(parts)

    def compare(self, kind: str, arrays: Mapping[str, npt.NDArray[np.float32]]) -> None:
        """Add to `differences` how far tensors of a kind are from the expected ones."""
        named = ((name, one.astype(np.float64)) for name, one in arrays.items())
        self.differences |= compare(self.spec.expected_tensors, kind, named)

    def _gradients(self) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
        """The trained parameters' own, by their names in the model."""
        for name, parameter in self._state.parameters:
            if name in self._prepared.names and parameter.grad is not None:
                yield self._prepared.names[name], parameter.grad

    def room_for_losses(self, steps: int) -> npt.NDArray[np.float64]:
        """Where the losses of `steps` steps go, shape (steps,)."""
        return np.zeros(steps)

    def proof(self) -> dict[str, Any]:
        """What really ran, after the first step."""
        there = [name for name in NOT_HERE if sys.modules.get(name) is not None]
        if there:
            raise LaunchFailed("invalid", f"{', '.join(there)} is in the process that trains as on a device")
        adam, optimizer = self.spec.adam, self._prepared.optimizer
        wanted = {
            "alpha": adam.beta1,
            "beta": adam.beta2,
            "epsilon": adam.eps,
            "weight_decay": adam.weight_decay,
            "adam_mode": 0,  # torch's AdamW; 1 is Hugging Face's
            "correct_bias": 1,
        }
        for key, value in wanted.items():
            if not np.isclose(optimizer.get(key, np.nan), value, rtol=1e-6, atol=0.0):
                raise LaunchFailed("invalid", f"the optimizer runs with {key}={optimizer.get(key)}")
        rate = self._optimizer.get_learning_rate()
        if not np.isclose(rate, adam.lr, rtol=1e-6, atol=0.0):
            raise LaunchFailed("invalid", f"the optimizer runs with lr={rate}")
        return {
            "engine": {"class": "onnxruntime.training.api.Module", "version": self._api.version},
            "optimizer": {
                "class": "onnxruntime.training.api.Optimizer",
                "groups": [{"lr": rate, **optimizer}],
            },
            "not_imported": list(NOT_HERE),
            "threads": self.spec.threads if self.spec.holds_threads else None,
        }

    def weights_bytes(self) -> int:
        """Bytes of weights that the runtime holds."""
        return in_a_child(lambda: sum(parameter.data.nbytes for _, parameter in self._state.parameters))

    def optimizer_state_bytes(self) -> int:
        """Bytes that a checkpoint with the optimizer's state has more than one without."""
        return in_a_child(self._measure_optimizer_state)

    def _measure_optimizer_state(self) -> int:
        sizes = []
        with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            for with_state in (False, True):
                path = Path(folder) / "checkpoint"
                self._api.CheckpointState.save_checkpoint(
                    self._state, path, include_optimizer_state=with_state
                )
                sizes.append(path.stat().st_size)
        return sizes[1] - sizes[0]

    def trained_weights(self) -> dict[str, npt.NDArray[np.float32]]:
        """The trained parameters' own, by their names in the model."""
        return {
            self._prepared.names[name]: parameter.data
            for name, parameter in self._state.parameters
            if name in self._prepared.names
        }

    def save_state(self, folder: Path) -> None:
        """Write weights and optimizer's state, as a device does."""
        self._api.CheckpointState.save_checkpoint(
            self._state, folder / CHECKPOINT, include_optimizer_state=True
        )

    def load_state(self, folder: Path) -> None:
        """Begin anew with the same graphs, and the weights and optimizer's state that were saved."""
        self._open(folder / CHECKPOINT)

    def status_of(self, error: Exception) -> str | None:  # noqa: ARG002 - what cannot run is found beforehand
        """Nothing that ONNX Runtime raises here says that it cannot run this model."""
        return None


def in_a_child(compute: Callable[[], int]) -> int:
    """A number that a copy of this process computes.

    What is read from ONNX Runtime is copied, a checkpoint several times over, and the heap would keep that
    room: it would be a part of every later peak. An `OSError` says why it could not, such as for a full disk.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            os.write(writing, str(compute()).encode())
        except BaseException as error:  # whatever it is, this copy must not go on as a rank
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    if not answer.isdigit():
        raise OSError(answer or "a copy of the process ended without a word")
    return int(answer)


@contextmanager
def naming_missing_kernels() -> Iterator[None]:
    """An operator that ONNX Runtime can write into a gradient and not compute is the model's, and named."""
    try:
        yield
    except RuntimeError as error:
        _, missing, reason = str(error).partition(NOT_IMPLEMENTED)
        if not missing:
            raise
        raise LaunchFailed(
            "unsupported",
            f"ONNX Runtime cannot train this model as on a device: {reason.strip()}",
            str(error),
        ) from error


def import_runtime() -> types.SimpleNamespace:
    """ONNX Runtime's training API, without what the package around it imports.

    `onnxruntime.training` of the wheel for Python imports torch for its other half. A package for a device
    has only the API, so that here, too, it is imported alone, and torch cannot be.
    """
    for name in NOT_HERE:
        if sys.modules.get(name) is not None:
            raise LaunchFailed("invalid", f"{name} was imported before training as on a device")
        sys.modules[name] = None  # type: ignore[assignment] # so that importing it fails
    import onnxruntime

    package = types.ModuleType("onnxruntime.training")
    package.__path__ = [str(Path(onnxruntime.__file__).parent / "training")]
    sys.modules[package.__name__] = package
    from onnxruntime.training.api import CheckpointState, Module, Optimizer

    return types.SimpleNamespace(
        CheckpointState=CheckpointState,
        Module=Module,
        Optimizer=Optimizer,
        OrtValue=onnxruntime.OrtValue,
        SessionOptions=onnxruntime.SessionOptions,
        version=onnxruntime.__version__,
    )

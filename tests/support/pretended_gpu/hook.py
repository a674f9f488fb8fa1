"""Changes modules as soon as they have been imported, and imports none by itself."""

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType

from tests.support.pretended_gpu import COUNT
from tests.support.pretended_gpu.nvml import PretendedNvml

PATCHES = {
    "torch": "cuda",
    "bench.studies.limit.products": "cuda",
    "bench.studies.explain.stage": "coordinator",
    "onnxruntime": "ort",
    "onnxruntime.training.ortmodule._utils": "ort",
    "onnxruntime.training.ortmodule.torch_cpp_extensions": "ort",
    "onnxruntime.training.ortmodule._training_manager": "ort",
}
"""The module beside this one that changes it, by its `patches`."""


class Hook(importlib.abc.MetaPathFinder):
    """Finds what others find, and lets it be changed after it has run."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in PATCHES:
            return None
        finders = [each for each in sys.meta_path if each is not self]
        specs = (each.find_spec(name, path, target) for each in finders)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            self._change_afterwards(name, spec.loader)
        return spec

    def _change_afterwards(self, name: str, loader: importlib.abc.Loader) -> None:
        run: Callable[[ModuleType], None] = loader.exec_module

        def run_and_change(module: ModuleType) -> None:
            run(module)
            if sys.modules.get("torch", True) is None:
                return  # where importing torch is made to fail, ONNX Runtime only runs exports, on the CPU
            changes = import_module(f"tests.support.pretended_gpu.{PATCHES[name]}")
            changes.PATCHES[name](module)

        loader.exec_module = run_and_change  # type: ignore[method-assign]


def pretend_cores(count: int) -> None:
    """A machine with so many GPUs has a core for each of them at least."""
    if len(os.sched_getaffinity(0)) < count:
        os.sched_getaffinity = lambda _: set(range(count))
        os.sched_setaffinity = lambda _, cores: None


def install() -> None:
    """Put NVML in its place, and wait for the others to be imported."""
    pretend_cores(int(os.environ[COUNT]))
    nvml = PretendedNvml()
    nvml.__spec__ = importlib.machinery.ModuleSpec("pynvml", None)
    sys.modules["pynvml"] = nvml
    sys.meta_path.insert(0, Hook())

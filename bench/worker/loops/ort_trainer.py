"""Optimum's ORTTrainer, transformers' Trainer around ONNX Runtime's ORTModule; checked against 1.25.3."""

import sys
from collections.abc import Mapping
from importlib.metadata import version
from types import ModuleType
from typing import Any

import torch
from onnxruntime.training.ortmodule import ORTModule
from optimum.onnxruntime import ORTTrainer, ORTTrainingArguments

from bench.worker.loops import trainer


class OrtKeepsLosses(trainer.KeepsLosses, ORTTrainer):
    """ORTTrainer's loop, with the batches and losses of `trainer.KeepsLosses`."""


class Loop(trainer.Loop):
    """Trainer's loop around ONNX Runtime."""

    version = f"optimum {version('optimum')}"

    def make_trainer(
        self, module: torch.nn.Module, arguments: Mapping[str, Any], **others: Any
    ) -> trainer.KeepsLosses:
        """ORTTrainer, which wraps the model by itself: it gets the one that the engine has wrapped.

        On a CPU, too, all ranks but a machine's first would ask for CUDA; so all call themselves the first.
        """
        stand_in_for_torch_ort(module)
        made = ORTTrainingArguments(**arguments)
        if self.device.type == "cpu":
            made.local_rank = 0
        return OrtKeepsLosses(module.module, made, **others)


def stand_in_for_torch_ort(module: torch.nn.Module) -> None:
    """Let `from torch_ort import ORTModule`, all that ORTTrainer uses of that package, make this module."""

    class Ready(ORTModule):
        def __new__(cls, *_: object) -> Any:
            return module

    torch_ort = ModuleType("torch_ort")
    torch_ort.ORTModule = Ready  # type: ignore[attr-defined]
    sys.modules["torch_ort"] = torch_ort

"""transformers' Trainer: its own `train`, which runs in a thread and waits for batches between the steps."""

import queue
import tempfile
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import transformers
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, IterableDataset
from transformers import Trainer, TrainerCallback, TrainingArguments

from bench.launch.spec import WorkerSpec
from bench.worker.loops._watched import WatchedLoop
from bench.worker.sharding import Batch, mean_of

ENDLESS = 10**9
"""Optimizer steps of a training that nobody lets come to its end."""


NOTHING_CLIPPED = 1e9
"""A gradient's norm that none has. By default Trainer computes the norm at every step and clips at 1;
ORTTrainer of optimum 1.25.3 crashes where it is told not to (`grad_norm` is unbound)."""


class Handed(IterableDataset[Batch]):
    """The micro-batches of the steps that were asked for; it waits for more."""

    def __init__(self) -> None:
        self.batches: queue.SimpleQueue[Batch] = queue.SimpleQueue()

    def __iter__(self) -> Iterator[Batch]:
        while True:
            yield self.batches.get()


class Steps(TrainerCallback):
    """Says when a step has ended."""

    def __init__(self, ended: "queue.SimpleQueue[BaseException | None]") -> None:
        self.ended = ended

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """The weights are updated."""
        self.ended.put(None)


class KeepsLosses(Trainer):
    """Keeps the losses of the micro-batches, and takes batches as they are handed over."""

    losses: list[torch.Tensor]
    loss_function = ""

    def get_train_dataloader(self) -> DataLoader[Batch]:
        """Every rank has its own batches, ready made, so that nothing has to be divided or collated."""
        assert self.train_dataset is not None
        return DataLoader(self.train_dataset, batch_size=None)

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        """Trainer's own; which engine computed the loss is kept for the proof."""
        computed = super().compute_loss(*args, **kwargs)
        loss = computed[0] if isinstance(computed, tuple) else computed
        self.loss_function = type(loss.grad_fn).__name__
        self.losses.append(loss.detach())
        return computed


class Loop(WatchedLoop):
    """The optimizer is the backend's, the learning rate constant, nothing clipped, as in the bare loop.

    What else Trainer does by default it does here, too: it looks for losses that are not finite, computes the
    gradient's norm, counts FLOPs, calls its callbacks, steps a schedule.
    """

    version = f"transformers {transformers.__version__}"

    def __init__(self, module: torch.nn.Module, spec: WorkerSpec, device: torch.device) -> None:
        super().__init__(module, spec)
        self.threads = torch.get_num_threads()
        self.folder = tempfile.TemporaryDirectory()
        self.handed = Handed()
        self.ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        arguments = {
            "output_dir": self.folder.name,
            "use_cpu": device.type == "cpu",
            "per_device_train_batch_size": spec.micro_batch,
            "gradient_accumulation_steps": spec.grad_accum,
            "max_steps": ENDLESS,
            "max_grad_norm": NOTHING_CLIPPED,
            "save_strategy": "no",
            "report_to": [],
            "disable_tqdm": True,
            "remove_unused_columns": False,
            "ddp_broadcast_buffers": False,
            "ddp_find_unused_parameters": False,
        }
        self.trainer = self.make_trainer(
            module,
            arguments,
            train_dataset=self.handed,
            optimizers=(self.optimizer, LambdaLR(self.optimizer, lambda _: 1.0)),
            callbacks=[Steps(self.ended)],
        )
        self.trainer.losses = []
        self._thread = threading.Thread(target=self._train, name="trainer", daemon=True)

    def make_trainer(
        self, module: torch.nn.Module, arguments: Mapping[str, Any], **others: Any
    ) -> KeepsLosses:
        """The trainer; loops that derive from this one make their own."""
        return KeepsLosses(module, TrainingArguments(**arguments), **others)

    def _train(self) -> None:
        torch.set_num_threads(self.threads)  # OpenMP keeps their number for each thread
        try:
            self.trainer.train()
        except BaseException as error:  # handed to whoever waits for the step
            self.ended.put(error)

    def step(self, micro_batches: list[Batch]) -> torch.Tensor:
        """Hand over the micro-batches of a step and wait until Trainer has taken it."""
        self.trainer.losses.clear()
        for batch in micro_batches:
            self.handed.batches.put(batch)
        if self._thread.ident is None:
            self._thread.start()
        failure = self.ended.get()
        if failure is not None:
            raise failure
        self.loss_function = self.trainer.loss_function
        return mean_of(self.trainer.losses)

    def proof(self) -> dict[str, Any]:
        """The classes of the loop and of the module that it calls."""
        return self.prove(self.trainer, self.version, self.trainer.model_wrapped)

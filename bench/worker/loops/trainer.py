"""transformers' Trainer: its own `train`, which runs in a thread and waits for batches between the steps."""

import queue
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
import transformers
from torch.utils.data import DataLoader, IterableDataset
from transformers import Trainer, TrainerCallback, TrainingArguments

from bench.config.choices import DEEPSPEED
from bench.launch.spec import WorkerSpec
from bench.worker import load_choice
from bench.worker.loops import WatchedLoop
from bench.worker.sharding import Batch, mean_of

ENDLESS = 10**9  # optimizer steps of a training that is always ended from outside

NOTHING_CLIPPED = 1e9
"""A norm that no gradient reaches. By default Trainer computes the norm at every step and clips at 1;
ORTTrainer of optimum 1.25.3 crashes if clipping is switched off (`grad_norm` is unbound)."""


class Handed(IterableDataset[Batch]):
    """The micro-batches of the steps that were asked for; it waits for more."""

    def __init__(self) -> None:
        self.batches: queue.SimpleQueue[Batch] = queue.SimpleQueue()

    def __iter__(self) -> Iterator[Batch]:
        while True:
            yield self.batches.get()


class Steps(TrainerCallback):
    """Says when everything is wrapped, and when a step has ended."""

    def __init__(self, ended: "queue.SimpleQueue[BaseException | None]") -> None:
        self.ended = ended

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """The model is wrapped and no batch is taken yet, or the weights are updated."""
        self.ended.put(None)

    on_step_end = on_train_begin


class KeepsLosses(Trainer):
    """Keeps the losses of the micro-batches, and takes batches as they are handed over."""

    losses: list[torch.Tensor]
    loss_function = ""
    optimizer_of_backend: torch.optim.Optimizer

    def create_optimizer(self, *_: Any) -> torch.optim.Optimizer:
        """The backend's; under DeepSpeed Trainer takes none that is handed to it."""
        self.optimizer = self.optimizer_of_backend
        return self.optimizer

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

    What else Trainer does by default it does here, too: it checks that losses are finite, computes the
    gradient's norm, counts FLOPs, calls its callbacks, steps a schedule, makes and calls DeepSpeed's engine.
    """

    version = f"transformers {transformers.__version__}"

    def __init__(self, module: torch.nn.Module, spec: WorkerSpec, device: torch.device) -> None:
        super().__init__(module, spec)
        self.spec = spec
        self.device = device
        self.threads = torch.get_num_threads()
        self.folder = tempfile.TemporaryDirectory()
        self.handed = Handed()
        self.ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self.zero: Any = None
        if spec.sharding in DEEPSPEED:
            self.zero = load_choice("sharding", spec.sharding).Sharding(
                module, spec, device, self._start_deepspeed
            )
            self.zero.clips_at = NOTHING_CLIPPED
            self.optimizer = self.zero.optimizer
            self._watch_engine()
        else:
            self._start(module, self.optimizer, use_cpu=device.type == "cpu")

    def _start(self, module: torch.nn.Module, optimizer: torch.optim.Optimizer, **more: Any) -> None:
        arguments = {
            "output_dir": self.folder.name,
            "per_device_train_batch_size": self.spec.samples_per_pass,
            "gradient_accumulation_steps": self.spec.passes,
            "max_steps": ENDLESS,
            "lr_scheduler_type": "constant",
            "max_grad_norm": NOTHING_CLIPPED,
            "save_strategy": "no",
            "report_to": [],
            "disable_tqdm": True,
            "remove_unused_columns": False,
            "ddp_broadcast_buffers": False,
            "ddp_find_unused_parameters": bool(self.spec.without_gradient),
            **more,
        }
        self.trainer = self.make_trainer(
            module, arguments, train_dataset=self.handed, callbacks=[Steps(self.ended)]
        )
        self.trainer.losses = []
        self.trainer.optimizer_of_backend = optimizer
        threading.Thread(target=self._train, name="trainer", daemon=True).start()
        self._wait()

    def _start_deepspeed(
        self, *, model: torch.nn.Module, optimizer: torch.optim.Optimizer, config: dict[str, Any]
    ) -> tuple[Any, Any]:
        """DeepSpeed's engine and its ZeRO optimizer, made by Trainer; Accelerate makes none with `use_cpu`.

        Without it Accelerate knows of this process alone on a CPU; DeepSpeed has all ranks nevertheless.
        """
        self._start(model, optimizer, deepspeed=config | {"gradient_clipping": NOTHING_CLIPPED})
        engine = self.trainer.model_wrapped
        return engine, engine.optimizer

    def _watch_engine(self) -> None:
        """Record the gradients around the engine's step, which Trainer takes with the last micro-batch."""
        take_step = self.zero.engine.step

        def step(*args: Any, **kwargs: Any) -> None:
            if self.gradient_reader is not None:
                self.gradient_reader(self.zero.gradients())
            take_step(*args, **kwargs)
            if self.watches_gradient:
                self.gradient_norm = float(self.zero.engine.get_global_grad_norm())

        self.zero.engine.step = step

    def make_trainer(
        self, module: torch.nn.Module, arguments: Mapping[str, Any], **others: Any
    ) -> KeepsLosses:
        """The trainer; loops that derive from this one make their own."""
        return KeepsLosses(module, TrainingArguments(**arguments), **others)

    def _train(self) -> None:
        torch.set_num_threads(self.threads)  # OpenMP keeps their number for each thread
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)  # CUDA does so, too
        try:
            self.trainer.train()
        except BaseException as error:  # handed to the thread that waits for the step
            self.ended.put(error)

    def step(self, micro_batches: list[Batch]) -> torch.Tensor:
        """Hand over the micro-batches of a step and wait until Trainer has taken it."""
        self.trainer.losses.clear()
        for batch in micro_batches:
            self.handed.batches.put(batch)
        self._wait()
        self.loss_function = self.trainer.loss_function
        return mean_of(self.trainer.losses)

    def _wait(self) -> None:
        failure = self.ended.get()
        if failure is not None:
            raise failure

    def updated(self) -> Iterable[torch.Tensor]:
        """What the optimizer updates; ZeRO's stages know where theirs is."""
        return super().updated() if self.zero is None else self.zero.updated()

    def weights(self) -> Iterable[tuple[str, torch.Tensor]]:
        """The trained ones, whole."""
        return super().weights() if self.zero is None else self.zero.weights()

    def proof(self) -> dict[str, Any]:
        """The classes of the loop and of the module that it calls."""
        proof = self.prove(self.trainer, self.version, self.trainer.model_wrapped)
        return proof if self.zero is None else self.zero.proof() | proof

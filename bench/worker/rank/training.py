"""One rank's training: builds model, engine, optimizer and sharding from a spec, and takes steps."""

import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed
from safetensors.torch import load_file, save_file

from bench.config.choices import WITHOUT_WHOLE_WEIGHTS
from bench.errors import LaunchFailed
from bench.launch.spec import WorkerSpec
from bench.machine.telemetry.host_memory import runtime_bytes
from bench.worker import engines, load_choice, optimizers, sharding
from bench.worker.rank import mkl_path
from bench.worker.sharding import Batch
from bench.worker.state import initial_state
from bench.worker.workload import feeds, precision
from bench.worker.workload import model as models

TORCH_PEAKS = ("torch_peak_allocated_bytes", "torch_peak_reserved_bytes")

MOST_SKIPPED = 64
"""Steps in a row whose gradient may overflow, each halving the loss's scale: after that, none would help."""


class Training:
    """A model under one engine, optimizer and sharding, ready to step on the device of `device_of`."""

    def __init__(self, spec: WorkerSpec, *, rank: int, device: torch.device) -> None:
        self.spec = spec
        self.rank = rank
        self.device = device
        self._on_cuda = device.type == "cuda"
        optimizers.check_sharding(spec.optimizer, spec.sharding)
        torch.manual_seed(spec.seed + rank)  # dropout only: weights and batches come from elsewhere
        # Imported now, so that ONNX Runtime's and DeepSpeed's libraries are counted as libraries.
        self.engine = engines.make(spec.engine, spec.engine_options)
        if spec.profiled_groups:
            self.engine.enable_own_profile()
        sharded_by = load_choice("sharding", spec.sharding)
        self.imported_at = time.perf_counter()
        runtime = runtime_bytes()
        model = models.build(
            spec.model,
            attention=spec.attention,
            dropout=spec.dropout,
            checkpointing=spec.checkpointing,
            pretrained=spec.saves_initial_state,
        )
        if spec.saves_initial_state:
            initial_state.save(model, spec, rank)
        initial_state.load(model, spec, rank, self.device)
        self.model = model  # under its own names, whatever wraps it
        self.feed = feeds.make(
            spec, model, rank=rank, world_size=torch.distributed.get_world_size(), pinned=self._on_cuda
        )
        unused = spec.without_gradient
        without = f"without a gradient: {unused[0]} (of {len(unused)})" if unused else ""
        self.facts = {
            **models.facts_of(model, spec.attention),
            "weights": "; ".join(filter(None, [initial_state.read_note(spec), without])),
            **runtime,
            "padding_share": self.feed.padding_share,
            "library": self.engine.library,
        }
        if sharded_by.Sharding.autocasts:
            precision.autocast(model, spec.precision.name, self.device.type)
        module = self.engine.wrap(
            model.to(self.device),
            threads=spec.threads if spec.pins_cores else None,
            checkpointing=spec.checkpointing,
        )
        makes_steps = sharded_by.Sharding if spec.loop == "bare" else load_choice("loops", spec.loop).Loop
        self.sharding: sharding.Sharding = makes_steps(module, spec, self.device)
        self.named_buffers = module.named_buffers
        self._weights = module.parameters
        self._skipped_before = 0
        why = "torch's caching allocator, which counts peaks, serves CUDA devices only"
        self.absent = {} if self._on_cuda else dict.fromkeys(TORCH_PEAKS, why)

    def steps(self, count: int) -> Iterable[list[Batch]]:
        """The micro-batches of the next `count` steps; a loader's are made while they are taken."""
        return self.feed.steps(count)

    def step(self, micro_batches: list[Batch]) -> torch.Tensor:
        """One optimizer step, the copy to the device included; the loss stays a tensor on the device."""
        if not self.spec.slowed_by:
            return self.sharding.step(self.on_device(micro_batches))
        # Longer by this share; the core stays as busy as under a slow engine.
        start = time.perf_counter()
        loss = self.sharding.step(self.on_device(micro_batches))
        self.synchronize()
        end = time.perf_counter()
        while time.perf_counter() < end + self.spec.slowed_by * (end - start):
            pass
        return loss

    def compute_loss(self, parts: list[Batch]) -> float:
        """The mean loss of a micro-batch's parts as in training; nothing is updated, no buffer either."""
        before = [(buffer, buffer.clone()) for _, buffer in self.named_buffers()]
        loss = sharding.mean_of([*map(self.sharding.compute_loss, self.on_device(parts))])
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)
        return float(loss)

    def use_without_dropout(self, weights: Path, *, saves: bool) -> None:
        """Switch off every dropout and take these weights; a graph that was exported is not exported anew."""
        if saves:
            whole = {name: one.cpu().clone() for name, one in self.sharding.weights()}
            if self.rank == 0:
                save_file(whole, weights)
        elif self.spec.sharding in WITHOUT_WHOLE_WEIGHTS:
            raise LaunchFailed("unsupported", f"sharding={self.spec.sharding} takes no whole weights")
        else:
            sharding.fill(self.model, load_file(weights))
        self.engine.switch_off_dropout(self.model)

    def random_states(self) -> Any:
        """The states of the generators of torch, numpy and Python."""
        on_device = torch.cuda.get_rng_state(self.device).tolist() if self._on_cuda else None
        return torch.get_rng_state().tolist(), on_device, str(np.random.get_state()), random.getstate()

    def step_until_applied(self, micro_batches: list[Batch]) -> torch.Tensor:
        """A step that changes the weights: in fp16 taken until no gradient overflows, or else `diverged`."""
        for _ in range(MOST_SKIPPED):
            before = self.sharding.skipped_steps()
            loss = self.step(micro_batches)
            if self.sharding.skipped_steps() == before:
                return loss
        raise LaunchFailed(
            "diverged",
            f"the gradient overflows in fp16 even with the loss times {self.sharding.loss_scale()}",
        )

    def on_device(self, micro_batches: list[Batch]) -> list[Batch]:
        """A step's micro-batches where they are computed with; the copy has begun."""
        if not self._on_cuda:
            return micro_batches
        return [
            {name: value.to(self.device, non_blocking=True) for name, value in batch.items()}
            for batch in micro_batches
        ]

    def room_for_losses(self, steps: int) -> torch.Tensor:
        """Where losses go, shape (steps,), on the device: separate tensors would make the heap grow."""
        return torch.zeros(steps, device=self.device)

    def synchronize(self) -> None:
        """Wait until the device has done everything it was given."""
        if self._on_cuda:
            torch.cuda.synchronize(self.device)

    def barrier(self) -> None:
        """Wait until every rank is here."""
        torch.distributed.barrier(device_ids=[self.device.index] if self._on_cuda else None)

    def loss_scaling(self) -> dict[str, Any]:
        """The loss's scale, and how many steps were skipped since this was asked before; None but in fp16."""
        skipped = self.sharding.skipped_steps()
        since = None if skipped is None else skipped - self._skipped_before
        self._skipped_before = skipped or 0
        return {"loss_scale": self.sharding.loss_scale(), "skipped_steps": since}

    def reset_peaks(self) -> None:
        """Start torch's peak counters anew."""
        if self._on_cuda:
            torch.cuda.reset_peak_memory_stats(self.device)

    def allocator_retries(self) -> int | None:
        """How often torch's allocator freed all it kept, and tried again; None on a CPU."""
        return int(torch.cuda.memory_stats(self.device)["num_alloc_retries"]) if self._on_cuda else None

    def free_cached(self) -> None:
        """Release what torch's caching allocator keeps unused, which would be a part of later peaks."""
        if self._on_cuda:
            torch.cuda.empty_cache()

    def torch_peaks(self) -> tuple[int | None, int | None]:
        """Peak allocated and reserved bytes of torch's caching allocator; None on a CPU, which has none."""
        if not self._on_cuda:
            return None, None
        return (torch.cuda.max_memory_allocated(self.device), torch.cuda.max_memory_reserved(self.device))

    def proof(self) -> dict[str, Any]:
        """What really ran, after the first step."""
        proof = {
            "engine": self.engine.proof(self.sharding.loss_function),
            "optimizer": optimizers.proof(
                self.sharding.optimizer,
                name=self.spec.optimizer,
                adam=self.spec.adam,
                updated=self.sharding.updated(),
            ),
            "sharding": self.sharding.proof(),
            "precision": precision.proof(
                self.spec.precision.name, self.sharding.updated(), autocasts=self.sharding.autocasts
            ),
            "threads": torch.get_num_threads(),
        }
        return proof if self._on_cuda else proof | {"blas": mkl_path.proof(self.spec.blas)}

    def weights_bytes(self) -> int:
        """Bytes of weights on this rank: the model's, and what the optimizer updates if that is a copy."""
        # ZeRO-3 keeps its part in ds_tensor
        weights = [getattr(weight, "ds_tensor", weight) for weight in self._weights()]
        return optimizers.storage_bytes([*weights, *self.sharding.updated()])

    def optimizer_state_bytes(self) -> int:
        """Bytes of optimizer state on this rank."""
        return optimizers.state_bytes(self.sharding.optimizer)


def device_of(spec: WorkerSpec, local_rank: int) -> torch.device:
    """This process' device, chosen and checked before any process group is made."""
    torch.set_num_threads(spec.threads)
    torch.set_num_interop_threads(1)
    if spec.device == "cpu":
        return torch.device("cpu")
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    wanted = spec.device_uuids[local_rank]
    uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
    if uuid != wanted:  # as where MIG divides it: CUDA shows a slice
        raise LaunchFailed("invalid", f"{device} is {uuid}, and memory and energy are read of {wanted}")
    precision.check_capability(
        spec.precision.name, torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device)
    )
    # By default ONNX Runtime uses TF32 and torch does not: the launcher's NVIDIA_TF32_OVERRIDE=0
    # holds both to fp32; for tf32 both get it.
    torch.backends.cuda.matmul.allow_tf32 = spec.precision.name == "tf32"
    torch.backends.cudnn.allow_tf32 = spec.precision.name == "tf32"
    return device

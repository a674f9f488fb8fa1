"""DeepSpeed ZeRO: each rank holds a part of what data parallelism would hold on every rank.

The parts are of the optimizer's states from stage 1 on, also of the gradients from stage 2 on, and also of
the weights in stage 3 (Rajbhandari et al. 2019, arXiv:1910.02054). Each stage has its own module here.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import deepspeed
import torch
import torch.distributed
from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler
from deepspeed.utils import safe_get_full_grad

from bench.errors import LaunchFailed
from bench.launch.spec import WorkerSpec
from bench.worker import optimizers, sharding
from bench.worker.optimizers import class_path
from bench.worker.sharding import Batch, mean_of, trained, trained_by_name

BUCKET = 500_000_000  # elements that DeepSpeed reduces or gathers at once, by default


class Sharding(sharding.Sharding):
    """DeepSpeed's engine around the module, with our own optimizer inside its ZeRO optimizer."""

    stage: int
    offloaded: tuple[str, ...] = ()  # to the host, as DeepSpeed calls it: optimizer, param
    clips_at = 0.0  # 0: gradients are not clipped

    def __init__(
        self,
        module: torch.nn.Module,
        spec: WorkerSpec,
        device: torch.device,
        initialize: Callable[..., Any] = deepspeed.initialize,
    ) -> None:
        deepspeed.init_distributed(dist_backend=torch.distributed.get_backend())
        self.model = module
        self.precision = spec.precision.name
        self.scaled = spec.scales_loss
        self.optimizer = optimizers.build(spec.optimizer, trained(module), spec.adam)
        self.engine, self.zero, *_ = initialize(
            model=module,
            # A client optimizer: with an `optimizer` section DeepSpeed would build its own FusedAdam.
            optimizer=self.optimizer,
            config=self.settings(spec, overlapped=device.type == "cuda") | self.mode(spec),
        )
        self.scaler = self.own_scaler(spec)
        if self.scaler is not None:
            # DeepSpeed has a dynamic scale in its own fp16 mode only, which keeps 16-bit weights and
            # gradients; its step follows this one just as well, once it knows whether there was an overflow.
            self.zero.loss_scaler = self.scaler
            self.zero.dynamic_loss_scale = True
        self.initial_scale = float(self.zero.loss_scale)

    def settings(self, spec: WorkerSpec, *, overlapped: bool) -> dict[str, Any]:
        """DeepSpeed's configuration: its defaults, the stage, and nothing that logs inside a timed block.

        On GPUs gradients are reduced while others are computed, as transformers documents it, if the model
        fills several buckets: a single one is sent after the last gradient. Buckets are no larger than the
        model: DeepSpeed allocates 2 GB for any, which a memory limit counts although little of it is used.
        """
        parameters = sum(parameter.numel() for parameter in trained(self.model))
        bucket = min(BUCKET, parameters + parameters % 2)  # stages 1 and 2 refuse an odd number
        return {
            "train_micro_batch_size_per_gpu": spec.samples_per_pass,
            "gradient_accumulation_steps": spec.passes,
            "zero_optimization": {
                "stage": self.stage,
                "reduce_bucket_size": bucket,
                "allgather_bucket_size": bucket,
                **({"overlap_comm": True} if overlapped and bucket < parameters else {}),
                **{f"offload_{part}": {"device": "cpu", "pin_memory": True} for part in self.offloaded},
            },
            "zero_force_ds_cpu_optimizer": False,  # any optimizer that steps on the host works
            "zero_allow_untested_optimizer": True,
            "gradient_clipping": 0.0,  # 0.19.8 clips to a norm of 1 by default, which Adam nearly hides
            "steps_per_print": 2**31,
            "wall_clock_breakdown": False,
            # On by default, it waits for the device twice per micro-batch, for a line that is never printed.
            "timers": {"throughput": {"enabled": False}},
        }

    def mode(self, spec: WorkerSpec) -> dict[str, Any]:  # noqa: ARG002 - for shardings that cast
        """DeepSpeed's settings for 16 bits: none, the module casts."""
        return {}

    def own_scaler(self, spec: WorkerSpec) -> "Scaler | None":
        """What scales the loss in place of DeepSpeed's, which belongs to its own fp16 mode."""
        return Scaler(spec.initial_scale, spec.growth_steps) if spec.scales_loss else None

    def inputs(self, batch: Batch) -> Batch:
        """A micro-batch as the module takes it."""
        return batch

    def compute_loss(self, batch: Batch) -> torch.Tensor:
        """Without DeepSpeed's engine, which would count the micro-batch as part of a step."""
        return super().compute_loss(self.inputs(batch))

    def step(self, micro_batches: list[Batch]) -> torch.Tensor:
        """DeepSpeed divides by the accumulation steps itself and updates with the last micro-batch."""
        losses = []
        for batch in micro_batches:
            loss = self.engine(**self.inputs(batch)).loss
            self.loss_function = type(loss.grad_fn).__name__
            self.engine.backward(loss)
            last = self.engine.is_gradient_accumulation_boundary()
            if self.scaler is not None and last:
                # Over all ranks, since each has averaged only its part. Read on the host: fp16 must wait.
                self.zero.check_overflow()
            if self.gradient_reader is not None and last:
                self.gradient_reader(self.gradients())
            self.take_step()
            losses.append(loss.detach().float())
        if self.scaler is not None:
            self.scaler.settle()
        if self.watches_gradient:  # DeepSpeed works it out, without the scale, at every step it takes
            overflowed = self.zero.overflow
            self.gradient_norm = math.inf if overflowed else float(self.engine.get_global_grad_norm())
        return mean_of(losses)

    def take_step(self) -> None:
        """DeepSpeed's step, which does nothing except for the last micro-batch."""
        self.engine.step()

    def gradients(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Let DeepSpeed gather each tensor from the ranks that hold its parts."""
        scale = self.loss_scale() or 1.0
        for name, parameter in trained_by_name(self.model):
            fragment = getattr(parameter, "_hp_mapping", None)
            if fragment is not None and self.scaled and not self.offloaded:
                # After an overflow DeepSpeed 0.16.9 collects in a new dict and still reads from the old one.
                fragment.gradient_dict = self.zero.averaged_gradients
            gradient = safe_get_full_grad(parameter)
            yield name, (torch.zeros_like(parameter) if gradient is None else gradient) / scale

    def loss_scale(self) -> float | None:
        """Ask the ZeRO optimizer."""
        return float(self.zero.loss_scale) if self.scaled else None

    def skipped_steps(self) -> int | None:
        """Ask DeepSpeed's engine."""
        return int(self.engine.skipped_steps) if self.scaled else None

    def proof(self) -> dict[str, Any]:
        """The engine's and the ZeRO optimizer's class and stage, and the settings of its loss scaler."""
        stage = self.engine.zero_optimization_stage()
        if stage != self.stage or getattr(self.zero, "optimizer", None) is not self.optimizer:
            raise LaunchFailed("invalid", f"DeepSpeed runs stage {stage} with {class_path(self.zero)}")
        config = self.engine.zero_offload_optimizer()
        if ("optimizer" in self.offloaded) != (config is not None and config.device == "cpu"):
            raise LaunchFailed("invalid", f"DeepSpeed's optimizer is offloaded to {config}")
        if (clipping := self.engine.gradient_clipping()) != self.clips_at:
            raise LaunchFailed(
                "invalid", f"DeepSpeed clips the gradient's norm to {clipping}, as nobody else does"
            )
        if self.engine.tput_timer.config.enabled:
            raise LaunchFailed(
                "invalid", "DeepSpeed's throughput timer waits for the device, as nobody else does"
            )
        proof: dict[str, Any] = {
            "class": class_path(self.engine),
            "optimizer_class": class_path(self.zero),
            "stage": stage,
            "overlap_comm": bool(self.engine.zero_overlap_comm()),
            "deepspeed": deepspeed.__version__,
        }
        if self.scaled:
            scaler = self.zero.loss_scaler
            proof["loss_scaling"] = {
                "class": class_path(scaler),
                "initial_scale": self.initial_scale,
                "growth_steps": scaler.scale_window,
                "growth": scaler.scale_factor,
                "backoff": 1 / scaler.scale_factor,
            }
        return proof


class Scaler(DynamicLossScaler):
    """DeepSpeed's loss scaler by the rule of torch's: no hysteresis, no lower bound, changed after the step.

    DeepSpeed 0.16.9 doubles the scale before it divides that step's gradients by it, which halves them.
    """

    def __init__(self, initial_scale: float, growth_steps: int) -> None:
        super().__init__(
            init_scale=initial_scale,
            scale_window=growth_steps,
            min_scale=0.0,
            delayed_shift=1,
            consecutive_hysteresis=False,
            raise_error_at_min_scale=False,
        )
        self._overflowed = False

    def update_scale(self, overflow: bool) -> None:
        """Called by DeepSpeed in the middle of its step: note what to do afterwards."""
        self._overflowed = overflow

    def settle(self) -> None:
        """Change the scale as the last step asks for."""
        super().update_scale(self._overflowed)

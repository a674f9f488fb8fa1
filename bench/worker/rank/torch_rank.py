"""A rank that trains with torch, under whatever engine, sharding and loop."""

import gc
import itertools
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from bench.launch import messages
from bench.launch.importing import garbage_collector_off
from bench.worker.rank.rank import Rank

if TYPE_CHECKING:
    from bench.worker.rank.training import Training

PATIENCE = timedelta(hours=2)
"""NCCL's time limit, instead of 10 minutes: drivers may compile. The coordinator ends ranks that hang."""


class TorchRank(Rank):
    """Imports torch when it is asked to build."""

    training: "Training"

    def build(self) -> messages.Built:
        """Set up everything before the first step, the imports included; torchrun's own start is not."""
        self.meter.prepare(new_peak=False)
        self.meter.start()
        start = self.clock()
        with garbage_collector_off():
            import torch.distributed

            from bench.worker.rank.training import Training, device_of

            device = device_of(self.spec, self.local_rank)
            if device.type == "cuda":
                torch.distributed.distributed_c10d.default_pg_nccl_timeout = PATIENCE  # of DeepSpeed's groups
                # Bound to the device, NCCL connects now: its buffers and its time are the set-up's.
                torch.distributed.init_process_group("nccl", device_id=device, timeout=PATIENCE)
            else:
                torch.distributed.init_process_group("gloo")
            self.training = Training(self.spec, rank=self.rank, device=device)
        return self._built(start)

    def write_expected_tensors(
        self, steps: int, distinct: int = 0, batches: int = 0
    ) -> messages.ExpectedTensorsWritten:
        """Train plain PyTorch in fp32 beside the backend's model; afterwards the batches begin anew."""
        from bench.worker.state.gradients import write_expected
        from bench.worker.workload.choosing import choose_compared, choose_different

        training, of_a_step = self.training, self.spec.grad_accum
        numbers: list[int] = []
        trained: list[int] = []
        if distinct:
            numbers = choose_compared(training.feed, batches)
            trained = choose_different(training.feed, numbers, first=of_a_step, count=distinct * of_a_step)
            training.feed.repeat(trained)
        taken = list(training.steps(steps))
        written = write_expected(self.spec, taken, rank=self.rank, device=training.device)
        gc.collect()
        training.free_cached()
        return msgspec.structs.replace(written, batches=numbers, trained=trained)

    def parity(self, steps: int, compared: bool = False) -> messages.ParityTrained:
        """Take `steps` steps, untimed, and compare what they leave with the expected tensors, if any.

        Steps of fp16 that are skipped while the loss's scale is too large are taken again: backends may
        overflow at different scales, since they round differently, and train alike once they do not.
        """
        from bench.worker.state.gradients import TensorReader

        sharding = self.training.sharding
        sharding.watches_gradient = True
        reader = TensorReader(self.spec.expected_tensors, rank=self.rank)
        kinds = messages.gradient_kinds(steps) if compared else {}
        losses, norms, ends = [], [], [self.clock()]
        for number, batch in enumerate(self.training.steps(steps), start=1):
            sharding.gradient_reader = partial(reader.read, kinds[number]) if number in kinds else None
            # A failure in the first step, such as of an export, is not due to its batch.
            with nullcontext() if number == 1 else self.naming_failure(f"step {number}"):
                losses.append(self.training.step_until_applied(batch).item())
            norms.append(sharding.gradient_norm)
            sharding.gradient_reader = None
            if number == 1 and compared:
                reader.read(messages.BUFFER, self.training.named_buffers())
            ends.append(self.clock())
        if compared:
            reader.read_weights(sharding.weights())
        return messages.ParityTrained(
            losses=losses,
            gradient_norms=norms,
            seconds=[end - start for start, end in itertools.pairwise(ends)],
            differences=reader.differences,
            proof=self.training.proof(),
        )

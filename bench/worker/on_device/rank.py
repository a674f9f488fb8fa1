"""A rank that trains as on a device."""

import itertools
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import LaunchFailed
from bench.launch import messages
from bench.launch.importing import garbage_collector_off
from bench.launch.spec import WorkerSpec
from bench.results.records import Roofline, Shape
from bench.worker.on_device.files import BATCHES, CHECKPOINT, DeviceFiles
from bench.worker.rank.child import ask_child, request_export
from bench.worker.rank.rank import Rank

if TYPE_CHECKING:
    from bench.worker.on_device.training import DeviceTraining

ALONE = "engine=on_device trains whole steps on one rank, and sends nothing"
NO_PROFILE = "ONNX Runtime's API for devices hands out no profile of a step"


class DeviceRank(Rank):
    """A rank whose training has no torch; the spec was read from the file `spec_path`."""

    training: "DeviceTraining"

    refusals = {  # noqa: RUF012 - a ClassVar of `Rank`
        "write_expected_tensors": "engine=on_device cannot compute what gradients should be",
        "evaluate": "engine=on_device has no model that PyTorch could evaluate",
        "count_collectives": ALONE,
        "time_collectives": ALONE,
        "profile": NO_PROFILE,
        "finish_profile": NO_PROFILE,
    }

    def __init__(self, spec: WorkerSpec, spec_path: Path) -> None:
        super().__init__(spec, rank=0, local_rank=0)
        self._spec_path = spec_path

    def build(self) -> messages.Built:
        """Load artifacts, which are made before: on a device's behalf, not by it."""
        self._check()
        self._artifacts = tempfile.TemporaryDirectory(dir=self._spec_path.parent, prefix="artifacts-")
        try:
            return self._build_in(Path(self._artifacts.name))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the graphs."""
        self._artifacts.cleanup()

    def _build_in(self, folder: Path) -> messages.Built:
        prepared = ask_child("bench.worker.on_device.prepare", folder, DeviceFiles, self._spec_path)
        self.meter.prepare(new_peak=False)
        self.meter.start()
        start = self.clock()
        with garbage_collector_off():
            from bench.worker.on_device.training import DeviceTraining

            self.training = DeviceTraining(self.spec, folder, prepared)
        built = self._built(start)
        # The group's folder keeps what it is kept for, and these are as large as the model. The graphs stay:
        # a checkpoint that is loaded begins anew with them.
        for name in (CHECKPOINT, BATCHES):
            (folder / name).unlink()
        return built

    def _check(self) -> None:
        """Refuse what a device does not do, as `unsupported`."""
        spec = self.spec
        others = {
            "device=cuda": spec.device != "cpu",
            "device.world_size above 1": int(os.environ["WORLD_SIZE"]) > 1,
            f"precision={spec.precision.name}": spec.precision.name != "fp32",
            "checkpointing": spec.checkpointing,
            f"data={spec.data.name}": spec.data.name != "synthetic",
        }
        refused = next((key for key, is_so in others.items() if is_so), None)
        if refused is not None:
            raise LaunchFailed(
                "unsupported",
                f"engine=on_device trains synthetic batches in fp32 on one CPU rank, not with {refused}",
            )

    def parity(self, steps: int, compared: bool = False) -> messages.ParityTrained:
        """Take `steps` steps, untimed; what they leave may be compared."""
        training = self.training
        training.watches_gradient = True
        kinds = messages.gradient_kinds(steps) if compared else {}
        losses, norms, ends = [], [], [self.clock()]
        for number, batch in enumerate(training.steps(steps), start=1):
            training.gradient_kind = kinds.get(number)
            losses.append(training.step(batch))
            norms.append(training.gradient_norm)
            ends.append(self.clock())
        if compared:
            training.compare(messages.MOVEMENT, training.trained_weights())
        training.gradient_kind = None
        return messages.ParityTrained(
            losses=losses,
            gradient_norms=norms,
            seconds=[end - start for start, end in itertools.pairwise(ends)],
            differences=training.differences,
            proof=training.proof(),
        )

    def count_flops(self) -> messages.FlopsCounted:
        """Counted by the reference."""
        reason = "FLOPs of a step: engine=on_device does not count them"
        return messages.FlopsCounted(roofline=Roofline(absent=(reason,)))

    def time_products(self, shapes: list[Shape]) -> messages.ProductsTimed:  # noqa: ARG002 - none is timed
        """Nothing but whole graphs can be run."""
        return messages.ProductsTimed(products=[], absent=["its products are not timed alone"])

    def export(self, folder: str) -> messages.ModelExported:
        """Put what was trained into the model it was made of: its own graphs have the loss as only output."""
        from safetensors.numpy import save_file

        trained = self.training.trained_weights()
        batch = self.training.first_batch
        return request_export(Path(folder), self.spec, save_file, trained=trained, batch=batch)

"""A rank that trains as on a device."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bench.errors import LaunchFailed
from bench.launch.importing import garbage_collector_off
from bench.launch.messages import (
    GRADIENT,
    LAST_GRADIENT,
    MOVEMENT,
    Built,
    CollectivesCounted,
    CollectivesTimed,
    Evaluated,
    ExpectedTensorsWritten,
    FlopsCounted,
    ModelExported,
    ParityTrained,
    PartsTimed,
    ProductsTimed,
    RoundProfiled,
    StepsProfiled,
)
from bench.launch.spec import WorkerSpec
from bench.results.collectives import Collective
from bench.results.records import Shape
from bench.worker.on_device.files import BATCHES, CHECKPOINT, FAILURE, Failure
from bench.worker.rank.rank import Rank
from bench.worker.state.export_request import request_export

if TYPE_CHECKING:
    from bench.worker.on_device.training import DeviceTraining

ALONE = "engine=on_device trains whole steps on one rank, and sends nothing"


class DeviceRank(Rank):
    """Its training has no torch.

    Args:
        spec: what is trained, and how.
        spec_path: the file that it was read from.
    """

    training: "DeviceTraining"

    def __init__(self, spec: WorkerSpec, spec_path: Path) -> None:
        super().__init__(spec, rank=0, local_rank=0)
        self._spec_path = spec_path

    def build(self) -> Built:
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

    def _build_in(self, folder: Path) -> Built:
        make_artifacts(self._spec_path, folder)
        self.meter.prepare(new_peak=False)
        self.meter.start()
        start = self.clock()
        with garbage_collector_off():
            from bench.worker.on_device.training import DeviceTraining

            self.training = DeviceTraining(self.spec, folder)
        built = self._built(start)
        # The group's folder keeps what it is kept for, and these are as large as the model. The graphs stay:
        # a checkpoint that is loaded begins anew with them.
        for name in (CHECKPOINT, BATCHES):
            (folder / name).unlink()
        return built

    def _check(self) -> None:
        """Refuse what a device does not do.

        Raises:
            LaunchFailed: status `unsupported`.
        """
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

    def write_expected_tensors(self, steps: int) -> ExpectedTensorsWritten:  # noqa: ARG002 - it takes none
        """Only a backend that has PyTorch can be the reference."""
        raise LaunchFailed("unsupported", "engine=on_device cannot compute what gradients should be")

    def train_for_parity(self, steps: int, *, compared_steps: int = 0) -> ParityTrained:
        """Take `steps` steps, untimed; what the first and the last of the compared ones leave is compared."""
        training = self.training
        training.watches_gradient = True
        kinds = {1: GRADIENT, compared_steps: LAST_GRADIENT} if compared_steps else {}
        losses, norms = [], []
        for number, batch in enumerate(training.steps(steps), start=1):
            training.gradient_kind = kinds.get(number)
            losses.append(training.step(batch))
            norms.append(training.gradient_norm)
            if number == compared_steps:
                training.compare(MOVEMENT, training.trained_weights())
        training.gradient_kind = None
        return ParityTrained(
            losses=losses, gradient_norms=norms, differences=training.differences, proof=training.proof()
        )

    def count_flops(self) -> FlopsCounted:
        """Counted by the reference."""
        return FlopsCounted(absent=["FLOPs of a step: engine=on_device does not count them"])

    def time_products(self, shapes: list[Shape]) -> ProductsTimed:  # noqa: ARG002 - none is timed
        """Nothing but whole graphs can be run."""
        return ProductsTimed(products=[], build={}, absent=["its products are not timed alone"])

    def export_model(self, folder: Path) -> ModelExported:
        """Put what was trained into the model it was made of: its own graphs have the loss as only output."""
        from safetensors.numpy import save_file

        trained = self.training.trained_weights()
        return request_export(folder, self.spec, save_file, trained=trained, batch=self.training.first_batch)

    def evaluate(self) -> Evaluated:
        """Likewise, and there is no plain model that PyTorch could run."""
        raise LaunchFailed("unsupported", "engine=on_device has no model that PyTorch could evaluate")

    def count_collectives(self) -> CollectivesCounted:
        """There is one rank, and no communication library."""
        raise LaunchFailed("unsupported", ALONE)

    def time_collectives(self, collectives: list[Collective]) -> CollectivesTimed:  # noqa: ARG002 - likewise
        """Likewise."""
        raise LaunchFailed("unsupported", ALONE)

    def time_parts(self, times: int) -> PartsTimed:  # noqa: ARG002 - likewise
        """Its API takes whole steps."""
        raise LaunchFailed("unsupported", ALONE)

    def profile_steps(self, steps: int, *, counted: bool) -> RoundProfiled:  # noqa: ARG002 - it takes none
        """Its API hands out no profile."""
        raise LaunchFailed("unsupported", "ONNX Runtime's API for devices hands out no profile of a step")

    def finish_profile(self) -> StepsProfiled:
        """Likewise."""
        raise LaunchFailed("unsupported", "ONNX Runtime's API for devices hands out no profile of a step")


def make_artifacts(spec_path: Path, folder: Path) -> None:
    """Run `bench.worker.on_device.prepare` in a process of its own, which may import all it needs.

    Raises:
        LaunchFailed: it could not; with its reason.
    """
    command = [sys.executable, "-m", "bench.worker.on_device.prepare", str(spec_path), str(folder)]
    ended = subprocess.run([*command, str(os.getpid())], check=False)
    failure = folder / FAILURE
    if failure.exists():
        found = msgspec.json.decode(failure.read_bytes(), type=Failure)
        raise LaunchFailed(found.status, found.message, found.details)
    if ended.returncode != 0:
        raise LaunchFailed("crashed", f"making artifacts ended with exit status {ended.returncode}")

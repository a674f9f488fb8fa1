"""After training: every backend's model is exported, run in ONNX Runtime, and compared with the others'.

Equal training must leave equal models. What fails leaves a row in `<comparison>.export.csv`, and
nothing else: nothing that is timed depends on it.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.errors import LaunchFailed, UserError
from bench.measure.groups.running import RunningGroups
from bench.measure.plan.plans import Launch
from bench.measure.stages.stage import Run, Stage
from bench.results.arithmetic import mib
from bench.setup import stacks
from bench.statistics.intervals import median_interval
from bench.studies.export.files import CHECKED, CheckedExport
from bench.studies.export.messages import ExportModel, ModelExported
from bench.studies.export.table import TABLE

ROUNDING = 1e-4
"""By what share of the largest output ONNX Runtime's may differ from PyTorch's in fp32, where a deep network
adds up errors of 1e-7."""

CHECKER = "bench.studies.export.checking"


class Exports(Stage):
    """Exports at the end of the parity launch, where dropout is off and all train from the same weights."""

    def __init__(self, shared: Run) -> None:
        super().__init__(shared)
        self._exported: dict[str, ModelExported] = {}
        self._rows: dict[str, dict[str, Any]] = {}  # of each backend of which it is known what came of it
        if self.is_missing():
            self.shared.when_trained.append(self.export)

    def is_missing(self) -> bool:
        """Whether a backend has no row yet."""
        return self.shared.lacks(TABLE, self.shared.names)

    def export(self, groups: RunningGroups, _: object) -> None:
        """Let each group export what it has trained; one that cannot is closed, since its rank has ended."""
        for name in list(groups):
            with (
                self.shared.bar.doing("export", f"export of {name}"),
                groups.closing_if_it_fails(name, self._fail),
            ):
                answers = groups[name].request(ExportModel(folder=str(self._folder / name)))
                self._exported[name] = answers[0]

    def run(self, names: Sequence[str]) -> Sequence[str]:
        """Run everything that was exported, and write what came of it."""
        interpreter = find_interpreter()
        if interpreter is None:
            missing = UserError("no stack of this checkout has ONNX Runtime", "run `make setup`")
            row = {"status": "unsupported", "message": str(missing)}
            self._rows |= dict.fromkeys(self._exported, row)
        elif self._exported:
            for name, checked in self._run_checker(interpreter).items():
                self._rows[name] = _row_of(self._exported[name], checked)
        tried = [name for name in self.shared.plan.records if name in self._rows]
        rows = [self.shared.describe(name) | self._rows[name] for name in tried]
        self.shared.write_beside(TABLE, rows)
        return names

    def _fail(self, name: str, _: Launch, failure: LaunchFailed, __: str) -> None:
        self._rows[name] = {"status": failure.status, "message": failure.message}

    @property
    def _folder(self) -> Path:
        return self.shared.output.folder / "export"

    def _run_checker(self, interpreter: str) -> dict[str, CheckedExport]:
        names = list(self._exported)
        device = self.shared.plan.config.device
        threads = device.ranks_per_node * device.threads
        command = [interpreter, "-m", CHECKER, str(self._folder), str(threads), self.shared.plan.reference]
        reference = self.shared.plan.backends[self.shared.plan.reference]
        variables = reference.variables_of(reference.spec)
        with self.shared.bar.doing("export", "exported models in ONNX Runtime"):
            ended = subprocess.run(
                [*command, *names], env=variables, capture_output=True, text=True, check=False
            )
        if ended.returncode != 0:
            reason = (ended.stderr.strip().splitlines() or ["without a word"])[-1]
            return dict.fromkeys(names, CheckedExport(runtime="", failure=reason))
        checked = (self._folder / CHECKED).read_bytes()
        return msgspec.json.decode(checked, type=dict[str, CheckedExport])


def find_interpreter() -> str | None:
    """The Python of a stack that has ONNX Runtime, this process's own if it does; None without any."""
    for stack in (None, *stacks.NAMES):
        here = stacks.installed(stack)
        if here and any(package.startswith("onnxruntime") for package in here.packages):
            return here.interpreter
    return None


def judge(checked: CheckedExport) -> tuple[str, str]:
    """Status and message of an exported model."""
    if checked.failure:
        return "crashed", checked.failure
    difference, scale = checked.difference, checked.scale
    assert difference is not None, "it ran"
    assert scale is not None, "it ran"
    if not difference <= ROUNDING * scale:
        return "diverged", (
            f"its output in ONNX Runtime differs from PyTorch's by {difference:.2g}, where the largest is "
            f"{scale:.2g}"
        )
    return "ok", ""


def _row_of(exported: ModelExported, checked: CheckedExport) -> dict[str, Any]:
    """What came of one model, but for what its row begins with."""
    status, message = judge(checked)
    row = {
        "status": status,
        "message": message,
        "exporter": exported.exporter,
        "runtime": checked.runtime,
        "export_s": exported.seconds,
        "exported_mib": mib(exported.bytes),
        "output_scale": checked.scale,
        "difference": checked.difference,
        "difference_from_reference": checked.from_reference,
        "inferences": len(checked.latencies),
    }
    if checked.latencies:
        median, low, high = (1000 * seconds for seconds in median_interval(checked.latencies))
        row |= {"inference_ms": median, "inference_low_ms": low, "inference_high_ms": high}
    return row


STAGE = Exports

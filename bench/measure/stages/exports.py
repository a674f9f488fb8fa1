"""After training: every backend's model is exported, run in ONNX Runtime, and compared with the others'.

Equal training must leave equal models. What fails leaves a row in `<comparison>.export.csv`, and
nothing else: nothing that is timed depends on it.
"""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bench.errors import LaunchFailed, UserError
from bench.launch.exported_files import CHECKED, CheckedExport
from bench.launch.messages import ExportModel, ModelExported
from bench.measure.groups.running import RunningGroups
from bench.measure.plan.plans import ExportPlan
from bench.measure.stages.stage import Run, Stage
from bench.results.arithmetic import mib
from bench.results.side_files import EXPORTS
from bench.setup import stacks
from bench.statistics.intervals import median_interval

ROUNDING = 1e-4
"""By what share of the largest output ONNX Runtime's may differ from PyTorch's in fp32, where a deep network
adds up errors of 1e-7."""

CHECKER = "bench.worker.state.check_exports"


@dataclass
class Exports(Stage):
    """Exports at the end of the parity launch, where dropout is off and all train from the same weights."""

    shared: Run
    plan: ExportPlan

    def __post_init__(self) -> None:
        self._exported: dict[str, ModelExported] = {}
        self._failed: dict[str, LaunchFailed] = {}
        if self.is_missing():
            self.shared.when_trained.append(self.export)

    def is_missing(self) -> bool:
        """Whether a backend has no row yet."""
        return bool(self.shared.names) and self.shared.lacks(EXPORTS, self.shared.names)

    def export(self, groups: RunningGroups, _: object) -> None:
        """Let each group export what it has trained; one that cannot is closed, since its rank has ended."""
        for name in list(groups):
            with self.shared.bar.doing("export", f"export of {name}"):
                try:
                    answers = groups[name].request(ExportModel(folder=str(self._folder / name)))
                except LaunchFailed as failure:
                    self._failed[name] = failure
                    groups.close_group(name)
                else:
                    self._exported[name] = answers[0]

    def run(self, names: Sequence[str]) -> Sequence[str]:
        """Run everything that was exported, and write what came of it."""
        interpreter = find_interpreter()
        if interpreter is None:
            missing = UserError("no stack of this checkout has ONNX Runtime", "run `make setup`")
            self._failed |= {name: LaunchFailed("unsupported", str(missing)) for name in self._exported}
            self._exported = {}
        checked = self._run_checker(interpreter) if interpreter and self._exported else {}
        tried = [name for name in self.shared.plan.records if name in (*self._exported, *self._failed)]
        self.shared.write_beside(EXPORTS, [self._row(name, checked.get(name)) for name in tried])
        return names

    @property
    def _folder(self) -> Path:
        return self.shared.output.folder / "export"

    def _run_checker(self, interpreter: str) -> dict[str, CheckedExport]:
        names = list(self._exported)
        command = [interpreter, "-m", CHECKER, str(self._folder), str(self.plan.threads)]
        with self.shared.bar.doing("export", "exported models in ONNX Runtime"):
            ended = subprocess.run(
                [*command, self.shared.plan.reference, *names], capture_output=True, text=True, check=False
            )
        if ended.returncode != 0:
            reason = (ended.stderr.strip().splitlines() or ["without a word"])[-1]
            return dict.fromkeys(names, CheckedExport(runtime="", failure=reason))
        checked = (self._folder / CHECKED).read_bytes()
        return msgspec.json.decode(checked, type=dict[str, CheckedExport])

    def _row(self, name: str, checked: CheckedExport | None) -> dict[str, Any]:
        row = self.shared.describe(name)
        if checked is None:
            failure = self._failed[name]
            return row | {"status": failure.status, "message": failure.message}
        exported = self._exported[name]
        status, message = judge(checked)
        row |= {
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
        return row | _latency(checked.latencies)


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


def _latency(seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {}
    median, low, high = median_interval(seconds)
    return {
        "inference_ms": 1000 * median,
        "inference_low_ms": 1000 * low,
        "inference_high_ms": 1000 * high,
    }

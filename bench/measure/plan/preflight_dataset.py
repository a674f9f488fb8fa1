"""Check a model's configuration and a dataset before any launch, in other processes.

Importing transformers or `datasets` takes seconds: `bench.worker.workload.inspections` does it. What is
refused raises a UserError that says what to change or install.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.config import sizes
from bench.config.data import SYNTHETIC
from bench.config.schema import Config
from bench.errors import UserError
from bench.machine.variables import worker_variables
from bench.study import load_plugin

INSPECTIONS = "bench.worker.workload.inspections"
"""The program that prints a sentence and ends with status 2 where the user has something to correct."""


def check_model(config: Config) -> list[str]:
    """Refuse a model that cannot be built or fed; the names of its weights that get no gradient.

    Also keys of `model.config` that transformers does not know, a checkpoint that it cannot read, and a task
    or checkpointing that the architecture lacks. A shipped file is known; ranks check once more.
    """
    model = config.model
    known = sizes.read_shipped(model.name) or {}
    is_shipped = model.pretrained is None and all(
        known.get(key) == getattr(model, key) for key in ("architecture", "task", "config")
    )
    for file in sorted(Path(model.pretrained or "nowhere").glob("*.safetensors")):
        _check_header(file)
    if model.module is not None or (is_shipped and not config.checkpointing_of(config.reference)):
        return []
    if config.data.name == "hf":  # whose batch `check_dataset` takes for it
        return []
    return inspect("inspect_model", config, seq_len=config.seq_len)


def _check_header(file: Path) -> None:
    """Refuse a truncated file of weights, or a file without weights, such as a Git LFS pointer."""
    from safetensors import SafetensorError, safe_open  # not for `make doctor`, either

    try:
        with safe_open(file, framework="numpy"):
            pass
    except (OSError, SafetensorError):
        raise UserError(
            f"{file} is damaged or no file of safetensors", "fetch it again, such as with git lfs"
        ) from None


def check_module(config: Config) -> list[str]:
    """Refuse a user's module that cannot be built, fed or trained; returns as `check_model` does."""
    if config.model.module is None:
        return []
    load_plugin("user_model.file").find_file(config.model.module)
    given = {"micro_batch": config.micro_batch, "seq_len": config.seq_len, "seed": config.seed}
    program = "bench.plugins.user_model.inspection"
    return inspect("inspect_module", config, program, **given, device=config.device.type)


def inspect(function: str, config: Config, module: str = INSPECTIONS, **given: Any) -> list[str]:
    """Let a function of a module look at the model, as a rank would; its answer, or what it refuses."""
    given |= {
        "model": dataclasses.asdict(config.model),
        "checkpointing": config.checkpointing_of(config.reference),
    }
    with tempfile.TemporaryDirectory(prefix="bench-check-") as folder:
        file = Path(folder) / "spec.json"
        file.write_text(json.dumps(given), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", INSPECTIONS, module, function, str(os.getpid()), str(file)],
            env=worker_variables(
                os.environ,
                device=given.get("device", "cpu"),
                threads=config.device.threads,
                allocator="system",
                blas="stock",
                precision="fp32",
                checkpointing=False,
            )
            # Nothing is measured yet; and a sentence may have characters that the terminal lacks.
            | {"TOKENIZERS_PARALLELISM": "true", "PYTHONIOENCODING": "utf-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    *_, last = ["", *done.stdout.strip().splitlines()]  # above it, what libraries print
    if done.returncode == 2 and last:
        raise UserError(last)
    if done.returncode != 0:
        raise RuntimeError(f"{function} ended with status {done.returncode}:\n{done.stderr}")
    answer: list[str] = json.loads(last)
    return answer


def check_dataset(config: Config) -> list[str]:
    """Refuse data that cannot be read, or does not fit task and model; as `check_model`."""
    if config.data.name == SYNTHETIC:
        return []
    unused: list[str] = load_plugin(f"{config.data.name}.check").check(config)
    return unused

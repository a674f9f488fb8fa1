"""Check a model's configuration and a dataset before any launch, in other processes.

Importing transformers or `datasets` takes seconds: `bench.worker.workload.inspections` does it. What is
refused raises a UserError that says what to change or install.
"""

import dataclasses
import json
import os
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
"""Ends with status 2 and a sentence where the user has something to correct."""


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
    # Not for `make doctor`, which runs where nothing is installed.
    from bench.launch.agents import run_module
    from bench.launch.local_ranks import architecture_of
    from bench.measure.plan.resolve import environment_settings

    given |= {
        "model": dataclasses.asdict(config.model),
        "checkpointing": config.checkpointing_of(config.reference),
    }
    with tempfile.TemporaryDirectory(prefix="bench-check-") as folder:
        spec, answer, log = (Path(folder) / name for name in ("spec.json", "answer", "log.txt"))
        spec.write_text(json.dumps(given), encoding="utf-8")
        with log.open("wb") as file:
            status = run_module(
                INSPECTIONS,
                [module, function, str(spec), str(answer)],
                variables=worker_variables(os.environ, **environment_settings(config, config.reference)),
                architecture=architecture_of(config.model),
                log=file,
            )
        said = answer.read_text(encoding="utf-8") if answer.exists() else ""
        if status == 2 and said:
            raise UserError(said)
        if status != 0:
            printed = log.read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"{function} ended with status {status}:\n{printed}")
    found: list[str] = json.loads(said)
    return found


def check_dataset(config: Config) -> list[str]:
    """Refuse data that cannot be read, or does not fit task and model; as `check_model`."""
    if config.data.name == SYNTHETIC:
        return []
    unused: list[str] = load_plugin(f"{config.data.name}.check").check(config)
    return unused

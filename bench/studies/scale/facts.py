"""Derives facts from a model's shapes, in a process with torch."""

import dataclasses
import os
import subprocess
from collections.abc import Sequence

import msgspec

from bench.config.compose import compose
from bench.config.schema import Config
from bench.config.training import Precision
from bench.errors import UserError
from bench.measure.plan.resolve import resolve
from bench.studies.scale.model_facts import ModelFacts

COUNTER = "bench.studies.scale.counting"


def facts_of(overrides: Sequence[str]) -> tuple[Config, ModelFacts]:
    """The configuration of a command line, and the facts of its model as plain PyTorch trains it.

    Device and backends are chosen here, since shapes are the same on all. UserError if the command line is
    wrong, or the model cannot be built.
    """
    of_shapes = ["device=cpu", "device.world_size=1", "device.threads=1", "backend=[pytorch]"]
    config = compose([*overrides, *of_shapes])
    plan = resolve(config, "facts", gpus=[], cores=[(0,)])
    (backend,) = plan.backends.values()
    spec = backend.spec
    if spec.precision.name == "fp16":  # as large; some models check fp16 activations for overflows
        spec = dataclasses.replace(spec, precision=Precision(name="bf16"))
    counted = subprocess.run(
        [backend.installed.interpreter, "-m", COUNTER],
        input=msgspec.json.encode(spec),
        capture_output=True,
        env=os.environ | backend.variables_of(spec),
        check=False,
    )
    if counted.returncode:
        last = counted.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise UserError(
            f"the shapes of {config.model.name} cannot be had: {' '.join(last) or 'its process was killed'}",
            "see whether `make bench` trains it",
        )
    return config, msgspec.json.decode(counted.stdout.splitlines()[-1], type=ModelFacts)

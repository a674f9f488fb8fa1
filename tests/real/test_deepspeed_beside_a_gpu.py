"""DeepSpeed with its accelerator for CUDA, where torch says that there is a GPU: import and Adam for CPUs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.machine.variables import worker_variables
from bench.measure.plan.resolve import environment_settings
from bench.setup.recipes import CUDA_HOME
from tests.support.configs import a_config
from tests.support.fake_programs import write_program

pytestmark = [pytest.mark.exhaustive, pytest.mark.ort, pytest.mark.once]

PROGRAM = """
import os, sys, types, torch
torch.cuda.is_available = lambda: True
torch.cuda.device_count = lambda: 1
torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(major=9, minor=0)
torch.cuda.get_device_capability = lambda *_: (9, 0)
from bench.worker.optimizers import deepspeed_cpu_adam
from deepspeed.accelerator import get_accelerator
assert get_accelerator()._name == "cuda"
weight = torch.nn.Parameter(torch.ones(100))
hyperparameters = dict(lr=0.1, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
optimizer = deepspeed_cpu_adam.build([weight], **hyperparameters)
weight.grad = torch.ones(100)
optimizer.step()
assert abs(weight[0].item() - 0.9) < 1e-6, weight
assert "deepspeed.ops.transformer.inference.triton" not in sys.modules, "kernels that look for a driver"
from torch._inductor.runtime import triton_helpers
from torch.utils._triton import has_triton_package
import triton
assert has_triton_package() and triton_helpers.triton is triton, "torch.compile has none"
"""


def test_its_import_asks_the_environment_s_compiler_and_its_adam_is_compiled_already(tmp_path: Path) -> None:
    """It raises where it finds no compiler, and would compile the Adam behind a lock file."""
    asked = tmp_path / "asked"
    script = f"echo asked >> {asked}; echo 'Cuda compilation tools, release 13.0, V13.0.88'"
    home = tmp_path / CUDA_HOME / "bin"
    home.mkdir(parents=True)
    write_program(home, "nvcc", script)
    settings = {**environment_settings(a_config(tmp_path)), "device": "cuda"}
    variables = worker_variables({**os.environ, "CUDA_HOME": "/nowhere"}, **settings, prefix=tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert asked.exists()
    assert not (tmp_path / "torch_extensions").exists()

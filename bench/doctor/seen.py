"""What can be seen of a machine, as data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.errors import UserError
from bench.setup.nvidia_smi import ListedGpu


@dataclass(frozen=True, kw_only=True)
class StackSeen:
    """One stack, as it was seen."""

    name: str
    # the stages of its set-up that are not done; all of them if it was never set up
    pending: Sequence[str] = ()
    # packages whose version is not the pinned one, such as `torch 2.5.0 instead of 2.6.0`
    wrong: Sequence[str] = ()
    torch: Mapping[str, Any] | None = None  # what its torch says of itself; None if it cannot be imported
    import_error: str = ""  # the last line of what importing torch printed then
    unsuitable: UserError | None = None  # why it cannot be set up here
    plain_onnxruntime: str = ""  # a package that overwrites ONNX Runtime Training's module
    # the packages' device, as `make setup` recorded it; empty if it did not make the environment
    device: str = ""
    compiler: str = ""  # the nvcc that DeepSpeed's import finds; empty: none


@dataclass(frozen=True)
class BackendSeen:
    """Why a comparison of this backend alone would be refused or fail, if it is known; and its stack."""

    refusal: UserError | None = None
    stack: str = "ort"


@dataclass(frozen=True, kw_only=True)
class MachineSeen:
    """A machine, as it was seen."""

    cpu: str
    """In words, with vendor, family and model: a marketing name is not enough."""

    cores: int
    busy_cores: float
    memory_free_gib: float
    disk_free_gib: float
    tools: Mapping[str, bool]
    gpus: Sequence[ListedGpu] = ()
    driver_problem: UserError | None = None
    stacks: Sequence[StackSeen] = ()
    backends: Mapping[str, BackendSeen] = field(default_factory=dict)
    default_backends: Sequence[str] = ()
    chosen: str = "ort"
    """The stack that the doctor was asked about: without it nothing runs."""

"""What an engine's own profile says of a kernel."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class EngineKernel:
    """One kernel, all calls together."""

    name: str
    calls: int
    seconds: float

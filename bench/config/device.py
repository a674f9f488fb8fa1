"""What the ranks run on: devices, threads, nodes."""

import re
from dataclasses import dataclass

from bench.config.fields import above_zero, at_least, check_fields, one_of
from bench.errors import UserError


@dataclass(kw_only=True)
class Device:
    """What the ranks run on."""

    type: str = one_of("cpu", "cuda")
    world_size: int = at_least(1)  # ranks, on all nodes together
    threads: int = at_least(1)  # per rank
    # Each rank is pinned to its own `threads` cores, and the engine uses as many threads. If false, only what
    # torchrun sets applies: an engine that ignores OMP_NUM_THREADS uses as many threads as it likes.
    pin_cores: bool
    # tuned: the same settings of glibc's malloc for all workers; system: its defaults
    allocator: str = one_of("tuned", "system")
    # stock: MKL, which multiplies PyTorch's matrices, as it is installed; on CPUs that Intel did not make it
    # leaves out its kernels for newer instructions. full: made to use all that the CPU has, as on Intel's.
    blas: str = one_of("stock", "full", default="stock")
    # of a backend's private memory on the host, shared equally by its ranks; null: on a CPU what is left
    memory_limit_gib: float | None = above_zero(None)
    # More ranks than cores, which take turns: what they send and hold is as it would be; nothing is timed.
    share_cores: bool = False
    nnodes: int = at_least(1, 1)  # machines, with equally many ranks each
    # the rate to which the link between them is limited; null: no limit
    link_gbit_per_s: float | None = above_zero(None)
    rdzv_endpoint: str | None = None  # host:port of this machine, at which the others report
    rdzv_timeout_s: float = above_zero(300)  # how long to wait for them before anything starts

    def __post_init__(self) -> None:
        check_fields(self, "device.")
        if self.blas == "full" and self.type == "cuda":
            raise UserError(
                "device.blas=full is about matrix products on a CPU, and device.type=cuda runs them on a GPU",
                "leave it out",
            )
        if not self.pin_cores and self.world_size > 1:
            raise UserError(
                "device.pin_cores=false needs device.world_size=1, since ranks that share their cores "
                "cannot be distinguished from others' work",
                "set device.world_size=1",
            )
        if self.memory_limit_gib is not None and self.type == "cuda":
            raise UserError(
                "device.memory_limit_gib limits CPU ranks only, since CUDA maps more than it uses",
                "leave it out",
            )
        if self.share_cores and (self.type != "cpu" or self.nnodes > 1 or not self.pin_cores):
            raise UserError(
                "device.share_cores=true lets ranks of one machine take turns on its cores",
                "leave it out, or device.nnodes, device=cuda and device.pin_cores",
            )
        if self.world_size % self.nnodes:
            fewer = self.world_size // self.nnodes * self.nnodes
            raise UserError(
                f"device.world_size={self.world_size} cannot be shared equally by "
                f"device.nnodes={self.nnodes}",
                f"set device.world_size={fewer or self.nnodes}",
            )
        if self.nnodes > 1 and self.rdzv_endpoint is None:
            raise UserError(
                f"device.nnodes={self.nnodes} needs a place at which the other nodes find this one",
                "set device.rdzv_endpoint=HOST:PORT to this machine's name or address and a free port",
            )
        if self.link_gbit_per_s is not None and self.nnodes == 1:
            raise UserError("device.link_gbit_per_s has no meaning on one node", "leave it out")
        if self.nnodes == 1 and self.rdzv_endpoint is not None:
            raise UserError(
                f"device.rdzv_endpoint={self.rdzv_endpoint} has no meaning on one node",
                "leave it out, or set device.nnodes=…",
            )
        if self.rdzv_endpoint is not None:
            try:
                host_and_port(self.rdzv_endpoint)
            except ValueError as error:
                raise UserError(f"device.rdzv_endpoint={self.rdzv_endpoint} {error}.") from None

    @property
    def ranks_per_node(self) -> int:
        """Ranks on each node."""
        return self.world_size // self.nnodes


def host_and_port(endpoint: str) -> tuple[str, int]:
    """Return the parts of `HOST:PORT`; ValueError, whose message follows the key and value, if it is none."""
    host, _, port = endpoint.rpartition(":")
    if not re.fullmatch(r"[\w.-]+", host) or not re.fullmatch(r"\d{1,5}", port, re.ASCII):
        raise ValueError("is not HOST:PORT, such as node0:29400 or 10.0.0.1:29400")
    if not 0 < int(port) < 2**16:
        raise ValueError("has no possible port; choose one from 1024 to 65535")
    return host, int(port)

"""How the ranks of one group on several nodes find each other: torchrun's rendezvous, and the coordinator."""

import hashlib
import hmac
import ipaddress
import os
import socket
from dataclasses import dataclass

from bench.errors import UserError
from bench.launch.channel import SOCKET_VARIABLE, TOKEN_VARIABLE
from bench.machine.variables import SECRET_VARIABLE

SHORTEST_SECRET = 16
"""Characters: a listener on the network could guess a shorter one from what it proves."""


@dataclass(frozen=True, kw_only=True)
class Rendezvous:
    """Where one group's ranks meet: several groups live at once, so each has an id and ports.

    The rendezvous is torchrun's static one, its store on node 0: unlike the elastic one, it gives the ranks
    in the order of the nodes, and MASTER_ADDR is the address by which each node knows node 0, whether or not
    the host's own name resolves anywhere.
    """

    id: str  # unlike any other group's
    nnodes: int  # machines
    ranks_per_node: int  # on each of them
    rendezvous_port: int  # on node 0, of torchrun's store
    report_port: int  # on node 0, where the coordinator listens for this group's ranks

    def arguments(self, *, host: str, node: int) -> list[str]:
        """The arguments of torchrun on a node that knows node 0 as `host`."""
        return [
            *(f"--nnodes={self.nnodes}", f"--nproc-per-node={self.ranks_per_node}", f"--node-rank={node}"),
            *("--rdzv-backend=static", f"--rdzv-endpoint={host}:{self.rendezvous_port}"),
            *(f"--rdzv-id={self.id}", "--max-restarts=0"),
        ]

    def variables(self, *, host: str, secret: str) -> dict[str, str]:
        """What the ranks on a node that knows node 0 as `host` need to report."""
        return {SOCKET_VARIABLE: f"tcp:{host}:{self.report_port}", TOKEN_VARIABLE: token(secret, self.id)}


class Port:
    """A free TCP port that nobody else is given until `release`; a process that knows it may listen there.

    Bound but not listening: under SO_REUSEADDR, which torch's store sets, Linux lets another listen.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("", 0))
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Let anybody have it."""
        self._socket.close()


def token(secret: str, rendezvous_id: str) -> str:
    """One group's secret, which every node works out by itself, so that it never travels."""
    return hmac.new(secret.encode(), f"group {rendezvous_id}".encode(), hashlib.sha256).hexdigest()


def shared_secret() -> str:
    """The secret that the user has set; UserError if there is none, or it is too short."""
    secret = os.environ.get(SECRET_VARIABLE, "")
    if len(secret) < SHORTEST_SECRET:
        raise UserError(
            f"Several nodes need {SECRET_VARIABLE}, {SHORTEST_SECRET} characters or more and the same on all "
            f"of them, so that nobody else can join; make one with `export {SECRET_VARIABLE}="
            "$(openssl rand -hex 16)`."
        )
    return secret


def gloo_interface(address: str) -> dict[str, str]:
    """The variable that keeps gloo to the network interface of this machine's own `address`.

    Left alone it takes the one that the host's name resolves to, which on many machines is the loopback.
    """
    import psutil  # here, since `make doctor` imports this module on machines where nothing is installed

    for name, addresses in psutil.net_if_addrs().items():
        for interface in addresses:
            if interface.family == socket.AF_INET and interface.netmask:
                network = ipaddress.ip_network(f"{interface.address}/{interface.netmask}", strict=False)
                if interface.address == address or (
                    network.is_loopback and ipaddress.ip_address(address) in network
                ):
                    return {"GLOO_SOCKET_IFNAME": name}
    return {}

"""Two nodes on one machine with a slow link between them: network namespaces and Linux' traffic control.

The harness runs as on two machines: the coordinator in one namespace with one core, a node agent in the
other with another. What they send passes a pair of virtual interfaces whose rate is limited.
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bench.errors import UserError
from bench.setup.checkout import ROOT

BURST_BYTES = 131_072
"""Bytes that may pass at once before the rate holds. TCP hands down up to 64 KiB at a time; with less room
than that and their headers, the kernel cuts them into frames, which takes a fifth of the ranks' cores."""

QUEUE_MS = 400  # for how long a packet may wait for its turn; what waits longer is lost

PAYLOAD_SHARE = 1448 / 1514
"""The share of a full frame that is payload: 14 bytes are Ethernet's header, 20 IPv4's and 32 TCP's with its
time stamps."""

SECONDS_TO_START = 60

PORT = 29_401


@dataclass(frozen=True, kw_only=True)
class Node:
    """One of the two."""

    namespace: str
    interface: str  # that leads to the other
    address: str  # of that interface
    core: int  # that its processes run on

    def command(self, *arguments: str) -> list[str]:
        """A command line that runs there, on this node's core."""
        return ["ip", "netns", "exec", self.namespace, "taskset", "--cpu-list", str(self.core), *arguments]


@contextmanager
def two_nodes(gbit_per_s: float) -> Iterator[tuple[Node, Node]]:
    """Make two namespaces with a link of this rate each way between them, and remove them at the end.

    Raises:
        UserError: that takes rights or programs that this process does not have, or a second core.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise UserError("two nodes need a core each, and this process has one", "run it where there are two")
    unique = os.getpid()
    nodes = tuple(
        Node(
            namespace=f"bench{unique}{letter}",
            interface=f"bench{unique % 10_000}{letter}",
            address=f"10.213.7.{place + 1}",
            core=cores[place],
        )
        for place, letter in enumerate("ab")
    )
    first, second = nodes
    try:
        for node in nodes:
            _run("ip", "netns", "add", node.namespace)
        _run(
            *("ip", "link", "add", first.interface, "netns", first.namespace, "type", "veth"),
            *("peer", "name", second.interface, "netns", second.namespace),
        )
        for node in nodes:
            inside = ("ip", "-n", node.namespace)
            _run(*inside, "addr", "add", f"{node.address}/24", "dev", node.interface)
            _run(*inside, "link", "set", node.interface, "up")
            _run(*inside, "link", "set", "lo", "up")
            _run(
                *("ip", "netns", "exec", node.namespace, "tc", "qdisc", "add", "dev", node.interface),
                *("root", "tbf", "rate", f"{gbit_per_s * 1000:g}mbit", "burst", str(BURST_BYTES)),
                *("latency", f"{QUEUE_MS}ms"),
            )
        yield first, second
    finally:
        for node in nodes:
            subprocess.run(["ip", "netns", "del", node.namespace], capture_output=True, check=False)


def measure_over(gbit_per_s: float, overrides: Sequence[str]) -> int:
    """Run `python -m bench` on two such nodes with one rank each; its exit status."""
    with two_nodes(gbit_per_s) as (first, second):
        endpoint = f"{first.address}:{PORT}"
        variables = os.environ | {"BENCH_SECRET": secrets.token_hex(16)}
        agent = subprocess.Popen(
            second.command(
                sys.executable, *("-m", "bench.cluster.node_agent", endpoint, "--wait", str(SECONDS_TO_START))
            ),
            cwd=ROOT,
            env=variables | {"GLOO_SOCKET_IFNAME": second.interface},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            measured = subprocess.run(
                first.command(
                    *(sys.executable, "-m", "bench", *overrides),
                    *("device=cpu", "device.world_size=2", "device.nnodes=2"),
                    f"device.link_gbit_per_s={gbit_per_s:g}",
                    f"device.rdzv_endpoint={endpoint}",
                ),
                cwd=ROOT,
                env=variables | {"GLOO_SOCKET_IFNAME": first.interface},
                check=False,
            )
        finally:
            agent.terminate()
            agent.wait()
        return measured.returncode


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UserError(f"{command[0]} is not installed", "install iproute2") from None
    if done.returncode:
        raise UserError(
            f"`{' '.join(command)}` failed: {done.stderr.strip() or done.returncode}",
            "run it as root, with the right to make network namespaces",
        )

"""The other nodes of one worker group: where its ranks meet, and what is started there."""

import secrets
import socket
from collections.abc import Iterator, Sequence

from bench.cluster.remote_ranks import Assignment, RemoteRanks
from bench.cluster.rendezvous import Port, Rendezvous, gloo_interface, token
from bench.launch.channel import Listener
from bench.launch.local_ranks import NodeRanks


class GroupNodes:
    """Makes the ports and the rendezvous of one group; has the methods of `bench.launch.group.OtherNodes`.

    `assignments` say what each other node has to start, in the order of their ranks; one or more.
    """

    def __init__(self, assignments: Sequence[Assignment]) -> None:
        self._assignments = assignments
        self._id = secrets.token_hex(16)
        self._port = Port()
        self._host = assignments[0].node.coordinator_address
        self._secret = assignments[0].node.secret
        self.count = len(assignments)
        self.local_name = f"node 0 ({socket.gethostname()})"

    def listen(self) -> Listener:
        """A listener on the network that lets in nobody but this group's ranks."""
        return Listener(self._host, secret=token(self._secret, self._id))

    def arguments(self, listener: Listener, ranks_per_node: int) -> list[str]:
        """The arguments of torchrun on this node."""
        return self._rendezvous(listener, ranks_per_node).arguments(host=self._host, node=0)

    def variables(self) -> dict[str, str]:
        """The environment variables that the ranks of this node need to find the others."""
        return gloo_interface(self._host)

    def start(self, listener: Listener, ranks_per_node: int) -> Iterator[NodeRanks]:
        """Start the ranks on one node after the other.

        Raises:
            LaunchFailed: a node could not start them.
        """
        rendezvous = self._rendezvous(listener, ranks_per_node)
        for assignment in self._assignments:
            yield RemoteRanks(assignment, rendezvous)

    def close(self) -> None:
        """Let others have the port of the rendezvous."""
        self._port.release()

    def _rendezvous(self, listener: Listener, ranks_per_node: int) -> Rendezvous:
        return Rendezvous(
            id=self._id,
            nnodes=1 + self.count,
            ranks_per_node=ranks_per_node,
            rendezvous_port=self._port.number,
            report_port=listener.port,
        )

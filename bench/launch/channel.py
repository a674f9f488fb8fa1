"""JSON lines over one socket between the coordinator and one rank.

The addresses are in Linux's abstract namespace: nothing lies on disk, so nothing is left behind, whoever
is killed. A waiting side sleeps in a read and notices the other's end as end-of-file.
"""

import hmac
import json
import os
import secrets
import socket
from typing import Any

SOCKET_VARIABLE = "BENCH_SOCKET"
TOKEN_VARIABLE = "BENCH_TOKEN"
"""Environment variables that tell a group's ranks where to report, and the secret that lets them in
(any local user could connect)."""

Message = dict[str, Any]


class Closed(Exception):
    """The other side has ended."""


class Channel:
    """One end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._received = b""

    def fileno(self) -> int:
        """For selectors."""
        return self.socket.fileno()

    def send(self, message: Message) -> None:
        """Send one message.

        Raises:
            Closed: there is nobody to read it.
        """
        try:
            self.socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise Closed from error

    def receive(self) -> Message:
        """The next message; sleeps until there is one.

        Raises:
            Closed: there will be none.
        """
        while (message := self.receive_part()) is None:
            pass
        return message

    def receive_part(self) -> Message | None:
        """Read once; a message if one is complete by now, else None.

        Raises:
            Closed: there will be none.
        """
        if b"\n" not in self._received:
            try:
                part = self.socket.recv(1 << 16)
            except OSError as error:
                raise Closed from error
            if not part:
                raise Closed
            self._received += part
        line, newline, rest = self._received.partition(b"\n")
        if not newline:
            return None
        self._received = rest
        message: Message = json.loads(line)
        return message

    def close(self) -> None:
        """Let the other side see end-of-file."""
        self.socket.close()


class Listener:
    """The coordinator's side: where the ranks of one group report."""

    def __init__(self) -> None:
        self.name = f"bench-{os.getpid()}-{secrets.token_hex(8)}"
        self.token = secrets.token_hex(32)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind(f"\0{self.name}")
        self.socket.listen(128)

    def variables(self) -> dict[str, str]:
        """What the ranks need to connect."""
        return {SOCKET_VARIABLE: self.name, TOKEN_VARIABLE: self.token}

    def fileno(self) -> int:
        """For selectors."""
        return self.socket.fileno()

    def accept(self) -> tuple[Channel, Message] | None:
        """A rank's channel and greeting; None if whoever connected does not know the secret."""
        connection, _ = self.socket.accept()
        connection.settimeout(10)
        channel = Channel(connection)
        try:
            greeting = channel.receive()
        except (Closed, ValueError):
            channel.close()
            return None
        if not hmac.compare_digest(str(greeting.get("token")), self.token):
            channel.close()
            return None
        connection.settimeout(None)
        return channel, greeting

    def close(self) -> None:
        """Stop listening."""
        self.socket.close()


def connect(greeting: Message) -> Channel:
    """The rank's side: connect to the coordinator and say who we are."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(f"\0{os.environ[SOCKET_VARIABLE]}")
    channel = Channel(connection)
    channel.send({**greeting, "token": os.environ[TOKEN_VARIABLE]})
    return channel

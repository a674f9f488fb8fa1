"""Messages over one socket: between the coordinator and one rank, or the coordinator and one node.

Each is MessagePack behind its length. Not multiprocessing.connection, whose handshake is HMAC-MD5 before
Python 3.12, and whose reads cannot be left half-done: one slow rank would hold up the others.

On one machine the addresses are in Linux's abstract namespace: nothing lies on disk, so nothing is left
behind when a process is killed. Across machines the socket is TCP. A waiting side sleeps in a read. The end
of the other process reaches it as end-of-file, and the loss of a machine through TCP keep-alive.
"""

import hashlib
import hmac
import os
import secrets
import select
import socket
import struct
from typing import Any, TypeVar

import msgspec

SOCKET_VARIABLE = "BENCH_SOCKET"
TOKEN_VARIABLE = "BENCH_TOKEN"
"""Environment variables with the address to which a group's ranks report, and with the secret that lets them
in (any local user could connect)."""

HANDSHAKE_SECONDS = 10

IDLE_SECONDS, PROBE_SECONDS, PROBES = 10, 5, 4
"""TCP keep-alive: after 10 idle seconds the kernel probes the other machine every 5 seconds, 4 times.
So a machine that has gone is noticed after 30 seconds."""

LENGTH = struct.Struct(">I")  # before each message: its bytes
LONGEST_MESSAGE = 64 << 20  # bytes; the harness sends no longer message

T = TypeVar("T")

_HANDSHAKE: "msgspec.msgpack.Decoder[dict[str, Any]]" = msgspec.msgpack.Decoder(dict[str, Any])


class Closed(Exception):
    """The other side has ended."""


class Refused(Exception):
    """One side does not know the other's secret."""


class Channel:
    """One end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._received = b""

    def send(self, message: object) -> None:
        """Send a msgspec Struct, a dataclass, or plain data; Closed if there is nobody to read it."""
        try:
            encoded = msgspec.msgpack.encode(message)
            self.socket.sendall(LENGTH.pack(len(encoded)) + encoded)
        except OSError as error:
            raise Closed from error

    def receive(self, decoder: "msgspec.msgpack.Decoder[T]") -> T:
        """The next message, for which it sleeps; `Closed` if none will come, ValueError if it is another."""
        while (message := self.receive_if_complete(decoder)) is None:
            pass
        return message

    def receive_if_complete(self, decoder: "msgspec.msgpack.Decoder[T]") -> T | None:
        """Read once; a message if one is complete by now, else None. Raises as `receive` does."""
        if (end := self._end()) is None:
            try:
                part = self.socket.recv(1 << 16)
            except OSError as error:
                raise Closed from error
            if not part:
                raise Closed
            self._received += part
            if (end := self._end()) is None:
                return None
        encoded, self._received = self._received[LENGTH.size : end], self._received[end:]
        try:
            return decoder.decode(encoded)
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from error

    def _end(self) -> int | None:
        """Return where the first message ends in what has been received; None if it is not complete."""
        if len(self._received) < LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._received)
        if length > LONGEST_MESSAGE:
            raise ValueError(f"a message of {length} bytes is none of ours")
        end = LENGTH.size + int(length)
        return end if len(self._received) >= end else None

    def has_closed(self) -> bool:
        """Whether the other side has ended, without waiting and without taking what it has sent."""
        try:
            readable, _, _ = select.select([self.socket], [], [], 0)
            return bool(readable) and not self.socket.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def close(self) -> None:
        """Let the other side see end-of-file."""
        self.socket.close()


class Listener:
    """Where the ranks of one group, or all nodes, report: on TCP if a host is given, else on this machine."""

    def __init__(self, host: str | None = None, port: int = 0, *, secret: str | None = None) -> None:
        self.secret = secret or secrets.token_hex(32)
        if host is None:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            name = f"bench-{os.getpid()}-{secrets.token_hex(8)}"
            self.socket.bind(f"\0{name}")
            self.socket.listen(128)
            self.address = f"unix:{name}"
        else:
            self.socket = socket.create_server((host, port), backlog=128)
            host, port = self.socket.getsockname()
            self.address = f"tcp:{host}:{port}"

    def variables(self) -> dict[str, str]:
        """What the ranks need to connect."""
        return {SOCKET_VARIABLE: self.address, TOKEN_VARIABLE: self.secret}

    @property
    def port(self) -> int:
        """The port of TCP."""
        return int(self.address.rpartition(":")[2])

    def accept(self, greetings: "msgspec.msgpack.Decoder[T]") -> tuple[Channel, T] | None:
        """Return a channel and its greeting; None if the caller does not know the secret."""
        connection, _ = self.socket.accept()
        if connection.family != socket.AF_UNIX:
            _watch_the_line(connection)
        connection.settimeout(HANDSHAKE_SECONDS)
        channel = Channel(connection)
        try:
            _admit(channel, self.secret)
            greeting = channel.receive(greetings)
        except (Closed, Refused, ValueError, KeyError, TypeError):
            channel.close()
            return None
        connection.settimeout(None)
        return channel, greeting

    def close(self) -> None:
        """Stop listening."""
        self.socket.close()


def connect(greeting: object) -> Channel:
    """The rank's side: connect to the coordinator and say who we are."""
    channel = dial(os.environ[SOCKET_VARIABLE])
    introduce(channel, os.environ[TOKEN_VARIABLE], greeting)
    return channel


def dial(address: str, seconds: float | None = None) -> Channel:
    """Connect to a listener's address; OSError if there is none, or not within `seconds`."""
    kind, _, where = address.partition(":")
    if kind == "unix":
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(f"\0{where}")
    else:
        host, _, port = where.rpartition(":")
        connection = socket.create_connection((host, int(port)), timeout=seconds)
        connection.settimeout(None)
        _watch_the_line(connection)
    return Channel(connection)


def introduce(channel: Channel, secret: str, greeting: object) -> None:
    """Prove to each other that both know the secret, which is never sent; then say who we are."""
    theirs = str(channel.receive(_HANDSHAKE)["challenge"])
    ours = secrets.token_hex(32)
    channel.send({"challenge": ours, "proof": _proof(secret, "caller", theirs, ours)})
    answer = channel.receive(_HANDSHAKE)
    if not hmac.compare_digest(str(answer.get("proof")), _proof(secret, "listener", theirs, ours)):
        raise Refused
    channel.send(greeting)


def _admit(channel: Channel, secret: str) -> None:
    """The other side of `introduce`, up to the greeting."""
    ours = secrets.token_hex(32)
    channel.send({"challenge": ours})
    caller = channel.receive(_HANDSHAKE)
    theirs = str(caller["challenge"])
    if not hmac.compare_digest(str(caller["proof"]), _proof(secret, "caller", ours, theirs)):
        channel.send({"proof": None})
        raise Refused
    channel.send({"proof": _proof(secret, "listener", ours, theirs)})


def _proof(secret: str, role: str, listener_challenge: str, caller_challenge: str) -> str:
    """HMAC over role and both challenges; the role prevents reflecting a challenge."""
    return hmac.new(
        secret.encode(), f"{role} {listener_challenge} {caller_challenge}".encode(), hashlib.sha256
    ).hexdigest()


def _watch_the_line(connection: socket.socket) -> None:
    """Have the kernel notice a machine that has gone, whether or not data is being sent to it."""
    patience_ms = 1000 * (IDLE_SECONDS + PROBE_SECONDS * PROBES)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_NODELAY, 1),  # a request is one small packet, and a rank waits for it
        (socket.TCP_KEEPIDLE, IDLE_SECONDS),
        (socket.TCP_KEEPINTVL, PROBE_SECONDS),
        (socket.TCP_KEEPCNT, PROBES),
        (socket.TCP_USER_TIMEOUT, patience_ms),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)

"""`python -m bench.cluster.node HOST:PORT`: serves a comparison that is run on another machine.

Reports to the coordinator that listens at HOST:PORT (its device.rdzv_endpoint), starts and signals ranks as
it is asked to, and ends all of them when the coordinator ends; then it waits for the next. Imports no torch.
The exit status is 0 after Ctrl-C, SIGTERM or a wait in vain, 2 if it was refused.
"""

import argparse
import itertools
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.cluster.meeting import Meeting, gloo_interface, shared_secret
from bench.config.device import host_and_port
from bench.errors import UserError
from bench.launch.channel import Channel, Closed, Message, Refused, dial, introduce
from bench.launch.lifeline import Terminated
from bench.launch.part import LocalPart
from bench.launch.scratch import Scratch
from bench.launch.spec import WorkerSpec
from bench.machine import fingerprint, source_code
from bench.machine.gpus import visible_gpus
from bench.machine.telemetry.gpu_meter import GpuMeter
from bench.machine.variables import SECRET_VARIABLE, worker_variables
from bench.setup import stacks

WAIT_SECONDS = 600
RETRY_SECONDS = 1.0

OF_A_PART = ("adopt", "signal", "has_ended", "after", "states", "log_tail", "terminate", "close")
"""What a coordinator may ask of a part: the methods of `bench.launch.part.Part`."""

Say = Callable[[str], None]


def say(text: str) -> None:
    """For whoever looks at this terminal."""
    print(text, file=sys.stderr, flush=True)


class Session:
    """What one coordinator has started here; the methods `do_…` are its requests.

    Args:
        channel: to it.
        secret: that both know.
        folder: for specs and logs.
    """

    def __init__(self, channel: Channel, secret: str, folder: Path) -> None:
        self.channel = channel
        self.secret = secret
        self.folder = folder
        self.parts: dict[str, LocalPart] = {}
        self.devices: dict[str, GpuMeter] = {}
        self.coordinator = channel.socket.getpeername()[0]
        self.own_address = channel.socket.getsockname()[0]
        self.cores = os.sched_getaffinity(0)

    def serve(self) -> None:
        """Answer requests until the coordinator ends; then nothing that was started here is left."""
        with ExitStack() as stack:
            stack.callback(self._close)
            while True:
                try:
                    self.channel.send(self._answer(self.channel.receive()))
                except Closed:
                    return

    def _answer(self, request: Message) -> Message:
        action = request.pop("do")
        try:
            return {"result": getattr(self, f"do_{action}")(**request)}
        except Exception as error:
            traceback.print_exc()
            return {"failed": f"{type(error).__name__}: {error}"}

    def _close(self) -> None:
        for part in self.parts.values():
            part.close()
        os.sched_setaffinity(0, self.cores)

    def do_describe(self, settings: dict[str, Any], names: Sequence[str]) -> Message:
        """The environment of each stack; None of one that is not set up here."""
        return {
            name: None if stacks.installed(name) is None else fingerprint.take(settings, name)
            for name in names
        }

    def do_tell(self, text: str) -> None:
        """Something for whoever looks at this terminal."""
        say(text)

    def do_start(
        self,
        part: str,
        number: int,
        meeting: dict[str, Any],
        spec: dict[str, Any],
        settings: dict[str, Any],
        stack: str,
    ) -> None:
        """Start a group's ranks on this node, which is the `number`-th, and keep off their cores."""
        installed = stacks.installed(stack)
        if installed is None:
            raise UserError(f"the {stack} stack is not set up here; run `make setup STACK={stack}`.")
        met, told = Meeting(**meeting), WorkerSpec.of(spec)
        os.sched_setaffinity(0, self.cores - set(itertools.chain(*told.cores)) or self.cores)
        self.parts[part] = LocalPart(
            told,
            arguments=met.arguments(host=self.coordinator, node=number),
            folder=self.folder / part,
            variables={
                **gloo_interface(self.own_address),
                **worker_variables(os.environ, **settings, prefix=installed.prefix),
                **met.variables(host=self.coordinator, secret=self.secret),
            },
            interpreter=installed.interpreter,
            name=f"node {number} ({socket.gethostname()})",
        )

    def do_part(self, part: str, action: str, arguments: dict[str, Any]) -> Any:
        """A request to one of them."""
        if action not in OF_A_PART:
            raise ValueError(f"{action!r} is not a request to a part")
        answer = getattr(self.parts[part], action)(**arguments)
        if action == "close":
            del self.parts[part]
        return vars(answer) if action == "after" else answer

    def do_sample(self, uuid: str) -> Message:
        """Look at one GPU; the sample's fields, and why some of them are None."""
        device = self.devices.setdefault(uuid, GpuMeter(uuid))
        return {"sample": vars(device.sample()), "absent": device.absent}


def greeting() -> Message:
    """What the coordinator is told first: enough to see whether both speak the same language."""
    return {
        "host": socket.gethostname(),
        "code": source_code.code_hash(),
        "commit": source_code.git_commit(),
        "cores": sorted(os.sched_getaffinity(0)),
        "gpus": [gpu.uuid for gpu in visible_gpus()],
    }


def reach(endpoint: str, secret: str, wait_s: float) -> Channel | None:
    """A channel to the coordinator, once there is one; None if there was none in time.

    Raises:
        UserError: there is one with another secret, or no such host.
    """
    end = time.monotonic() + wait_s
    host, port = host_and_port(endpoint)
    try:
        socket.getaddrinfo(host, port)
    except socket.gaierror as error:
        raise UserError(f"{host} is not known here ({error.strerror}); give its address instead.") from None
    ourselves = greeting()
    say(f"{ourselves['host']}: waiting up to {wait_s:g} s for the coordinator at {endpoint}; Ctrl-C ends")
    while (left := end - time.monotonic()) > 0:
        channel = None
        try:
            channel = dial(f"tcp:{endpoint}", min(left, 10))
            channel.socket.settimeout(left)  # it takes callers when it needs them
            introduce(channel, secret, ourselves)
            channel.socket.settimeout(None)
            return channel
        except Refused:
            raise UserError(
                f"The coordinator at {endpoint} has another {SECRET_VARIABLE}; set the same on all nodes."
            ) from None
        except (OSError, Closed, ValueError, KeyError):
            if channel is not None:
                channel.close()
            time.sleep(min(RETRY_SECONDS, left))
    return None


def serve(endpoint: str, *, wait_s: float, once: bool) -> None:
    """Serve one coordinator after another, or only one.

    Raises:
        UserError: it cannot be reached, whatever happens.
    """
    secret = shared_secret()
    try:
        host_and_port(endpoint)
    except ValueError as error:
        raise UserError(f"{endpoint} {error}.") from None
    while (channel := reach(endpoint, secret, wait_s)) is not None:
        say(f"serving {endpoint}")
        scratch = Scratch()
        try:
            Session(channel, secret, scratch.path).serve()
        finally:
            scratch.remove()
            channel.close()
        say("the coordinator has ended, and so has all that it started here")
        if once:
            return
    say(f"no coordinator came in {wait_s:g} seconds")


def main() -> int:
    """Run the command line in `sys.argv`; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster.node", description=__doc__.splitlines()[0])
    parser.add_argument("endpoint", metavar="HOST:PORT", help="the coordinator's device.rdzv_endpoint")
    parser.add_argument(
        "--wait", type=float, default=WAIT_SECONDS, metavar="SECONDS", help="for a coordinator, each time"
    )
    parser.add_argument("--once", action="store_true", help="end with the first coordinator")
    given = parser.parse_args()
    Terminated.catch()
    try:
        serve(given.endpoint, wait_s=given.wait, once=given.once)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        say("ended")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m bench.plugins.cluster.node_agent HOST:PORT`: serves a comparison that is run on another machine.

Reports to the coordinator that listens at HOST:PORT (its device.rdzv_endpoint), starts and signals ranks as
it is asked to, and ends all of them when the coordinator ends; then it waits for the next. Imports no torch.
The exit status is 2 if it was refused, else 0, after Ctrl-C and SIGTERM, too.
"""

import argparse
import itertools
import os
import socket
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.config.device import host_and_port
from bench.errors import Terminated, UserError
from bench.launch.channel import Channel, Closed, Refused, dial, introduce
from bench.launch.local_ranks import LocalRanks
from bench.launch.scratch import Scratch
from bench.machine import environment, source_code
from bench.machine.gpus import visible_gpus
from bench.machine.telemetry.gpu_meter import GpuMeter
from bench.machine.variables import SECRET_VARIABLE, worker_variables
from bench.plugins.cluster.messages import (
    NODE_REQUESTS,
    Answered,
    AnyNodeRequest,
    AskRanks,
    CouldNot,
    DescribeEnvironment,
    NodeAnswer,
    NodeGreeting,
    SampleGpu,
    StartRanks,
)
from bench.plugins.cluster.rendezvous import gloo_interface, shared_secret
from bench.setup import stacks

WAIT_SECONDS = 600
RETRY_SECONDS = 1.0


def say(text: str) -> None:
    """Print a line in this terminal."""
    print(text, file=sys.stderr, flush=True)


@dataclass
class Session:
    """Serves one coordinator: what it has started here, and its requests."""

    channel: Channel  # to it
    secret: str  # that both know
    folder: Path  # for specs and logs
    ranks_by_id: dict[str, LocalRanks] = field(default_factory=dict)
    meters: dict[str, GpuMeter] = field(default_factory=dict)  # by UUID
    cores: set[int] = field(default_factory=lambda: os.sched_getaffinity(0))

    def serve(self) -> None:
        """Answer requests until the coordinator ends; then nothing that was started here is left."""
        try:
            with suppress(Closed):
                while True:
                    self.channel.send(self._answer(self.channel.receive(NODE_REQUESTS)))
        finally:
            for ranks in self.ranks_by_id.values():
                ranks.close()
            os.sched_setaffinity(0, self.cores)

    def _answer(self, request: AnyNodeRequest) -> NodeAnswer:
        try:
            return Answered(value=self._carry_out(request))
        except Exception as error:
            traceback.print_exc()
            return CouldNot(reason=f"{type(error).__name__}: {error}")

    def _carry_out(self, request: AnyNodeRequest) -> Any:
        match request:
            case DescribeEnvironment():
                return {
                    name: environment.take(request.settings, name) if stacks.installed(name) else None
                    for name in request.stacks
                }
            case SampleGpu():
                meter = self.meters.setdefault(request.uuid, GpuMeter(request.uuid))
                return meter.sample(), meter.absent
            case StartRanks():
                return self._start(request)
            case AskRanks(method="close"):
                if closed := self.ranks_by_id.pop(request.ranks_id, None):  # it may be asked twice
                    closed.close()
                return None
            case AskRanks():
                return getattr(self.ranks_by_id[request.ranks_id], request.method)(*request.arguments)

    def _start(self, request: StartRanks) -> None:
        """Start a group's ranks on this node, and keep off their cores."""
        installed = stacks.installed(request.stack)
        if installed is None:
            raise UserError(
                f"the {request.stack} stack is not set up here; run `make setup STACK={request.stack}`."
            )
        rendezvous = request.rendezvous
        coordinator, own_address = self.channel.socket.getpeername()[0], self.channel.socket.getsockname()[0]
        os.sched_setaffinity(0, self.cores - set(itertools.chain(*request.spec.cores)) or self.cores)
        self.ranks_by_id[request.ranks_id] = LocalRanks(
            request.spec,
            arguments=rendezvous.arguments(host=coordinator, node=request.node_rank),
            folder=self.folder / request.ranks_id,
            variables={
                **gloo_interface(own_address),
                **worker_variables(os.environ, **request.settings, prefix=installed.prefix),
                **rendezvous.variables(host=coordinator, secret=self.secret),
            },
            interpreter=installed.interpreter,
            name=f"node {request.node_rank} ({socket.gethostname()})",
        )


def greeting() -> NodeGreeting:
    """The first message, in which this node says what it is."""
    gpus = visible_gpus()
    return NodeGreeting(
        host=socket.gethostname(),
        code=source_code.code_hash(),
        commit=source_code.git_commit(),
        cores=sorted(os.sched_getaffinity(0)),
        gpus=[gpu.uuid for gpu in gpus],
        near_cores=[list(gpu.near_cores) for gpu in gpus],
    )


def reach(endpoint: str, secret: str, wait_s: float) -> Channel | None:
    """A channel to the coordinator at HOST:PORT; None if there was none in time.

    The host's name may not be known yet, or no more: a container of a cluster has its name while it runs.
    UserError if the coordinator has another secret.
    """
    ourselves, last = greeting(), ""
    end = time.monotonic() + wait_s
    say(f"{ourselves.host}: waiting up to {wait_s:g} s for the coordinator at {endpoint}; Ctrl-C ends")
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
        except (OSError, Closed, ValueError, KeyError) as error:
            if channel is not None:
                channel.close()
            last = str(error)
            time.sleep(min(RETRY_SECONDS, left))
    say(f"no coordinator came to {endpoint} in {wait_s:g} seconds ({last})")
    return None


def serve(endpoint: str, *, wait_s: float, once: bool) -> None:
    """Serve one coordinator after another, or only one; UserError if the endpoint is none."""
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


def main() -> int:
    """Run the command line in `sys.argv`; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.plugins.cluster.node_agent",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("endpoint", metavar="HOST:PORT", help="the coordinator's device.rdzv_endpoint")
    parser.add_argument(
        "--wait", type=float, default=WAIT_SECONDS, metavar="SECONDS", help="for a coordinator, each time"
    )
    parser.add_argument("--once", action="store_true", help="end with the first coordinator")
    options = parser.parse_args()
    Terminated.catch()
    try:
        serve(options.endpoint, wait_s=options.wait, once=options.once)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        say("ended")
    return 0


if __name__ == "__main__":
    sys.exit(main())

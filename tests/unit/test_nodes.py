"""Several nodes: what is refused, who is let in, what becomes of a node that is lost."""

import dataclasses
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.config.compose import compose
from bench.config.device import Device
from bench.config.identity import config_hash, measured_settings
from bench.config.naming import file_stem
from bench.config.schema import Config
from bench.errors import LaunchFailed, UserError
from bench.launch.channel import Channel, Listener, Refused, dial, introduce
from bench.machine.variables import worker_variables
from bench.measure.comparison import Comparison
from bench.measure.plan.preflight import check_machine
from bench.plugins.cluster import node_agent as node_program
from bench.plugins.cluster.messages import NODE_REQUESTS, Answered, DescribeEnvironment, SampleGpu
from bench.plugins.cluster.node_pool import NodePool, RemoteDevice
from bench.plugins.cluster.rendezvous import Port, Rendezvous, gloo_interface, shared_secret, token
from tests.support.configs import a_config

pytestmark = pytest.mark.once

PLAIN: "msgspec.msgpack.Decoder[Any]" = msgspec.msgpack.Decoder()
SECRET = "a secret of sixteen or more"


def a_device(**changes: Any) -> Device:
    figures: dict[str, Any] = {"type": "cpu", "world_size": 2, "threads": 1, "pin_cores": True}
    figures |= {"allocator": "tuned", "nnodes": 2, "rdzv_endpoint": "127.0.0.1:29400"}
    return Device(**figures | changes)


def two_nodes(folder: Path, **device: Any) -> Config:
    return dataclasses.replace(a_config(folder), device=a_device(**device))


# --- the configuration --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"world_size": 3}, r"device.world_size=3 cannot be shared equally by device.nnodes=2; .*size=2"),
        ({"world_size": 2, "nnodes": 4}, r"device.nnodes=4; set device.world_size=4"),
        ({"nnodes": 0}, "device.nnodes must be at least 1"),
        ({"rdzv_endpoint": None}, "set device.rdzv_endpoint=HOST:PORT"),
        ({"nnodes": 1}, "device.rdzv_endpoint=.* has no meaning on one node"),
        ({"rdzv_endpoint": "node0"}, "device.rdzv_endpoint=node0 is not HOST:PORT"),
        ({"rdzv_endpoint": "node0:99999"}, "has no possible port"),
        ({"rdzv_timeout_s": 0}, "device.rdzv_timeout_s must be above 0"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        a_device(**changes)


def test_where_the_nodes_meet_is_neither_in_the_file_s_name_nor_in_the_hash() -> None:
    overrides = ["device=cpu", "model=bert-tiny", "device.nnodes=2", "device.world_size=2"]
    here = [*overrides, "device.rdzv_endpoint=a:1"]
    there = [*overrides, "device.rdzv_endpoint=b:2", "device.rdzv_timeout_s=9"]
    one, other = compose(here), compose(there)
    names = {file_stem(one, "cpu"), file_stem(other, "cpu")}
    assert [name[:-5] for name in names] == ["bert-tiny-cpux2-nnodes-2"]
    assert config_hash(one) == config_hash(other)
    assert measured_settings(one)["device"]["nnodes"] == 2


def test_a_node_needs_cores_and_gpus_for_its_own_ranks_only(tmp_path: Path) -> None:
    check_machine(two_nodes(tmp_path, world_size=4), cores=2, gpus=0)
    with pytest.raises(
        UserError, match=r"need 2 cores on each of device.nnodes=2, .* set device.world_size=2"
    ):
        check_machine(two_nodes(tmp_path, world_size=4), cores=1, gpus=0)


# --- who is let in ------------------------------------------------------------------------------------


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("BENCH_SECRET", SECRET)
    return SECRET


@pytest.mark.parametrize("value", ["", "too short"])
def test_without_a_secret_nobody_starts(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_SECRET", value)
    with pytest.raises(UserError, match=r"need BENCH_SECRET, .*export BENCH_SECRET=\$\(openssl rand"):
        shared_secret()


def met(listener: Listener, secret: str) -> tuple[tuple[Channel, dict[str, Any]] | None, bool]:
    """What the listener makes of a caller with this secret, and whether the caller was refused."""

    def call() -> bool:
        channel = dial(listener.address, 5)
        try:
            introduce(channel, secret, {"host": "there"})
        except Refused:
            return True
        return False

    with ThreadPoolExecutor() as caller:
        refused = caller.submit(call)
        return listener.accept(PLAIN), refused.result()


@pytest.mark.parametrize("host", [None, "127.0.0.1"])
def test_only_who_knows_the_secret_is_heard(host: str | None) -> None:
    listener = Listener(host, secret=SECRET)
    assert met(listener, "another secret") == (None, True)
    accepted, refused = met(listener, SECRET)
    assert accepted is not None
    assert accepted[1] == {"host": "there"}
    assert not refused
    listener.close()


def test_a_listener_that_does_not_know_the_secret_is_not_obeyed() -> None:
    ours, theirs = (Channel(one) for one in socket.socketpair())
    theirs.send({"challenge": "1"})
    theirs.send({"proof": "made up"})
    with pytest.raises(Refused):
        introduce(ours, SECRET, {})


def test_the_secret_never_crosses_the_network_nor_reaches_a_worker(tmp_path: Path) -> None:
    rendezvous = Rendezvous(id="1", nnodes=2, ranks_per_node=1, rendezvous_port=5, report_port=6)
    told = json.dumps(dataclasses.asdict(rendezvous)) + " ".join(rendezvous.arguments(host="h", node=1))
    assert SECRET not in told
    assert token(SECRET, "1") not in told
    assert (
        rendezvous.variables(host="h", secret=SECRET)["BENCH_TOKEN"]
        == token(SECRET, "1")
        != token(SECRET, "2")
    )
    settings: dict[str, Any] = {"device": "cpu", "threads": 1, "allocator": "tuned", "precision": "fp32"}
    settings["blas"] = "stock"
    assert "BENCH_SECRET" not in worker_variables({"BENCH_SECRET": SECRET}, checkpointing=False, **settings)


def test_a_line_between_machines_is_watched_by_the_kernel() -> None:
    listener = Listener("127.0.0.1", secret=SECRET)
    accepted, _ = met(listener, SECRET)
    assert accepted is not None
    line = accepted[0].socket
    assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    idle, every, times = (
        line.getsockopt(socket.IPPROTO_TCP, option)
        for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    )
    assert idle + every * times == 30
    assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
    listener.close()


def test_ranks_are_numbered_in_the_order_of_the_nodes_and_every_group_has_its_own_port() -> None:
    ports = [Port(), Port()]
    assert ports[0].number != ports[1].number
    rendezvous = Rendezvous(
        id="x", nnodes=3, ranks_per_node=2, rendezvous_port=ports[0].number, report_port=1
    )
    arguments = rendezvous.arguments(host="10.0.0.1", node=2)
    assert {"--rdzv-backend=static", "--node-rank=2", "--nnodes=3", "--rdzv-id=x"} <= set(arguments)
    assert f"--rdzv-endpoint=10.0.0.1:{ports[0].number}" in arguments
    for port in ports:
        port.release()


def test_a_port_is_kept_for_the_one_who_will_listen_there() -> None:
    port = Port()
    with socket.socket() as somebody, pytest.raises(OSError, match="in use"):
        somebody.bind(("", port.number))
    with socket.create_server(("", port.number)):  # sets SO_REUSEADDR, as torch's store does
        pass
    port.release()


def test_gloo_is_kept_to_the_interface_of_the_node_s_own_address() -> None:
    assert gloo_interface("127.0.0.2") == gloo_interface("127.0.0.1") != {}
    assert gloo_interface("192.0.2.77") == {}


# --- how a node finds the coordinator -----------------------------------------------------------------


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the node's program says; it does not rest between two attempts."""
    lines: list[str] = []
    monkeypatch.setattr(node_program, "say", lines.append)
    monkeypatch.setattr(node_program, "RETRY_SECONDS", 0.01)
    return lines


def test_a_node_that_starts_before_the_coordinator_serves_once_and_ends(
    secret: str, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is the coordinator's name known at first, as that of a container."""
    original, asked = socket.getaddrinfo, []

    def resolve(host: Any, *more: Any, **named: Any) -> Any:
        asked.append(host)
        if len(asked) < 3:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return original("127.0.0.1", *more, **named)

    listener = Listener("127.0.0.1", secret=secret)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with ThreadPoolExecutor() as pool:
        coordinator = pool.submit(listener.accept, PLAIN)
        node = pool.submit(node_program.serve, f"bench-0:{listener.port}", wait_s=60, once=True)
        accepted = coordinator.result(10)
        assert accepted is not None
        accepted[0].close()
        node.result(10)
    listener.close()
    assert said[-1] == "the coordinator has ended, and so has all that it started here"


# --- the nodes of a comparison, with a program that starts nothing ------------------------------------


class FakeProgram:
    """Stands for `bench.plugins.cluster.node_agent` on another machine: answers with what it was given."""

    def __init__(self, listener_address: str, answers: dict[type, Any], **greeting: Any) -> None:
        self.asked: list[Any] = []
        self.answers = answers
        self.greeting = msgspec.structs.replace(node_program.greeting(), **{"host": "there"} | greeting)
        self.channel = dial(listener_address, 5)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        introduce(self.channel, SECRET, self.greeting)
        with ExitStack() as stack:
            stack.callback(self.channel.close)
            while True:
                try:
                    request = self.channel.receive(NODE_REQUESTS)
                except Exception:
                    return
                self.asked.append(request)
                answer = self.answers.get(type(request))
                self.channel.send(Answered(value=answer(request) if callable(answer) else answer))

    def kill(self) -> None:
        self.channel.socket.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def nodes(tmp_path: Path, secret: str) -> Iterator[NodePool]:
    said: list[str] = []
    made = NodePool(
        two_nodes(tmp_path, rdzv_endpoint=f"127.0.0.1:{free_port()}", rdzv_timeout_s=2), said.append
    )
    made.said = said  # type: ignore[attr-defined]
    yield made
    made.close()


def free_port() -> int:
    port = Port()
    port.release()
    return port.number


def a_program(
    nodes: NodePool, change: Callable[[dict[str, Any]], None] = lambda _: None, **more: Any
) -> FakeProgram:
    """One whose environment is ours but for `change`."""
    theirs = json.loads(json.dumps(nodes.own_environments))
    for environment in theirs.values():
        change(environment)
    answers = {DescribeEnvironment: theirs, **more.pop("answers", {})}
    return FakeProgram(nodes.listener.address, answers, **more)


def test_nodes_that_never_come_are_refused_after_the_time_out_with_the_remedy(nodes: NodePool) -> None:
    nodes.device.rdzv_timeout_s = 0.1
    words = r"0 of 1 other nodes reported at .* run `make node COORDINATOR=127.0.0.1:\d+` on each"
    with pytest.raises(UserError, match=words):
        nodes.gather()


@pytest.mark.parametrize(
    ("entry", "key", "value", "words"),
    [
        ("packages", "torch", "1.0", r"node 1 \(there\) cannot take part: .* packages.torch: .*, there 1.0;"),
        ("cpu", "cores", 77, r"it differs from this one in cpu.cores: \d+, there 77; make them equal"),
        ("variables", "NCCL_ALGO", "Ring", r"variables.NCCL_ALGO: missing, there Ring"),
    ],
)
def test_a_node_that_differs_is_refused(
    nodes: NodePool, entry: str, key: str, value: Any, words: str
) -> None:
    a_program(nodes, lambda environment: environment[entry].update({key: value}))
    with pytest.raises(UserError, match=words):
        nodes.gather()


def test_a_node_with_other_code_is_refused_before_it_is_asked_anything_else(nodes: NodePool) -> None:
    program = a_program(nodes, code="0" * 16, commit="abc")
    with pytest.raises(UserError, match="its checkout is at commit abc and this one at"):
        nodes.gather()
    assert program.asked == []


def test_a_little_memory_and_the_names_of_interfaces_may_differ(nodes: NodePool) -> None:
    def change(environment: dict[str, Any]) -> None:
        environment["memory_gib"] *= 1.01
        environment["variables"]["GLOO_SOCKET_IFNAME"] = "eth7"

    program = a_program(nodes, change)
    nodes.gather()
    program.kill()


def test_nodes_are_numbered_by_name_whoever_comes_first(tmp_path: Path, secret: str) -> None:
    config = two_nodes(tmp_path, nnodes=3, world_size=3, rdzv_endpoint=f"127.0.0.1:{free_port()}")
    three = NodePool(config, lambda _: None)
    a_program(three, host="b")
    time.sleep(0.1)
    a_program(three, host="a")
    three.gather()
    assert [node.name for node in three.members] == ["node 1 (a)", "node 2 (b)"]
    three.close()


def test_without_a_node_that_was_lost_launches_are_skipped(nodes: NodePool) -> None:
    a_program(nodes)
    nodes.gather()
    nodes.require()
    nodes.members[0].channel.socket.shutdown(socket.SHUT_RDWR)
    assert nodes.members[0].is_lost()
    with pytest.raises(
        LaunchFailed, match=r"node 1 \(there\) was lost before; .* with resume=true"
    ) as caught:
        nodes.require()
    assert caught.value.status == "skipped"


def test_a_node_that_does_not_answer_counts_as_lost(nodes: NodePool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.plugins.cluster.remote_ranks.ANSWER_SECONDS", 0.1)
    a_program(nodes, answers={SampleGpu: lambda _: time.sleep(1)}, gpus=["GPU-1"])
    nodes.gather()
    device = RemoteDevice(nodes, 0, 0)
    assert device.sample().used_bytes is None
    assert device.absent == {"node": "node 1 (there) was lost: figures of its GPUs are missing"}
    assert nodes.members[0].is_lost()


def test_a_gpu_of_another_node_is_looked_at_through_its_program(nodes: NodePool) -> None:
    fields = {"used_bytes": 7, "utilisation_percent": 1, "sm_clock_mhz": 2, "temperature_c": 3}
    sample = {**fields, "power_watts": None, "throttled_by": ["power cap"]}
    program = a_program(
        nodes,
        answers={SampleGpu: lambda _: [dict(sample), {"gpu_power": "NVML: no"}]},
        gpus=["GPU-1", "GPU-2"],
    )
    nodes.gather()
    device = RemoteDevice(nodes, 0, 1)
    seen = device.sample()
    assert (seen.used_bytes, seen.throttled_by) == (7, ("power cap",))
    assert device.absent == {"gpu_power": "NVML: no"}
    assert program.asked[-1] == SampleGpu(uuid="GPU-2")
    program.kill()


def test_a_coordinator_that_is_told_of_several_nodes_but_has_none_refuses(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="one node only"):
        Comparison(two_nodes(tmp_path), "m-cpux2")

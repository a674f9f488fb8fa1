"""Parts of steps for real: what each sharding sends, what shapes say, and a slow link between two nodes."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench.analysis.scale.sendings import sendings, sent_in_a_step
from bench.config.backend import Backend
from bench.config.schema import Config
from bench.errors import UserError
from bench.measure.comparison import Comparison
from bench.results.collectives import sent_bytes
from bench.scale.facts import facts_of
from bench.scale.links import Node, two_nodes
from bench.scale.measured import Measured, read_measured
from bench.setup import stacks
from tests.support.configs import SMALL, a_config, a_model
from tests.support.factories import facts_of_shapes

pytestmark = [pytest.mark.exhaustive, pytest.mark.usefixtures("forked")]

WORDS = 4096
"""Of the vocabulary, so that stage 3 does not leave every tensor whole."""

EVERY_KIND = ("ddp", "zero1", "zero3")
EVERY = (*EVERY_KIND, "zero2", "zero_redundancy")

COUNTED = {"ddp": 2.0, "zero_redundancy": 3.0, "zero1": 3.0, "zero2": 5.0, "zero3": 3.0}
"""Numbers per parameter that libraries send; `bench.analysis.scale.sendings` says why they are not
`TEXTBOOK`'s."""


@pytest.mark.once  # the rules are those of the pinned DeepSpeed and torch
@pytest.mark.parametrize("shardings", [EVERY_KIND, pytest.param(EVERY, marks=pytest.mark.exhaustive)])
def test_every_sharding_sends_what_its_rule_says(shardings: Sequence[str], tmp_path: Path) -> None:
    """DDP by hooks of C++, DeepSpeed from Python: all of it passes torch's dispatcher, where it is
    counted."""
    config, measured = taken_apart(tmp_path, shardings, parts="step")
    table = measured.parts

    tensors = trained_tensors()
    facts = facts_of_shapes(tensors)
    for sharding in shardings:
        mine = table[(table["backend"] == sharding) & (table["item"] == "collective")]
        counted = measured.counted(sharding)
        rules = sendings(sharding, facts, ranks=2, on_cuda=False)
        sent = sum(sent_bytes(one, 2) * calls for one, calls in counted.items())
        assert sent == sent_in_a_step(rules, 2, config.grad_accum), sharding
        volume = sent * 2 / 4 / sum(tensors)  # half of it is another rank's, a number has 4 bytes
        assert volume == pytest.approx(COUNTED[sharding], abs=0.01)
        assert mine["seconds"].gt(0).all(), "each was timed alone"

    parts = table[(table["backend"] == "ddp") & (table["item"] == "part")].set_index("name")["seconds"]
    assert set(parts.index) == {"forward", "backward", "update", "copies", "whole", "together"}
    passes = config.grad_accum * (parts["forward"] + parts["backward"])
    assert passes + parts["update"] == pytest.approx(parts["whole"], rel=0.5)
    ready = table[(table["backend"] == "ddp") & (table["item"] == "gradients")]
    assert ready["elements"].iloc[-1] == sum(tensors)
    assert ready["share"].is_monotonic_increasing
    refused = table[(table["backend"] == "zero1") & (table["status"] != "ok")]
    assert "has no step without communication" in refused["message"].iloc[0]


@pytest.mark.skipif(stacks.own() != "modern", reason="about today's torch")
def test_fsdp2_sends_what_its_rule_says(tmp_path: Path) -> None:
    config, measured = taken_apart(tmp_path, ("ddp", "fsdp2"), parts="count")
    counted = measured.counted("fsdp2")
    facts = facts_of_shapes(trained_tensors(), layers=2, layer_parameters=2 * sum(trained_layer()))
    rules = sendings("fsdp2", facts, ranks=2, on_cuda=False)
    sent = sum(sent_bytes(one, 2) * calls for one, calls in counted.items())
    assert sent == sent_in_a_step(rules, 2, config.grad_accum)
    assert {one.kind for one in counted} == {"all_gather", "reduce_scatter"}


def taken_apart(folder: Path, shardings: Sequence[str], parts: str) -> tuple[Config, Measured]:
    """A comparison of these shardings on two ranks, named after them, and what was found of their steps."""
    model = a_model(config=a_model().config | {"vocab_size": WORDS}, parameters=SMALL + (WORDS - 512) * 65)
    config = a_config(folder, model=model, launches=0, parts=parts)
    backends = {one: Backend(engine="eager", optimizer="adamw", sharding=one) for one in shardings}
    config = replace(config, backends=backends, reference="ddp")
    Comparison(config, "m-cpux2").measure()
    (measured,) = read_measured(folder / "results")
    return config, measured


def trained_layer() -> list[int]:
    """Tensors of a layer of `a_config`'s model, as its architecture has them."""
    hidden, inner = 64, 128
    layer = [hidden * hidden, hidden] * 4 + [hidden] * 2 + [inner * hidden, inner, hidden * inner, hidden]
    return layer + [hidden] * 2


def trained_tensors() -> list[int]:
    """Of the whole model."""
    hidden, positions = 64, 64
    embeddings = [WORDS * hidden, positions * hidden, 2 * hidden, hidden, hidden]
    head = [WORDS, hidden * hidden, hidden, hidden, hidden]
    return [*embeddings, *trained_layer() * 2, *head]


LLAMA = ("model=llama-2-7b", "model.lora=null", "micro_batch=1", "seq_len=64")


@pytest.mark.once
def test_shapes_say_what_a_model_has_however_large_it_is() -> None:
    _, facts = facts_of(LLAMA)
    layer = 4 * 4096**2 + 3 * 4096 * 11_008 + 2 * 4096
    assert facts.layers == 32
    assert facts.layer_parameters == 32 * layer
    beside = facts.parameters - 32 * layer - 32_000 * 4096  # the last norm, and a score for each label
    assert beside % 4096 == 0
    assert 0 < beside < 20 * 4096
    assert sum(facts.tensors) == facts.trainable == facts.parameters
    assert facts.backward_flops == pytest.approx(2 * facts.forward_flops, rel=0.01)
    assert facts.forward_flops == pytest.approx(2 * 64 * 32 * layer, rel=0.05)
    assert facts.ready[-1].elements == facts.trainable


@pytest.mark.once
def test_shapes_say_what_a_setting_keeps_for_the_backward_pass() -> None:
    four = [*LLAMA, "model.size=layers:4"]
    _, facts = facts_of(four)
    layer = facts.layer_parameters // facts.layers
    _, longer = facts_of([*four, "micro_batch=2"])
    assert longer.activation_bytes == pytest.approx(2 * facts.activation_bytes, rel=0.02)
    _, cast = facts_of([*four, "precision=bf16"])
    # Half as much, and a copy of every weight in 16 bits, which autocast keeps for the backward pass.
    assert cast.activation_bytes == pytest.approx(facts.activation_bytes / 2 + 2 * 4 * layer, rel=0.05)
    _, kept = facts_of([*four, "checkpointing=true"])
    assert kept.activation_bytes < facts.activation_bytes / 2
    assert kept.backward_flops > 1.35 * facts.backward_flops, "the forward pass is computed again"


@pytest.mark.once
def test_a_command_that_cannot_be_counted_is_one_sentence() -> None:
    with pytest.raises(UserError, match="bert-huge"):
        facts_of(["model=bert-huge"])


@pytest.mark.once
@pytest.mark.time
def test_a_link_between_two_nodes_carries_what_it_is_told_to() -> None:
    """Rate of a plain socket through it, each way at a time, as collectives use it."""
    try:
        with two_nodes(0.1) as (first, second):
            seconds = _send(first, second, 4_000_000)
    except UserError as error:
        pytest.skip(str(error))
    # 0.32 s at the rate; what passes at once is 3 % of it, headers are 4 %.
    assert 0.28 < seconds < 0.8
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert first.namespace not in left


_RECEIVE = """
import socket, sys, time
server = socket.create_server((sys.argv[1], 40999))
print("ready", flush=True)
taken, _ = server.accept()
left, start = int(sys.argv[2]), time.perf_counter()
while left > 0:
    left -= len(taken.recv(1 << 16))
print(time.perf_counter() - start, flush=True)
"""

_SEND = """
import socket, sys
socket.create_connection((sys.argv[1], 40999)).sendall(bytes(int(sys.argv[2])))
"""


def _send(first: Node, second: Node, size: int) -> float:
    """Seconds in which so many bytes come from the second node to the first."""
    receiver = subprocess.Popen(
        first.command(sys.executable, "-c", _RECEIVE, first.address, str(size)),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert receiver.stdout is not None
    assert receiver.stdout.readline() == "ready\n"
    subprocess.run(
        second.command(sys.executable, "-c", _SEND, first.address, str(size)),
        check=True,
    )
    seconds = float(receiver.stdout.readline())
    receiver.wait()
    return seconds

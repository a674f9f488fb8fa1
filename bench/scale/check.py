"""Rows of results/predicted/checks.csv: what was predicted beside what was measured on this machine.

Bytes that a rank sends in a step: from the sharding's rules and the model's shapes, against what was counted
at the collectives. Memory of a rank: what was measured on one rank under DDP, and for more ranks and other
shardings what is counted, against what was measured there. Seconds of a step on two ranks: the parts of a
step of ranks that train apart, and the seconds of collectives that were done alone, against timed blocks;
against steps of ranks that train together, taken in turn with those parts, right after the collectives; and
as a ratio to DDP's, in which a machine's faster and slower minutes cancel out. Seconds of one collective
over a slow link: what it took without one, and the link's rate, against what it took there.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.analysis.predictions import BYTES, IN_TURN, MEMORY, QUANTITIES, RATIO, SECONDS, seconds_of_one
from bench.analysis.scale.figures import Dice, Draws, Figure, figures_of
from bench.analysis.scale.memory import predict_memory
from bench.analysis.scale.network import MeasuredRanks, TimedSize
from bench.analysis.scale.sendings import TEXTBOOK, Sending, sendings, sent_in_a_step
from bench.analysis.scale.steps import predict_step
from bench.config.overrides import last_values
from bench.errors import UserError
from bench.results.collectives import sent_bytes
from bench.results.model_facts import ModelFacts
from bench.results.prediction import DIVIDED
from bench.results.step_parts import TOGETHER
from bench.scale.facts import facts_of
from bench.scale.links import PAYLOAD_SHARE
from bench.scale.measured import CONTROL_BYTES, Measured, merge_sizes, read_measured

DDP = "ddp"
"""The sharding whose ranks' parts are timed, and whose memory on one rank is where others start from."""

LOOPBACK = "loopback"

DRAWS, SEED = 256, 1


def check_rows(folder: Path, results: Path) -> Iterator[dict[str, Any]]:
    """A row for each point that was measured in a machine's folder and can be predicted from the others.

    Raises:
        UserError: a file is damaged, or a model's shapes cannot be had.
    """
    known = read_measured(folder)
    if len({one.processor for one in known}) > 1:
        raise UserError(
            f"the files in {folder} are of several kinds of CPU",
            "keep those of each in a folder of its own",
        )
    facts: dict[tuple[str, ...], ModelFacts] = {}
    seen: set[tuple[object, ...]] = set()
    for one in known:
        workload = _workload(one)
        if workload not in facts:
            _, facts[workload] = facts_of([each for each in workload if each])
        alone = [each for each in known if each.ranks == 1 and _workload(each) == workload]
        for backend in one.backends:
            if one.text(backend, "sharding") not in TEXTBOOK:
                continue  # no rule says what it sends
            described = {
                "machine": folder.parent.name,
                "model": one.model,
                "backend": backend,
                "sharding": one.text(backend, "sharding"),
                "link": _link(one),
                "measured_in": str(one.path.relative_to(results)),
                "git_commit": one.text(backend, "git_commit"),
                "ranks": one.ranks,
            }
            for row in (
                *_bytes(one, backend, facts[workload]),
                *_memory(one, backend, facts[workload], alone),
                *_seconds(one, backend, facts[workload], alone, known),
                *_collectives(one, backend, known),
            ):
                point = (
                    workload,
                    backend,
                    one.text(backend, "stack"),
                    one.ranks,
                    described["link"],
                    row["quantity"],
                )
                if point not in seen:  # what two comparisons counted is one point
                    seen.add(point)
                    yield described | row


def _bytes(one: Measured, backend: str, facts: ModelFacts) -> Iterator[dict[str, Any]]:
    counted = sum(sent_bytes(each, one.ranks) * calls for each, calls in one.counted(backend).items())
    rules = _sendings(one, backend, facts)
    accum = one.number(backend, "grad_accum")
    predicted = sent_in_a_step(rules, one.ranks, accum, least_bytes=CONTROL_BYTES)
    if one.ranks > 1 and counted and one.bytes_per_s is None:  # a link changes nothing of it
        yield _row(BYTES, Figure.exactly(counted), Figure.exactly(predicted))


def _memory(
    one: Measured, backend: str, facts: ModelFacts, alone: Sequence[Measured]
) -> Iterator[dict[str, Any]]:
    """Without what a rank had before there was a model: libraries are no matter of the world size."""
    base = _ddp_of(one, backend)
    if base is None or (one.ranks == 1 and backend == base):
        return
    allocator = one.text(backend, "allocator")
    for source in alone:
        start = _trained_bytes(source, base)
        if source.has_same(base, one) and start is not None and source.text(base, "allocator") == allocator:
            break
    else:
        return
    measured = _trained_bytes(one, backend)
    if measured is None:
        return

    def held(sharding: str, of: Measured, name: str, activations: float) -> float:
        return float(
            predict_memory(
                sharding=sharding,
                optimizer=of.text(name, "optimizer"),
                parameters=facts.parameters,
                trainable=facts.trainable,
                activations=activations,
                world_sizes=[of.ranks],
                device="cpu" if of.on_cpu else "cuda",
            ).total[0]
        )

    activations = start - held(DDP, source, base, 0.0)
    predicted = held(one.text(backend, "sharding"), one, backend, activations)
    yield _row(MEMORY, Figure.exactly(measured), Figure.exactly(predicted))


def _seconds(
    one: Measured, backend: str, facts: ModelFacts, alone: Sequence[Measured], known: Sequence[Measured]
) -> Iterator[dict[str, Any]]:
    base = _ddp_of(one, backend)
    if base is None or one.ranks == 1:
        return
    predicted = _predicted_seconds(one, backend, base, facts, alone, known)
    if predicted is None:
        return
    measured = one.step_seconds(backend)
    if measured is not None:
        yield _row(SECONDS, measured, figures_of(predicted)[0])
    if one.has_parts(backend):
        yield _row(IN_TURN, one.part(backend, TOGETHER), figures_of(predicted)[0])
    ratio = one.step_ratio(backend, base)
    if backend == base or ratio is None:
        return
    of_base = _predicted_seconds(one, base, base, facts, alone, known)
    if of_base is not None:
        yield _row(RATIO, ratio, figures_of(predicted / of_base)[0])


def _predicted_seconds(
    one: Measured,
    backend: str,
    base: str,
    facts: ModelFacts,
    alone: Sequence[Measured],
    known: Sequence[Measured],
) -> Draws | None:
    """Of shape (draws, 1); None where something that it is made of was not measured.

    Every call draws alike, so that a ratio of two has the spread of what they do not share.
    """
    same = [
        each
        for each in sorted(known, key=lambda each: each is not one)
        if (each is one or each.bytes_per_s is None)
        and (each.ranks, _workload(each)) == (one.ranks, _workload(one))
        and each.has_same(base, one)
        and each.has_parts(base)
    ]
    own_host = _own_host_seconds(one, alone, backend, base)
    if not same or own_host is None:
        return None
    sharding, timed = one.text(backend, "sharding"), _timed(one, backend, known)
    sent = _sendings(one, backend, facts)
    if not {each.kind for each in sent} <= set(timed):
        return None
    dice = Dice(DRAWS, SEED)
    parts = same[0].parts_of(base, dice, host=own_host)
    network = MeasuredRanks(one.ranks, timed, dice, bytes_per_s=one.bytes_per_s)
    return predict_step(
        parts,
        sent,
        network,
        np.array([float(one.ranks)]),
        divides_update="optimizer" in DIVIDED[sharding],
    ).total


def _sendings(one: Measured, backend: str, facts: ModelFacts) -> list[Sending]:
    return sendings(
        one.text(backend, "sharding"),
        tensors=facts.tensors,
        ranks=one.ranks,
        on_cuda=not one.on_cpu,
        layers=max(1, facts.layers),
        layer_parameters=facts.layer_parameters if facts.layers else None,
    )


def _own_host_seconds(one: Measured, alone: Sequence[Measured], backend: str, base: str) -> float | None:
    """What a step of a sharding takes longer than DDP's on one rank, where neither sends anything.

    0 for DDP itself; None where that was not measured.
    """
    if backend == base:
        return 0.0
    for each in alone:
        if not (each.has_same(backend, one) and each.has_same(base, one)):
            continue
        mine, theirs = each.step_seconds(backend), each.step_seconds(base)
        if mine is not None and theirs is not None:
            return mine.value - theirs.value
    return None


def _collectives(one: Measured, backend: str, known: Sequence[Measured]) -> Iterator[dict[str, Any]]:
    """The largest of each kind that a step has, over a slow link."""
    if one.bytes_per_s is None:
        return
    dice, timed = Dice(DRAWS, SEED), _timed(one, backend, known)
    network = MeasuredRanks(one.ranks, timed, dice, bytes_per_s=one.bytes_per_s)
    for kind, sizes in one.timed_sizes([backend]).items():
        if kind in timed:
            predicted = network.seconds(kind, sizes[-1].size, np.array([float(one.ranks)])).total
            yield _row(seconds_of_one(kind), sizes[-1].seconds, figures_of(predicted)[0])


def _timed(one: Measured, backend: str, known: Sequence[Measured]) -> Mapping[str, list[TimedSize]]:
    """The step's own collectives as they were timed alone on this machine, then others of as many ranks.

    Never over a slow link: what that does is predicted.
    """
    near = [each for each in known if each.ranks == one.ranks and each.bytes_per_s is None]
    near.sort(key=lambda each: (each is not one, _workload(each) != _workload(one)))
    return merge_sizes(
        *(each.timed_sizes([backend]) for each in near[:1]),
        *(each.timed_sizes(each.backends) for each in near),
    )


def _ddp_of(one: Measured, backend: str) -> str | None:
    """The backend with the same engine, optimizer and stack under DDP; None if there is none."""

    def kind(name: str) -> tuple[str, ...]:
        return tuple(one.text(name, column) for column in ("engine", "optimizer", "stack"))

    return next(
        (each for each in one.backends if one.text(each, "sharding") == DDP and kind(each) == kind(backend)),
        None,
    )


def _trained_bytes(one: Measured, backend: str) -> float | None:
    peak, runtime = one.memory(backend, "peak"), one.memory(backend, "runtime")
    if not one.on_cpu:  # libraries lie on the host
        return peak
    return None if peak is None or runtime is None else peak - runtime


def _workload(one: Measured) -> tuple[str, ...]:
    """The overrides that decide the model's shapes."""
    chosen = ("model", "micro_batch", "seq_len", "data.lengths", "attention", "precision")
    last = sorted(last_values(one.overrides).items())
    return tuple(f"{key}={value}" for key, value in last if key in chosen or key.startswith("model."))


def _link(one: Measured) -> str:
    return LOOPBACK if one.bytes_per_s is None else f"{one.bytes_per_s * 8 / 1e9 / PAYLOAD_SHARE:g} Gbit/s"


def _row(quantity: str, measured: Figure, predicted: Figure) -> dict[str, Any]:
    return {
        "quantity": quantity,
        "unit": QUANTITIES[quantity].unit,
        **measured.cells("measured"),
        **predicted.cells("predicted"),
        "error": predicted.value / measured.value - 1,
    }

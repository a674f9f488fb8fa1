"""Updates that go wrong on purpose: two ranks train a small model with each of them, one after the other.

`python -m tests.support.planted_faults FOLDER RANK` writes FOLDER/found.json, which `Found` describes.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from bench.launch.messages import ExpectedTensor
from tests.support.configs import a_model, a_spec

RANKS, STEPS = 2, 4

QUERY, KEY = "layer.0.attention.self.query.weight", "layer.0.attention.self.key.weight"

Tensors = dict[Any, Any]
Change = Callable[[Tensors, Tensors], Tensors]
"""From the weights before a step, and how far it moves them, to how far it shall move them."""


class Trained(msgspec.Struct, frozen=True):
    """What the parity launch gets of one way to train: means over the ranks, and tensors' errors."""

    losses: tuple[float, ...]
    gradient_norms: tuple[float, ...]
    differences: dict[str, float]


class Found(msgspec.Struct, frozen=True):
    """What plain PyTorch computes, and what was trained: right under every sharding, and wrong."""

    expected: dict[str, ExpectedTensor]
    right: dict[str, Trained]
    wrong: dict[str, Trained]


@dataclass(frozen=True)
class Fault:
    """A way to train wrongly.

    Attributes:
        plant: puts it into a training; gets the rank.
        tensor: whose weight update or last gradient is the worst, as a regular expression.
        sharding: under which it is.
    """

    plant: Callable[[Any, int], None]
    tensor: str
    sharding: str = "ddp"


def moving(names: str | tuple[str, ...], change: Change, *, on: tuple[int, ...] = (0, 1)) -> Any:
    """A fault in how far every step moves the weights whose names end so, on some ranks."""

    def plant(training: Any, rank: int) -> None:
        if rank in on:
            weights = {name: one for name, one in training.model.named_parameters() if name.endswith(names)}
            _change_steps(training.sharding.updater, lambda: weights, change)

    return plant


def of_zero(change: Change, *, on: int) -> Any:
    """A fault in the flat part of the weights that one of DeepSpeed's ranks updates."""

    def plant(training: Any, rank: int) -> None:
        optimizer = training.sharding.optimizer
        if rank == on:
            _change_steps(
                optimizer,
                lambda: dict(enumerate(one for group in optimizer.param_groups for one in group["params"])),
                change,
            )

    return plant


def _change_steps(optimizer: Any, weights: Callable[[], Tensors], change: Change) -> None:
    import torch

    step = optimizer.step

    def changed(*arguments: Any, **named: Any) -> None:
        before = {name: one.detach().clone() for name, one in weights().items()}
        step(*arguments, **named)
        with torch.no_grad():
            moved = change(before, {name: one - before[name] for name, one in weights().items()})
            for name, one in weights().items():
                one.copy_(before[name] + moved[name])

    optimizer.step = changed


def scaled(by: float) -> Change:
    """All of them moved `by` times as far."""
    return lambda _, moved: {name: by * one for name, one in moved.items()}


def lost(where: Any) -> Change:
    """The elements that this index selects stay where they are."""

    def change(_: Tensors, moved: Tensors) -> Tensors:
        for one in moved.values():
            one[where] = 0
        return moved

    return change


def swapped(_: Tensors, moved: Tensors) -> Tensors:
    """Each of two tensors moves as the other should."""
    return dict(zip(moved, reversed(moved.values()), strict=True))


def undecayed(before: Tensors, moved: Tensors) -> Tensors:
    """Without the weight decay."""
    decay = SPEC.adam.lr * SPEC.adam.weight_decay
    return {name: one + decay * before[name] for name, one in moved.items()}


def late() -> Change:
    """Every step moves the weights as the one before should have."""
    kept: list[Tensors] = []

    def change(_: Tensors, moved: Tensors) -> Tensors:
        kept.append(moved)
        return kept[-2] if len(kept) > 1 else scaled(0.0)(_, moved)

    return change


def broken_at_last() -> Change:
    """The last step leaves what is not a number."""
    steps: list[Tensors] = []

    def change(_: Tensors, moved: Tensors) -> Tensors:
        steps.append(moved)
        return scaled(float("nan"))(_, moved) if len(steps) == STEPS else moved

    return change


def larger_gradient(training: Any, _: int) -> None:
    """One gradient is 2 % too large from the second step on."""
    weight = training.model.get_parameter(f"bert.encoder.{QUERY}")
    backward_passes = []

    def hook(gradient: Any) -> Any:
        backward_passes.append(1)
        return gradient * 1.02 if len(backward_passes) > SPEC.grad_accum else gradient

    weight.register_hook(hook)


def uncorrected(training: Any, _: int) -> None:
    """The moments of one weight are not corrected for their start at zero."""
    weight = training.model.get_parameter(f"bert.encoder.{QUERY}")
    optimizer = training.sharding.optimizer

    def forget_the_start(*_: Any) -> None:
        if weight in optimizer.state:
            optimizer.state[weight]["step"].fill_(1e6)

    optimizer.register_step_pre_hook(forget_the_start)


def forgetting(training: Any, _: int) -> None:
    """The moments of one weight begin anew at every step."""
    weight = training.model.get_parameter(f"bert.encoder.{QUERY}")
    optimizer = training.sharding.optimizer
    optimizer.register_step_post_hook(lambda *_: optimizer.state.pop(weight))


UPDATE_OF_QUERY = f"weight update .*{QUERY}"
FAULTS = {
    "lost": Fault(moving("query.weight", lost(...)), r"weight update .*query\.weight"),
    "lost in one half": Fault(moving(QUERY, lost(slice(32, None))), UPDATE_OF_QUERY),
    "lost in one element": Fault(moving(QUERY, lost((-1, -1))), UPDATE_OF_QUERY),
    "lost on one rank": Fault(moving(QUERY, lost(...), on=(1,)), UPDATE_OF_QUERY),
    "not a number on one rank": Fault(moving(QUERY, broken_at_last(), on=(1,)), UPDATE_OF_QUERY),
    "scaled by 2 %": Fault(moving(QUERY, scaled(1.02)), UPDATE_OF_QUERY),
    "scaled for a group": Fault(
        moving("LayerNorm.weight", scaled(0.98)), r"weight update .*LayerNorm\.weight"
    ),
    "in the wrong direction": Fault(moving(QUERY, scaled(-1.0)), UPDATE_OF_QUERY),
    "swapped": Fault(moving((QUERY, KEY), swapped), r"weight update .*self\.(query|key)\.weight"),
    "late": Fault(moving(QUERY, late()), UPDATE_OF_QUERY),
    "without weight decay": Fault(moving("", undecayed), r"weight update .*LayerNorm\.weight"),
    "without bias correction": Fault(uncorrected, UPDATE_OF_QUERY),
    "without a memory": Fault(forgetting, UPDATE_OF_QUERY),
    "by a larger gradient": Fault(larger_gradient, f"second gradient .*{QUERY}"),
    "lost after a boundary of ZeRO's": Fault(of_zero(lost(slice(500)), on=1), "weight update ", "zero1"),
    "lost before a boundary of ZeRO's": Fault(of_zero(lost(-1), on=0), "weight update ", "zero1"),
    "lost at the start of ZeRO-3's": Fault(of_zero(lost(slice(500)), on=0), "weight update ", "zero3"),
    "not sent to the other rank": Fault(
        moving(QUERY, lost(...), on=(0,)), UPDATE_OF_QUERY, "zero_redundancy"
    ),
}
"""By what happens to an update."""

SPEC = replace(
    a_spec(),
    model=a_model(),
    adam=replace(a_spec().adam, weight_decay=0.01),
    dropout=False,
    micro_batch=4,
    grad_accum=2,
    seq_len=16,
)


def main(folder: Path, rank: int) -> None:
    """Train with each fault, and without one under each sharding."""
    import torch
    import torch.distributed

    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS)}
    store = torch.distributed.FileStore(str(folder / "store"), RANKS)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    spec = replace(SPEC, initial_state=str(folder / "state"), expected_tensors=str(folder / "expected"))
    reference = _rank(replace(spec, saves_initial_state=True), rank)
    expected = reference.write_expected_tensors(STEPS).expected
    shardings = dict.fromkeys(fault.sharding for fault in FAULTS.values())
    right = {name: _train(_rank(replace(spec, sharding=name), rank)) for name in shardings}
    wrong = {}
    for name, fault in FAULTS.items():
        faulty = _rank(replace(spec, sharding=fault.sharding), rank)
        fault.plant(faulty.training, rank)
        wrong[name] = _train(faulty)
    if rank == 0:
        found = Found(expected=expected, right=right, wrong=wrong)
        (folder / "found.json").write_bytes(msgspec.json.encode(found))
    torch.distributed.barrier()


def _rank(spec: Any, rank: int) -> Any:
    import torch

    from bench.worker.rank.rank import Rank
    from bench.worker.rank.training import Training

    made = Rank(spec, rank=rank, local_rank=rank)
    made.training = Training(spec, rank=rank, device=torch.device("cpu"))
    made.training.proof = dict  # type: ignore[method-assign]  # not what is tried here
    made.training.feed.repeat([*range(2 * spec.grad_accum)])
    return made


def _train(rank: Any) -> Trained:
    import torch.distributed

    rank.training.feed.repeat([*range(2 * SPEC.grad_accum)])
    answer = rank.parity(STEPS, compared=True)
    losses: list[Any] = [None] * RANKS
    torch.distributed.all_gather_object(losses, answer.losses)
    return Trained(
        losses=tuple(sum(of_step) / RANKS for of_step in zip(*losses, strict=True)),
        gradient_norms=tuple(answer.gradient_norms),
        differences=answer.differences,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

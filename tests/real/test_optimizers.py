"""Which of torch's AdamWs steps: the proof says what torch does, on a CPU and on a GPU that is made up."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.optim import optimizer as defaults
from torch.utils._python_dispatch import TorchDispatchMode

from bench.config.training import Adam
from bench.errors import LaunchFailed
from bench.worker import optimizers

ADAM = Adam(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01)
ASKED = {"adamw_forloop": "for-loop", "adamw_foreach": "foreach", "adamw_fused": "fused"}
CHOSEN = {"cpu": "for-loop", "cuda": "foreach"}


@pytest.fixture(params=CHOSEN)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A CPU, or a GPU whose tensors have a device and a shape but no values."""
    if request.param == "cpu":
        yield "cpu"
        return
    # On a real GPU they are Parameters; fake ones have a class of their own, which torch does not know.
    known = [*defaults._foreach_supported_types, FakeTensor]
    monkeypatch.setattr(defaults, "_foreach_supported_types", known)
    with FakeTensorMode():
        yield "cuda"


@pytest.mark.parametrize("name", ["adamw", *ASKED])
def test_the_proof_names_the_implementation_that_torch_steps_with(name: str, device: str) -> None:
    optimizer, parameters = stepped(name, device)
    wanted = ASKED.get(name, CHOSEN[device])
    assert proof_of(optimizer, name, parameters)["implementation"] == wanted
    assert implementation_seen(optimizer) == wanted


def test_an_implementation_that_was_not_asked_for_is_invalid_but_adamw_may_be_any() -> None:
    for name, flags, found in (
        ("adamw_fused", {"fused": None}, "for-loop"),
        ("adamw_foreach", {"foreach": None}, "for-loop"),
        ("adamw_forloop", {"foreach": True}, "foreach"),
    ):
        optimizer, parameters = stepped(name, "cpu")
        optimizer.param_groups[0] |= flags
        assert implementation_seen(optimizer) == found
        with pytest.raises(LaunchFailed, match=f"{name} runs as {found}, not as {ASKED[name]}") as caught:
            proof_of(optimizer, name, parameters)
        assert caught.value.status == "invalid"
        assert proof_of(optimizer, "adamw", parameters)["implementation"] == found


def test_an_optimizer_that_is_not_torch_s_adamw_has_no_implementation_to_name() -> None:
    parameters = [torch.nn.Parameter(torch.ones(3))]
    assert optimizers.find_implementation(torch.optim.SGD(parameters), parameters) is None


def stepped(name: str, device: str) -> tuple[torch.optim.Optimizer, list[torch.Tensor]]:
    """An optimizer of two small parameters after its first step, and these."""
    parameters = [torch.nn.Parameter(torch.ones(size, device=device)) for size in (3, 2)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer = optimizers.build(name, parameters, ADAM)
    optimizer.step()
    return optimizer, parameters


def proof_of(optimizer: torch.optim.Optimizer, name: str, parameters: list[torch.Tensor]) -> dict[str, Any]:
    return optimizers.proof(optimizer, name=name, adam=ADAM, updated=parameters)


def implementation_seen(optimizer: torch.optim.Optimizer) -> str:
    """By the names of the operators of a step."""
    with Operators() as seen:
        optimizer.step()
    assert seen.names, "a step has operators"
    if any("_fused_adamw" in name for name in seen.names):
        return "fused"
    return "foreach" if any("_foreach_lerp" in name for name in seen.names) else "for-loop"


class Operators(TorchDispatchMode):
    """Keeps the names of the operators that are called within it."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.names.add(func.name())
        return func(*args, **(kwargs or {}))

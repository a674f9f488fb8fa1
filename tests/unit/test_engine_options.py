"""What can be tuned in an engine, and what is refused."""

import pytest

from bench.config.compose import compose
from bench.config.engine_options import engine_variables, format_engine_options
from bench.errors import UserError

NO_SPARSITY = {"compute_optimizer": False}
BOTH = {"embedding_sparsity": False, "compute_optimizer": False}


def test_ortmodule_without_sparsity_differs_from_ortmodule_in_its_options_alone() -> None:
    backends = compose(["backend=[pytorch,ortmodule,ortmodule_no_sparsity]"]).backends
    ours, plain = backends["ortmodule_no_sparsity"], backends["ortmodule"]
    assert (ours.engine, ours.optimizer, ours.sharding) == (plain.engine, plain.optimizer, plain.sharding)
    assert (ours.engine_options, plain.engine_options) == (NO_SPARSITY, {})


def test_options_become_the_variables_that_onnx_runtime_reads() -> None:
    assert engine_variables("ortmodule", BOTH | {"memory_level": 2}) == {
        "ORTMODULE_ENABLE_COMPUTE_OPTIMIZER": "0",
        "ORTMODULE_ENABLE_EMBEDDING_SPARSE_OPTIMIZER": "0",
        "ORTMODULE_MEMORY_OPT_LEVEL": "2",
    }
    assert engine_variables("eager", {}) == {}
    assert engine_variables("compile", {"mode": "max-autotune"}) == {}, "torch.compile is given it"


def test_options_are_one_cell_whatever_their_order() -> None:
    cell = "compute_optimizer=false embedding_sparsity=false"
    assert {format_engine_options(one) for one in (BOTH, dict(reversed(BOTH.items())))} == {cell}
    assert format_engine_options({}) == ""


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (
            ["+backends.ortmodule.engine_options.speed=true"],
            "is no option of engine=ortmodule; choose from comp",
        ),
        (["+backends.pytorch.engine_options.triton=true"], "is no option of engine=eager; leave it out"),
        (["+backends.ortmodule.engine_options.compute_optimizer=1"], "must be false or true, not 1"),
        (["+backends.ortmodule.engine_options.triton=true"], "has an effect on CUDA devices only"),
        (["+backends.ortmodule.engine_options.memory_level=1"], "has an effect with checkpointing=true only"),
        (
            ["+backends.ortmodule.engine_options.memory_level=true", "checkpointing=true"],
            "must be 1 or 2, not True",
        ),
        (["backend=[pytorch,ortmodule_tuned]"], "has an effect on CUDA devices only"),
        (
            [
                "backend=[pytorch,compile_max_autotune]",
                "backends.compile_max_autotune.engine_options.mode=fast",
            ],
            "mode must be max-autotune or reduce-overhead, not fast",
        ),
        (
            ["backend=[pytorch,compile_reduce_overhead]"],
            "mode=reduce-overhead has an effect on CUDA devices only",
        ),
    ],
)
def test_what_an_engine_does_not_have_or_what_changes_nothing_is_refused(
    overrides: list[str], why: str
) -> None:
    chosen = [] if overrides[0].startswith("backend=") else ["backend=[pytorch,ortmodule]"]  # on either stack
    with pytest.raises(UserError, match=why):
        compose([*chosen, *overrides])


def test_an_option_for_a_backend_that_is_not_chosen_is_refused() -> None:
    with pytest.raises(UserError, match=r"^backends.ortmodule is not among .* add ortmodule to backend="):
        compose(["backend=[pytorch]", "+backends.ortmodule.engine_options.triton=true"])

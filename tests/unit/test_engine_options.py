"""What can be tuned in an engine, and what is refused."""

import pytest

from bench.config.compose import compose
from bench.config.engine_options import engine_variables, format_engine_options
from bench.errors import UserError

BOTH = {"embedding_sparsity": False, "compute_optimizer": False}


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


OPTIONS = "+backends.ortmodule.engine_options"
MAX = "backends.compile_max_autotune.engine_options"


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (f"{OPTIONS}.speed=true", "is no option of engine=ortmodule; choose from comp"),
        ("+backends.pytorch.engine_options.triton=true", "is no option of engine=eager; leave it out"),
        (f"{OPTIONS}.compute_optimizer=1", "must be false or true, not 1"),
        (f"{OPTIONS}.triton=true", "has an effect on CUDA devices only"),
        (f"{OPTIONS}.memory_level=1", "has an effect with checkpointing=true only"),
        (f"{OPTIONS}.memory_level=true checkpointing=true", "must be 1 or 2, not True"),
        ("backend=[pytorch,ortmodule_tuned]", "has an effect on CUDA devices only"),
        (f"backend=[pytorch,compile_max_autotune] {MAX}.mode=fast", "must be max-autotune or reduce-ov"),
        ("backend=[pytorch,compile_reduce_overhead]", "mode=reduce-overhead has an effect on CUDA devices"),
    ],
)
def test_what_an_engine_does_not_have_or_what_changes_nothing_is_refused(overrides: str, why: str) -> None:
    chosen = [] if overrides.startswith("backend=") else ["backend=[pytorch,ortmodule]"]  # on either stack
    with pytest.raises(UserError, match=why):
        compose([*chosen, *overrides.split()])


def test_an_option_for_a_backend_that_is_not_chosen_is_refused() -> None:
    with pytest.raises(UserError, match=r"^backends.ortmodule is not among .* add ortmodule to backend="):
        compose(["backend=[pytorch]", "+backends.ortmodule.engine_options.triton=true"])

"""What can be tuned in an engine, by the harness's names; ONNX Runtime takes it by environment variables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.errors import UserError

OptionValue = bool | int | str


@dataclass(frozen=True, kw_only=True)
class EngineOption:
    """One option of an engine."""

    variable: str = ""  # that the engine reads when it is imported or wraps a model; empty: it needs none
    # where it then says what it took, an attribute of its runtime options; empty: nowhere
    read_back: str = ""
    values: tuple[OptionValue, ...] = (False, True)  # that it may have
    on_gpu: bool = False  # it has an effect on CUDA devices alone
    values_on_gpu: tuple[OptionValue, ...] = ()  # the values for which `on_gpu` holds
    recomputes: bool = False  # it has an effect with `checkpointing` alone


ENGINE_OPTIONS: Mapping[str, Mapping[str, EngineOption]] = {
    "compile": {
        # How long the compiler searches for faster kernels, and whether CUDA graphs launch them.
        "mode": EngineOption(values=("max-autotune", "reduce-overhead"), values_on_gpu=("reduce-overhead",))
    },
    "ortmodule": {
        # Reduce data as early in the graph as its use allows, and leave out what is padded.
        "compute_optimizer": EngineOption(
            variable="ORTMODULE_ENABLE_COMPUTE_OPTIMIZER", read_back="enable_compute_optimizer"
        ),
        # A part of it: leave out of the layers what is padded in the words. Only on GPUs.
        "embedding_sparsity": EngineOption(
            variable="ORTMODULE_ENABLE_EMBEDDING_SPARSE_OPTIMIZER",
            read_back="enable_embedding_sparse_optimizer",
            on_gpu=True,
        ),
        "efficient_attention": EngineOption(variable="ORTMODULE_USE_EFFICIENT_ATTENTION", on_gpu=True),
        "triton": EngineOption(variable="ORTMODULE_USE_TRITON", read_back="enable_triton", on_gpu=True),
        "tuning": EngineOption(variable="ORTMODULE_ENABLE_TUNING", read_back="enable_tuning", on_gpu=True),
        "memory_level": EngineOption(
            variable="ORTMODULE_MEMORY_OPT_LEVEL",
            read_back="memory_optimization_level",
            values=(1, 2),
            recomputes=True,
        ),
    },
}
"""By engine. Sources: torch.compile's documentation of `mode`; docs/ORTModule_Training_Guidelines.md of ONNX
Runtime 1.19.2, whose option about padded labels is not among them: nothing reads it, and it is for losses
that are modules, unlike transformers'."""


def check_engine_options(
    key: str, engine: str, options: Mapping[str, Any], *, device: str, checkpointing: bool
) -> None:
    """Refuse options that the engine does not have, or that change nothing here."""
    known = ENGINE_OPTIONS.get(engine, {})
    for name, value in options.items():
        option = known.get(name)
        if option is None:
            raise UserError(
                f"{key}.{name} is no option of engine={engine}",
                f"choose from {', '.join(known)}" if known else "leave it out",
            )
        if not any(value == allowed and type(value) is type(allowed) for allowed in option.values):
            choices = " or ".join(map(format_value, option.values))
            raise UserError(f"{key}.{name} must be {choices}, not {value}.")
        if (option.on_gpu or value in option.values_on_gpu) and device != "cuda":
            of_value = "" if option.on_gpu else f"={format_value(value)}"
            raise UserError(f"{key}.{name}{of_value} has an effect on CUDA devices only", "leave it out")
        if option.recomputes and not checkpointing:
            raise UserError(f"{key}.{name} has an effect with checkpointing=true only", "set that, too")


def engine_variables(engine: str, options: Mapping[str, Any]) -> dict[str, str]:
    """The environment variables by which the engine takes its options."""
    known = ENGINE_OPTIONS.get(engine, {})
    return {known[name].variable: str(int(value)) for name, value in options.items() if known[name].variable}


def format_engine_options(options: Mapping[str, Any]) -> str:
    """The options as one cell, in order: `compute_optimizer=false embedding_sparsity=false`."""
    return " ".join(f"{name}={format_value(value)}" for name, value in sorted(options.items()))


def format_value(value: OptionValue) -> str:
    """Return a value as the configuration writes it."""
    return str(value).lower()

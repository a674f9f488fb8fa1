"""Says which CPU an environment was taken on, in one short phrase, and whether two are the same.

Two CPUs are the same only if vendor, family, model, stepping and instruction sets are. Files of before these
were recorded have the marketing name alone, which several families share: it is never said that they are the
same as a CPU that is known.
"""

from collections.abc import Mapping
from typing import Any

IDENTITY = ("vendor", "family", "model_number", "stepping", "instruction_sets")
"""The entries of environment["cpu"] that make two CPUs the same machine, beside the marketing name."""

NOT_RECORDED = "family and model not recorded"


def name_processor(environment: Mapping[str, Any]) -> str:
    """Return `AMD EPYC (AuthenticAMD family 25, model 1, stepping 1)`."""
    cpu = _cpu(environment)
    name = str(cpu.get("model") or "CPU")
    if any(cpu.get(entry) is None for entry in ("vendor", "family", "model_number")):
        return f"{name} ({NOT_RECORDED})"
    return f"{name} ({cpu['vendor']} {', '.join(number_words(cpu))})"


def number_words(cpu: Mapping[str, Any]) -> list[str]:
    """Return `family 25`, `model 1` and `stepping 1`, as far as they are known."""
    entries = {"family": "family", "model": "model_number", "stepping": "stepping"}
    return [f"{word} {cpu[entry]}" for word, entry in entries.items() if cpu.get(entry) is not None]


def processor_key(environment: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is equal for environments of the same CPU, as far as they tell."""
    cpu = _cpu(environment)
    return tuple(str(cpu.get(entry)) for entry in ("model", *IDENTITY))


def find_processor_differences(environment: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the words for what is known to differ between two CPUs; none if it may be the same one."""
    names = (("model", "name"), *((entry, entry.replace("_", " ")) for entry in IDENTITY))
    return [
        words
        for entry, words in names
        if None not in (sides := (_cpu(environment).get(entry), _cpu(other).get(entry)))
        and sides[0] != sides[1]
    ]


def describe_instruction_sets(environment: Mapping[str, Any]) -> str:
    """Return the instruction sets that matter, such as `sse4_2 avx avx2 fma`."""
    return " ".join(map(str, _cpu(environment).get("instruction_sets") or ["not recorded"]))


def _cpu(environment: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the environment says of its CPU; empty if it is damaged."""
    cpu = environment.get("cpu")
    return cpu if isinstance(cpu, Mapping) else {}

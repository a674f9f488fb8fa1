"""Which machine this is: what its hardware says of itself, and the folder and name that its results have.

Machines of different identity have different folders. Equal ones may still differ in speed, as two virtual
machines of one kind do: `bench.analysis.machines` says by how much.

Two CPUs are the same only if vendor, family, model, stepping and instruction sets are. Where these are not
recorded there is the marketing name alone, which several families share: it is never said that they are the
same as a CPU that is known.
"""

import functools
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from bench.errors import UserError
from bench.machine.environment import digest
from bench.machine.gpus import list_gpus, short_name
from bench.machine.hardware import memory_bytes
from bench.machine.processor import describe_processor

VENDORS = {"AuthenticAMD": "amd", "GenuineIntel": "intel"}
"""Short, as far as makers do not call themselves so."""

IDENTITY = ("vendor", "family", "model_number", "stepping", "instruction_sets")
"""The entries of environment["cpu"] that make two CPUs the same machine, beside the marketing name."""

NOT_RECORDED = "family and model not recorded"


def identify() -> dict[str, Any]:
    """This machine's identity; its GPUs are all that the driver lists, whichever are used."""
    gpus = [{"name": name} for name in _gpu_names()]
    environment = {"cpu": describe_processor(), "memory_gib": memory_bytes() / 2**30, "gpus": gpus}
    return identity_of(environment)


@functools.cache
def _gpu_names() -> tuple[str, ...]:
    """Asked once: every configuration is composed with it, and some drivers take a second to wake up."""
    for setting in (None, os.environ.get("CUDA_VISIBLE_DEVICES")):  # which may leave out a lost GPU
        with suppress(UserError):  # of a driver that does not answer; a CPU can do without
            return tuple(gpu.name for gpu in list_gpus(setting))
    return ()


def identity_of(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of the machine that an environment was taken on, as far as it tells."""
    cpu = environment["cpu"]
    return {
        "cpu": cpu.get("model"),
        **{entry: cpu.get(entry) for entry in (*IDENTITY, "cores")},
        "memory_gib": round(environment["memory_gib"]),
        "gpus": [gpu["name"] for gpu in environment.get("gpus") or []],
    }


def name_folder(identity: Mapping[str, Any] | None = None) -> str:
    """Return `amd-family25-model17-2-cores-1f3a`, or `8-h100-64-cores-9c0d`; of this machine if None.

    The last four digits are a hash of the whole identity.
    """
    identity = identify() if identity is None else identity
    cores = "-".join([str(identity["cores"]), "core" if identity["cores"] == 1 else "cores"])
    if gpus := identity["gpus"]:
        parts = [str(len(gpus)), *dict.fromkeys(map(short_name, gpus)), cores]
    else:
        numbers = [words.replace(" ", "") for words in number_words({**identity, "stepping": None})]
        vendor = str(identity["vendor"] or identity["cpu"] or "cpu")
        parts = [VENDORS.get(vendor) or short_name(vendor), *numbers, cores]
    return re.sub(r"[^a-z0-9]+", "-", "-".join([*parts, digest(dict(identity))[:4]]))


def describe(identity: Mapping[str, Any], microarchitecture: str | None) -> str:
    """Return `AMD EPYC (family 25, model 17, stepping 1), instruction sets of zen4 or newer, 2 cores …`."""
    gpus = dict.fromkeys(identity["gpus"])
    words = [
        *(f"{identity['gpus'].count(name)} × {name}" for name in gpus),
        f"{identity['cpu'] or 'CPU'} ({', '.join(number_words(identity)) or NOT_RECORDED})",
        f"instruction sets of {microarchitecture} or newer" if microarchitecture else "",
        f"{identity['cores']} core{'' if identity['cores'] == 1 else 's'}",
        f"{identity['memory_gib']} GiB",
    ]
    return ", ".join(filter(None, words))


def find_microarchitecture() -> str | None:
    """The newest one all of whose instruction sets this CPU shows, as archspec calls it.

    A virtual machine may hide some, and the CPU be newer than that. None where archspec knows none.
    """
    import archspec.cpu  # only where it is asked for: no command that reads results needs it

    name = archspec.cpu.host().name
    return None if name == archspec.cpu.host().family.name else str(name)


def name_processor(environment: Mapping[str, Any]) -> str:
    """Return `AMD EPYC (AuthenticAMD family 25, model 1, stepping 1)`."""
    cpu = environment.get("cpu", {})
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
    cpu = environment.get("cpu", {})
    return tuple(str(cpu.get(entry)) for entry in ("model", *IDENTITY))


def find_processor_differences(environment: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the words for what is known to differ between two CPUs; none if it may be the same one."""
    names = {"model": "name", **{entry: entry.replace("_", " ") for entry in IDENTITY}}
    sides = [each.get("cpu", {}) for each in (environment, other)]
    values = {words: [cpu.get(entry) for cpu in sides] for entry, words in names.items()}
    return [words for words, (left, right) in values.items() if None not in (left, right) and left != right]


def describe_instruction_sets(environment: Mapping[str, Any]) -> str:
    """Return the instruction sets that matter, such as `sse4_2 avx avx2 fma`."""
    return " ".join(map(str, environment.get("cpu", {}).get("instruction_sets") or ["not recorded"]))

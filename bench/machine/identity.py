"""Which machine this is: what its hardware reports, and the folder and name of its results.

Machines of equal identity are hosts of one kind. They still differ in speed, so each has its own folder
(docs/methodology.md, "Hosts"). A CPU recorded by its marketing name alone is never taken for a known one.
"""

import functools
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.errors import UserError
from bench.machine.environment import digest
from bench.machine.gpus import list_gpus, short_name
from bench.machine.hardware import memory_bytes
from bench.machine.processor import describe_processor, read_text

VENDORS = {"AuthenticAMD": "amd", "GenuineIntel": "intel"}
"""Short names of makers whose own names are longer."""

IDENTITY = ("vendor", "family", "model_number", "stepping", "instruction_sets")
"""The entries of environment["cpu"] that make two CPUs the same machine, beside the marketing name."""

NOT_RECORDED = "family and model not recorded"


def identify() -> dict[str, Any]:
    """This machine's identity; its GPUs are all that the driver lists, whichever are used."""
    return identity_of(describe_processor(), memory_bytes() / 2**30, _gpu_names())


@functools.cache
def _gpu_names() -> tuple[str, ...]:
    """Asked once: every configuration is composed with it, and some drivers take a second to wake up."""
    for setting in (None, os.environ.get("CUDA_VISIBLE_DEVICES")):  # which may leave out a lost GPU
        with suppress(UserError):  # a driver that does not answer; a run on the CPU does not need it
            return tuple(gpu.name for gpu in list_gpus(setting))
    return ()


@functools.cache
def identify_host(root: Path = Path("/")) -> str:
    """This host among those of its kind, such as `3f2c91`: a salted hash of what a kernel shows.

    Of ids that belong to the hardware, and the machine-id, which is copied with every image. Virtual machines
    and containers that see no such ids have the boot id, which is new when they may have moved.
    """
    hardware = sorted(_hardware_ids(root)) if describe_processor(root)["virtual"] is False else []
    boot = read_text(root / "proc/sys/kernel/random/boot_id") or platform.node()
    ids = [*hardware, read_text(root / "etc/machine-id")] if hardware else [boot]
    return digest(["training-backend-bench", *ids])[:6]


def _hardware_ids(root: Path) -> Iterator[str]:
    """Addresses of network cards that are neither radio nor USB, and serial numbers of NVMe disks."""
    for card in root.glob("sys/class/net/*"):
        is_wired = (card / "device").exists() and not (card / "wireless").exists()
        if is_wired and "/usb" not in str(card.resolve()) and read_text(card / "addr_assign_type") == "0":
            yield read_text(card / "address") or ""
    for disk in root.glob("sys/class/nvme/nvme*"):
        yield read_text(disk / "serial") or ""


def identity_of(cpu: Mapping[str, Any], memory_gib: float, gpus: Iterable[str]) -> dict[str, Any]:
    """The identity of a machine, as far as it is known; the CPU as in an environment, the GPUs' names."""
    return {
        "cpu": cpu.get("model"),
        **{entry: cpu.get(entry) for entry in (*IDENTITY, "cores")},
        "memory_gib": round(memory_gib),
        "gpus": list(gpus),
    }


def name_folder(identity: Mapping[str, Any] | None = None) -> str:
    """Return `amd-family25-model17-2-cores-1f3a` with the identity's hash; without one this host's folder."""
    if identity is None:
        return f"{name_folder(identify())}-{identify_host()}"
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
    """The newest microarchitecture of archspec all of whose instruction sets this CPU shows; None without."""
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
    """Return a key that is equal for environments of the same CPU, as far as they record it."""
    cpu = environment.get("cpu", {})
    return tuple(str(cpu.get(entry)) for entry in ("model", *IDENTITY))


def describe_instruction_sets(environment: Mapping[str, Any]) -> str:
    """Return the instruction sets that matter, such as `sse4_2 avx avx2 fma`."""
    return " ".join(map(str, environment.get("cpu", {}).get("instruction_sets") or ["not recorded"]))

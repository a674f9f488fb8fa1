"""Describes this machine's CPU: who made which model, its instruction sets, caches, cores and memory nodes.

A marketing name is not enough: "AMD EPYC" is printed by several families. Everything is read from /proc and
/sys, which needs no package; what the kernel does not show is None, never guessed.
"""

import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.machine.hardware import available_cores
from bench.setup.recipes import MKL_MACHINE

INTEL = "GenuineIntel"  # the vendor that Intel's CPUs name

INSTRUCTION_SETS = (
    *("sse4_2", "avx", "avx2", "fma", "f16c"),
    *("avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni"),
    *("amx_tile", "amx_bf16", "amx_int8"),
    *("asimd", "sve", "sve2", "bf16", "i8mm"),  # Arm
)
"""The instruction sets by which libraries choose how to multiply matrices, as Linux spells them."""

CACHES = {"l1d_kib": (1, "Data"), "l2_kib": (2, "Unified"), "l3_kib": (3, "Unified")}
"""Level and type of each cache, as sysfs names them."""

VIRTUAL_PRODUCTS = re.compile(
    "QEMU|KVM|VMware|VirtualBox|Virtual Machine|Bochs|Xen|HVM domU|OpenStack|Google Compute Engine"
)
"""The makers of virtual machines, as DMI names them."""

Texts = Mapping[str, Sequence[str]]
"""The different values of each field of /proc/cpuinfo, in the order of the processors."""


def describe_processor(root: Path = Path("/")) -> dict[str, Any]:
    """Return the description of this machine's CPU, plain JSON that neither time nor load changes."""
    text, cpus = read_text(root / "proc/cpuinfo") or "", root / "sys/devices/system/cpu"
    product = [read_text(root / "sys/class/dmi/id" / name) or "" for name in ("sys_vendor", "product_name")]
    identity = parse_cpuinfo(text)
    return identity | {
        "microcode": _joined(_fields(text), "microcode"),
        "model": identity["model"] or platform.machine(),
        "cores": available_cores(),
        "caches": read_caches(cpus / "cpu0" / "cache"),
        "threads_per_core": count_threads_per_core(cpus),
        "sockets": count_sockets(cpus),
        "numa_nodes": len(list(root.glob("sys/devices/system/node/node[0-9]*"))) or None,
        "virtual": find_virtual(text, " ".join(product)),
    }


def parse_cpuinfo(text: str) -> dict[str, Any]:
    """Return marketing name, vendor, family, model number, stepping and instruction sets from /proc/cpuinfo.

    An Arm CPU has an implementer, a part and a revision such as r3p1 in place of vendor, model number and
    stepping. If its cores differ, as where large ones stand beside small ones, a value names all of them.
    """
    fields = _fields(text)
    if "CPU implementer" in fields:
        identity: dict[str, Any] = {
            "vendor": _joined(fields, "CPU implementer"),
            "family": _joined(fields, "CPU architecture"),
            "model_number": _joined(fields, "CPU part"),
            "stepping": _arm_revision(fields),
        }
    else:
        identity = {
            "vendor": _joined(fields, "vendor_id"),
            "family": _number(fields, "cpu family"),
            "model_number": _number(fields, "model"),
            "stepping": _number(fields, "stepping"),
        }
    return {"model": _joined(fields, "model name"), **identity, "instruction_sets": _instruction_sets(fields)}


def read_caches(folder: Path) -> dict[str, int | None]:
    """Return the size of each of `CACHES` in KiB, from sysfs' folder about one core's caches."""
    sizes: dict[tuple[str | None, str | None], str | None] = {
        (read_text(index / "level"), read_text(index / "type")): read_text(index / "size")
        for index in folder.glob("index[0-9]*")
    }
    return {name: _kib(sizes.get((str(level), kind))) for name, (level, kind) in CACHES.items()}


def count_threads_per_core(cpus: Path) -> int | None:
    """Return how many hardware threads share a core: 2 with SMT."""
    siblings = read_text(cpus / "cpu0" / "topology" / "thread_siblings_list")
    ends = [[int(end) for end in part.split("-")] for part in (siblings or "").split(",") if part]
    return sum(part[-1] - part[0] + 1 for part in ends) or None  # of a list such as `0-1,8-9`


def count_sockets(cpus: Path) -> int | None:
    """Return the number of CPU sockets in use; a kernel that does not know them numbers them -1."""
    packages = {read_text(path) for path in cpus.glob("cpu[0-9]*/topology/physical_package_id")}
    return len(packages) if packages and not packages & {"-1", None} else None


def find_virtual(cpuinfo: str, product: str) -> bool | None:
    """Return whether this is a virtual machine, by /proc/cpuinfo and DMI; None where neither says."""
    fields = _fields(cpuinfo)
    if VIRTUAL_PRODUCTS.search(product) or any("hypervisor" in x.split() for x in fields.get("flags", [])):
        return True
    return False if "flags" in fields else None


def find_why_full_is_refused() -> str:
    """Return why device.blas=full would change nothing on this machine; empty if it may."""
    if platform.machine() != MKL_MACHINE:
        return f"MKL exists for {MKL_MACHINE} only, and this machine is {platform.machine()}"
    if describe_processor()["vendor"] == INTEL:
        return "MKL takes its full path on Intel's CPUs already"
    return ""


def _fields(text: str) -> Texts:
    fields: dict[str, dict[str, None]] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), {})[value.strip()] = None
    return {name: list(values) for name, values in fields.items()}


def _joined(fields: Texts, name: str) -> str | None:
    return "/".join(fields.get(name, [])) or None


def _number(fields: Texts, name: str) -> int | None:
    """A field of an x86 CPU, all of whose cores have the same; a hypervisor may write `unknown`."""
    value = _joined(fields, name)
    return int(value) if value and value.isdecimal() else None


def _arm_revision(fields: Texts) -> str | None:
    variant, revision = _joined(fields, "CPU variant"), _joined(fields, "CPU revision")
    if variant is None or revision is None:
        return None
    return "r" + "/".join(str(int(digit, 16)) for digit in variant.split("/")) + f"p{revision}"


def _instruction_sets(fields: Texts) -> list[str] | None:
    """The instruction sets that every core has, since threads move."""
    flags = fields.get("flags") or fields.get("Features")
    if not flags:
        return None
    common = set.intersection(*(set(words.split()) for words in flags))
    return [name for name in INSTRUCTION_SETS if name in common]


def _kib(size: str | None) -> int | None:
    parts = re.fullmatch(r"(\d+)([KM])", size or "")
    return int(parts[1]) * {"K": 1, "M": 1024}[parts[2]] if parts else None


def read_text(path: Path) -> str | None:
    """The text of a file of the kernel, without the white space around it; None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None

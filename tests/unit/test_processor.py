"""What is read of a CPU, its name in one phrase, and which CPUs are the same."""

from pathlib import Path
from typing import Any

import pytest

from bench.machine.environment import find_differences
from bench.machine.identity import name_processor, processor_key
from bench.machine.processor import (
    count_sockets,
    count_threads_per_core,
    describe_processor,
    find_virtual,
    parse_cpuinfo,
    read_caches,
)
from tests.support.cpuinfo import AMD, ARM, ARM_OF_TWO_KINDS, INTEL

pytestmark = pytest.mark.once


def environment_of(cpuinfo: str, **changes: Any) -> dict[str, Any]:
    return {"cpu": parse_cpuinfo(cpuinfo) | changes}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


def test_an_amd_cpu() -> None:
    assert parse_cpuinfo(AMD) == {
        "model": "AMD EPYC",
        "vendor": "AuthenticAMD",
        "family": 25,
        "model_number": 1,
        "stepping": 1,
        "instruction_sets": ["sse4_2", "avx", "avx2", "fma", "f16c"],
    }
    assert find_virtual(AMD, "") is True


def test_an_intel_cpu() -> None:
    found = parse_cpuinfo(INTEL)
    assert (found["vendor"], found["family"], found["model_number"], found["stepping"]) == (
        *("GenuineIntel", 6, 143, 8),
    )
    assert found["instruction_sets"] == [
        *("sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni"),
        *("avx512_bf16", "avx512_fp16", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8"),
    ]
    assert find_virtual(INTEL, "") is False


def test_an_arm_cpu_is_known_by_implementer_part_and_revision() -> None:
    assert parse_cpuinfo(ARM) == {
        "model": None,
        "vendor": "0x41",
        "family": "8",
        "model_number": "0xd4f",
        "stepping": "r0p1",
        "instruction_sets": ["asimd", "sve", "sve2", "bf16", "i8mm"],
    }
    assert find_virtual(ARM, "") is None
    assert find_virtual(ARM, "QEMU QEMU Virtual Machine") is True


def test_cores_of_two_kinds_are_both_named_and_only_what_all_can_counts() -> None:
    found = parse_cpuinfo(ARM_OF_TWO_KINDS)
    assert found["model_number"] == "0xd05/0xd0b"
    assert found["instruction_sets"] == ["asimd"]


def test_what_the_kernel_does_not_tell_is_none() -> None:
    assert set(parse_cpuinfo("").values()) == {None}
    assert parse_cpuinfo("vendor_id : A\nstepping : unknown\n")["stepping"] is None


def test_caches_threads_sockets_and_nodes_come_from_sysfs(tmp_path: Path) -> None:
    cpus, nodes = tmp_path / "sys/devices/system/cpu", tmp_path / "sys/devices/system/node"
    sizes = ((1, "Data", "48K"), (1, "Instruction", "32K"), (2, "Unified", "2048K"), (3, "Unified", "105M"))
    for index, (level, kind, size) in enumerate(sizes):
        folder = cpus / "cpu0" / "cache" / f"index{index}"
        write(folder / "level", str(level))
        write(folder / "type", kind)
        write(folder / "size", size)
    write(cpus / "cpu0" / "topology" / "thread_siblings_list", "0,56")
    for number, package in ((0, "0"), (1, "0"), (2, "1")):
        write(cpus / f"cpu{number}" / "topology" / "physical_package_id", package)
    for number in (0, 1):
        (nodes / f"node{number}").mkdir(parents=True)
    write(tmp_path / "proc/cpuinfo", INTEL)
    write(tmp_path / "sys/class/dmi/id/sys_vendor", "Supermicro")
    found = describe_processor(tmp_path)
    assert found["caches"] == {"l1d_kib": 48, "l2_kib": 2048, "l3_kib": 105 * 1024}
    assert (found["threads_per_core"], found["sockets"], found["numa_nodes"]) == (2, 2, 2)
    assert (found["model"], found["virtual"]) == ("Intel(R) Xeon(R) Platinum 8480+", False)
    assert found["cores"] >= 1


def test_without_sysfs_nothing_is_guessed(tmp_path: Path) -> None:
    assert read_caches(tmp_path) == {"l1d_kib": None, "l2_kib": None, "l3_kib": None}
    assert count_threads_per_core(tmp_path) is None
    assert count_sockets(tmp_path) is None
    write(tmp_path / "cpu0" / "topology" / "physical_package_id", "-1")
    assert count_sockets(tmp_path) is None
    found = describe_processor(tmp_path / "nothing")
    assert found["model"]  # the architecture, such as aarch64
    assert (found["vendor"], found["numa_nodes"], found["virtual"]) == (None, None, None)


@pytest.mark.parametrize(("listed", "count"), [("0", 1), ("0-1", 2), ("0,56", 2), ("0-1,8-9", 4)])
def test_threads_of_a_core_are_counted_in_the_kernels_lists(tmp_path: Path, listed: str, count: int) -> None:
    write(tmp_path / "cpu0" / "topology" / "thread_siblings_list", listed)
    assert count_threads_per_core(tmp_path) == count


def test_the_phrase_says_family_and_model() -> None:
    assert name_processor(environment_of(AMD)) == "AMD EPYC (AuthenticAMD family 25, model 1, stepping 1)"
    assert name_processor(environment_of(ARM, model="aarch64")) == (
        "aarch64 (0x41 family 8, model 0xd4f, stepping r0p1)"
    )
    assert name_processor(environment_of(AMD, stepping=None)) == "AMD EPYC (AuthenticAMD family 25, model 1)"


@pytest.mark.parametrize(
    ("environment", "phrase"),
    [
        ({"cpu": {"model": "AMD EPYC", "cores": 2}}, "AMD EPYC (family and model not recorded)"),
        ({}, "CPU (family and model not recorded)"),
    ],
)
def test_the_phrase_of_a_file_without_the_description_says_so(
    environment: dict[str, Any], phrase: str
) -> None:
    assert name_processor(environment) == phrase


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"vendor": "HygonGenuine"}, False),
        ({"family": 26}, False),
        ({"model_number": 17}, False),
        ({"stepping": 2}, False),
        ({"instruction_sets": ["sse4_2", "avx"]}, False),
        ({"family": None}, False),  # what is unknown is never taken for what is known
        ({"caches": {"l3_kib": 1}}, True),
    ],
)
def test_any_of_five_entries_makes_another_cpu(change: dict[str, Any], same: bool) -> None:
    assert (processor_key(environment_of(AMD)) == processor_key(environment_of(AMD, **change))) is same


def test_instruction_sets_differ_in_one_line() -> None:
    one, other = environment_of(AMD), environment_of(AMD, instruction_sets=["sse4_2", "avx2"])
    assert find_differences(one, other) == ["cpu.instruction_sets: sse4_2 avx avx2 fma f16c, now sse4_2 avx2"]

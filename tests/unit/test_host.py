"""Which host this is: by what the kernel shows of bare metal, of a virtual machine and in a container."""

import hashlib
from pathlib import Path

import pytest

from bench.machine.environment import read_kernel_settings
from bench.machine.identity import identify_host

CARD = {"address": "52:54:00:ab:cd:ef", "addr_assign_type": "0", "device/vendor": "0x8086"}
METAL: dict[str, str] = {
    "proc/cpuinfo": "flags : fpu avx2\n",
    "proc/sys/kernel/random/boot_id": "first-boot",
    "etc/machine-id": "of-the-image",
    **{f"sys/class/net/eth0/{name}": text for name, text in CARD.items()},
    "sys/class/nvme/nvme0/serial": "S4EW1  ",
}
VIRTUAL = METAL | {"proc/cpuinfo": "flags : fpu avx2 hypervisor\n"}
CONTAINER = {name: text for name, text in METAL.items() if not name.startswith("sys/")}

REBOOT = {"proc/sys/kernel/random/boot_id": "second-boot"}
IMAGE = {"etc/machine-id": "of-another-image"}
RADIO = {f"sys/class/net/wlan0/{name}": text for name, text in (CARD | {"wireless/x": ""}).items()}
BRIDGE = {"sys/class/net/docker0/address": "02:42:00:00:00:01", "sys/class/net/docker0/addr_assign_type": "3"}


def at(root: Path, files: dict[str, str]) -> str:
    """The host whose kernel shows these files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return identify_host(root)


@pytest.mark.parametrize(
    ("files", "changes", "same"),
    [
        (METAL, REBOOT, True),
        (METAL, RADIO, True),
        (METAL, BRIDGE, True),
        (METAL, IMAGE, False),  # also protects the addresses: nobody can guess a machine-id
        (METAL, {"sys/class/net/eth0/address": "52:54:00:ab:cd:f0"}, False),  # the same image elsewhere
        (METAL, {"sys/class/nvme/nvme0/serial": "S4EW2"}, False),
        (VIRTUAL, REBOOT, False),  # it may have moved; and clones of an image show all else alike
        (VIRTUAL, {"sys/class/net/eth0/address": "52:54:00:ab:cd:f0"}, True),
        (CONTAINER, IMAGE, True),  # two containers on one host
        (CONTAINER, REBOOT, False),
    ],
)
def test_a_host_is_known_again_where_that_is_certain_and_else_another(
    tmp_path: Path, files: dict[str, str], changes: dict[str, str], same: bool
) -> None:
    host, other = at(tmp_path / "one", files), at(tmp_path / "two", files | changes)
    assert (host == other) is same


def test_the_hash_is_short_and_salted(tmp_path: Path) -> None:
    host = at(tmp_path, CONTAINER)
    assert len(host) == 6
    assert not hashlib.sha256(b"first-boot").hexdigest().startswith(host)


def test_kernel_settings_are_the_chosen_words_and_what_is_missing_is_left_out(tmp_path: Path) -> None:
    files = {
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
        "proc/cpuinfo": "flags : fpu",
    }
    at(tmp_path, files)
    assert read_kernel_settings(tmp_path) == {"transparent_hugepage": "madvise", "clocksource": "tsc"}

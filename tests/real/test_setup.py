"""Setting up with stages that touch files instead of installing packages."""

import ast
import dataclasses
import fcntl
import importlib.util
import io
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.errors import UserError
from bench.setup import choice as choosing
from bench.setup import install, interpreter, surroundings
from bench.setup.checkout import ROOT
from bench.setup.choice import Choice
from bench.setup.install import set_up
from bench.setup.interpreter import find_or_bring_python, look_for_python
from bench.setup.nvidia_smi import ListedGpu, list_gpus
from bench.setup.recipes import CUDA_HOME, STACKS, Stack
from bench.setup.stage import pending
from bench.setup.uv import PRINT_DEFAULT_INDEX, translate
from tests.support.fake_programs import write_nvidia_smi, write_program
from tests.support.processes import alive
from tests.support.python import run_python
from tests.support.setting_up import VERSION, ran, shell, stack_of

pytestmark = pytest.mark.once

HANGS = 300  # seconds after which nothing more is expected; a busy machine needs some


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    path = tmp_path / "requirements.txt"
    path.write_text("torch==2.6.0")
    return path


@pytest.fixture
def three(tmp_path: Path, requirements: Path) -> Stack:
    """A set-up of three stages in `tmp_path`, complete."""
    stack = stack_of(
        shell("venv", "touch .venv/python"),
        shell("packages", "true", inputs=(requirements,)),
        shell("built", "touch .venv/lib.so", proof=("lib.so",), discards=("lib.so", "half")),
    )
    set_up(stack, tmp_path, "cpu")
    assert ran(tmp_path) == ["venv", "packages", "built"]
    return stack


@pytest.mark.parametrize(
    ("change", "redone"),
    [
        ("true", []),
        ("echo torch==2.6.1 > requirements.txt", ["packages", "built"]),
        ("rm .venv/setup-packages.stamp", ["packages", "built"]),
        ("rm .venv/lib.so", ["built"]),
        ("rm .venv/setup-built.stamp; mkdir -p .venv/half/built", ["built"]),
    ],
)
def test_what_has_changed_is_made_again_with_all_after_it_and_starts_clean(
    three: Stack, tmp_path: Path, change: str, redone: list[str]
) -> None:
    subprocess.run(["sh", "-ec", change], cwd=tmp_path, check=True)
    set_up(three, tmp_path)
    assert ran(tmp_path) == redone
    assert not (tmp_path / ".venv" / "half").exists()


def test_another_definition_redoes_a_stage_but_other_prose_does_not(three: Stack, tmp_path: Path) -> None:
    venv, packages, built = three.stages(tmp_path, tmp_path, Choice("", "", ""))
    reworded = dataclasses.replace(packages, does="the same", remedy="as before")
    set_up(stack_of(venv, reworded, built), tmp_path)
    assert ran(tmp_path) == []

    changed = dataclasses.replace(built, variables=(("CXX", "clang++"),))
    set_up(stack_of(venv, packages, changed), tmp_path)
    assert ran(tmp_path) == ["built"]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", STACKS)
def test_an_environment_that_was_moved_with_its_checkout_is_complete(
    tmp_path: Path, name: str, device: str
) -> None:
    """But not where another Python or device is asked for."""

    def hashes(checkout: Path, choice: Choice) -> list[str]:
        checkout.mkdir(exist_ok=True)
        for part in ("bench", "requirements"):
            if not (checkout / part).exists():
                (checkout / part).symlink_to(ROOT / part)
        env = checkout / STACKS[name].folder
        return [*pending(STACKS[name].stages(checkout, env, choice), env).values()]

    choice = Choice("/usr/bin/python3.11", "3.11.7", device)
    here, moved = tmp_path / "here", tmp_path / "else" / "where"
    moved.parent.mkdir()
    assert hashes(here, choice) == hashes(moved, choice)
    assert hashes(here, choice) != hashes(moved, dataclasses.replace(choice, python="/opt/python3.11"))
    assert hashes(here, choice) != hashes(moved, dataclasses.replace(choice, cpu_adam=True))


def write_wheel(path: Path, name: str, files: dict[str, str]) -> None:
    """The smallest wheel with these files, of which those in its folder `scripts` may be run."""
    _, version, _ = path.name.split("-", 2)
    described = {
        f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{name}-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}-{version}.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as wheel:
        for place, text in {**files, **described}.items():
            entry = zipfile.ZipInfo(place)
            entry.external_attr = 0o100755 << 16  # pip leaves out what says nothing about who may run it
            wheel.writestr(entry, text)


def test_the_programs_of_an_environment_run_after_it_was_moved(tmp_path: Path) -> None:
    """It is made by the set-up's own commands, but for pip's."""
    stages = STACKS["ort"].stages(ROOT, tmp_path / "a" / ".venv", Choice(sys.executable, VERSION, "cpu"))
    make_relocatable = stages[1].commands[2]
    assert "--relocatable" in make_relocatable
    # Of its own link in a Python 3.10's environment uv would make one to itself.
    assert make_relocatable[make_relocatable.index("--python") + 1] == sys.executable
    wheel = tmp_path / "hello-1-py3-none-any.whl"
    program = "import sys\ndef main(): print(sys.prefix)\n"
    entry = "[console_scripts]\nhello = hello:main\n"
    write_wheel(wheel, "hello", {"hello.py": program, "hello-1.dist-info/entry_points.txt": entry})
    uv = str(Path(sys.executable).with_name("uv"))
    environ = {**os.environ, "VIRTUAL_ENV": str(tmp_path / "a" / ".venv")}
    for command in (
        stages[0].commands[0],
        (uv, *make_relocatable[3:]),
        stages[1].commands[3],
        (uv, "pip", "install", "--offline", str(wheel)),
    ):
        subprocess.run(command, env=environ, check=True, capture_output=True)
    (tmp_path / "a").rename(tmp_path / "b")
    moved = tmp_path / "b" / ".venv"
    for script in ('"$0"/bin/hello', '. "$0"/bin/activate && hello', 'ln -s "$0" link && link/bin/hello'):
        command = ("bash", "-ec", script, str(moved))
        assert subprocess.check_output(command, cwd=tmp_path, text=True) == f"{moved}\n"
    stale = subprocess.run(["grep", "-rlI", tmp_path / "a", moved], capture_output=True, check=False)
    assert stale.stdout == b""


def test_a_failing_stage_ends_with_its_log_and_one_sentence_and_is_not_stamped(tmp_path: Path) -> None:
    """Nor is one that has failed after a change that is taken back."""
    first, never = shell("first", "true"), shell("never", "true")
    (change := tmp_path / "change").touch()
    script = 'echo "$TMPDIR" > where; touch "$TMPDIR/$$"; seq 100 139; [ -e mended ]'
    counting = shell("counting", script, inputs=(change,), remedy="mend it")
    stack = stack_of(first, counting, never)
    with pytest.raises(UserError) as raised:
        set_up(stack, tmp_path, "cpu")
    assert ran(tmp_path) == ["first", "counting"]
    *tail, sentence = str(raised.value).splitlines()
    assert [int(line) for line in tail] == list(range(110, 140))
    log = tmp_path / ".venv" / "setup-counting.log"
    assert sentence == (
        f"The set-up stopped in counting: its command ended with status 1 (mend it; the whole log is {log})."
    )
    assert "seq 100 139" in log.read_text().splitlines()[0]
    where = Path((tmp_path / "where").read_text().strip())
    assert where.is_relative_to(tmp_path / ".venv"), "temporary files lie in the environment"

    (tmp_path / "mended").touch()
    set_up(stack, tmp_path)
    assert ran(tmp_path) == ["counting", "never"]
    assert not where.exists()
    change.write_text("misspelt")
    (tmp_path / "mended").unlink()
    with pytest.raises(UserError):
        set_up(stack, tmp_path)
    change.write_text("")
    (tmp_path / "mended").touch()
    set_up(stack, tmp_path)
    assert ran(tmp_path) == ["counting", "counting", "never"]


def test_a_stage_that_leaves_no_proof_has_failed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"stopped in empty: it left no lib\*\.so"):
        set_up(stack_of(shell("empty", "true", proof=("lib*.so",))), tmp_path, "cpu")
    assert not (tmp_path / ".venv" / "setup-empty.stamp").exists()


def test_an_environment_of_another_checkout_is_never_emptied_through_a_link(
    three: Stack, tmp_path: Path, requirements: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / ".venv").symlink_to(tmp_path / ".venv")
    requirements.write_text("torch==2.6.1")  # so that there is something to do
    with pytest.raises(
        UserError, match=r"^\.venv is a link to .*; remove the link and run `make setup` again\.$"
    ):
        set_up(three, other)
    assert (tmp_path / ".venv" / "lib.so").exists()


OF_CUDA = ("CUDA_HOME", "CUDA_PATH", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")


@pytest.mark.parametrize(
    ("users", "shown", "seen"),
    [
        ({}, "$PATH", "{folder}/.venv/bin:{path}"),  # the environment's programs first
        ({}, "$DS_ACCELERATOR", "cpu"),
        (dict.fromkeys(OF_CUDA, "/usr/local/cuda-11.2"), "".join(f"${name}" for name in OF_CUDA), ""),
        ({"PIP_USER": "1"}, "$PIP_USER", "0"),
    ],
)
def test_commands_see_what_the_set_up_needs_of_the_user_s_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, users: dict[str, str], shown: str, seen: str
) -> None:
    for name, value in users.items():
        monkeypatch.setenv(name, value.format(folder=tmp_path))
    stage = shell("seen", f'echo "{shown}" > seen', variables=(("DS_ACCELERATOR", "cpu"),))
    set_up(stack_of(stage), tmp_path, "cpu")
    assert (tmp_path / "seen").read_text() == seen.format(folder=tmp_path, path=os.environ["PATH"]) + "\n"


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "UV_PYTHON", "UV_SYSTEM_PYTHON"])
def test_packages_go_into_our_environment_whichever_the_user_s_shell_has_active(
    tmp_path: Path, variable: str
) -> None:
    other = tmp_path / "other"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", other], check=True)
    value = {"VIRTUAL_ENV": str(other), "UV_PYTHON": f"{other}/bin/python", "UV_SYSTEM_PYTHON": "1"}[variable]
    command = [sys.executable, "-m", "bench.setup.uv", "pip", "list"]
    listed = subprocess.run(
        command, env={**os.environ, variable: value}, cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert "hydra-core" in listed.stdout, listed.stderr


def test_the_compiler_is_the_user_s_and_writes_nothing_for_debuggers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path, "own", 'echo "$@"')
    monkeypatch.setenv("CXX", f"{tmp_path}/own -m64")
    monkeypatch.setenv("CC", "another")  # which torch would let nvcc compile with
    script = '"$CXX" -g "a file.cpp" > told; "$CC" x.cu >> told'
    set_up(stack_of(shell("built", script)), tmp_path, "cpu")
    assert (tmp_path / "told").read_text() == "-m64 -g a file.cpp -g0\n-m64 x.cu -g0\n"


# Two processes. The slow stage behaves like a build that was killed and left its lock: it cannot
# succeed beside a leftover `half`, and it lasts until the file `go` is there.

SLOW = "[ ! -e .venv/half ]; touch .venv/half; until [ -e go ]; do sleep 0.02; done; touch .venv/it"
DRIVER = f"""
import dataclasses, sys
from pathlib import Path
from bench.setup import __main__ as command
from bench.setup.stage import SetupStage
line = ("sh", "-ec", "echo $$ >> ran; {SLOW}")
slow = SetupStage("slow", commands=(line,), discards=("half",), proof=("it",))
known = dict(pythons=dict(cpu=["{VERSION}"]), stages=lambda *_: (slow,))
command.STACKS = dict(ort=dataclasses.replace(command.STACKS["ort"], **known))
command.ROOT = Path.cwd()
sys.exit(command.main(["--device", "cpu"]))
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """A folder in which the slow stage, if a failed test left it running, ends after the test."""
    yield tmp_path
    (tmp_path / "go").touch()


def start_slow(checkout: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + HANGS
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.01)


def finish(process: subprocess.Popen[str]) -> str:
    """Return what a process prints until its end, which must be a good one."""
    output, _ = process.communicate(timeout=HANGS)
    assert process.returncode == 0, output
    return output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_command_and_the_next_call_finishes(
    checkout: Path, number: signal.Signals
) -> None:
    first = start_slow(checkout)
    wait_for(checkout / ".venv" / "half")
    first.send_signal(number)
    output, _ = first.communicate(timeout=HANGS)
    assert first.returncode == 130
    assert output.splitlines()[-1] == ("The set-up was interrupted; `make setup` goes on from there.")
    [command] = ran(checkout)
    with pytest.raises(ProcessLookupError):
        os.kill(int(command), 0)

    (checkout / "go").touch()
    assert "waiting" not in finish(start_slow(checkout))
    assert len(ran(checkout)) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_a_command_starts_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    forked: list[int] = []
    fork = subprocess._fork_exec  # type: ignore[attr-defined]

    def fork_and_interrupt(*arguments: object) -> int:
        forked.append(fork(*arguments))
        os.kill(os.getpid(), number)  # before `Popen` has returned
        return forked[-1]

    monkeypatch.setattr(subprocess, "_fork_exec", fork_and_interrupt)
    before = signal.signal(number, signal.default_int_handler)
    try:
        with (tmp_path / "lock").open("wb") as lock, pytest.raises(KeyboardInterrupt):
            install.do(shell("slow", "sleep 60"), tmp_path, tmp_path, lock.fileno())
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert not any(map(alive, forked))


def test_after_a_kill_the_next_call_waits_for_what_still_runs_and_redoes_the_stage(checkout: Path) -> None:
    first = start_slow(checkout)
    wait_for(checkout / ".venv" / "half")
    first.kill()
    first.wait()
    with (checkout / ".venv.lock").open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not (checkout / ".venv" / "setup-slow.stamp").exists()

    (checkout / "go").touch()
    finish(start_slow(checkout))
    assert len(ran(checkout)) == 2


def test_a_second_setup_waits_for_the_first_and_says_so_however_the_folder_is_called(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    folder = checkout / "möbel"
    folder.mkdir()
    first = start_slow(folder)
    wait_for(folder / ".venv" / "half")
    second = start_slow(folder)
    assert second.stdout is not None
    said = second.stdout.readline()
    (folder / "go").touch()
    assert said.endswith("m?bel/.venv.lock; waiting ...\n")
    assert "[1/1] slow" in finish(first)
    assert finish(second) == f".venv is complete ({recorded(folder)}).\n"
    assert len(ran(folder)) == 1


# What an environment is made of.


def recorded(checkout: Path) -> Choice:
    return Choice(**json.loads((checkout / ".venv" / "setup.json").read_text()))


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for programs, first on PATH; no other nvidia-smi."""
    folder = tmp_path / "bin"
    folder.mkdir()
    rest = [each for each in os.get_exec_path() if not Path(each, "nvidia-smi").exists()]
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder), *rest]))
    return folder


def test_the_device_stays_what_it_was_until_another_is_asked_for(tmp_path: Path) -> None:
    stack = stack_of(shell("one", "true"))
    for asked, device in (("cuda", "cuda"), (None, "cuda"), ("cpu", "cpu"), (None, "cpu")):
        set_up(stack, tmp_path, asked)
        assert recorded(tmp_path).device == device


def test_the_device_is_cuda_where_the_driver_lists_a_gpu_and_no_cpu_where_it_does_not_answer(
    bin: Path,
) -> None:
    """Gigabytes for a CPU on a node with GPUs, without a word."""
    assert choosing.device_here() == "cpu"
    write_nvidia_smi(bin, "NVIDIA H200 9.0")
    assert choosing.device_here() == "cuda"
    write_program(bin, "nvidia-smi", "echo 'No devices were found'; exit 6")
    assert choosing.device_here() == "cpu"
    for script, words in (
        ("echo 'Driver/library version mismatch'; exit 18", "mismatch); repair the NVIDIA driver, or leave"),
        ("exit 255", "exit status 255"),
    ):
        write_program(bin, "nvidia-smi", script)
        with pytest.raises(UserError) as raised:
            choosing.device_here()
        assert str(raised.value).startswith("nvidia-smi is there but fails (")
        assert words in str(raised.value)
        assert str(raised.value).endswith("SETUP_ARGS='--device cpu' after `make setup`.")


def test_the_running_python_is_taken_if_it_is_supported_and_one_that_does_not_start_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = (os.path.realpath(sys.executable), platform.python_version())
    assert look_for_python(("3.99", VERSION)) == running
    shims, real = tmp_path / "shims", tmp_path / "real"
    write_program(shims, "python3.99", "echo 'command not found'; exit 127")
    write_program(real, "python3.99", """echo '["/real/python3.99", "3.99.1"]'""")
    monkeypatch.setenv("PATH", f"{shims}:{real}:{os.environ['PATH']}")
    assert look_for_python(("3.99", "3.98")) == ("/real/python3.99", "3.99.1")


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror of uv's Pythons, in its layout, and an index that has uv: this environment's, no network.

    Its one archive calls this Python. uv knows the hashes of the real ones, so the list is the mirror's, too.
    """
    number = platform.python_version()
    name = f"cpython-{number}+20990101-x86_64-unknown-linux-gnu-install_only_stripped.tar.gz"
    program = f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} "$@"\n'
    write_archive(
        tmp_path / "mirror" / "20990101" / name,
        {
            f"python/bin/python{VERSION}": program,
            f"python/lib/python{VERSION}/_sysconfigdata__linux_.py": (
                "# system configuration generated and used by the sysconfig module\n"
                "build_time_vars = {'CC': 'clang'}\n"
            ),
        },
    )
    system = {"arch": {"family": "x86_64", "variant": None}, "os": "linux", "libc": "gnu", "variant": None}
    major, minor, patch = map(int, number.split("."))
    build = {"major": major, "minor": minor, "patch": patch, "prerelease": "", "build": "20990101"}
    url = f"https://github.com/astral-sh/python-build-standalone/releases/download/20990101/{name}"
    archive = {"name": "cpython", **system, **build, "url": url, "sha256": None}
    (tmp_path / "list.json").write_text(json.dumps({f"cpython-{number}-linux-x86_64-gnu": archive}))
    pinned = (ROOT / "requirements" / "uv.txt").read_text().split("==")[1].split()[0]
    uv = f'#!/bin/sh\nexec {Path(sys.executable).with_name("uv")} "$@"\n'
    write_wheel(tmp_path / f"uv-{pinned}-py3-none-any.whl", "uv", {f"uv-{pinned}.data/scripts/uv": uv})
    for variable, value in {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path),
        "UV_PYTHON_DOWNLOADS_JSON_URL": (tmp_path / "list.json").as_uri(),
        "UV_PYTHON_INSTALL_MIRROR": (tmp_path / "mirror").as_uri(),
        "UV_PYTHON_INSTALL_DIR": str(tmp_path / "installed"),
    }.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(interpreter, "look_for_python", lambda _: None)
    return tmp_path / "mirror"


def write_archive(path: Path, files: dict[str, str]) -> None:
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))


def test_where_no_python_will_do_uv_brings_the_newest_that_the_stack_takes(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_USER", "1")  # pip's way for users alone, which is none in an environment
    path, number = find_or_bring_python(("3.8", VERSION))
    assert number == platform.python_version()
    assert path == os.path.realpath(sys.executable)  # what the archive's program calls
    assert (tmp_path / "installed" / f"cpython-{number}-linux-x86_64-gnu").is_dir()
    said = capsys.readouterr().out
    assert said.startswith(f"No Python 3.8 or {VERSION} with venv and its headers is here.")
    assert f"uv brings Python {VERSION}" in said


def test_a_python_is_brought_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brought = []

    def bring(versions: tuple[str, ...]) -> tuple[str, str]:
        brought.append(versions)
        return sys.executable, platform.python_version()

    monkeypatch.setattr(install, "find_or_bring_python", bring)
    set_up(stack_of(shell("packages", "true")), tmp_path, "cpu")
    set_up(stack_of(shell("packages", "true")), tmp_path)
    assert brought == [(VERSION,)]


@pytest.mark.exhaustive
def test_where_uv_cannot_bring_a_python_one_sentence_says_why_and_what_else_there_is(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    with pytest.raises(UserError) as raised:
        find_or_bring_python((VERSION,))
    sentence = str(raised.value)
    assert "downloads are not allowed" in sentence  # what uv says
    assert "The set-up cannot bring a Python; name a mirror of its archives in" in sentence
    assert "UV_PYTHON_INSTALL_MIRROR, or install Python" in sentence
    assert "apt" not in sentence
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nothing"))
    with pytest.raises(
        UserError, match=r"No matching distribution(.|\n)*Python; it needs the network, and an"
    ):
        find_or_bring_python((VERSION,))


def test_without_its_venv_a_python_cannot_bring_another(mirror: Path, tmp_path: Path, bin: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(importlib.util, "find_spec", lambda _: None)
        assert surroundings.find_lacking(brings_python=True) == [surroundings.VENV]
        with pytest.raises(UserError, match=r"^Missing here: python3's venv; install as root"):
            find_or_bring_python((VERSION,))


def test_what_a_bare_machine_lacks_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_program(tmp_path / "bin", "make", "true")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert refusal(tmp_path, "cpu") == (
        "Missing here: git, g++; install as root: apt install git g++ (Debian, Ubuntu), or dnf install git "
        "gcc-c++ (Fedora)."
    )


def test_a_set_up_goes_on_without_git_and_says_so(
    tmp_path: Path, bin: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for program in ("sh", "make", "g++"):
        (bin / program).symlink_to(str(shutil.which(program)))
    monkeypatch.setenv("PATH", str(bin))
    set_up(stack_of(shell("packages", "true")), tmp_path, "cpu")
    assert capsys.readouterr().out.splitlines()[0].startswith("Missing here: git; install as root")


@pytest.mark.parametrize("stack", STACKS)
def test_a_missing_library_is_noticed_after_the_last_install_and_deepspeed_asks_no_compiler(
    stack: str,
) -> None:
    known = STACKS[stack]
    stages = known.stages(ROOT, ROOT / known.folder, Choice("python3.11", "3.11.7", "cpu"))
    last = stages[1].commands[-1]
    assert last[1] == "-c"
    # Of soundfile there is a wheel for any platform, too, and its version satisfies `uv pip check`.
    assert "soundfile" in last[2]
    assert "install" in stages[1].commands[-4]
    (deepspeed,) = (stage for stage in stages if stage.name == "deepspeed")
    # Without this its set-up asks the compiler on PATH for its version, and ends where that one is broken.
    assert dict(deepspeed.variables)["TORCH_CUDA_ARCH_LIST"]


def test_what_pip_lists_as_its_settings_is_understood() -> None:
    indexes = "https://a.example https://b.example"
    environ = {"PIP_CONFIG_FILE": os.devnull, "PIP_EXTRA_INDEX_URL": indexes}
    printed, own = (
        run_python(*of_pip, check=True, variables=environ).stdout
        for of_pip in (["-m", "pip", "config", "list"], ["-c", PRINT_DEFAULT_INDEX])
    )
    assert own.startswith("https://")
    variables = translate(printed, {}, own.strip())
    assert variables["UV_INDEX"] == f"{own.strip()} https://a.example"
    assert variables["UV_DEFAULT_INDEX"] == "https://b.example"


# What a machine must have, looked at before anything is downloaded.


PACKAGES = (shell("packages", "true"),)


def refusal(tmp_path: Path, device: str, **more: Any) -> str:
    """The sentence that a set-up with packages to install is refused with; nothing may have run."""
    with pytest.raises(UserError) as raised:
        set_up(stack_of(*PACKAGES, **more), tmp_path, device)
    assert not (tmp_path / "ran").exists()
    return str(raised.value)


def raising(number: int) -> Callable[..., None]:
    """What a path does on a file system that does not take it."""

    def refuse(path: Path, *_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number), str(path))

    return refuse


@pytest.mark.parametrize(
    ("gpu", "driver", "sentence"),
    [
        (
            "NVIDIA A100 8.0",
            "525.60.11",
            "The NVIDIA driver is 525.60.11, and the ort stack's CUDA 12.4 needs 525.60.13; install a newer "
            "driver, or leave the GPUs alone: make setup SETUP_ARGS='--device cpu'.",
        ),
        ("Tesla V100 7.0", "550.54.15", "The ort stack runs on GPUs of compute capability 7.5 to 9.0, and"),
        ("NVIDIA B200 10.0", "550.54.15", "The ort stack runs on GPUs of compute capability 7.5 to 9.0, and"),
        ("odd [N/A]", "550.54.15", "The ort stack runs on GPUs of compute capability 7.5 to 9.0, and"),
    ],
)
def test_gpus_and_drivers_that_the_stack_cannot_use_are_refused(
    tmp_path: Path, bin: Path, gpu: str, driver: str, sentence: str
) -> None:
    write_nvidia_smi(bin, gpu, driver=driver)
    said = refusal(tmp_path, "cuda")
    assert said.startswith(sentence)
    if "GPUs of" in sentence:
        assert gpu.rpartition(" ")[0] in said
        assert "STACK=modern" in said


@pytest.mark.parametrize(
    ("place", "answers", "sentence"),
    [
        # ONNX Runtime Training has no wheel for it, not even for CPUs.
        ("platform.machine", lambda: "aarch64", "x86_64 alone, and this machine is aarch64; take STACK="),
        ("platform.libc_ver", lambda: ("glibc", "2.27"), "C library is glibc 2.27"),
        ("platform.libc_ver", lambda: ("", ""), "C library is another one than glibc"),
        (
            "pathlib.Path.mkdir",
            raising(13),
            "{folder}/.venv cannot be written to (Permission denied); make room, make it writable, or call "
            "make in a checkout of your own.",
        ),
        ("pathlib.Path.mkdir", raising(28), "cannot be written to (No space left on device)"),
    ],
)
def test_a_machine_that_lacks_what_the_set_up_needs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, answers: Callable[..., Any], sentence: str
) -> None:
    monkeypatch.setattr(place, answers)
    assert sentence.format(folder=tmp_path) in refusal(tmp_path, "cpu")


def test_without_a_compiler_nothing_is_installed(
    tmp_path: Path, bin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "g++-of-nobody")
    assert refusal(tmp_path, "cpu").startswith("Missing here: g++; install as root")


@pytest.mark.parametrize(
    ("gpus", "first_line"),
    [
        (2, "2 × NVIDIA A100; driver 525.60.13."),
        (0, "No NVIDIA driver shows a GPU here. Where one is, the driver must be 525.60.13 or newer."),
    ],
)
def test_it_says_which_gpus_it_sees_and_the_oldest_driver_of_torch_s_cuda_will_do(
    tmp_path: Path, bin: Path, capsys: pytest.CaptureFixture[str], gpus: int, first_line: str
) -> None:
    if gpus:
        write_nvidia_smi(bin, *["NVIDIA A100 8.0"] * gpus, driver="525.60.13")
    set_up(stack_of(*PACKAGES), tmp_path, None if gpus else "cuda")
    assert capsys.readouterr().out.splitlines()[0] == first_line


def test_a_login_node_whose_image_has_a_driver_that_is_not_loaded_sets_up_for_gpus_if_asked(
    tmp_path: Path, bin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_program(bin, "nvidia-smi", "echo 'NVIDIA-SMI has failed'; exit 9")
    with pytest.raises(UserError, match="nvidia-smi is there but fails"):
        set_up(stack_of(*PACKAGES), tmp_path)
    set_up(stack_of(*PACKAGES), tmp_path, "cuda")
    assert capsys.readouterr().out.startswith("No NVIDIA driver shows a GPU here. Where one is,")


@pytest.mark.parametrize(
    "also",
    ["echo 'WARNING: infoROM is corrupted at gpu 0000:00:1E.0'; exit 14", "echo 'odd, [N/A], 1, 2, 9.0'"],
)
def test_what_nvidia_smi_prints_beside_the_gpus_changes_nothing(bin: Path, also: str) -> None:
    write_nvidia_smi(bin, "NVIDIA A100 8.0", also=also)
    assert list_gpus() == [ListedGpu("NVIDIA A100", "550.54.15", 81559, 81079, "8.0")]


def test_too_little_disk_is_refused_with_both_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path))
    sentence = refusal(tmp_path, "cpu", disk_gib={"cpu": 10**6})
    assert sentence.startswith(f"The disk of {tmp_path} has ")
    assert " GiB free, and this set-up needs 1000000; make room, or choose another disk" in sentence


def test_the_glibc_that_is_asked_for_is_that_of_the_installed_wheels() -> None:
    tags = [
        tuple(map(int, number))
        for wheel in Path(sysconfig.get_path("purelib")).glob("*.dist-info/WHEEL")
        for number in re.findall(r"manylinux_(\d+)_(\d+)_x86_64", wheel.read_text())
    ]
    by_wheel = max(tags)
    assert by_wheel <= surroundings.OLDEST_GLIBC


def test_what_was_chosen_outlives_its_python(tmp_path: Path) -> None:
    set_up(stack_of(*PACKAGES), tmp_path, "cuda", cpu_adam=True)
    kept = recorded(tmp_path)
    gone = dataclasses.asdict(kept) | {"python": "/gone/python3.11"}
    choosing.choice_file(tmp_path / ".venv").write_text(json.dumps(gone))
    set_up(stack_of(*PACKAGES), tmp_path)
    assert recorded(tmp_path) == kept


def test_deepspeed_s_adam_for_cpus_is_compiled_once_it_was_asked_for(tmp_path: Path) -> None:
    stack = stack_of(*PACKAGES)
    for asked, compiled in ((False, False), (True, True), (False, True)):
        set_up(stack, tmp_path, "cpu", cpu_adam=asked)
        assert recorded(tmp_path).cpu_adam is compiled
    stages = {stage.name: stage for stage in STACKS["ort"].stages(ROOT, ROOT, recorded(tmp_path))}
    assert any("cpu_adam" in proof for proof in stages["deepspeed"].proof)


# The stages for GPUs: their compiler and libraries are the environment's, whatever else the machine has.


def test_extensions_are_compiled_by_the_environment_s_compiler_for_all_gpus_of_the_stack() -> None:
    choice = Choice("python3.11", "3.11.7", "cuda")
    stages = {stage.name: stage for stage in STACKS["ort"].stages(ROOT, ROOT / ".venv", choice)}
    variables = dict(stages["ortmodule"].variables)
    assert variables["CUDA_HOME"] == str(ROOT / ".venv" / CUDA_HOME)
    assert variables["TORCH_CUDA_ARCH_LIST"] == "7.5;8.0;9.0"
    assert f"{CUDA_HOME}/bin/nvcc" in stages["compiler"].proof
    assert any("fused_ops" in proof for proof in stages["ortmodule"].proof)


@pytest.mark.exhaustive
@pytest.mark.ort
def test_the_compiler_of_wheels_gets_torch_s_headers_and_an_older_assembler(tmp_path: Path) -> None:
    home = tmp_path / "nvidia" / "cu13"
    for path, text in {
        "cu13/include/crt/host_runtime.h": "of 13",
        "cu13/include/cuda_runtime.h": "of 13",
        "cuda_nvcc/include/crt/host_runtime.h": "of 12",
        "cuda_cccl/include/thrust.h": "of 12",
        "cu13/bin/ptxas": "the assembler of 13",
    }.items():
        file = tmp_path / "nvidia" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (home / "bin/ptxas").chmod(0o755)
    write_program(tmp_path / "nvidia" / "cuda_nvcc" / "bin", "ptxas", 'echo of 12: "$@"')
    run_python("-m", "bench.setup.inside.cuda_compiler", tmp_path, check=True)

    assert "12040" in (home / "include/cuda_runtime_api.h").read_text()
    assert (home / "include/cuda_runtime.h").read_text() != "of 13"
    assert (home / "include/crt/host_runtime.h").read_text() == "of 13"
    assert (home / "include/thrust.h").exists()
    assert (home / "lib64/libcudart.so").resolve().name == "libcudart.so.12"
    source = tmp_path / "a b.ptx"
    source.write_text(".version 9.0\n.target sm_90\n")
    printed = subprocess.check_output([home / "bin/ptxas", source, "-o", "x"], text=True)
    assert printed == f"of 12: {source} -o x\n"
    assert source.read_text() == ".version 8.4\n.target sm_90\n"


# Any Python from 3.8 on starts it, with nothing installed.

LOADED = "import sys, bench.setup.__main__; print(*(m for m in sys.modules if m.split('.')[0] == 'bench'))"


def test_what_sets_up_is_written_for_python_3_8_and_needs_the_standard_library_alone() -> None:
    loaded = run_python("-c", LOADED, check=True).stdout.split()
    files = [importlib.util.find_spec(name).origin for name in loaded]  # type: ignore[union-attr]
    assert len(files) > 5
    for file in files:
        text = Path(str(file)).read_text(encoding="utf-8")
        tree = ast.parse(text, feature_version=(3, 8))
        # Else types such as list[str] are evaluated, which 3.8 cannot.
        assert "def " not in text or "from __future__ import annotations" in text, file
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names | {"bench"}, file


def test_a_python_3_8_that_is_at_hand_starts_it() -> None:
    asked = shutil.which("python3.8")
    old = subprocess.run([asked, "-V"], capture_output=True, check=False) if asked else None
    if old is None or old.returncode:
        pytest.skip("no Python 3.8 on PATH")
    for arguments, status, text in (
        (["-m", "bench.setup", "--help"], 0, "--piece-mib"),
        (["-m", "bench.plugins.doctor"], 1, "Python 3.8 is too old for the doctor, which needs 3.10"),
    ):
        done = subprocess.run([str(asked), *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        assert text in done.stdout + done.stderr

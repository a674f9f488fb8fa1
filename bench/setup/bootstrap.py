"""Make the environment of a checkout: `python3 bench/setup/bootstrap.py`, which `make setup` runs.

An environment is made in stages. A finished stage leaves a stamp, the hash of everything it depends
on. A stage without its stamp, or with an outdated one, is done again from a clean state, and so is
every stage after it: a set-up that was killed, or whose requirements changed, is mended by calling
it again, and a complete one is recognised by its stamps alone.

It runs before anything is installed, so it uses the standard library alone and no syntax newer than
Python 3.8: any Python can start it, and it finds the one that the environment needs.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
DEVICES = ("cpu", "cuda")
TAIL_LINES = 30
SECONDS_TO_STOP = 10
"""How long an interrupted command may clean up before it is killed."""

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

PROBE = """
import importlib.util, json, os, sys, sysconfig
header = os.path.join(sysconfig.get_config_var("INCLUDEPY"), "Python.h")
lacks = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
lacks += [] if os.path.exists(header) else ["Python.h"]
version = "%d.%d.%d" % sys.version_info[:3]
print(json.dumps([os.path.realpath(sys.executable), version, lacks]))
"""


class SetupFailed(Exception):
    """The set-up cannot go on; the message ends in one sentence that holds the remedy."""


@dataclass(frozen=True)
class Stage:
    """One part of a set-up. A change of anything but the prose makes it be done again.

    Args:
        name: names its stamp and its log.
        commands: run one after the other in the checkout, the environment's `bin` first in PATH.
        variables: added to the commands' environment.
        discards: patterns below the environment, removed before the first command.
        proof: patterns below the environment; without a match for each, the stage is not done.
        inputs: the files whose content the result depends on.
        tools: the programs that must be on PATH.
        does: prose: what runs, and roughly how long.
        remedy: prose: what to try when it fails.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    variables: tuple[tuple[str, str], ...] = ()
    discards: tuple[str, ...] = ()
    proof: tuple[str, ...] = ()
    inputs: tuple[Path, ...] = ()
    tools: tuple[str, ...] = ()
    does: str = field(default="", repr=False)
    remedy: str = field(default="see the log", repr=False)

    def stamp(self, env: Path) -> Path:
        """Return the file that holds the hash of this stage once it is done."""
        return env / f"setup-{self.name}.stamp"

    def log(self, env: Path) -> Path:
        """Return the file that takes what the commands print."""
        return env / f"setup-{self.name}.log"

    def is_done(self, env: Path, fingerprint: str) -> bool:
        """Tell whether this stage was finished with this hash and its result is still there."""
        stamp = self.stamp(env)
        if not stamp.exists() or stamp.read_text() != fingerprint:
            return False
        return not self.unproven(env)

    def unproven(self, env: Path) -> list[str]:
        """Return what this stage should have left behind and did not."""
        return [pattern for pattern in self.proof if not any(path.exists() for path in env.glob(pattern))]


@dataclass(frozen=True)
class Choice:
    """What an environment is made of; kept until `make clean` or until another device is asked for.

    Args:
        python: the interpreter, with every link resolved.
        version: its full version.
        device: one of `DEVICES`.
    """

    python: str
    version: str
    device: str

    def __str__(self) -> str:
        return f"Python {self.version}, {self.device}"


@dataclass(frozen=True)
class Stack:
    """A set of versions that belong together, and how they are installed.

    Args:
        name: by which it is asked for.
        folder: the environment's name in the checkout.
        pythons: the supported versions, the preferred one first.
        stages: makes the stages out of the checkout, the environment and what was chosen.
    """

    name: str
    folder: str
    pythons: tuple[str, ...]
    stages: Callable[[Path, Path, Choice], tuple[Stage, ...]]


SITE = "lib/python*/site-packages"


def ort_stages(checkout: Path, env: Path, choice: Choice) -> tuple[Stage, ...]:
    """Return the stages of the stack that ONNX Runtime Training 1.19.2 can run on."""
    gpu = choice.device == "cuda"
    requirements = checkout / "requirements" / ("ort-gpu.txt" if gpu else "ort-cpu.txt")
    extensions = f"{SITE}/onnxruntime/training/ortmodule/torch_cpp_extensions"
    return (
        venv_stage(env, choice),
        packages_stage(checkout, env, requirements, torch_first=gpu),
        Stage(
            name="ortmodule",
            commands=((python(env), "-m", "onnxruntime.training.ortmodule.torch_cpp_extensions.install"),),
            discards=(f"{extensions}/build", f"{extensions}/*.so"),
            proof=(f"{extensions}/aten_op_executor*.so", f"{extensions}/torch_interop_utils*.so"),
            tools=("g++",),
            does="g++ compiles ONNX Runtime's extensions of torch, under 2 minutes on 2 cores",
            remedy="it needs CUDA 11.8 with nvcc and cuDNN 8; without them take the packages for a"
            " CPU: make setup SETUP_ARGS='--device cpu'"
            if gpu
            else "it needs a working g++ with C++17",
        ),
        deepspeed_stage(checkout, env, requirements),
    )


def modern_stages(checkout: Path, env: Path, choice: Choice) -> tuple[Stage, ...]:
    """Return the stages of today's stack."""
    requirements = checkout / "requirements" / "modern.txt"
    return (
        venv_stage(env, choice),
        packages_stage(checkout, env, requirements, torch_first=True),
        deepspeed_stage(checkout, env, requirements),
    )


def venv_stage(env: Path, choice: Choice) -> Stage:
    """Return the stage that makes an empty environment."""
    return Stage(
        name="venv",
        commands=((choice.python, "-m", "venv", "--without-pip", str(env)),),
        discards=("bin", "include", "lib", "lib64", "share", "pyvenv.cfg"),
        proof=("bin/python",),
        does=f"an empty environment with Python {choice.version}, 1 s",
    )


def packages_stage(checkout: Path, env: Path, requirements: Path, *, torch_first: bool) -> Stage:
    """Return the stage that installs a file of requirements.

    With `torch_first` the file leaves out the CUDA libraries, which each build of torch pins itself: those of
    another CUDA come from another index (PIP_EXTRA_INDEX_URL), and a CPU build that lies at hand
    (PIP_FIND_LINKS) needs none.
    """
    relative = str(requirements.relative_to(checkout))
    lines = requirements.read_text().splitlines() if torch_first else []
    torch = [line.split()[0] for line in lines if line.startswith("torch==")]
    script = checkout / "bench" / "setup" / "packages.py"
    install = (python(env), str(script))
    return Stage(
        name="packages",
        commands=(
            (python(env), "-m", "ensurepip", "--default-pip"),
            (*pip(env), "install", "--progress-bar=off", "uv"),
            *((*install, one) for one in torch),
            # The file holds every version, so there is nothing to resolve.
            (*install, "--no-deps", "-r", str(requirements)),
            (*pip(env), "check"),
        ),
        # What must be built is built with the setuptools of the same file.
        variables=(("PIP_CONSTRAINT", relative),),
        discards=(f"{SITE}/*",),
        inputs=(requirements, script),
        does=f"uv installs {relative}, about a minute",
        remedy="it needs the network and some 8 GB of free disk",
    )


def deepspeed_stage(checkout: Path, env: Path, requirements: Path) -> Stage:
    """Return the stage that compiles what DeepSpeed would compile at its first start with gloo or CPUAdam.

    Left to itself it does so in a folder with a lock file, which a killed process leaves behind for ever.
    """
    options = (
        "--no-deps",
        "--no-build-isolation",
        "--no-cache-dir",
        "--force-reinstall",
        "--progress-bar=off",
    )
    return Stage(
        name="deepspeed",
        commands=((*pip(env), "install", *options, "deepspeed"),),
        variables=(
            ("DS_ACCELERATOR", "cpu"),
            ("DS_BUILD_SHM_COMM", "1"),
            ("DS_BUILD_CPU_ADAM", "1"),
            ("DS_ENABLE_NINJA", "1"),  # a source on each core
            ("PIP_CONSTRAINT", str(requirements.relative_to(checkout))),
        ),
        proof=(
            f"{SITE}/deepspeed/ops/comm/deepspeed_shm_comm_op*.so",
            f"{SITE}/deepspeed/ops/adam/cpu_adam_op*.so",
        ),
        tools=("g++",),
        does="g++ compiles DeepSpeed's communication between CPU ranks and its Adam for CPUs, 1 to 2 minutes",
        remedy="it needs a working g++ with OpenMP",
    )


def python(env: Path) -> str:
    """Return an environment's interpreter."""
    return str(env / "bin" / "python")


def pip(env: Path) -> tuple[str, ...]:
    """Return the command of an environment's pip."""
    return (python(env), "-m", "pip", "--no-input", "--disable-pip-version-check")


STACKS = {
    stack.name: stack
    for stack in (
        Stack(name="ort", folder=".venv", pythons=("3.11", "3.10"), stages=ort_stages),
        Stack(name="modern", folder=".venv-modern", pythons=("3.11", "3.12", "3.13"), stages=modern_stages),
    )
}
"""The supported ones, the default first."""


def set_up(stack: Stack, checkout: Path, device: str | None = None) -> None:
    """Bring the stack's environment in this checkout to completion.

    Args:
        stack: what to install.
        checkout: the folder that holds the requirements and will hold the environment.
        device: one of `DEVICES`, or None for what was chosen before, else what the machine has.

    Raises:
        SetupFailed: if no suitable Python or compiler is there, or a command fails.
    """
    env = checkout / stack.folder
    choice = recorded_choice(env, stack, device)
    if choice is None or pending(stack.stages(checkout, env, choice), env):
        env.mkdir(parents=True, exist_ok=True)
        with locked(checkout / f"{stack.folder}.lock") as lock:
            # Another set-up may have chosen, and finished, while this one waited.
            choice = recorded_choice(env, stack, device) or Choice(
                *find_python(stack.pythons), device or device_here()
            )
            choice_file(env).write_text(json.dumps(dataclasses.asdict(choice)))
            complete(stack.stages(checkout, env, choice), checkout, env, lock)
    say(f"{stack.folder} is complete ({choice}).")


def pending(stages: tuple[Stage, ...], env: Path) -> list[tuple[Stage, str]]:
    """Return the first stage that is not done and all after it, each with the hash for its stamp.

    A stage's hash covers its definition, its inputs, the environment's own path (environments do
    not move) and all stages before it.
    """
    digest = hashlib.sha256(str(env).encode())
    todo: list[tuple[Stage, str]] = []
    for stage in stages:
        digest.update(repr(stage).encode())
        for path in stage.inputs:
            digest.update(path.read_bytes())
        if todo or not stage.is_done(env, digest.hexdigest()):
            todo.append((stage, digest.hexdigest()))
    return todo


def complete(stages: tuple[Stage, ...], checkout: Path, env: Path, lock: int) -> None:
    """Do every stage that is not done, in order; see `set_up`."""
    todo = pending(stages, env)
    for tool in sorted({tool for stage, _ in todo for tool in stage.tools}):
        if shutil.which(tool) is None:
            raise SetupFailed(
                f"{tool} was not found: install it (on Debian or Ubuntu: apt install {tool})"
                " and run `make setup` again."
            )
    for stage, _ in todo:
        with contextlib.suppress(FileNotFoundError):
            stage.stamp(env).unlink()
    for stage, fingerprint in todo:
        say(f"[{stages.index(stage) + 1}/{len(stages)}] {stage.name}: {stage.does} ... ", end="")
        started = time.monotonic()
        outcome = "stopped"
        try:
            perform(stage, checkout, env, lock)
            outcome = "done"
        finally:
            say(f"{outcome} after {time.monotonic() - started:.0f} s")
        stage.stamp(env).write_text(fingerprint)


def perform(stage: Stage, checkout: Path, env: Path, lock: int) -> None:
    """Run a stage's commands from a clean state and check what they left behind."""
    for path in [path for pattern in stage.discards for path in env.glob(pattern)]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    # What a killed pip leaves in its temporary folder is some GB: it lies where the next call clears it.
    scratch = env / "setup-tmp"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    variables = {**os.environ, "TMPDIR": str(scratch), **dict(stage.variables)}
    variables["PATH"] = f"{env / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    variables["CXX"] = str(without_debugging(variables.get("CXX", "g++"), scratch))
    log = stage.log(env)
    with log.open("wb") as output:
        for command in stage.commands:
            output.write(f"$ {shlex.join(command)}\n".encode())
            output.flush()
            status = run(command, checkout, variables, output.fileno(), lock)
            if status != 0:
                raise failure(stage, log, f"its command ended with status {status}")
    if missing := stage.unproven(env):
        raise failure(stage, log, f"it left no {missing[0]}")
    shutil.rmtree(scratch, ignore_errors=True)


def without_debugging(compiler: str, folder: Path) -> Path:
    """Return a compiler that writes nothing for debuggers, which would be a third of its work.

    CFLAGS would not do: DeepSpeed's own -g comes after them.
    """
    wrapper = folder / "g++"  # torch accepts compilers by their names
    wrapper.write_text(f'#!/bin/sh\nexec {compiler} "$@" -g0\n')
    wrapper.chmod(0o755)
    return wrapper


def run(command: tuple[str, ...], cwd: Path, variables: dict[str, str], output: int, lock: int) -> int:
    """Run a command and return its exit status; an interrupt ends it with all that it started.

    It inherits the lock: if this process is killed, the next set-up waits until it has ended too.
    """
    process = None
    try:
        with interrupts_held_back():  # else one that comes now leaves a process that nobody knows of
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(lock,),
            )
        return process.wait()
    except KeyboardInterrupt:
        if process:
            end(process)
        raise


@contextlib.contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Raise a KeyboardInterrupt that comes meanwhile at the end.

    A handler does it, not the signals' mask, which what is started here would inherit.
    """
    came: list[int] = []
    numbers = [number for number in INTERRUPTS if signal.getsignal(number) == signal.default_int_handler]
    for number in numbers:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt


def end(process: subprocess.Popen[bytes]) -> None:
    """End a session's leader and all that it started; it may tidy up first."""
    ended = contextlib.suppress(ProcessLookupError)
    try:
        with ended, contextlib.suppress(subprocess.TimeoutExpired):
            os.killpg(process.pid, signal.SIGINT)
            process.wait(SECONDS_TO_STOP)
    finally:
        with ended:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def failure(stage: Stage, log: Path, what: str) -> SetupFailed:
    """Return the error of a stage: the end of its log, then one sentence."""
    tail = log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
    sentence = f"The set-up stopped in {stage.name}: {what} ({stage.remedy}; the whole log is {log})."
    return SetupFailed("\n".join([*(f"    {line}" for line in tail), sentence]))


@contextlib.contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold the lock on a file, wait for it if need be, and yield its descriptor.

    The kernel releases it when the last process that inherited it has ended, however it ended.
    """
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Another set-up, or what a killed one left running, holds {path}; waiting ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def choice_file(env: Path) -> Path:
    """Return the file that keeps an environment's choice."""
    return env / "setup.json"


def recorded_choice(env: Path, stack: Stack, device: str | None) -> Choice | None:
    """Return what the environment is made of, or None if that must be chosen.

    A device that is asked for replaces the recorded one.
    """
    try:
        choice = Choice(**json.loads(choice_file(env).read_text()))
    except (FileNotFoundError, ValueError, TypeError):  # none yet, or cut off in writing it
        return None
    if not Path(choice.python).exists() or minor(choice.version) not in stack.pythons:
        return None
    return dataclasses.replace(choice, device=device or choice.device)


def find_python(versions: tuple[str, ...]) -> tuple[str, str]:
    """Return path and version of the running interpreter if it will do, else of the first on PATH.

    Raises:
        SetupFailed: if there is none; it says what each candidate lacks.
    """
    refused = []
    on_path = (str(Path(folder, f"python{version}")) for version in versions for folder in os.get_exec_path())
    for candidate in (sys.executable, *on_path):
        # Most do not exist, and one that does may be a shim that starts nothing.
        with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
            answer = subprocess.run(
                [candidate, "-c", PROBE], capture_output=True, text=True, timeout=30, check=False
            )
            path, version, lacks = json.loads(answer.stdout)
            if minor(version) in versions and not lacks:
                return path, version
            refused.append(f"{path} is {version}" + "".join(f", without {it}" for it in lacks))
    best = versions[0]
    raise SetupFailed(
        f"No Python {' or '.join(versions)} with venv and its headers was found"
        f" ({'; '.join(dict.fromkeys(refused)) or 'none starts'}): install one"
        f" (on Debian or Ubuntu: apt install python{best} python{best}-venv python{best}-dev)"
        f" or name one: make setup PYTHON=/path/to/python{best}."
    )


def minor(version: str) -> str:
    """Return "3.11" for "3.11.7"."""
    return ".".join(version.split(".")[:2])


def device_here() -> str:
    """Return "cuda" if the driver lists an NVIDIA GPU, else "cpu"."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "cpu"
    return "cuda" if listed.returncode == 0 and "GPU " in listed.stdout else "cpu"


def say(line: str, end: str = "\n") -> None:
    """Print at once, also into a file or a pipe."""
    print(line, end=end, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Make or mend the environment of this checkout and return the exit status."""
    parser = argparse.ArgumentParser(description="Make or mend the environment of this checkout.")
    parser.add_argument(
        "--stack", choices=STACKS, default="ort", help="the versions to install (default: ort)"
    )
    parser.add_argument(
        "--device",
        choices=DEVICES,
        help="the packages to install (default: as before, else cuda if there is an NVIDIA GPU)",
    )
    options = parser.parse_args(arguments)
    for number in INTERRUPTS:
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP, and so shall we
            signal.signal(number, signal.default_int_handler)
    try:
        set_up(STACKS[options.stack], CHECKOUT, options.device)
    except SetupFailed as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("The set-up was interrupted; `make setup` goes on from there.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

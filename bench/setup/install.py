"""Make or repair an environment: do every stage that is not done.

A finished stage leaves a stamp, the hash of everything that it depends on. A stage without its stamp, or with
an outdated one, is done again from a clean state, and so is every stage that comes after it. So a set-up
that was killed, or whose requirements changed, is repaired by calling it again, and a complete one is
recognised by its stamps alone. Stages that do not come after each other run side by side.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.errors import UserError
from bench.setup.choice import (
    Choice,
    device_here,
    find_architectures,
    record_choice,
    recorded_choice,
)
from bench.setup.interpreter import find_or_bring_python, minor
from bench.setup.recipes import Stack
from bench.setup.stage import SetupStage, cpu_file, instruction_sets, pending
from bench.setup.surroundings import (
    check_system,
    describe_gpus,
    describe_lacking,
    find_lacking,
    spare_folders,
)

TAIL_LINES = 30  # lines of a failed stage's log that are printed

CANNOT_WRITE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
"""Errors of a folder that is not writable, or of a full disk."""

POLL_SECONDS = 0.05  # between two checks whether a command has ended
SECONDS_TO_STOP = 10  # how long an interrupted command may clean up before it is killed

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def set_up(stack: Stack, checkout: Path, device: str | None = None, *, cpu_adam: bool = False) -> None:
    """Bring the stack's environment in this checkout to completion; `device` and `cpu_adam` as in `choose`.

    UserError if the machine lacks something, or a command fails.
    """
    env = checkout / stack.folder
    try:
        recorded = recorded_choice(env)
        if recorded is None:  # otherwise what the disk holds may already be what it needs
            device = device or device_here()
            if amiss := check_system(stack, checkout, device):
                say(amiss)
        choice = choose(stack, env, device, cpu_adam=cpu_adam)
        follow_python(env, choice.python)
        if choice != recorded or pending(stack.stages(checkout, env, choice), env):
            if env.is_symlink():  # of another checkout, which may be measuring with it
                raise UserError(
                    f"{stack.folder} is a link to {env.resolve()}, whose content would be replaced",
                    "remove the link and run `make setup` again",
                )
            env.mkdir(parents=True, exist_ok=True)
            with locked(checkout / f"{stack.folder}.lock") as lock:
                if recorded_choice(env) != recorded:  # by another set-up, while this one waited
                    choice = choose(stack, env, device, cpu_adam=cpu_adam)
                stages = stack.stages(checkout, env, choice)
                if choice.device == "cuda":
                    say(describe_gpus(stack, choice))
                record_choice(env, choice)
                complete(stages, checkout, env, lock)
    except OSError as error:
        if error.errno not in CANNOT_WRITE:
            raise
        raise UserError(
            f"{error.filename or env} cannot be written to ({error.strerror})",
            "make room, make it writable, or call make in a checkout of your own",
        ) from None
    say(f"{stack.folder} is complete ({choice}).")


def choose(stack: Stack, env: Path, device: str | None, *, cpu_adam: bool) -> Choice:
    """Return what the environment is to be made of: as recorded, where nothing else is asked for.

    The device "cuda" checks the GPUs again, None leaves it as recorded, or takes what the machine has. With
    `cpu_adam` DeepSpeed's Adam for CPUs is added.
    """
    choice = recorded_choice(env) or Choice("", "", device or device_here())
    device_asked, device = device, device or choice.device
    if not Path(choice.python).is_file() or minor(choice.version) not in stack.pythons[device]:
        python, number = find_or_bring_python(stack.pythons[device], env)
        choice = dataclasses.replace(choice, python=python, version=number)
    architectures = choice.architectures
    if device != "cuda":
        architectures = ""
    elif device_asked or not architectures:
        architectures = find_architectures(stack.capabilities, architectures)
    return dataclasses.replace(
        choice, device=device, architectures=architectures, cpu_adam=cpu_adam or choice.cpu_adam
    )


def follow_python(env: Path, python: str) -> None:
    """Repair an environment's links to its Python, if both were moved with their checkout."""
    settings = env / "pyvenv.cfg"
    if env.parent not in Path(python).parents or not settings.exists():
        return
    text = settings.read_text()
    moved = re.sub(r"(?m)^home = .*", lambda _: f"home = {Path(python).parent}", text)
    if moved != text:
        settings.write_text(moved)
        for link in (env / "bin").glob("python*"):
            if Path(os.readlink(link)).is_absolute():  # noqa: PTH115 - Python 3.8; others lead to it
                link.unlink()
                link.symlink_to(python)


def complete(stages: tuple[SetupStage, ...], checkout: Path, env: Path, lock: int) -> None:
    """Do every stage that is not done; stages that do not come after each other run side by side."""
    todo = pending(stages, env)
    lacking = find_lacking()
    if any(tool in lacking for stage in todo for tool in stage.tools):
        raise describe_lacking(lacking)
    for stage in todo:
        with contextlib.suppress(FileNotFoundError):
            stage.stamp(env).unlink()
    # A killed pip leaves some GB in its temporary folder: the next call removes this one.
    shutil.rmtree(env / "setup-tmp", ignore_errors=True)
    left = dict(todo)
    running: list[RunningStage] = []
    try:
        while left or running:
            undone = {stage.name for stage in left} | {run.stage.name for run in running}
            for stage in [stage for stage in left if undone.isdisjoint(stage.after)]:
                say(f"[{stages.index(stage) + 1}/{len(stages)}] {stage.name}: {stage.does} ...")
                del left[stage]
                running.append(RunningStage(stage, checkout, env, lock))
            time.sleep(POLL_SECONDS)
            for run in [run for run in running if run.has_ended()]:
                running.remove(run)
                # Not in the stamp: nodes that share an environment would undo each other's work.
                cpu_file(env, run.stage.name).write_text(" ".join(sorted(instruction_sets())))
                run.stage.stamp(env).write_text(todo[run.stage])
                say(f"      {run.stage.name}: done after {run.seconds:.0f} s")
    finally:
        for run in running:
            run.stop()
            say(f"      {run.stage.name}: stopped after {run.seconds:.0f} s")


class RunningStage:
    """A stage whose commands run in the checkout, one after the other, from a clean state.

    The commands inherit the descriptor of the lock.
    """

    def __init__(self, stage: SetupStage, checkout: Path, env: Path, lock: int) -> None:
        self.stage = stage
        self._checkout, self._env, self._lock = checkout, env, lock
        self._started = time.monotonic()
        for path in [path for pattern in stage.discards for path in env.glob(pattern)]:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        self._scratch = env / "setup-tmp" / stage.name
        self._scratch.mkdir(parents=True)
        self._variables = self._make_variables()
        self._commands = iter(stage.commands)
        self._process: subprocess.Popen[bytes] | None = None
        stage.log(env).write_bytes(b"")
        self._start_next()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def has_ended(self) -> bool:
        """Start the next command if one has ended; returns whether all have.

        UserError if a command failed, or the stage's result is missing.
        """
        if self._process and self._process.poll() is None:
            return False
        if self._process and self._process.returncode:
            raise self._failure(f"its command ended with status {self._process.returncode}")
        if self._start_next():
            return False
        if missing := self.stage.unproven(self._env):
            raise self._failure(f"it left no {missing[0]}")
        shutil.rmtree(self._scratch, ignore_errors=True)
        return True

    def stop(self) -> None:
        """End the command that runs, and all that it has started."""
        if self._process and self._process.poll() is None:
            end(self._process)

    def _start_next(self) -> bool:
        command = next(self._commands, None)
        if command is None:
            return False
        with self.stage.log(self._env).open("ab") as output:
            output.write(f"$ {shlex.join(command)}\n".encode())
            output.flush()
            self._process = start(command, self._checkout, self._variables, output.fileno(), self._lock)
        return True

    def _make_variables(self) -> dict[str, str]:
        """This process's variables, without what would lead to another CUDA or change how nvcc compiles."""
        ours = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("NVCC_") and name not in ("CUDA_HOME", "CUDA_PATH")
        }
        ours.update({"TMPDIR": str(self._scratch), **spare_folders(self._env), **dict(self.stage.variables)})
        ours["PATH"] = f"{self._env / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        # Debug information would be a third of a compiler's work. CFLAGS would not do: DeepSpeed's own -g
        # comes after them. torch accepts compilers by their names, and lets nvcc compile with this one.
        wrapper = self._scratch / "g++"
        wrapper.write_text(f'#!/bin/sh\nexec {ours.get("CXX", "g++")} "$@" -g0\n')
        wrapper.chmod(0o755)
        ours["CC"] = ours["CXX"] = str(wrapper)
        return ours

    def _failure(self, trouble: str) -> UserError:
        log = self.stage.log(self._env)
        tail = log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        remedy = f"{self.stage.remedy}; the whole log is {log}"
        sentence = f"The set-up stopped in {self.stage.name}: {trouble} ({remedy})."
        return UserError("\n".join([*(f"    {line}" for line in tail), sentence]))


def start(
    command: tuple[str, ...], cwd: Path, variables: dict[str, str], output: int, lock: int
) -> subprocess.Popen[bytes]:
    """Start a command in a new session; `end` ends it with all processes that it has started.

    The command inherits the lock: if this process is killed, the next set-up waits until the command ends.
    """
    process = None
    try:
        with interrupts_held_back():  # otherwise one during the start would leave a process without an owner
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
    except KeyboardInterrupt:
        if process:
            end(process)
        raise
    return process


@contextlib.contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Delay a KeyboardInterrupt until the block has ended.

    A handler does this, not the signal mask, which the started process would inherit.
    """
    received: list[int] = []
    numbers = [number for number in INTERRUPTS if signal.getsignal(number) == signal.default_int_handler]
    for number in numbers:
        signal.signal(number, lambda number, _: received.append(number))
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.default_int_handler)
    if received:
        raise KeyboardInterrupt


def end(process: subprocess.Popen[bytes]) -> None:
    """End a session's leader and all that it started, after some seconds to clean up."""
    ended = contextlib.suppress(ProcessLookupError)
    try:
        with ended, contextlib.suppress(subprocess.TimeoutExpired):
            os.killpg(process.pid, signal.SIGINT)
            process.wait(SECONDS_TO_STOP)
    finally:
        with ended:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold the lock on a file, wait for it if need be, and yield its descriptor.

    The kernel releases it when the last process that inherited it has ended, however it ended.
    """
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Another set-up, or a process that a killed one left, holds {path}; waiting ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def say(line: str) -> None:
    """Print without buffering, also into a file or a pipe."""
    print(line, flush=True)

"""Make or repair an environment: do every stage that is not done.

A finished stage leaves a stamp, the hash of everything that it depends on. A stage without its stamp, or with
an outdated one, is done again from a clean state, and so is every stage that comes after it. So a set-up
that was killed, or whose requirements changed, is repaired by calling it again, and a complete one is
recognised by its stamps alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
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
    choice_file,
    device_here,
    find_architectures,
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
)

TAIL_LINES = 30  # lines of a failed stage's log that are printed

CANNOT_WRITE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
"""Errors of a folder that is not writable, or of a full disk."""

SECONDS_TO_STOP = 10  # how long an interrupted command may clean up before it is killed

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def set_up(stack: Stack, checkout: Path, device: str | None = None, *, cpu_adam: bool = False) -> None:
    """Bring the stack's environment in this checkout to completion; `device` and `cpu_adam` as in `choose`.

    UserError if the machine lacks something, or a command fails.
    """
    env = checkout / stack.folder
    try:
        recorded = recorded_choice(env)
        if recorded is None:  # else what is on the disk may be what it needs
            device = device or device_here()
            if amiss := check_system(stack, checkout, device):
                say(amiss)
        choice = choose(stack, env, device, cpu_adam=cpu_adam)
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
                choice_file(env).write_text(json.dumps(dataclasses.asdict(choice)))
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

    The device "cuda" looks at GPUs again, None leaves it as recorded, or takes what the machine has. With
    `cpu_adam` DeepSpeed's Adam for CPUs is added.
    """
    choice = recorded_choice(env) or Choice("", "", device or device_here())
    device_asked, device = device, device or choice.device
    if not Path(choice.python).is_file() or minor(choice.version) not in stack.pythons[device]:
        python, number = find_or_bring_python(stack.pythons[device])
        choice = dataclasses.replace(choice, python=python, version=number)
    architectures = choice.architectures
    if device != "cuda":
        architectures = ""
    elif device_asked or not architectures:
        architectures = find_architectures(stack.capabilities, architectures)
    return dataclasses.replace(
        choice, device=device, architectures=architectures, cpu_adam=cpu_adam or choice.cpu_adam
    )


def complete(stages: tuple[SetupStage, ...], checkout: Path, env: Path, lock: int) -> None:
    """Do every stage that is not done, one after the other; see `set_up`."""
    todo = pending(stages, env)
    lacking = find_lacking()
    if any(tool in lacking for stage in todo for tool in stage.tools):
        raise describe_lacking(lacking)
    for stage in todo:
        with contextlib.suppress(FileNotFoundError):
            stage.stamp(env).unlink()
    for stage, stamp in todo.items():
        say(f"[{stages.index(stage) + 1}/{len(stages)}] {stage.name}: {stage.does} ...")
        started = time.monotonic()
        run_stage(stage, checkout, env, lock)
        # Not in the stamp: nodes that share an environment would undo each other's work.
        cpu_file(env, stage.name).write_text(" ".join(sorted(instruction_sets())))
        stage.stamp(env).write_text(stamp)
        say(f"      done after {time.monotonic() - started:.0f} s")


def run_stage(stage: SetupStage, checkout: Path, env: Path, lock: int) -> None:
    """Run a stage's commands in the checkout, from a clean state.

    UserError if one fails, or its result is not there.
    """
    for path in [path for pattern in stage.discards for path in env.glob(pattern)]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    scratch = env / "setup-tmp"
    shutil.rmtree(scratch, ignore_errors=True)  # in which a killed pip leaves some GB
    scratch.mkdir()
    variables = variables_of(stage, env, scratch)
    with stage.log(env).open("wb") as log:
        for command in stage.commands:
            log.write(f"$ {shlex.join(command)}\n".encode())
            log.flush()
            if status := run(command, checkout, variables, log.fileno(), lock):
                raise failure(stage, env, f"its command ended with status {status}")
    if missing := stage.unproven(env):
        raise failure(stage, env, f"it left no {missing[0]}")
    shutil.rmtree(scratch)


def variables_of(stage: SetupStage, env: Path, scratch: Path) -> dict[str, str]:
    """This process's variables, without what would lead to another CUDA or change how nvcc compiles."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("NVCC_") and name not in ("CUDA_HOME", "CUDA_PATH")
    }
    ours.update({"TMPDIR": str(scratch), **dict(stage.variables)})
    ours["PATH"] = f"{env / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    # Debug information would be a third of a compiler's work. CFLAGS would not do: DeepSpeed's own -g
    # comes after them. torch accepts compilers by their names, and lets nvcc compile with this one.
    wrapper = scratch / "g++"
    wrapper.write_text(f'#!/bin/sh\nexec {ours.get("CXX", "g++")} "$@" -g0\n')
    wrapper.chmod(0o755)
    ours["CC"] = ours["CXX"] = str(wrapper)
    return ours


def failure(stage: SetupStage, env: Path, trouble: str) -> UserError:
    """Return the error of a stage: the end of its log, then one sentence."""
    log = stage.log(env)
    tail = log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
    sentence = f"The set-up stopped in {stage.name}: {trouble} ({stage.remedy}; the whole log is {log})."
    return UserError("\n".join([*(f"    {line}" for line in tail), sentence]))


def run(command: tuple[str, ...], cwd: Path, variables: dict[str, str], output: int, lock: int) -> int:
    """Run a command and return its exit status; an interrupt ends it with all that it has started.

    It inherits the lock: if this process is killed, the next set-up waits until it has ended too.
    """
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
    try:
        return process.wait()
    finally:
        if process.poll() is None:
            end(process)


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

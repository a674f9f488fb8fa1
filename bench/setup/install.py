"""Make or repair an environment: do every stage that is not done, one after the other.

A finished stage leaves a stamp, the hash of everything that it depends on. A stage without its stamp, or with
an outdated one, is done again from a clean state, and so are all later ones. So calling a set-up again
repairs it after it was killed or its requirements changed.
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
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.errors import UserError
from bench.setup.choice import Choice, device_here, record_choice, recorded_choice
from bench.setup.interpreter import find_or_bring_python, minor
from bench.setup.recipes import Stack
from bench.setup.session import session_of
from bench.setup.stage import SetupStage, pending
from bench.setup.surroundings import check_system, describe_gpus

TAIL_LINES = 30  # lines of a failed stage's log that are printed

CANNOT_WRITE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
"""Errors of a folder that is not writable, or of a full disk."""


def set_up(stack: Stack, checkout: Path, device: str | None = None, *, cpu_adam: bool = False) -> None:
    """Bring the stack's environment in this checkout to completion; UserError if something fails."""
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
                if choice.device == "cuda":
                    say(describe_gpus(stack))
                record_choice(env, choice)
                complete(stack.stages(checkout, env, choice), checkout, env, lock)
    except OSError as error:
        if error.errno not in CANNOT_WRITE:
            raise
        raise UserError(
            f"{error.filename or env} cannot be written to ({error.strerror})",
            "make room, make it writable, or call make in a checkout of your own",
        ) from None
    say(f"{stack.folder} is complete ({choice}).")


def choose(stack: Stack, env: Path, device: str | None, *, cpu_adam: bool) -> Choice:
    """Return what the environment is to be made of: as asked for, else as recorded, else of this machine."""
    choice = recorded_choice(env) or Choice("", "", device or device_here())
    device = device or choice.device
    if not Path(choice.python).is_file() or minor(choice.version) not in stack.pythons[device]:
        python, number = find_or_bring_python(stack.pythons[device])
        choice = dataclasses.replace(choice, python=python, version=number)
    return dataclasses.replace(choice, device=device, cpu_adam=cpu_adam or choice.cpu_adam)


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
    """Do every stage that is not done."""
    todo = pending(stages, env)
    for stage in todo:
        with contextlib.suppress(FileNotFoundError):
            stage.stamp(env).unlink()
    for stage, stamp in todo.items():
        say(f"[{stages.index(stage) + 1}/{len(stages)}] {stage.name}: {stage.does} ...")
        began = time.monotonic()
        do(stage, checkout, env, lock)
        stage.stamp(env).write_text(stamp)
        say(f"      {stage.name}: done after {time.monotonic() - began:.0f} s")


def do(stage: SetupStage, checkout: Path, env: Path, lock: int) -> None:
    """Run a stage's commands from a clean state; UserError if one failed, or its result is missing."""
    scratch = env / "setup-tmp"
    # A killed pip leaves some GB in its temporary folder: the next stage removes this one.
    for path in [scratch, *(path for pattern in stage.discards for path in env.glob(pattern))]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.exists() or path.is_symlink():
            path.unlink()
    scratch.mkdir()
    variables = make_variables(stage, env, scratch)
    trouble = ""
    with stage.log(env).open("wb") as output:
        for command in stage.commands:
            output.write(f"$ {shlex.join(command)}\n".encode())
            output.flush()
            # It inherits the lock: if this process is killed, the next set-up waits until the command ends.
            with session_of(
                command,
                cwd=checkout,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(lock,),
            ) as process:
                status = process.wait()
            if status:
                trouble = f"its command ended with status {status}"
                break
    if not trouble and (missing := stage.unproven(env)):
        trouble = f"it left no {missing[0]}"
    if trouble:
        log = stage.log(env)
        tail = log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        remedy = f"{stage.remedy}; the whole log is {log}"
        sentence = f"The set-up stopped in {stage.name}: {trouble} ({remedy})."
        raise UserError("\n".join([*(f"    {line}" for line in tail), sentence]))
    shutil.rmtree(scratch, ignore_errors=True)


def make_variables(stage: SetupStage, env: Path, scratch: Path) -> dict[str, str]:
    """This process's variables, without what would lead to another CUDA or change how nvcc compiles."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("NVCC_") and name not in ("CUDA_HOME", "CUDA_PATH")
    }
    # Where a user's pip installs for the user alone, it refuses to install into an environment.
    ours.update({"TMPDIR": str(scratch), "PIP_USER": "0", **dict(stage.variables)})
    ours["PATH"] = f"{env / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    # Debug information would be a third of a compiler's work. CFLAGS would not do: DeepSpeed's own -g
    # comes after them. torch accepts compilers by their names, and lets nvcc compile with this one.
    wrapper = scratch / "g++"
    wrapper.write_text(f'#!/bin/sh\nexec {ours.get("CXX", "g++")} "$@" -g0\n')
    wrapper.chmod(0o755)
    ours["CC"] = ours["CXX"] = str(wrapper)
    return ours


@contextlib.contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold the lock on a file, until the last process that inherits this descriptor has ended."""
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

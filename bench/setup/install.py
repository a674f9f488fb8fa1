"""Make or repair an environment: do every stage that is not done, in order.

A finished stage leaves a stamp, the hash of everything that it depends on. A stage without its stamp, or with
an outdated one, is done again from a clean state, and so is every stage after it. So a set-up that was
killed, or whose requirements changed, is repaired by calling it again, and a complete one is recognised by
its stamps alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import shlex
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from bench.setup.choice import Choice, choice_file, device_here, find_python, recorded_choice
from bench.setup.commands import run
from bench.setup.failure import SetupFailed
from bench.setup.recipes import Stack
from bench.setup.stage import Stage, pending

TAIL_LINES = 30
"""Of a failed stage's log that are shown."""


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
    choice = recorded_choice(env, stack.pythons, device)
    if choice is None or pending(stack.stages(checkout, env, choice), env):
        if env.is_symlink():  # of another checkout, which may be measuring with it
            raise SetupFailed(
                f"{stack.folder} is a link to {env.resolve()}, whose content would be replaced",
                "remove the link and run `make setup` again",
            )
        env.mkdir(parents=True, exist_ok=True)
        with locked(checkout / f"{stack.folder}.lock") as lock:
            # Another set-up may have chosen, and finished, while this one waited.
            choice = recorded_choice(env, stack.pythons, device) or Choice(
                *find_python(stack.pythons), device or device_here()
            )
            choice_file(env).write_text(json.dumps(dataclasses.asdict(choice)))
            complete(stack.stages(checkout, env, choice), checkout, env, lock)
    say(f"{stack.folder} is complete ({choice}).")


def complete(stages: tuple[Stage, ...], checkout: Path, env: Path, lock: int) -> None:
    """Do every stage that is not done, in order; see `set_up`."""
    todo = pending(stages, env)
    for tool in sorted({tool for stage, _ in todo for tool in stage.tools}):
        if shutil.which(tool) is None:
            raise SetupFailed(
                f"{tool} was not found",
                f"install it (on Debian or Ubuntu: apt install {tool}) and run `make setup` again",
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
    # A killed pip leaves some GB in its temporary folder: the next call removes this one.
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
    """Return a compiler that writes no debug information, which would be a third of its work.

    CFLAGS would not do: DeepSpeed's own -g comes after them.
    """
    wrapper = folder / "g++"  # torch accepts compilers by their names
    wrapper.write_text(f'#!/bin/sh\nexec {compiler} "$@" -g0\n')
    wrapper.chmod(0o755)
    return wrapper


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
            say(f"Another set-up, or a process that a killed one left, holds {path}; waiting ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def say(line: str, end: str = "\n") -> None:
    """Print without buffering, also into a file or a pipe."""
    print(line, end=end, flush=True)

"""What commands have in common: their --help, how errors and signals end them, and what they print last.

Nothing but the standard library: `make doctor` runs where nothing is installed.
"""

import argparse
import io
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.errors import CannotWriteResults, Terminated, UserError

WIDTH = 100  # characters of a line on the terminal
MOST_FILES = 4  # files that are named; the others are only counted

RESUMABLE = "interrupted; complete rounds are kept, and the same command with resume=true goes on."
"""What an interrupted measurement says."""


class _Outlet(io.FileIO):
    """A command's output stream. What cannot be written, as after `| head`, is dropped without an error."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def make_printing_safe() -> None:
    """Let no print end a measurement: characters that the terminal lacks become `?`, lost output is dropped.

    A second call changes nothing.
    """
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and stream is getattr(sys, f"__{name}__"):  # no test's own
            stream.flush()
            buffer = io.BufferedWriter(_Outlet(number, "w", closefd=False))
            setattr(sys, name, io.TextIOWrapper(buffer, stream.encoding, "replace", line_buffering=True))


def command_parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """The parser of `python -m MODULE`, whose --help shows the description with its own line breaks."""
    make_printing_safe()
    return argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run_command(body: Callable[[], int], if_interrupted: str) -> int:
    """Run a command and print what ended it early to stderr; the exit status.

    2 after a UserError, 1 if the disk takes no more results, 130 after Ctrl-C, 143 after SIGTERM; else what
    `body` returns.
    """
    make_printing_safe()
    Terminated.catch()
    try:
        return body()
    except UserError as error:
        print(error, file=sys.stderr)
        return 1 if isinstance(error, CannotWriteResults) else 2
    except KeyboardInterrupt as interruption:
        print(if_interrupted, file=sys.stderr)
        return 143 if isinstance(interruption, Terminated) else 130


def print_closing(
    answer: str, *, table: str = "", files: Sequence[Path] = (), next_command: str = "", purpose: str = ""
) -> None:
    """Print the block to stdout, an empty line before it; a part that would be empty is left out.

    The answer is broken into lines of `WIDTH` characters. The most important files come first, and the next
    command with its purpose, on one line however long it is.
    """
    ends = [
        f"{'files:' if not place else '':6} {_plain(path)}" for place, path in enumerate(files[:MOST_FILES])
    ]
    if len(files) > MOST_FILES:
        ends.append(f"{'':6} and {len(files) - MOST_FILES} more")
    if next_command:
        ends.append(f"{'next:':6} {_plain(next_command)}{f'  # {purpose}' if purpose else ''}")
    sentence = textwrap.fill(_plain(answer), WIDTH, break_on_hyphens=False, break_long_words=False)
    parts = [sentence, table.rstrip(), "\n".join(ends)]
    print("\n" + "\n\n".join(part for part in parts if part), flush=True)


def this_python() -> str:
    """The running Python, as it is typed in this folder: it is rarely on the user's PATH."""
    path = Path(sys.executable)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _plain(text: str | Path) -> str:
    """The words on one line, without control characters for the terminal: names come from files."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", "", " ".join(str(text).split()))

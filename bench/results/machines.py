"""The folders of machines: `results/<machine>/machine.json` says which machine's results lie there."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.errors import UserError
from bench.machine.identity import describe, find_microarchitecture, identify
from bench.results.atomic import write_atomically

FILE = "machine.json"


def list_machines(results: Path) -> list[Path]:
    """The folders of machines in that of all results, sorted by name."""
    return sorted(path.parent for path in results.glob(f"*/{FILE}"))


def list_study(results: Path, study: str) -> list[Path]:
    """The folders of a study, one for each machine that made it."""
    return [folder for machine in list_machines(results) if (folder := machine / study).is_dir()]


def name_machine(folder: Path) -> str:
    """The name of the machine whose folder this is; UserError if its file is damaged."""
    return str(_read(folder)["name"])


def name_machines(results: Path) -> dict[str, str]:
    """By the folder's name, a short name that no other machine here has: `AMD EPYC (family 25, model 17)`.

    UserError if a machine's file is damaged.
    """
    short = {folder.name: _shorten(name_machine(folder)) for folder in list_machines(results)}
    names = list(short.values())
    return {
        folder: name if names.count(name) == 1 else f"{name}, host {folder.rpartition('-')[2]}"
        for folder, name in short.items()
    }


def _shorten(name: str) -> str:
    """Without stepping, instruction sets, cores and memory, in which machines rarely differ alone."""
    device = re.split(r", instruction sets of |, \d+ cores?, ", name)[0]
    return re.sub(r", stepping \d+|\((R|TM)\)| Processor\b", "", device)


def keep_identity(folder: Path) -> None:
    """Mark a folder as this machine's if it is not marked yet; UserError if it is another machine's."""
    if not (folder / FILE).exists():
        write_identity(folder, identify(), find_microarchitecture())
    elif (known := _read(folder))["identity"] != identify():
        raise UserError(
            f"{folder} holds the results of another machine: {known['name']}",
            "leave machine=… out, or choose another name",
        )


def write_identity(folder: Path, identity: Mapping[str, Any], microarchitecture: str | None) -> None:
    """Write a machine's file."""
    content = {
        "name": describe(identity, microarchitecture),
        "microarchitecture": microarchitecture,
        "identity": dict(identity),
    }
    write_atomically(folder / FILE, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _read(folder: Path) -> dict[str, Any]:
    path = folder / FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {"name": content["name"], "identity": content["identity"]}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{path} cannot be read ({error})", "restore it with `git checkout`, or remove it"
        ) from None

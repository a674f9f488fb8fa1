"""Two environments compared, and one hashed: pure functions of plain JSON that probe nothing."""

import hashlib
import json
from typing import Any

OF_A_STACK = ("stack", "python", "packages")
"""Entries in which backends of one comparison may differ, if they are of different stacks."""

WITHOUT_EFFECT = ("removed_variables",)
"""Entries of the environment that are recorded but change nothing."""


def find_differences(one: Any, other: Any, *, other_is: str = "now") -> list[str]:
    """What differs between two environments, a line each: `packages.torch: 2.6.0, now 2.7.0`."""
    old, now = _flat(_with_effect(one)), _flat(_with_effect(other))
    return [
        f"{key}: {old.get(key, 'missing')}, {other_is} {now.get(key, 'missing')}"
        for key in sorted(old.keys() | now.keys())
        if old.get(key) != now.get(key)
    ]


def hash_environment(environment: dict[str, Any]) -> str:
    """The hash by which rows are told to have been measured in the same environment."""
    return digest(_with_effect(environment))


def _with_effect(environment: Any) -> Any:
    if not isinstance(environment, dict):
        return environment
    return {key: value for key, value in environment.items() if key not in WITHOUT_EFFECT}


def _flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Nested entries under dotted keys."""
    if isinstance(tree, dict):
        children = tree.items()
    elif isinstance(tree, list):
        children = enumerate(tree)  # type: ignore[assignment]
    else:
        return {prefix: tree}
    found: dict[str, Any] = {}
    for key, child in children:
        found |= _flat(child, f"{prefix}.{key}" if prefix else str(key))
    return found


def digest(thing: Any) -> str:
    """A short hash of plain JSON, the same for equal content."""
    text = json.dumps(thing, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]

"""Compares and hashes environments, which `fingerprint` has taken: pure functions that probe nothing.

An environment is plain JSON: versions, hardware, driver, variables, and the hash of the harness's code.
"""

import hashlib
import json
from typing import Any

OF_A_STACK = ("stack", "python", "packages")
"""Entries in which backends of one comparison may differ, if they are of different stacks."""

WITHOUT_EFFECT = ("removed_variables",)
"""Entries that are recorded but change nothing."""


def find_differences(environment: Any, other: Any, *, other_is: str = "now") -> list[str]:
    """Return what differs between two environments, a line each: `packages.torch: 2.6.0, now 2.7.0`."""
    old, now = _flatten(_with_effect(environment)), _flatten(_with_effect(other))
    return [
        f"{key}: {old.get(key, 'missing')}, {other_is} {now.get(key, 'missing')}"
        for key in sorted(old.keys() | now.keys())
        if old.get(key) != now.get(key)
    ]


def hash_environment(environment: dict[str, Any]) -> str:
    """A hash that is the same for environments without a difference that matters."""
    return digest(_with_effect(environment))


def _with_effect(environment: Any) -> Any:
    """Without what changes nothing; what is no environment stays as it is."""
    if not isinstance(environment, dict):
        return environment
    return {key: value for key, value in environment.items() if key not in WITHOUT_EFFECT}


def _flatten(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Nested entries as one dictionary with dotted keys."""
    if isinstance(tree, dict):
        children = tree.items()
    elif isinstance(tree, list) and tree and all(isinstance(word, str) for word in tree):
        return {prefix: " ".join(tree)}  # one more word would shift all that follow
    elif isinstance(tree, list):
        children = enumerate(tree)  # type: ignore[assignment]
    else:
        return {prefix: tree}
    entries: dict[str, Any] = {}
    for key, child in children:
        entries |= _flatten(child, f"{prefix}.{key}" if prefix else str(key))
    return entries


def digest(thing: Any) -> str:
    """A short hash of plain JSON, the same for equal content."""
    text = json.dumps(thing, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]

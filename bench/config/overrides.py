"""The overrides of a comparison as a list: what of them goes on record, and what they say."""

import re
from collections.abc import Iterable, Sequence


def repeatable(overrides: Iterable[str]) -> list[str]:
    """The overrides that repeat a comparison: none of trackers, resuming, the files' places and Hydra.

    Hydra's search path is kept: without it a choice in the user's own folder does not exist.
    """
    return [
        override
        for override in overrides
        if not re.match(r"[+]*(hydra\b(?!\.searchpath=)|results_dir=|reports_dir=|resume=)", override)
        and not is_about_trackers(override)
    ]


def is_about_trackers(override: str) -> bool:
    """Whether an override chooses or sets trackers, which change nothing that is measured."""
    return re.match(r"[+]*track[.=]", override) is not None


def last_values(overrides: Iterable[str]) -> dict[str, str]:
    """The value of each key: the last one, since it holds. A key has no `+` before it here."""
    return {_key(override): override.partition("=")[2] for override in overrides}


def replace_override(overrides: Sequence[str], override: str) -> list[str]:
    """Return the overrides with this one in place of those with its key."""
    return [*(other for other in overrides if _key(other) != _key(override)), override]


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+")

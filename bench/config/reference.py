"""Which backend speed-ups are measured against, if nobody says."""

from collections.abc import Collection, Iterable

USUAL = "pytorch"
"""The reference wherever it is among the backends."""


def choose_reference(backends: Iterable[object]) -> str:
    """Return the name of the reference: `pytorch`, or the first of these where that is not among them."""
    names = [str(name) for name in backends]
    return USUAL if USUAL in names or not names else names[0]


def describe_reference(reference: str, backends: Collection[str]) -> str:
    """A sentence if speed-ups are not over `pytorch`, as a reader would expect; else nothing."""
    if reference == USUAL:
        return ""
    why = "" if USUAL in backends else f", since {USUAL} is not among the backends"
    return f"speed-ups are over {reference}{why}"

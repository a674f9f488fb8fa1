"""What a comparison of two sets of results comes to, in a sentence, and what to type next."""

from collections.abc import Mapping, Sequence

from bench.compare.changes import Change
from bench.report.formatting import plural

MOST_NAMED = 3
"""Regressions that the sentence names."""


def answer_of(compared: Mapping[str, Sequence[Change]], *, uncompared: int, new: int) -> str:
    """How many comparisons became worse, and which; what could not be compared is told apart.

    Args:
        compared: the changes of every pair of files that has a number on both sides, by its title.
        uncompared: pairs and files that could not be compared.
        new: files that the base has no version of.
    """
    worse = [
        f"{change.backend} of {title} ({', '.join(change.regressions)})"
        for title, changes in compared.items()
        for change in changes
        if change.regressions
    ]
    others = [
        *([f"{plural(uncompared, 'file')} could not be compared"] if uncompared else []),
        *([f"{plural(new, 'file')} {'is' if new == 1 else 'are'} new"] if new else []),
    ]
    if not compared:
        return f"Nothing was compared{': ' if others else ''}{', '.join(others)}."
    if worse:
        more = f" and {len(worse) - MOST_NAMED} more" if len(worse) > MOST_NAMED else ""
        verdict = f"Worse beyond the tolerance: {', '.join(worse[:MOST_NAMED])}{more}"
    else:
        verdict = f"Nothing became worse beyond its tolerance in {plural(len(compared), 'comparison')}"
    return f"{'; '.join([verdict, *others])}."

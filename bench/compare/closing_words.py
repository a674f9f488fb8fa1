"""What a comparison of two sets of results comes to, in a sentence, and what to type next."""

from collections.abc import Mapping, Sequence

from bench.compare.changes import BackendChange
from bench.report.words.formatting import plural

MOST_NAMED = 3
"""Regressions that the sentence names."""


def answer_of(
    compared: Mapping[str, Sequence[BackendChange]],
    *,
    uncompared: int,
    new: int,
    missing: int = 0,
    unchanged: int = 0,
    base: str = "base",
) -> str:
    """Return how many comparisons became worse, and which; and how many files could not be compared.

    Args:
        compared: the changes of every pair of files that has a number on both sides, by its title.
        uncompared: how many pairs and files could not be compared.
        new, missing: how many files only one side has.
        unchanged: how many files are the same on both sides.
        base: its name.
    """
    worse = {
        title: [
            f"{change.backend} of {title} ({', '.join(change.regressions)})"
            for change in changes
            if change.regressions
        ]
        for title, changes in compared.items()
    }
    named = [words for several in worse.values() for words in several]
    well = sum(not several for several in worse.values())
    counts = ((uncompared, "file could not be compared"), (new, "file is new"), (missing, "file is gone"))
    others = [_counted(count, words) for count, words in counts if count]
    others += [_counted(unchanged, f"file is as in {base}")] if unchanged else []
    if named:
        more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        verdict = f"Worse beyond the tolerance: {', '.join(named[:MOST_NAMED])}{more}"
        others = [*([f"{plural(well, 'other file')} did not become worse"] if well else []), *others]
    elif compared:
        verdict = f"Nothing became worse beyond its tolerance in {plural(well, 'comparison')}"
    elif uncompared or not others:
        verdict = "Nothing was compared"
    elif unchanged and len(others) == 1:
        return f"Nothing has changed: {others[0]}."
    else:
        verdict = others.pop(0)
    return f"{'; '.join([verdict, *others])}."


def _counted(count: int, words: str) -> str:
    """`2 files are new` of `file is new`."""
    return f"{count} {words if count == 1 else words.replace('file', 'files').replace(' is ', ' are ')}"

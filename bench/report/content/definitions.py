"""How the numbers of a report are defined, for its readers."""

LEFT_ALONE = (
    "threads or allocator were left alone: its speed-ups are no results (docs/methodology.md, Fairness)"
)
"""A note on a comparison that does not hold threads and allocator equal, as a fair one does."""

NO_ANSWER = (
    "Nothing here compares a backend with PyTorch as it has to be: every comparison left something alone on "
    "purpose, timed nothing, or had no backend beside its reference."
)
"""In place of an answer."""

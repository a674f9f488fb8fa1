"""What a speed-up was divided into: choices of a backend, or what an uncontrolled harness leaves alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.analysis.attribution.choices import Attribution, Contribution
from bench.analysis.attribution.settings import Fairness
from bench.report.content.collection import Collection, ReportedComparison
from bench.report.words.formatting import ratio_and_interval


@dataclass(frozen=True)
class Divided:
    """One speed-up in words, its parts, and the comparisons that it is made of."""

    words: str
    parts: Sequence[Contribution]
    comparisons: Sequence[ReportedComparison]


@dataclass(frozen=True)
class Division:
    """A section of a page about everything that was divided in one way."""

    heading: str
    anchor: str  # of the section, and the kind of its figures (`bench.report.content.pictures.CAPTIONS`)
    divided: Sequence[Divided]  # may be empty


def divisions_of(collection: Collection) -> list[Division]:
    """Both ways to divide, whether or not there is anything to divide."""
    by_choice = [
        Divided(f"{one.title}: {_total(one.attribution)}", one.attribution.parts, [one])
        for one in collection.controlled
        if one.attribution
    ]
    by_setting = [
        Divided(f"{label}: {_uncontrolled(fairness)}", fairness.parts, collection.fairness_experiments[label])
        for label, fairness in collection.fairness.items()
    ]
    return [
        Division("What made the difference", "attribution", by_choice),
        Division("What an uncontrolled harness would print", "fairness", by_setting),
    ]


def _total(attribution: Attribution) -> str:
    total = ratio_and_interval(attribution.total)
    return f"{attribution.end} runs at {total} of {attribution.start}; of this are"


def _uncontrolled(fairness: Fairness) -> str:
    return (
        f"with nothing held {fairness.backend} seems to run at {ratio_and_interval(fairness.naive)} of "
        f"{fairness.reference}, with everything held at {ratio_and_interval(fairness.own)}; what was left "
        "alone adds"
    )

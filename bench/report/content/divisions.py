"""What a speed-up was divided into: choices of a backend, or what an uncontrolled harness leaves alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.analysis.attribution.choices import Attribution, Contribution
from bench.analysis.attribution.settings import Fairness
from bench.report.content.collection import Collection, ReportedComparison
from bench.report.words.formatting import ratio_and_interval


@dataclass(frozen=True, kw_only=True)
class Divided:
    """One speed-up, in words, its parts, and the comparisons that it is made of."""

    words: str
    parts: Sequence[Contribution]
    comparisons: Sequence[ReportedComparison]


@dataclass(frozen=True, kw_only=True)
class Division:
    """A section of a page: what of all comparisons was divided in one way.

    Attributes:
        heading: of the section.
        anchor: of the section, and the kind of its figures (`bench.report.content.pictures.CAPTIONS`).
        divided: may be empty.
    """

    heading: str
    anchor: str
    divided: Sequence[Divided]


def divisions_of(collection: Collection) -> list[Division]:
    """Both ways to divide, whether or not there is anything to divide."""
    return [
        Division(
            heading="What made the difference",
            anchor="attribution",
            divided=[
                Divided(
                    words=f"{one.title}: {_whole(one.attribution)}",
                    parts=one.attribution.parts,
                    comparisons=[one],
                )
                for one in collection.controlled
                if one.attribution
            ],
        ),
        Division(
            heading="What an uncontrolled harness would print",
            anchor="fairness",
            divided=[
                Divided(
                    words=f"{label}: {_uncontrolled(fairness)}",
                    parts=fairness.parts,
                    comparisons=collection.fairness_experiments[label],
                )
                for label, fairness in collection.fairness.items()
            ],
        ),
    ]


def _whole(attribution: Attribution) -> str:
    return (
        f"{attribution.end} runs at {ratio_and_interval(attribution.total)} of {attribution.start}; "
        "of this are"
    )


def _uncontrolled(fairness: Fairness) -> str:
    return (
        f"with nothing held {fairness.backend} seems to run at {ratio_and_interval(fairness.naive)} of "
        f"{fairness.reference}, with everything held at {ratio_and_interval(fairness.own)}; what was left "
        "alone adds"
    )

"""The answer: on how many models each backend is faster than PyTorch, at which ratios.

The answer claims no more than the intervals do: `faster` is a verdict of the analysis, and a range of ratios
is a range of estimates, whose intervals stand in the table of models.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.analysis.answer import FASTER, INCONCLUSIVE, ONE_LAUNCH, SAME, SLOWER, Outcome
from bench.errors import plural
from bench.report.content.blocks import Bold, Table, Text, table_of_texts
from bench.report.words.formatting import MISSING, TIMES, ratio_range

QUESTION = "Does training become faster with ONNX Runtime?"

SUBJECTS = {"ortmodule": "ONNX Runtime", "ortmodule_zero1": "ONNX Runtime with ZeRO-1"}
"""Names of backends in an answer; any other backend keeps its name."""

OVER = ("over PyTorch", "over its best", "over PyTorch with MKL's full path", "over its best with that path")
"""The columns of a table of answers."""

MEMORY = "peak memory over PyTorch's"

ABOUT_ANSWERS = (
    "On how many models a backend is faster by the verdict of its 95 % interval, and at which ratios; the "
    "best PyTorch is that of the same comparison."
)

NO_ANSWER = (
    "Nothing here compares a backend with PyTorch as it has to be: every comparison left something alone on "
    "purpose, timed nothing, or had no backend beside its reference."
)
"""In place of an answer."""

_WORDS = {
    FASTER: "faster",
    SAME: "the same",
    SLOWER: "slower",
    INCONCLUSIVE: "inconclusive",
    ONE_LAUNCH: "from one launch, so without a verdict",
}


@dataclass(frozen=True, kw_only=True)
class BackendAnswer:
    """How fast one backend is on the models of a setting."""

    subject: str  # the backend's name for readers
    outcomes: Sequence[Sequence[Outcome]]  # on each model, over each PyTorch of `OVER`; none: not measured

    @property
    def cells(self) -> list[Text]:
        """A line of a table: a cell for each of `OVER`, and peak memory."""
        counts = [_count(outcomes) for outcomes in self.outcomes]
        cells: list[Text] = [
            [Bold(count), f" ({details})"] if count else MISSING for count, details in counts
        ]
        peaks = [outcome.memory for outcome in self.outcomes[0] if outcome.memory is not None]
        return [*cells, ratio_range(peaks) if peaks else MISSING]


@dataclass(frozen=True, kw_only=True)
class SettingAnswer:
    """The answer of one setting."""

    setting: str  # machine and ranks
    backends: Sequence[BackendAnswer]

    @property
    def short(self) -> str:
        """How fast the first backend is, in a sentence."""
        first = self.backends[0]
        over, outcomes = next(
            ((over, some) for over, some in zip(OVER, first.outcomes, strict=True) if some), (OVER[0], [])
        )
        count, details = _count(outcomes)
        if not count:
            return f"{first.subject} was not measured."
        than, models = over.removeprefix("over "), plural(len(outcomes), "model")
        faster = count.partition(" ")[0]
        return f"{first.subject} is faster than {than} on {faster} of {models} ({details})."

    @property
    def table(self) -> Table:
        """A line for each backend."""
        headers = ["backend", *OVER, MEMORY]
        rows = [[backend.subject, *backend.cells] for backend in self.backends]
        return table_of_texts(headers, rows, text_columns=headers)


def _count(outcomes: Sequence[Outcome]) -> tuple[str, str]:
    """On how many of the models a backend is faster; then each verdict's number of models and its ratios."""
    if not outcomes:
        return "", ""
    parts = []
    for verdict, words in _WORDS.items():
        ratios = [each.speedup.ratio for each in outcomes if each.verdict == verdict and each.speedup]
        if ratios:
            begin = "at" if verdict == FASTER else f"{len(ratios)} {words}:"
            parts.append(f"{begin} {ratio_range(ratios)}{TIMES}")
    failed = Counter(outcome.verdict for outcome in outcomes if outcome.failed)
    details = "; ".join([*parts, *(f"{count} {status}" for status, count in failed.items())])
    faster = sum(outcome.verdict == FASTER for outcome in outcomes)
    return f"{faster} of {len(outcomes)}", details

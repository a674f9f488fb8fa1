"""The kinds of work that a step consists of, and which operator does which."""

import fnmatch
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HOST = "host"
"""In place of an operator: Python and the framework between the operators."""

WAITING = "waiting for other ranks"
"""In place of an operator: the main thread ran none while the communication library was at work."""

KINDS = (
    "matrix products",
    "softmax",
    "normalisation",
    "elementwise",
    "embedding",
    "loss",
    "dropout",
    "copies",
    "optimizer",
    "communication",
    "host",
    "other",
)
"""The kinds of work, in the order in which tables and figures show them. `other`: of no known kind."""

TABLE = Path(__file__).with_name("operator_kinds.yaml")


@dataclass(frozen=True, kw_only=True)
class Operator:
    """What one operator had of a rank's profiled steps in a round."""

    library: str  # whose operator it is, `torch` or `onnxruntime`
    name: str  # as that library calls it; or `HOST`, or `WAITING`
    part: str  # `optimizer` if it ran within the optimizer's step; else empty
    calls: int  # in all profiled steps of a round
    seconds: float  # likewise, without what it called


@dataclass(frozen=True, kw_only=True)
class ProfiledRound:
    """The profiled steps of one rank in one round."""

    steps: int  # how many
    seconds: float  # of all of them together
    operators: Sequence[Operator]  # what they were spent on; the seconds add up to `seconds`


@functools.cache
def _patterns() -> Mapping[str, Sequence[tuple[str, str]]]:
    """By library, patterns of operators' names, each with its kind; the first that fits counts."""
    import yaml  # type: ignore[import-untyped]  # ranks need no table

    table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return {
        library: [(pattern, kind) for kind, patterns in kinds.items() for pattern in patterns]
        for library, kinds in table.items()
    }


def kind_of(operator: Operator) -> str:
    """The kind of work that an operator does, by `operator_kinds.yaml`."""
    if operator.part == "optimizer":
        return "optimizer"
    if operator.name == HOST:
        return "host"
    if operator.name == WAITING:
        return "communication"
    for pattern, kind in _patterns().get(operator.library, ()):
        if fnmatch.fnmatchcase(operator.name, pattern):
            return kind
    return "other"

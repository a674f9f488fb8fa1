"""The support matrix: which backend trains which model, from the comparisons of `make matrix` alone."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from bench.analysis.summary import BackendSummary
from bench.errors import PASSED
from bench.report import text
from bench.report.collection import Comparison
from bench.results import csv_files
from bench.setup.bootstrap import STACKS

TABLE = "support.csv"

PLAN = Path(__file__).resolve().parents[2] / "conf" / "sweeps" / "matrix.yaml"
"""What `make matrix` measures."""

COLUMNS = (
    "model",
    "task",
    "backend",
    "engine",
    "optimizer",
    "sharding",
    "status",
    "message",  # why not ok
    "loss_difference",  # the largest relative one from the reference's, over the parity steps
    "speedup",  # over the reference; blank for the reference itself
    "stack",
    "hardware",
    "comparison",  # the results file's stem
    "git_commit",
    "command",
)
"""Of support.csv; one row for each model and backend."""


CHOICES = "choices"
"""The experiment that asks what else trains a model; in the name of its comparisons."""


def models(part: str = "models") -> list[str]:
    """The models of a part of the matrix' plan, in the order of its table."""
    parts = yaml.safe_load(PLAN.read_text(encoding="utf-8"))["parts"]
    return [str(model) for one in parts if one["name"] == part for model in one["models"]]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One backend on one model."""

    comparison: Comparison
    summary: BackendSummary

    @property
    def row(self) -> dict[str, str]:
        """As in `COLUMNS`; what is missing is blank."""
        one, rows = self.summary, self.comparison.rows
        return {
            "model": self.comparison.model,
            "task": text.distinct(rows, "task"),
            "backend": one.backend,
            "engine": one.engine,
            "optimizer": one.optimizer,
            "sharding": one.sharding,
            "status": one.status,
            "message": "" if one.status in PASSED else one.message,
            "loss_difference": "" if one.loss_difference is None else repr(one.loss_difference),
            "speedup": "" if one.speedup is None else repr(one.speedup.ratio),
            "stack": text.distinct(rows, "stack"),
            "hardware": self.comparison.hardware,
            "comparison": self.comparison.stem,
            "git_commit": text.distinct(rows, "git_commit"),
            "command": self.comparison.command,
        }


def read(folder: Path, order: Sequence[str] = ()) -> list[Comparison]:
    """The matrix' comparisons.

    Args:
        folder: their results files, one for each model.
        order: of the models; those that are not in it follow by name.
    """
    found = [
        Comparison(stem=path.stem, rows=csv_files.read(path))
        for path in sorted(folder.glob("*.csv"))
        if path.name != TABLE
    ]
    place = {model: number for number, model in enumerate(order)}
    return sorted(found, key=lambda one: (place.get(one.model, len(place)), one.model, _is_of_choices(one)))


def table(found: Sequence[Comparison]) -> str:
    """The content of support.csv; the reference of untimed comparisons says nothing and is left out."""
    cells = [
        Cell(comparison=one, summary=mine)
        for one in found
        for mine in one.summaries
        if not (mine.is_reference and mine.status == "untimed")
    ]
    lines = io.StringIO(newline="")
    writer = csv.DictWriter(lines, COLUMNS, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    writer.writeheader()
    writer.writerows({key: text.one_line(value) for key, value in cell.row.items()} for cell in cells)
    return lines.getvalue()


def markdown(found: Sequence[Comparison]) -> str:
    """The matrix at a glance, then every reason."""
    reasons: dict[str, int] = {}
    timed = [one for one in found if not _is_of_choices(one)]
    others = [one for one in found if _is_of_choices(one)]
    lines = ["# What trains under which backend", "", *_at_a_glance(found), ""]
    lines += [*_by_model(timed, reasons), *_by_backend(others, reasons)]
    if reasons:
        lines += ["## Why not", ""]
        lines += [f"{number}. {text.escaped(reason)}" for reason, number in reasons.items()]
        lines.append("")
    lines += ["## How it was measured", ""]
    sizes = sorted({text.distinct(one.rows, "size") for one in found})
    lines += [
        f"- models: {', '.join(sizes)} (bench/workload/mini.py shrinks layers, width and vocabulary by one "
        "rule and keeps the architecture); nothing here says what the published size would gain",
        *(f"- {text.escaped(words)}" for words in dict.fromkeys(one.hardware for one in found)),
        *(f"- {text.escaped(words)}" for words in dict.fromkeys(text.versions(one.rows) for one in found)),
        f"- made by `make matrix`; a single model again: `make matrix MODEL={text.escaped(found[0].model)}`; "
        "results/matrix/ holds all comparisons, and support.csv these tables",
    ]
    return "\n".join([*lines, ""])


def _is_of_choices(one: Comparison) -> bool:
    return f"experiment={CHOICES}" in one.stem


def _by_model(found: Sequence[Comparison], reasons: dict[str, int]) -> list[str]:
    """A line for each model, a column for each backend."""
    if not found:
        return []
    every = [mine for one in found for mine in one.summaries]
    order = sorted(every, key=lambda mine: (not mine.is_reference, mine.engine, mine.sharding, mine.backend))
    backends = list(dict.fromkeys(mine.backend for mine in order))
    lines = [
        _line(["model", "task", *map(text.escaped, backends)]),
        _line(["---"] * (2 + len(backends))),
    ]
    for one in found:
        cells = [_cell(one.of(backend), reasons) for backend in backends]
        task = text.distinct(one.rows, "task")
        lines.append(_line([_name(one, found), text.escaped(task), *cells]))
    return [
        *lines,
        "",
        "A cell: speed-up over the reference (one short launch, so no more than a first look), and the "
        "largest relative difference of a step's loss from the reference's, with dropout off.",
        "",
    ]


def _by_backend(found: Sequence[Comparison], reasons: dict[str, int]) -> list[str]:
    """A line for each backend, a column for each model: there are more of the former."""
    if not found:
        return []
    backends = {mine.backend: mine for one in found for mine in one.others}
    order = sorted(
        backends.values(),
        key=lambda mine: (list(STACKS).index(mine.stack), mine.engine, mine.sharding, mine.backend),
    )
    lines = [
        "## Other engines, optimizers, shardings and stacks",
        "",
        _line(["backend", "what runs", *(_name(one, found) for one in found)]),
        _line(["---"] * (2 + len(found))),
    ]
    for mine in order:
        cells = [_cell(one.of(mine.backend), reasons) for one in found]
        attention = f", {mine.attention} attention" if mine.attention != "eager" else ""
        runs = f"{mine.engine} + {mine.optimizer} + {mine.sharding}{attention}; {mine.stack} stack"
        lines.append(_line([text.escaped(mine.backend), runs, *cells]))
    return [
        *lines,
        "",
        "One model of each kind; nothing was timed, so that a cell holds the loss difference alone. On a CPU "
        "what is offloaded to the host stays where it is.",
        "",
    ]


def _name(one: Comparison, found: Sequence[Comparison]) -> str:
    alone = sum(other.model == one.model for other in found) == 1
    return text.escaped(one.model if alone else one.stem)


def _at_a_glance(found: Sequence[Comparison]) -> list[str]:
    """For each engine of each stack how many models it trains, and which it does not."""
    tried: dict[tuple[str, str], dict[str, bool]] = {}
    for one in found:
        for mine in one.summaries:
            trained = tried.setdefault((mine.engine, mine.stack), {})
            trained[one.model] = trained.get(one.model, False) or mine.status in PASSED
    lines = []
    several = len({stack for _, stack in tried}) > 1
    for (engine, stack), trained in tried.items():
        words = f"**{engine}**" + (f" of the {stack} stack" if several else "")
        words += f" trains {sum(trained.values())} of {len(trained)} models"
        words += " from the reference's weights" if several else ""
        others = ", ".join(text.escaped(model) for model, passed in trained.items() if not passed)
        lines.append(f"- {words}" + (f"; not, for the reasons below: {others}" if others else ""))
    return lines


def _cell(one: BackendSummary | None, reasons: dict[str, int]) -> str:
    if one is None:
        return text.MISSING
    if one.status not in PASSED:
        number = reasons.setdefault(one.message, len(reasons) + 1)
        return f"**{one.status}** ({number})"
    if one.is_reference:
        return "ok"
    speedup = "ok" if one.speedup is None else f"ok {one.speedup.ratio:.2f}{text.TIMES}"
    return f"{speedup}, {text.small(one.loss_difference)}"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"

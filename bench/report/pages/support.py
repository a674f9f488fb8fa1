"""support.md of a machine: which backend trains which model, and why the others do not."""

from collections.abc import Sequence

from bench.analysis.table_values import distinct_text
from bench.errors import PASSED
from bench.report import describe
from bench.report.collection import ReportedComparison
from bench.report.formatting import MISSING, TIMES, small
from bench.report.markdown import table
from bench.report.pages.support_matrix import is_of_choices
from bench.report.render.markdown import escaped
from bench.setup.recipes import STACKS
from bench.statistics.summary import BackendSummary


def render_support(comparisons: Sequence[ReportedComparison]) -> str:
    """The matrix at a glance, then every reason."""
    reasons: dict[str, int] = {}
    timed = [one for one in comparisons if not is_of_choices(one)]
    others = [one for one in comparisons if is_of_choices(one)]
    lines = ["# What trains under which backend", "", *_at_a_glance(comparisons), ""]
    lines += [*_by_model(timed, reasons), *_by_backend(others, reasons)]
    if reasons:
        lines += ["## Why not", ""]
        lines += [f"{number}. {escaped(reason)}" for reason, number in reasons.items()]
        lines.append("")
    lines += ["## How it was measured", ""]
    sizes = sorted({distinct_text(one.rows, "size") for one in comparisons})
    lines += [
        f"- models: {', '.join(sizes)} (bench/config/mini.py shrinks layers, width and vocabulary by one "
        "rule and keeps the architecture); nothing here says what the published size would gain",
        *(f"- {escaped(words)}" for words in dict.fromkeys(one.hardware for one in comparisons)),
        *(
            f"- {escaped(words)}"
            for words in dict.fromkeys(describe.versions(one.rows) for one in comparisons)
        ),
        "- made by `make matrix`; a single model again: "
        f"`make matrix MODEL={escaped(comparisons[0].model)}`; "
        "the study matrix holds all comparisons, and support.csv these tables",
    ]
    return "\n".join([*lines, ""])


def _by_model(comparisons: Sequence[ReportedComparison], reasons: dict[str, int]) -> list[str]:
    """A line for each model, a column for each backend."""
    if not comparisons:
        return []
    every = [summary for one in comparisons for summary in one.summaries]
    every.sort(key=lambda one: (not one.is_reference, one.engine, one.sharding, one.backend))
    backends = list(dict.fromkeys(summary.backend for summary in every))
    cells = [
        [
            _name(one, comparisons),
            escaped(distinct_text(one.rows, "task")),
            *(_cell(one.of(backend), reasons) for backend in backends),
        ]
        for one in comparisons
    ]
    return [
        *table(["model", "task", *map(escaped, backends)], cells, escape=False),
        "A cell: speed-up over the reference (one short launch, so no more than a first look), and the "
        "largest relative difference of a step's loss from the reference's, with dropout off.",
        "",
    ]


def _by_backend(comparisons: Sequence[ReportedComparison], reasons: dict[str, int]) -> list[str]:
    """A line for each backend, a column for each model: there are more of the former."""
    if not comparisons:
        return []
    backends = {summary.backend: summary for one in comparisons for summary in one.others}
    stacks = list(STACKS)
    order = sorted(
        backends.values(), key=lambda one: (stacks.index(one.stack), one.engine, one.sharding, one.backend)
    )
    cells = [
        [
            escaped(summary.backend),
            _what_runs(summary),
            *(_cell(one.of(summary.backend), reasons) for one in comparisons),
        ]
        for summary in order
    ]
    return [
        "## Other engines, optimizers, shardings and stacks",
        "",
        *table(
            ["backend", "what runs", *(_name(one, comparisons) for one in comparisons)], cells, escape=False
        ),
        "One model of each kind; nothing was timed, so that a cell holds the loss difference alone. On a CPU "
        "what is offloaded to the host stays where it is.",
        "",
    ]


def _what_runs(summary: BackendSummary) -> str:
    attention = f", {summary.attention} attention" if summary.attention != "eager" else ""
    return f"{summary.engine} + {summary.optimizer} + {summary.sharding}{attention}; {summary.stack} stack"


def _name(one: ReportedComparison, comparisons: Sequence[ReportedComparison]) -> str:
    """The model's, or the file's where the model has several."""
    alone = sum(other.model == one.model for other in comparisons) == 1
    return escaped(one.model if alone else one.stem)


def _at_a_glance(comparisons: Sequence[ReportedComparison]) -> list[str]:
    """For each engine of each stack how many models it trains, and which it does not."""
    tried: dict[tuple[str, str], dict[str, bool]] = {}
    for one in comparisons:
        for summary in one.summaries:
            trained = tried.setdefault((summary.engine, summary.stack), {})
            trained[one.model] = trained.get(one.model, False) or summary.status in PASSED
    lines = []
    several = len({stack for _, stack in tried}) > 1
    for (engine, stack), trained in tried.items():
        words = f"**{engine}**" + (f" of the {stack} stack" if several else "")
        words += f" trains {sum(trained.values())} of {len(trained)} models"
        words += " from the reference's weights" if several else ""
        others = ", ".join(escaped(model) for model, passed in trained.items() if not passed)
        lines.append(f"- {words}" + (f"; not, for the reasons below: {others}" if others else ""))
    return lines


def _cell(one: BackendSummary | None, reasons: dict[str, int]) -> str:
    if one is None:
        return MISSING
    if one.status not in PASSED:
        number = reasons.setdefault(one.message, len(reasons) + 1)
        return f"**{one.status}** ({number})"
    if one.is_reference:
        return "ok"
    speedup = "ok" if one.speedup is None else f"ok {one.speedup.ratio:.2f}{TIMES}"
    return f"{speedup}, {small(one.loss_difference)}"

"""The pages over machines: the answer of each, and comparisons that several made."""

from collections.abc import Iterable, Sequence

from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.machines import BackendOnMachines, SameComparison, group_by_kind
from bench.analysis.steadiness.products import GIGA, rates_by_stack
from bench.report.content.answer import ABOUT_ANSWERS, MEMORY, OVER, QUESTION, SettingAnswer
from bench.report.content.backend_columns import ratio_above_interval
from bench.report.content.blocks import (
    Block,
    Bullets,
    Heading,
    Inline,
    Link,
    Paragraph,
    Picture,
    Small,
    Table,
    Text,
    table_of_texts,
    with_code,
)
from bench.report.words.formatting import MISSING, number, ratio
from bench.report.words.titles import make_title
from bench.statistics.table_values import model_label

PRODUCTS = "GFLOP/s: PyTorch, ONNX Runtime"

EXPLANATION = (
    "In brackets the 95 % interval: in a machine's row over its own launches, which says nothing of other "
    "machines; in the mean of a kind's hosts over hosts; in the mean of kinds over kinds, by a "
    "random-effects model."
)


def index_page(
    machines: Iterable[tuple[str, str, SettingAnswer | None]], pictures: Sequence[Picture] = ()
) -> list[Block]:
    """The page over all machines: for each backend a table with a row for each kind of machine, CPUs first.

    Of each machine its folder, name and first answer, if it has one; a kind's first host has the row.
    """
    tables: dict[str, list[list[Text]]] = {}
    without: list[Text] = []
    hosts: dict[str, list[Inline]] = {}  # links to those of each kind
    for folder, name, answer in sorted(machines, key=lambda machine: (machine[1][:1].isdigit(), machine[1])):
        page = f"{folder}/index.md"
        if answer is None:
            without.append(Link(name, page))
        elif links := hosts.get(answer.setting):
            links += [", ", Link("another host", page)]
        else:
            hosts[answer.setting] = [Link(answer.setting, page)]
            for backend in answer.backends:
                tables.setdefault(backend.subject, []).append([hosts[answer.setting], *backend.cells])
    headers = ["kind of machine", *OVER, MEMORY]
    blocks: list[Block] = [Heading(QUESTION, 1), *pictures, Paragraph(ABOUT_ANSWERS)]
    for subject, rows in sorted(tables.items()):
        blocks += [Heading(subject), table_of_texts(headers, rows, text_columns=headers)]
    if without:
        blocks += [Paragraph("Nothing that answers this was measured on:"), Bullets(without)]
    spread = Link("The same comparison on several machines, and how far these lie apart", "machines.md")
    claims = Link("What others claim, tested", "claims.md")
    rebuilt = Paragraph(with_code("Rebuilt from `results/` alone by `make report`."))
    return [*blocks, Paragraph(spread), Paragraph(claims), rebuilt]


def machines_page(groups: Sequence[SameComparison]) -> list[Block]:
    """reports/machines.md: a table for every comparison that at least two machines made."""
    text = EXPLANATION if groups else "No two machines have made the same comparison."
    blocks: list[Block] = [Heading("The same comparison on several machines", 1), Paragraph(text)]
    for same in groups:
        blocks += [Heading(title_of(same)), machines_table(same)]
    return blocks


def title_of(same: SameComparison) -> str:
    """What was compared: the model, the ranks, and what is not as usual."""
    rows = next(iter(same.machines.values())).rows
    columns = ("model", "size", "layers", "published_layers")
    return make_title(rows, model_label(*(rows[column].iloc[0] for column in columns)))


def machines_table(same: SameComparison) -> Table:
    """A row for each machine and the mean of a kind's hosts; then the mean of kinds."""
    headers = ["machine", PRODUCTS, *(f"{backend.backend} over {backend.base}" for backend in same.backends)]
    rows: list[list[Text]] = []
    for names in group_by_kind(same.machines):
        for name in names:
            cells = [ratio_above_interval(backend.speedups.get(name)) for backend in same.backends]
            rows.append([name, _products(same.machines[name]), *cells])
        if len(names) > 1:
            means = [next(filter(None, map(backend.kinds.get, names)), None) for backend in same.backends]
            rows.append([f"mean of these {len(names)} hosts", "", *map(ratio_above_interval, means)])
    if any(backend.spread for backend in same.backends):
        rows.append(["mean of kinds", "", *map(_mean, same.backends)])
    return table_of_texts(headers, rows, text_columns=headers[:2])


def _products(results: ComparisonResults) -> str:
    """`194, 205`: billions of operations per second in matrix products, by PyTorch and by ONNX Runtime."""
    rates = next(iter(rates_by_stack(results.rows)), None)
    known = [rates.torch, rates.onnxruntime] if rates else []
    return ", ".join(number(rate and rate / GIGA, 3) for rate in known)


def _mean(backend: BackendOnMachines) -> Text:
    spread = backend.spread
    return [ratio(spread.mean), Small(f"[{spread.low:.3f}, {spread.high:.3f}]")] if spread else MISSING

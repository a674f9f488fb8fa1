"""reports/scale.md: what is predicted for many GPUs, and how far such predictions were off."""

from collections.abc import Sequence
from pathlib import Path

from bench.analysis.scale.tables import COUNTED, FOLDER, TEXTBOOK, WEAK, faster_world_sizes
from bench.analysis.scale.topology import Topology
from bench.report.content.blocks import (
    Block,
    Bold,
    Bullets,
    Column,
    Folded,
    Heading,
    Link,
    Paragraph,
    Picture,
    Table,
    Text,
    table,
    table_of_texts,
    text_column,
    with_code,
)
from bench.report.content.scale import (
    CHECKS_FIGURE,
    DDP,
    KINDS_OF_SCALING,
    PUBLISHED_FIGURE,
    ZERO1,
    CheckedPoint,
    Predictions,
    PublishedRatio,
    ScaleLine,
    ScalePoint,
    Scaling,
    mean_error,
    name_sharding,
)
from bench.report.pages.scale_answer import (
    absolute,
    accuracy_in_words,
    answer_about_scaling,
    signed,
    textbook,
)
from bench.report.words.formatting import MISSING, TIMES, count, enumerated, number, plural, ratio

SHOWN_FIRST = (1, 8, 64, 1024)
"""World sizes of the first table of a file; all others are folded away."""

WORST = 3
"""How many of the published ratios that were missed most are explained."""

HEADING_OF_CHECKS = "Checks: predicted beside measured"
HEADING_OF_PUBLISHED = "Published figures beside predicted ones"


def scale_page(predictions: Predictions) -> list[Block]:
    """The page about results/predicted/."""
    top: list[Block] = [
        Heading("Many GPUs: what is predicted", 1),
        Paragraph(
            [
                Bold("Predicted, not measured."),
                " Nobody ran these models on so many GPUs here. The seconds of a step are worked out from "
                "what a rank computes, from the bytes that each sharding sends and from published figures "
                "of links and GPUs. Brackets hold 95 % of what follows if all of these lie where their "
                "sources put them.",
            ]
        ),
    ]
    parts = (_answer, _trust, _scalings, _checks, _published, _assumptions)
    below = [block for part in parts for block in part(predictions)]
    return [*top, *(below or [Paragraph("There are no predictions yet.")])]


# The answer


def _answer(predictions: Predictions) -> list[Block]:
    if not predictions.scalings:
        return []
    blocks: list[Block] = [Heading("The answer")]
    compared = [scaling for scaling in predictions.scalings if scaling.line(DDP) and scaling.line(ZERO1)]
    if compared:
        faster = sum(bool(faster_world_sizes(scaling.zero1_over_ddp())) for scaling in compared)
        pairs = plural(len(compared), "pair")
        where = f"for {faster} of {pairs} of model and machines" if faster else f"for none of {pairs}"
        sentence = f"ZeRO-1 is predicted to be faster than DDP at some world size {where}."
        blocks.append(Paragraph(Bold(sentence)))
    for topology in predictions.topologies:
        answers: list[Text] = [
            [Bold(scaling.title), f": {' '.join(answer_about_scaling(scaling))}"]
            for scaling in predictions.scalings
            if scaling.topology.name == topology.name
        ]
        blocks += [Paragraph(f"{topology.title}:"), Bullets(answers)]
    return blocks


def _trust(predictions: Predictions) -> list[Block]:
    """How far to believe it, in a line for each kind of evidence."""
    evidence: list[Text] = []
    if predictions.checks:
        errors = ", ".join(
            f"{accuracy.quantity} {absolute(mean_error(accuracy.checks))}"
            for accuracy in predictions.accuracies
        )
        evidence.append(
            [
                f"On machines of this project, {plural(len(predictions.checks), 'point')} both predicted "
                f"and measured: mean absolute error {errors} (",
                _link_to(HEADING_OF_CHECKS),
                ").",
            ]
        )
    if predictions.published:
        evidence.append(
            [
                f"Against {plural(len(predictions.published), 'published ratio')} of ZeRO-1 to DDP: mean "
                f"absolute error {absolute(mean_error(predictions.published))} (",
                _link_to(HEADING_OF_PUBLISHED),
                ").",
            ]
        )
    if not evidence:
        return []
    return [Paragraph(Bold("How far to trust such predictions:")), Bullets(evidence)]


def _link_to(heading: str) -> Link:
    """A link to a heading's anchor, as GitHub makes it."""
    return Link("table", f"#{heading.lower().replace(':', '').replace(' ', '-')}")


# Scaling


def _scalings(predictions: Predictions) -> list[Block]:
    if not predictions.scalings:
        return []
    return [
        Heading("Every model and world size"),
        Paragraph(
            "Efficiency: samples/s of a rank, as a share of those of a rank alone. Not hidden: the "
            "share of a step by which sending makes it longer. All of it is predicted."
        ),
        *(block for scaling in predictions.scalings for block in _scaling(scaling)),
    ]


def _scaling(scaling: Scaling) -> list[Block]:
    title = f"{scaling.title} on {scaling.topology.title}"
    blocks: list[Block] = [
        Heading(title, 3),
        _picture(scaling.figure, f"{title}: predicted efficiency by ranks"),
    ]
    for kind, lines in scaling.lines.items():
        if len(scaling.lines) > 1 or kind != WEAK:
            blocks.append(Paragraph(f"{kind.capitalize()} scaling ({KINDS_OF_SCALING[kind]}):"))
        sizes = sorted({point.ranks for line in lines for point in line.points})
        first = [ranks for ranks in SHOWN_FIRST if ranks in sizes] or sizes
        blocks.append(_points_table(lines, first))
        if rest := [ranks for ranks in sizes if ranks not in first]:
            listed = enumerated([f"{ranks:,}" for ranks in rest])
            summary = f"{kind} scaling at {listed} ranks"
            blocks.append(Folded(summary, [_points_table(lines, rest)]))
    if sentence := textbook(scaling):
        blocks.append(Paragraph(sentence))
    return [*blocks, Bullets(_notes(scaling))]


def _points_table(lines: Sequence[ScaleLine], sizes: Sequence[int]) -> Table:
    points = [(line.name, point) for ranks in sizes for line in lines if (point := line.at(ranks))]
    return table(points, _POINT_COLUMNS)


_POINT_COLUMNS: list[Column[tuple[str, ScalePoint]]] = [
    Column("ranks", lambda row: f"{row[1].ranks:,}"),
    text_column("sharding", lambda row: row[0]),
    Column("predicted samples/s [95 %]", lambda row: row[1].samples.words()),
    Column("efficiency [95 %]", lambda row: row[1].efficiency.per_cent()),
    Column("not hidden", lambda row: f"{100 * row[1].exposed:.0f} %"),
    Column(
        "memory of a rank", lambda row: f"{number(row[1].memory_gib, 3)} of {number(row[1].limit_gib, 3)} GiB"
    ),
    text_column("fits?", lambda row: "yes" if row[1].fits else "no"),
]


def _notes(scaling: Scaling) -> list[Text]:
    """What it is predicted for, and from what."""
    sent = {
        COUNTED: "what the libraries were counted to send (FSDP2: what its code says)",
        TEXTBOOK: "what the authors of a sharding say",
    }
    return [
        f"training: {scaling.model}, {scaling.workload}",
        f"bytes sent: {sent.get(scaling.volume, scaling.volume)}",
        *([f"seconds of computing: {'; '.join(scaling.bases)}"] if scaling.bases else []),
        f"predicted by: {scaling.made_by}; file results/{FOLDER}/{scaling.stem}.csv",
    ]


# Checks


def _checks(predictions: Predictions) -> list[Block]:
    if not predictions.checks:
        return []
    return [
        Heading(HEADING_OF_CHECKS),
        Paragraph(
            with_code(
                f"{plural(len(predictions.checks), 'point')} of this project's machines, each predicted and "
                "measured; error: predicted / measured - 1. Memory is without what lay there before the "
                "model. Predicted by `make scale ARGS=--check`."
            )
        ),
        Bullets(list(map(accuracy_in_words, predictions.accuracies))),
        _picture(CHECKS_FIGURE, "Predicted against measured: bytes, memory and seconds"),
        table([point for accuracy in predictions.accuracies for point in accuracy.checks], _CHECK_COLUMNS),
    ]


_CHECK_COLUMNS: list[Column[CheckedPoint]] = [
    text_column("machine", lambda point: point.machine),
    text_column("model", lambda point: point.model),
    text_column("backend", lambda point: point.backend),
    text_column("sharding", lambda point: name_sharding(point.sharding)),
    Column("ranks", lambda point: f"{point.ranks:,}"),
    text_column("link", lambda point: point.link),
    text_column(
        "quantity", lambda point: f"{point.quantity} ({point.unit})" if point.unit else point.quantity
    ),
    Column("measured", lambda point: point.measured.words()),
    Column("predicted", lambda point: point.predicted.words()),
    Column("error", lambda point: "equal" if point.is_equal else signed(point.error)),
    text_column(
        "measured in", lambda point: f"results/{point.measured_in}" if point.measured_in else MISSING
    ),
    text_column("commit", lambda point: point.git_commit),
]


# Published


def _published(predictions: Predictions) -> list[Block]:
    published = predictions.published
    if not published:
        return []
    worst = sorted(published, key=lambda row: -abs(row.error))[:WORST]
    within = sum(row.predicted.low <= row.published <= row.predicted.high for row in published)
    right = sum((row.published > 1) == (row.predicted.value > 1) for row in published)
    lie = f"{plural(within, 'published ratio')} {'lies' if within == 1 else 'lie'}"
    return [
        Heading(HEADING_OF_PUBLISHED),
        Paragraph(
            f"Samples/s of ZeRO-1 over those of DDP, {len(published)} times: mean absolute error "
            f"{absolute(mean_error(published))}; {lie} within the predicted bracket; {right} times the "
            "prediction has the right one of the two as the faster."
        ),
        Paragraph("Missed most:"),
        Bullets(
            [
                f"{row.title} ({row.setting}): published {row.published:.3f}{TIMES}, predicted "
                f"{row.predicted.value:.3f}{TIMES}, {signed(row.error)}{f': {row.why}' if row.why else ''}"
                for row in worst
            ]
        ),
        _picture(PUBLISHED_FIGURE, "Published and predicted ratio of ZeRO-1 to DDP, model by model"),
        table(published, _PUBLISHED_COLUMNS),
    ]


_PUBLISHED_COLUMNS: list[Column[PublishedRatio]] = [
    text_column("model", lambda row: row.model),
    text_column("hardware", lambda row: row.hardware),
    text_column("engine", lambda row: row.engine),
    Column("ranks", lambda row: f"{row.ranks:,}"),
    Column("batch", lambda row: count(row.micro_batch)),
    Column("published", lambda row: ratio(row.published)),
    Column("predicted [95 %]", lambda row: row.predicted.written(3, TIMES)),
    Column("error", lambda row: signed(row.error)),
    text_column("source", lambda row: row.source),
]


# Assumptions


def _assumptions(predictions: Predictions) -> list[Block]:
    if not predictions.topologies:
        return []
    blocks: list[Block] = [
        Heading("Assumptions"),
        Paragraph(
            "Every figure of machines that predictions rest on, and the bounds within which it lies "
            "with 95 %."
        ),
    ]
    for topology in predictions.topologies:
        where = f"{topology.ranks_per_node} ranks a node; conf/topology/{topology.name}.yaml."
        blocks += [Heading(topology.title, 3), Paragraph(where), _assumed_table(topology)]
    return blocks


def _assumed_table(topology: Topology) -> Table:
    device, inside, between = topology.device, topology.inside_node, topology.between_nodes
    assumed = [
        (f"memory of a {device.name}", device.memory_bytes, 2**30, "GiB"),
        ("bandwidth of that memory", device.memory_bytes_per_s, 1e9, "GB/s"),
        ("share of the peak that a transformer reaches", device.reached_share, 1.0, ""),
        ("all-reduce inside a node", inside.bytes_per_s, 1e9, "GB/s"),
        ("a hop inside a node", inside.latency_s, 1e-6, "µs"),
        ("all-reduce between nodes, of a node", between.bytes_per_s, 1e9, "GB/s"),
        ("a hop between nodes", between.latency_s, 1e-6, "µs"),
    ]
    rows = [
        (
            name,
            f"{bounded.value / size:.4g} {unit}".strip(),
            f"{bounded.low / size:.4g}–{bounded.high / size:.4g}",
            bounded.source,
        )
        for name, bounded, size, unit in assumed
    ]
    rows += [
        (f"peak in {precision}", f"{peak / 1e12:.4g} TFLOPS", MISSING, device.peak_source)
        for precision, peak in device.peak_flops_per_s.items()
    ]
    return table_of_texts(["figure", "value", "low–high", "source"], rows, text_columns=["figure", "source"])


def _picture(stem: str, caption: str) -> Picture:
    return Picture(Path(f"{stem}.svg"), caption)

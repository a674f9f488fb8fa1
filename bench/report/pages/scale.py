"""reports/scale.md: what is predicted for many GPUs, and how far such predictions were off."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from bench.analysis.scale.tables import FOLDER, WEAK, faster_world_sizes
from bench.report.content.blocks import (
    Block,
    Bold,
    Bullets,
    Column,
    Heading,
    Paragraph,
    Picture,
    Text,
    table,
    text_column,
    with_code,
)
from bench.report.content.kinds import name_sharding
from bench.report.content.scale import (
    CHECKS_FIGURE,
    KINDS_OF_SCALING,
    PUBLISHED_FIGURE,
    Accuracy,
    CheckedPoint,
    Predictions,
    PublishedRatio,
    ScalePoint,
    Scaling,
)
from bench.report.words.formatting import MISSING, TIMES, number, plural, ratio, share

SHOWN = (1, 8, 64, 1024)  # world sizes of the tables; the files have all


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
    below = [*_answer(predictions.scalings), *_trust(predictions)]
    below += [Heading("Every model and world size")] if predictions.scalings else []
    below += [block for scaling in predictions.scalings for block in _scaling(scaling)]
    below += _checks(predictions) if predictions.checks else []
    below += _published(predictions.published) if predictions.published else []
    return [*top, *(below or [Paragraph("There are no predictions yet.")])]


# The answer


def _answer(scalings: Sequence[Scaling]) -> list[Block]:
    """A row for each model and topology, about the kind of scaling that is shown first."""
    if not scalings:
        return []
    compared = [ratios for scaling in scalings if (ratios := zero1_over_ddp(scaling))]
    faster = sum(bool(faster_world_sizes(ratios)) for ratios in compared)
    where = f"for {faster or 'none'} of {plural(len(compared), 'pair')} of model and machines"
    columns: list[Column[Scaling]] = [
        text_column("model", lambda scaling: scaling.title),
        text_column("machines", lambda scaling: scaling.topology.title),
        Column("samples/s of ZeRO-1 over DDP's, at best", _best_zero1),
        *(
            Column(f"efficiency of DDP at {ranks:,} ranks", partial(_efficiency_of_ddp, ranks=ranks))
            for ranks in SHOWN[1:]
        ),
        text_column("fits in a rank's memory", _fitting),
    ]
    return [
        Heading("The answer"),
        Paragraph(Bold(f"ZeRO-1 is predicted to be faster than DDP at some world size {where}.")),
        table(scalings, columns),
        Paragraph(
            "Efficiency: samples/s of a rank, as a share of those of a rank alone. Not hidden, below: the "
            "share of a step by which sending makes it longer. All of it is predicted."
        ),
    ]


def zero1_over_ddp(scaling: Scaling) -> dict[int, float]:
    """Samples/s of ZeRO-1 over those of DDP at every world size above 1 that both have."""
    ddp, zero1 = _points(scaling, "ddp"), _points(scaling, "zero1")
    sizes = [ranks for ranks in zero1 if ranks > 1 and ranks in ddp]
    return {ranks: zero1[ranks].samples.value / ddp[ranks].samples.value for ranks in sizes}


def _points(scaling: Scaling, sharding: str) -> dict[int, ScalePoint]:
    """What is predicted of a sharding by ranks; nothing if it was not predicted."""
    main = next(iter(scaling.lines.values()))
    return {point.ranks: point for point in main.get(sharding, [])}


def _best_zero1(scaling: Scaling) -> str:
    ratios = zero1_over_ddp(scaling)
    if not ratios:
        return MISSING
    best = max(ratios, key=lambda ranks: ratios[ranks])
    return f"{ratio(ratios[best])} at {best:,} ranks"


def _efficiency_of_ddp(scaling: Scaling, ranks: int) -> str:
    point = _points(scaling, "ddp").get(ranks)
    return point.efficiency.per_cent() if point else MISSING


def _fitting(scaling: Scaling) -> str:
    """The ranks from which on each sharding fits: `DDP: no; ZeRO-1: from 8 ranks on; FSDP2: yes`."""
    parts = []
    for sharding, points in next(iter(scaling.lines.values())).items():
        too_large = [point.ranks for point in points if not point.fits]
        later = [point.ranks for point in points if point.ranks > max(too_large, default=0)]
        words = "yes" if not too_large else f"from {later[0]:,} ranks on" if later else "no"
        parts.append(f"{name_sharding(sharding)}: {words}")
    return "; ".join(parts)


def evidence_of(predictions: Predictions) -> list[str]:
    """How far to believe predictions, in a line for each kind of evidence."""
    evidence = [accuracy_in_words(accuracy) for accuracy in predictions.accuracies]
    if published := predictions.published:
        within = sum(row.predicted.low <= row.published <= row.predicted.high for row in published)
        right = sum((row.published > 1) == (row.predicted.value > 1) for row in published)
        evidence.append(
            f"published ratios of ZeRO-1 to DDP: mean absolute error {_mean_error(published)} over "
            f"{plural(len(published), 'point')}; {within} within the predicted bracket; {right} times the "
            "prediction has the right one of the two as the faster"
        )
    return evidence


def _trust(predictions: Predictions) -> list[Block]:
    evidence = evidence_of(predictions)
    return [Paragraph(Bold("How far to trust such predictions:")), Bullets(evidence)] if evidence else []


def accuracy_in_words(accuracy: Accuracy) -> str:
    """How far the predictions of a quantity were off, in a sentence."""
    points = accuracy.checks
    if all(point.is_equal for point in points):
        return f"{accuracy.quantity}: equal at {plural(len(points), 'point')}"
    worst = max(points, key=lambda point: abs(point.error))
    number_of_points = plural(len(points), "point")
    return (
        f"{accuracy.quantity}: mean absolute error {_mean_error(points)} over {number_of_points}, largest "
        f"{_signed(worst.error)} ({worst.setting}); {accuracy.within} of {len(points)} {accuracy.rule}"
    )


def _mean_error(predicted: Sequence[CheckedPoint | PublishedRatio]) -> str:
    return share(sum(abs(prediction.error) for prediction in predicted) / len(predicted))


def _signed(error: float) -> str:
    return f"{100 * error:+,.1f} %".replace("-", "\N{MINUS SIGN}")


# Every model, check and published ratio


def _scaling(scaling: Scaling) -> list[Block]:
    title = f"{scaling.title} on {scaling.topology.title}"
    blocks: list[Block] = [
        Heading(title, 3),
        _picture(scaling.figure, f"{title}: predicted efficiency by ranks"),
    ]
    for kind, lines in scaling.lines.items():
        if len(scaling.lines) > 1 or kind != WEAK:
            blocks.append(Paragraph(f"{kind.capitalize()} scaling ({KINDS_OF_SCALING[kind]}):"))
        points = list(chain.from_iterable(lines.values()))
        shown = [point for point in points if point.ranks in SHOWN] or points
        blocks.append(table(sorted(shown, key=lambda point: point.ranks), _POINT_COLUMNS))
    notes: list[Text] = [
        f"training: {scaling.model}, {scaling.workload}",
        *([f"seconds of computing: {'; '.join(scaling.bases)}"] if scaling.bases else []),
        f"machines: conf/topology/{scaling.topology.name}.yaml has every figure with its bounds and source",
        f"predicted by: {scaling.made_by}; file results/{FOLDER}/{scaling.stem}.csv",
    ]
    return [*blocks, Bullets(notes)]


_POINT_COLUMNS: list[Column[ScalePoint]] = [
    Column("ranks", lambda point: f"{point.ranks:,}"),
    text_column("sharding", lambda point: name_sharding(point.sharding)),
    Column("predicted samples/s [95 %]", lambda point: point.samples.words()),
    Column("efficiency [95 %]", lambda point: point.efficiency.per_cent()),
    Column("not hidden", lambda point: f"{100 * point.exposed:.0f} %"),
    Column(
        "memory of a rank",
        lambda point: f"{number(point.needed_gib, 3)} of {number(point.memory_gib, 3)} GiB",
    ),
    text_column("fits?", lambda point: "yes" if point.fits else "no"),
]


def _checks(predictions: Predictions) -> list[Block]:
    return [
        Heading("Checks: predicted beside measured"),
        Paragraph(
            with_code(
                f"{plural(len(predictions.checks), 'point')} of this project's machines, each predicted and "
                "measured; error: predicted / measured - 1. Memory is without what lay there before the "
                "model. Predicted by `make scale ARGS=--check`."
            )
        ),
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
    Column("error", lambda point: "equal" if point.is_equal else _signed(point.error)),
    text_column(
        "measured in", lambda point: f"results/{point.measured_in}" if point.measured_in else MISSING
    ),
    text_column("commit", lambda point: point.git_commit),
]


def _published(ratios: Sequence[PublishedRatio]) -> list[Block]:
    return [
        Heading("Published figures beside predicted ones"),
        Paragraph("Samples/s of ZeRO-1 over those of DDP; those that were missed most come first."),
        _picture(PUBLISHED_FIGURE, "Published and predicted ratio of ZeRO-1 to DDP, model by model"),
        table(sorted(ratios, key=lambda row: -abs(row.error)), _PUBLISHED_COLUMNS),
    ]


_PUBLISHED_COLUMNS: list[Column[PublishedRatio]] = [
    text_column("model", lambda row: row.model),
    text_column("hardware", lambda row: row.hardware),
    text_column("engine", lambda row: row.engine),
    Column("ranks", lambda row: f"{row.ranks:,}"),
    Column("batch", lambda row: MISSING if math.isnan(row.micro_batch) else f"{row.micro_batch:g}"),
    Column("published", lambda row: ratio(row.published)),
    Column("predicted [95 %]", lambda row: row.predicted.written(3, TIMES)),
    Column("error", lambda row: _signed(row.error)),
    text_column("why", lambda row: row.why),
    text_column("source", lambda row: row.source),
]


def _picture(stem: str, caption: str) -> Picture:
    return Picture(Path(f"{stem}.svg"), caption)

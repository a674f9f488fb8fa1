"""The page about a prediction: its results, how far its bytes were checked, and its limits."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.errors import plural
from bench.report.content.blocks import (
    Block,
    Bold,
    Bullets,
    Column,
    Heading,
    Paragraph,
    Picture,
    Table,
    Text,
    table,
    text_column,
    with_code,
)
from bench.report.content.shardings import SHARDINGS, name_sharding
from bench.report.words.formatting import TIMES, enumerated, number
from bench.studies.scale.check import CheckedBytes
from bench.studies.scale.estimates import Estimate
from bench.studies.scale.predict import Point, Prediction

SHOWN = (1, 8, 64, 1024)  # world sizes of the table; the figure has all

LIMITS: Sequence[str] = (
    "Every rank trains as many samples however many ranks there are (weak scaling), with the micro-batches a "
    "step that are named above. The more micro-batches a step accumulates, the less its traffic matters, and "
    "the nearer ZeRO-1 comes to DDP: `ARGS=grad_accum=8`.",
    "ZeRO-1 is DeepSpeed's as it was counted: an all-reduce of all gradients after the backward pass, or "
    "along with it where the model has more than 500 million parameters. All shardings update with a fused "
    "AdamW; where an update takes longer, dividing it among ranks gains more. Published throughputs on "
    "8 × V100 have ZeRO-1 faster than DDP in 11 of 13 cases, and this page says nothing of those.",
    "No congestion, stragglers, failures, checkpoints, input pipeline, pipeline or tensor parallelism. The "
    "range has none of that in it, nor what a library does on the host.",
)
"""What the prediction assumes, and what it leaves out."""

ABOUT_FIGURE = "Samples/s of a rank over those of a rank alone; shaded: 95 % of what the figures allow."


def scale_page(
    prediction: Prediction, checked: Sequence[CheckedBytes], command: str, figure: Path
) -> list[Block]:
    """The whole page; `figure` lies beside it."""
    topology = prediction.topology
    title = f"{prediction.config.model.name} on {topology.title}"
    notes: list[Text] = [
        workload_in_words(prediction),
        with_code(
            f"GPUs and links: `conf/topology/{topology.name}.yaml` has each figure, its range and source"
        ),
        f"memory that a rank has: {number(topology.device.memory_bytes.value / 2**30, 3)} GiB",
        with_code(f"seconds of computing: FLOPs over {_reached_share(prediction)}"),
        bytes_in_words(checked),
        "not hidden: the share of a step by which sending makes it longer; efficiency: samples/s of a rank "
        "as a share of those of a rank alone, above 100 % where each of many ranks updates only its part",
        with_code(f"predicted by `{command}`"),
    ]
    return [
        Heading("Many GPUs: what is predicted", 1),
        Paragraph(
            [
                Bold("Predicted, not measured: "),
                f" {title}. {answer_in_words(prediction)} Brackets hold 95 % of what follows if every figure "
                "of GPUs and links lies where its source puts it.",
            ]
        ),
        Picture(figure, f"{title}: predicted efficiency by ranks", ABOUT_FIGURE),
        shown_table(prediction),
        Bullets(notes),
        Heading("What it does not say"),
        Bullets([with_code(words) for words in LIMITS]),
    ]


def shown_table(prediction: Prediction) -> Table:
    """Every sharding at the world sizes that are `SHOWN`."""
    points = [point for line in prediction.lines.values() for point in line if point.ranks in SHOWN]
    return table(sorted(points, key=lambda point: point.ranks), _COLUMNS)


def answer_in_words(prediction: Prediction) -> str:
    """DDP's efficiency, and ZeRO-1's speed over DDP's."""
    of_ddp = {point.ranks: point for point in prediction.lines["ddp"]}
    kept = [f"{_per_cent(of_ddp[ranks].efficiency)} on {ranks:,} ranks" for ranks in SHOWN[1:]]
    ratios = [point for point in prediction.lines["zero1"] if point.ranks > 1]
    lowest, highest = (pick(ratios, key=lambda point: point.over_base.value) for pick in (min, max))
    beside = [f"{_times(point.over_base)} on {point.ranks:,} ranks" for point in (highest, lowest)]
    return (
        f"Under DDP a rank keeps {enumerated(kept)} of the samples/s that it has alone. Samples/s of "
        f"DeepSpeed's ZeRO-1 over those of DDP: {beside[0]} at best, {beside[1]} at worst."
    )


def bytes_in_words(checked: Sequence[CheckedBytes]) -> str:
    """How many predictions of bytes equal the counts, and which do not."""
    if not checked:
        return "bytes that a rank sends: none were counted on any machine of the results"
    wrong = [point for point in checked if point.predicted != point.counted]
    shardings = {point.sharding for point in checked}
    where = (
        f"{_listed(name_sharding(one) for one in sorted(shardings, key=[*SHARDINGS, *shardings].index))} on "
        f"{_listed(str(point.ranks) for point in sorted(checked, key=lambda point: point.ranks))} ranks"
    )
    words = f"bytes that a rank sends: as counted at {len(checked) - len(wrong)} of "
    words += f"{plural(len(checked), 'point')} ({where})"
    for point in wrong:
        words += (
            f"; {point.model} under {point.backend} on {point.ranks} ranks: predicted "
            f"{point.predicted:,.0f}, counted {point.counted:,.0f}"
        )
    return words


def workload_in_words(prediction: Prediction) -> str:
    """The model and what a rank trains in a step."""
    config = prediction.config
    length = f" of length {config.seq_len}" if config.seq_len else ""
    return (
        f"{config.model.name}, {prediction.facts.parameters / 1e6:,.0f} million parameters, "
        f"{config.precision.name}; a rank's step: {plural(config.grad_accum, 'micro-batch', 'es')} of "
        f"{plural(config.micro_batch, 'sample')}{length}"
    )


def _reached_share(prediction: Prediction) -> str:
    device, precision = prediction.topology.device, prediction.config.precision.name
    share = device.reached_share
    return (
        f"{100 * share.value:.0f} % [{100 * share.low:.0f}–{100 * share.high:.0f}] of {device.name}'s "
        f"{device.peak_flops_per_s[precision] / 1e12:g} TFLOP/s"
    )


def _listed(words: Iterable[str]) -> str:
    return enumerated(list(dict.fromkeys(words)))


def _per_cent(share: Estimate) -> str:
    return _written(share, 0 if share.value >= 0.1 else 1, " %", 100)


def _times(ratio: Estimate) -> str:
    return _written(ratio, 2, TIMES)


def _written(figure: Estimate, decimals: int, unit: str = "", factor: float = 1) -> str:
    """`93 % [92–95]`, or the number alone where its range is empty."""
    ends = (figure.value, figure.low, figure.high)
    value, low, high = (f"{factor * end:,.{decimals}f}" for end in ends)
    return f"{value}{unit} [{low}–{high}]" if figure.low < figure.high else f"{value}{unit}"


_COLUMNS: list[Column[Point]] = [
    Column("ranks", lambda point: f"{point.ranks:,}"),
    text_column("sharding", lambda point: name_sharding(point.sharding)),
    Column(
        "predicted samples/s [95 %]",
        lambda point: _written(point.samples_per_s, len(number(point.samples_per_s.value).partition(".")[2])),
    ),
    Column("over DDP [95 %]", lambda point: _times(point.over_base)),
    Column("not hidden", lambda point: f"{100 * point.exposed:.0f} %"),
    Column("GiB of a rank", lambda point: number(point.needed_gib, 3)),
    text_column("fits?", lambda point: "yes" if point.fits else "no"),
]

"""reports/scale.md: what is predicted for many GPUs, and how far such predictions were off."""

from collections.abc import Callable, Sequence
from urllib.parse import quote

from bench.analysis.predictions import COUNTED, TEXTBOOK
from bench.analysis.scale.figures import Figure
from bench.analysis.scale.topology import Topology
from bench.report.content.scale import (
    CHECKS_FIGURE,
    KINDS_OF_SCALING,
    PUBLISHED_FIGURE,
    CheckedPoint,
    Predictions,
    PublishedRatio,
    ScaleLine,
    ScalePoint,
    Scaling,
    mean_error,
    name_sharding,
    per_cent,
)
from bench.report.formatting import MISSING, TIMES, enumerated, number, plural, ratio
from bench.report.markdown import table, table_of
from bench.report.pages.scale_answer import (
    absolute,
    accuracy_in_words,
    answer,
    both,
    faster_at,
    signed,
    textbook,
)
from bench.report.render.markdown import escaped

SHOWN_FIRST = (1, 8, 64, 1024)
"""World sizes of the first table of a file; all others are folded away."""

WORST = 3
"""How many of the published ratios that were missed most are explained."""

HEADING_OF_CHECKS = "Checks: predicted beside measured"
HEADING_OF_PUBLISHED = "Published figures beside predicted ones"


def render_scale(found: Predictions) -> str:
    """The page about results/predicted/."""
    lines = [
        "# Many GPUs: what is predicted",
        "",
        "**Predicted, not measured.** Nobody ran these models on so many GPUs here. The seconds of a step "
        "are worked out from what a rank computes, from the bytes that each sharding sends and from "
        "published figures of links and GPUs. Brackets hold 95 % of what follows if all of these lie where "
        "their sources put them.",
        "",
    ]
    if not (found.scalings or found.checks or found.published):
        return "\n".join([*lines, "There are no predictions yet.", ""])
    lines += [*_answer(found), *_trust(found)]
    for section in (_scalings, _checks, _published, _assumptions):
        lines += section(found)
    return "\n".join(lines)


# The answer


def _answer(found: Predictions) -> list[str]:
    if not found.scalings:
        return []
    lines = ["## The answer", ""]
    compared = [one for one in found.scalings if both(one)]
    if compared:
        faster = sum(bool(faster_at(one)) for one in compared)
        count = plural(len(compared), "pair")
        where = f"for {faster} of {count} of model and machines" if faster else f"for none of {count}"
        lines += [f"**ZeRO-1 is predicted to be faster than DDP at some world size {where}.**", ""]
    for topology in found.topologies:
        lines += [f"{escaped(topology.title)}:", ""]
        lines += [
            f"- **{escaped(one.title)}**: {escaped(' '.join(answer(one)))}"
            for one in found.scalings
            if one.topology.name == topology.name
        ]
        lines.append("")
    return lines


def _trust(found: Predictions) -> list[str]:
    """How far to believe it, in a line for each kind of evidence."""
    lines = []
    if found.checks:
        errors = ", ".join(f"{one.quantity} {absolute(one.mean)}" for one in found.accuracies)
        count = plural(len(found.checks), "point")
        lines.append(
            f"- On machines of this project, {count} both predicted and measured: mean absolute error "
            f"{escaped(errors)} ([table](#{_anchor(HEADING_OF_CHECKS)}))."
        )
    if found.published:
        count = plural(len(found.published), "published ratio")
        lines.append(
            f"- Against {count} of ZeRO-1 to DDP: mean absolute error "
            f"{absolute(mean_error(found.published))} ([table](#{_anchor(HEADING_OF_PUBLISHED)}))."
        )
    return ["**How far to trust such predictions:**", "", *lines, ""] if lines else []


def _anchor(heading: str) -> str:
    """Of a heading, as GitHub makes it."""
    return heading.lower().replace(":", "").replace(" ", "-")


# Scaling


def _scalings(found: Predictions) -> list[str]:
    if not found.scalings:
        return []
    lines = [
        "## Every model and world size",
        "",
        "Efficiency: samples/s of a rank, as a share of those of a rank alone. Not hidden: the share of a "
        "step by which sending makes it longer. All of it is predicted.",
        "",
    ]
    for one in found.scalings:
        lines += _scaling(one)
    return lines


def _scaling(one: Scaling) -> list[str]:
    lines = [f"### {escaped(one.title)} on {escaped(one.topology.title)}", ""]
    lines += _picture(one.figure, f"{one.title} on {one.topology.title}: predicted efficiency by ranks")
    for kind, members in one.lines.items():
        if len(one.lines) > 1 or kind != "weak":
            lines += [f"{kind.capitalize()} scaling ({KINDS_OF_SCALING[kind]}):", ""]
        sizes = sorted({point.ranks for line in members for point in line.points})
        first = [ranks for ranks in SHOWN_FIRST if ranks in sizes] or sizes
        lines += _table(members, first)
        if rest := [ranks for ranks in sizes if ranks not in first]:
            listed = enumerated([f"{ranks:,}" for ranks in rest])
            lines += [
                f"<details><summary>{kind} scaling at {listed} ranks</summary>",
                "",
                *_table(members, rest),
                "</details>",
                "",
            ]
    if sentence := textbook(one):
        lines += [escaped(sentence), ""]
    return [*lines, *(f"- {escaped(words)}" for words in _notes(one)), ""]


def _table(lines: Sequence[ScaleLine], sizes: Sequence[int]) -> list[str]:
    cells = [
        _point_cells(line.name, point)
        for ranks in sizes
        for line in lines
        if (point := line.at(ranks)) is not None
    ]
    headers = [
        *("ranks", "sharding", "predicted samples/s [95 %]", "efficiency [95 %]", "not hidden"),
        *("memory of a rank", "fits?"),
    ]
    return table(headers, cells, numeric=[name for name in headers if name not in ("sharding", "fits?")])


def _point_cells(name: str, point: ScalePoint) -> list[str]:
    limit = "" if point.limit_gib is None else f" of {number(point.limit_gib, 3)}"
    return [
        f"{point.ranks:,}",
        name,
        MISSING if point.samples is None else point.samples.words(),
        per_cent(point.efficiency),
        MISSING if point.exposed is None else f"{100 * point.exposed:.0f} %",
        MISSING if point.memory_gib is None else f"{number(point.memory_gib, 3)}{limit} GiB",
        MISSING if point.fits is None else "yes" if point.fits else "no",
    ]


def _notes(one: Scaling) -> list[str]:
    """What it is predicted for, and from what."""
    sent = {
        COUNTED: "what the libraries were counted to send (FSDP2: what its code says)",
        TEXTBOOK: "what the authors of a sharding say",
    }
    return [
        f"training: {one.model}, {one.workload}",
        f"bytes sent: {sent.get(one.volume, one.volume)}",
        *([f"seconds of computing: {'; '.join(one.bases)}"] if one.bases else []),
        f"predicted by: {one.made_by}; file results/predicted/{one.stem}.csv",
    ]


# Checks


def _checks(found: Predictions) -> list[str]:
    if not found.checks:
        return []
    return [
        f"## {HEADING_OF_CHECKS}",
        "",
        f"{plural(len(found.checks), 'point')} of this project's machines, each predicted and measured; "
        "error: predicted / measured - 1. Memory is without what lay there before the model. Predicted by "
        "`make scale ARGS=--check`.",
        "",
        *(f"- {escaped(accuracy_in_words(one))}" for one in found.accuracies),
        "",
        *_picture(CHECKS_FIGURE, "Predicted against measured: bytes, memory and seconds"),
        *table_of(
            [check for one in found.accuracies for check in one.checks],
            _CHECKS,
            numeric=("ranks", "measured", "predicted", "error"),
        ),
    ]


_CHECKS: dict[str, Callable[[CheckedPoint], str]] = {
    "machine": lambda one: one.machine,
    "model": lambda one: one.model,
    "backend": lambda one: one.backend,
    "sharding": lambda one: name_sharding(one.sharding),
    "ranks": lambda one: f"{one.ranks:,}",
    "link": lambda one: one.link,
    "quantity": lambda one: (
        f"{one.quantity} ({one.unit})" if one.unit not in ("", one.quantity) else one.quantity
    ),
    "measured": lambda one: one.measured.words(),
    "predicted": lambda one: one.predicted.words(),
    "error": lambda one: "equal" if one.is_equal else signed(one.error),
    "measured in": lambda one: f"results/{one.measured_in}" if one.measured_in else MISSING,
    "commit": lambda one: one.git_commit,
}


# Published


def _published(found: Predictions) -> list[str]:
    if not found.published:
        return []
    worst = sorted(found.published, key=lambda one: -abs(one.error))[:WORST]
    within = sum(one.predicted.ends[0] <= one.published <= one.predicted.ends[1] for one in found.published)
    right = sum((one.published > 1) == (one.predicted.value > 1) for one in found.published)
    count = len(found.published)
    lie = f"{plural(within, 'published ratio')} {'lies' if within == 1 else 'lie'}"
    return [
        f"## {HEADING_OF_PUBLISHED}",
        "",
        f"Samples/s of ZeRO-1 over those of DDP, {count} times: mean absolute error "
        f"{absolute(mean_error(found.published))}; {lie} within the predicted "
        f"bracket; {right} times the prediction has the right one of the two as the faster.",
        "",
        "Missed most:",
        "",
        *(
            f"- {escaped(one.title)} ({escaped(one.setting)}): published {one.published:.3f}{TIMES}, "
            f"predicted {one.predicted.value:.3f}{TIMES}, {signed(one.error)}"
            + (f": {escaped(one.why)}" if one.why else "")
            for one in worst
        ),
        "",
        *_picture(PUBLISHED_FIGURE, "Published and predicted ratio of ZeRO-1 to DDP, model by model"),
        *table_of(
            found.published, _PUBLISHED, numeric=("ranks", "batch", "published", "predicted [95 %]", "error")
        ),
    ]


_PUBLISHED: dict[str, Callable[[PublishedRatio], str]] = {
    "model": lambda one: one.model,
    "hardware": lambda one: one.hardware,
    "engine": lambda one: one.engine,
    "ranks": lambda one: f"{one.ranks:,}",
    "batch": lambda one: MISSING if one.micro_batch is None else f"{one.micro_batch:,}",
    "published": lambda one: ratio(one.published),
    "predicted [95 %]": lambda one: one.predicted.three_decimals(TIMES),
    "error": lambda one: signed(one.error),
    "source": lambda one: one.source,
}


# Assumptions


def _assumptions(found: Predictions) -> list[str]:
    if not found.topologies:
        return []
    lines = [
        "## Assumptions",
        "",
        "Every figure of machines that predictions rest on, and the bounds within which it lies with 95 %.",
        "",
    ]
    for topology in found.topologies:
        lines += [
            f"### {escaped(topology.title)}",
            "",
            f"{topology.ranks_per_node} ranks a node; conf/topology/{escaped(topology.name)}.yaml.",
            "",
            *table(["figure", "value", "low–high", "source"], _figures_of(topology), ("value", "low–high")),
        ]
    return lines


def _figures_of(topology: Topology) -> list[list[str]]:
    device = topology.device
    listed: list[tuple[str, Figure, float, str]] = [
        (f"memory of a {device.name}", device.memory_bytes, 2**30, "GiB"),
        ("bandwidth of that memory", device.memory_bytes_per_s, 1e9, "GB/s"),
        ("share of the peak that a transformer reaches", device.reached_share, 1.0, ""),
        ("all-reduce inside a node", topology.inside_node.bytes_per_s, 1e9, "GB/s"),
        ("a hop inside a node", topology.inside_node.latency_s, 1e-6, "µs"),
        ("all-reduce between nodes, of a node", topology.between_nodes.bytes_per_s, 1e9, "GB/s"),
        ("a hop between nodes", topology.between_nodes.latency_s, 1e-6, "µs"),
    ]
    rows = [
        [
            what,
            f"{figure.value / unit:.4g} {name}".strip(),
            f"{figure.low / unit:.4g}–{figure.high / unit:.4g}",
            figure.source,
        ]
        for what, figure, unit, name in listed
    ]
    peaks = [
        [f"peak in {precision}", f"{peak / 1e12:.4g} TFLOPS", MISSING, device.peak_source]
        for precision, peak in device.peak_flops_per_s.items()
    ]
    return [*rows, *peaks]


def _picture(stem: str, words: str) -> list[str]:
    return [f"![{escaped(words)}]({quote(stem)}.svg)", ""]

"""What `make scale` says: the answer, and tables for a terminal."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bench.analysis.scale.memory import largest_layers, predict_memory
from bench.analysis.scale.tables import COUNTED, WEAK
from bench.analysis.scale.topology import Topology
from bench.config.schema import Config
from bench.results.step_parts import ModelFacts
from bench.scale.predict import SHARDINGS, faster_at, kept_of

Row = Mapping[str, Any]

WORLD_SIZES = (1, 8, 64, 1024)
"""World sizes of the tables."""


def answer(config: Config, facts: ModelFacts, topology: Topology, rows: Sequence[Row]) -> str:
    """One paragraph: what was measured, what is predicted, and what follows."""
    sizes = ", ".join(f"{ranks:,}" for ranks in faster_at(rows, "zero1", "ddp"))
    overtakes = f"faster than DDP at {sizes} ranks" if sizes else "slower than DDP at every world size"
    at = _by_ranks(rows, "ddp")
    efficiency = "; ".join(
        f"{ranks:,} ranks {at[ranks]['predicted_efficiency']:.0%} "
        f"[{at[ranks]['predicted_efficiency_low']:.0%}, {at[ranks]['predicted_efficiency_high']:.0%}]"
        for ranks in WORLD_SIZES[1:]
    )
    return (
        f"measured: nothing on {topology.title}. predicted: {config.model.name} "
        f"({facts.parameters / 1e6:,.0f} M parameters, {config.micro_batch} samples a rank"
        f"{f' of length {config.seq_len}' if config.seq_len else ''}, {config.precision.name}): "
        f"efficiency of DDP, samples growing with the ranks: {efficiency}. "
        f"DeepSpeed's ZeRO-1 is predicted to be {overtakes}."
    )


def table(rows: Sequence[Row]) -> str:
    """Predicted samples/s, efficiency and memory of every sharding at some world sizes."""
    lines = [
        f"{'predicted':9} {'ranks':>6}  {'samples/s [95 %]':28} {'efficiency':>10} {'exposed':>8} "
        f"{'GiB a rank':>10} fits"
    ]
    for sharding in SHARDINGS:
        at = _by_ranks(rows, sharding)
        for row in (at[ranks] for ranks in WORLD_SIZES):
            value, low, high = (
                _short(row[f"predicted_samples_per_s{bound}"]) for bound in ("", "_low", "_high")
            )
            rate = f"{value} [{low}, {high}]"
            fits = "yes" if row["predicted_memory_gib"] <= row["memory_gib"] else "no"
            lines.append(
                f"{sharding:9} {row['ranks']:6,}  {rate:28} {row['predicted_efficiency']:10.0%} "
                f"{row['predicted_exposed_s'] / row['predicted_step_s']:8.0%} "
                f"{row['predicted_memory_gib']:10.1f} {fits}"
            )
    return "\n".join(lines)


def sensitivity(rows: Sequence[Row], slower: Sequence[Row], faster: Sequence[Row]) -> str:
    """How throughput changes with half and with twice the bandwidth of all links."""
    lines = ["predicted throughput with half, and with twice the bandwidth of all links:"]
    for sharding in SHARDINGS:
        tables = [_by_ranks(some, sharding) for some in (rows, slower, faster)]
        cells = []
        for ranks in WORLD_SIZES[1:]:
            usual, less, more = (at[ranks]["predicted_samples_per_s"] for at in tables)
            cells.append(f"{ranks:,} ranks {less / usual - 1:+.0%} {more / usual - 1:+.0%}")
        lines.append(f"{sharding:9} {'; '.join(cells)}")
    return "\n".join(lines)


def largest(config: Config, facts: ModelFacts, topology: Topology) -> str:
    """The largest model with such layers that fits, under every sharding."""
    if not facts.layers or facts.trainable != facts.parameters:
        return ""
    lines = [
        f"largest model of such layers that is predicted to fit with {config.micro_batch} samples a rank:"
    ]
    each = facts.layer_parameters / facts.layers
    beside = facts.parameters - facts.layer_parameters
    for sharding in SHARDINGS:
        cells = []
        for ranks in WORLD_SIZES:
            kept = kept_of(facts, sharding, config)
            layers = largest_layers(
                partial(_held, facts, kept, sharding, ranks), memory_bytes=topology.device.memory_bytes.value
            )
            size = (beside + layers * each) / 1e9
            fits = f"{layers:,} layers, {size:,.1f} B" if layers else "none"
            cells.append(f"{ranks:,} ranks {fits}")
        lines.append(f"{sharding:9} {'; '.join(cells)}")
    return "\n".join(lines)


def _held(facts: ModelFacts, kept: tuple[int, int], sharding: str, ranks: int, layers: int) -> float:
    """Bytes that a rank holds of a model with so many of these layers."""
    parameters = facts.parameters + (layers - facts.layers) * facts.layer_parameters / facts.layers
    total, in_layers = kept
    held = predict_memory(
        sharding=sharding,
        optimizer="adamw",
        parameters=round(parameters),
        trainable=round(parameters),
        activations=total + (layers - facts.layers) * in_layers / facts.layers,
        world_sizes=[ranks],
        device="cuda",
    )
    return float(held.total[0])


def check_answer(checked: Sequence[Row], published: Sequence[Row]) -> str:
    """How far predictions are from measurements."""
    errors: dict[str, list[float]] = {}
    for row in checked:
        errors.setdefault(row["quantity"], []).append(abs(row["error"]))
    if published:
        errors["published ratios of ZeRO-1 to DDP"] = [abs(row["error"]) for row in published]
    parts = [
        f"{name}: mean error {sum(sizes) / len(sizes):.1%}, largest {max(sizes):.1%} of {len(sizes)} points"
        for name, sizes in errors.items()
    ]
    return f"predicted against measured: {'; '.join(parts)}." if parts else "Nothing was measured to check."


def check_table(checked: Sequence[Row]) -> str:
    """Every point."""
    if not checked:
        return ""
    lines = [
        f"{'model':14} {'backend':24} {'ranks':>5} {'link':12} {'quantity':26} "
        f"{'measured':>12} {'predicted':>12} error"
    ]
    lines += [
        f"{row['model']:14} {row['backend']:24} {row['ranks']:5} {row['link']:12} {row['quantity']:26} "
        f"{row['measured']:12.6g} {row['predicted']:12.6g} {row['error']:+.1%}"
        for row in checked
    ]
    return "\n".join(lines)


def published_table(published: Sequence[Row]) -> str:
    """Every published ratio."""
    lines = [f"{'model':20} {'engine':10} {'published':>9} predicted [95 %]"]
    lines += [
        f"{row['model']:20} {row['engine']:10} {row['published_ratio']:9.2f} {row['predicted_ratio']:.2f} "
        f"[{row['predicted_ratio_low']:.2f}, {row['predicted_ratio_high']:.2f}] {row['error']:+.0%}"
        for row in published
    ]
    return "\n".join(lines)


def _short(number: float) -> str:
    """Three digits at least."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _by_ranks(rows: Sequence[Row], sharding: str) -> dict[int, Row]:
    """The rows of a sharding, with as many samples on every rank, by world size."""
    wanted = (sharding, COUNTED, WEAK)
    return {row["ranks"]: row for row in rows if (row["sharding"], row["volume"], row["scaling"]) == wanted}

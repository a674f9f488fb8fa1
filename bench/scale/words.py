"""What `make scale` says: the answer, and tables for a terminal."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bench.analysis.scale.memory import largest_layers, predict_memory
from bench.analysis.scale.tables import COUNTED, WEAK
from bench.analysis.scale.topology import Topology
from bench.config.schema import Config
from bench.results.model_facts import ModelFacts
from bench.scale.predict import SHARDINGS, faster_at, kept_of

Row = Mapping[str, Any]

SHOWN = (1, 8, 64, 1024)
"""World sizes of the tables."""


def answer(config: Config, facts: ModelFacts, topology: Topology, rows: Sequence[Row]) -> str:
    """One paragraph: what was measured, what is predicted, and what follows."""
    faster = faster_at(rows, "zero1", "ddp")
    sizes = ", ".join(f"{one:,}" for one in faster)
    overtakes = (
        f"DeepSpeed's ZeRO-1 is predicted to be faster than DDP at {sizes} ranks"
        if faster
        else "DeepSpeed's ZeRO-1 is predicted to be slower than DDP at every world size"
    )
    at = {row["ranks"]: row for row in _of(rows, "ddp", WEAK)}
    efficiency = "; ".join(
        f"{ranks:,} ranks {at[ranks]['predicted_efficiency']:.0%} "
        f"[{at[ranks]['predicted_efficiency_low']:.0%}, {at[ranks]['predicted_efficiency_high']:.0%}]"
        for ranks in SHOWN[1:]
    )
    return (
        f"measured: nothing on {topology.title}. predicted: {config.model.name} "
        f"({facts.parameters / 1e6:,.0f} M parameters, {config.micro_batch} samples a rank"
        f"{f' of length {config.seq_len}' if config.seq_len else ''}, {config.precision.name}): "
        f"efficiency of DDP, samples growing with the ranks: {efficiency}. {overtakes}."
    )


def table(rows: Sequence[Row]) -> str:
    """Predicted samples/s, efficiency and memory of every sharding at some world sizes."""
    lines = [
        f"{'predicted':9} {'ranks':>6}  {'samples/s [95 %]':28} {'efficiency':>10} {'exposed':>8} "
        f"{'GiB a rank':>10} fits"
    ]
    for sharding in SHARDINGS:
        for row in _of(rows, sharding, WEAK):
            if row["ranks"] in SHOWN:
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
        cells = []
        for ranks in SHOWN[1:]:
            usual, less, more = (
                row["predicted_samples_per_s"]
                for some in (rows, slower, faster)
                for row in _of(some, sharding, WEAK)
                if row["ranks"] == ranks
            )
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
        for ranks in SHOWN:
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
    quantities = dict.fromkeys(row["quantity"] for row in checked)
    groups = [(one, [row for row in checked if row["quantity"] == one]) for one in quantities]
    if published:
        groups.append(("published ratios of ZeRO-1 to DDP", list(published)))
    parts = []
    for name, rows in groups:
        errors = [abs(row["error"]) for row in rows]
        mean = sum(errors) / len(errors)
        parts.append(f"{name}: mean error {mean:.1%}, largest {max(errors):.1%} of {len(errors)} points")
    return (
        "predicted against measured: " + "; ".join(parts) + "." if parts else "Nothing was measured to check."
    )


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


def _of(rows: Sequence[Row], sharding: str, scaling: str) -> list[Row]:
    return [
        row
        for row in rows
        if (row["sharding"], row["volume"], row["scaling"]) == (sharding, COUNTED, scaling)
    ]

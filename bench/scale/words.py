"""What `make scale` says: the answer, and tables for a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.analysis.scale.tables import COUNTED, WEAK, faster_world_sizes
from bench.analysis.scale.topology import Topology
from bench.config.schema import Config
from bench.results.step_parts import ModelFacts
from bench.scale.predict import SHARDINGS

Row = Mapping[str, Any]

WORLD_SIZES = (1, 8, 64, 1024)  # world sizes of the tables


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


def faster_at(rows: Sequence[Row], sharding: str, than: str) -> list[int]:
    """The world sizes at which a sharding is predicted to be faster than another in weak scaling."""
    rate, ours, base = "predicted_samples_per_s", _by_ranks(rows, sharding), _by_ranks(rows, than)
    return faster_world_sizes({ranks: ours[ranks][rate] / base[ranks][rate] for ranks in ours if ranks > 1})


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


def _short(number: float) -> str:
    """Three digits at least."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _by_ranks(rows: Sequence[Row], sharding: str) -> dict[int, Row]:
    """The rows of a sharding, with as many samples on every rank, by world size."""
    wanted = (sharding, COUNTED, WEAK)
    return {row["ranks"]: row for row in rows if (row["sharding"], row["volume"], row["scaling"]) == wanted}

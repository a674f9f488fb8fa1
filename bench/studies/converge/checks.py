"""Refuses what leaves a way to the target without a meaning, and a target without a way to it."""

from bench.config.schema import Config
from bench.errors import UserError
from bench.studies.converge.settings import Settings

OTHERS = {
    "batch": ("equal", "gives each backend a batch, and so steps, of its own"),
    "target_half_width": (None, "ends when speed is known, not when the target is reached"),
    "repeats": (0, "would train a backend for longer than the others"),
    "preheat_s": (0, "would train a fast backend for more steps than a slow one"),
    "block_warmup_s": (0, "would train a fast backend for more steps than a slow one"),
}
"""Settings of `measure`, with the value that they must have, and what any other would do."""


def check(config: Config) -> None:
    """Look at the settings of `measure`, and whether any data are held out."""
    measure = config.measure
    assert isinstance(measure, Settings)
    for key in ("target_loss", "margin_loss"):
        is_set = getattr(measure, key) is not None
        if is_set and measure.evaluate_every is None:
            raise UserError(
                f"measure.{key} has no effect without measure.evaluate_every",
                "choose measure=converge, or leave it out",
            )
        if not is_set and measure.evaluate_every is not None:
            raise UserError(
                f"measure.evaluate_every needs measure.{key}, which says what the held-out losses are judged "
                "by",
                f"set measure.{key}=…",
            )
    if measure.evaluate_every is None:
        return
    if measure.launches < 2:
        raise UserError(
            "measure.evaluate_every needs several launches, each of which is a seed, and "
            f"measure.launches={measure.launches} has no interval",
            "set measure.launches=5",
        )
    for key, (wanted, why) in OTHERS.items():
        if (value := getattr(measure, key)) != wanted:
            raise UserError(
                f"measure.{key}={value} {why}, and with measure.evaluate_every equal steps are compared",
                f"set measure.{key}={'null' if wanted is None else wanted}",
            )
    if config.data.name != "python_docs":
        raise UserError(
            "measure.evaluate_every asks for the loss on data that is never trained on, and "
            f"data={config.data.name} has none",
            "leave measure=converge out" if config.model.module else "choose data=python_docs",
        )

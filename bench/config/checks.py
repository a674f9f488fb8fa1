"""Bounds and choices of a single setting; every refusal names its dotted key.

OmegaConf checks types; msgspec could check bounds, but names neither the dotted key nor a remedy.
"""

import math

from bench.errors import UserError


def one_of(key: str, value: str, known: tuple[str, ...]) -> None:
    """Raise UserError unless `value` is one of `known`."""
    if value not in known:
        raise UserError(f"{key}={value} is not known", f"choose one of: {', '.join(known)}")


def at_least(key: str, value: float, least: float) -> None:
    """Raise UserError unless `value` >= `least`, and finite."""
    if not least <= value < math.inf:
        raise UserError(f"{key} must be at least {least}, not {value}.")


def at_most(key: str, value: float, most: float, why: str) -> None:
    """Raise UserError unless `value` <= `most`."""
    if value > most:
        raise UserError(f"{key} must be at most {most:,}, not {value:,}: {why}.")


def above_zero(key: str, value: float) -> None:
    """Raise UserError unless `value` > 0, and finite."""
    if not 0 < value < math.inf:
        raise UserError(f"{key} must be above 0, not {value}.")

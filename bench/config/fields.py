"""Bounds and choices of single settings, written where the setting is; a refusal names its dotted key.

OmegaConf checks types; msgspec could check bounds, but names neither the dotted key nor a remedy.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from bench.errors import UserError


def one_of(*choices: str, default: Any = dataclasses.MISSING, unnamed: str = "") -> Any:
    """Declare a field that takes one of these choices; a refusal does not list the `unnamed` one."""

    def check(key: str, value: str) -> None:
        if value not in choices:
            known = ", ".join(name for name in choices if name != unnamed)
            raise UserError(f"{key}={value} is not known", f"choose one of: {known}")

    return dataclasses.field(default=default, metadata={"check": check})


def at_least(
    least: float, default: Any = dataclasses.MISSING, *, most: float = math.inf, why: str = ""
) -> Any:
    """Declare a field that takes finite numbers from `least` to `most`; `why` they end there."""
    return _number(f"at least {least}", lambda value: value >= least, default, most, why)


def above_zero(default: Any = dataclasses.MISSING, *, most: float = math.inf, why: str = "") -> Any:
    """Declare a field that takes finite numbers above 0, up to `most`; `why` they end there."""
    return _number("above 0", lambda value: value > 0, default, most, why)


def below_one() -> Any:
    """Declare a field that takes numbers from 0 to below 1."""
    return _number("at least 0 and below 1", lambda value: 0 <= value < 1, dataclasses.MISSING, math.inf, "")


def _number(words: str, is_allowed: Callable[[float], bool], default: Any, most: float, why: str) -> Any:
    def check(key: str, value: float) -> None:
        if not (is_allowed(value) and value < math.inf):
            raise UserError(f"{key} must be {words}, not {value}.")
        if value > most:
            raise UserError(f"{key} must be at most {_format(most)}, not {_format(value)}: {why}.")

    return dataclasses.field(default=default, metadata={"check": check})


def _format(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def check_fields(settings: Any, prefix: str) -> None:
    """Refuse settings by what is declared here; null passes, OmegaConf knows where it may be."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if value is not None and "check" in field.metadata:
            field.metadata["check"](f"{prefix}{field.name}", value)

"""By how much each metric may become worse: conf/tolerances.yaml."""

from pathlib import Path

import yaml  # type: ignore[import-untyped]

from bench.config.choices import CONF
from bench.errors import UserError

TOLERANCES = CONF / "tolerances.yaml"

MOST, WIDE = 0.5, 0.1
"""The largest share of a metric that a file may let become worse, and from which on that is said."""

METRICS = ("throughput", "speedup", "memory")
"""What may become worse; the file has a share for each."""


def read_tolerances(path: Path) -> dict[str, float]:
    """Read a file such as conf/tolerances.yaml.

    Raises:
        UserError: it is missing, no YAML, or does not hold a share for each of `METRICS` and nothing else.
    """
    try:
        tolerances = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"{path} cannot be read as YAML ({reason}); give such a file as {TOLERANCES.name}"
        ) from None
    names = set(tolerances) if isinstance(tolerances, dict) else set()
    if names != set(METRICS):
        raise UserError(f"{path} must hold {', '.join(METRICS)}, and nothing else; see {TOLERANCES.name}")
    for name, value in tolerances.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
            raise UserError(
                f"{path}: {name} is a share from 0 to {MOST}, beyond which half could be "
                f"lost unseen, not {value}"
            )
    return {name: float(value) for name, value in tolerances.items()}

"""What a model is called in tables, on axes and in sentences: its name, and what was left out of it."""

from typing import Any

import pandas as pd

MINI = "mini"


def model_label(model: str, size: str, layers: Any, published_layers: Any) -> str:
    """Return `bert-large`, `bert-large, mini` or `bert-large, 6 of 24 layers`.

    The arguments are columns of the results; the last two are blank where the configuration does not say.
    """
    if size != MINI and not size.startswith("layers:"):  # published, or somebody's own
        return model
    if size == MINI or pd.isna(layers) or pd.isna(published_layers):
        return f"{model}, {size}"
    return f"{model}, {int(layers)} of {int(published_layers)} layers"

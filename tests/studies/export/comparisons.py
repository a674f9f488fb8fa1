"""Comparisons that export what they have trained, and what every export of them must be."""

from pathlib import Path

import pandas as pd

from bench.config.compose import compose
from bench.measure.comparison import Comparison
from bench.studies.export.table import TABLE as EXPORTS

LINE = (
    "model.size=mini",
    "device=cpu",
    "measure=parity",
    "after=export",
    "device.threads=1",
    "micro_batch=2",
)


def exported(model: str, folder: Path, *words: str) -> pd.DataFrame:
    """What became of backends' models; words with `=` are overrides, the others are backends."""
    backends = [word for word in words if "=" not in word]
    line = [*LINE, *(word for word in words if "=" in word)]
    made = compose([f"model={model}", f"backend=[{','.join(backends)}]", f"results_dir={folder}", *line])
    Comparison(made, "m-cpu").measure()
    return EXPORTS.read(EXPORTS.path_of(folder / "m-cpu.csv")).set_index("backend")


def check_trained(table: pd.DataFrame) -> None:
    """All were exported, and are equal beyond what AdamW's first steps make of rounding."""
    assert set(table["status"]) == {"ok"}, table["message"].tolist()
    assert (table["difference"] <= 1e-5 * table["output_scale"]).all()
    assert table.loc["pytorch", "difference_from_reference"] == 0
    # AdamW's first steps have the sign of the gradient: where that is all rounding, weights go apart.
    assert (table["difference_from_reference"] <= 1e-2 * table["output_scale"]).all()
    assert (table["exported_mib"] > 0).all()
    assert (table["inference_low_ms"] <= table["inference_ms"]).all()
    assert (table["inferences"] == 20).all()

"""A short run of eager PyTorch, which shows how much of a model this machine can train."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from bench.config.compose import compose
from bench.config.naming import file_stem
from bench.errors import UserError
from bench.measure.comparison import measure_comparison
from bench.measure.plan.preflight import check_and_name_device
from bench.results import csv_files
from bench.setup import stacks
from bench.sweeps.fit import ModelTrial

FOLDER = "runs/trials"
"""The folder of the trials' results, in the results folder; trials are no results."""

PEAKS = ("setup_host_peak_mib", "first_step_host_peak_mib", "host_peak_mib")
"""Columns of the peaks of every phase, for which memory has to suffice."""

SHORT = (
    "backend=[pytorch]",
    "measure.launches=1",
    "measure.rounds=2",
    "measure.block_seconds=0.1",
    "measure.warmup_steps=1",
    "measure.parity_steps=3",
    "measure.explain=false",
    "measure.resident=all",
    "resume=false",
)
"""The overrides of every trial."""


class TrialFailed(UserError):
    """A model that this machine cannot even try."""


def train_shortly(line: Sequence[str], results_dir: Path) -> tuple[ModelTrial, Path]:
    """Train eager PyTorch for a few steps; what that has shown, and the results file.

    `SHORT` comes after the overrides of `line`. The trial's folder lies in `results_dir`.

    Raises:
        TrialFailed: it did not train; with the reason.
    """
    whole = [*line, *SHORT]
    config = dataclasses.replace(compose(whole), results_dir=str(results_dir / FOLDER))
    stem = file_stem(config, check_and_name_device(config), whole, stacks.own())
    outcome = measure_comparison(config, stem, whole)
    table = csv_files.read(outcome.csv)
    timed = table[table["round"].notna()]  # invalid blocks, too: others on the cores only make it longer
    if timed.empty:
        failed = table.iloc[-1]
        raise TrialFailed(f"the trial ended as {failed['status']}: {failed['message']}")
    row = timed.iloc[-1]
    trial = ModelTrial(
        layers=None if timed["layers"].isna().all() else int(row["layers"]),
        parameters=int(row["parameters"]),
        trainable=int(row["trainable_parameters"]),
        seconds=float((timed["seconds"] / timed["steps"]).median()),
        peak_bytes=float(timed[list(PEAKS)].max(axis=None)) * 2**20,
        runtime_bytes=float(row["host_runtime_mib"]) * 2**20,
        flops=None if timed["model_flops_per_step"].isna().all() else float(row["model_flops_per_step"]),
        layers_share=None if timed["layers_flops_share"].isna().all() else float(row["layers_flops_share"]),
    )
    return trial, outcome.csv

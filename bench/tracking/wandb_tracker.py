"""Weights & Biases: one run for each comparison, offline unless asked otherwise."""

import re
from pathlib import Path

import wandb

from bench.config.track import Wandb
from bench.tracking.content import TrackedComparison


def log(comparison: TrackedComparison, settings: Wandb, folder: Path) -> str:
    """Log one comparison; where it went, in words. Raises what W&B raises."""
    run = wandb.init(
        project=settings.project,
        entity=settings.entity,
        mode=settings.mode,
        dir=folder,
        name=comparison.name,
        group=comparison.model,
        job_type="comparison",
        config={
            **comparison.settings,
            "backends": {backend.name: dict(backend.settings) for backend in comparison.backends},
        },
        settings=wandb.Settings(
            silent=True,
            console="off",
            disable_code=True,
            disable_git=True,
            x_disable_machine_info=True,  # this machine's now; the settings say on which it was measured
            x_disable_stats=True,
        ),
    )
    with run:  # which a failure marks as failed
        rounds = max((len(backend.samples_per_s_by_round) for backend in comparison.backends), default=0)
        for number in range(rounds):
            run.log(
                {
                    f"{backend.name}/samples_per_s_by_round": backend.samples_per_s_by_round[number]
                    for backend in comparison.backends
                    if number < len(backend.samples_per_s_by_round)
                },
                step=number + 1,
            )
        for backend in comparison.backends:
            for name, value in {**backend.figures, **backend.words}.items():
                run.summary[f"{backend.name}/{name}"] = value
        artifact = wandb.Artifact(re.sub(r"[^\w.\-]", "-", comparison.name)[:120], type="results")
        for file in comparison.files:
            artifact.add_file(str(file))
        run.log_artifact(artifact)
        run.finish(exit_code=0 if comparison.passed else 1)
    return run.url or f"an offline run in {Path(run.settings.sync_dir)}"

"""What each tracker's own client is told of a comparison: `log_to_TRACKER`, which says where the run went."""

import os
import re
from pathlib import Path

from bench.config.track import Mlflow, Wandb
from bench.plugins.tracking.content import TrackedComparison

# The clients send nothing unasked.
os.environ.update({"MLFLOW_DISABLE_TELEMETRY": "true", "WANDB_ERROR_REPORTING": "false", "DO_NOT_TRACK": "1"})


def log_to_mlflow(comparison: TrackedComparison, settings: Mlflow, folder: Path) -> str:
    """Log one run into a SQLite file or to a server; where it went, in words."""
    import mlflow

    database = folder.absolute() / "mlflow.db"
    mlflow.set_tracking_uri(settings.uri or f"sqlite:///{database}")
    if mlflow.get_experiment_by_name(settings.experiment) is None:
        artifacts = None if settings.uri else (folder.absolute() / "mlflow-artifacts").as_uri()
        mlflow.create_experiment(settings.experiment, artifact_location=artifacts)
    mlflow.set_experiment(settings.experiment)
    with mlflow.start_run(run_name=comparison.name) as run:  # which an exception marks as failed
        mlflow.log_params(dict(comparison.settings))
        mlflow.log_metrics(dict(comparison.figures))
        mlflow.set_tags(dict(comparison.words))
        for file in comparison.files:
            mlflow.log_artifact(str(file))
        mlflow.end_run("FINISHED" if comparison.passed else "FAILED")
    return f"run {run.info.run_id} of experiment {settings.experiment} in {settings.uri or database}"


def log_to_wandb(comparison: TrackedComparison, settings: Wandb, folder: Path) -> str:
    """Log one run, offline unless asked otherwise; where it went, in words."""
    import wandb

    # Nothing is logged of this machine as it is now: the settings say on which it was measured.
    quiet = wandb.Settings(silent=True, console="off", disable_git=True, x_disable_machine_info=True)
    target = vars(settings) | {"name": comparison.name, "config": dict(comparison.settings)}
    run = wandb.init(**target, dir=folder, settings=quiet)
    with run:  # which an exception marks as failed
        run.summary.update({**comparison.figures, **comparison.words})
        artifact = wandb.Artifact(re.sub(r"[^\w.\-]", "-", comparison.name)[:120], type="results")
        for file in comparison.files:
            artifact.add_file(str(file))
        run.log_artifact(artifact)
        run.finish(exit_code=0 if comparison.passed else 1)
    return run.url or f"an offline run in {run.settings.sync_dir}"

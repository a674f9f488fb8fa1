"""MLflow: one run for each comparison, in a SQLite file or on a server."""

import re
from pathlib import Path
from typing import Any

from mlflow.entities import Metric, Param, RunTag
from mlflow.tracking import MlflowClient

from bench.config.track import Mlflow
from bench.tracking.content import TrackedBackend, TrackedComparison

PER_CALL = 100  # parameters, or tags, that a server takes in one call; of figures it takes more

LONGEST_VALUE = 5000
"""Characters of a parameter or a tag. A server takes 6000 and 8000."""


def log(comparison: TrackedComparison, settings: Mlflow, folder: Path) -> str:
    """Log one comparison; where it went, in words. Raises what MLflow raises."""
    database = folder.absolute() / "mlflow.db"
    uri = settings.uri or f"sqlite:///{database}"
    client = MlflowClient(tracking_uri=uri)
    if known := client.get_experiment_by_name(settings.experiment):
        experiment = known.experiment_id
    else:
        artifacts = None if settings.uri else (folder.absolute() / "mlflow-artifacts").as_uri()
        experiment = client.create_experiment(settings.experiment, artifact_location=artifacts)
    started = int(1000 * comparison.started_s)
    run = client.create_run(experiment, start_time=started, run_name=comparison.name).info.run_id
    try:
        for kind, entries in _entries(comparison, started).items():
            for first in range(0, len(entries), PER_CALL):
                client.log_batch(run, **{kind: entries[first : first + PER_CALL]})
        for file in comparison.files:
            client.log_artifact(run, str(file))
    except BaseException:
        client.set_terminated(run, "KILLED")
        raise
    client.set_terminated(run, "FINISHED" if comparison.passed else "FAILED")
    return f"run {run} of experiment {settings.experiment} in {settings.uri or database}"


def _entries(comparison: TrackedComparison, milliseconds: int) -> dict[str, list[Any]]:
    """Parameters, tags and metrics, under the names of `log_batch`."""
    params = [Param(_allowed(name), value[:LONGEST_VALUE]) for name, value in comparison.settings.items()]
    tags, metrics = [], []
    for backend in comparison.backends:
        for name, value in backend.settings.items():
            params.append(Param(_name(backend, name), value[:LONGEST_VALUE]))
        for name, value in backend.words.items():
            tags.append(RunTag(_name(backend, name), value[:LONGEST_VALUE]))
        for name, number in backend.figures.items():
            metrics.append(Metric(_name(backend, name), number, milliseconds, 0))
        name = _name(backend, "samples_per_s_by_round")
        for step, number in enumerate(backend.samples_per_s_by_round, start=1):
            metrics.append(Metric(name, number, milliseconds, step))
    return {"params": params, "tags": tags, "metrics": metrics}


def _name(backend: TrackedBackend, entry: str) -> str:
    return f"{_allowed(backend.name)}/{entry}"


def _allowed(name: str) -> str:
    """The name as MLflow takes it: `pytorch@modern` becomes `pytorch:modern`."""
    return re.sub(r"[^\w.\- :/]", " ", name.replace("@", ":"))

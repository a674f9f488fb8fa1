"""MLflow: one run for each comparison, in a SQLite file or on a server."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

from mlflow.entities import Metric, Param, RunTag
from mlflow.tracking import MlflowClient

from bench.config.track import Mlflow
from bench.tracking.content import TrackedBackend, TrackedComparison

PER_CALL = 100
"""Parameters, or tags, that a server takes in one call; of figures it takes more."""

LONGEST_VALUE = 5000
"""Characters of a parameter or a tag. A server takes 6000 and 8000."""

T = TypeVar("T")


def log(comparison: TrackedComparison, settings: Mlflow, folder: Path) -> str:
    """Log one comparison; where it went, in words. Raises what MLflow raises."""
    database = folder.absolute() / "mlflow.db"
    uri = settings.uri or f"sqlite:///{database}"
    client = MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(settings.experiment)
    if found is not None:
        experiment = found.experiment_id
    else:
        artifacts = None if settings.uri else (folder.absolute() / "mlflow-artifacts").as_uri()
        experiment = client.create_experiment(settings.experiment, artifact_location=artifacts)
    started = int(1000 * comparison.started_s)
    run = client.create_run(experiment, start_time=started, run_name=comparison.name).info.run_id
    try:
        for params in _parts(_params(comparison)):
            client.log_batch(run, params=params)
        for tags in _parts(_tags(comparison)):
            client.log_batch(run, tags=tags)
        for metrics in _parts(_metrics(comparison, started)):
            client.log_batch(run, metrics=metrics)
        for file in comparison.files:
            client.log_artifact(run, str(file))
    except BaseException:
        client.set_terminated(run, "KILLED")
        raise
    client.set_terminated(run, "FINISHED" if comparison.passed else "FAILED")
    return f"run {run} of experiment {settings.experiment} in {settings.uri or database}"


def _params(comparison: TrackedComparison) -> Iterator[Param]:
    for name, value in comparison.settings.items():
        yield Param(_allowed(name), value[:LONGEST_VALUE])
    for backend in comparison.backends:
        for name, value in backend.settings.items():
            yield Param(_name(backend, name), value[:LONGEST_VALUE])


def _tags(comparison: TrackedComparison) -> Iterator[RunTag]:
    for backend in comparison.backends:
        for name, value in backend.words.items():
            yield RunTag(_name(backend, name), value[:LONGEST_VALUE])


def _metrics(comparison: TrackedComparison, milliseconds: int) -> Iterator[Metric]:
    for backend in comparison.backends:
        for name, value in backend.figures.items():
            yield Metric(_name(backend, name), value, milliseconds, 0)
        name = _name(backend, "samples_per_s_by_round")
        for number, value in enumerate(backend.samples_per_s_by_round, start=1):
            yield Metric(name, value, milliseconds, number)


def _name(backend: TrackedBackend, what: str) -> str:
    return f"{_allowed(backend.name)}/{what}"


def _allowed(name: str) -> str:
    """The name as MLflow takes it: `pytorch@modern` becomes `pytorch:modern`."""
    return re.sub(r"[^\w.\- :/]", " ", name.replace("@", ":"))


def _parts(things: Iterator[T]) -> Iterator[Sequence[T]]:
    while part := list(islice(things, PER_CALL)):
        yield part

"""TensorBoard: one run for each backend, written by TensorBoard's own package without torch."""

import re
import shutil
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.hparams import metadata as hparams
from tensorboard.plugins.hparams.api_pb2 import STATUS_FAILURE, STATUS_SUCCESS
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
from tensorboard.plugins.text.metadata import create_summary_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from bench.config.track import Tensorboard
from bench.errors import PASSED
from bench.tracking.content import TrackedBackend, TrackedComparison


def log(comparison: TrackedComparison, settings: Tensorboard, folder: Path) -> str:
    """Log one comparison; where it went, in words.

    A time stands between the comparison's name and the backend's, so that a later run is drawn beside it.
    """
    when = re.sub(r"\W", "", comparison.started_at) or "unknown"
    runs = folder / settings.subfolder / comparison.name / when
    shutil.rmtree(runs, ignore_errors=True)  # the same comparison, logged again
    for backend in comparison.backends:
        name = re.sub(r"[^\w@+.-]|^\.+", "_", backend.name)  # which cannot leave the folder
        _write(comparison, backend, runs / name)
    for file in comparison.files:  # event files hold no other files
        shutil.copy(file, runs)
    return str(runs)


def _write(comparison: TrackedComparison, backend: TrackedBackend, folder: Path) -> None:
    writer = EventFileWriter(str(folder))
    hyperparameters = {**comparison.settings, **backend.settings, "backend": backend.name}
    status = backend.words.get("status", "")
    started = comparison.started_s

    def add(summary: Summary, step: int = 0) -> None:
        writer.add_event(Event(wall_time=started, step=step, summary=summary))

    session = SessionStartInfo(group_name=f"{comparison.name} {backend.name}", start_time_secs=started)
    for name, text in hyperparameters.items():
        session.hparams[name].string_value = text
    add(_hparams(hparams.SESSION_START_INFO_TAG, HParamsPluginData(session_start_info=session)))
    for name, value in backend.figures.items():
        add(_scalar(name, value))
    for number, value in enumerate(backend.samples_per_s_by_round, start=1):
        add(_scalar("samples_per_s_by_round", value), step=number)
    for name, text in {**backend.words, "page": comparison.page}.items():
        add(_text(name, text))
    end = SessionEndInfo(status=STATUS_SUCCESS if status in PASSED else STATUS_FAILURE, end_time_secs=started)
    add(_hparams(hparams.SESSION_END_INFO_TAG, HParamsPluginData(session_end_info=end)))
    writer.close()


def _scalar(name: str, value: float) -> Summary:
    return Summary(value=[Summary.Value(tag=name, simple_value=value)])


def _hparams(tag: str, data: HParamsPluginData) -> Summary:
    """For the table of settings and figures. TensorBoard's own functions for it need TensorFlow."""
    metadata = hparams.create_summary_metadata(data)
    return Summary(value=[Summary.Value(tag=tag, metadata=metadata, tensor=hparams.NULL_TENSOR)])


def _text(name: str, text: str) -> Summary:
    """Markdown, which TensorBoard renders."""
    tensor = TensorProto(
        dtype=DT_STRING,
        string_val=[text.encode()],
        tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
    )
    metadata = create_summary_metadata(display_name=name, description="")
    return Summary(value=[Summary.Value(tag=name, metadata=metadata, tensor=tensor)])

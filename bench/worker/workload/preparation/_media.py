"""Files of images or sounds, which are opened when they are asked for."""

import io
from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.errors import UserError
from bench.worker.workload.preparation import TaskPreparation
from bench.worker.workload.preparation._source import first_words


class MediaPreparation(TaskPreparation):
    """Samples that are files of a column, opened and converted on the fly and not by `datasets`."""

    column: str  # the task's name of it
    kind: str  # what a file holds, for messages: an image, sound
    feature: Any  # of `datasets`, of the column
    dataset: Any

    def keep(self, dataset: Any) -> None:
        """Keep a dataset whose files `datasets` leaves as they are."""
        self.dataset = dataset.cast_column(self.column, self.feature(decode=False))

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, entries: list[dict[str, Any]]) -> npt.NDArray[np.float32]:
        """What the model takes of files, in the form of `datasets`; `UserError` if one cannot be read."""
        read = []
        for entry in entries:
            try:
                content = entry["bytes"]
                opened = self.open(io.BytesIO(content) if content is not None else entry["path"])
            except Exception as error:
                name = (entry or {}).get("path") or "a file"
                raise UserError(
                    f"{name} of data.path={self.data.path} cannot be read as {self.kind} "
                    f"({first_words(error)})",
                    "replace it or take it away",
                ) from error
            read.append(self.convert(opened))
        return np.stack(read).astype(np.float32, copy=False)

    @abstractmethod
    def open(self, file: Any) -> Any:
        """What a path or an open file holds; any error is the file's."""

    @abstractmethod
    def convert(self, opened: Any) -> npt.NDArray[Any]:
        """What the model takes of it."""

"""Image or sound files, which are opened when they are used."""

import io
from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.errors import UserError
from bench.plugins.hf.preparation import TaskPreparation
from bench.plugins.hf.preparation._source import first_words


class MediaPreparation(TaskPreparation):
    """Samples that are files of a column, opened and converted on the fly and not by `datasets`."""

    column: str  # the task's name of it
    kind: str  # what a file holds, for messages: an image, sound
    kinds: str  # what all files hold
    feature: Any  # of `datasets`, of the column
    dataset: Any
    first: tuple[str, str] | None = None  # the shape that the processor made of the first file, and its name

    def keep(self, dataset: Any) -> None:
        """Keep a dataset whose files `datasets` leaves as they are; `UserError` if the column holds none."""
        try:
            self.dataset = dataset.cast_column(self.column, self.feature(decode=False))
        except Exception as error:
            raise UserError(
                f"{self.where(self.column)} holds no {self.kinds} ({first_words(error)}); "
                f"set ++data.columns={{{self.column}: …}}."
            ) from error

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
                raise UserError(
                    f"{self.name_of(entry)} cannot be read as {self.kind} ({first_words(error)})",
                    "replace it or take it away",
                ) from error
            read.append(self.convert(opened, entry))
            shape = " x ".join(map(str, read[-1].shape))
            self.first = self.first or (shape, self.name_of(entry))
            if shape != self.first[0]:
                raise UserError(
                    f"data.processor={self.data.processor} makes {shape} of {self.name_of(entry)}, and "
                    f"{self.first[0]} of {self.first[1]}",
                    "let it make one size of all, such as by do_resize with a height and a width, or by "
                    "do_center_crop",
                )
        return np.stack(read).astype(np.float32, copy=False)

    def name_of(self, entry: dict[str, Any]) -> str:
        """For messages: the file, and which dataset it is of."""
        name = (entry or {}).get("path") or f"one of the {self.kinds}"
        return f"{name} of data.path={self.data.path}"

    @abstractmethod
    def open(self, file: Any) -> Any:
        """The content of a path or an open file; any error is reported as the file's."""

    @abstractmethod
    def convert(self, opened: Any, entry: dict[str, Any]) -> npt.NDArray[Any]:
        """What the model takes of it; `UserError` if the processor makes something else."""

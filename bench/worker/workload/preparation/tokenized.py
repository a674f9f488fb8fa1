"""Text that is tokenized once, beforehand, and kept in the cache of Hugging Face's `datasets`."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from datasets.fingerprint import Hasher

from bench.errors import UserError
from bench.worker.workload.preparation.faults import raise_fault
from bench.worker.workload.preparation.source import first_words
from bench.worker.workload.tasks import Arrays

HERE = Path(__file__).parent


class RowError(UserError):
    """A row is not as it must be: the one at `place`, counted from 0, has the `fault`."""

    def __init__(self, place: int, where: str, fault: str, remedy: str) -> None:
        super().__init__(f"{where}, and row {place + 1} has {fault}", remedy)
        self.place, self.where, self.fault = place, where, fault


class Tokenized:
    """Samples in a file that all ranks of a node read through the same pages of memory."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset.with_format("numpy")

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, numbers: list[int]) -> list[Arrays]:
        columns = self.dataset[numbers]
        return [
            {name: np.asarray(column[place], dtype=np.int64) for name, column in columns.items()}
            for place in range(len(numbers))
        ]


def tokenized(dataset: Any, function: Callable[[dict[str, list[Any]]], Any], context: Any) -> Tokenized:
    """Apply `function` to batches of rows, or find what an earlier process has made of the same.

    Args:
        dataset: with the task's columns.
        function: from columns to columns of integers, which replace them; rows may become more or fewer.
        context: a `bench.worker.workload.preparation.Context`.

    Raises:
        UserError: the text cannot be tokenized.
    """
    key = _key(dataset, function, context)
    folder = Path(datasets.config.HF_DATASETS_CACHE) / "bench"
    folder.mkdir(parents=True, exist_ok=True)

    def numbered(rows: dict[str, list[Any]], numbers: list[int]) -> Any:
        try:
            return function(rows)
        except RowError as error:
            raise RowError(numbers[error.place], error.where, error.fault, error.remedy) from None

    try:
        made = dataset.map(
            numbered,
            batched=True,
            with_indices=True,
            remove_columns=dataset.column_names,
            cache_file_name=str(folder / f"{key}.arrow"),
            load_from_cache_file=True,  # whatever the user's settings: the ranks would all do it again
            new_fingerprint=key,
        )
    except UserError:
        raise
    except (TypeError, ValueError) as error:
        if (path := Path(context.data.path)).exists():
            raise_fault(path)
        raise UserError(
            f"data.path={context.data.path} cannot be tokenized as it is: {first_words(error)}; "
            "look at the columns' contents, which data.columns chooses."
        ) from error
    return Tokenized(made)


def _key(dataset: Any, function: Callable[..., Any], context: Any) -> str:
    """Equal for equal samples: the rows, the tokenizer, the task, the length, and how this code does it."""
    code = sha256()
    for path in sorted(HERE.glob("*.py")):
        code.update(path.read_bytes())
    parts = (
        dataset._fingerprint,
        dataset.column_names,
        context.processor,
        context.seq_len,
        getattr(context.settings, "num_labels", None),
        f"{function.__module__}.{function.__qualname__}",
        datasets.__version__,
        code.hexdigest(),
    )
    return str(Hasher.hash(parts))


def text(rows: Sequence[Any], column: str, context: Any, *, may_be_empty: bool = False) -> list[str]:
    """A column of texts. What is missing, as an empty cell of a CSV file, is an empty text.

    Raises:
        RowError: one is none, or empty where it is a sample.
    """
    for place, row in enumerate(rows):
        if not row and isinstance(row, str | None):
            if may_be_empty:
                continue
            fault = "none"
        elif isinstance(row, str):
            continue
        else:
            fault = f"{row!r:.40}"
        remedy = f"leave such rows out, or set ++data.columns={{{column}: …}}"
        raise RowError(place, f"{context.where(column)} must hold text", fault, remedy)
    return [row or "" for row in rows]

"""Text that is tokenized once, beforehand, and kept in the cache of Hugging Face's `datasets`."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from datasets.fingerprint import Hasher

from bench.errors import UserError
from bench.worker.workload.preparation.source import first_words
from bench.worker.workload.tasks import Arrays

HERE = Path(__file__).parent


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
    try:
        made = dataset.map(
            function,
            batched=True,
            remove_columns=dataset.column_names,
            cache_file_name=str(folder / f"{key}.arrow"),
            load_from_cache_file=True,  # whatever the user's settings: the ranks would all do it again
            new_fingerprint=key,
        )
    except UserError:
        raise
    except (TypeError, ValueError) as error:
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


def text(rows: Sequence[Any], column: str, context: Any) -> list[str]:
    """A column of texts.

    Raises:
        UserError: one is none.
    """
    for row in rows:
        if not isinstance(row, str):
            raise UserError(
                f"{context.where(column)} must hold text, not {row!r:.40}; leave such rows out, "
                f"or set ++data.columns={{{column}: …}}."
            )
    return list(rows)

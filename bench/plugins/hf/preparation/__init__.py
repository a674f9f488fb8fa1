"""Prepares the samples of real datasets, without torch, as training scripts do; one module for each task."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import datasets
import numpy as np
import transformers
from datasets.fingerprint import Hasher

from bench.config.content import key_of
from bench.config.data import Data
from bench.config.model import Model
from bench.errors import UserError
from bench.plugins.hf.preparation import _source
from bench.plugins.hf.preparation._source import first_words
from bench.worker.workload.tasks import Arrays

PROCESSORS = {
    "AutoTokenizer": "a tokenizer",
    "AutoImageProcessor": "an image processor",
    "AutoProcessor": "a speech processor",
}
"""The transformers class that loads a processor, and what that is."""


class Samples(Protocol):
    """Samples by their numbers, along the first axis: prepared beforehand, or when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, numbers: list[int]) -> Arrays: ...


class TaskPreparation(ABC):
    """How a task's samples of `seq_len` positions, and its micro-batches, are made of a dataset's rows."""

    columns: tuple[str, ...]  # the columns that a task needs; `data.columns` gives them the dataset's names
    optional: tuple[str, ...] = ()  # columns that are used only where `data.columns` names them
    processor_class: str = "AutoTokenizer"  # the class that loads the processor, one of `PROCESSORS`

    samples: Samples
    rows_key: str  # of the files that the rows are made of; empty if they are of the hub

    def __init__(self, data: Data, model: str, *, settings: Any, seq_len: int | None) -> None:
        self.data = data
        self.model = model
        self.settings = settings
        self.seq_len = seq_len
        kind = PROCESSORS[self.processor_class]
        if (place := data.processor) is None:
            raise UserError(
                f"data=hf needs {kind}; set data.processor=… to a folder or the id of a model on the hub."
            )
        there = "is a folder, but" if Path(place).exists() else "is no folder here, and as a hub id"
        try:
            loader = getattr(transformers, self.processor_class)
            self.processor = loader.from_pretrained(place, trust_remote_code=False)
        except Exception as error:
            raise UserError(
                f"data.processor={place} {there} {kind} cannot be loaded from it: {first_words(error)}; "
                "give the folder or hub id of one that was saved with save_pretrained."
            ) from error

    @abstractmethod
    def prepare(self, dataset: Any) -> Samples:
        """The samples of a dataset whose columns have the task's names; `UserError` if it does not fit."""

    def batch(self, numbers: Sequence[int], random: np.random.Generator) -> Arrays:
        """The micro-batch of these samples; `random` decides what is new in every epoch."""
        # What `datasets` hands out may be read-only, and torch must not share that.
        samples = self.samples[list(numbers)]
        writeable = {name: np.require(values, requirements="W") for name, values in samples.items()}
        return self.finish(writeable, random)

    def extremes(self) -> list[int]:
        """Samples with the highest id of every column, and the most tokens; of files first and last."""
        if not isinstance(self.samples, datasets.Dataset):
            return sorted({0, len(self.samples) - 1})
        table, found = self.samples.data, set()
        for name in table.column_names:
            highest, start = (-1, 0), 0
            for chunk in table.column(name).chunks:
                values = chunk.flatten() if hasattr(chunk, "flatten") else chunk
                rows = values.to_numpy(zero_copy_only=False).reshape(len(chunk), -1)
                figures = rows.sum(axis=1) if name == "attention_mask" else rows.max(axis=1)
                highest = max(highest, (figures.max(), start + int(figures.argmax())), key=lambda one: one[0])
                start += len(chunk)
            found.add(highest[1])
        return sorted(found)

    def finish(self, batch: Arrays, random: np.random.Generator) -> Arrays:  # noqa: ARG002
        """What the model takes of the samples' arrays: by default all of it."""
        return batch

    def where(self, column: str) -> str:
        """For messages: the dataset's own name of a task's column."""
        return f"column {self.data.columns.get(column, column)} of data.path={self.data.path}"

    @property
    def padded(self) -> dict[str, Any]:
        """What makes a tokenizer cut off or pad every text to `seq_len`."""
        return {"padding": "max_length", "truncation": True, "max_length": self.seq_len}

    def check_tokenizer(self, tokenizer: Any, *, fast: bool = False, pads: bool = True) -> Any:
        """The tokenizer; refused if it does not fit model, length or task, which may need a `fast` one."""
        assert self.seq_len is not None, "bench.config.schema sees to it"
        where, settings = self.data.processor, self.settings
        words, rows = len(tokenizer), getattr(settings, "vocab_size", None)
        if rows is not None and words > rows:
            raise UserError(
                f"data.processor={where} knows {words:,} tokens, but model.name={self.model} embeds "
                f"{rows:,}; choose the model's own tokenizer, or set ++model.config.vocab_size={words}."
            )
        if self.seq_len > (limit := tokenizer.model_max_length):
            longer = f"{limit} tokens that data.processor={where} allows (its model_max_length)"
            raise UserError(f"seq_len={self.seq_len} is longer than the {longer}", "choose a shorter one")
        if fast and not tokenizer.is_fast:
            raise UserError(
                f"data.processor={where} is a slow tokenizer, which cannot tell where a token came from; "
                "give one with a tokenizer.json."
            )
        if pads and tokenizer.pad_token is None:
            if tokenizer.eos_token is None:
                raise UserError(
                    f"data.processor={where} has neither a padding nor an end-of-text token; "
                    "save it with a pad_token."
                )
            tokenizer.pad_token = tokenizer.eos_token  # as training scripts do for GPT-2
        tokenizer.padding_side = "right"  # where every synthetic batch has it
        return tokenizer

    def text(self, rows: Sequence[Any], column: str, *, may_be_empty: bool = False) -> list[str]:
        """A column of texts. What is missing is an empty text, or refused where a sample needs one."""
        for row in rows:
            if not isinstance(row, str | None) or not (row or may_be_empty):
                raise UserError(
                    f"{self.where(column)} must hold text, and a row has {repr(row) if row else 'none':.40}",
                    f"leave such rows out, or set ++data.columns={{{column}: …}}",
                )
        return [row or "" for row in rows]

    def tokenize(self, dataset: Any, function: Callable[[dict[str, list[Any]]], Any]) -> Samples:
        """Apply `function` to batches of rows, or find what an earlier process has made of the same."""
        key = self._key(dataset, function)
        folder = _source.check_cache() / "bench"
        folder.mkdir(exist_ok=True)
        try:
            made = dataset.map(
                function,
                batched=True,
                remove_columns=dataset.column_names,
                cache_file_name=str(folder / f"{key}.arrow"),
                load_from_cache_file=True,  # despite the user's settings: otherwise all ranks would repeat it
                new_fingerprint=key,
            )
        except OSError as error:
            raise _source.cannot_write(folder, error) from error
        except (TypeError, ValueError) as error:
            raise UserError(
                f"data.path={self.data.path} cannot be tokenized as it is: {first_words(error)}; "
                "check the contents of the columns that data.columns chooses."
            ) from error
        # A file that all ranks of a node read through the same pages of memory.
        tokenized: Samples = made.with_format("numpy", dtype=np.int64)
        return tokenized

    def _key(self, dataset: Any, function: Callable[..., Any]) -> str:
        """Equal for equal samples: of the files, the tokenizer, the task, the length, and this code."""
        code = sha256()
        for path in sorted(Path(__file__).parent.glob("*.py")):
            code.update(path.read_bytes())
        parts = (
            self.rows_key or dataset._fingerprint,
            (self.data.subset, self.data.split, sorted(self.data.columns.items())),
            (self.processor, key_of(self.data.processor)),  # a slow tokenizer names its own file
            self.seq_len,
            getattr(self.settings, "num_labels", None),
            f"{function.__module__}.{function.__qualname__}",
            datasets.__version__,
            code.hexdigest(),
        )
        return str(Hasher.hash(parts))


def prepare(
    data: Data, model: Model, *, settings: Any, seq_len: int | None, global_batch: int
) -> TaskPreparation:
    """Load the dataset and the processor that `data` names, and make the samples of `model.task`.

    What is tokenized beforehand is kept in the cache of Hugging Face's `datasets`, so that the ranks of all
    launches find what `bench.worker.workload.inspections` has made. A `UserError` says what is missing,
    damaged, or does not fit, also if there are fewer samples than the `global_batch` of an optimizer step.
    """
    module = import_module(f"bench.plugins.hf.preparation.{model.task.replace('-', '_')}")
    made: TaskPreparation = module.Preparation(data, model.name, settings=settings, seq_len=seq_len)
    made.rows_key = key_of(data.path)
    loaded = _source.load(data, made.rows_key)
    dataset = _source.named(loaded, data, model.task, made.columns, made.optional)
    if len(dataset):  # libraries have all kinds of errors for a dataset without rows
        made.samples = made.prepare(dataset)
    count = len(made.samples) if len(dataset) else 0
    if count < global_batch:
        raise UserError(
            f"data.path={data.path} holds {count:,} samples in data.split={data.split}, fewer than "
            f"the {global_batch:,} of one step; choose a smaller micro_batch or a larger dataset."
        )
    return made

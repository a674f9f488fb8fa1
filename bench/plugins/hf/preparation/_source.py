"""Where a dataset comes from: a local folder or file, what `save_to_disk` left, or the Hugging Face hub."""

import inspect
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import EDQUOT, ENOSPC
from pathlib import Path
from typing import Any

import datasets

from bench.config.data import Data
from bench.errors import UserError, did_you_mean

LONGEST_REASON = 200  # characters of another library's message within our sentence
BUILDERS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet", ".txt": "text"}
"""What reads a single file of this ending, `.gz` after it or not; of a folder, `datasets` finds out."""

NO_ROWS = "corresponds to no data"  # in the words of `datasets` about files that can be read and hold nothing


def builder_of(path: Path) -> str | None:
    """The name of what reads this file; None if nothing does."""
    return BUILDERS.get(Path(path.name.lower().removesuffix(".gz")).suffix)


def load(data: Data, key: str) -> Any:
    """The split of the dataset, a `datasets.Dataset`, cached by its `key`; none of its own code is run."""
    assert data.path is not None, "bench.config.schema sees to it"
    path = Path(data.path)
    datasets.disable_progress_bars()
    check_cache()
    with _naming(data):
        if (path / "state.json").exists() or (path / "dataset_dict.json").exists():
            loaded = datasets.load_from_disk(data.path)
            if not isinstance(loaded, datasets.DatasetDict):
                return loaded
            if data.split not in loaded:
                raise _not_there("split", data.split, data, loaded)
            return loaded[data.split]
        options: dict[str, Any] = {"split": data.split}
        if key:  # else `datasets` goes by path and time, or of archives by their path alone
            options["cache_dir"] = str(Path(datasets.config.HF_DATASETS_CACHE, "bench", key))
        if "trust_remote_code" in inspect.signature(datasets.load_dataset).parameters:
            options["trust_remote_code"] = False  # later versions never run any
        if path.is_file():
            if (builder := builder_of(path)) is None:
                raise UserError(
                    f"data.path={data.path} is a file of an unknown kind; give one that ends in "
                    f"{', '.join(BUILDERS)}, with .gz behind or without, or a folder."
                )
            return datasets.load_dataset(builder, data_files=data.path, **options)
        _check_kinds(path)
        return datasets.load_dataset(data.path, name=data.subset, **options)


def check_cache() -> Path:
    """The folder of `datasets`' cache; `UserError` if it cannot be written to."""
    folder = Path(datasets.config.HF_DATASETS_CACHE)
    for cache in (folder, Path(getattr(datasets.config, "HF_MODULES_CACHE", folder))):
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=cache):
                pass
        except OSError as error:
            raise cannot_write(cache, error) from error
    return folder


def cannot_write(cache: Path, error: OSError) -> UserError:
    """The error for a cache that cannot be written to, which is no fault of the data."""
    reason = (error.strerror or str(error)).lower()
    return UserError(
        f"{cache}, where Hugging Face's libraries keep what they prepare, cannot be written to ({reason})",
        "set HF_HOME to a folder that can be, or make room",
    )


def named(dataset: Any, data: Data, task: str, columns: tuple[str, ...], optional: tuple[str, ...]) -> Any:
    """The dataset with the task's columns only, under the task's names.

    A name with a dot is inside a column, as in `++data.columns={source: translation.de}`.
    """
    known = (*columns, *optional)
    if strange := [name for name in data.columns if name not in known]:
        raise UserError(
            f"data.columns.{strange[0]} is not a column of model.task={task}; "
            f"choose one of: {', '.join(known)}."
        )
    wanted = [name for name in known if name in columns or name in data.columns]
    theirs = {name: data.columns.get(name, name) for name in wanted}
    if any("." in name and name not in dataset.column_names for name in theirs.values()):
        dataset = dataset.flatten()
    there = dataset.column_names
    for name, their in theirs.items():
        if their not in there:
            raise UserError(
                f"data.path={data.path} has no column {their} for model.task={task}, only "
                f"{', '.join(map(str, there))}; set ++data.columns={{{name}: …}} to the one that holds it."
            )
    if len(set(theirs.values())) < len(theirs):
        raise UserError(f"data.columns={data.columns} uses a column twice; give each name a different one.")
    dataset = dataset.select_columns(list(theirs.values()))
    # By way of names that cannot collide: {text: label, label: text} swaps two.
    dataset = dataset.rename_columns({their: f"bench {name}" for name, their in theirs.items()})
    return dataset.rename_columns({f"bench {name}": name for name in theirs})


def _check_kinds(folder: Path) -> None:
    """Refuse a folder of files of several kinds: `datasets` would read one kind and leave the others out."""
    if (folder / "README.md").exists():  # may say which file is what
        return
    files = [file for file in folder.rglob("*") if not file.name.startswith(("dataset_info", "metadata."))]
    kinds = {builder_of(file) for file in files if file.is_file()} - {None, "text"}
    if len(kinds) > 1:
        raise UserError(
            f"data.path={folder} holds {' and '.join(sorted(map(str, kinds)))} files, of which only one kind "
            "would be read; give a folder of one kind, or a single file."
        )


@contextmanager
def _naming(data: Data) -> Iterator[None]:
    """Turn any error of reading a dataset into a `UserError` that names the dataset."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        assert data.path is not None
        path = Path(data.path)
        kind = "is a file that" if path.is_file() else "is a folder that"
        if not path.exists():
            kind = "is no folder here, and as a hub id"
        cause = error.__cause__ or error
        if isinstance(cause, OSError) and cause.errno in (ENOSPC, EDQUOT):
            raise cannot_write(Path(datasets.config.HF_DATASETS_CACHE), cause) from error
        for key, pattern in _NOT_THERE.items():
            if match := re.search(pattern, str(cause)):
                raise _not_there(key, match[1], data, re.findall(r"'([^']+)'", match[2])) from error
        if NO_ROWS in str(cause):
            raise UserError(
                f"data.path={data.path} (data.split={data.split}) holds no rows; give a dataset with some."
            ) from error
        if "'torchcodec'" in str(cause):
            raise UserError(
                f"data.path={data.path} (data.split={data.split}) holds sounds, which datasets "
                f"{datasets.__version__} takes with torchcodec alone; install that and FFmpeg, or take the "
                "pinned stack."
            ) from error
        raise UserError(
            f"data.path={data.path} (data.split={data.split}) {kind} cannot be loaded: {first_words(cause)}; "
            "give a folder of csv, json, parquet, text, image or sound files, or the id of a dataset."
        ) from error


_NOT_THERE = {
    "split": r"Unknown split \"([^\"]+)\". Should be one of \[(.*)\]",
    "subset": r"BuilderConfig '([^']+)' not found. Available: \[(.*)\]",
}
"""By key of `data`: how `datasets` says that a name (the first group) is not among those of the dataset."""


def _not_there(key: str, name: str, data: Data, names: Iterable[str]) -> UserError:
    there = list(names)
    return UserError(
        f"data.{key}={name} is not in data.path={data.path}",
        did_you_mean(name, there, otherwise=f"choose one of: {', '.join(there)}", prefix=f"data.{key}="),
    )


def first_words(error: BaseException) -> str:
    """The first line of another library's error, without its full stop, short enough for a sentence."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if len(line) > LONGEST_REASON:
        line = f"{line[:LONGEST_REASON].rsplit(' ', 1)[0]} …"
    return line.rstrip(". ")

"""Where a dataset comes from: a local folder or file, what `save_to_disk` left, or the Hugging Face hub."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets

from bench.config.data import Data
from bench.errors import UserError

BUILDERS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet", ".txt": "text"}
"""What reads a single file of this ending, `.gz` after it or not; of a folder, `datasets` finds out."""

LONGEST_REASON = 200  # characters of another library's message within a sentence of ours


def load(data: Data, key: str) -> Any:
    """The split of the dataset, a `datasets.Dataset`, cached by its `key`; no code of its own is run."""
    assert data.path is not None, "bench.config.schema sees to it"
    path = Path(data.path)
    datasets.disable_progress_bars()
    if (path / "state.json").exists() or (path / "dataset_dict.json").exists():
        loaded = datasets.load_from_disk(data.path)
        return loaded[data.split] if isinstance(loaded, datasets.DatasetDict) else loaded
    options: dict[str, Any] = {"split": data.split}
    if key:  # else `datasets` goes by path and time, or of archives by their path alone
        options["cache_dir"] = str(Path(datasets.config.HF_DATASETS_CACHE, "bench", key))
    if "trust_remote_code" in inspect.signature(datasets.load_dataset).parameters:
        options["trust_remote_code"] = False  # later versions never run any
    if path.is_file():
        if (builder := _builder_of(path)) is None:
            raise UserError(
                f"data.path={data.path} is a file of an unknown kind; give one that ends in "
                f"{', '.join(BUILDERS)}, with .gz behind or without, or a folder."
            )
        return datasets.load_dataset(builder, data_files=data.path, **options)
    _check_kinds(path)
    return datasets.load_dataset(data.path, name=data.subset, **options)


def _builder_of(path: Path) -> str | None:
    return BUILDERS.get(Path(path.name.lower().removesuffix(".gz")).suffix)


def _check_kinds(folder: Path) -> None:
    """Refuse a folder of files of several kinds: `datasets` would read one kind and leave the others out."""
    if (folder / "README.md").exists():  # may say which file is what
        return
    files = [file for file in folder.rglob("*") if not file.name.startswith(("dataset_info", "metadata."))]
    kinds = {_builder_of(file) for file in files if file.is_file()} - {None, "text"}
    if len(kinds) > 1:
        raise UserError(
            f"data.path={folder} holds {' and '.join(sorted(map(str, kinds)))} files, of which only one kind "
            "would be read; give a folder of one kind, or a single file."
        )


def named(
    dataset: Any, data: Data, task: str, columns: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Any:
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
    dataset = dataset.select_columns(list(theirs.values()))
    # By way of names that cannot collide: {text: label, label: text} swaps two.
    dataset = dataset.rename_columns({their: f"bench {name}" for name, their in theirs.items()})
    return dataset.rename_columns({f"bench {name}": name for name in theirs})


@contextmanager
def naming(what: str, place: str, remedy: str) -> Iterator[None]:
    """Let another library's error be a `UserError` about `what`, a setting that names this place."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        where = "" if Path(place).exists() else ", which is no folder here,"
        reason = first_words(error.__cause__ or error)
        raise UserError(f"{what}{where} cannot be used: {type(error).__name__}: {reason}", remedy) from error


def first_words(error: BaseException) -> str:
    """The first line of another library's error, without its full stop, short enough for a sentence."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if len(line) > LONGEST_REASON:
        line = f"{line[:LONGEST_REASON].rsplit(' ', 1)[0]} …"
    return line.rstrip(". ")

"""What can be wrong with a dataset, and the one sentence that is said before anything is trained."""

import gzip
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import pytest

from bench.config.compose import compose
from bench.config.data import Data
from bench.errors import UserError
from bench.measure.plan.preflight_dataset import check_dataset
from bench.plugins.hf.inspection import prepare_dataset
from bench.setup.checkout import ROOT
from tests.support import local_data
from tests.support.configs import a_model

pytestmark = pytest.mark.once

SETTINGS: dict[str, Any] = {
    "vocab_size": 64,
    "num_labels": 2,
    "pad_token_id": 0,
    "decoder_start_token_id": None,
}


@pytest.fixture
def refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What is said about a dataset of these rows, with the temporary folder as FOLDER."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")

    def said(
        task: str,
        rows: list[dict[str, Any]] | None = None,
        *,
        tokenizer: dict[str, Any] | None = None,
        seq_len: int | None = 16,
        global_batch: int = 4,
        settings: dict[str, Any] | None = None,
        **changes: Any,
    ) -> str:
        given: dict[str, Any] = {"path": "", "processor": ""}
        if "path" not in changes:
            given["path"] = local_data.lines(
                tmp_path / "data", local_data.rows(task) if rows is None else rows
            )
        if "processor" not in changes:
            given["processor"] = local_data.tokenizer(tmp_path / "words", **tokenizer or {})
        with pytest.raises(UserError) as caught:
            prepare_dataset(
                a_model(task=task),
                Data(name="hf", **given | changes),
                settings=SimpleNamespace(**SETTINGS | (settings or {})),
                seq_len=seq_len,
                global_batch=global_batch,
            )
        sentence = str(caught.value)
        assert "\n" not in sentence
        assert sentence.endswith((".", ")", "?"))
        return sentence.replace(str(tmp_path), "FOLDER")

    return said


CLASSES = [{"text": "a cat", "label": number} for number in (0, 1, 2, 0)]


@pytest.mark.parametrize(
    ("task", "arguments", "sentence"),
    [
        (
            "sequence-classification",
            {"rows": [{"sentence": "a cat", "label": 0}]},
            "data.path=FOLDER/data has no column text for model.task=sequence-classification, only sentence, "
            "label; set ++data.columns={text: …} to the one that holds it.",
        ),
        (
            "masked-lm",
            {"columns": {"label": "text"}},
            "data.columns.label is not a column of model.task=masked-lm; choose one of: text.",
        ),
        (
            "masked-lm",
            {"rows": [{"text": "a cat"}] * 3},
            "data.path=FOLDER/data holds 3 samples in data.split=train, fewer than the 4 of one step; "
            "choose a smaller micro_batch or a larger dataset.",
        ),
        (
            "masked-lm",
            {"rows": [{"text": " "}] * 8},
            "data.path=FOLDER/data holds 0 samples in data.split=train, fewer than the 4 of one step; "
            "choose a smaller micro_batch or a larger dataset.",
        ),
        (
            "sequence-classification",
            {"rows": CLASSES},
            "column label of data.path=FOLDER/data holds the label 2, but model.name=m has 2 classes, which "
            "count from 0; correct the label, or set ++model.config.num_labels=3.",
        ),
        (
            "sequence-classification",
            {"rows": [{"text": "a cat", "label": -1}] * 4},
            "column label of data.path=FOLDER/data holds the label -1, but classes count from 0; leave such "
            "rows out (a test split without labels often has -1: set data.split=train).",
        ),
        (
            "sequence-classification",
            {"rows": [{"text": "a cat", "label": 0.5}] * 4},
            "column label of data.path=FOLDER/data must hold classes, whole numbers or words, not 0.5; "
            "set ++data.columns={label: …}.",
        ),
        (
            "token-classification",
            {"rows": [{"tokens": ["a", "cat"], "ner_tags": [1, 7]}] * 4},
            "column ner_tags of data.path=FOLDER/data holds the label 7, but model.name=m has 2 classes, "
            "which count from 0; correct the label, or set ++model.config.num_labels=8.",
        ),
        (
            "token-classification",
            {"rows": [{"tokens": ["a", "cat"], "ner_tags": [1]}] * 4},
            "data.path=FOLDER/data must have a tag for each token, and row 1 has 2 tokens and 1 ner_tags; "
            "correct it.",
        ),
        (
            "question-answering",
            {"rows": [{"question": "who ?", "context": "a cat", "answers": "cat"}] * 4},
            "column answers of data.path=FOLDER/data must hold {text: […], answer_start: […]} in every row, "
            "as SQuAD has it; set ++data.columns={answers: …}.",
        ),
        (
            "masked-lm",
            {"rows": [{"text": 5}] * 4},
            "column text of data.path=FOLDER/data must hold text, and row 1 has 5; leave such rows out, "
            "or set ++data.columns={text: …}.",
        ),
        (
            "masked-lm",
            {"settings": {"vocab_size": 8}},
            "data.processor=FOLDER/words knows 26 tokens, but model.name=m embeds 8; "
            "choose the model's own tokenizer, or set ++model.config.vocab_size=26.",
        ),
        (
            "masked-lm",
            {"tokenizer": {"model_max_length": 12}},
            "seq_len=16 is longer than the 12 tokens that data.processor=FOLDER/words allows "
            "(its model_max_length); choose a shorter one.",
        ),
        (
            "masked-lm",
            {"tokenizer": {"without": ["mask"]}},
            "data.processor=FOLDER/words has no mask token, which model.task=masked-lm hides words with; "
            "choose the tokenizer of a masked language model.",
        ),
        (
            "sequence-classification",
            {"tokenizer": {"without": ["pad"]}},
            "data.processor=FOLDER/words has neither a padding nor an end-of-text token; "
            "save it with a pad_token.",
        ),
    ],
)
def test_data_that_does_not_fit_is_refused(
    refusal: Callable[..., str], task: str, arguments: dict[str, Any], sentence: str
) -> None:
    assert refusal(task, **arguments) == sentence


def test_a_split_that_is_not_there_is_refused(refusal: Callable[..., str], tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    datasets.DatasetDict({"test": datasets.Dataset.from_dict({"text": ["a cat"]})}).save_to_disk(str(saved))
    assert refusal("masked-lm", path=str(saved)) == (
        "data.split=train is not in data.path=FOLDER/saved; choose one of: test."
    )
    rows = b'{"text": "a cat"}\n'
    (tmp_path / "in").mkdir()
    for name in ("train", "validation"):
        (tmp_path / "in" / f"{name}.jsonl").write_bytes(rows)
    for split, remedy in (
        ("valid", "did you mean data.split=validation?"),
        ("validation[:1]", ""),
        ("trian", "did you mean data.split=train?"),
        ("valid[:10%]", "did you mean data.split=validation?"),
        ("x", "choose one of: train, validation."),
    ):
        name = split.partition("[")[0]
        said = refusal("masked-lm", path=str(tmp_path / "in"), split=split)
        assert (
            said == f"data.split={name} is not in data.path=FOLDER/in; {remedy}"
            if remedy
            else "holds 1" in said
        )
    said = refusal("masked-lm", path=str(tmp_path / "in"), subset="first")
    assert said == "data.subset=first is not in data.path=FOLDER/in; choose one of: default."


def test_a_file_of_another_kind_is_refused(refusal: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "data.xyz").write_text("a cat")
    assert refusal("masked-lm", path=str(tmp_path / "data.xyz")) == (
        "data.path=FOLDER/data.xyz is a file of an unknown kind; give one that ends in "
        ".csv, .json, .jsonl, .parquet, .txt, with .gz behind or without, or a folder."
    )


def test_an_empty_folder_and_an_empty_file_are_refused(refusal: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    assert "cannot be loaded" in refusal("masked-lm", path=str(tmp_path / "nothing"))
    (tmp_path / "empty.csv").touch()
    assert refusal("masked-lm", path=str(tmp_path / "empty.csv")) == (
        "FOLDER/empty.csv is empty; give it rows, or take it away."
    )
    (tmp_path / "rows.csv").write_text("text,label\n")
    assert refusal("masked-lm", path=str(tmp_path / "rows.csv")).endswith(
        "(data.split=train) holds no rows; give a dataset with some."
    )


LINES = b'{"text": "a cat"}\n' * 3
TO_UTF_8 = "is not UTF-8; convert the file, such as by `iconv -f LATIN1 -t UTF-8`."


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"d.jsonl": LINES + '{"text": "ä"}\n'.encode("latin-1")}, f"FOLDER/d.jsonl, line 4, {TO_UTF_8}"),
        ({"d.csv": "text\na cat\nä\n".encode("latin-1")}, f"FOLDER/d.csv, line 3, {TO_UTF_8}"),
        ({"d.csv": "text\na cat\n".encode("utf-16")}, f"FOLDER/d.csv, line 1, {TO_UTF_8}"),
        (
            {"a.jsonl": LINES, "b.jsonl": '{"text": "ä"}\n'.encode("latin-1")},
            f"FOLDER/b.jsonl, line 1, {TO_UTF_8}",
        ),
        (
            {"d.csv": b"text,label\na cat,0\na dog,0,5\n"},
            "FOLDER/d.csv, line 3, has 3 fields, and its header 2; put a text that holds commas in quotes, "
            "or take the line away.",
        ),
        (
            {"d.csv": b'text,label\na cat,0\n"a dog\n'},
            "FOLDER/d.csv, line 3, is no CSV (unexpected end of data); close its quotes, "
            "or take the line away.",
        ),
        ({"d.jsonl": b""}, "FOLDER/d.jsonl is empty; give it rows, or take it away."),
        ({"a.csv": b"text\na cat\n", "b.csv": b""}, "FOLDER/b.csv is empty; give it rows, or take it away."),
        ({"d.parquet": b""}, "FOLDER/d.parquet is empty; give it rows, or take it away."),
        ({"d.parquet": b"PAR1"}, "FOLDER/d.parquet is cut off or no Parquet file; write it anew."),
        ({"d.parquet": LINES}, "FOLDER/d.parquet is cut off or no Parquet file; write it anew."),
        (
            {"d.jsonl": LINES + b'{"text": "a d'},
            "FOLDER/d.jsonl, line 4, is no JSON (Unterminated string starting at); correct it, "
            "or take it away.",
        ),
        (
            {"d.jsonl": LINES + b'{"text": 5}\n'},
            "FOLDER/d.jsonl, line 4, has a number in column text, and line 1 a text; "
            "give every line the same.",
        ),
        (
            {"d.json": b'[\n{"text": "a"},\n{"text": "b"},\n{"text": 5}\n]\n'},
            "FOLDER/d.json, row 3, has a number in column text, and row 1 a text; give every row the same.",
        ),
        (
            {"d.jsonl": LINES + b"[]\n"},
            "FOLDER/d.jsonl, line 4, holds no object; give each sample its columns' names.",
        ),
        (
            {"d.json": b'[{"text": "a"}, "b"]'},
            "FOLDER/d.json, row 2, holds no object; give each sample its columns' names.",
        ),
        ({"d.txt": "a cat\nein Kätzchen\n".encode("latin-1")}, f"FOLDER/d.txt, line 2, {TO_UTF_8}"),
        (
            {"d.csv.gz": gzip.compress("text\nKätzchen\n".encode("latin-1"))},
            f"FOLDER/d.csv.gz, line 2, {TO_UTF_8}",
        ),
        (
            {"d.jsonl": LINES + b'{"text": ["a"]}\n'},
            "FOLDER/d.jsonl, line 4, has a list in column text, and line 1 a text; give every line the same.",
        ),
        (
            {"a.csv": b"text\na cat\n", "b.csv": b"word\na cat\n"},
            "FOLDER/b.csv has the columns word, and a file before it text; give all files of the folder the "
            "same ones.",
        ),
        (
            {"a.csv": b"text\na cat\n", "b.jsonl": LINES},
            "data.path=FOLDER holds csv and json files, of which only one kind would be read; give a folder "
            "of one kind, or a single file.",
        ),
        (
            {"d.jsonl.gz": gzip.compress(LINES)[:-9]},
            "FOLDER/d.jsonl.gz cannot be read (compressed file ended before the end-of-stream marker was "
            "reached); replace it, or allow reading it.",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_its_line(
    refusal: Callable[..., str], tmp_path: Path, files: dict[str, bytes], sentence: str
) -> None:
    (tmp_path / "in").mkdir()
    for name, content in files.items():
        (tmp_path / "in" / name).write_bytes(content)
    path = tmp_path / "in" / (next(iter(files)) if len(files) == 1 else "")
    assert refusal("masked-lm", path=str(path)).replace("FOLDER/in", "FOLDER") == sentence


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("d.csv", b"text,label\na cat,0\n,1\n"),
        ("d.jsonl", b'{"text": "a cat", "label": 0}\n{"text": "", "label": 0}\n'),
        ("d.jsonl", b'{"text": "a cat", "label": 0}\n{"text": null, "label": 0}\n'),
    ],
)
def test_an_empty_text_is_refused_with_its_row_however_it_is_written(
    refusal: Callable[..., str], tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    path = str(tmp_path / name)
    assert refusal("sequence-classification", path=path, global_batch=1) == (
        f"column text of data.path=FOLDER/{name} must hold text, and row 2 has none; leave such rows out, or "
        "set ++data.columns={text: …}."
    )
    # Where texts are but pieces, empty ones are left out.
    assert "holds 1 samples" in refusal("masked-lm", path=path, global_batch=2)


def test_a_row_far_down_is_named_by_its_number(refusal: Callable[..., str]) -> None:
    rows = [{"text": "a cat", "label": 0}] * 2500 + [{"text": " ", "label": 0}, {"text": "", "label": 0}]
    assert "and row 2502 has none;" in refusal("sequence-classification", rows)
    rows[1700] = {"text": "a cat", "label": None}
    assert "and row 1701 has none;" in refusal("sequence-classification", rows)


def test_code_that_comes_with_a_dataset_is_never_run(refusal: Callable[..., str], tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "theirs.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert "cannot be loaded" in refusal("masked-lm", path=str(folder))
    assert not (tmp_path / "ran").exists()


def test_a_folder_without_a_processor_is_refused(refusal: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    sentence = refusal("masked-lm", processor=str(tmp_path / "none"))
    assert sentence.startswith(
        "data.processor=FOLDER/none is a folder, but a tokenizer cannot be loaded from it"
    )


def test_an_image_that_cannot_be_read_is_named(refusal: Callable[..., str], tmp_path: Path) -> None:
    folder = local_data.images(tmp_path / "images")
    (tmp_path / "images" / "cat" / "4.png").write_bytes(b"no image")
    sentence = refusal(
        "image-classification",
        path=folder,
        processor=local_data.image_processor(tmp_path / "processor"),
        seq_len=None,
    )
    assert "cat/4.png of data.path=FOLDER/images cannot be read as an image" in sentence
    assert sentence.endswith("replace it or take it away.")


def test_text_is_no_image(refusal: Callable[..., str], tmp_path: Path) -> None:
    path = local_data.lines(tmp_path / "data", [{"image": 5, "label": 0}] * 4)
    processor = local_data.image_processor(tmp_path / "processor")
    assert "column image of data.path=FOLDER/data holds no images" in refusal(
        "image-classification", path=path, processor=processor, seq_len=None
    )


@local_data.takes_sounds
def test_a_sound_at_another_rate_is_refused(refusal: Callable[..., str], tmp_path: Path) -> None:
    sentence = refusal(
        "speech-recognition",
        path=local_data.sounds(tmp_path / "sounds", rate=8000),
        processor=local_data.speech_processor(tmp_path / "processor"),
    )
    assert sentence.endswith(
        "0.wav of data.path=FOLDER/sounds has 8,000 samples a second, but data.processor=FOLDER/processor "
        "takes 16,000; convert the dataset to that rate first."
    )


@local_data.takes_sounds
def test_a_sound_without_words_is_refused_with_its_row(refusal: Callable[..., str], tmp_path: Path) -> None:
    path = local_data.sounds(tmp_path / "sounds", count=20)
    metadata = tmp_path / "sounds" / "metadata.csv"
    metadata.write_text(metadata.read_text().replace("18.wav,a\n", "18.wav,\n"))
    processor = local_data.speech_processor(tmp_path / "processor")
    assert "column text of data.path=FOLDER/sounds must hold text, and row 19 has none; " in refusal(
        "speech-recognition", path=path, processor=processor
    )


@pytest.mark.skipif(not local_data.takes_sounds.args[0], reason="sounds are taken here")
def test_sounds_without_torchcodec_are_refused_where_datasets_needs_it(
    refusal: Callable[..., str], tmp_path: Path
) -> None:
    sentence = refusal(
        "speech-recognition",
        path=local_data.sounds(tmp_path / "sounds"),
        processor=local_data.speech_processor(tmp_path / "processor"),
    )
    assert sentence.startswith("data.path=FOLDER/sounds (data.split=train) holds sounds, which datasets ")
    assert sentence.endswith(
        " takes with torchcodec alone; install that and FFmpeg, or take the pinned stack."
    )


# On the coordinator's side


@pytest.mark.parametrize("key", ["data.path", "data.processor"])
@pytest.mark.parametrize("place", ["./nowhere", "/no/where", "no/where/at_all"])
def test_a_folder_that_is_not_there_is_refused_at_once(
    key: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("too late"))
    places = {"data.path": str(tmp_path), "data.processor": str(tmp_path)} | {key: place}
    config = compose(["data=hf", *(f"{name}={place}" for name, place in places.items())])
    with pytest.raises(
        UserError, match=rf"^{key}={re.escape(place)} does not exist; give a f.* an id on the hub\.$"
    ):
        check_dataset(config)


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    config = compose(["data=hf", "data.path=./x", "data.processor=./y"])
    with pytest.raises(UserError, match=r"data=hf needs datasets .*; run `make setup`"):
        check_dataset(config)


def test_synthetic_batches_need_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a process"))
    check_dataset(compose([]))


def test_an_error_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = subprocess.CompletedProcess([], 1, stdout="", stderr="Traceback: KeyError: 'x'")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: broken)
    config = compose(["data=hf", "data.path=their/data", "data.processor=their/words"])
    with pytest.raises(RuntimeError, match="KeyError: 'x'"):
        check_dataset(config)


def test_the_command_refuses_before_it_starts_anything(tmp_path: Path) -> None:
    """With what its inspection says, in the letters that this terminal knows."""
    path = local_data.lines(tmp_path / "data", [{"sentence": "a cat"}] * 16)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "bench", "device=cpu", "model=bert-tiny", "data=hf"),
            *(f"data.path={path}", f"data.processor={local_data.tokenizer(tmp_path / 'words')}"),
            *(f"results_dir={tmp_path}/results", f"reports_dir={tmp_path}/reports"),
        ],
        cwd=ROOT,
        env={**os.environ, "HF_DATASETS_CACHE": str(tmp_path / "cache"), "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1] == (
        f"data.path={path} has no column text for model.task=masked-lm, only sentence; "
        "set ++data.columns={text: ?} to the one that holds it."
    )
    assert done.returncode == 2
    assert not list((tmp_path / "results").glob("*.csv"))


@pytest.mark.parametrize("variable", ["HF_HOME", "XDG_CACHE_HOME", "HF_DATASETS_CACHE", "HF_MODULES_CACHE"])
def test_a_cache_that_cannot_be_written_to_is_not_the_data_s_fault(tmp_path: Path, variable: str) -> None:
    local_data.lines(tmp_path / "data", local_data.rows("masked-lm"))
    local_data.tokenizer(tmp_path / "words")
    (tmp_path / "file").touch()
    done = subprocess.run(
        [*(sys.executable, "-c"), CACHE, str(tmp_path)],
        env={**os.environ, "HF_HOME": str(tmp_path / "good"), variable: str(tmp_path / "file" / "below")}
        if variable != "XDG_CACHE_HOME"
        else {**os.environ, variable: str(tmp_path / "file" / "below")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "keep what they prepare, cannot be written to (not a directory); set HF_HOME to" in done.stderr


CACHE = """
import sys
from bench.config.data import Data
from bench.plugins.hf.preparation import _source
_source.load(Data(name="hf", path=sys.argv[1] + "/data"), "key")
"""

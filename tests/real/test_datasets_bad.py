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
from bench.setup.checkout import ROOT
from bench.worker.workload.inspections import prepare_dataset
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
LINES = b'{"text": "a cat"}\n' * 3


@pytest.mark.parametrize(
    ("task", "arguments", "words"),
    [
        (
            "sequence-classification",
            {"rows": [{"sentence": "a cat", "label": 0}]},
            "data.path=FOLDER/data has no column text for model.task=sequence-classification, only sentence, "
            "label; set ++data.columns={text: …}",
        ),
        ("masked-lm", {"columns": {"label": "text"}}, "data.columns.label is not a column of model.task=m"),
        ("masked-lm", {"rows": [{"text": "a cat"}] * 3}, "holds 3 samples in data.split=train, fewer than"),
        ("masked-lm", {"rows": [{"text": " "}] * 8}, "holds 0 samples in data.split=train, fewer than"),
        (
            "sequence-classification",
            {"rows": CLASSES},
            "column label of data.path=FOLDER/data holds labels from 0 to 2, but model.name=m has the "
            "classes 0 to 1; leave rows without a class out, or set ++model.config.num_labels=3.",
        ),
        ("sequence-classification", {"rows": [{"text": "a cat", "label": -1}] * 4}, "labels from -1 to -1"),
        ("sequence-classification", {"rows": [{"text": "a", "label": 0.5}] * 4}, "in every row, not 0.5;"),
        ("sequence-classification", {"rows": [*CLASSES[:2], {"text": "a"}]}, "in every row, not None;"),
        (
            "token-classification",
            {"rows": [{"tokens": ["a", "cat"], "ner_tags": [1, 7]}] * 4},
            "labels from 1 to 7",
        ),
        (
            "token-classification",
            {"rows": [{"tokens": ["a", "cat"], "ner_tags": [1]}] * 4},
            "must have a tag for each token",
        ),
        (
            "question-answering",
            {"rows": [{"question": "who ?", "context": "a cat", "answers": "cat"}] * 4},
            "(data.split=train) cannot be used: TypeError: string indices",
        ),
        ("masked-lm", {"rows": [{"text": 5}] * 4}, "(data.split=train) cannot be used: "),
        ("sequence-classification", {"rows": [*CLASSES[:2], {"label": 0}]}, "cannot be used: "),
        ("masked-lm", {"tokenizer": {"without": ["mask"]}}, "data.processor=FOLDER/words has no mask token"),
        ("sequence-classification", {"tokenizer": {"without": ["pad"]}}, "not have a padding token"),
        ("masked-lm", {"split": "valid"}, 'cannot be used: ValueError: Unknown split "valid"'),
        ("masked-lm", {"subset": "first"}, "(data.split=train) cannot be used: ValueError: "),
    ],
)
def test_data_that_does_not_fit_is_refused(
    refusal: Callable[..., str], task: str, arguments: dict[str, Any], words: str
) -> None:
    assert words in refusal(task, **arguments)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"d.xyz": b"a cat"}, "d.xyz is a file of an unknown kind; give one that ends in .csv, .json"),
        ({"d.jsonl": LINES + '{"text": "ä"}\n'.encode("latin-1")}, "cannot be used: "),
        ({"d.csv": "text\na cat\nä\n".encode("latin-1")}, "'utf-8' codec can't decode"),
        ({"d.csv": b"text,label\na cat,0\na dog,0,5\n"}, "Expected 2 fields in line 3, saw 3"),
        ({"d.csv": b""}, "cannot be used: "),
        ({"d.csv": b"text,label\n"}, "cannot be used: "),
        ({"d.parquet": b"PAR1"}, "cannot be used: "),
        ({"d.jsonl": LINES + b'{"text": "a d'}, "cannot be used: "),
        ({"d.jsonl": LINES + b'{"text": 5}\n'}, "cannot be used: "),
        ({"d.jsonl.gz": gzip.compress(LINES)[:-9]}, "cannot be used: "),
        ({"a.csv": b"text\na cat\n", "b.csv": b"word\na cat\n"}, "cannot be used: "),
        (
            {"a.csv": b"text\na cat\n", "b.jsonl": LINES},
            "holds csv and json files, of which only one kind would be read",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    refusal: Callable[..., str], tmp_path: Path, files: dict[str, bytes], words: str
) -> None:
    (tmp_path / "in").mkdir()
    for name, content in files.items():
        (tmp_path / "in" / name).write_bytes(content)
    path = tmp_path / "in" / (next(iter(files)) if len(files) == 1 else "")
    assert words in refusal("masked-lm", path=str(path))


def test_code_that_comes_with_a_dataset_is_never_run(refusal: Callable[..., str], tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "theirs.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert "cannot be used" in refusal("masked-lm", path=str(folder))
    assert not (tmp_path / "ran").exists()


def test_a_folder_without_a_processor_is_refused(refusal: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    sentence = refusal("masked-lm", processor=str(tmp_path / "none"))
    assert sentence.startswith("data.processor=FOLDER/none as a tokenizer cannot be used: ")
    assert sentence.endswith("give the folder or hub id of one that was saved with save_pretrained.")


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
    sentence = refusal("image-classification", path=path, processor=processor, seq_len=None)
    assert "data.path=FOLDER/data (data.split=train) cannot be used: " in sentence


@local_data.takes_sounds
def test_a_sound_at_another_rate_is_refused(refusal: Callable[..., str], tmp_path: Path) -> None:
    sentence = refusal(
        "speech-recognition",
        path=local_data.sounds(tmp_path / "sounds", rate=8000),
        processor=local_data.speech_processor(tmp_path / "processor"),
    )
    assert "was trained using a sampling rate of 16000" in sentence


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

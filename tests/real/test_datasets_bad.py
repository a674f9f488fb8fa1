"""What can be wrong with a dataset, and the one sentence that is said before anything is trained."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import pytest

from bench.config.compose import compose
from bench.config.data import Data
from bench.errors import UserError
from bench.measure.plan.preflight_dataset import check_dataset, inspect
from bench.plugins.hf.inspection import prepare_dataset
from tests.support import local_data
from tests.support.configs import a_model
from tests.support.python import run_python

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


def labelled(label: float) -> dict[str, Any]:
    return {"rows": [{"text": "a cat", "label": label}] * 4}


def tagged(*tags: int) -> dict[str, Any]:
    return {"rows": [{"tokens": ["a", "cat"], "ner_tags": [*tags]}] * 4}


CLASSES = [{"text": "a cat", "label": number} for number in (0, 1, 2, 0)]


CLASSIFIED = "sequence-classification"
TAGGED = "token-classification"
DATA = "data.path=FOLDER/data"
WORDS = "data.processor=FOLDER/words"
FEWER = f"{DATA} holds 3 samples in data.split=train, fewer than the 4 of one step; choose a smaller"
UNKNOWN_ANSWERS = {"question": "who ?", "context": "a cat", "answers": "cat"}

UNFIT: list[tuple[str, dict[str, Any], str]] = [  # the task, what is otherwise, and parts of what is said
    (CLASSIFIED, {"rows": [{"sentence": "a cat", "label": 0}]}, "no column text … only sentence, label; "),
    ("masked-lm", {"columns": {"label": "text"}}, "data.columns.label is not a column … one of: text."),
    ("masked-lm", {"rows": [{"text": "a cat"}] * 3}, FEWER),
    ("masked-lm", {"rows": [{"text": " "}] * 8}, f"{DATA} holds 0 samples in data.split=train, fewer"),
    ("masked-lm", {"rows": [{"text": 5}] * 4}, f"column text of {DATA} must hold text, and a row has 5; "),
    # labels
    (CLASSIFIED, {"rows": CLASSES}, "has 3 classes, counted from 0, but model.name=m has 2; … num_labels=3."),
    (CLASSIFIED, labelled(-1), "the label -1, but classes count from 0; leave such rows out (a test split"),
    (CLASSIFIED, labelled(0.5), "must hold classes … not 0.5; set ++data.columns={label: …}."),
    (TAGGED, tagged(1, 7), "has 8 classes, … model.name=m has 2; … set ++model.config.num_labels=8."),
    (TAGGED, tagged(1), "must have a tag for each token, and a row has 2 tokens and 1 ner_tags; "),
    ("question-answering", {"rows": [UNKNOWN_ANSWERS] * 4}, "must hold {text: […], answer_start: […]} in"),
    # the tokenizer
    ("masked-lm", {"settings": {"vocab_size": 8}}, f"{WORDS} knows 26 tokens … model.config.vocab_size=26."),
    ("masked-lm", {"tokenizer": {"model_max_length": 12}}, "seq_len=16 is longer than the 12 tokens"),
    ("masked-lm", {"tokenizer": {"without": ["mask"]}}, f"{WORDS} has no mask token … choose the tokenizer"),
    (CLASSIFIED, {"tokenizer": {"without": ["pad"]}}, "neither a padding nor an end-of-text … pad_token."),
]


@pytest.mark.parametrize(("task", "arguments", "words"), UNFIT)
def test_data_that_does_not_fit_is_refused(
    refusal: Callable[..., str], task: str, arguments: dict[str, Any], words: str
) -> None:
    said = refusal(task, **arguments)
    assert all(part in said for part in words.split(" … ")), said


def test_a_split_that_is_not_there_is_refused(refusal: Callable[..., str], tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    datasets.DatasetDict({"test": datasets.Dataset.from_dict({"text": ["a cat"]})}).save_to_disk(str(saved))
    assert refusal("masked-lm", path=str(saved)) == (
        "data.split=train is not in data.path=FOLDER/saved; choose one of: test."
    )
    (tmp_path / "in").mkdir()
    for name in ("train", "validation"):
        (tmp_path / "in" / f"{name}.jsonl").write_bytes(b'{"text": "a cat"}\n')
    for wrong, words in (
        ({"split": "trian"}, "split=trian is not in data.path=FOLDER/in; did you mean data.split=train?"),
        ({"split": "valid[:10%]"}, "split=valid is not in data.path=FOLDER/in; did you mean data.split="),
        ({"split": "x"}, "split=x is not in data.path=FOLDER/in; choose one of: train, validation."),
        ({"split": "validation[:1]"}, "holds 1 samples"),
        ({"subset": "first"}, "subset=first is not in data.path=FOLDER/in; choose one of: default."),
    ):
        assert words in refusal("masked-lm", path=str(tmp_path / "in"), **wrong)


def test_a_place_that_holds_no_dataset_is_refused(refusal: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    (tmp_path / "data.xyz").write_text("a cat")
    (tmp_path / "rows.csv").write_text("text,label\n")
    for name, words in (
        ("nothing", "cannot be loaded"),
        ("data.xyz", "is a file of an unknown kind; give one that ends in .csv, .json, .jsonl, .parquet"),
        ("rows.csv", "(data.split=train) holds no rows; give a dataset with some."),
    ):
        assert words in refusal("masked-lm", path=str(tmp_path / name))


CSV = b"text,label\na cat,0\n"
LINES = b'{"text": "a cat"}\n' * 3

UNREADABLE: list[tuple[dict[str, bytes], str]] = [  # files, and what is said of them
    ({"d.jsonl": LINES + b'{"text": 5}'}, "data.path=FOLDER/in/d.jsonl (data.split=train) is a file that"),
    ({"d.csv": CSV + b"a dog,0,5\n"}, "data.path=FOLDER/in/d.csv (data.split=train) is a file that"),
    ({"d.parquet": b"PAR1"}, "data.path=FOLDER/in/d.parquet (data.split=train) is a file that"),
    ({"a.csv": CSV, "b.jsonl": LINES}, "data.path=FOLDER/in holds csv and json files, of which only one"),
]


@pytest.mark.parametrize(("files", "sentence"), UNREADABLE)
def test_files_that_cannot_be_read_are_named(
    refusal: Callable[..., str], tmp_path: Path, files: dict[str, bytes], sentence: str
) -> None:
    (tmp_path / "in").mkdir()
    for name, content in files.items():
        (tmp_path / "in" / name).write_bytes(content)
    path = tmp_path / "in" / (next(iter(files)) if len(files) == 1 else "")
    assert refusal("masked-lm", path=str(path)).startswith(sentence)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("d.csv", b"text,label\na cat,0\n,1\n"),
        ("d.jsonl", b'{"text": "a cat", "label": 0}\n{"text": "", "label": 0}\n'),
        ("d.jsonl", b'{"text": "a cat", "label": 0}\n{"text": null, "label": 0}\n'),
    ],
)
def test_an_empty_text_is_refused_however_it_is_written(
    refusal: Callable[..., str], tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    path = str(tmp_path / name)
    assert refusal("sequence-classification", path=path, global_batch=1) == (
        f"column text of data.path=FOLDER/{name} must hold text, and a row has none; leave such rows out, or "
        "set ++data.columns={text: …}."
    )
    # Where texts are but pieces, empty ones are left out.
    assert "holds 1 samples" in refusal("masked-lm", path=path, global_batch=2)


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


def test_an_image_that_cannot_be_read_is_named_and_text_is_none(
    refusal: Callable[..., str], tmp_path: Path
) -> None:
    folder = local_data.images(tmp_path / "images")
    (tmp_path / "images" / "cat" / "4.png").write_bytes(b"no image")
    text = local_data.lines(tmp_path / "data", [{"image": 5, "label": 0}] * 4)
    processor = local_data.image_processor(tmp_path / "processor")
    for path, words in (
        (folder, "cat/4.png of data.path=FOLDER/images cannot be read as an image … replace it or"),
        (text, "column image of data.path=FOLDER/data holds no images"),
    ):
        said = refusal("image-classification", path=path, processor=processor, seq_len=None)
        assert all(part in said for part in words.split(" … ")), said


@local_data.takes_sounds
def test_a_sound_at_another_rate_or_without_words_is_refused(
    refusal: Callable[..., str], tmp_path: Path
) -> None:
    processor = local_data.speech_processor(tmp_path / "processor")
    slow = local_data.sounds(tmp_path / "slow", rate=8000)
    assert refusal("speech-recognition", path=slow, processor=processor).endswith(
        "0.wav of data.path=FOLDER/slow has 8,000 samples a second, but data.processor=FOLDER/processor "
        "takes 16,000; convert the dataset to that rate first."
    )
    path = local_data.sounds(tmp_path / "sounds", count=20)
    metadata = tmp_path / "sounds" / "metadata.csv"
    metadata.write_text(metadata.read_text().replace("18.wav,a\n", "18.wav,\n"))
    said = refusal("speech-recognition", path=path, processor=processor)
    assert "column text of data.path=FOLDER/sounds must hold text, and a row has none; " in said


# On the coordinator's side


def test_an_error_of_ours_keeps_its_traceback() -> None:
    with pytest.raises(RuntimeError, match=r"AttributeError: .* has no attribute 'no_such_function'"):
        inspect("no_such_function", compose([]))
    check_dataset(compose([]))  # of synthetic batches nothing is asked


def test_the_command_refuses_before_it_starts_anything(tmp_path: Path) -> None:
    """With what its inspection says, in the letters that this terminal knows."""
    path = local_data.lines(tmp_path / "data", [{"sentence": "a cat"}] * 16)
    done = run_python(
        *("-m", "bench", "device=cpu", "model=bert-tiny", "data=hf"),
        *(f"data.path={path}", f"data.processor={local_data.tokenizer(tmp_path / 'words')}"),
        *(f"results_dir={tmp_path}/results", f"reports_dir={tmp_path}/reports"),
        variables={"HF_DATASETS_CACHE": str(tmp_path / "cache"), "PYTHONIOENCODING": "latin-1"},
    )
    assert done.stderr.splitlines()[-1] == (
        f"data.path={path} has no column text for model.task=masked-lm, only sentence; "
        "set ++data.columns={text: ?} to the one that holds it."
    )
    assert done.returncode == 2
    assert not list((tmp_path / "results").glob("*.csv"))


CACHES = ("XDG_CACHE_HOME", "HF_DATASETS_CACHE", "HF_MODULES_CACHE")


@pytest.mark.parametrize(
    "variable", ["HF_HOME", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in CACHES)]
)
def test_a_cache_that_cannot_be_written_to_is_not_the_data_s_fault(tmp_path: Path, variable: str) -> None:
    local_data.lines(tmp_path / "data", local_data.rows("masked-lm"))
    local_data.tokenizer(tmp_path / "words")
    (tmp_path / "file").touch()
    good = {} if variable == "XDG_CACHE_HOME" else {"HF_HOME": str(tmp_path / "good")}
    done = run_python("-c", CACHE, tmp_path, variables=good | {variable: str(tmp_path / "file" / "below")})
    assert "keep what they prepare, cannot be written to (not a directory); set HF_HOME to" in done.stderr


CACHE = """
import sys
from bench.config.data import Data
from bench.plugins.hf.preparation import _source
_source.load(Data(name="hf", path=sys.argv[1] + "/data"), "key")
"""


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

"""Every task's preparation of a real dataset, and the loader that makes batches of it."""

import dataclasses
import gzip
import itertools
import json
import multiprocessing
import os
import shutil
import signal
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import numpy as np
import pytest
import torch

from bench.config.data import Data
from bench.errors import UserError
from bench.launch.spec import WorkerSpec
from bench.machine.telemetry.cpu import cpu_seconds
from bench.plugins.hf import preparation
from bench.plugins.hf.feed import Batches, Loader
from bench.worker.rank.error_words import in_a_line, status_of
from bench.worker.workload.feeds import make
from bench.worker.workload.order import Draw, Order
from bench.worker.workload.tasks import IGNORED, Arrays, hidden
from tests.support import local_data
from tests.support.configs import a_model, a_spec
from tests.support.processes import alive

SETTINGS = SimpleNamespace(
    vocab_size=64,
    max_position_embeddings=64,
    num_labels=3,
    pad_token_id=0,
    decoder_start_token_id=None,
    image_size=16,
    num_mel_bins=8,
    max_source_positions=50,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The libraries' cache, away from the user's."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "cache"


def prepared(
    folder: Path,
    task: str,
    rows: list[dict[str, Any]] | None = None,
    *,
    seq_len: int | None = 16,
    settings: Any = SETTINGS,
    **changes: Any,
) -> preparation.TaskPreparation:
    """A text task's dataset of the rows of `local_data`, or of these."""
    given: dict[str, Any] = {
        "path": local_data.lines(folder / "data", local_data.rows(task) if rows is None else rows),
        "processor": local_data.tokenizer(folder / "tokenizer"),
    }
    return preparation.prepare(
        Data(name="hf", **given | changes),
        a_model(task=task, name="m"),
        settings=settings,
        seq_len=seq_len,
        global_batch=1,
    )


def batch(made: preparation.TaskPreparation, *numbers: int, seed: int = 0) -> Arrays:
    return made.batch(numbers or range(4), np.random.default_rng(seed))


def words(ids: Any) -> str:
    """Tokens as they are written, padding left out."""
    known = local_data.SPECIAL + local_data.WORDS
    return " ".join(known[number] for number in ids if number > 0)


def test_texts_are_padded_for_masked_language_modelling_and_words_hidden_anew_for_each_seed(
    tmp_path: Path,
) -> None:
    whole = prepared(tmp_path, "masked-lm", [{"text": "  "}, {"text": ""}, *local_data.rows("masked-lm")])
    assert len(whole.samples) == 12, "empty lines are left out"
    made, again, other = batch(whole), batch(whole), batch(whole, seed=1)
    assert made["input_ids"].shape == made["labels"].shape == made["attention_mask"].shape == (4, 16)
    original = np.where(made["labels"] == IGNORED, made["input_ids"], made["labels"])
    assert words(original[0]) == f"[CLS] {local_data.sentence(0)} [SEP]"
    assert (made["labels"][made["attention_mask"] == 0] == IGNORED).all()
    assert ((made["labels"] != IGNORED).sum(axis=1) >= 1).all()
    assert (made["input_ids"] == again["input_ids"]).all()
    assert (made["labels"] != other["labels"]).any()


def test_special_tokens_are_never_hidden_and_the_shares_are_those_of_bert() -> None:
    ids = np.full((500, 64), 7)
    eligible = np.ones_like(ids, dtype=bool)
    eligible[:, 0] = False
    inputs, labels = hidden(
        ids, eligible=eligible, mask_token=4, vocabulary=26, padding=0, random=np.random.default_rng(0)
    )
    chosen = labels != IGNORED
    assert not chosen[:, 0].any()
    assert (inputs[~chosen] == 7).all()
    assert chosen[:, 1:].mean() == pytest.approx(0.15, abs=0.01)
    assert (inputs[chosen] == 4).mean() == pytest.approx(0.8, abs=0.02)
    assert (inputs[chosen] == 7).mean() == pytest.approx(0.1, abs=0.02)
    assert (inputs != 0).all()  # the padding's id


def test_texts_are_put_together_and_cut_for_causal_language_modelling(tmp_path: Path) -> None:
    made = prepared(tmp_path, "causal-lm", seq_len=8)
    whole = " ".join(f"[CLS] {local_data.sentence(n)} [SEP]" for n in range(12)).split()
    assert len(made.samples) == len(whole) // 8
    found = batch(made, 0, 1)
    assert words(found["input_ids"].ravel()).split() == whole[:16]
    assert (found["attention_mask"] == 1).all()
    assert (found["labels"] == found["input_ids"]).all()


def test_a_text_has_a_class(tmp_path: Path) -> None:
    made = batch(prepared(tmp_path, "sequence-classification"))
    assert made["labels"].tolist() == [0, 1, 0, 1]
    assert made["labels"].dtype == np.int64
    assert words(made["input_ids"][1]) == f"[CLS] {local_data.sentence(1)} [SEP]"


def test_classes_may_be_words_and_columns_may_have_other_names(tmp_path: Path) -> None:
    folder = tmp_path / "csv"
    folder.mkdir()
    (folder / "train.csv").write_text("review,stars\nthe cat,good\na dog,bad\nred cat,good\n")
    task, columns = "sequence-classification", {"text": "review", "label": "stars"}
    made = prepared(tmp_path, task, path=str(folder), columns=columns)
    assert batch(made, 0, 1, 2)["labels"].tolist() == [1, 0, 1]
    rows = [{"label": "the cat", "text": 1}, {"label": "a dog", "text": 0}]
    swapped = prepared(tmp_path, task, rows, columns={"text": "label", "label": "text"})
    assert batch(swapped, 0, 1)["labels"].tolist() == [1, 0]


def test_a_pair_of_texts_is_one_sample_and_a_long_text_is_cut_off(tmp_path: Path) -> None:
    task, columns = "sequence-classification", {"text_pair": "other"}
    pair = prepared(tmp_path, task, [{"text": "the cat", "other": "a dog", "label": 0}] * 2, columns=columns)
    assert words(batch(pair, 0)["input_ids"][0]) == "[CLS] the cat [SEP] a dog [SEP]"
    long = batch(prepared(tmp_path, task, [{"text": "cat " * 99, "label": 0}] * 2), 0)
    assert long["input_ids"].shape == (1, 16)
    assert (long["attention_mask"] == 1).all()


def test_only_the_first_token_of_a_word_has_its_label(tmp_path: Path) -> None:
    rows = [{"tokens": ["the", "cat,dog", "sat"], "ner_tags": [1, 2, 0]}] * 2
    found = batch(prepared(tmp_path, "token-classification", rows, seq_len=8), 0)
    assert words(found["input_ids"][0]) == "[CLS] the cat , dog sat [SEP]"
    assert found["labels"][0].tolist() == [IGNORED, 1, 2, IGNORED, IGNORED, 0, IGNORED, IGNORED]


def test_the_answer_is_where_the_positions_say(tmp_path: Path) -> None:
    made = prepared(tmp_path, "question-answering", seq_len=48)
    found = batch(made)
    for row, start, end in zip(
        found["input_ids"], found["start_positions"], found["end_positions"], strict=True
    ):
        assert words(row[start : end + 1]) == "hill"


def test_a_long_context_becomes_several_samples_of_which_some_hold_the_answer(tmp_path: Path) -> None:
    context = f"{'cat ' * 40}hill . {'dog ' * 40}"
    rows = [{"question": "where ?", "context": context, "answers": {"text": ["hill"], "answer_start": [160]}}]
    made = prepared(tmp_path, "question-answering", rows, seq_len=32)
    found = batch(made, *range(len(made.samples)))
    assert len(made.samples) > 3
    there = found["start_positions"] > 0
    assert 0 < there.sum() < len(there)
    for row, start in zip(found["input_ids"][there], found["start_positions"][there], strict=True):
        assert words([row[start]]) == "hill"
    assert (found["end_positions"][~there] == 0).all()


def test_a_question_as_long_as_the_sample_is_cut_off(tmp_path: Path) -> None:
    rows = [{"question": "who " * 50, "context": "the cat", "answers": {"text": [], "answer_start": []}}] * 2
    found = batch(prepared(tmp_path, "question-answering", rows, seq_len=16), 0)
    assert words(found["input_ids"][0]) == "[CLS] who who who who [SEP] the cat [SEP]"
    assert found["start_positions"].tolist() == [0]


def test_a_translation_has_the_other_text_as_labels(tmp_path: Path) -> None:
    columns = {"source": "translation.de", "target": "translation.en"}
    found = batch(prepared(tmp_path, "translation", columns=columns))
    assert words(found["input_ids"][0]) == f"[CLS] {local_data.sentence(1)} [SEP]"
    real = found["labels"][0] != IGNORED
    assert words(found["labels"][0][real]) == f"[CLS] {local_data.sentence(0)} [SEP]"


def test_images_are_scaled_when_they_are_asked_for(tmp_path: Path) -> None:
    made = prepared(
        tmp_path,
        "image-classification",
        [],
        seq_len=None,
        path=local_data.images(tmp_path / "images"),
        processor=local_data.image_processor(tmp_path / "processor"),
    )
    found = batch(made, *range(12))
    assert found["pixel_values"].shape == (12, 3, 16, 16)
    assert found["pixel_values"].dtype == np.float32
    assert sorted(found["labels"].tolist()) == [0] * 6 + [1] * 6
    assert -1 <= found["pixel_values"].min() < found["pixel_values"].max() <= 1


@local_data.takes_sounds
def test_sounds_become_spectrograms_and_the_start_token_that_the_model_adds_is_cut_off(
    tmp_path: Path,
) -> None:
    arguments: dict[str, Any] = {
        "path": local_data.sounds(tmp_path / "sounds"),
        "processor": local_data.speech_processor(tmp_path / "processor"),
    }
    found = batch(prepared(tmp_path, "speech-recognition", [], **arguments))
    assert found["input_features"].shape == (4, 8, 100)
    assert found["input_features"].dtype == np.float32
    assert found["labels"].shape == (4, 16)
    lengths = (found["labels"] != IGNORED).sum(axis=1)
    assert (np.diff(lengths)[:2] == 1).all(), "the words have one, two, three letters"
    start = SimpleNamespace(**vars(SETTINGS) | {"decoder_start_token_id": int(found["labels"][0, 0])})
    cut = batch(prepared(tmp_path, "speech-recognition", [], settings=start, **arguments))["labels"]
    assert (cut[:, :-1] == found["labels"][:, 1:]).all()
    assert cut.shape == found["labels"].shape


@pytest.mark.parametrize("kind", ["csv file", "text file", "parquet folder", "saved", "saved splits"])
def test_a_dataset_may_lie_there_in_many_forms(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "theirs"
    texts = [local_data.sentence(n) for n in range(6)]
    whole = datasets.Dataset.from_dict({"text": texts})
    if kind == "csv file":
        place = tmp_path / "theirs.csv"
        whole.to_csv(str(place))
    elif kind == "text file":
        place = tmp_path / "theirs.txt"
        place.write_text("\n".join(texts))
    elif kind == "parquet folder":
        place.mkdir()
        whole.to_parquet(str(place / "train.parquet"))
    elif kind == "saved":
        whole.save_to_disk(str(place))
    else:
        datasets.DatasetDict({"train": whole}).save_to_disk(str(place))
    before = sorted(tmp_path.glob("theirs*/**/*"))
    assert len(prepared(tmp_path, "masked-lm", path=str(place)).samples) == 6
    assert sorted(tmp_path.glob("theirs*/**/*")) == before, "nothing is written beside the data"


def test_tokens_are_found_again_and_changed_data_is_seen(tmp_path: Path, cache: Path) -> None:
    def kept() -> set[Path]:
        return set((cache / "bench").glob("*.arrow"))

    places: dict[str, Any] = {
        "path": local_data.lines(tmp_path / "theirs", local_data.rows("masked-lm")),
        "processor": local_data.tokenizer(tmp_path / "words"),
    }
    prepared(tmp_path, "masked-lm", **places)
    once = kept()
    prepared(tmp_path, "masked-lm", **places)
    assert kept() == once
    prepared(tmp_path, "masked-lm", seq_len=32, **places)
    assert len(kept()) == 2
    local_data.lines(tmp_path / "theirs", [{"text": "a dog"}] * 3)
    assert len(prepared(tmp_path, "masked-lm", **places).samples) == 3


def rewrite(place: Path, change: Callable[[], object]) -> None:
    """Change files and keep their times, as `cp -p`, `rsync -t` and tar do."""
    before = {path: path.stat() for path in [place, *place.rglob("*")] if path.is_file()}
    change()
    for path, stat in before.items():
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def save(place: Path, texts: list[str]) -> None:
    """Write texts with labels in the form that the place's name asks for; a saved dataset keeps its name."""
    rows = datasets.Dataset.from_dict({"text": texts, "label": [len(text) % 2 for text in texts]})
    if place.suffix == ".gz":
        place.write_bytes(gzip.compress(rows.to_pandas().to_csv(index=False).encode(), mtime=0))
    elif place.suffix == ".csv":
        rows.to_csv(str(place))
    elif place.suffix == ".zip":
        place.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(place, "w") as archive:
            archive.writestr("train.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        shutil.rmtree(place, ignore_errors=True)
        rows._fingerprint = "same"
        rows.save_to_disk(str(place))


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "folder/rows.zip", "saved"])
def test_files_that_are_changed_and_keep_their_time_give_their_new_rows(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    path = place.parent if place.suffix == ".zip" else place
    seen = []
    for texts in (["the cat"] * 3, ["a small dog"] * 3):
        rewrite(tmp_path, lambda texts=texts: save(place, texts))  # type: ignore[misc]
        made = batch(prepared(tmp_path, "sequence-classification", path=str(path)), 0, 1, 2)
        seen.append((words(made["input_ids"][0]), made["labels"].tolist()))
    assert seen == [("[CLS] the cat [SEP]", [1, 1, 1]), ("[CLS] a small dog [SEP]", [1, 1, 1])]


# The order and the loader


def numbers(order: Order, count: int) -> list[tuple[int, ...]]:
    return [draw.samples for draw in itertools.islice(order, count)]


def test_ranks_share_no_sample_of_an_epoch_and_all_of_it_is_used() -> None:
    orders = [Order(16, micro_batch=4, rank=rank, world_size=2, seed=0) for rank in (0, 1)]
    epoch = [sample for order in orders for batch in numbers(order, 2) for sample in batch]
    assert sorted(epoch) == list(range(16))


def test_what_fills_no_batch_is_dropped_and_the_next_epoch_is_another_shuffle() -> None:
    order = Order(19, micro_batch=4, rank=0, world_size=2, seed=0)
    first, second, third, fourth = numbers(order, 4)
    assert len({*first, *second}) == len({*third, *fourth}) == 8
    assert {*first, *second} != {*third, *fourth}
    assert [draw.seed for draw in itertools.islice(order, 4)] == [(0, 0, n) for n in range(4)]


class Model:
    """What a loader asks of a model: its configuration and what its forward takes."""

    def __init__(self) -> None:
        self.config = SETTINGS

    def forward(self, input_ids: Any, attention_mask: Any, labels: Any) -> None: ...


@pytest.fixture
def loader(tmp_path: Path) -> Callable[..., Loader]:
    """Of 24 texts, micro-batches of 4 on two ranks."""
    path = local_data.lines(tmp_path / "data", local_data.rows("masked-lm", 24))
    processor = local_data.tokenizer(tmp_path / "tokenizer")

    def made(rank: int = 0, seed: int = 0, workers: int = 0, **changes: Any) -> Loader:
        spec: WorkerSpec = dataclasses.replace(
            a_spec(),
            data=Data(name="hf", path=path, processor=processor, workers=workers),
            micro_batch=4,
            grad_accum=2,
            seq_len=16,
            seed=seed,
            **changes,
        )
        feed = make(spec, Model(), rank=rank, world_size=2, pinned=False)
        assert isinstance(feed, Loader)
        return feed

    return made


def stream(feed: Loader, steps: int = 4) -> torch.Tensor:
    return torch.stack([batch["input_ids"] for micro_batches in feed.steps(steps) for batch in micro_batches])


def test_the_same_seed_gives_the_same_batches_with_or_without_workers(loader: Callable[..., Loader]) -> None:
    alone = stream(loader())
    assert alone.shape == (8, 4, 16), "three batches an epoch: it goes on"
    assert torch.equal(alone, stream(loader()))
    assert torch.equal(alone, stream(loader(workers=2)))
    assert not torch.equal(alone, stream(loader(rank=1)))
    assert not torch.equal(alone, stream(loader(seed=1)))
    ((batch, _),) = loader().steps(1)
    assert set(batch) == {"input_ids", "attention_mask", "labels"}, "what the model takes: no token types"


def test_parity_repeats_the_beginning_of_the_stream(loader: Callable[..., Loader]) -> None:
    expected = stream(loader(), 1)
    feed = loader()
    feed.repeat([0, 1])
    repeated = stream(feed, 2)
    assert torch.equal(repeated, torch.cat([expected, expected]))
    assert feed.waited() is None


def test_waiting_for_batches_is_counted_and_training_is_not(loader: Callable[..., Loader]) -> None:
    feed = loader()
    ticks = itertools.count()
    feed.clock = lambda: float(next(ticks))
    assert sum(1 for _ in feed.steps(3)) == 3
    assert feed.waited() == 3.0, "one tick between the two looks at the clock of each step"
    list(feed.steps(2))
    assert feed.waited() == 2.0


def test_padding_is_measured(loader: Callable[..., Loader]) -> None:
    lengths = [len(local_data.sentence(n).split()) + 2 for n in range(24)]
    share = loader().padding_share
    assert share == pytest.approx(1 - np.mean(lengths) / 16, abs=0.1)


def children() -> list[int]:
    return [child.pid for child in multiprocessing.active_children() if child.pid]


def test_workers_are_in_the_rank_s_group_and_their_time_is_its_own(loader: Callable[..., Loader]) -> None:
    before = cpu_seconds()
    feed = loader(workers=2)
    stream(feed, 1)
    workers = children()
    assert len(workers) == 2
    assert {os.getpgid(pid) for pid in workers} == {os.getpgid(0)}, "one signal reaches them all"
    assert cpu_seconds() > before


def test_workers_do_not_outlive_a_rank_that_is_killed(loader: Callable[..., Loader], tmp_path: Path) -> None:
    told = tmp_path / "workers"
    rank = os.fork()
    if rank == 0:
        feed = loader(workers=2)
        stream(feed, 1)
        told.write_text(json.dumps(children()))
        time.sleep(60)
        os._exit(0)
    while not told.exists() or not told.read_text():
        time.sleep(0.05)
    workers = json.loads(told.read_text())
    os.kill(rank, signal.SIGKILL)
    os.waitpid(rank, 0)
    assert len(workers) == 2
    while any(map(alive, workers)):
        time.sleep(0.05)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_sample_that_cannot_be_read_ends_the_launch_in_a_sentence(
    loader: Callable[..., Loader], monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    def breaking(self: Batches, draw: Draw) -> None:
        if draw.seed[-1] == 3:
            raise UserError("x.png cannot be read as an image; replace it or take it away.")
        return whole(self, draw)

    whole: Any = Batches.__getitem__
    monkeypatch.setattr(Batches, "__getitem__", breaking)
    with pytest.raises(UserError) as caught:
        list(loader(workers=workers).steps(2))
    assert in_a_line(caught.value) == "x.png cannot be read as an image; replace it or take it away."
    assert status_of(caught.value) == "crashed"

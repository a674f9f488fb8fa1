"""Small datasets, tokenizers and processors on disk, made with the real libraries."""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import soundfile
from PIL import Image
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from transformers import (
    PreTrainedTokenizerFast,
    ViTImageProcessor,
    WhisperFeatureExtractor,
    WhisperProcessor,
    WhisperTokenizer,
)

NOUNS = ["cat", "dog", "mat", "hill", "sat", "ran", "on", "the", "a"]
WORDS = [*NOUNS, "red", "blue", "big", "small", "happy", "sad", "very", ",", ".", "?", "who", "where"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = len(SPECIAL) + len(WORDS)
RATE = 16_000


def sentence(number: int) -> str:
    """A sentence of 3 to 9 known words, another for each number."""
    random = np.random.default_rng(number)
    return " ".join(random.choice(WORDS[:16], size=random.integers(3, 10)))


def tokenizer(folder: Path, *, without: Sequence[str] = (), **changes: Any) -> str:
    """A word-level tokenizer that knows `WORDS`; the folder it was saved in."""
    made = Tokenizer(WordLevel({word: n for n, word in enumerate(SPECIAL + WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = BertPreTokenizer()
    made.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    for name in without:
        del names[f"{name}_token"]
    PreTrainedTokenizerFast(tokenizer_object=made, **names, **changes).save_pretrained(folder)
    return str(folder)


def image_processor(folder: Path, size: int = 16) -> str:
    """Of a small vision transformer."""
    ViTImageProcessor(size={"height": size, "width": size}).save_pretrained(folder)
    return str(folder)


def speech_processor(folder: Path) -> str:
    """Whisper's, for one second instead of thirty, with a vocabulary of letters."""
    folder.mkdir(parents=True)
    letters = [*"abcdefghijklmnopqrstuvwxyz", "Ġ"]
    special = [
        *("<|endoftext|>", "<|startoftranscript|>", "<|en|>"),
        *("<|transcribe|>", "<|translate|>", "<|notimestamps|>"),
    ]
    (folder / "vocab.json").write_text(json.dumps({word: n for n, word in enumerate(letters)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    words = WhisperTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), unk_token="a")
    words.add_special_tokens({"additional_special_tokens": special})
    extractor = WhisperFeatureExtractor(feature_size=8, chunk_length=1, sampling_rate=RATE)
    WhisperProcessor(extractor, words).save_pretrained(folder)
    return str(folder)


def lines(path: Path, rows: Sequence[dict[str, Any]]) -> str:
    """A folder with one JSON-lines file, `train.jsonl`."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


def images(path: Path, count: int = 12, classes: Sequence[str] = ("cat", "dog")) -> str:
    """A folder of images for each class."""
    for number in range(count):
        folder = path / classes[number % len(classes)]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (20, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return str(path)


takes_sounds = pytest.mark.skipif(
    int(datasets.__version__.split(".")[0]) > 3 and find_spec("torchcodec") is None,
    reason="this version of datasets takes sounds with torchcodec alone",
)


def sounds(path: Path, count: int = 8, rate: int = RATE) -> str:
    """Half a second of noise each, and `metadata.csv` with the words."""
    path.mkdir(parents=True, exist_ok=True)
    rows = ["file_name,text"]
    for number in range(count):
        noise = np.random.default_rng(number).normal(0, 0.1, rate // 2)
        soundfile.write(path / f"{number}.wav", noise, rate)
        rows.append(f"{number}.wav,{'abc'[: 1 + number % 3]}")
    (path / "metadata.csv").write_text("\n".join(rows) + "\n")
    return str(path)


def rows(task: str, count: int = 12) -> list[dict[str, Any]]:
    """What a text task's dataset holds."""
    made: dict[str, Any] = {
        "masked-lm": lambda n: {"text": sentence(n)},
        "causal-lm": lambda n: {"text": sentence(n)},
        "sequence-classification": lambda n: {"text": sentence(n), "label": n % 2},
        "token-classification": lambda n: {
            "tokens": sentence(n).split(),
            "ner_tags": [place % 3 for place in range(len(sentence(n).split()))],
        },
        "question-answering": lambda n: {
            "question": "where sat the cat ?",
            "context": f"{sentence(n)} hill . {sentence(n + 100)} .",
            "answers": {"text": ["hill"], "answer_start": [len(sentence(n)) + 1]},
        },
        "translation": lambda n: {"translation": {"en": sentence(n), "de": sentence(n + 1)}},
    }
    return [made[task](number) for number in range(count)]

"""Token classification: one class for each word, carried by the word's first token."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from bench.errors import UserError
from bench.plugins.hf.preparation import Samples, TaskPreparation
from bench.plugins.hf.preparation._labels import numbering
from bench.worker.workload.tasks import IGNORED


class Preparation(TaskPreparation):
    """Works like transformers' run_ner.py with --pad_to_max_length."""

    columns = ("tokens", "ner_tags")

    def prepare(self, dataset: Any) -> Samples:
        """Words become tokens; only the first token of a word has a label."""
        tokenizer = self.check_tokenizer(self.processor, fast=True)
        feature = getattr(dataset.features["ner_tags"], "feature", None)
        tags = (_list(row, "ner_tags", self) for row in dataset["ner_tags"])
        numbers = numbering(feature, chain.from_iterable(tags), "ner_tags", self)

        def encode(rows: dict[str, list[Any]]) -> Any:
            for words, labels in zip(rows["tokens"], rows["ner_tags"], strict=True):
                if len(_list(words, "tokens", self)) != len(labels):
                    raise UserError(
                        f"data.path={self.data.path} must have a tag for each token, and a row has "
                        f"{len(words)} tokens and {len(labels)} ner_tags",
                        "correct it",
                    )
            encoded = tokenizer(rows["tokens"], is_split_into_words=True, **self.padded)
            labels = [
                _of_first_tokens(encoded.word_ids(place), [numbers[tag] for tag in tags])
                for place, tags in enumerate(rows["ner_tags"])
            ]
            return {**encoded, "labels": labels}

        return self.tokenize(dataset, encode)


def _of_first_tokens(words: Sequence[int | None], labels: Sequence[int]) -> list[int]:
    """A label for each token; `words` holds the number of each token's word, None for a special token."""
    return [
        IGNORED if word is None or (place and words[place - 1] == word) else labels[word]
        for place, word in enumerate(words)
    ]


def _list(row: Any, column: str, task: TaskPreparation) -> list[Any]:
    if not isinstance(row, list):
        raise UserError(
            f"{task.where(column)} must hold a list in every row, not {row!r:.40}; "
            f"set ++data.columns={{{column}: …}}."
        )
    return row

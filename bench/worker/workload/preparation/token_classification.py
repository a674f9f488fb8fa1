"""Token classification: one class for each word, carried by the word's first token."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from bench.errors import UserError
from bench.worker.workload import preparation
from bench.worker.workload.preparation import Context, Samples
from bench.worker.workload.preparation.labels import numbering
from bench.worker.workload.preparation.processors import check_tokenizer
from bench.worker.workload.preparation.tokenized import RowError, tokenized
from bench.worker.workload.tasks import IGNORED


class Preparation(preparation.Preparation):
    """Works like transformers' run_ner.py with --pad_to_max_length."""

    columns = ("tokens", "ner_tags")

    def samples(self, dataset: Any, context: Context) -> Samples:
        """Words become tokens; only the first token of a word has a label."""
        tokenizer = context.processor
        check_tokenizer(tokenizer, context, fast=True)
        feature = getattr(dataset.features["ner_tags"], "feature", None)
        tags = (_list(row, "ner_tags", context) for row in dataset["ner_tags"])
        numbers = numbering(feature, chain.from_iterable(tags), "ner_tags", context)

        def encode(rows: dict[str, list[Any]]) -> Any:
            for number, (words, labels) in enumerate(zip(rows["tokens"], rows["ner_tags"], strict=True)):
                if len(_list(words, "tokens", context)) != len(labels):
                    raise RowError(
                        number,
                        f"data.path={context.data.path} must have a tag for each token",
                        f"{len(words)} tokens and {len(labels)} ner_tags",
                        "correct it",
                    )
            encoded = tokenizer(rows["tokens"], is_split_into_words=True, **context.padded)
            labels = [
                _of_first_tokens(encoded.word_ids(place), [numbers[tag] for tag in tags])
                for place, tags in enumerate(rows["ner_tags"])
            ]
            return {**encoded, "labels": labels}

        return tokenized(dataset, encode, context)


def _of_first_tokens(words: Sequence[int | None], labels: Sequence[int]) -> list[int]:
    """A label for each token, of which `words` says the word it belongs to; None: it is special."""
    return [
        IGNORED if word is None or (place and words[place - 1] == word) else labels[word]
        for place, word in enumerate(words)
    ]


def _list(row: Any, column: str, context: Context) -> list[Any]:
    if not isinstance(row, list):
        raise UserError(
            f"{context.where(column)} must hold a list in every row, not {row!r:.40}; "
            f"set ++data.columns={{{column}: …}}."
        )
    return row

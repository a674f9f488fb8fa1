"""Text classification: one class for a text, or for a pair of texts."""

from typing import Any

from bench.worker.workload import preparation
from bench.worker.workload.preparation import Context, Samples
from bench.worker.workload.preparation.labels import classes
from bench.worker.workload.preparation.processors import check_tokenizer
from bench.worker.workload.preparation.tokenized import text, tokenized


class Preparation(preparation.Preparation):
    """Works like transformers' run_glue.py with --pad_to_max_length."""

    columns = ("text", "label")
    optional = ("text_pair",)

    def samples(self, dataset: Any, context: Context) -> Samples:
        """Every text, or pair, cut off or padded to `seq_len`."""
        tokenizer = context.processor
        check_tokenizer(tokenizer, context)
        numbers = classes(dataset, "label", context)
        if context.settings.pad_token_id is None:
            # GPT-like classifiers look for the last token that is none of these.
            context.settings.pad_token_id = tokenizer.pad_token_id
        texts = [name for name in ("text", "text_pair") if name in dataset.column_names]

        def encode(rows: dict[str, list[Any]]) -> Any:
            encoded = tokenizer(*(text(rows[name], name, context) for name in texts), **context.padded)
            return {**encoded, "labels": [numbers[label] for label in rows["label"]]}

        return tokenized(dataset, encode, context)

"""Masked language modelling on texts: padded line by line, masked anew in every epoch."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.errors import UserError
from bench.worker.workload import preparation
from bench.worker.workload.preparation import Context, Samples, stacked
from bench.worker.workload.preparation.processors import check_tokenizer
from bench.worker.workload.preparation.tokenized import text, tokenized
from bench.worker.workload.tasks import Arrays
from bench.worker.workload.tokens import hidden


class Preparation(preparation.Preparation):
    """Works like transformers' run_mlm.py with --line_by_line --pad_to_max_length."""

    columns = ("text",)

    def samples(self, dataset: Any, context: Context) -> Samples:
        """Every text cut off or padded to `seq_len`; empty ones are left out."""
        tokenizer = context.processor
        check_tokenizer(tokenizer, context)
        if tokenizer.mask_token is None:
            raise UserError(
                f"data.processor={context.data.processor} has no mask token, which model.task=masked-lm "
                "hides words with; choose the tokenizer of a masked language model."
            )

        def encode(rows: dict[str, list[Any]]) -> dict[str, list[list[int]]]:
            lines = text(rows["text"], "text", context, may_be_empty=True)
            encoded = tokenizer(lines, return_special_tokens_mask=True, **context.padded)
            # Not before: a tokenizer takes no empty list, and a thousand lines may all be empty.
            filled = [place for place, line in enumerate(lines) if line.strip()]
            return {name: [column[place] for place in filled] for name, column in encoded.items()}

        return tokenized(dataset, encode, context)

    def batch(self, samples: Sequence[Arrays], context: Context, random: np.random.Generator) -> Arrays:
        """Hide 15 % of the words, other ones each time."""
        made = stacked(samples)
        special = made.pop("special_tokens_mask")
        ids, labels = hidden(
            made["input_ids"],
            eligible=(special == 0) & (made["attention_mask"] == 1),
            mask_token=context.processor.mask_token_id,
            vocabulary=len(context.processor),
            padding=context.processor.pad_token_id,
            random=random,
        )
        return made | {"input_ids": ids, "labels": labels}

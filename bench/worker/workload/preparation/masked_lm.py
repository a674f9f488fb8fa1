"""Masked language modelling on texts: padded line by line, masked anew in every epoch."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.errors import UserError
from bench.worker.workload.preparation import Context, Samples, stacked
from bench.worker.workload.preparation.processors import check_tokenizer
from bench.worker.workload.preparation.tokenized import text, tokenized
from bench.worker.workload.tasks import IGNORED, Arrays, Integers
from bench.worker.workload.tasks.masked_lm import MASKED_SHARE


class Preparation:
    """As transformers' run_mlm.py does with --line_by_line --pad_to_max_length."""

    columns = ("text",)
    optional: tuple[str, ...] = ()
    processor = "AutoTokenizer"

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
            lines = text(rows["text"], "text", context)
            encoded = tokenizer(
                lines,
                padding="max_length",
                truncation=True,
                max_length=context.seq_len,
                return_special_tokens_mask=True,
            )
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
            random=random,
        )
        return made | {"input_ids": ids, "labels": labels}


def hidden(
    ids: Integers, *, eligible: Any, mask_token: int, vocabulary: int, random: np.random.Generator
) -> tuple[Integers, Integers]:
    """Inputs and labels: of the chosen 15 %, 80 % become the mask, 10 % any token, and 10 % stay.

    A row in which nothing was chosen gets its first eligible token: without a label its loss is undefined.
    Source: Devlin et al. 2018, arXiv:1810.04805, section 3.1.

    Args:
        ids: int64 of shape (batch, length).
        eligible: true where there is a word, of the same shape.
        mask_token: id of the mask.
        vocabulary: how many ids there are.
        random: of this batch.
    """
    chosen = (random.random(ids.shape) < MASKED_SHARE) & eligible
    without = np.flatnonzero(~chosen.any(axis=1) & eligible.any(axis=1))
    chosen[without, eligible[without].argmax(axis=1)] = True
    fate = random.random(ids.shape)
    others = random.integers(0, vocabulary, size=ids.shape, dtype=np.int64)
    inputs = np.where(chosen & (fate < 0.8), mask_token, ids)
    inputs = np.where(chosen & (fate >= 0.8) & (fate < 0.9), others, inputs)
    return inputs.astype(np.int64), np.where(chosen, ids, IGNORED)

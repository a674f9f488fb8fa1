"""Masked language modelling on texts: padded line by line, masked anew in every epoch."""

from typing import Any

import numpy as np

from bench.errors import UserError
from bench.plugins.hf.preparation import Samples, TaskPreparation
from bench.worker.workload.tasks import Arrays, hidden


class Preparation(TaskPreparation):
    """Works like transformers' run_mlm.py with --line_by_line --pad_to_max_length."""

    columns = ("text",)

    def prepare(self, dataset: Any) -> Samples:
        """Every text cut off or padded to `seq_len`; empty ones are left out."""
        tokenizer = self.check_tokenizer(self.processor)
        if tokenizer.mask_token is None:
            raise UserError(
                f"data.processor={self.data.processor} has no mask token, which model.task=masked-lm "
                "hides words with; choose the tokenizer of a masked language model."
            )

        def encode(rows: dict[str, list[Any]]) -> dict[str, list[list[int]]]:
            lines = self.text(rows["text"], "text", may_be_empty=True)
            encoded = tokenizer(lines, return_special_tokens_mask=True, **self.padded)
            # Not before: a tokenizer takes no empty list, and a thousand lines may all be empty.
            filled = [place for place, line in enumerate(lines) if line.strip()]
            return {name: [column[place] for place in filled] for name, column in encoded.items()}

        return self.tokenize(dataset, encode)

    def finish(self, batch: Arrays, random: np.random.Generator) -> Arrays:
        """Hide 15 % of the words, other ones each time."""
        special = batch.pop("special_tokens_mask")
        ids, labels = hidden(
            batch["input_ids"],
            eligible=(special == 0) & (batch["attention_mask"] == 1),
            mask_token=self.processor.mask_token_id,
            vocabulary=len(self.processor),
            padding=self.processor.pad_token_id,
            random=random,
        )
        return batch | {"input_ids": ids, "labels": labels}

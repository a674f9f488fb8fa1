"""Causal language modelling on texts: joined and cut into pieces of equal length."""

from itertools import chain
from typing import Any

import numpy as np

from bench.plugins.hf.preparation import Samples, TaskPreparation
from bench.worker.workload.tasks import Arrays


class Preparation(TaskPreparation):
    """Works like transformers' run_clm.py: no padding, and the rest of a thousand texts is dropped."""

    columns = ("text",)

    def prepare(self, dataset: Any) -> Samples:
        """Pieces of `seq_len` tokens."""
        tokenizer, length = self.check_tokenizer(self.processor, pads=False), self.seq_len
        assert length is not None, "bench.config.schema sees to it"

        def encode(rows: dict[str, list[Any]]) -> dict[str, list[list[int]]]:
            encoded = tokenizer(self.text(rows["text"], "text", may_be_empty=True), verbose=False)
            ids = list(chain.from_iterable(encoded["input_ids"]))
            whole = len(ids) // length * length
            return {"input_ids": [ids[start : start + length] for start in range(0, whole, length)]}

        return self.tokenize(dataset, encode)

    def finish(self, batch: Arrays, random: np.random.Generator) -> Arrays:  # noqa: ARG002
        """The model shifts the labels itself."""
        ids = batch["input_ids"]
        return {"input_ids": ids, "attention_mask": np.ones_like(ids), "labels": ids.copy()}

"""Causal language modelling on texts: joined and cut into pieces of equal length."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from bench.worker.workload import preparation
from bench.worker.workload.preparation import Context, Samples, stacked
from bench.worker.workload.preparation.processors import check_tokenizer
from bench.worker.workload.preparation.tokenized import text, tokenized
from bench.worker.workload.tasks import Arrays


class Preparation(preparation.Preparation):
    """Works like transformers' run_clm.py: no padding, and the rest of a thousand texts is dropped."""

    columns = ("text",)

    def samples(self, dataset: Any, context: Context) -> Samples:
        """Pieces of `seq_len` tokens."""
        tokenizer, length = context.processor, context.seq_len
        assert length is not None, "bench.config.schema sees to it"
        check_tokenizer(tokenizer, context, pads=False)

        def encode(rows: dict[str, list[Any]]) -> dict[str, list[list[int]]]:
            encoded = tokenizer(text(rows["text"], "text", context, may_be_empty=True), verbose=False)[
                "input_ids"
            ]
            ids = list(chain.from_iterable(encoded))
            whole = len(ids) // length * length
            return {"input_ids": [ids[start : start + length] for start in range(0, whole, length)]}

        return tokenized(dataset, encode, context)

    def batch(self, samples: Sequence[Arrays], context: Context, random: np.random.Generator) -> Arrays:
        """The model shifts the labels itself."""
        del context, random
        ids = stacked(samples)["input_ids"]
        return {"input_ids": ids, "attention_mask": np.ones_like(ids), "labels": ids.copy()}

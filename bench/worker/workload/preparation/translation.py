"""Translation: a text in one language, with the text in the other as its labels."""

from typing import Any

from bench.worker.workload import preparation
from bench.worker.workload.preparation import Context, Samples
from bench.worker.workload.preparation.processors import check_tokenizer
from bench.worker.workload.preparation.tokenized import text, tokenized
from bench.worker.workload.tasks import IGNORED


class Preparation(preparation.Preparation):
    """Works like transformers' run_translation.py with --pad_to_max_length.

    `++data.columns={source: translation.de, target: translation.en}` fits the datasets of the hub. The model
    makes the decoder's inputs out of the labels.
    """

    columns = ("source", "target")

    def samples(self, dataset: Any, context: Context) -> Samples:
        """Both texts cut off or padded to `seq_len`."""
        tokenizer = context.processor
        check_tokenizer(tokenizer, context)

        def encode(rows: dict[str, list[Any]]) -> Any:
            encoded = tokenizer(text(rows["source"], "source", context), **context.padded)
            targets = tokenizer(text_target=text(rows["target"], "target", context), **context.padded)
            return {
                **encoded,
                "labels": [
                    [token if real else IGNORED for token, real in zip(ids, mask, strict=True)]
                    for ids, mask in zip(targets["input_ids"], targets["attention_mask"], strict=True)
                ],
            }

        return tokenized(dataset, encode, context)

"""Translation: a text in one language, with the text in the other as its labels."""

from typing import Any

from bench.plugins.hf.preparation import Samples, TaskPreparation
from bench.worker.workload.tasks import IGNORED


class Preparation(TaskPreparation):
    """Works like transformers' run_translation.py with --pad_to_max_length."""

    columns = ("source", "target")

    def prepare(self, dataset: Any) -> Samples:
        """Both texts cut off or padded to `seq_len`."""
        tokenizer = self.check_tokenizer(self.processor)

        def encode(rows: dict[str, list[Any]]) -> Any:
            encoded = tokenizer(self.text(rows["source"], "source"), **self.padded)
            targets = tokenizer(text_target=self.text(rows["target"], "target"), **self.padded)
            return {
                **encoded,
                "labels": [
                    [token if real else IGNORED for token, real in zip(ids, mask, strict=True)]
                    for ids, mask in zip(targets["input_ids"], targets["attention_mask"], strict=True)
                ],
            }

        return self.tokenize(dataset, encode)

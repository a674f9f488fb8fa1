"""Text classification: one class for a text, or for a pair of texts."""

from typing import Any

from bench.plugins.hf.preparation import Samples, TaskPreparation
from bench.plugins.hf.preparation._labels import classes


class Preparation(TaskPreparation):
    """Works like transformers' run_glue.py with --pad_to_max_length."""

    columns = ("text", "label")
    optional = ("text_pair",)

    def prepare(self, dataset: Any) -> Samples:
        """Every text, or pair, cut off or padded to `seq_len`."""
        tokenizer = self.check_tokenizer(self.processor)
        numbers = classes(dataset, "label", self)
        if self.settings.pad_token_id is None:
            # GPT-like classifiers use the last token that is none of these.
            self.settings.pad_token_id = tokenizer.pad_token_id
        texts = [name for name in ("text", "text_pair") if name in dataset.column_names]

        def encode(rows: dict[str, list[Any]]) -> Any:
            encoded = tokenizer(*(self.text(rows[name], name) for name in texts), **self.padded)
            return {**encoded, "labels": [numbers[label] for label in rows["label"]]}

        return self.tokenize(dataset, encode)

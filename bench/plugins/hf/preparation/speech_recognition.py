"""Speech recognition: sound as a spectrogram, made when it is asked for; the labels are the words spoken."""

from typing import Any

import numpy as np
import numpy.typing as npt
from datasets import Audio

from bench.errors import UserError
from bench.plugins.hf.preparation import Samples
from bench.plugins.hf.preparation._media import MediaPreparation
from bench.worker.workload.tasks import IGNORED, Arrays


class Preparation(MediaPreparation):
    """Works like transformers' run_speech_recognition_seq2seq.py; labels are padded to `seq_len`."""

    columns = ("audio", "text")
    processor_class = "AutoProcessor"
    column, kind, kinds, feature = "audio", "sound", "sounds", Audio

    def prepare(self, dataset: Any) -> Samples:
        """Spectrograms, float32 of shape (mel bins, frames), and labels."""
        for part in ("tokenizer", "feature_extractor"):
            if not hasattr(self.processor, part):
                raise UserError(
                    f"data.processor={self.data.processor} has no {part}, and speech needs one; "
                    "give a folder in which a whole speech processor was saved."
                )
        self.check_tokenizer(self.processor.tokenizer)
        self.text(dataset["text"], "text")  # now, while its rows have the dataset's numbers
        self.keep(dataset)
        return self

    def finish(self, batch: Arrays, random: np.random.Generator) -> Arrays:  # noqa: ARG002
        """Leave out the start token that all labels have: the model puts it there."""
        start = self.settings.decoder_start_token_id
        if start is not None and (batch["labels"][:, 0] == start).all():
            behind = np.full_like(batch["labels"][:, :1], IGNORED)
            batch["labels"] = np.concatenate([batch["labels"][:, 1:], behind], axis=1)  # one shape for all
        return batch

    def __getitem__(self, numbers: list[int]) -> Arrays:
        rows = self.dataset[numbers]
        words = self.processor.tokenizer(rows["text"], return_tensors="np", **self.padded)
        labels = np.where(words["attention_mask"] == 1, words["input_ids"], IGNORED).astype(np.int64)
        return {"input_features": self.read(rows["audio"]), "labels": labels}

    def open(self, file: Any) -> Any:
        """Samples of shape (samples, channels), and how many a second has."""
        import soundfile  # only where there is sound

        return soundfile.read(file, dtype="float32", always_2d=True)

    def convert(self, opened: Any, entry: dict[str, Any]) -> npt.NDArray[Any]:
        """The spectrogram, of shape (mel bins, frames)."""
        samples, rate = opened
        extractor = self.processor.feature_extractor
        if rate != extractor.sampling_rate:
            raise UserError(
                f"{self.name_of(entry)} has {rate:,} samples a second, but "
                f"data.processor={self.data.processor} takes {extractor.sampling_rate:,}; "
                "convert the dataset to that rate first."
            )
        made = extractor(samples.mean(axis=1), sampling_rate=rate, return_tensors="np")
        return np.asarray(made["input_features"][0])

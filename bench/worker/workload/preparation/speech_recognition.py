"""Speech recognition: sound as a spectrogram, made when it is asked for; the labels are the words spoken."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from datasets import Audio

from bench.errors import UserError
from bench.worker.workload import preparation
from bench.worker.workload.preparation import Context, Samples, stacked
from bench.worker.workload.preparation.media import MediaFiles
from bench.worker.workload.preparation.processors import check_tokenizer
from bench.worker.workload.preparation.tokenized import text
from bench.worker.workload.tasks import IGNORED, Arrays


class Preparation(preparation.Preparation):
    """Works like transformers' run_speech_recognition_seq2seq.py, for models like Whisper.

    Labels are padded to `seq_len`; the model makes the decoder's inputs out of them.
    """

    columns = ("audio", "text")
    processor = "AutoProcessor"

    def samples(self, dataset: Any, context: Context) -> Samples:
        """Spectrograms, float32 of shape (mel bins, frames), and labels."""
        for part in ("tokenizer", "feature_extractor"):
            if not hasattr(context.processor, part):
                raise UserError(
                    f"data.processor={context.data.processor} has no {part}, and speech needs one; "
                    "give a folder in which a whole speech processor was saved."
                )
        check_tokenizer(context.processor.tokenizer, context)
        return Sounds(dataset, Audio, context)

    def batch(self, samples: Sequence[Arrays], context: Context, random: np.random.Generator) -> Arrays:
        """The samples, stacked, without the start token that all labels have: the model puts it there."""
        del random
        made = stacked(samples)
        start = context.settings.decoder_start_token_id
        if start is not None and (made["labels"][:, 0] == start).all():
            behind = np.full_like(made["labels"][:, :1], IGNORED)
            made["labels"] = np.concatenate([made["labels"][:, 1:], behind], axis=1)  # one shape for all
        return made


class Sounds(MediaFiles):
    """Spectrograms and the tokens of what is said."""

    column, kind, kinds = "audio", "sound", "sounds"

    def __getitem__(self, numbers: list[int]) -> list[Arrays]:
        rows = self.dataset[numbers]
        lines = text(rows["text"], "text", self.context)
        words = self.context.processor.tokenizer(lines, return_tensors="np", **self.context.padded)
        labels = np.where(words["attention_mask"] == 1, words["input_ids"], IGNORED).astype(np.int64)
        return [
            {"input_features": self.read(sound), "labels": label}
            for sound, label in zip(rows["audio"], labels, strict=True)
        ]

    def open(self, file: Any) -> Any:
        """Samples of shape (samples, channels), and how many a second has."""
        import soundfile  # only where there is sound

        return soundfile.read(file, dtype="float32", always_2d=True)

    def convert(self, opened: Any, entry: dict[str, Any]) -> npt.NDArray[Any]:
        """The spectrogram, of shape (mel bins, frames)."""
        samples, rate = opened
        extractor = self.context.processor.feature_extractor
        if rate != extractor.sampling_rate:
            raise UserError(
                f"{self.name_of(entry)} has {rate:,} samples a second, but "
                f"data.processor={self.context.data.processor} takes {extractor.sampling_rate:,}; "
                "convert the dataset to that rate first."
            )
        made = extractor(samples.mean(axis=1), sampling_rate=rate, return_tensors="np")
        features = np.asarray(made["input_features"][0])
        self._check_size(features.shape)
        return features

    def _check_size(self, shape: tuple[int, ...]) -> None:
        """Compare with what the model says that it takes, where it says so: two frames for each position."""
        bins = getattr(self.context.settings, "num_mel_bins", None)
        positions = getattr(self.context.settings, "max_source_positions", None)
        if bins is not None and positions is not None and shape != (bins, 2 * positions):
            raise UserError(
                f"data.processor={self.context.data.processor} makes {shape[0]} bins x {shape[1]} frames, "
                f"but model.name={self.context.model} takes {bins} x {2 * positions}; choose the model's own "
                f"processor, or set ++model.config.num_mel_bins={shape[0]} "
                f"++model.config.max_source_positions={shape[1] // 2}."
            )

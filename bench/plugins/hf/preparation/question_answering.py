"""Extractive question answering: where in a context the answer starts and ends."""

from collections.abc import Sequence
from typing import Any

from bench.errors import UserError
from bench.plugins.hf.preparation import Samples, TaskPreparation

LONGEST_QUESTION, STRIDE = 64, 128
"""Tokens of a question, and by which the pieces of a long context overlap (google-research/bert,
run_squad.py: max_query_length, doc_stride); less where `seq_len` is short."""

SPECIAL = 4  # special tokens of a pair, at most (RoBERTa has four, BERT three)


class Preparation(TaskPreparation):
    """Works like transformers' run_qa.py with --pad_to_max_length; questions are cut off as BERT's were.

    A context that is too long becomes several samples; where the answer is not in one, both positions are
    that of the first token.
    """

    columns = ("question", "context", "answers")

    def prepare(self, dataset: Any) -> Samples:
        """Question and context, padded to `seq_len`."""
        tokenizer, length = self.check_tokenizer(self.processor, fast=True), self.seq_len
        assert length is not None, "bench.config.schema sees to it"
        longest = min(LONGEST_QUESTION, length // 4)
        stride = min(STRIDE, (length - longest - SPECIAL) // 2)

        def encode(rows: dict[str, list[Any]]) -> Any:
            questions = [line.lstrip() for line in self.text(rows["question"], "question")]
            encoded = tokenizer(
                [_shortened(tokenizer, question, longest) for question in questions],
                self.text(rows["context"], "context"),
                truncation="only_second",
                max_length=length,
                stride=stride,
                padding="max_length",
                return_overflowing_tokens=True,
                return_offsets_mapping=True,
            )
            offsets = encoded.pop("offset_mapping")
            rows_of = encoded.pop("overflow_to_sample_mapping")
            spans = [
                _span(offsets[place], encoded.sequence_ids(place), _answer(rows["answers"][row], self))
                for place, row in enumerate(rows_of)
            ]
            starts, ends = zip(*spans, strict=True) if spans else ((), ())
            return {**encoded, "start_positions": list(starts), "end_positions": list(ends)}

        return self.tokenize(dataset, encode)


def _shortened(tokenizer: Any, question: str, longest: int) -> str:
    offsets = tokenizer(question, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return question if len(offsets) <= longest else question[: offsets[longest - 1][1]]


def _answer(answers: Any, task: TaskPreparation) -> tuple[int, int] | None:
    """First character of the answer and the one behind it; None: there is none."""
    try:
        if not answers["answer_start"]:
            return None
        start = int(answers["answer_start"][0])
        return start, start + len(answers["text"][0])
    except (TypeError, KeyError, IndexError, ValueError) as error:
        raise UserError(
            f"{task.where('answers')} must hold {{text: […], answer_start: […]}} in every row, as SQuAD "
            "has it; set ++data.columns={answers: …}."
        ) from error


def _span(
    offsets: Sequence[tuple[int, int]], sequence: Sequence[int | None], answer: tuple[int, int] | None
) -> tuple[int, int]:
    """First and last token of the answer; (0, 0) where this piece of the context does not hold all of it.

    `offsets` are in the characters of each token's text, and `sequence` is 1 for tokens of the context.
    """
    inside = [place for place, kind in enumerate(sequence) if kind == 1]
    if answer is None or not inside:
        return 0, 0
    start, end = answer
    if offsets[inside[0]][0] > start or offsets[inside[-1]][1] < end:
        return 0, 0
    first = max((place for place in inside if offsets[place][0] <= start), default=0)
    last = min((place for place in inside if offsets[place][1] >= end), default=first)
    return first, max(first, last)

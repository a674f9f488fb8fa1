"""Tokenizers and processors, and whether they fit the model."""

from pathlib import Path
from typing import Any

import transformers

from bench.errors import UserError
from bench.worker.workload.preparation.source import first_words

UNLIMITED = 10**9
"""A tokenizer without a limit says that it has a much larger one (transformers' VERY_LARGE_INTEGER)."""

KINDS = {
    "AutoTokenizer": "a tokenizer",
    "AutoImageProcessor": "an image processor",
    "AutoProcessor": "a speech processor",
}

POSITIONS = ("max_position_embeddings", "n_positions", "max_target_positions")
"""What configurations call the number of their position embeddings."""


def load(kind: str, where: str | None) -> Any:
    """The processor in a folder or of a hub id; `kind` is a key of `KINDS`.

    Raises:
        UserError: there is none.
    """
    if where is None:
        raise UserError(
            f"data=hf needs {KINDS[kind]}; set data.processor=… to a folder or the id of a model on the hub."
        )
    place = "is a folder, but" if Path(where).exists() else "is no folder here, and as a hub id"
    try:
        return getattr(transformers, kind).from_pretrained(where, trust_remote_code=False)
    except Exception as error:
        raise UserError(
            f"data.processor={where} {place} {KINDS[kind]} cannot be loaded from it: {first_words(error)}; "
            "give the folder or hub id of one that was saved with save_pretrained."
        ) from error


def check_tokenizer(tokenizer: Any, context: Any, *, fast: bool = False, pads: bool = True) -> None:
    """Refuse a tokenizer that does not fit the model, the length or the task.

    Args:
        tokenizer: of transformers.
        context: a `bench.worker.workload.preparation.Context`.
        fast: the task needs to know which token came from where.
        pads: the task pads.

    Raises:
        UserError: with the remedy.
    """
    where, settings = context.data.processor, context.settings
    words, rows = len(tokenizer), getattr(settings, "vocab_size", None)
    if rows is not None and words > rows:
        raise UserError(
            f"data.processor={where} knows {words:,} tokens, but model.name={context.model} embeds {rows:,}; "
            f"choose the model's own tokenizer, or set ++model.config.vocab_size={words}."
        )
    positions = min(
        (limit for name in POSITIONS if (limit := getattr(settings, name, None)) is not None),
        default=UNLIMITED,
    )
    if context.seq_len > positions:
        raise UserError(
            f"seq_len={context.seq_len} is longer than the {positions} positions of "
            f"model.name={context.model}; choose a shorter one."
        )
    if context.seq_len > tokenizer.model_max_length:
        raise UserError(
            f"seq_len={context.seq_len} is longer than the {tokenizer.model_max_length} tokens that "
            f"data.processor={where} allows (its model_max_length); choose a shorter one."
        )
    if fast and not tokenizer.is_fast:
        raise UserError(
            f"data.processor={where} is a slow tokenizer, which cannot tell where a token came from; "
            "give one with a tokenizer.json."
        )
    if pads and tokenizer.pad_token is None:
        if tokenizer.eos_token is None:
            raise UserError(
                f"data.processor={where} has neither a padding nor an end-of-text token; "
                "save it with a pad_token."
            )
        tokenizer.pad_token = tokenizer.eos_token  # as training scripts do for GPT-2
    tokenizer.padding_side = "right"  # where every synthetic batch has it

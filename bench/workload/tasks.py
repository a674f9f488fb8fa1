"""The training tasks: which model head, and how a batch of token ids becomes inputs and labels."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Arrays = dict[str, Integers]

IGNORED = -100
"""The label that torch's cross entropy leaves out."""

MASKED_SHARE = 0.15
"""Share of the real tokens that BERT predicts; of these 80 % become [MASK] and 10 % a random token.

Source: Devlin et al. 2018, arXiv:1810.04805, section 3.1.
"""


def masked_lm(ids: Integers, mask: Integers, vocabulary: int, random: np.random.Generator) -> Arrays:
    """BERT's masking; `ids` and `mask` are int64 of shape (batch, length)."""
    real = mask.astype(bool)
    chosen = (random.random(ids.shape) < MASKED_SHARE) & real
    chosen[:, 0] = True  # a row without a single label would have an undefined loss
    fate = random.random(ids.shape)
    inputs = ids.copy()
    inputs[chosen & (fate < 0.8)] = MASK_TOKEN % vocabulary
    replaced = chosen & (fate >= 0.8) & (fate < 0.9)
    inputs[replaced] = random.integers(0, vocabulary, size=int(replaced.sum()))
    return {
        "input_ids": inputs,
        "attention_mask": mask,
        "labels": np.where(chosen, ids, IGNORED),
    }


def causal_lm(
    ids: Integers,
    mask: Integers,
    vocabulary: int,  # noqa: ARG001 - every task has the same form
    random: np.random.Generator,  # noqa: ARG001
) -> Arrays:
    """Next-token prediction on the real tokens; the model shifts the labels itself."""
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "labels": np.where(mask.astype(bool), ids, IGNORED),
    }


MASK_TOKEN = 103
"""[MASK] in BERT's uncased vocabulary; with random weights any fixed token serves."""

INPUTS: dict[str, Callable[[Integers, Integers, int, np.random.Generator], Arrays]] = {
    "masked-lm": masked_lm,
    "causal-lm": causal_lm,
}

HEADS = {"masked-lm": "AutoModelForMaskedLM", "causal-lm": "AutoModelForCausalLM"}
"""The transformers class that holds the task's head."""

"""Kinds of models and of shardings, in the field's words and in the order in which they are shown."""

import re

from bench.config.choices import OWN_TASK

ENCODERS = "text encoders"
DECODERS = "decoders"
ENCODER_DECODERS = "encoder-decoders"
VISION = "vision"
SPEECH = "speech"
OWN = "own modules"

MODALITIES = (ENCODERS, DECODERS, ENCODER_DECODERS, VISION, SPEECH, OWN)
"""In the order in which they are shown."""

_BY_TASK = {
    "causal-lm": DECODERS,
    "translation": ENCODER_DECODERS,
    "image-classification": VISION,
    "masked-image-modeling": VISION,
    "semantic-segmentation": VISION,
    "speech-recognition": SPEECH,
    "speech-recognition-ctc": SPEECH,
    OWN_TASK: OWN,
}
"""Tasks that only one kind of model has."""

_DECODERS = re.compile(r"gpt|llama|mistral|mixtral|phi|opt-|bloom|falcon|gemma|qwen")
_ENCODER_DECODERS = re.compile(r"(m|mt)?bart|m?t5|pegasus|marian")
"""How the names of the models begin that have a task which encoders have, too."""


def modality_of(model: str, task: str) -> str:
    """One of `MODALITIES`; a model that is not known to be something else counts as a text encoder."""
    if modality := _BY_TASK.get(task):
        return modality
    if _DECODERS.match(model):
        return DECODERS
    return ENCODER_DECODERS if _ENCODER_DECODERS.match(model) else ENCODERS


SHARDINGS = {
    "ddp": "DDP",
    "zero_redundancy": "ZeroRedundancyOptimizer",
    "zero1": "ZeRO-1",
    "zero1_native": "ZeRO-1 in 16 bits alone",
    "zero2": "ZeRO-2",
    "zero3": "ZeRO-3",
    "zero2_offload": "ZeRO-2, offloaded",
    "zero3_offload": "ZeRO-3, offloaded",
    "fsdp2": "FSDP2",
}
"""Shardings in the field's words, in the order of tables and legends."""


def name_sharding(sharding: str) -> str:
    """A sharding in the field's words; an unknown one as it is."""
    return SHARDINGS.get(sharding, sharding)


def place_of_sharding(sharding: str) -> int:
    """Where a sharding stands among others; unknown ones are last."""
    return [*SHARDINGS, sharding].index(sharding)

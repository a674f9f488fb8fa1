"""Which kind of model a model is, for charts and tables that show many: from its task, and its name."""

import re

ENCODERS = "text encoders"
DECODERS = "decoders"
ENCODER_DECODERS = "encoder-decoders"
VISION = "vision"
SPEECH = "speech"

MODALITIES = (ENCODERS, DECODERS, ENCODER_DECODERS, VISION, SPEECH)
"""In the order in which they are shown."""

_BY_TASK = {
    "causal-lm": DECODERS,
    "translation": ENCODER_DECODERS,
    "image-classification": VISION,
    "masked-image-modeling": VISION,
    "semantic-segmentation": VISION,
    "speech-recognition": SPEECH,
    "speech-recognition-ctc": SPEECH,
}
"""Tasks that only one kind of model has."""

_DECODERS = re.compile(r"gpt|llama|mistral|mixtral|phi|opt-|bloom|falcon|gemma|qwen")
_ENCODER_DECODERS = re.compile(r"(m|mt)?bart|m?t5|pegasus|marian")
"""How the names of the models begin that have a task which encoders have, too."""


def modality_of(model: str, task: str) -> str:
    """One of `MODALITIES`; a model that is not known to be something else counts as a text encoder."""
    if modality := _BY_TASK.get(task.partition(",")[0]):  # behind a comma stands what is said of the loss
        return modality
    if _DECODERS.match(model):
        return DECODERS
    return ENCODER_DECODERS if _ENCODER_DECODERS.match(model) else ENCODERS

"""The text of `data=python_docs`: Python's own documentation of the language, byte by byte.

Python ships it for `help()`, so that nothing has to be downloaded. Other versions of Python ship other texts:
a digest identifies the text.
"""

import hashlib
from functools import cache

NAME = "python_docs"

TASKS = ("causal-lm", "masked-lm")  # what can be learnt from a text without labels

FIRST_ID = 8
"""The token of byte 0. Smaller ids are those with which most models pad, begin and end."""

BYTES = 256
MASK_ID = FIRST_ID + BYTES
VOCABULARY = MASK_ID + 1  # how many words a model must know
HELD_OUT_PART = 10  # the last 1/10 of the bytes is never trained on


@cache
def text() -> bytes:
    """All topics, in the order of their names, in UTF-8."""
    from pydoc_data.topics import topics  # half a megabyte, needed only here

    return "\n\n".join(topics[name] for name in sorted(topics)).encode()


def split() -> tuple[bytes, bytes]:
    """The part that is trained on, and the part that is held out."""
    whole = text()
    end = len(whole) - len(whole) // HELD_OUT_PART
    return whole[:end], whole[end:]


def digest() -> str:
    """A digest that distinguishes this text from that of another version of Python."""
    return hashlib.sha256(text()).hexdigest()[:12]

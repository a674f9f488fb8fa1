"""Importing large frameworks in less time."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_collector_off() -> Iterator[None]:
    """Keep Python's cyclic garbage collector off.

    Importing torch and transformers makes hundreds of thousands of objects and hardly any garbage; searching
    them time and again is a fifth of the whole.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()

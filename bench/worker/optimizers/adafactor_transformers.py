"""transformers' Adafactor (Shazeer & Stern 2018, arXiv:1804.04235), as its Trainer makes it."""

from functools import partial

from transformers.optimization import Adafactor

SHARED = ("lr", "weight_decay")

build = partial(Adafactor, scale_parameter=False, relative_step=False)

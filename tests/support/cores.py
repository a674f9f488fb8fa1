"""A mark of tests whose ranks, or nodes, need a core each."""

import os

import pytest

two_cores = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="two ranks need two cores of their own"
)

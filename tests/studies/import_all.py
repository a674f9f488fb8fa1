"""`python -m tests.studies.import_all MODULE … [-- WORD …]`: pytest, then all imports."""

import sys
from importlib import import_module
from itertools import takewhile

import pytest

modules = [*takewhile(lambda word: word != "--", sys.argv[1:])]
words = sys.argv[len(modules) + 2 :]
status = pytest.main(words) if words else 0
for name in modules:
    import_module(name)
sys.exit(status)

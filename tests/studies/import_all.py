"""`python -m tests.studies.import_all MODULE …`: import these."""

import sys
from importlib import import_module

for name in sys.argv[1:]:
    import_module(name)

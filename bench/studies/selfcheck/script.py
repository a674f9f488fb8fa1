"""`python -m bench.studies.selfcheck.script SCRIPT ARGUMENTS…` runs a script that ends with its agent."""

import os
import runpy
import sys

from bench.launch.lifeline import AGENT_VARIABLE, die_with

if __name__ == "__main__":
    die_with(int(os.environ[AGENT_VARIABLE]), "bench-rank")
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")

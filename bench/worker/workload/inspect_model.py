"""Makes a model's transformers configuration once, before any launch, to find what the user has to correct.

`python -m bench.worker.workload.inspect_model PARENT_PID MODEL.json` prints one sentence and ends with
status 2 if there is something.
"""

import json
import os
import sys
from pathlib import Path

import msgspec

from bench.config.model import Model
from bench.errors import LaunchFailed
from bench.launch.lifeline import die_with


def main() -> int:
    """Check the model that the file in argv describes; the exit status."""
    die_with(int(sys.argv[1]))
    model = msgspec.convert(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")), Model)
    from bench.worker.workload.settings import configuration, naming_what_cannot_be_read  # imports torch

    try:
        with naming_what_cannot_be_read(model):
            configuration(model)
    except LaunchFailed as error:
        print(" ".join(error.message.split()))
        return 2
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # as a rank does: tearing frameworks down takes long and can fail

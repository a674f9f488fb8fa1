"""What programs that look at something of the user's before any launch have in common."""

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from bench.errors import LaunchFailed, UserError
from bench.launch.lifeline import die_with


def end_after(inspect: Callable[[dict[str, Any]], None]) -> NoReturn:
    """Inspect what a file describes, and end this process: `-m MODULE PARENT_PID SPEC.json`.

    With status 2 after one sentence on stdout if the user has something to correct.
    """
    die_with(int(sys.argv[1]))
    status = 0
    try:
        inspect(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
    except (LaunchFailed, UserError) as error:
        traceback.print_exc()
        sentence = " ".join((error.message if isinstance(error, LaunchFailed) else str(error)).split())
        print(sentence if sentence.endswith("?") else f"{sentence.rstrip('.')}.")
        status = 2
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # as a rank does: tearing frameworks down takes long and can fail

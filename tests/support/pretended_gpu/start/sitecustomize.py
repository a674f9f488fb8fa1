"""Python runs this at its start, in every process that has this folder on its path."""

import os
import sys
from pathlib import Path

if os.environ.get("PRETENDED_GPU_COUNT"):
    sys.path.append(str(Path(__file__).resolve().parents[4]))
    from tests.support.pretended_gpu import hook

    hook.install()

"""What would run on this machine, what would not, and how to repair it: `make doctor`."""

import sys

if sys.version_info < (3, 10):  # noqa: UP036 - `make doctor` runs on what there is
    sys.exit(
        f"Python {sys.version_info[0]}.{sys.version_info[1]} is too old for the harness, which needs 3.10: "
        "name a newer one, PYTHON=python3.11 after `make`."
    )

"""What would run on this machine, what would not, and how to repair it: `make doctor`."""

import sys

if sys.version_info < (3, 10):  # noqa: UP036 - `make doctor` runs on what there is
    sys.exit(
        f"Python {sys.version_info[0]}.{sys.version_info[1]} is too old for the doctor, which needs 3.10: "
        "run `make setup`, which brings a newer one, or name one, PYTHON=/path/to/python3 after `make`."
    )

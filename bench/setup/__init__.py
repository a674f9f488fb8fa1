"""Make the environments of this checkout, one for each stack, and know what is installed in them."""

import sys

if sys.version_info < (3, 8):  # noqa: UP036 - it starts on any Python; later syntax would be a traceback
    sys.exit(
        "Python {}.{} is too old to start the set-up, which needs 3.8 and brings what else it needs: "
        "name a newer one, PYTHON=/path/to/python3 after `make`.".format(*sys.version_info)
    )

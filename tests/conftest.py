"""What holds for all tests."""

import signal

# A shell starts its background jobs with SIGINT ignored, and what the tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

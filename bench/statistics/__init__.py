"""Speed-ups with their intervals: what a measurement needs of its own rows, to know when it may stop."""

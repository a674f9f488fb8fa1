"""Other machines: the program that serves a comparison there, and the coordinator's side of it."""

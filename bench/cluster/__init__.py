"""Other machines: the program that serves a comparison there, the coordinator's side of it, SLURM."""

"""What a process or a machine can tell about itself: GPUs, memory, CPU time, energy."""

"""Measures a process and its machine while they work: GPUs, memory, CPU time, energy."""

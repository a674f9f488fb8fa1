"""What this machine has, and what a process on it uses: cores, memory, GPUs, versions, counters."""

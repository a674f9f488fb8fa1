"""`make methods`: what each method of training saves, and what it costs."""

from bench.study import Study

STUDY = Study(answers="What do bf16, checkpointing, 8-bit Adam … save and cost?", command="make methods")

"""Training loops as users have them, one module each, in place of the harness's own bare loop.

A module's class `Loop` does what a sharding does (`bench.worker.sharding.Sharding`), and is made as one: it
wraps the module, makes a step and proves what ran. Each rank trains by DDP, as all of these loops do by
themselves.
"""

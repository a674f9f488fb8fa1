"""Training loops as users have them, one module each, in place of the harness's own bare loop.

A module's class `Loop` does what a sharding does (`bench.worker.sharding.Sharding`), and is made as one: it
wraps the module, makes a step and proves what ran. All of these loops train by DDP; `SHARDINGS_OF_LOOPS` of
`bench/config/choices.py` says which have DeepSpeed, too.
"""

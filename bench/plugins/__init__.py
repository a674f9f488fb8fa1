"""What a user may ask for beside a comparison with made batches, a folder each; none imports another.

`cluster`: other machines. `doctor`: what would run here. `tracking`: experiment trackers. `user_model`: a
user's module. `hf`, `python_docs`: data. Of these `feed.make` makes a `Feed` of
`bench.worker.workload.feeds`; `check` has `describe`, for rows, and `check`, which refuses a comparison and
names weights without a gradient.
"""

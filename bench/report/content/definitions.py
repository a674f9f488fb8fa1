"""How the numbers of a report are defined, for its readers."""

METHOD = (
    "Speed-up: the ratio of samples/s within each round, midmean of the logarithms over the rounds of a "
    "launch, then geometric mean over launches; 95 % confidence interval: Student's t over the launches."
)

LEFT_ALONE = (
    "threads or allocator were left alone: its speed-ups are no results (docs/methodology.md, Fairness)"
)
"""A note on a comparison that does not hold threads and allocator equal, as a fair one does."""

NO_ANSWER = (
    "Nothing here compares a backend with PyTorch as it has to be: every comparison left something alone on "
    "purpose, timed nothing, or had no backend beside its reference."
)
"""In place of an answer."""

DEFINITIONS = (
    (
        "samples/s",
        "steps × global batch ÷ seconds of the slowest rank; midmean of the logarithms over the rounds of a "
        "launch, geometric mean over launches.",
    ),
    ("tokens/s", "samples/s × sequence length, padding included."),
    ("speed-up", METHOD.removeprefix("Speed-up: ")),
    (
        "verdict",
        "same if the interval lies within ± the margin; else faster or slower if it excludes 1; else, and "
        "after a single launch, inconclusive. By chance alone 1 in 20 backends that are as fast as the "
        "reference is called faster or slower.",
    ),
    (
        "of limit",
        "model FLOP/s ÷ the limit, both of all ranks. The model's FLOPs are counted: forward and backward of "
        "the reference with eager attention, padding included, optimizer and recomputation not. The limit is "
        "the highest rate of matrix products that any engine of the comparison reached, at the workload's "
        "own shapes or of large squares, at the same precision, before anything is timed, on all ranks at a "
        "time.",
    ),
    (
        "peak MiB",
        "highest of the timed blocks: the device's where there is one, else of the rank that has most.",
    ),
    (
        "largest batch",
        "with measure.batch=max each backend is measured at its own micro-batch: the largest with which a "
        "fresh start trains until it is warm, all under the same memory limit. The search doubles, then "
        "bisects; the smallest that did not fit is at most 3 % (at least 1) larger, unless "
        "measure.most_trials ended it. Such results have tables and figures of their own.",
    ),
    ("set-up s, first step s", "medians over launches; export and compilation are in the first step."),
    (
        "break-even steps",
        "extra set-up and first step ÷ seconds saved per step, where the verdict is faster.",
    ),
    (
        "attribution",
        "each choice's effect is averaged over all orders of changing one at a time (Shapley value); "
        "the parts multiply to the whole; intervals are over launches.",
    ),
)
"""What each number in the tables means."""

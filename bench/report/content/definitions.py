"""How the numbers of a report are defined, for its readers."""

METHOD = (
    "Speed-up: the ratio of samples/s within each round, midmean of the logarithms over the rounds of a "
    "launch, then geometric mean over launches; 95 % confidence interval: Student's t over the launches."
)

SEEDS = (
    "Speed-up: of each seed the midmean of the logarithms over the rounds of all its launches, then "
    "geometric mean over seeds; 95 % confidence interval: Student's t over the seeds."
)

FALSE_VERDICTS = 0.05
"""The share of equally fast backends that a 95 % interval calls faster or slower."""

LEFT_ALONE = (
    "threads or allocator were left alone: its speed-ups are no results (docs/methodology.md, Fairness)"
)
"""A note on a comparison that does not hold threads and allocator equal, as a fair one does."""

NO_ANSWER = (
    "Nothing here compares a backend with PyTorch as it has to be: every comparison left something alone on "
    "purpose, timed nothing, or had no backend beside its reference."
)
"""In place of an answer."""

ABOUT_MODELS = (
    "A row is one comparison: samples/s over those of PyTorch in the same rounds, with the 95 % interval "
    "over launches and the verdict. Best PyTorch: the fastest of several PyTorch backends of the same "
    "comparison. Peak memory: of each backend over that of PyTorch, on the rank or GPU that has most. "
    "A model that was compared several times is shown by the comparison with most of these backends and the "
    "fewest other settings."
)
"""How to read the table with one row for each model."""

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
        "after a single launch, inconclusive.",
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
        "measure.most_trials ended it. Such results have tables, figures and means of their own, apart from "
        "those at equal batch.",
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
    (
        "geometric mean",
        "over the workloads that have a speed-up, slowdowns as they are; one that was compared several times "
        "counts once; beside it how many comparisons have one.",
    ),
)
"""What each number in the tables means."""

BEGINNING = (
    "Packages: all of which the process uses something. Files: weights, or what was made for a device "
    "beforehand. Times are medians over launches, from the beginning of set-up, without the start of Python."
)
"""How to read the table of what backends take to begin."""

TARGET = (
    "Reached: at the first evaluation at which the held-out loss is at or below the target. Seconds: of the "
    "timed blocks until then; with start: set-up, first step and warm-up, too. Means over launches, each of "
    "them a seed, with 95 % intervals. Sooner: the reference's seconds over the backend's in the same "
    "launch, geometric mean over launches; without a number where one of the two did not always come there. "
    "Equivalent: two one-sided t tests at 5 % find the final losses, paired by launch, within the margin; "
    "different: the 95 % interval of the difference excludes 0; open: neither."
)
"""How to read the table of the time to a target."""

EXPORTED = (
    "After a few steps without dropout, from the same weights and batches, each model is exported to ONNX, "
    "and runs in ONNX Runtime on one micro-batch. Differences are the largest absolute ones between outputs; "
    "all models take turns at inference."
)
"""How to read the table of exported models."""

CHECKPOINTS = (
    "The state of the training after a few steps without dropout: weights, optimizer's state, loss scaling "
    "and generators. Saving ends when all files are on the disk with their sums. A fresh process loads it; "
    "the difference is the largest relative one of its next losses and gradient norms from those of the "
    "process that saved and went on."
)
"""How to read the table of checkpoints."""

ABOUT_CLAIMS = (
    "A verdict speaks of the comparisons that are named beside it and of nothing else: miniatures on a CPU "
    "say little of large models on GPUs."
)
"""How to read the verdicts on claims."""

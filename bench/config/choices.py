"""The words and limits of the configuration: engines, shardings, tasks, precisions, tolerances.

Constants alone, so that any module may import them. An engine, optimizer, sharding or task is known as soon
as its module exists.
"""

from bench.setup.checkout import ROOT

CONF = ROOT / "conf"  # the shipped configuration files


def _modules(folder: str) -> tuple[str, ...]:
    """Return the names of the modules in a folder of `bench/worker`, except those with a leading underscore.

    They are found as files: importing them would import a framework.
    """
    return tuple(sorted(path.stem for path in (ROOT / "bench" / "worker" / folder).glob("[!_]*.py")))


ENGINES = _modules("engines")  # what executes forward and backward

OPTIMIZERS = _modules("optimizers")
OTHER_UPDATES = {
    "adafactor": "one first moment less, and the second as a row and a column",
    "adafactor_transformers": "one first moment less, and the second as a row and a column",
    "adamw_8bit_bitsandbytes": "moments of 8 bits",
    "adamw_8bit_torchao": "moments of 8 bits",
    "adamw_4bit_torchao": "moments of 4 bits",
}
"""The optimizers whose update is not AdamW's with moments in fp32, and what they have instead.

Trained with one of them, a model has the reference's loss and gradient in the first step alone.
"""

SHARDINGS = _modules("sharding")
"""How the ranks share the work and what they hold of weights, gradients and optimizer states."""

DEEPSPEED = ("zero1", "zero1_native", "zero2", "zero3", "zero2_offload", "zero3_offload")
"""Shardings that DeepSpeed does; torch does the others."""

OFFLOADED = ("zero2_offload", "zero3_offload")
"""Shardings under which the host holds the optimizer's states and takes its step."""

IN_16_BITS_ALONE = ("zero1_native",)
"""Shardings that hold 16-bit weights and gradients themselves, and cannot train in fp32."""

DIVIDED = {
    "ddp": (),
    "zero_redundancy": ("optimizer",),
    "zero1": ("optimizer",),
    "zero1_native": ("optimizer",),
    "zero2": ("optimizer", "gradients"),
    "zero3": ("optimizer", "gradients", "weights"),
    "zero2_offload": ("optimizer", "gradients"),
    "zero3_offload": ("optimizer", "gradients", "weights"),
    "fsdp2": ("optimizer", "gradients", "weights"),
}
"""What the ranks divide among them under each sharding; every rank holds all the rest."""

WITHOUT_WHOLE_WEIGHTS = tuple(name for name, divided in DIVIDED.items() if "weights" in divided)
"""Shardings under which a rank has a layer's weights only while it computes that layer."""

LOOPS = ("bare", *_modules("loops"))  # what makes the steps: the harness's loop, or another library's

SHARDINGS_OF_LOOPS = dict.fromkeys(
    ("trainer", "ort_trainer"), ("ddp", *(name for name in DEEPSPEED if name not in IN_16_BITS_ALONE))
)
"""The shardings of each loop. The bare loop trains under all; a loop that is not listed has DDP alone."""

TASKS = tuple(name.replace("_", "-") for name in _modules("workload/tasks"))

USER_TASK = "own"  # as the hashes of committed results have it
"""The task of a user's module, which has no head of transformers: its loss defines the task."""

WITHOUT_LENGTH = ("image-classification", "semantic-segmentation")
"""Tasks whose samples have no sequence length."""

ATTENTIONS = ("eager", "sdpa", "flash_attention_2")
BEST_ATTENTION = "best"
"""The attention of a backend that leaves it to the rank: sdpa where transformers has the model with it."""

PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
SIXTEEN_BITS = ("bf16", "fp16")  # precisions in which the matrix products run in 16 bits

LOSS_TOLERANCE = {"fp32": 1e-4, "tf32": 1e-3, "fp16": 5e-3, "bf16": 2e-2}
"""By precision, the default of measure.parity_tolerance: relative, on the loss of every step. It allows for
rounding to 24, 11, 11 and 8 significant bits."""

LENGTHS = ("full", "uniform")
"""How the lengths of synthetic samples are distributed: bench.worker.workload.synthetic."""

RENDEZVOUS = ("rdzv_endpoint", "rdzv_timeout_s")
"""Settings of `device` about how nodes meet, which change nothing that is measured."""

DEFAULT_BACKENDS = ("pytorch", "pytorch_best", "ortmodule", "ortmodule_zero1")
"""The backends of `make bench`; names and titles mention only others."""

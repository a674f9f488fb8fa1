"""What is refused of a comparison with this text, and how its rows name it."""

import importlib.util

from bench.config import sizes
from bench.config.data import Data
from bench.config.schema import Config, global_batch
from bench.errors import UserError
from bench.plugins.python_docs import text
from bench.plugins.python_docs.text import NAME, TASKS, VOCABULARY


def describe(data: Data) -> str:
    """Which text it is: another Python may have another one."""
    return f"{data.name}:{text.digest()}"


def check(config: Config) -> list[str]:
    """Refuse a model that cannot learn from bytes, and batches that a tenth of the text would not fill."""
    task, size = config.model.task, config.model.size
    words = sizes.resize(config.model.dimensions, size).get("vocab_size")
    if task not in TASKS:
        raise UserError(
            f"data={NAME} is a text without labels, and model.task={task} needs some",
            f"choose a model of another task, such as bert-tiny, or model.task={TASKS[-1]}",
        )
    if isinstance(words, int) and words < VOCABULARY:
        raise UserError(
            f"data={NAME} has {VOCABULARY} words, more than model.config.vocab_size={words}",
            f"set model.config.vocab_size={VOCABULARY} or more",
        )
    if importlib.util.find_spec("pydoc_data") is None:
        raise UserError(
            f"data={NAME} is a part of Python's own library, pydoc_data, which this Python lacks",
            "install all of Python, or choose other data",
        )
    assert config.seq_len is not None, "these tasks have lengths"
    training, held_out = (len(part) // config.seq_len for part in text.split())
    samples = global_batch(config.micro_batch, config.grad_accum, config.device.world_size)
    if samples > training or not held_out:
        raise UserError(
            f"data={NAME} has {training:,} samples of seq_len={config.seq_len} to train on, and one step "
            f"takes {samples:,}",
            "lower micro_batch, grad_accum or seq_len",
        )
    return []

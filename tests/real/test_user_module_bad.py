"""Mistakes in the user's module: each ends in one sentence that says what to correct."""

from pathlib import Path
from typing import Any

import pytest

from bench.config.model import Model
from bench.errors import LONGEST_MESSAGE, LaunchFailed, UserError
from tests.support.configs import a_model

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from bench.plugins.user_model.inspection import inspect_module  # noqa: E402 - it needs both
from bench.worker.workload import model as models  # noqa: E402 - it needs both

GOOD = """
import torch
from torch.nn import functional as F

class Net(torch.nn.Module):
    def __init__(self, width=4, dropout=0.5):
        super().__init__()
        self.layer = torch.nn.Linear(width, 2)
        self.drop = torch.nn.Dropout(dropout)
        self.dropout = dropout
        self.dropped_features = 3

    def forward(self, x, labels):
        return F.cross_entropy(F.dropout(self.drop(self.layer(x)), self.dropout, self.training), labels)

def example_batch(batch_size, seed):
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(batch_size, 4, generator=random)
    return {"x": x, "labels": (x.sum(1) > 0).long()}
"""


def user_module(folder: Path, code: str, name: str = "Net", **config: Any) -> Model:
    """A module of the given code."""
    file = folder / "user_net.py"
    file.write_text(code)
    return a_model(module=f"{file}:{name}", task="own", architecture=None, config=config, seq_len=None)


def inspect(model: Model, *, seq_len: int | None = None, checkpointing: bool = False) -> list[str]:
    return inspect_module(
        model, micro_batch=3, seq_len=seq_len, seed=0, device="cpu", checkpointing=checkpointing
    )


def test_a_module_is_built_with_and_without_its_dropout(tmp_path: Path) -> None:
    model = user_module(tmp_path, GOOD, dropout=0.25)
    inspect(model)
    probabilities = []
    for dropout in (True, False):
        module: Any = models.build(model, attention="eager", dropout=dropout)
        probabilities.append((module.drop.p, module.dropout))
        assert module.dropped_features == 3, "a number of something is no probability"
    assert probabilities == [(0.25, 0.25), (0.0, 0.0)]


@pytest.mark.parametrize(
    "code",
    [
        GOOD.replace("return F.cross", 'return {"logits": x, "loss": F.cross').replace(
            "labels)\n\ndef", "labels)}\n\ndef"
        ),
        GOOD.replace(", labels):", "):").replace("F.cross_entropy(", "(").replace(", labels)\n", ", x)\n")
        + "def loss(output, batch): return F.cross_entropy(output[0], batch['labels'])\n",
        GOOD.replace("def example_batch", "def _batch") + "Net.example_batch = staticmethod(_batch)\n",
        GOOD + "def make_net(**config): return Net(**config)\n",
    ],
)
def test_every_way_to_write_a_module_trains(code: str, tmp_path: Path) -> None:
    inspect(user_module(tmp_path, code, name="make_net" if "make_net" in code else "Net", width=4))


def instead(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


FORWARD = "return F.cross_entropy(F.dropout(self.drop(self.layer(x)), self.dropout, self.training), labels)"
BATCH = 'return {"x": x, "labels": (x.sum(1) > 0).long()}'

LOSS = """
def loss(output, batch):
    first = output if isinstance(output, torch.Tensor) else output["loss"]
    return 2 * first + batch["labels"].float().mean()
"""


@pytest.mark.parametrize("returned", ['{"loss": first, "logits": x}', "first"])
def test_the_file_s_loss_counts_where_forward_returns_one_too(returned: str, tmp_path: Path) -> None:
    code = instead(FORWARD, f"first = 3 * self.layer(x).mean(); return {returned}").replace(
        ", labels):", "):"
    )
    model = user_module(tmp_path, code + LOSS)
    inspect(model)
    module: Any = models.build(model, attention="eager", dropout=False)
    x, labels = torch.randn(6, 4), torch.tensor([0, 1, 1, 1, 1, 0])
    torch.testing.assert_close(module(x=x, labels=labels).loss, 6 * module.layer(x).mean() + 4 / 6)


SPARSE = "the gradient of layer.weight is sparse, and backends compare and average dense ones; leave"
LAYER = "torch.nn.Linear(width, 2)"
LABELS = "(x.sum(1) > 0).long()"
FIRST = "self.dropout = dropout"  # of what __init__ might do beside that
SIGNATURE = "def example_batch(batch_size, seed):"
MODULE = "class Net(torch.nn.Module):"
NO_TENSOR = "return self.layer(x)\n\ndef loss(output, batch): return output.sum().item()"

MISTAKES = [  # what stands in GOOD, what a user writes instead, and what is said
    (MODULE, "class Nets(torch.nn.Module):", "has no class or function Net; did you mean Nets?"),
    (MODULE, "class Net:\n  pass\nclass Other(torch.nn.Module):", "must be a torch.nn.Module"),
    ("import torch\n", "import torch, torchh\n", "correct user_net.py, line 2"),
    ("width=4", "width", "set +model.config.width=…"),
    # weights
    (LAYER, "torch.nn.LazyLinear(2)", "layer.weight has no shape before the first batch; give its layer"),
    (FIRST, f"{FIRST}; self.layer.double()", "layer.weight is torch.float64; build the module in"),
    (FIRST, f"{FIRST}; self.p = torch.nn.Parameter(torch.ones(2) + 0j)", "p is torch.complex64; build"),
    # forward and loss
    ("def forward(self, x,", "def forward(self, y,", "x, labels: missing a required argument: 'y'; give"),
    (FORWARD, "return self.layer(x)", "write a function loss(output, batch)"),
    (FORWARD, "return {'loss': self.layer(x)}", "shape (2, 2); take its .mean()"),
    (FORWARD, NO_TENSOR, "gives a float as the loss; return the tensor, without .item()"),
    (FORWARD, "return self.layer(x), 1", "gives a tuple; return the loss"),
    (FORWARD, "return self.layer(x).sum().detach()", "depends on no parameter"),
    (FORWARD, "return self.layer(x).sum() / 0", "is inf, and must be finite"),
    (FORWARD, "return F.dropout(self.layer(x), 0.5).sum()", "whose name contains drop"),
    (FORWARD, "return F.embedding(labels, self.layer.weight, sparse=True).sum()", SPARSE),
    # batches
    (SIGNATURE, "def batch(batch_size, seed):", "write a function example_batch(batch_size, seed)"),
    (SIGNATURE, "def example_batch(batch_size):", "cannot be called as example_batch(batch_size, seed); let"),
    (SIGNATURE, "def example_batch(batch_size, seed, words):", "example_batch(batch_size, seed, words) of"),
    (LABELS, "(x.sum(0) > 0).long()", "gives labels the shape (4,)"),
    (LABELS, "torch.tensor(1)", "first axis must be the samples"),
    (LABELS, "[1] * batch_size", "labels is a list; it must be a tensor"),
    (BATCH, "return x", "example_batch returns a Tensor; it must be a dict"),
    ("manual_seed(seed)", "manual_seed(1)", "draw it with the seed"),
    ("4, generator=random", "4", "other values when it is called again"),
    (BATCH, BATCH.replace("}", ', "mask": x}'), "unexpected keyword argument 'mask'"),
]
SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"widht": 4}, "no model.config.widht; did you mean model.config.width?"),
    ({"width": "four"}, "building model.module="),
    ({"width": 5}, "mat1 and mat2 shapes cannot be multiplied"),
]
ORDINARY_METHOD = "Net.example_batch = lambda self, batch_size, seed: {}\n"


@pytest.mark.parametrize(
    ("code", "config", "words"),
    [
        *((instead(old, new), {}, words) for old, new, words in MISTAKES),
        *((GOOD, config, words) for config, words in SETTINGS),
        (instead("def example_batch", "def _batch") + ORDINARY_METHOD, {}, "example_batch(self, batch_size"),
    ],
)
def test_a_mistake_is_one_sentence(code: str, config: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        inspect(user_module(tmp_path, code, **config))
    assert words in str(caught.value)
    assert len(str(caught.value)) < LONGEST_MESSAGE, "it is cut"


def test_what_a_module_does_not_take_is_refused_and_weights_that_the_loss_does_not_depend_on_are_found(
    tmp_path: Path,
) -> None:
    words = r"checkpointing=true needs .*, unlike Net; set checkpointing=false"
    with pytest.raises(LaunchFailed, match=words):
        inspect(user_module(tmp_path, GOOD), checkpointing=True)
    with pytest.raises(UserError, match="seq_len=16 has no effect"):
        inspect(user_module(tmp_path, GOOD), seq_len=16)
    code = instead("self.dropout =", "self.spare = torch.nn.Linear(1, 1); self.dropout =")
    (other := tmp_path / "other").mkdir()  # a process reads a file once
    assert inspect(user_module(other, code)) == ["spare.weight", "spare.bias"]

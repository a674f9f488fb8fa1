"""Which wrong gradients the parity launch sees, of a real model in this process."""

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.errors import LaunchFailed
from bench.launch.messages import BUFFER, GRADIENT, LAST_GRADIENT, WEIGHT_UPDATE, ExpectedTensor
from bench.measure.stages.judging import OWN_MULTIPLE, check_tensors, judge_tensors
from tests.support.configs import a_model, a_spec
from tests.support.process_group import one_rank

torch = pytest.importorskip("torch")

WORDS = "bert.embeddings.word_embeddings.weight"
QUERY, KEY = (f"bert.encoder.layer.0.attention.self.{name}.weight" for name in ("query", "key"))

Tensors = dict[str, Any]


class Setting:
    """A small model, two micro-batches, and what its first step's gradients should be."""

    def __init__(self, folder: Path) -> None:
        from bench.worker.state import initial_state
        from bench.worker.workload import model as models

        self.spec = replace(
            a_spec(),
            model=a_model(),
            dropout=False,
            initial_state=str(folder / "state"),
            saves_initial_state=True,
            expected_tensors=str(folder / "expected"),
        )
        torch.manual_seed(0)
        self.model = models.build(self.spec.model, attention="eager", dropout=False)
        initial_state.save(self.model, self.spec, rank=0)
        random = torch.Generator().manual_seed(1)
        self.expected: dict[str, ExpectedTensor] = {}
        self.batches = []
        for _ in range(2):
            words = torch.randint(5, 100, (4, 16), generator=random)
            self.batches.append({"input_ids": words, "labels": words})

    def write_expected(self) -> str:
        from bench.worker.state.gradients import write_expected

        written = write_expected(self.spec, [self.batches], rank=0, device=torch.device("cpu"))
        self.expected = written.expected
        return written.absent

    def gradients(self, dtype: Any = torch.float32) -> Tensors:
        """The model's own, computed anew."""
        from bench.worker.sharding import gradients_of
        from bench.worker.state.gradients import run_pass

        run_pass(self.model.to(dtype), self.batches, torch.device("cpu"))
        found = dict(gradients_of(self.model))
        self.model.zero_grad()
        self.model.float()
        return found

    def judge(self, gradients: Tensors, buffers: Tensors) -> None:
        """Raises if they are not the expected ones."""
        from bench.worker.state.gradients import TensorReader

        reader = TensorReader(self.spec.expected_tensors, rank=0)
        reader.read(GRADIENT, gradients.items())
        reader.read(BUFFER, buffers.items())
        check_tensors(judge_tensors(reader.differences, self.expected, "fp32"), "fp32")


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    """In a process group of this process alone."""
    with one_rank():
        made = Setting(tmp_path_factory.mktemp("gradients"))
        assert made.write_expected() == ""
        yield made


def buffers_of(model: Any) -> Tensors:
    return {name: value.clone() for name, value in model.named_buffers()}


def test_weights_are_named_that_have_an_element_whose_first_gradient_may_be_rounding(tmp_path: Path) -> None:
    from bench.worker.state.gradients import TensorWriter, find_unsure

    ones = torch.ones(100)
    tensors = {
        "sure": ones,
        "unused": ones.clone().index_fill_(0, torch.tensor([3]), 0.0),
        "empty": torch.empty(0),
        "unsure": ones.clone().index_fill_(0, torch.tensor([3]), -1e-6),
    }
    TensorWriter(str(tmp_path), rank=0).read(GRADIENT, tensors.items())
    noise = {f"{GRADIENT} {name}": 1e-6 for name in tensors}  # 1e-7 of each element
    assert list(find_unsure(str(tmp_path), noise)) == [f"{WEIGHT_UPDATE} unsure"]


def test_the_right_gradients_pass_in_another_summation_order_too(setting: Setting) -> None:
    setting.judge(setting.gradients(), buffers_of(setting.model))
    gradients = {name: value.float() for name, value in setting.gradients(torch.float64).items()}
    setting.judge(gradients, buffers_of(setting.model))


WRONG: dict[str, Callable[[Tensors], Tensors]] = {
    "scaled": lambda right: right | {QUERY: right[QUERY] * 1.01},
    "lost": lambda right: right | {QUERY: torch.zeros_like(right[QUERY])},
    "forgotten": lambda right: {name: value for name, value in right.items() if name != QUERY},
    "swapped": lambda right: right | {QUERY: right[KEY], KEY: right[QUERY]},
}


@pytest.mark.parametrize("fault", WRONG)
def test_one_wrong_gradient_has_diverged(setting: Setting, fault: str) -> None:
    wrong = WRONG[fault](setting.gradients())
    with pytest.raises(
        LaunchFailed, match=r"gradient bert.encoder.layer.0.attention.self.(query|key).weight"
    ):
        setting.judge(wrong, buffers_of(setting.model))


def test_the_share_of_a_tied_weight_that_the_head_has_is_missed(setting: Setting) -> None:
    """What torch 2.6's compiler loses of the embeddings' gradient on a CPU is of this kind."""
    model = setting.model
    head = model.cls.predictions.decoder
    tied = head.weight
    assert tied is model.bert.embeddings.word_embeddings.weight
    head.weight = torch.nn.Parameter(tied.detach().clone(), requires_grad=False)
    try:
        gradients = setting.gradients()
    finally:
        head.weight = tied
    with pytest.raises(LaunchFailed, match=f"gradient {WORDS}"):
        setting.judge(gradients, buffers_of(model))


def test_two_weights_that_should_be_tied_have_diverged(setting: Setting) -> None:
    gradients = setting.gradients()
    half = gradients[WORDS] / 2
    gradients |= {WORDS: half, "cls.predictions.decoder.weight": half}
    with pytest.raises(LaunchFailed, match="where nothing is expected"):
        setting.judge(gradients, buffers_of(setting.model))


def test_a_buffer_that_was_not_updated_has_diverged_and_one_that_only_one_version_keeps_has_not(
    setting: Setting,
) -> None:
    buffers = buffers_of(setting.model)
    name = next(iter(buffers))
    with pytest.raises(LaunchFailed, match=f"buffer {name}"):
        setting.judge(setting.gradients(), buffers | {name: buffers[name] + 1})
    del buffers[name]
    setting.judge(setting.gradients(), buffers | {"bert.mask": torch.ones(3)})


def test_a_model_that_cannot_be_computed_is_absent(setting: Setting) -> None:
    from bench.worker.state.gradients import write_expected

    without_labels = [{"input_ids": batch["input_ids"]} for batch in setting.batches]  # and without a loss
    spec = replace(setting.spec, expected_tensors=setting.spec.expected_tensors + "-none")
    written = write_expected(spec, [without_labels], rank=0, device=torch.device("cpu"))
    assert "NoneType" in written.absent
    assert not Path(spec.expected_tensors).exists()


class Pairs(torch.nn.Module):  # type: ignore[name-defined]
    """Whose loss, over the pairs of a batch, depends on the order of the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, values: Any, labels: Any) -> Any:
        scores = self.left(values) @ self.right(values).mT
        return SimpleNamespace(loss=torch.nn.functional.cross_entropy(scores, labels))


def test_a_loss_over_pairs_is_not_taken_for_noise(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.worker.state import initial_state

    pairs = copy(setting)
    state, expected = str(tmp_path / "state"), str(tmp_path / "expected")
    pairs.spec = replace(setting.spec, initial_state=state, expected_tensors=expected)
    torch.manual_seed(0)
    model = Pairs()
    initial_state.save(model, pairs.spec, rank=0)
    monkeypatch.setattr("bench.worker.workload.model.build", lambda *_, **__: model)
    pairs.batches = [{"values": torch.randn(4, 8), "labels": torch.arange(4)}]
    assert pairs.write_expected() == ""
    weights = [one for name, one in pairs.expected.items() if "left" in name]
    assert all(one.noise < 1e-5 * one.norm for one in weights)


@pytest.mark.exhaustive
def test_gradients_that_rounding_makes_not_finite_are_absent(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.worker.state import gradients

    def spoil(parameters: Any, *, seed: int) -> None:
        for one in parameters:
            one.data.fill_(float("inf"))

    monkeypatch.setattr(gradients, "disturb", spoil)
    spec = replace(setting.spec, expected_tensors=str(tmp_path))
    written = gradients.write_expected(spec, [setting.batches], rank=0, device=torch.device("cpu"))
    assert "not finite" in written.absent
    assert not written.expected


@pytest.mark.exhaustive
def test_without_memory_for_an_optimizer_the_first_step_is_compared(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.worker.state import gradients

    def step() -> None:
        raise MemoryError("no room for its states")

    def build(*_: object) -> Any:
        return SimpleNamespace(step=step, zero_grad=lambda: None)

    monkeypatch.setattr("bench.worker.optimizers.build", build)
    spec = replace(setting.spec, expected_tensors=setting.spec.expected_tensors + "-first")
    written = gradients.write_expected(spec, [setting.batches] * 3, rank=0, device=torch.device("cpu"))
    assert written.absent == "MemoryError: no room for its states"
    assert written.expected == setting.expected, "as if there were no other steps"
    reader = gradients.TensorReader(spec.expected_tensors, rank=0)
    reader.read(LAST_GRADIENT, setting.gradients().items())
    reader.read_weights(setting.model.named_parameters())
    assert not reader.differences, "of what is not expected nothing is compared"


# --- an attention's kernel in bf16 ----------------------------------------------------------------------


class Kernel(torch.autograd.Function):  # type: ignore[name-defined]
    """Attention as GPUs' kernels compute it: 16 bits for all that is kept, and for factors of products."""

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def forward(context: Any, query: Any, key: Any, value: Any, mask: Any) -> Any:
        scores = query.float() @ key.float().mT * query.shape[-1] ** -0.5
        shares = (scores if mask is None else scores + mask).softmax(-1)
        output = (shares.to(value.dtype).float() @ value.float()).to(value.dtype)
        context.save_for_backward(query, key, value, shares, output)
        return output

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        query, key, value, shares, output = context.saved_tensors
        of_shares = gradient.float() @ value.float().mT
        common = (gradient.float() * output.float()).sum(-1, keepdim=True)  # of a rounded output
        of_scores = (shares * (of_shares - common) * query.shape[-1] ** -0.5).to(query.dtype).float()
        found = (of_scores @ key.float(), of_scores.mT @ query.float(), shares.mT @ gradient.float())
        return *(one.to(query.dtype) for one in found), None


def kernel(query: Any, key: Any, value: Any, attn_mask: Any = None, **_: Any) -> Any:
    return Kernel.apply(query, key, value, attn_mask)


@pytest.mark.exhaustive
def test_an_attention_s_kernel_in_bf16_is_right_and_an_update_lost_beside_it_is_seen(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.worker.state import initial_state
    from bench.worker.state.gradients import TensorReader, train, write_expected
    from bench.worker.workload import model as models
    from bench.worker.workload import precision

    spec = replace(
        setting.spec,
        model=a_model(config=a_model().config | {"hidden_size": 128, "num_hidden_layers": 4}),
        initial_state=str(tmp_path / "state"),
        expected_tensors=str(tmp_path / "expected"),
    )
    cpu, steps, softmax = torch.device("cpu"), [setting.batches] * 4, torch.nn.functional.softmax
    torch.manual_seed(0)
    model = models.build(spec.model, attention="eager", dropout=False)
    for layer in model.bert.encoder.layer:  # alike in all positions, as in the last of many layers
        torch.nn.init.constant_(layer.attention.self.value.bias, 5)
    initial_state.save(model, spec, rank=0)
    expected = write_expected(spec, steps, rank=0, device=cpu).expected
    # As under CUDA's autocast.
    monkeypatch.setattr(
        torch.nn.functional, "softmax", lambda one, dim, **_: softmax(one, dim, dtype=torch.float32)
    )
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", kernel)

    def differences(attention: str) -> dict[str, float]:
        model = models.build(spec.model, attention=attention, dropout=False)
        initial_state.load(model, spec, 0, cpu)
        precision.autocast(model, "bf16", "cpu")
        reader = TensorReader(spec.expected_tensors, rank=0)
        train(model, steps, spec, cpu, reader)
        return reader.differences

    reference, ours = differences("eager"), differences("sdpa")
    verdicts = judge_tensors(ours, expected, "bf16", reference)
    print(*verdicts[:5], sep="\n")
    check_tensors(verdicts, "bf16")
    key = f"{LAST_GRADIENT} bert.encoder.layer.3.attention.self.key.bias"
    assert ours[key] > 5 * OWN_MULTIPLE * reference[key], "far more than the reference's own rounding"
    for part in ("attention.self.value.bias", "output.dense.weight"):
        lost = f"{WEIGHT_UPDATE} bert.encoder.layer.3.{part}"
        with_lost = ours | {lost: expected[lost].norm}
        with pytest.raises(LaunchFailed, match=f"the {lost} in bf16"):
            check_tensors(judge_tensors(with_lost, expected, "bf16", reference), "bf16")

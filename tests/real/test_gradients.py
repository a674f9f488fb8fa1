"""Which wrong gradients the parity launch sees, of a real model in this process."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.errors import LaunchFailed
from bench.launch.messages import BUFFER, GRADIENT, LAST_GRADIENT, ExpectedTensor
from bench.measure.parity import check_tensors, judge_tensors
from tests.support.configs import a_model, a_spec

torch = pytest.importorskip("torch")

WORDS = "bert.embeddings.word_embeddings.weight"
QUERY, KEY = (f"bert.encoder.layer.0.attention.self.{name}.weight" for name in ("query", "key"))

Tensors = dict[str, Any]


class Setting:
    """A small model, two micro-batches, and what its first step's gradients should be."""

    def __init__(self, folder: Path) -> None:
        from bench.worker import initial_state
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
        from bench.worker.gradients import write_expected

        written = write_expected(self.spec, [self.batches], rank=0, device=torch.device("cpu"))
        self.expected = written.expected
        return written.absent

    def gradients(self, dtype: Any = torch.float32) -> Tensors:
        """The model's own, computed anew."""
        from bench.worker.gradients import gradients_of, run_pass

        run_pass(self.model.to(dtype), self.batches, torch.device("cpu"))
        found = dict(gradients_of(self.model))
        self.model.zero_grad()
        self.model.float()
        return found

    def judge(self, gradients: Tensors, buffers: Tensors) -> None:
        """Raises if they are not the expected ones."""
        from bench.worker.gradients import TensorReader

        reader = TensorReader(self.spec.expected_tensors, rank=0)
        reader.read(GRADIENT, gradients.items())
        reader.read(BUFFER, buffers.items())
        check_tensors(judge_tensors(reader.differences, self.expected), "fp32")


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    """In a process group of this process alone."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    made = Setting(tmp_path_factory.mktemp("gradients"))
    assert made.write_expected() == ""
    yield made
    torch.distributed.destroy_process_group()


def buffers_of(model: Any) -> Tensors:
    return {name: value.clone() for name, value in model.named_buffers()}


def test_the_right_gradients_pass(setting: Setting) -> None:
    setting.judge(setting.gradients(), buffers_of(setting.model))


def test_so_do_those_of_another_summation_order(setting: Setting) -> None:
    gradients = {name: value.float() for name, value in setting.gradients(torch.float64).items()}
    setting.judge(gradients, buffers_of(setting.model))


def scale(gradients: Tensors) -> None:
    gradients[QUERY] = gradients[QUERY] * 1.01


def lose(gradients: Tensors) -> None:
    gradients[QUERY] = torch.zeros_like(gradients[QUERY])


def forget(gradients: Tensors) -> None:
    del gradients[QUERY]


def swap(gradients: Tensors) -> None:
    gradients[QUERY], gradients[KEY] = gradients[KEY], gradients[QUERY]


@pytest.mark.parametrize("change", [scale, lose, forget, swap])
def test_one_wrong_gradient_has_diverged(setting: Setting, change: Callable[[Tensors], None]) -> None:
    gradients = setting.gradients()
    change(gradients)
    with pytest.raises(
        LaunchFailed, match=r"gradient bert.encoder.layer.0.attention.self.(query|key).weight"
    ):
        setting.judge(gradients, buffers_of(setting.model))


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


def test_a_buffer_that_was_not_updated_has_diverged(setting: Setting) -> None:
    buffers = buffers_of(setting.model)
    name = next(iter(buffers))
    buffers[name] = buffers[name] + 1
    with pytest.raises(LaunchFailed, match=f"buffer {name}"):
        setting.judge(setting.gradients(), buffers)


def test_a_constant_that_only_one_version_of_a_model_keeps_is_no_error(setting: Setting) -> None:
    buffers = buffers_of(setting.model)
    del buffers[next(iter(buffers))]
    setting.judge(setting.gradients(), buffers | {"bert.mask": torch.ones(3)})


def test_a_model_that_cannot_be_computed_is_absent(setting: Setting) -> None:
    wrong = [
        {"input_ids": batch["input_ids"]} for batch in setting.batches
    ]  # without labels there is no loss
    from bench.worker.gradients import write_expected

    spec = replace(setting.spec, expected_tensors=setting.spec.expected_tensors + "-none")
    assert "NoneType" in write_expected(spec, [wrong], rank=0, device=torch.device("cpu")).absent
    assert not Path(spec.expected_tensors).exists()


def test_without_memory_for_an_optimizer_the_first_step_is_compared(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.worker import gradients

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

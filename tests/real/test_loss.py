"""Label smoothing and class weights, for real: torch's cross entropy, under every backend."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn.functional import cross_entropy  # noqa: E402 - torch may be missing

from bench.config.backend import Backend  # noqa: E402
from bench.config.choices import LOSS_TOLERANCE  # noqa: E402
from bench.config.model import Model  # noqa: E402
from bench.config.training import Precision  # noqa: E402
from bench.errors import UserError  # noqa: E402
from bench.measure.comparison import Comparison  # noqa: E402
from bench.results import csv_files  # noqa: E402
from bench.setup import stacks  # noqa: E402
from bench.worker.workload import feeds  # noqa: E402
from bench.worker.workload import model as models  # noqa: E402
from bench.worker.workload.loss import smoothed_loss  # noqa: E402
from tests.support.configs import a_config, a_model, a_spec  # noqa: E402

SMALL = a_model().config | {"num_labels": 3}
T5 = {"vocab_size": 64, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
GPT2 = {"vocab_size": 64, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64}
VIT = {
    **{"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32},
    **{"image_size": 16, "patch_size": 8, "num_labels": 3},
}
WHISPER = {
    **{"vocab_size": 64, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1},
    **{"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32},
    **{"decoder_ffn_dim": 32, "max_source_positions": 8, "max_target_positions": 32, "num_mel_bins": 8},
    **{"pad_token_id": 1, "bos_token_id": 1, "eos_token_id": 1, "decoder_start_token_id": 2},
    **{"suppress_tokens": None, "begin_suppress_tokens": None},
}
MOE = {
    **{"vocab_size": 64, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2},
    **{
        "num_key_value_heads": 2,
        "intermediate_size": 32,
        "num_local_experts": 4,
        "output_router_logits": True,
    },
}
MIXTRAL = MOE | {"num_experts_per_tok": 2, "router_aux_loss_coef": 0.5, "pad_token_id": 0}
BART = {
    **{"vocab_size": 64, "d_model": 16, "decoder_layers": 1, "decoder_attention_heads": 2},
    **{"decoder_ffn_dim": 32, "max_position_embeddings": 64},
}
WEIGHTS = [1.0, 2.0, 0.5]
KINDS: dict[str, tuple[str, dict[str, Any], list[float] | None]] = {
    "masked-lm": ("bert", SMALL, None),
    "causal-lm": ("gpt2", GPT2, None),
    "translation": ("t5", T5 | {"decoder_start_token_id": 0}, None),
    "speech-recognition": ("whisper", WHISPER, None),
    "sequence-classification": ("bert", SMALL, WEIGHTS),
    "token-classification": ("bert", SMALL, WEIGHTS),
    "image-classification": ("vit", VIT, WEIGHTS),
}
"""Architecture, configuration and class weights of each task that has a loss of its own."""


def the_model(task: str, **changes: Any) -> Model:
    architecture, config, weights = KINDS[task]
    settings = {"label_smoothing": 0.1, "class_weights": weights} | changes
    return a_model(task=task, architecture=architecture, config=config, **settings)


def built(task: str, **changes: Any) -> tuple[Any, dict[str, Any]]:
    """A model without dropout, and a batch for it."""
    settings = the_model(task, **changes)
    torch.manual_seed(1)
    model = models.build(settings, attention="eager", dropout=False, pretrained=True)
    spec = replace(a_spec(), model=settings, seq_len=None if task == "image-classification" else 16)
    (batch, *_), *_ = feeds.make(spec, model, rank=0, world_size=1, pinned=False).steps(1)
    return model, batch


@pytest.mark.parametrize("task", KINDS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_the_loss_is_torch_s_own_cross_entropy_of_the_logits(task: str, smoothing: float) -> None:
    weights = KINDS[task][2]
    if smoothing == 0 and weights is None:
        pytest.skip("the head's own loss")
    model, batch = built(task, label_smoothing=smoothing)
    output = model(**batch)
    logits, labels = output.logits, batch["labels"]
    if task == "causal-lm":
        logits, labels = logits[:, :-1], labels[:, 1:]
    expected = cross_entropy(
        logits.flatten(0, -2),
        labels.flatten(),
        None if weights is None else torch.tensor(weights),
        label_smoothing=smoothing,
    )
    torch.testing.assert_close(output.loss, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_weights_stay_as_they_are_where_the_model_is_cast(dtype: Any, smoothing: float) -> None:
    weights = [1.0, 1.003, 0.7]  # none of the last two is a bf16 number
    model, batch = built("token-classification", label_smoothing=smoothing, class_weights=weights)
    model.to(dtype)
    output = model(**batch)
    expected = cross_entropy(
        output.logits.flatten(0, -2).float(),
        batch["labels"].flatten(),
        torch.tensor(weights),
        label_smoothing=smoothing,
    )
    torch.testing.assert_close(output.loss, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("task", KINDS)
def test_the_rest_of_the_forward_pass_is_as_it_was(task: str) -> None:
    """The logits, the decoder's inputs above all, and what is computed in evaluation mode."""
    model, batch = built(task)
    plain, _ = built(task, label_smoothing=0.0, class_weights=None)
    plain.load_state_dict(model.state_dict())
    ours, theirs = model(**batch), plain(**batch)
    torch.testing.assert_close(ours.logits, theirs.logits, rtol=0, atol=0)
    assert next(iter(ours)) == next(iter(theirs)) == "loss"
    assert abs(ours.loss.item() - theirs.loss.item()) > 1e-5, "it changes something"
    with torch.no_grad():
        assert model.eval()(**batch).loss.item() == plain.eval()(**batch).loss.item()
    del batch["labels"]
    if task not in ("translation", "speech-recognition"):
        assert getattr(model.train()(**batch), "loss", None) is None


@pytest.mark.parametrize("weighted", [False, True])
def test_ignored_labels_do_not_count_and_gradients_are_torch_s(weighted: bool) -> None:
    torch.manual_seed(0)
    labels = torch.tensor([0, 3, -100, 2, -100, 1])
    weights = torch.tensor([1.0, 2.0, 0.5, 3.0]) if weighted else None
    ours, theirs = (torch.randn(6, 4, generator=torch.manual_seed(2)).requires_grad_() for _ in range(2))
    mine = smoothed_loss(ours, labels, smoothing=0.3, weights=weights)
    expected = cross_entropy(theirs, labels, weights, label_smoothing=0.3)
    mine.backward()
    expected.backward()
    torch.testing.assert_close(mine, expected)
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_what_only_the_checkpoint_knows_is_refused_in_a_sentence() -> None:
    names = {str(number): number for number in range(4)}
    config = {key: value for key, value in SMALL.items() if key != "num_labels"} | {"label2id": names}
    config["id2label"] = {number: name for name, number in names.items()}
    model = a_model(task="sequence-classification", config=config, class_weights=WEIGHTS)
    with pytest.raises(UserError, match="has 3 weights, and there are 4 classes"):
        models.build(model, attention="eager", dropout=False)
    several = SMALL | {"problem_type": "multi_label_classification"}
    model = a_model(task="sequence-classification", config=several, label_smoothing=0.1)
    with pytest.raises(UserError, match="one class for each label, and this model has none"):
        models.build(model, attention="eager", dropout=False)


def test_the_loss_that_balances_experts_is_added_as_the_head_does() -> None:
    settings = a_model(task="causal-lm", architecture="mixtral", config=MIXTRAL, label_smoothing=0.1)
    torch.manual_seed(1)
    model: Any = models.build(settings, attention="eager", dropout=False, pretrained=True)
    ids = torch.randint(1, 64, (2, 16))
    output = model(input_ids=ids, labels=ids)
    smoothed = cross_entropy(output.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), label_smoothing=0.1)
    torch.testing.assert_close(output.loss, smoothed + 0.5 * output.aux_loss)
    assert output.aux_loss > 0


@pytest.mark.parametrize(
    ("architecture", "config"),
    [
        ("jetmoe", MOE | {"kv_channels": 8, "num_key_value_heads": 1, "aux_loss_coef": 0.5}),
        ("bart", BART),  # its labels are shifted already
    ],
)
def test_a_head_with_another_loss_of_its_own_is_refused(architecture: str, config: dict[str, Any]) -> None:
    model = a_model(task="causal-lm", architecture=architecture, config=config)
    models.build(model, attention="eager", dropout=False, pretrained=True)
    with pytest.raises(UserError, match=r"the loss of \w+ForCausalLM is not the cross entropy alone"):
        models.build(replace(model, label_smoothing=0.1), attention="eager", dropout=False, pretrained=True)


EAGER = Backend(engine="eager", optimizer="adamw", sharding="ddp")
ORTMODULE = replace(EAGER, engine="ortmodule", optimizer="ort_fused_adam")
BACKENDS = {
    "pytorch": EAGER,
    "accelerate": replace(EAGER, loop="accelerate"),
    "trainer": replace(EAGER, loop="trainer"),
}
OF_ORT = {"ortmodule": ORTMODULE, "ortmodule_zero1": replace(ORTMODULE, sharding="zero1")}


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(
    ("task", "precision"),
    [
        ("translation", "fp32"),
        *(
            pytest.param(*rest, marks=pytest.mark.exhaustive)
            for rest in (
                ("image-classification", "fp32"),
                ("token-classification", "fp32"),
                ("causal-lm", "fp32"),
                ("causal-lm", "fp16"),
            )
        ),
    ],
)
def test_every_backend_trains_with_it_alike(task: str, precision: str, tmp_path: Path) -> None:
    backends = BACKENDS | (OF_ORT if stacks.own() == "ort" else {})
    if (task, precision) != ("causal-lm", "fp32"):  # once is enough for what Trainer divides
        backends = {name: one for name, one in backends.items() if one.loop == "bare"}
    made = a_config(tmp_path, launches=0, parity_tolerance=LOSS_TOLERANCE.get(precision, 1e-4))
    made = replace(
        made,
        model=the_model(task),
        backends=backends,
        device=replace(made.device, world_size=1),
        precision=Precision.named(precision),
        seq_len=None if task == "image-classification" else 16,
    )
    Comparison(made, "m-cpux1").measure()
    rows = csv_files.read(Path(made.results_dir) / "m-cpux1.csv").set_index("backend")
    assert dict(rows["status"]) == dict.fromkeys(backends, "untimed"), rows["message"].tolist()
    assert rows["loss_difference"].max() < (1e-5 if precision == "fp32" else 1e-3)
    words = ", class weights [1, 2, 0.5]" if KINDS[task][2] else ""
    assert set(rows["task"]) == {f"{task}, label smoothing 0.1{words}"}

"""The shipped models: as published, and in mini on every task's synthetic batches."""

import functools
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from bench.config import mini
from bench.config.choices import CONF, TASKS
from bench.config.compose import compose
from bench.config.data import Data
from bench.config.model import Lora, Model
from bench.config.user_model import USER_MODEL
from bench.errors import LaunchFailed
from bench.worker.workload.synthetic import synthetic

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")  # transformers imports it in passing: under "meta" that fails half-way
transformers = pytest.importorskip("transformers")

TorchFunctionMode: Any = torch.overrides.TorchFunctionMode

from bench.worker import sharding  # noqa: E402 - it needs torch
from bench.worker.workload import model as models  # noqa: E402 - it needs both
from bench.worker.workload import settings as model_settings  # noqa: E402 - it needs transformers

NAMES = sorted(path.stem for path in (CONF / "model").glob("*.yaml") if path.stem != USER_MODEL)
TASK_OF = {name: yaml.safe_load((CONF / "model" / f"{name}.yaml").read_text())["task"] for name in NAMES}
FIRST = {task: name for name, task in reversed(TASK_OF.items())}
EACH = [
    name if name in FIRST.values() else pytest.param(name, marks=pytest.mark.exhaustive) for name in NAMES
]
"""One model of each task in `make test`."""
MOST = 5_000_000
"""Parameters of a mini model: a step takes milliseconds and the optimizer states a few megabytes."""


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Steps of milliseconds spend more on waiting for a second thread than it saves them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@functools.cache
def shipped(name: str) -> Model:
    return compose([f"model={name}"]).model


def small(name: str, **changes: Any) -> Model:
    return replace(shipped(name), size="mini", **changes)


def built(model: Model, **settings: Any) -> Any:
    torch.manual_seed(0)
    asked: dict[str, Any] = {"attention": "eager", "dropout": False}
    return models.build(model, **asked | settings)


def batches(model: Model, module: Any) -> list[dict[str, Any]]:
    """Two of them, of two samples, with padding where the task has any."""
    made = synthetic(
        Data(name="synthetic"),
        task=model.task,
        settings=module.config,
        count=2,
        micro_batch=2,
        seq_len=None if model.seq_len is None else 16,
        seed=0,
        rank=0,
    )
    names = models.accepted(module, list(made[0]))
    return [{name: torch.from_numpy(batch[name]) for name in names} for batch in made]


def loss(module: Any, batch: dict[str, Any]) -> Any:
    return module(**batch).loss


# --- as published ---------------------------------------------------------------------------------


class RatesOnTheCpu(TorchFunctionMode):
    """Drop-path rates come from `linspace().item()`, which a meta tensor has not."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.linspace:
            kwargs = {**(kwargs or {}), "device": "cpu"}
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", EACH)
def test_the_parameters_are_what_transformers_counts(name: str) -> None:
    model = shipped(name)
    with torch.device("meta"), RatesOnTheCpu():
        whole = built(replace(model, lora=None), dropout=True)
    assert models.parameter_count(whole) == model.parameters


@pytest.mark.parametrize("name", NAMES)
def test_no_dimension_is_left_to_the_defaults_of_transformers_and_mini_keeps_the_architecture(
    name: str,
) -> None:
    """Mini changes every dimension: what it changes of the defaults alone is a dimension not given."""
    model = shipped(name)
    full = transformers.AutoConfig.for_model(model.architecture, **model.config)
    changed = model_settings._resized(full, model.config, small(name)).keys() - model.config.keys()
    # Not used in training, or, as attention's head width, always a quotient.
    assert {key for key in changed if not key.endswith(("token_id", "suppress_tokens", "head_dim"))} == set()
    tiny = model_settings.configuration(small(name))
    assert type(tiny) is type(full)
    for key in ("num_local_experts", "num_experts_per_tok", "image_size", "patch_size", "num_mel_bins"):
        assert getattr(tiny, key, None) == getattr(full, key, None)
    for key in ("depths", "hidden_sizes", "neck_hidden_sizes"):
        assert len(getattr(tiny, key, ())) == len(getattr(full, key, ()))
    if "num_key_value_heads" in model.config:
        assert tiny.num_attention_heads * full.num_key_value_heads == (
            full.num_attention_heads * tiny.num_key_value_heads
        )
    for key, value in vars(tiny).items():
        if key.endswith("token_id") and isinstance(value, int):
            assert value < tiny.vocab_size, key


def test_these_tasks_alone_have_no_shipped_model() -> None:
    """Those are trained in tests/real/test_tasks.py, and token classification in test_datasets.py."""
    trained_elsewhere = {*("semantic-segmentation", "speech-recognition-ctc", "token-classification")}
    assert {*TASKS} - {shipped(name).task for name in NAMES} == trained_elsewhere


# --- mini -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EACH)
def test_every_model_trains_in_mini_without_hidden_dropout(name: str) -> None:
    model = small(name)
    module = built(model)
    assert models.parameter_count(module) < MOST
    made = batches(model, module)
    trained = {key: value for key, value in module.named_parameters() if value.requires_grad}
    optimizer = torch.optim.SGD(trained.values(), lr=0.01)
    for batch in made:
        first = loss(module, batch)
        assert torch.isfinite(first)
        assert torch.equal(first, loss(module, batch)), "something random is left"
        first.backward()
        # DistributedDataParallel waits in vain for a gradient that never comes.
        assert [key for key, value in trained.items() if value.grad is None] == []
        assert sum(value.grad.abs().sum() for value in trained.values()) > 0
        optimizer.step()
        optimizer.zero_grad()


LARGE_AND_MINI: dict[str, tuple[Any, Any]] = {
    "hidden_size": (4096, 128),
    "intermediate_size": (14336, 448),
    "num_hidden_layers": (32, 2),
    "num_attention_heads": (32, 8),
    "num_key_value_heads": (8, 2),
    "head_dim": (128, 16),
    "vocab_size": (32000, 1024),
    "pad_token_id": (31999, 255),
    "eos_token_id": ([2, 3000], [2, 952]),
    "partial_rotary_factor": (0.4, 0.5),
    "rope_theta": (10000.0, 10000.0),
    "num_local_experts": (8, 8),
}


def test_mini_is_one_rule_for_every_kind_of_key() -> None:
    large, small = ({key: pair[side] for key, pair in LARGE_AND_MINI.items()} for side in (0, 1))
    assert mini.shrink(large) == small
    assert mini.shrink(small | {"hidden_size": 64}) == small | {"hidden_size": 64}, (
        "a small one keeps its width"
    )


def test_mini_narrows_a_hierarchy_by_its_widest_stage() -> None:
    small = mini.shrink({"embed_dim": 128, "depths": [2, 2, 18, 2], "num_heads": [4, 8, 16, 32]})
    assert small == {"embed_dim": 16, "depths": [2, 2, 2, 2], "num_heads": [1, 1, 2, 4]}


# --- frozen weights -------------------------------------------------------------------------------


def trained_names(model: Model) -> list[str]:
    return [name for name, value in built(model).named_parameters() if value.requires_grad]


LAYER = re.compile(r"\.layers?\.(\d+)\.")  # in a weight's name; transformers 5 calls some of them layers


@pytest.mark.parametrize("name", ["bert-mini", "roberta-large", "vit-base"])
def test_the_head_alone_trains_or_the_last_layers_with_it(name: str) -> None:
    head, last, whole = (trained_names(small(name, trained=one)) for one in ("head", "layers:1", "all"))
    assert head
    assert not any("embeddings" in one or LAYER.search(one) for one in head)
    assert len(head) < len(whole)
    assert {found[1] for one in last if (found := LAYER.search(one))} == {str(mini.LAYERS - 1)}
    assert {*head} <= {*last}


# --- adapters -------------------------------------------------------------------------------------


LORA = Lora(rank=2, alpha=4, dropout=0.5, modules=["q_proj", "v_proj"])
REMEDY = r"set this backend's attention=eager\.$"


def test_only_the_adapters_train() -> None:
    module = built(small("llama-2-7b", lora=LORA))
    trained = [key for key, value in module.named_parameters() if value.requires_grad]
    assert len(trained) == 2 * 2 * mini.LAYERS
    assert all("lora_" in key for key in trained)
    assert len(sharding.trained(module)) == len(trained), "what the optimizer gets"
    assert models.parameter_count(module, trainable=True) == mini.LAYERS * 2 * 2 * (2 * mini.WIDTH)


def test_the_adapters_have_dropout_only_where_there_is_dropout() -> None:
    probabilities = [
        {
            one.p
            for key, one in built(small("llama-2-7b", lora=LORA), dropout=dropout).named_modules()
            if "lora_dropout" in key and isinstance(one, torch.nn.Dropout)
        }
        for dropout in (True, False)
    ]
    assert probabilities == [{0.5}, set()]


# --- what a model does not have, and attention ----------------------------------------------------


@pytest.mark.parametrize(
    ("name", "changes", "settings", "words"),
    [
        ("gpt2", {"trained": "head"}, {}, "GPT2LMHeadModel has no weights but those of its base"),
        ("bert-mini", {"trained": "layers:9"}, {}, "asks for more layers than the 2 there are"),
        ("llama-2-7b", {"lora": replace(LORA, modules=["q_proj", "query"])}, {}, "no layer named query; set"),
        ("deberta-v2-xxlarge", {}, {"attention": "sdpa"}, "^attention=sdpa cannot be had .*" + REMEDY),
        ("gpt2", {}, {"attention": "flash_attention_2"}, "^attention=flash_attention_2 cannot .*" + REMEDY),
    ],
)
def test_what_a_model_does_not_have_is_unsupported_in_a_sentence(
    name: str, changes: dict[str, Any], settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(LaunchFailed, match=words) as caught:
        built(small(name, **changes), **settings)
    assert caught.value.status == "unsupported"


@pytest.mark.parametrize(
    ("architecture", "task"),
    [
        *(("bert", "masked-lm"), ("electra", "masked-lm"), ("layoutlm", "token-classification")),
        *(("t5", "translation"), ("mobilenet_v2", "image-classification"), ("gpt2", "causal-lm")),
    ],
)
def test_the_best_attention_is_pytorchs_own_exactly_where_the_class_has_it(
    architecture: str, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row's attention must be the one that computes."""
    calls: list[int] = []
    compute = torch.nn.functional.scaled_dot_product_attention

    def counted(*values: Any, **settings: Any) -> Any:
        calls.append(len(values))
        return compute(*values, **settings)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    tiny = {"num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 2}
    if architecture == "mobilenet_v2":
        tiny = {"image_size": 32}
    if architecture == "t5":
        tiny["decoder_start_token_id"] = 0
    model = replace(shipped("bert-tiny"), architecture=architecture, task=task, config=tiny)
    module = built(model, attention="best")
    loss(module, batches(model, module)[0])
    assert models.facts_of(module, "best")["attention"] == ("sdpa" if calls else "eager")
    assert bool(calls) == type(module)._supports_sdpa


# --- noise ----------------------------------------------------------------------------------------


def test_every_kind_of_noise_is_switched_off() -> None:
    settings = transformers.PretrainedConfig(
        attn_pdrop=0.1,
        drop_path_rate=0.2,
        encoder_layerdrop=0.3,
        router_jitter_noise=0.4,
        classifier_dropout=None,
        dropout_rate=1,
        apply_spec_augment=True,
        initializer_range=0.02,
        part=transformers.PretrainedConfig(dropout=0.5),
    )
    models.switch_off_dropout(settings)
    assert (settings.attn_pdrop, settings.drop_path_rate, settings.encoder_layerdrop) == (0, 0, 0)
    assert (settings.router_jitter_noise, settings.dropout_rate, settings.part.dropout) == (0, 0, 0)
    assert (settings.classifier_dropout, settings.apply_spec_augment) == (None, False)
    assert settings.initializer_range == 0.02


def test_dropout_that_is_handed_to_a_function_is_switched_off() -> None:
    module = torch.nn.Linear(1, 1)
    module.attention_dropout = 0.1
    models.silence(torch.nn.Sequential(module))
    assert module.attention_dropout == 0

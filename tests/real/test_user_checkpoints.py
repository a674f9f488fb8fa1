"""The user's checkpoints: what fits is trained, and what does not is named, tensor by tensor."""

import json
import shutil
import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from bench.config.compose import compose
from bench.config.model import Model
from bench.errors import LaunchFailed, UserError
from bench.measure.plan.preflight_dataset import check_model
from tests.support.python import run_python

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from bench.worker.workload import model as models  # noqa: E402 - it needs both
from bench.worker.workload.settings import configuration  # noqa: E402 - it needs transformers

BERT = {
    "vocab_size": 96,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 32,
}
GPT2 = {"vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 32}


def user_model(folder: Path | str | None, task: str = "masked-lm", **changes: Any) -> Model:
    """What conf/model/user_model.yaml makes of a folder."""
    figures: dict[str, Any] = {"architecture": None, "config": {}, "parameters": None, "source": None}
    return Model(
        name="user-model",
        task=task,
        micro_batch=2,
        seq_len=8,
        pretrained=None if folder is None else str(folder),
        **figures | changes,
    )


def built(model: Model) -> Any:
    return models.build(model, attention="eager", dropout=False, pretrained=True)


def edit(folder: Path, **changes: Any) -> None:
    """Make config.json say something else than the weights."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    transformers.BertForMaskedLM(transformers.BertConfig(**BERT)).save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


@pytest.fixture
def gpt2(tmp_path: Path) -> Path:
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2)).save_pretrained(tmp_path / "gpt2")
    return tmp_path / "gpt2"


def same_weights(model: Any, folder: Path, name: str) -> bool:
    from safetensors.torch import load_file

    return bool(torch.equal(model.state_dict()[name], load_file(folder / "model.safetensors")[name]))


def test_a_folder_alone_gives_architecture_dimensions_and_weights(bert: Path, gpt2: Path) -> None:
    weight = "bert.encoder.layer.1.output.dense.weight"
    model = built(user_model(bert))
    assert same_weights(model, bert, weight)
    assert getattr(model, models.NOTE) == ""
    assert same_weights(built(user_model(gpt2, "causal-lm")), gpt2, "transformer.h.1.mlp.c_fc.weight")
    random = models.build(user_model(bert), attention="eager", dropout=False)
    assert not same_weights(random, bert, weight), "without its weights only the shapes are its"
    assert models.parameter_count(random) == models.parameter_count(model)


def test_a_config_alone_is_trained_with_random_weights_in_float32(bert: Path) -> None:
    (bert / "model.safetensors").unlink()
    edit(bert, torch_dtype="bfloat16", dtype="bfloat16")
    model = built(user_model(bert))
    assert {value.dtype for value in model.parameters()} == {torch.float32}
    assert len(model.bert.encoder.layer) == 2
    assert len(built(user_model(bert, config={"num_hidden_layers": 3})).bert.encoder.layer) == 3
    assert len(built(user_model(bert, size="layers:1")).bert.encoder.layer) == 1
    assert len(built(user_model(bert, size="mini")).bert.encoder.layer) == 2


def test_a_head_that_is_new_or_of_another_task_is_named(bert: Path, gpt2: Path) -> None:
    note = getattr(built(user_model(bert, "sequence-classification")), models.NOTE)
    assert "new for this task: bert.pooler.dense, classifier; of the checkpoint not used: cls.pred" in note
    note = getattr(built(user_model(gpt2, "sequence-classification")), models.NOTE)
    assert note == "new for this task: score"


def test_a_checkpoint_of_a_base_model_gets_a_head(tmp_path: Path) -> None:
    transformers.BertModel(transformers.BertConfig(**BERT)).save_pretrained(tmp_path)
    note = getattr(built(user_model(tmp_path)), models.NOTE)
    assert note.startswith("new for this task: cls.predictions")
    assert note.endswith("of the checkpoint not used: pooler.dense")
    edit(tmp_path, num_hidden_layers=1)
    with pytest.raises(UserError, match=r"encoder.layer.1.*is unknown"):
        built(user_model(tmp_path))


def test_another_number_of_labels_makes_a_new_head(tmp_path: Path) -> None:
    settings = transformers.BertConfig(**BERT, num_labels=3)
    transformers.BertForSequenceClassification(settings).save_pretrained(tmp_path)
    model = built(user_model(tmp_path, "sequence-classification"))
    assert (model.classifier.out_features, getattr(model, models.NOTE)) == (3, "")
    model = built(user_model(tmp_path, "sequence-classification", config={"num_labels": 5}))
    assert (model.classifier.out_features, model.config.num_labels) == (5, 5)
    assert getattr(model, models.NOTE) == "new for this task: classifier"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_hidden_layers": 1}, r"layer.1.attention.output.LayerNorm.bias is unknown; .*more"),
        ({"num_hidden_layers": 3}, r"layer.2.attention.output.LayerNorm.bias is missing; .*more"),
        ({"vocab_size": 90}, r"word_embeddings.weight has the shape \[96, 32\], not \[90, 32\]"),
    ],
)
def test_weights_that_do_not_fit_their_config_are_an_error(
    bert: Path, changes: dict[str, int], sentence: str
) -> None:
    edit(bert, **changes)
    with pytest.raises(UserError, match=sentence) as caught:
        built(user_model(bert))
    assert "do not fit BertForMaskedLM of its config.json; save both anew with" in str(caught.value)
    if "more" in sentence:
        log = "".join(traceback.format_exception(caught.value))
        assert "output.dense.weight is" in log, "it has all of them"


def test_sizes_under_another_name_contradict_the_weights_too(gpt2: Path) -> None:
    with pytest.raises(UserError, match="has the shape"):
        built(user_model(gpt2, "causal-lm", config={"hidden_size": 64}))


# --- keys that nothing reads ----------------------------------------------------------------------

copied = pytest.mark.skipif(
    "num_hidden_layers" in transformers.WhisperConfig.attribute_map, reason="it is another name of the key"
)


@pytest.mark.parametrize(
    ("architecture", "config", "sentence"),
    [
        ("bert", {"num_hidden_layer": 1}, "did you mean model.config.num_hidden_layers"),
        ("bert", {"label_smoothing": 0.1}, "model.config.label_smoothing is not a key of .* BertConfig"),
        ("gpt2", {"n_layers": 1}, r"model.config.n_layers .* did you mean model.config.n_layer\?"),
        ("clip", {"vision_config": {"num_hidden_layer": 1}}, "mean model.config.vision_config.num_hidden_"),
        ("clip", {"num_hidden_layers": 1}, r"did you mean model.config.\w+_config.num_hidden_layers\?"),
        pytest.param("whisper", {"num_hidden_layers": 1}, "mean model.config.encoder_layers", marks=copied),
        ("bert", {"attn_implementation": "sdpa"}, "attn_implementation has no effect; set attention=…"),
        ("clip", {"text_config": {"dtype": "float16"}}, "text_config.dtype has no effect; set precision=…"),
    ],
)
def test_a_key_that_the_architecture_does_not_know_is_refused(
    architecture: str, config: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(LaunchFailed, match=sentence):
        configuration(user_model(None, architecture=architecture, config=config))


@pytest.mark.parametrize(
    ("architecture", "config"),
    [
        ("gpt2", {"hidden_size": 32, "num_attention_heads": 2}),
        ("bert", {"num_labels": 3, "problem_type": "regression", "use_cache": False}),
        ("bert", {"id2label": {0: "a", 1: "b"}, "label2id": {"a": 0, "b": 1}, "pad_token_id": 1}),
        ("clip", {"vision_config": {"num_hidden_layers": 1}, "text_config": {"vocab_size": 96}}),
        ("deberta-v2", {"share_att_key": True, "position_buckets": 8, "norm_rel_ebd": "layer_norm"}),
        ("t5", {"decoder_start_token_id": 0}),
        ("llama", {"rope_theta": 1e6, "output_attentions": False, "tie_word_embeddings": True}),
    ],
)
def test_keys_under_other_names_and_those_of_all_models_are_taken(
    architecture: str, config: dict[str, Any]
) -> None:
    assert configuration(user_model(None, architecture=architecture, config=config))


def test_a_mistyped_key_is_refused_beside_a_checkpoint_too(bert: Path) -> None:
    with pytest.raises(LaunchFailed, match=r"model.config.hidden_dropout .*hidden_dropout_prob\?"):
        configuration(user_model(bert, config={"hidden_dropout": 0.0}))
    edit(bert, of_the_checkpoint="a")
    assert configuration(user_model(bert, config={"of_the_checkpoint": "b"})).of_the_checkpoint == "b"


# --- code that comes with a checkpoint ------------------------------------------------------------


def test_weights_in_a_pickle_are_not_read(bert: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (bert / "exploded",))  # type: ignore[return-value]

    (bert / "model.safetensors").unlink()
    torch.save({"bomb": Bomb()}, bert / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"pretrained=.*bert has its weights in pytorch_model.bin, which"):
        built(user_model(bert))
    assert not (bert / "exploded").exists()


CODE = """
from pathlib import Path
from transformers import BertConfig, BertForMaskedLM
Path(__file__).with_name("ran").touch()
Path({marker!r}).touch()

class MineConfig(BertConfig):
    model_type = "mine"

class MineModel(BertForMaskedLM):
    config_class = MineConfig
"""


def test_code_of_a_checkpoint_runs_only_when_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, marker = tmp_path / "mine_code", tmp_path / "ran"
    folder.mkdir()
    (folder / "mine.py").write_text(CODE.format(marker=str(marker)))
    classes = {"AutoConfig": "mine.MineConfig", "AutoModelForMaskedLM": "mine.MineModel"}
    (folder / "config.json").write_text(json.dumps(BERT | {"model_type": "mine", "auto_map": classes}))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    with pytest.raises(LaunchFailed, match=r"run only with model.trust_remote_code=true; read them"):
        built(user_model(folder))
    assert not marker.exists()
    model = built(user_model(folder, trust_remote_code=True))
    assert marker.exists()
    assert type(model).__name__ == "MineModel"


LACKING = [
    ("bert", ["checkpointing=true"], ""),
    ("mpnet", ["model.task=masked-lm", "checkpointing=true"], "unlike MPNetForMaskedLM; set"),
    ("bertt", ["model.task=masked-lm"], "bertt is no folder here, and as a hub id"),
]


@pytest.mark.parametrize(
    ("place", "overrides", "words"),
    [
        ("bert", ["model.task=image-classification"], "has no bert for model.task=image-classification; ch"),
        *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in LACKING),
    ],
)
def test_what_a_model_lacks_is_found_before_any_launch(
    bert: Path, place: str, overrides: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(bert, max_position_embeddings=64)
    monkeypatch.chdir(bert.parent)
    Path("mpnet").mkdir()
    Path("mpnet/config.json").write_text('{"model_type": "mpnet"}')
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    config = compose([f"model.pretrained={place}", *overrides, "device=cpu", "backend=[pytorch]"])
    with pytest.raises(UserError) if words else nullcontext() as caught:
        check_model(config)
    assert words in str(getattr(caught, "value", ""))


HUB = """
from tests.real.test_user_checkpoints import built, user_model
from bench.worker.workload.model import NOTE
print(getattr(built(user_model("someone/tiny")), NOTE))
"""


def test_a_hub_id_s_revision_is_noted(bert: Path, tmp_path: Path) -> None:
    """The hub's own layout of its cache, without the hub."""
    revision = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "hub" / "models--someone--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(revision)
    shutil.copytree(bert, repository / "snapshots" / revision)
    done = run_python("-c", HUB, variables={"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"})
    assert done.stdout.splitlines()[-1:] == [f"weights of revision {revision}"], done.stderr
    assert not getattr(built(user_model(bert)), models.NOTE), "a folder has none"

"""Every task trains tiny architectures that no file of conf/model describes."""

import dataclasses
from typing import Any

import pytest

from bench.config.choices import TASKS, WITHOUT_LENGTH
from bench.config.compose import compose
from bench.config.data import Data
from bench.config.model import Model
from bench.errors import LaunchFailed
from bench.worker.workload.synthetic import synthetic

torch = pytest.importorskip("torch")
models = pytest.importorskip("bench.worker.workload.model")

TINY = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 32}
WAVES = {
    **TINY,
    **{"conv_dim": [8, 8], "conv_kernel": [10, 3], "conv_stride": [5, 2], "num_feat_extract_layers": 2},
    **{"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "vocab_size": 32},
}
PICTURES = {**TINY, "image_size": 32, "patch_size": 8}
CLIP = {"vision_config": {**TINY, "image_size": 32, "patch_size": 8}, "text_config": TINY}
SEGFORMER = {
    "depths": [1, 1],
    "hidden_sizes": [8, 16],
    "num_encoder_blocks": 2,
    "num_attention_heads": [1, 2],
}


def tiny(architecture: str, task: str, **config: Any) -> Model:
    model = compose(["model=bert-tiny"]).model
    return dataclasses.replace(model, architecture=architecture, task=task, config=config)


@pytest.mark.parametrize(
    ("architecture", "task", "config"),
    [
        ("wav2vec2", "speech-recognition-ctc", WAVES),
        ("hubert", "speech-recognition-ctc", {**WAVES, "feat_extract_norm": "layer"}),
        ("segformer", "semantic-segmentation", SEGFORMER),
        ("segformer", "image-classification", SEGFORMER),
        ("clip", "image-classification", CLIP),
        ("bert", "sequence-classification", {**TINY, "num_labels": 1}),
        ("roberta", "sequence-classification", {**TINY, "problem_type": "multi_label_classification"}),
        ("vit", "image-classification", {**PICTURES, "num_labels": 1}),
    ],
)
def test_a_tiny_model_learns_its_batch(architecture: str, task: str, config: dict[str, Any]) -> None:
    model = tiny(architecture, task, **config)
    torch.manual_seed(0)
    module = models.build(model, attention="eager", dropout=False)
    (made,) = synthetic(
        Data(name="synthetic"),
        **{"task": task, "settings": module.config, "count": 1, "micro_batch": 2, "seed": 0, "rank": 0},
        seq_len=None if task in WITHOUT_LENGTH else 16,
    )
    assert models.accepted(module, list(made)) == list(made), "the model takes all that was made for it"
    batch = {name: torch.from_numpy(value) for name, value in made.items()}
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    losses = []
    for _ in range(4):
        loss = module(**batch).loss
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert min(losses[1:]) < losses[0] < float("inf")


@pytest.mark.parametrize(
    ("architecture", "task", "sentence"),
    [
        (
            "wav2vec2",
            "speech-recognition",
            r"has no wav2vec2 for .* choose model\.task=.*speech-recognition-ctc",
        ),
        ("vit", "masked-lm", r"choose model\.task=image-classification\.$"),
        ("detr", "image-classification", r"has no detr for .*; choose another model\.$"),
    ],
)
def test_an_architecture_without_the_head_is_refused_with_the_tasks_that_it_has(
    architecture: str, task: str, sentence: str
) -> None:
    with pytest.raises(LaunchFailed, match=sentence) as caught:
        models.build(tiny(architecture, task), attention="eager", dropout=False)
    assert caught.value.status == "unsupported"


def test_inputs_that_no_task_makes_are_named() -> None:
    class NeedsMore(torch.nn.Module):  # type: ignore[name-defined]
        def forward(self, input_ids: Any, boxes: Any, labels: Any = None, **others: Any) -> None: ...

    with pytest.raises(LaunchFailed, match=r"^NeedsMore needs boxes, which this task does not make; "):
        models.accepted(NeedsMore(), ["input_ids", "labels"])


def test_every_task_has_a_head_of_this_transformers() -> None:
    from bench.worker.workload import tasks

    transformers = pytest.importorskip("transformers")
    for task in TASKS:
        assert len(getattr(transformers, tasks.make(task).head)._model_mapping) > 0

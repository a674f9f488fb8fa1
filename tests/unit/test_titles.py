"""What comparisons are called: for readers, and no two alike."""

from typing import Any

import pytest

from bench.report.content.collection import ReportedComparison, with_distinct_titles
from bench.report.words.titles import spell_model
from tests.support.answers import compared
from tests.support.factories import ENVIRONMENT, workload

SECONDS = {"pytorch": 2.0, "ortmodule": 1.6}


def title(seconds: dict[str, Any] | None = None, model: str = "gpt2", **changes: Any) -> str:
    size = {"workload": workload(model=model, grad_accum=1)} | changes
    return compared(model, seconds or SECONDS, **size).title


@pytest.mark.parametrize(
    ("label", "spelt"),
    [
        ("bert-mini", "BERT-Mini"),
        ("bert-large", "BERT-Large"),
        ("roberta-large", "RoBERTa-Large"),
        ("distilbert-base", "DistilBERT-Base"),
        ("deberta-v2-xxlarge", "DeBERTa-V2-XXLarge"),
        ("gpt2", "GPT-2"),
        ("gpt2-medium", "GPT-2-Medium"),
        ("gpt2, mini", "GPT-2 mini"),
        ("bert-large, 6 of 24 layers", "BERT-Large, 6 of 24 layers"),
        ("t5-large", "T5-Large"),
        ("vit-base", "ViT-Base"),
        ("swinv2-base", "SwinV2-Base"),
        ("whisper-small", "Whisper-Small"),
        ("mixtral-8x7b", "Mixtral-8x7B"),
        ("something_else", "something_else"),
        ("bartender", "bartender"),
    ],
)
def test_a_model_is_spelt_as_its_authors_do_and_an_unknown_one_stays(label: str, spelt: str) -> None:
    assert spell_model(label) == spelt


def test_the_usual_needs_no_more_than_model_ranks_and_the_path_of_mkl() -> None:
    assert title() == "GPT-2, 2 ranks, as installed"
    assert title(blas="full") == "GPT-2, 2 ranks, MKL's full path"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"overrides": ("micro_batch=4",)}, "GPT-2, 2 ranks, batch 4, as installed"),
        ({"overrides": ("seq_len=128",)}, "GPT-2, 2 ranks, length 128, as installed"),
        ({"overrides": ("model.task=masked-lm",)}, "GPT-2, 2 ranks, masked-lm, as installed"),
        ({"overrides": ("seed=3",)}, "GPT-2, 2 ranks, as installed, seed=3"),
        ({"overrides": ("machine=here", "study=mine", "measure.rounds=3")}, "GPT-2, 2 ranks, as installed"),
        ({"allocator": "system"}, "GPT-2, 2 ranks, system allocator, as installed"),
        ({"cores_per_rank": 2}, "GPT-2, 2 ranks, threads not held, as installed"),
    ],
)
def test_what_is_not_as_usual_is_named(changes: dict[str, Any], words: str) -> None:
    assert title(**changes) == words


def test_backends_beside_the_usual_ones_and_another_reference_are_named() -> None:
    assert title(SECONDS | {"compile": 1.6}) == "GPT-2, 2 ranks, with compile, as installed"
    fused = {"pytorch_fused": 2.0, "ortmodule": 1.6}
    assert title(fused, reference="pytorch_fused") == "GPT-2, 2 ranks, over pytorch_fused, as installed"
    many = SECONDS | {f"backend_{number}": 2.0 for number in range(4)}
    assert title(many) == "GPT-2, 2 ranks, with 4 more backends, as installed"


def test_on_gpus_they_are_named_in_place_of_ranks_and_mkl() -> None:
    gpus: dict[str, Any] = {
        "environment": ENVIRONMENT | {"gpus": [{"name": "NVIDIA H200"}] * 2},
        "device": "cuda",
    }
    mixed = workload(model="gpt2", grad_accum=1, precision="bf16")
    assert title(**gpus, workload=mixed) == "GPT-2, 2 × NVIDIA H200, bf16"


# No two alike


def distinct(*comparisons: ReportedComparison) -> list[str]:
    titles = [one.title for one in with_distinct_titles([comparisons])[0]]
    assert len(set(titles)) == len(titles)
    return titles


def one(stem: str, **changes: Any) -> ReportedComparison:
    return compared(
        "gpt2", SECONDS, stem=stem, **{"workload": workload(model="gpt2", grad_accum=1)} | changes
    )


def test_titles_that_differ_stay_as_they_are() -> None:
    assert distinct(one("a"), one("b", blas="full")) == [
        "GPT-2, 2 ranks, as installed",
        "GPT-2, 2 ranks, MKL's full path",
    ]


def test_what_nothing_else_tells_apart_is_told_by_its_file() -> None:
    assert distinct(one("a"), one("b"), one("c", study="mine"), one("d", blas="full")) == [
        "GPT-2, 2 ranks, as installed, file a",
        "GPT-2, 2 ranks, as installed, file b",
        "GPT-2, 2 ranks, as installed, file mine-c",
        "GPT-2, 2 ranks, MKL's full path",
    ]


def test_what_another_program_would_read_out_of_the_command_changes_no_title() -> None:
    assert title(command='make bench ARGS="seed=3 micro_batch=4"') == title()
    assert title(overrides=("seed=3",)) == "GPT-2, 2 ranks, as installed, seed=3"

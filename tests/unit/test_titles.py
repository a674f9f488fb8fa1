"""What comparisons are called: for readers, and no two alike."""

from typing import Any

import pytest

from bench.report.content.collection import ReportedComparison, with_distinct_titles
from tests.support.answers import compared
from tests.support.factories import ENVIRONMENT, workload

SECONDS = {"pytorch": 2.0, "ortmodule": 1.6}


def title(seconds: dict[str, Any] | None = None, model: str = "gpt2", **changes: Any) -> str:
    size = {"workload": workload(model=model, grad_accum=1)} | changes
    return compared(model, seconds or SECONDS, **size).title


def test_the_default_needs_no_more_than_model_ranks_and_the_path_of_mkl() -> None:
    assert title() == "gpt2, 2 ranks, as installed"
    assert title(blas="full") == "gpt2, 2 ranks, MKL's full path"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"overrides": ("micro_batch=4",)}, "gpt2, 2 ranks, batch 4, as installed"),
        ({"overrides": ("seq_len=128",)}, "gpt2, 2 ranks, length 128, as installed"),
        ({"overrides": ("model.task=masked-lm",)}, "gpt2, 2 ranks, masked-lm, as installed"),
        ({"overrides": ("seed=3",)}, "gpt2, 2 ranks, as installed, seed=3"),
        ({"overrides": ("machine=here", "study=mine", "measure.rounds=3")}, "gpt2, 2 ranks, as installed"),
        ({"allocator": "system"}, "gpt2, 2 ranks, system allocator, as installed"),
        ({"cores_per_rank": 2}, "gpt2, 2 ranks, cores not pinned, as installed"),
    ],
)
def test_what_is_not_the_default_is_named(changes: dict[str, Any], words: str) -> None:
    assert title(**changes) == words


def test_backends_beside_the_default_ones_and_another_reference_are_named() -> None:
    assert title(SECONDS | {"compile": 1.6}) == "gpt2, 2 ranks, with compile, as installed"
    fused = {"pytorch_fused": 2.0, "ortmodule": 1.6}
    assert title(fused, reference="pytorch_fused") == "gpt2, 2 ranks, over pytorch_fused, as installed"
    many = SECONDS | {f"backend_{number}": 2.0 for number in range(4)}
    assert title(many) == "gpt2, 2 ranks, with 4 more backends, as installed"


def test_on_gpus_they_are_named_in_place_of_ranks_and_mkl() -> None:
    gpus: dict[str, Any] = {
        "environment": ENVIRONMENT | {"gpus": [{"name": "NVIDIA H200"}] * 2},
        "device": "cuda",
    }
    mixed = workload(model="gpt2", grad_accum=1, precision="bf16")
    assert title(**gpus, workload=mixed) == "gpt2, 2 × NVIDIA H200, bf16"


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
        "gpt2, 2 ranks, as installed",
        "gpt2, 2 ranks, MKL's full path",
    ]


def test_what_nothing_else_tells_apart_is_told_by_its_file() -> None:
    assert distinct(one("a"), one("b"), one("c", study="mine"), one("d", blas="full")) == [
        "gpt2, 2 ranks, as installed, file a",
        "gpt2, 2 ranks, as installed, file b",
        "gpt2, 2 ranks, as installed, file mine-c",
        "gpt2, 2 ranks, MKL's full path",
    ]


def test_what_another_program_would_read_out_of_the_command_changes_no_title() -> None:
    assert title(command='make bench ARGS="seed=3 micro_batch=4"') == title()
    assert title(overrides=("seed=3",)) == "gpt2, 2 ranks, as installed, seed=3"

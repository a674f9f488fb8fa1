"""The answer at the top of the page, against hand-made results whose answer is known."""

import pytest

from bench.report.content.answer import OVER
from bench.report.content.blocks import plain
from bench.report.content.collection import ReportedComparison
from bench.report.content.models import find_settings
from tests.support.answers import OTHER_CPU, UNDECIDED, answers, compared
from tests.support.factories import ENVIRONMENT, workload

FAST = compared("bert-large", {"pytorch": 2.0, "ortmodule": 1.6})
FASTER = compared("t5-large", {"pytorch": 2.0, "ortmodule": 1.25})
SLOW = compared("gpt2", {"pytorch": 2.0, "ortmodule": 2.5})
EQUAL = compared("vit-base", {"pytorch": 2.0, "ortmodule": 2.0})
OPEN = compared("bart-large", {"pytorch": 2.0, "ortmodule": UNDECIDED})
BROKEN = compared("swinv2-base", {"pytorch": 2.0, "ortmodule": "crashed"})
ALONE = compared("gpt2", {"pytorch": [2.0], "ortmodule": [1.6]})


def cells(*comparisons: ReportedComparison, backend: int = 0) -> list[str]:
    """What the table says of one backend, over each PyTorch, and of its memory."""
    (answer,) = answers(*comparisons)
    return [plain(cell) for cell in answer.backends[backend].cells]


@pytest.mark.parametrize(
    ("comparisons", "words"),
    [
        ((FAST, FASTER), "2 of 2 (at 1.25 to 1.60×)"),
        ((SLOW, EQUAL, OPEN), "0 of 3 (1 the same: 1.00×; 1 slower: 0.80×; 1 inconclusive: 1.20×)"),
        ((FAST, FASTER, SLOW, BROKEN), "2 of 4 (at 1.25 to 1.60×; 1 slower: 0.80×; 1 crashed)"),
        ((BROKEN,), "0 of 1 (1 crashed)"),
        ((ALONE,), "0 of 1 (1 from one launch, so without a verdict: 1.25×)"),
    ],
)
def test_models_are_counted_by_verdict_and_what_failed_is_never_slower(
    comparisons: tuple[ReportedComparison, ...], words: str
) -> None:
    assert cells(*comparisons)[: len(OVER)] == [words, "–", "–", "–"]


def test_a_sentence_says_how_fast_the_first_backend_is() -> None:
    (answer,) = answers(FAST, SLOW)
    assert answer.short == "ONNX Runtime is faster than PyTorch on 1 of 2 models (at 1.25×; 1 slower: 0.80×)."


def test_every_backend_has_a_line_of_its_own() -> None:
    both = compared("gpt2", {"pytorch": 2.0, "ortmodule": 1.6, "ortmodule_zero1": 2.5})
    (answer,) = answers(both)
    assert [backend.subject for backend in answer.backends] == ["ONNX Runtime", "ONNX Runtime with ZeRO-1"]
    assert cells(both, backend=1) == ["0 of 1 (1 slower: 0.80×)", "–", "–", "–", "1.00"]


def test_another_reference_is_named_in_the_setting() -> None:
    one = compared("gpt2", {"pytorch_fused": 2.0, "ortmodule": 1.6}, reference="pytorch_fused")
    assert answers(one)[0].setting.endswith(", over pytorch_fused")


# Machines


def test_two_machines_are_two_answers_and_are_never_counted_together() -> None:
    there = compared("t5-large", {"pytorch": 2.0, "ortmodule": 2.5}, stem="there", environment=OTHER_CPU)
    assert {answer.setting: plain(answer.backends[0].cells[0])[:6] for answer in answers(FAST, there)} == {
        "Example CPU (family 7, model 3), 2 cores, 2 ranks": "1 of 1",
        "Example CPU (family 8, model 3), 2 cores, 2 ranks": "0 of 1",
    }


def test_machines_whose_names_are_the_same_are_two_answers_and_their_headings_say_what_differs() -> None:
    older = ENVIRONMENT | {"cpu": ENVIRONMENT["cpu"] | {"instruction_sets": ["avx"]}}
    there = compared("t5-large", {"pytorch": 2.0, "ortmodule": 2.5}, stem="there", environment=older)
    assert [words.setting.rpartition("instruction sets ")[2] for words in answers(FAST, there)] == [
        "avx avx2 fma",
        "avx",
    ]


def test_the_answer_measured_last_comes_first_unless_another_has_more_models() -> None:
    seconds = {"pytorch": 2.0, "ortmodule": 1.6}
    here = compared("gpt2", seconds, started_at="2026-11-20T12:00:00Z")
    later = {"environment": OTHER_CPU, "started_at": "2026-11-21T12:00:00Z"}
    there = compared("gpt2", seconds, stem="there", **later)
    assert ["family 8" in words.setting for words in answers(here, there)] == [True, False]
    assert ["family 8" in words.setting for words in answers(here, there, FAST)] == [False, True]


def test_as_many_ranks_are_a_setting_of_their_own() -> None:
    one_rank = workload(model="gpt2", world_size=1)
    alone = compared("gpt2", {"pytorch": 2.0, "ortmodule": 2.5}, workload=one_rank, stem="one")
    assert len(answers(FAST, alone)) == 2


def test_what_was_left_uncontrolled_or_not_timed_or_is_not_over_a_pytorch_answers_nothing() -> None:
    free = compared("gpt2", {"pytorch": 2.0, "ortmodule": 1.6}, allocator="system")
    over_ort = compared("gpt2", {"ortmodule": 2.0, "ortmodule_zero1": 1.6}, reference="ortmodule")
    assert find_settings([[free, over_ort]]) == []


# The best PyTorch, and MKL's full path


def test_the_best_pytorch_and_mkl_s_full_path_have_counts_of_their_own() -> None:
    backends = {"pytorch": 2.0, "pytorch_fused": 1.25, "ortmodule": 1.6}
    full = compared("gpt2", backends | {"ortmodule": 2.5}, stem="full", blas="full")
    assert cells(compared("gpt2", backends), full)[: len(OVER)] == [
        "1 of 1 (at 1.25×)",
        "0 of 1 (1 slower: 0.78×)",
        "0 of 1 (1 slower: 0.80×)",
        "0 of 1 (1 slower: 0.50×)",
    ]


def test_the_same_pytorch_again_or_in_another_loop_or_with_other_work_is_no_better_one() -> None:
    seconds = {"pytorch": 2.0, "pytorch_again": 2.01, "pytorch_fused": 2.1, "ortmodule": 1.6}
    assert cells(compared("gpt2", seconds))[1] != "–"
    for column, other in (("loop", "trainer"), ("optimizer", "adafactor"), ("precision", "bf16")):
        changed = compared("gpt2", seconds)
        changed.rows.loc[changed.rows["backend"] == "pytorch_fused", column] = other
        assert cells(changed)[1] == "–", f"with {other} it cannot be the best"

"""The sentences at the top of the page, against hand-made results whose answer is known."""

import re

import pytest

from bench.report.content.models import find_settings
from tests.support.answers import OTHER_CPU, UNDECIDED, answer, answers, compared, first_sentence
from tests.support.factories import ENVIRONMENT, workload

MEMORY = "its peak memory is 1.00 times that of PyTorch."

FAST = compared("bert-large", {"pytorch": 2.0, "ortmodule": 1.6})
FASTER = compared("t5-large", {"pytorch": 2.0, "ortmodule": 1.25})
SLOW = compared("gpt2", {"pytorch": 2.0, "ortmodule": 2.5})
EQUAL = compared("vit-base", {"pytorch": 2.0, "ortmodule": 2.0})
OPEN = compared("bart-large", {"pytorch": 2.0, "ortmodule": UNDECIDED})
BROKEN = compared("swinv2-base", {"pytorch": 2.0, "ortmodule": "crashed"})


# How fast


def test_all_faster() -> None:
    assert first_sentence(FAST, FASTER) == (
        f"ONNX Runtime is faster than PyTorch as installed on 2 of 2 models (at 1.25 to 1.60×); {MEMORY}"
    )


def test_none_faster_since_same_and_inconclusive_are_not() -> None:
    assert first_sentence(SLOW, EQUAL, OPEN) == (
        "ONNX Runtime is faster than PyTorch as installed on 0 of 3 models (1 the same: 1.00×; "
        "1 slower: 0.80×; "
        f"1 inconclusive: 1.20×); {MEMORY}"
    )


def test_mixed_and_what_failed_counts_as_a_model_but_never_as_slower() -> None:
    sentence = first_sentence(FAST, FASTER, SLOW, BROKEN)
    assert sentence == (
        "ONNX Runtime is faster than PyTorch as installed on 2 of 4 models (at 1.25 to 1.60×; 1 "
        "slower: 0.80×; "
        f"1 crashed); {MEMORY}"
    )


def test_everything_failed() -> None:
    lost = compared("gpt2", {"pytorch": 2.0, "ortmodule": "unsupported"})
    assert (
        first_sentence(BROKEN, lost) == "ONNX Runtime has no result: GPT-2 unsupported; SwinV2-Base crashed."
    )
    assert "faster" not in first_sentence(BROKEN, lost)


def test_many_failures_are_counted_and_not_named() -> None:
    lost = [compared(f"model-{n}", {"pytorch": 2.0, "ortmodule": "oom"}) for n in range(4)]
    assert first_sentence(*lost) == "ONNX Runtime has no result: 4 oom."


def test_one_launch_has_a_ratio_and_no_verdict() -> None:
    alone = compared("gpt2", {"pytorch": [2.0], "ortmodule": [1.6]})
    assert first_sentence(alone) == (
        "Nobody knows yet whether ONNX Runtime is faster than PyTorch as installed, since one "
        "launch alone has no "
        "verdict: GPT-2 1.25×, one launch."
    )
    assert first_sentence(FAST, alone) == (
        "ONNX Runtime is faster than PyTorch as installed on 1 of 2 models (at 1.25×; 1 from "
        "one launch, so without "
        f"a verdict: 1.25×); {MEMORY}"
    )


@pytest.mark.parametrize(
    ("ortmodule", "count", "words"),
    [
        (1.6, "1 of 1 model", "BERT-Large 1.25×, faster"),
        (2.5, "0 of 1 model", "BERT-Large 0.80×, slower"),
        (2.0, "0 of 1 model", "BERT-Large 1.00×, the same"),
        (UNDECIDED, "0 of 1 model", "BERT-Large 1.20×, inconclusive"),
    ],
)
def test_one_model_is_named_in_the_singular(ortmodule: float, count: str, words: str) -> None:
    one = compared("bert-large", {"pytorch": 2.0, "ortmodule": ortmodule})
    assert first_sentence(one) == (
        f"ONNX Runtime is faster than PyTorch as installed on {count} ({words}); {MEMORY}"
    )


def test_every_backend_has_a_sentence_of_its_own() -> None:
    both = compared("gpt2", {"pytorch": 2.0, "ortmodule": 1.6, "ortmodule_zero1": 2.5})
    first, second = (sentence.text for sentence in answer(both).sentences)
    assert first.startswith("ONNX Runtime is faster than PyTorch as installed on 1 of 1 model")
    assert second.startswith("ONNX Runtime with ZeRO-1 is faster than PyTorch as installed on 0 of 1 model")


def test_on_a_gpu_nothing_is_said_of_how_mkl_is_installed() -> None:
    assert "than PyTorch on 1 of 1 model" in first_sentence(
        compared("gpt2", {"pytorch": 2.0, "ortmodule": 1.6}, device="cuda")
    )


def test_another_reference_is_named_in_the_sentence() -> None:
    one = compared("gpt2", {"pytorch_fused": 2.0, "ortmodule": 1.6}, reference="pytorch_fused")
    assert "than pytorch_fused as installed on 1 of 1 model" in first_sentence(one)
    assert answer(one).setting.endswith(", over pytorch_fused")


# Machines


def test_two_machines_are_two_answers_and_are_never_counted_together() -> None:
    there = compared("t5-large", {"pytorch": 2.0, "ortmodule": 2.5}, stem="there", environment=OTHER_CPU)
    one, other = answers(FAST, there)
    assert {one.setting, other.setting} == {
        "Example CPU (family 7, model 3), 2 cores, 2 ranks",
        "Example CPU (family 8, model 3), 2 cores, 2 ranks",
    }
    said = {words.setting: words.sentences[0].text for words in (one, other)}
    for words in said.values():
        assert " of 1 model (" in words
    assert sorted(re.findall(r"\d of \d", " ".join(said.values()))) == ["0 of 1", "1 of 1"]


def test_machines_whose_names_are_the_same_are_two_answers_and_their_headings_say_what_differs() -> None:
    older = ENVIRONMENT | {"cpu": ENVIRONMENT["cpu"] | {"instruction_sets": ["avx"]}}
    there = compared("t5-large", {"pytorch": 2.0, "ortmodule": 2.5}, stem="there", environment=older)
    assert [words.setting.rpartition("instruction sets ")[2] for words in answers(FAST, there)] == [
        "avx avx2 fma",
        "avx",
    ]


def test_the_answer_measured_last_comes_first_unless_another_has_more_models() -> None:
    here = compared("gpt2", {"pytorch": 2.0, "ortmodule": 1.6}, started_at="2026-11-20T12:00:00Z")
    there = compared(
        "gpt2",
        {"pytorch": 2.0, "ortmodule": 1.6},
        stem="there",
        environment=OTHER_CPU,
        started_at="2026-11-21T12:00:00Z",
    )
    assert ["family 8" in words.setting for words in answers(here, there)] == [True, False]
    assert ["family 8" in words.setting for words in answers(here, there, FAST)] == [False, True]


def test_as_many_ranks_are_a_setting_of_their_own() -> None:
    alone = compared(
        "gpt2", {"pytorch": 2.0, "ortmodule": 2.5}, workload=workload(model="gpt2", world_size=1), stem="one"
    )
    assert len(answers(FAST, alone)) == 2


def test_what_was_left_uncontrolled_or_not_timed_or_is_not_over_a_pytorch_answers_nothing() -> None:
    free = compared("gpt2", {"pytorch": 2.0, "ortmodule": 1.6}, allocator="system")
    over_ort = compared("gpt2", {"ortmodule": 2.0, "ortmodule_zero1": 1.6}, reference="ortmodule")
    assert find_settings([[free, over_ort]]) == []


# The best PyTorch, and MKL's full path


def test_the_best_pytorch_has_a_count_of_its_own() -> None:
    one = compared("gpt2", {"pytorch": 2.0, "pytorch_fused": 1.25, "ortmodule": 1.6})
    assert first_sentence(one) == (
        "ONNX Runtime is faster than PyTorch as installed on 1 of 1 model (GPT-2 1.25×, "
        "faster), and than the best "
        f"PyTorch measured beside it on 0 of 1 (GPT-2 0.78×, slower); {MEMORY}"
    )


def test_the_same_pytorch_again_or_in_another_loop_is_no_other_one() -> None:
    seconds = {"pytorch": 2.0, "pytorch_again": 2.01, "pytorch_fused": 2.1, "ortmodule": 1.6}
    loops = compared("gpt2", seconds)
    loops.rows.loc[loops.rows["backend"] == "pytorch_fused", "loop"] = "trainer"
    assert "best PyTorch" not in first_sentence(loops)
    assert "best PyTorch" in first_sentence(compared("gpt2", seconds))
    for column, other in (("optimizer", "adafactor"), ("precision", "bf16")):
        other_work = compared("gpt2", seconds)
        other_work.rows.loc[other_work.rows["backend"] == "pytorch_fused", column] = other
        assert "best PyTorch" not in first_sentence(other_work), f"with {other} it cannot be the best"


def test_the_only_pytorch_is_not_called_the_best() -> None:
    assert "best PyTorch" not in first_sentence(FAST, SLOW)


def test_the_full_path_of_mkl_is_a_count_of_its_own() -> None:
    backends = {"pytorch": 2.0, "pytorch_fused": 2.0, "ortmodule": 1.6}
    stock = compared("gpt2", backends)
    full = compared("gpt2", backends | {"pytorch_fused": 1.6, "ortmodule": 2.5}, stem="full", blas="full")
    words = answer(stock, full)
    assert words.sentences[0].text == (
        "ONNX Runtime is faster than PyTorch as installed on 1 of 1 model (GPT-2 1.25×, "
        "faster), than the best "
        "PyTorch measured beside it on 1 of 1 (GPT-2 1.25×, faster), than PyTorch with MKL's "
        "full path on 0 of 1 "
        "(GPT-2 0.80×, slower), and than the best PyTorch with that path on 0 of 1 (GPT-2 0.64×, slower); "
        f"{MEMORY}"
    )


# What to do: three rules, each with its condition in the table


def test_a_model_is_trained_with_what_is_faster_in_every_column() -> None:
    seconds = {"pytorch": 2.0, "pytorch_fused": 1.8, "ortmodule": 1.6}
    held_back = compared("gpt2", seconds, products=(100, 190))
    train = "Train GPT-2 with ONNX Runtime: every column of ortmodule says faster."
    assert answer(compared("gpt2", seconds)).to_do == train
    assert answer(held_back, compared("gpt2", seconds, stem="full", blas="full")).to_do == train


@pytest.mark.parametrize("fused", [1.25, 1.6])
def test_pytorch_is_kept_where_a_column_says_slower_or_same(fused: float) -> None:
    seconds = {"pytorch": 2.0, "pytorch_fused": fused, "ortmodule": 1.6}
    keep = "Keep PyTorch for GPT-2: a column of ortmodule says slower or same"
    assert answer(compared("gpt2", seconds)).to_do == f"{keep}."
    stock = compared("gpt2", seconds | {"pytorch_fused": 1.9}, products=(100, 190))
    full = compared("gpt2", seconds, stem="full", blas="full")
    assert answer(stock, full).to_do == f"{keep} (with device.blas=full where that is MKL's full path)."


def test_what_is_not_known_is_measured_before_anybody_decides() -> None:
    both = {"pytorch": 2.0, "pytorch_fused": 1.9}
    begin = "Measure GPT-2 before you decide: a column of ortmodule is"
    several = "inconclusive or of one launch (measure=thorough)"
    assert answer(compared("gpt2", both | {"ortmodule": UNDECIDED})).to_do == f"{begin} {several}."
    one_launch = {name: [seconds] for name, seconds in (both | {"ortmodule": 1.6}).items()}
    assert answer(compared("gpt2", one_launch)).to_do == f"{begin} {several}."
    alone = {"pytorch": 2.0, "ortmodule": 1.25}
    without = "without a value over the best PyTorch (pytorch_best)"
    assert answer(compared("gpt2", alone)).to_do == f"{begin} {without}."
    no_path = "without a value for MKL's full path (device.blas=full)"
    assert (
        answer(compared("gpt2", both | {"ortmodule": 1.25}, products=(100, 190))).to_do
        == f"{begin} {no_path}."
    )
    assert answer(compared("gpt2", alone, products=(100, 190))).to_do == f"{begin} {without} or {no_path}."


def test_every_model_has_one_rule_and_what_failed_has_none() -> None:
    both = compared("t5-large", {"pytorch": 2.0, "pytorch_fused": 1.9, "ortmodule": 1.25})
    assert answer(both, FAST, SLOW, EQUAL, OPEN, BROKEN).to_do == (
        "Train T5-Large with ONNX Runtime: every column of ortmodule says faster. "
        "Keep PyTorch for GPT-2 and ViT-Base: a column of ortmodule says slower or same. "
        "Measure BART-Large and BERT-Large before you decide: a column of ortmodule is "
        "inconclusive or of one launch (measure=thorough) or without a value over the best PyTorch "
        "(pytorch_best)."
    )
    assert answer(BROKEN).to_do == ""


def test_models_that_are_smaller_than_published_are_counted_before_the_answer() -> None:
    cut = workload(model="bert-large", size="layers:2", layers=2, published_layers=24)
    small = compared("bert-large", {"pytorch": 2.0, "ortmodule": 1.6}, workload=cut)
    assert answer(small, SLOW).reduced == (
        "not the published model in 1 of 2 rows: fewer layers, a miniature, or changed"
    )
    assert answer(FAST, SLOW).reduced == ""
    own = workload(model="ck-gpt", size="pretrained", layers=2, published_layers=2)
    assert answer(compared("ck-gpt", {"pytorch": 2.0, "ortmodule": 1.6}, workload=own), SLOW).reduced == ""


# Why

TORCH = {"matrix products": 0.12, "optimizer": 0.03, "dropout": 0.01, "elementwise": 0.04}
ORT = {"matrix products": 0.08, "optimizer": 0.02, "dropout": 0.02, "elementwise": 0.04}
"""Seconds of steps of 0.20 and 0.16 s."""


def profiled(
    torch: dict[str, float], ort: dict[str, float], products: tuple[float, float] = (100, 100)
) -> str:
    profile = {"pytorch": torch, "ortmodule": ort}
    return answer(
        compared("gpt2", {"pytorch": 2.0, "ortmodule": 1.6}, profile=profile, products=products)
    ).why


def test_the_cause_is_named_from_the_profile_with_its_share_of_the_reference_s_step() -> None:
    assert profiled(TORCH, ORT, (100, 190)) == (
        "Of PyTorch's step on GPT-2, ONNX Runtime saves time in matrix products (20 %) and the "
        "optimizer's step (5 %) "
        "and loses time in dropout (5 %). PyTorch multiplies with MKL, which takes a slower "
        "path on a CPU that Intel "
        "did not make. The optimizer is PyTorch's own fused AdamW, which needs no ONNX Runtime."
    )


def test_mkl_is_no_cause_where_it_multiplies_as_fast_or_where_products_save_nothing() -> None:
    assert "MKL" not in profiled(TORCH, ORT, (100, 100))
    equal = TORCH | {"optimizer": 0.01, "dropout": 0.005, "elementwise": 0.025}
    assert "saves time in the optimizer's step" in profiled(TORCH, equal, (100, 190))
    assert "MKL" not in profiled(TORCH, equal, (100, 190))


def test_a_kind_of_work_that_is_less_than_a_hundredth_of_the_step_is_no_cause() -> None:
    tiny = ORT | {"dropout": TORCH["dropout"] + 1e-4}
    assert "dropout" not in profiled(TORCH, tiny)
    assert "saves time in matrix products" in profiled(TORCH, tiny)


def test_a_profile_that_does_not_explain_the_timed_difference_says_so_and_names_no_cause() -> None:
    assert profiled(TORCH, TORCH) == "The profile does not explain the difference on GPT-2."


def test_without_a_profile_there_is_no_why() -> None:
    assert answer(FAST).why == ""


def test_a_kind_of_work_that_only_some_models_show_is_counted() -> None:
    profile = {"pytorch": TORCH, "ortmodule": ORT}
    without = {"pytorch": TORCH, "ortmodule": TORCH | {"matrix products": 0.08}}
    seconds = {"pytorch": 2.0, "ortmodule": 1.6}
    why = answer(compared("gpt2", seconds, profile=profile), compared("t5", seconds, profile=without)).why
    assert "matrix products (20 %) and the optimizer's step (5 % in 1 of them)" in why
    assert why.startswith("Of PyTorch's step in 2 profiled models, ")

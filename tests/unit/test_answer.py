"""The sentences at the top of the page, against hand-made results whose answer is known."""

import re

import pytest

from bench.report.content.collection import ReportedComparison
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
    assert answer(FAST, FASTER).to_do.startswith("Train BERT-Large and T5-Large with ONNX Runtime.")


def test_none_faster_since_same_and_inconclusive_are_not() -> None:
    assert first_sentence(SLOW, EQUAL, OPEN) == (
        "ONNX Runtime is faster than PyTorch as installed on 0 of 3 models (1 the same: 1.00×; "
        "1 slower: 0.80×; "
        f"1 inconclusive: 1.20×); {MEMORY}"
    )
    assert "with ONNX Runtime" not in answer(SLOW, EQUAL, OPEN).to_do


def test_mixed_and_what_failed_counts_as_a_model_but_never_as_slower() -> None:
    sentence = first_sentence(FAST, FASTER, SLOW, BROKEN)
    assert sentence == (
        "ONNX Runtime is faster than PyTorch as installed on 2 of 4 models (at 1.25 to 1.60×; 1 "
        "slower: 0.80×; "
        f"1 crashed); {MEMORY}"
    )
    assert answer(FAST, SLOW).to_do.startswith("Train BERT-Large with ONNX Runtime.")


def test_everything_failed() -> None:
    lost = compared("gpt2", {"pytorch": 2.0, "ortmodule": "unsupported"})
    assert (
        first_sentence(BROKEN, lost) == "ONNX Runtime has no result: GPT-2 unsupported; SwinV2-Base crashed."
    )
    assert answer(BROKEN, lost).to_do == (
        "See in the table why ONNX Runtime has no result; make doctor says what this machine can run."
    )
    assert "faster" not in first_sentence(BROKEN, lost)
    for torch, ort in ((2.0, "invalid"), ("invalid", 1.6)):
        assert answer(compared("gpt2", {"pytorch": torch, "ortmodule": ort})).to_do == (
            "See in the table why ONNX Runtime has no result; put that right and measure anew."
        )


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
    assert answer(alone).to_do == "Measure several launches, as measure=default does."
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


def test_the_best_pytorch_has_a_count_of_its_own_and_is_the_advice_where_it_is_as_fast() -> None:
    one = compared("gpt2", {"pytorch": 2.0, "pytorch_fused": 1.25, "ortmodule": 1.6})
    assert first_sentence(one) == (
        "ONNX Runtime is faster than PyTorch as installed on 1 of 1 model (GPT-2 1.25×, "
        "faster), and than the best "
        f"PyTorch measured beside it on 0 of 1 (GPT-2 0.78×, slower); {MEMORY}"
    )
    assert answer(one).to_do == (
        "Train with PyTorch and take torch.optim.AdamW(fused=True): 1.60× the speed of plain "
        "PyTorch on GPT-2."
    )


def test_a_choice_that_not_every_model_has_is_advised_where_it_is_there() -> None:
    seconds = {"pytorch": 2.0, "pytorch_fused": 1.25, "ortmodule": 1.6}
    with_sdpa, without = compared("gpt2", seconds), compared("swinv2-base", seconds)
    with_sdpa.rows.loc[with_sdpa.rows["backend"] == "pytorch_fused", "attention"] = "sdpa"
    taken = "take torch.optim.AdamW(fused=True) and PyTorch's own attention (sdpa)"
    assert f"{taken}: 1.60× the speed" in answer(with_sdpa).to_do
    assert f"{taken} where the model has it: 1.60× the speed" in answer(with_sdpa, without).to_do


def test_the_same_pytorch_again_or_in_another_loop_is_no_other_one() -> None:
    seconds = {"pytorch": 2.0, "pytorch_again": 2.01, "pytorch_fused": 2.1, "ortmodule": 1.6}
    loops = compared("gpt2", seconds)
    loops.rows.loc[loops.rows["backend"] == "pytorch_fused", "loop"] = "trainer"
    said = answer(loops)
    assert "Measure pytorch_best beside GPT-2: only pytorch was." in said.to_do
    assert "best PyTorch" not in first_sentence(loops)
    fused = compared("gpt2", seconds)
    assert "only pytorch was" not in answer(fused).to_do
    for column, other in (("optimizer", "adafactor"), ("precision", "bf16")):
        other_work = compared("gpt2", seconds)
        other_work.rows.loc[other_work.rows["backend"] == "pytorch_fused", column] = other
        assert "only pytorch was" in answer(other_work).to_do, f"with {other} it cannot be the best"


def test_the_only_pytorch_is_not_called_the_best() -> None:
    assert "best PyTorch" not in first_sentence(FAST, SLOW)
    assert "Measure pytorch_best beside BERT-Large and GPT-2: only pytorch was." in answer(FAST, SLOW).to_do


def test_the_full_path_of_mkl_is_a_count_of_its_own_and_takes_the_advice_back() -> None:
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
    assert words.to_do == (
        "Give PyTorch MKL's full path (device.blas=full; docs/methodology.md, Fairness): with "
        "it ONNX Runtime is "
        "not faster on GPT-2. Train with PyTorch and take torch.optim.AdamW(fused=True): 1.25× "
        "the speed of plain "
        "PyTorch with that path on GPT-2."
    )


def test_what_the_best_pytorch_alone_wins_with_the_full_path_is_said_to_need_both() -> None:
    seconds = {"pytorch": 2.0, "pytorch_fused": 2.0, "ortmodule": 1.6}

    def both(model: str, plain: float) -> list[ReportedComparison]:
        there = seconds | {"pytorch": plain, "pytorch_fused": 1.25}
        return [compared(model, seconds), compared(model, there, stem="full", blas="full")]

    won, lost = both("gpt2", 2.0), both("bert-large", 1.5)
    begin = "Give PyTorch MKL's full path (device.blas=full; docs/methodology.md, Fairness): "
    of_bert = "with it ONNX Runtime is not faster on BERT-Large"
    of_gpt2 = "with it and PyTorch at its best, ONNX Runtime is not faster on GPT-2"
    assert answer(*won).to_do.startswith(f"{begin}{of_gpt2}. ")
    assert answer(*lost).to_do.startswith(f"{begin}{of_bert}. ")
    assert answer(*won, *lost).to_do.startswith(f"{begin}{of_bert}; {of_gpt2}. ")


def test_models_that_mkl_holds_back_are_measured_with_its_full_path_before_anybody_switches() -> None:
    held_back = compared("t5-large", {"pytorch": 2.0, "ortmodule": 1.25}, products=(100, 190))
    before = (
        "Before you train T5-Large with ONNX Runtime, measure with device.blas=full: MKL's slower path "
        "may be all that it gains."
    )
    assert answer(held_back).to_do.startswith(before)
    assert answer(FAST, held_back).to_do.startswith(f"Train BERT-Large with ONNX Runtime. {before}")
    tried = compared("t5-large", {"pytorch": 2.0, "ortmodule": 1.6}, stem="full", blas="full")
    assert answer(held_back, tried).to_do.startswith("Train T5-Large with ONNX Runtime.")


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

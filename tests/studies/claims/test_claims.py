"""What our results say about the published claims."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from bench.report.content.collection import ReportedComparison
from bench.report.content.study_pages import write_page
from bench.report.files import files_of
from bench.results import csv_files
from bench.results.records import Record
from bench.studies.claims.judge import evidence_lines, judge_claims, verdict_words
from bench.studies.claims.pages import PAGE
from tests.studies.claims.judged import finding, launches_of, ort, verdicts
from tests.support.factories import ENVIRONMENT, MIB, comparison, record, with_environment, workload
from tests.support.git import COMMITTED
from tests.support.result_files import write_records


@pytest.mark.parametrize(
    ("tables", "verdict"),
    [
        ([ort(1.3)], "reproduced"),
        ([ort(0.9)], "contradicted"),
        ([ort(1.3), ort(0.9)], "partly"),
        ([ort(1.01, spread=0.1)], "not testable"),  # the interval allows either
        ([ort(1.01, spread=0.1), ort(1.3)], "partly"),
        ([ort(1.01, spread=0.1), ort(0.9)], "contradicted"),  # nowhere does it hold
        ([comparison({"pytorch": [[2.0], [2.0]]})], "not testable"),
        ([ort(2.0, allocator="system")], "not testable"),  # what was left alone on purpose tests nothing
    ],
)
def test_the_verdict_follows_the_intervals(tables: list[list[Record]], verdict: str) -> None:
    assert verdicts(*tables)["ort-standalone"] == verdict


def test_a_claim_about_onnx_runtime_is_judged_against_the_best_pytorch_too() -> None:
    def beside_best(best: float) -> list[Record]:
        seconds = {"pytorch": 2.0, "pytorch_fused": best, "ortmodule": 1.5}
        return comparison({name: [[one], [one * 1.001]] for name, one in seconds.items()})

    assert verdicts(beside_best(1.9))["ort-standalone"] == "reproduced"
    assert verdicts(beside_best(1.4))["ort-standalone"] == "partly"
    _, over_best = evidence_lines(finding("ort-standalone", beside_best(1.4)))
    assert "0.933× [" in over_best
    assert "over pytorch_fused, the best PyTorch there" in over_best


@pytest.mark.parametrize(
    ("device", "implementation", "verdict"),
    [
        ("cpu", "for-loop", "reproduced"),
        ("cpu", None, "reproduced"),  # of before it was recorded
        ("cuda", "for-loop", "reproduced"),
        ("cuda", "foreach", "not testable"),
        ("cuda", None, "not testable"),
    ],
)
def test_the_fused_optimizer_is_compared_with_the_loop_over_parameters(
    device: str, implementation: str | None, verdict: str
) -> None:
    """Which `adamw` is on a CPU; on a GPU torch steps many tensors at once by itself."""
    optimizers = {"pytorch": "adamw", "pytorch_fused": "adamw_fused"}
    made = comparison(
        {name: [[one], [one * 1.001]] for name, one in zip(optimizers, (2.0, 1.4), strict=True)}
    )
    records = [
        dataclasses.replace(
            record,
            optimizer=optimizers[record.backend],
            device=device,
            proof={"optimizer": {"implementation": implementation}} if record.backend == "pytorch" else {},
        )
        for record in made
    ]
    assert verdicts(records)["fused-adam"] == verdict


def test_a_choice_is_swapped_alone_whatever_the_reference_is() -> None:
    """Today's torch may be faster than the pinned one: that is not what compiling brings."""
    choices = {
        "pytorch": {},
        "pytorch@modern": {"stack": "modern"},
        "compile@modern": {"stack": "modern", "engine": "compile"},
        "sdpa@modern": {"stack": "modern", "attention": "sdpa"},
    }

    def of_stacks(compiled: float, sdpa: float) -> list[Record]:
        seconds = dict(zip(choices, (2.0, 1.0, compiled, sdpa), strict=True))
        made = comparison({name: [[one], [one * 1.001], [one * 0.999]] for name, one in seconds.items()})
        return [
            dataclasses.replace(
                one,
                engine=choices[one.backend].get("engine", "eager"),
                stack=choices[one.backend].get("stack", "ort"),
                workload=workload(attention=choices[one.backend].get("attention", "eager")),
            )
            for one in made
        ]

    found = verdicts(of_stacks(compiled=1.5, sdpa=0.8))
    assert (found["torch-compile"], found["sdpa"]) == ("contradicted", "partly"), "the peak is the same"
    found = verdicts(of_stacks(compiled=0.5, sdpa=1.2))
    assert (found["torch-compile"], found["sdpa"]) == ("reproduced", "contradicted")


def test_a_proxy_decides_nothing_but_its_numbers_are_shown() -> None:
    for ratio in (1.3, 1.45):
        on_cpu, on_gpu = (ort(ratio, "ortmodule_zero1"), ort(ratio, "ortmodule_zero1", device="h100"))
        claim = finding("ort-zero1", on_cpu)
        assert claim.verdict == "not testable"
        reason, numbers, judge = evidence_lines(claim)
        assert "proxy" in reason
        assert f"{ratio:.3f}×" in numbers
        assert judge == "what would judge it: make reproduce GPUS=8, on gpu>=2 (cpu as a proxy)"
        assert verdicts(on_gpu)["ort-zero1"] == ("reproduced" if ratio > 1.39 else "contradicted")


def test_bytes_of_state_are_counted_per_parameter_and_shared_by_the_ranks() -> None:
    size = 8 * 4_416_698
    whole = record("pytorch", optimizer_state_bytes=(size, size))
    half = record("pytorch_zero1", optimizer_state_bytes=(size // 2, size // 2))
    found = verdicts([whole, half])
    assert (found["adamw-8-bytes"], found["zero1-memory"]) == ("reproduced", "partly"), "the peak is the same"
    lower = tuple(dataclasses.replace(one, host_peak_bytes=(3 * MIB, 3 * MIB)) for one in half.blocks)
    assert verdicts([whole, dataclasses.replace(half, blocks=lower)])["zero1-memory"] == "reproduced"
    same = record("pytorch_zero1", optimizer_state_bytes=(size, size))
    assert verdicts([whole, same])["zero1-memory"] == "contradicted"


@pytest.mark.parametrize(
    ("seconds", "peak", "verdict"),
    [
        (2.5, 400, "reproduced"),
        (2.5, 600, "partly"),
        (2.04, 600, "contradicted"),
        (2.857, 400, "partly"),  # so near to the bound that only the memory is decided
        (2.04, 495, "contradicted"),
        (2.857, 495, "not testable"),  # and the peak is the same, as far as one can tell
    ],
)
def test_checkpointing_must_cost_about_a_fifth_and_save_memory(
    seconds: float, peak: int, verdict: str
) -> None:
    without = launches_of("pytorch", 2.0, 500, checkpointing=False)
    changed = launches_of("changed", seconds, peak, checkpointing=True)
    assert verdicts([*without, *changed])["checkpointing-20"] == verdict
    assert verdicts(without)["checkpointing-20"] == "not testable"


@pytest.mark.parametrize(
    ("claim", "seconds", "before", "after"),
    [
        ("sdpa", 1.6, {"attention": "eager"}, {"attention": "sdpa"}),
        ("accumulation-slows", 2.5, {"grad_accum": 1, "micro_batch": 8}, {"grad_accum": 2, "micro_batch": 4}),
    ],
)
def test_what_is_said_to_save_memory_too_must_save_it(
    claim: str, seconds: float, before: dict[str, Any], after: dict[str, Any]
) -> None:
    for peak, holds in ((400, True), (495, None), (505, None), (600, False)):
        changed = launches_of("changed", seconds, peak, **after)
        of_time, of_memory = finding(claim, [*launches_of("pytorch", 2.0, 500, **before), *changed]).answers
        assert (of_time.holds, of_memory.holds) == (True, holds)


def test_one_launch_decides_no_claim_about_how_much_faster() -> None:
    records = [
        *comparison({"pytorch": [[2.0, 2.01, 1.99]]}, workload=workload(checkpointing=False)),
        *comparison({"checkpointing": [[2.5, 2.5, 2.49]]}, workload=workload(checkpointing=True)),
    ]
    (answer,) = [one for one in finding("checkpointing-20", records).answers if "over pytorch" in one.words]
    assert answer.holds is None


def at_largest(torchs: int, orts: int) -> list[Record]:
    """Each at its own micro-batch, equally fast per sample."""
    sizes = {"pytorch": torchs, "ortmodule": orts}
    return [
        one
        for name, size in sizes.items()
        for one in comparison(
            {name: [[2.0], [2.01]]},
            workload=workload(micro_batch=size, batch_rule="max", memory_limit_gib=4.0),
        )
    ]


@pytest.mark.parametrize(
    ("torchs", "orts", "verdict"),
    [
        (18, 34, "reproduced"),
        (34, 18, "contradicted"),
        (18, 18, "contradicted"),
        (18, 19, "not testable"),  # no further apart than the search tells
        (640, 660, "not testable"),
        (640, 661, "reproduced"),
    ],
)
def test_a_larger_batch_is_one_beyond_the_search_s_resolution(torchs: int, orts: int, verdict: str) -> None:
    assert verdicts(at_largest(torchs, orts))["ort-max-batch"] == verdict


def test_at_their_largest_batches_backends_test_no_claim_about_equal_ones() -> None:
    found = verdicts(at_largest(18, 34))
    assert found["ort-standalone"] == found["ort-1.5x"] == "not testable"
    assert verdicts(ort(1.6))["ort-max-batch"] == "not testable"
    claim = finding("ort-max-batch", at_largest(18, 34))
    assert claim.where == "on a CPU"
    (evidence,) = evidence_lines(claim)
    assert " as installed: the largest micro-batch is 34 with ortmodule and 18 with pytorch" in evidence
    assert "memory limit 4 GiB per backend" in evidence


def test_the_numbers_and_the_command_stand_beside_the_verdict() -> None:
    claim = finding("ort-standalone", ort(1.3))
    (evidence,) = evidence_lines(claim)
    title, _, words = evidence.partition(": ")
    assert title == "bert-tiny, 2 ranks, 2 × accumulated, as installed"
    assert words.startswith("ortmodule (ortmodule + adamw_fused + ddp) 1.300× [1.29")
    assert "Example CPU" in evidence
    assert claim.commands == ["make bench"]


def test_the_committed_results_can_be_checked() -> None:
    tables = [
        ReportedComparison(stem=path.stem, rows=csv_files.read(path))
        for path in COMMITTED.glob("results/*/bench/*.csv")
        if "." not in path.stem
    ]
    assert {one.verdict for one in judge_claims(tables)} > {"not testable"}


def test_a_study_of_claims_has_a_page_of_verdicts_and_evidence(tmp_path: Path) -> None:
    write_records(tmp_path / "claims" / "bert-tiny-cpux2.csv", ort(1.6))
    written, refused = write_page(PAGE, files_of(tmp_path / "claims"), tmp_path)
    assert not refused
    words = written.files[0].read_text(encoding="utf-8")
    assert "| ORT training gives more than 1.5x speed-up | onnxruntime.ai | holds here, on a CPU |" in words
    assert "1.600× [" in words.partition("<summary>ORT training gives more than 1.5x speed-up")[2]
    assert write_page(PAGE, [], tmp_path)[0].files == ()


def loaders(ratio: float, before: str, after: str, **changes: Any) -> list[Record]:
    """A backend whose batches are prepared in another way, so many times as fast as pytorch."""
    return [
        dataclasses.replace(
            one, workload=workload(data="hf:images", loader=before if one.backend == "pytorch" else after)
        )
        for one in ort(ratio, "pytorch_loader", **changes)
    ]


def test_a_file_whose_backends_have_several_batches_is_compared_by_its_reference_alone() -> None:
    """Of largest batches, or of a backend that accumulates: `24/48` is no number."""
    accumulating = [
        dataclasses.replace(
            one,
            workload=workload(grad_accum=8, micro_batch=1)
            if one.backend == "pytorch_parts"
            else one.workload,
        )
        for one in ort(0.8, "pytorch_parts")
    ]
    found = verdicts(accumulating, at_largest(18, 34))
    assert found["accumulation-slows"] == "partly", "0.8 within a file, and the same peak"


def test_workers_and_pinned_memory_are_judged_one_at_a_time() -> None:
    def verdict(*arguments: Any, **changes: Any) -> str:
        return verdicts(loaders(*arguments, **changes))["dataloader"]

    assert verdict(1.2, "workers=0", "workers=2") == "reproduced"
    assert verdict(0.9, "workers=0", "workers=2") == "contradicted"
    assert verdict(1.2, "workers=2", "workers=0") == "contradicted", "fewer are faster"
    pinned, unpinned = ("workers=2 pinned_memory=true", "workers=2 pinned_memory=false")
    assert verdict(1.2, unpinned, pinned, device="h100") == "reproduced"
    assert verdict(1.2, "workers=0 pinned_memory=false", pinned, device="h100") == "not testable", (
        "both at once"
    )
    assert verdicts(ort(1.2))["dataloader"] == "not testable", "batches that lie ready need no loader"


def test_weights_in_mixed_precision_are_kept_twice_or_not() -> None:
    def verdict(precision: str, sharding: str, bytes_per_parameter: float) -> str:
        work = workload(precision=precision, world_size=1)
        size = int(bytes_per_parameter * 4_416_698)
        mixed = record("mixed", sharding=sharding, workload=work, weights_bytes=(size,))
        return verdicts([record("pytorch", workload=workload(world_size=1)), mixed])["fp16-memory"]

    assert verdict("bf16", "zero1_native", 6) == "reproduced", "16 bits, and the copy in fp32"
    assert verdict("bf16", "ddp", 4) == "contradicted", "autocast keeps no copy"
    assert verdict("fp32", "zero1", 8) == "not testable", "no mixed precision"


def test_the_words_say_on_how_many_machines_a_claim_was_tried_and_how_many_comparisons_could_tell() -> None:
    def elsewhere(ratio: float, **settings: Any) -> list[Record]:
        return with_environment(ort(ratio, **settings), cpu=ENVIRONMENT["cpu"] | {"family": 8})

    unsure = [ort(1.5, spread=0.2), elsewhere(1.5, spread=0.2)]
    in_one = "in 1 of 3 comparisons, on a CPU; the rest cannot tell"
    for tables, words in (
        ([ort(1.3)], "does not hold here, on a CPU"),
        ([ort(1.1), ort(1.2)], "does not hold here, on a CPU"),
        ([ort(1.1), elsewhere(1.2)], "holds on none of 2 machines that were tried, on a CPU"),
        ([ort(1.6)], "holds here, on a CPU"),
        ([ort(1.7), elsewhere(1.8)], "holds on all 2 machines that were tried, on a CPU"),
        ([ort(1.7), elsewhere(1.1)], "holds in part, on a CPU"),
        ([ort(1.7), ort(1.1), unsure[0]], "holds in part, on a CPU"),
        ([unsure[0]], "not testable"),
        ([ort(1.1), *unsure], f"does not hold {in_one}"),
        ([ort(1.7), *unsure], f"holds {in_one}"),
    ):
        assert verdict_words(finding("ort-1.5x", *tables)) == words


def test_claims_are_tested_within_a_comparison_of_methods() -> None:
    parameters = {"trainable_parameters": 1000}

    def states(backend: str, size: int, optimizer: str = "adamw") -> list[Record]:
        made = launches_of(backend, 2.0, 400, **parameters)
        return [
            dataclasses.replace(one, optimizer_state_bytes=(size, size), optimizer=optimizer) for one in made
        ]

    plain, adafactor = states("pytorch", 8000), states("pytorch_adafactor", 5, "adafactor")
    eight_bits = states("pytorch_8bit", 2100, "adamw_8bit_bitsandbytes")
    found = verdicts([*plain, *adafactor, *eight_bits])
    assert found["adamw-8-bytes"] == "reproduced"
    assert found["adafactor-4-bytes"] == "contradicted", "0.005 bytes"
    assert found["adam8bit-2-bytes"] == "reproduced"

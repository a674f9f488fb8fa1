"""What each method saves and costs: figures, sentences, page and plane, from hand-made rows."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from bench.config.compose import compose
from bench.report.content.collection import ReportedComparison
from bench.report.content.study_pages import write_page
from bench.report.files import files_of
from bench.results.records import Record, Workload
from bench.studies.methods.effects import MethodsStudy, find_methods
from bench.studies.methods.figure import OTHERS, UNBEATEN
from bench.studies.methods.pages import PAGE, answer_about_methods, name_method
from tests.support.factories import MIB, block, failed, record, workload
from tests.support.reports import svg_texts
from tests.support.result_files import table_of_records

PARAMETERS = 1000


def plain() -> Workload:
    return workload(micro_batch=8, grad_accum=1, trainable_parameters=PARAMETERS)


def launches(
    backend: str, seconds: float, mib: int, state: int = 8 * PARAMETERS, **changes: Any
) -> list[Record]:
    """Three launches of a backend, one block each, whose peak is `mib`."""
    own = {key: changes.pop(key) for key in ("precision", "checkpointing", "grad_accum") if key in changes}
    batch = {"micro_batch": 8 // own["grad_accum"]} if "grad_accum" in own else {}
    work = workload(**{"micro_batch": 8, "grad_accum": 1, "trainable_parameters": PARAMETERS} | own | batch)
    peak = mib * MIB
    return [
        record(
            backend,
            launch,
            workload=work,
            blocks=(block(1, seconds * (1 + 0.001 * launch), host_peak_bytes=(peak, peak)),),
            optimizer_state_bytes=(state, state),
            **changes,
        )
        for launch in (1, 2, 3)
    ]


def results(*groups: list[Record]) -> ReportedComparison:
    rows = table_of_records([one for group in groups for one in group])
    return ReportedComparison(stem="bert-tiny-cpux2", rows=rows)


def guided() -> ReportedComparison:
    """A faster optimizer, a slower checkpointing, a slower accumulation that saves nothing, and a failure."""
    return results(
        launches("pytorch", 2.0, 400),
        launches("pytorch_fused", 1.6, 400),
        launches("pytorch_checkpointing", 2.5, 200, checkpointing=True),
        launches("pytorch_accumulation", 2.2, 401, grad_accum=4),
        launches("pytorch_adafactor", 2.1, 300, state=5, optimizer="adafactor", loss_difference=0.02),
        launches("pytorch_smallest", 4.0, 100, precision="bf16", checkpointing=True, grad_accum=4),
        [failed("compile", "diverged", "a gradient is lost", engine="compile", launch=0, workload=plain())],
    )


def find(comparison: ReportedComparison) -> MethodsStudy:
    found = find_methods(comparison)
    assert found is not None
    return found


def test_speed_memory_and_states_are_those_of_the_rows() -> None:
    found = find(guided())
    assert (found.base.backend, found.base.peak_mib, found.state_bytes) == ("pytorch", 400, 8)
    figures = {one.summary.backend: one for one in found.methods}
    fused, recomputing, adafactor = (
        figures[f"pytorch_{name}"] for name in ("fused", "checkpointing", "adafactor")
    )
    assert fused.summary.speedup is not None
    assert fused.summary.speedup.ratio == pytest.approx(1.25)
    assert (fused.memory_ratio, recomputing.memory_ratio) == (1, 0.5)
    assert adafactor.state_bytes == pytest.approx(0.005)
    assert adafactor.summary.loss_difference == 0.02
    assert figures["compile"].summary.speedup is None
    assert figures["compile"].summary.status == "diverged"


def test_a_method_is_named_by_what_it_changes_and_those_that_change_one_thing_come_first() -> None:
    assert [(one.summary.backend, name_method(one)) for one in find(guided()).methods] == [
        ("pytorch_adafactor", "Adafactor (torch)"),
        ("pytorch_fused", "fused AdamW"),
        ("compile", "torch.compile"),
        ("pytorch_checkpointing", "checkpointing"),
        ("pytorch_accumulation", "accumulation × 4"),
        ("pytorch_smallest", "bf16 + checkpointing + accumulation × 4"),
    ]


def test_the_front_holds_what_nothing_beats_in_both() -> None:
    assert find(guided()).front == [
        "pytorch_fused",
        "pytorch_adafactor",
        "pytorch_checkpointing",
        "pytorch_smallest",
    ]


def test_the_answer_is_true_of_the_rows() -> None:
    assert answer_about_methods(find(guided())) == (
        "Of 5 methods 1 train faster than pytorch, 3 need less memory, 0 do both. The fastest is fused "
        "AdamW: 1.250× the speed, 1.00× the memory. The smallest is bf16 + checkpointing + accumulation × 4: "
        "0.25× the memory, 0.500× the speed."
    )


def test_without_any_result_it_says_so() -> None:
    nothing = results(launches("pytorch", 2.0, 400), [failed("compile", "crashed", "no", launch=0)])
    assert answer_about_methods(find(nothing)) == "No method has a result."
    assert find_methods(results([failed("pytorch", "oom", "no")])) is None


def test_another_precision_or_batch_in_parts_is_said_beside_the_speed_up() -> None:
    comparison = guided()
    for name, words in (
        ("smallest", "precision bf16 (reference fp32); checkpointing 1 (reference 0); grad_accum 4"),
        ("checkpointing", "checkpointing 1 (reference 0)"),
    ):
        assert getattr(comparison.of(f"pytorch_{name}"), "message", "").startswith(words)


def test_the_best_pytorch_makes_the_reference_s_update_in_its_precision() -> None:
    comparison = results(
        launches("pytorch", 2.0, 400),
        launches("pytorch_fused", 1.6, 400),
        launches("pytorch_bf16", 1.0, 400, precision="bf16"),
        launches("pytorch_adafactor", 1.1, 400, optimizer="adafactor"),
    )
    assert [one.backend for one in comparison.summaries if one.is_best_pytorch] == ["pytorch_fused"]


def written_for(comparison: ReportedComparison, folder: Path) -> tuple[Path, ...]:
    """The page and the figure of a study of this comparison alone."""
    (folder / "methods").mkdir()
    comparison.rows.to_csv(folder / "methods" / "bert-tiny-cpux2.csv", index=False)
    written, refused = write_page(PAGE, files_of(folder / "methods"), folder / "reports")
    assert refused == []
    return tuple(written.files)


def test_the_page_has_a_row_for_every_method_and_its_figure_all_numbers(tmp_path: Path) -> None:
    page, figure = written_for(guided(), tmp_path)
    text = page.read_text()
    for words in ("fused AdamW", "checkpointing", "Adafactor (torch)", "diverged", "a gradient is lost"):
        assert words in text
    assert f"({figure.name})" in text
    texts = svg_texts(figure)
    assert {"torch.compile", "diverged"} <= {*texts}
    assert (
        texts.index("fused AdamW")
        < texts.index(UNBEATEN)
        < texts.index("torch.compile")
        < texts.index(OTHERS)
    )


def test_what_lies_beyond_the_axis_is_cut_there_and_has_its_number(tmp_path: Path) -> None:
    slow = launches("pytorch_fp16", 40.0, 400, precision="fp16")
    quick = (launches("pytorch", 2.0, 400), launches("pytorch_fused", 1.6, 390))
    _, figure = written_for(results(*quick, slow), tmp_path)
    texts = svg_texts(figure)
    assert "0.050×" in texts
    assert "0.1" not in texts, "the axis ends before"


def test_the_experiment_has_every_method_of_a_cpu() -> None:
    config = compose(["device=cpu", "experiment=methods", "model=bert-mini"])
    assert config.reference == "pytorch"
    assert config.device.world_size == 1
    different = {
        name
        for name, backend in config.backends.items()
        if dataclasses.replace(backend) != config.backends["pytorch"]
    }
    assert different == {*config.backends} - {"pytorch"}, "each changes something"


def test_samples_are_full_but_those_of_a_module_are_as_it_makes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").touch()
    line = ["experiment=methods", "device=cpu", "backend=[pytorch]"]
    assert compose([*line, "model=bert-tiny"]).data.lengths == "full"
    assert compose([*line, "model.module=net.py:Net"]).data.lengths == "uniform"

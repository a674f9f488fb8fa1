"""Advice: which backends are measured against which reference, and what is said of those that fit."""

from collections.abc import Sequence
from typing import Any

import pytest

from bench.config.compose import compose
from bench.config.schema import Config
from bench.report.content.collection import ReportedComparison
from bench.studies.advise import COMMON, fitting, words
from bench.studies.advise.__main__ import main
from bench.studies.advise.fitting import measure_fitting, with_backends
from tests.support.factories import comparison, failed
from tests.support.result_files import table_of_records

LINE = [*COMMON, "model=bert-tiny", "device.memory_limit_gib=6", "backend=[pytorch,pytorch_fused,ortmodule]"]


def results(seconds: dict[str, float], **statuses: str) -> ReportedComparison:
    """Two launches of two rounds of each backend, and failed launches of others."""
    timed = comparison({name: [[one, 1.01 * one], [1.01 * one, one]] for name, one in seconds.items()})
    records = [*timed, *(failed(name, status, f"it is {status}") for name, status in statuses.items())]
    return ReportedComparison(stem="m-cpux1", rows=table_of_records(records))


def measured(*comparisons: ReportedComparison, line: Sequence[str] = LINE) -> list[list[str]]:
    """The backends of each comparison that is measured, where each ends as one of these."""
    left, asked = list(comparisons), []

    def measure(config: Config) -> ReportedComparison:
        asked.append(list(config.backends))
        return left.pop(0)

    assert measure_fitting(compose(line), measure) == [*comparisons]
    return asked


def test_one_comparison_is_enough_where_the_reference_fits() -> None:
    one = results({"pytorch": 2.0, "pytorch_fused": 1.5}, ortmodule="oom")
    assert measured(one) == [["pytorch", "pytorch_fused", "ortmodule"]]


def test_what_is_left_is_measured_against_the_next_reference_if_the_first_does_not_fit() -> None:
    first = results({}, pytorch="oom", pytorch_fused="skipped", ortmodule="skipped")
    second = results({"pytorch_fused": 1.5, "ortmodule": 1.0})
    assert measured(first, second) == [
        ["pytorch", "pytorch_fused", "ortmodule"],
        ["pytorch_fused", "ortmodule"],
    ]


def test_a_reference_that_other_processes_disturbed_is_no_reason_to_measure_more() -> None:
    spoiled = results({"pytorch_fused": 1.5}, pytorch="invalid", ortmodule="skipped")
    assert len(measured(spoiled)) == 1


def test_a_module_of_the_user_s_own_computes_no_activations_again() -> None:
    line = [*COMMON, "model.module=net.py:Net", "device.memory_limit_gib=6"]
    (names,) = measured(results({"pytorch": 1.0}), line=line)
    assert "pytorch_best" in names
    assert "pytorch_best_checkpointing" not in names


def test_fewer_backends_keep_their_own_settings_and_the_reference_if_it_is_among_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fitting, "memory_bytes", lambda: 16 * 2**30)
    config = compose([*LINE, "reference=ortmodule", "backends.pytorch.slowed_by=0.1", "resume=true"])
    both = with_backends(["pytorch_fused", "ortmodule"], config)
    assert (list(both.backends), both.reference) == (["pytorch_fused", "ortmodule"], "ortmodule")
    alone = with_backends(["pytorch"], config)
    assert (alone.backends["pytorch"].slowed_by, alone.reference) == (0.1, "pytorch")
    assert (both.measure.schedule, both.measure.launches) == ("interleaved", 4)
    full = with_backends(list(config.backends), config)
    assert (full.measure.schedule, full.measure.launches, full.resume) == ("sequential", 4, True)


def said(*comparisons: ReportedComparison, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = words.print_advice(comparisons, compose([*LINE, "micro_batch=8"]))
    return status, capsys.readouterr().out


def test_what_fits_is_listed_the_fastest_first_and_what_does_not_with_its_status(capsys: Any) -> None:
    found = results({"pytorch": 2.0, "pytorch_fused": 1.0}, ortmodule="oom")
    status, text = said(found, capsys=capsys)
    assert status == 0
    assert "bert-tiny trains fastest within 6 GiB with pytorch_fused: 159.2 samples/s" in " ".join(
        text.split()
    )
    lines = [line.strip() for line in text.splitlines()]
    places = [
        next(at for at, line in enumerate(lines) if line.startswith(start))
        for start in ("pytorch_fused ", "pytorch ", "speed-ups are over pytorch", "ortmodule: oom: it is oom")
    ]
    assert places == sorted(places)
    assert "2.000×" in lines[places[0]]


def test_what_may_be_as_fast_is_named(capsys: Any) -> None:
    _, text = said(results({"pytorch": 1.0, "pytorch_fused": 1.0}), capsys=capsys)
    assert "may be as fast, as far as the intervals tell." in " ".join(text.split())


def test_if_nothing_fits_each_backend_says_why(capsys: Any) -> None:
    first = results({}, pytorch="oom", pytorch_fused="skipped", ortmodule="skipped")
    status, text = said(first, results({}, pytorch_fused="oom", ortmodule="oom"), capsys=capsys)
    assert status == 1
    assert "Nothing that was tried trains bert-tiny within 6 GiB" in " ".join(text.split())
    assert "pytorch: oom: it is oom" in text


def test_what_others_have_spoiled_is_not_said_to_need_more_memory(capsys: Any) -> None:
    status, text = said(results({}, pytorch="invalid", pytorch_fused="invalid"), capsys=capsys)
    assert status == 1
    assert "No valid measurement says what trains bert-tiny within 6 GiB" in " ".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "words_of_it"),
    [
        ([], "how much memory training may take; set device.memory_limit_gib="),
        (["device.memory_limit_gib=-1"], "device.memory_limit_gib"),
        (["device.memory_limit_gib=4", "model=bert-huge"], "model=bert-huge does not exist; choose from"),
    ],
)
def test_a_wrong_command_line_is_refused_in_a_sentence(
    arguments: list[str], words_of_it: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert words_of_it in capsys.readouterr().err

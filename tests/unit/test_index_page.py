"""The first page of all reports: a row for each kind of machine."""

from bench.analysis.answer import FASTER, Outcome
from bench.report.content.answer import BackendAnswer, SettingAnswer
from bench.report.pages.index import index_page
from bench.report.render.markdown import render_markdown
from bench.statistics.intervals import Speedup


def answer(models: int) -> SettingAnswer:
    speedups = [
        Speedup(ratio=1 + number / 10, low=None, high=None, launches=4, rounds=8)
        for number in range(1, models + 1)
    ]
    of_models = [Outcome(verdict=FASTER, speedup=speedup) for speedup in speedups]
    backend = BackendAnswer(subject="ONNX Runtime", outcomes=[of_models, [], [], []])
    return SettingAnswer(setting="EPYC, 2 cores", backends=[backend])


def test_the_row_of_a_kind_is_of_the_host_on_which_most_was_measured() -> None:
    machines = [("a", "EPYC a", answer(1)), ("b", "EPYC b", answer(3)), ("gpu", "1 H100", None)]
    page = render_markdown(index_page(machines, [], []))
    assert "| [EPYC, 2 cores](b/index.md), [another host](a/index.md) | **3 of 3** (at 1.10 to 1.30×)" in page

"""What `make bench` says after the verdict: the explanation follows, or is made up for."""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import pytest

from bench.__main__ import measure_and_report
from bench.config.compose import compose
from bench.errors import Terminated
from bench.measure import comparison as measuring
from bench.measure.comparison import Comparison
from bench.studies.explain import STUDY
from bench.studies.explain.messages import ProfileSteps
from bench.studies.explain.table import TABLE
from bench.study import load_parts
from tests.support.comparisons import Simulated, find_nobody, rows_of
from tests.support.configs import BACKENDS, a_config
from tests.support.fakes import FakeGroup, Script, starter

WHY = "Why follows in"


pytestmark = pytest.mark.usefixtures("two_cores")


Run = Callable[..., list[str]]
Interrupt = Callable[[type[BaseException] | None], None]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`measure_and_report` of groups that take no time; they are profiled unless the test says otherwise."""
    scripts: dict[str, Script] = {name: {"step_seconds": 0.5} for name in BACKENDS}
    scripts["ortmodule"]["step_seconds"] = 0.4
    monkeypatch.setattr(
        measuring,
        "Comparison",
        lambda config, stem, **given: Comparison(
            config, stem, start_group=cast(Any, starter(scripts, [])), scan=find_nobody, **given
        ),
    )

    def call(
        disturbed: Mapping[int, float] | None = None,
        in_sweep: bool = False,
        resume: bool = False,
        backends: tuple[str, ...] = tuple(BACKENDS),
        **measure: Any,
    ) -> list[str]:
        scripts["ortmodule"]["profiles_disturbed"] = disturbed or {}
        config = a_config(tmp_path, **{"explain": True} | measure)
        config.resume, config.backends = resume, {name: BACKENDS[name] for name in backends}
        return measure_and_report(config, "m-cpux2", in_sweep=in_sweep)

    return call


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Interrupt:
    """Raises something when a step is to be profiled; with None all goes well again."""
    answer = FakeGroup.answers

    def choose(raised: type[BaseException] | None) -> None:
        def answers(group: FakeGroup, request: Any) -> list[Any]:
            if raised is not None and isinstance(request, ProfileSteps):
                raise raised
            return answer(group, request)

        monkeypatch.setattr(FakeGroup, "answers", answers)

    return choose


# When it is asked, and the verdict, then why


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        ("", True),
        ("measure=thorough", True),
        ("measure.explain=false", False),
        ("measure=quick", False),
        ("measure=quick measure.explain=true", True),
        ("measure=parity measure.explain=true", False),
        ("measure=converge data=python_docs", False),
        ("measure.name=mine", True),
    ],
)
def test_why_is_asked_after_long_presets_and_where_it_is_wanted(overrides: str, wanted: bool) -> None:
    assert STUDY.is_wanted(compose(["device=cpu", *overrides.split()])) is wanted


def test_no_setting_of_a_study_has_a_default_that_a_hash_would_have_to_hold() -> None:
    """Each is null: a later default would change what is measured under an old hash."""
    settings = [field for part in load_parts("settings").values() for field in fields(part.Settings)]
    assert {field.default for field in settings} == {None}


def test_the_verdict_comes_before_the_profiles_and_then_only_what_they_add(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", sys.stdout)  # in the order in which it is seen
    assert run() == []
    said = capsys.readouterr().out
    parts = ["Faster than pytorch: ortmodule 1.25", "samples/s", WHY, "where the time goes, untimed"]
    parts += ["ortmodule: of 505 ms/step", f"files: {tmp_path}/results/m-cpux2.csv", "next:  "]
    assert [said.count(part) for part in parts[:3]] == [1, 1, 1]
    places = [said.index(part) for part in parts]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("disturbed", "repeats", "again", "slow"),
    [({3: 0.5}, 3, 1, 0), ({3: 0.5}, 0, 0, 1), ({3: 0.5, 4: 0.5, 6: 0.5}, 2, 2, 1), ({3: 0.04}, 3, 0, 1)],
)
def test_a_round_that_others_disturbed_is_profiled_again_as_often_as_a_block(
    run: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    disturbed: dict[int, float],
    repeats: int,
    again: int,
    slow: int,
) -> None:
    """The first two profiles warm up; what takes longer, but disturbed by nobody, is kept."""
    assert run(disturbed, repeats=repeats) == []
    said = re.findall(r"(\d) rounds? of a backend profiled again", capsys.readouterr().err)
    assert said == [str(again)] * (again > 0)
    table = TABLE.read(tmp_path / "results" / "m-cpux2.breakdown.csv")
    rounds = table[table["backend"] == "ortmodule"].groupby("round")["seconds_per_step"].sum()
    assert sorted(rounds.round(3))[0] == 0.4
    assert (rounds.round(3) > 0.4).sum() == slow


def test_without_profiles_nothing_is_announced_and_why_is_what_to_type_next(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(explain=False) == []
    said = capsys.readouterr()
    assert WHY not in said.err
    assert said.out.rstrip().endswith("  # says where the time goes")
    assert "resume=true" in said.out.split()
    assert "measure.explain=false" not in said.out


def test_a_reference_alone_is_profiled_too_and_has_its_page(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(backends=("pytorch",)) == []
    assert "Nothing was compared with pytorch." in capsys.readouterr().out
    assert "profiled step: pytorch" in (tmp_path / "reports" / "index.md").read_text()


def test_ctrl_c_in_the_profiles_keeps_everything_and_leaves_the_page_without_them(
    run: Run, interrupt: Interrupt, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == []
    page, path = tmp_path / "reports" / "index.md", tmp_path / "results" / "m-cpux2.csv"
    assert "profiled step:" in page.read_text()
    page.unlink()
    interrupt(KeyboardInterrupt)
    capsys.readouterr()
    assert run() == []
    said = capsys.readouterr().out
    assert said.count("Faster than pytorch") == 1
    assert "resume=true" in said.split()
    assert said.rstrip().endswith("  # says where the time goes")
    assert "profiled step:" not in page.read_text(), "the older profile is of other rows"
    assert not TABLE.path_of(path).exists()
    before = rows_of(tmp_path)
    assert len(before) == 2 * 3 * 3
    interrupt(None)
    assert run(resume=True) == []
    assert rows_of(tmp_path) == before, "nothing is measured anew"
    assert TABLE.path_of(path).exists()
    assert "profiled step:" in page.read_text()


@pytest.mark.parametrize(("raised", "in_sweep"), [(Terminated, False), (KeyboardInterrupt, True)])
def test_sigterm_and_ctrl_c_in_a_sweep_end_the_command_as_ctrl_c_before_the_verdict_does(
    run: Run,
    interrupt: Interrupt,
    raised: type[BaseException],
    in_sweep: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interrupt(raised)
    with pytest.raises(raised):
        run(in_sweep=in_sweep)
    assert "Faster than pytorch" in capsys.readouterr().out, "the verdict was there already"

    def interrupted(*_: Any) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(FakeGroup, "_block", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert capsys.readouterr().out == ""


def test_ctrl_c_does_not_hide_that_a_launch_failed(
    run: Run, interrupt: Interrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(KeyboardInterrupt)
    failures = ["a launch failed"]
    monkeypatch.setattr("bench.measure.record.failures.Failures.failure_lines", lambda _: failures)
    assert run() == failures


def test_how_long_it_takes_is_said_before_the_verdict(tmp_path: Path) -> None:
    run = Simulated(tmp_path, explain=True)
    (line,) = (line for line in run.printed if "until the verdict" in line)
    assert re.search(r" until the verdict, then about \d+ (min|s).* to say why$", line)

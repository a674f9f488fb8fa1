"""What `make bench` shows when: an answer after each launch, how long the rest takes, the verdict, why."""

import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from bench import why
from bench.__main__ import measure_and_report
from bench.config.compose import compose
from bench.config.naming import DEFAULT_STACK
from bench.config.schema import Config
from bench.errors import Terminated, UserError
from bench.launch.messages import ProfileSteps
from bench.measure import comparison as measuring
from bench.measure.comparison import Comparison
from bench.measure.plan import preflight
from bench.measure.record.progress import ProgressBar, describe_duration
from bench.measure.stages.stage import Pace
from bench.results.side_files import BREAKDOWN
from bench.setup import stacks
from tests.support.comparisons import Resumable, Simulated, nobody_looks, rows_of
from tests.support.configs import BACKENDS, a_config
from tests.support.factories import block, comparison, failed, record
from tests.support.fakes import FakeGroup, Script, starter
from tests.support.result_files import write_records

WHY = "Why follows in"


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})


Run = Callable[..., list[str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`measure_and_report` of groups that take no time; they are profiled unless the test says otherwise."""
    scripts: dict[str, Script] = {name: {"step_seconds": 0.5} for name in BACKENDS}
    scripts["ortmodule"]["step_seconds"] = 0.4
    monkeypatch.setattr(
        measuring,
        "Comparison",
        lambda config, stem, **given: Comparison(
            config, stem, start_group=cast(Any, starter(scripts, [])), look=nobody_looks, **given
        ),
    )

    def call(
        in_sweep: bool = False,
        resume: bool = False,
        backends: tuple[str, ...] = tuple(BACKENDS),
        **measure: Any,
    ) -> list[str]:
        config = a_config(tmp_path, **{"explain": True} | measure)
        config.resume, config.backends = resume, {name: BACKENDS[name] for name in backends}
        return measure_and_report(config, "m-cpux2", in_sweep=in_sweep)

    return call


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[BaseException] | None], None]:
    """Raises something when a step is to be profiled; with None all goes well again."""
    answer = FakeGroup.answers

    def choose(raised: type[BaseException] | None) -> None:
        def answers(group: FakeGroup, request: Any) -> list[Any]:
            if raised is not None and isinstance(request, ProfileSteps):
                raise raised
            return answer(group, request)

        monkeypatch.setattr(FakeGroup, "answers", answers)

    return choose


# The verdict, then why


def test_the_verdict_comes_before_the_profiles_and_then_only_what_they_add(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", sys.stdout)  # in the order in which it is seen
    assert run() == []
    said = capsys.readouterr().out
    parts = ["Faster than pytorch: ortmodule 1.25", "samples/s", WHY, "where the time goes, untimed"]
    parts += ["ortmodule: of 505 ms/step", f"files: {tmp_path}/results/m-cpux2.csv"]
    assert [said.count(part) for part in parts[:3]] == [1, 1, 1]
    places = [said.index(part) for part in parts]
    assert places == sorted(places)


def test_without_profiles_nothing_is_announced_and_why_is_what_to_type_next(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(explain=False) == []
    said = capsys.readouterr()
    assert WHY not in said.err
    assert said.out.rstrip().endswith("m-cpux2.csv  # says where the time goes")
    assert " -m bench.why " in said.out.splitlines()[-1]


def test_a_reference_alone_is_profiled_too_and_has_its_page(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(backends=("pytorch",)) == []
    assert "Nothing was compared with pytorch." in capsys.readouterr().out
    assert "profiled step: pytorch" in (tmp_path / "reports" / "index.md").read_text()


def test_ctrl_c_in_the_profiles_keeps_everything_and_leaves_the_page_without_them(
    run: Run,
    interrupt: Callable[[type[BaseException] | None], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
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
    assert " -m bench.why " in said.splitlines()[-1]
    assert "profiled step:" not in page.read_text(), "the older profile is of other rows"
    assert not BREAKDOWN.path_of(path).exists()
    before = rows_of(tmp_path)
    assert len(before) == 2 * 3 * 3
    interrupt(None)
    assert run(resume=True) == []
    assert rows_of(tmp_path) == before, "nothing is measured anew"
    assert BREAKDOWN.path_of(path).exists()
    assert "profiled step:" in page.read_text()


def test_ctrl_c_does_not_hide_that_a_launch_failed(
    run: Run, interrupt: Callable[[type[BaseException] | None], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(KeyboardInterrupt)
    failures = ["a launch failed"]
    monkeypatch.setattr("bench.measure.record.failures.Failures.failure_lines", lambda _: failures)
    assert run() == failures


@pytest.mark.parametrize(("raised", "in_sweep"), [(Terminated, False), (KeyboardInterrupt, True)])
def test_sigterm_and_ctrl_c_in_a_sweep_end_the_command(
    run: Run,
    interrupt: Callable[[type[BaseException] | None], None],
    raised: type[BaseException],
    in_sweep: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    interrupt(raised)
    with pytest.raises(raised):
        run(in_sweep=in_sweep)
    assert "Faster than pytorch" in capsys.readouterr().out, "the verdict was there already"


def test_ctrl_c_before_the_verdict_ends_the_command(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(FakeGroup, "_block", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert capsys.readouterr().out == ""


# An answer after each launch


def test_after_each_launch_every_backend_has_its_speed_up_so_far(tmp_path: Path) -> None:
    crash = ("oom", "no memory left", "")
    run = Simulated(tmp_path, {"ortmodule_zero1": {"fails": {("block", 2, 3): crash}}}, launches=3)
    first, second, third = [line for line in run.printed if line.startswith("after launch")]
    assert first.startswith("after launch 1/3, over pytorch (")
    assert first.endswith(
        "to come): ortmodule 1.250× (one launch: no interval yet); "
        "ortmodule_zero1 0.625× (one launch: no interval yet)"
    )
    assert second.endswith("ortmodule 1.250× [1.250, 1.250]; ortmodule_zero1 oom")
    assert third.startswith("after launch 3/3, over pytorch (about 0 s to come)")


def test_a_backend_alone_has_no_answer_so_far(tmp_path: Path) -> None:
    only = {"pytorch": BACKENDS["pytorch"]}
    run = Resumable(tmp_path, backends=only)
    assert run.rows
    assert not any(line.startswith("after launch") for line in run.printed)


def test_on_a_terminal_the_table_stays_above_the_bar_and_gives_way_to_what_is_printed() -> None:
    console = Console(force_terminal=True, width=100, color_system=None)
    with console.capture() as shown, ProgressBar(console) as bar:
        bar.show("after launch 1/4", {"ortmodule": "1.25×", "ortmodule_zero1": "oom"})
        with bar.doing("block", "round 1"):
            pass
        with bar.hidden():
            console.print("the verdict")
        with bar.doing("profile", "round 2"):
            pass
        bar.show("after launch 2/4", {"ortmodule": "1.26×"})
    drawn = shown.get()
    after = drawn.split("the verdict")[1]
    assert drawn.index("1.25×") < drawn.index("round 1") < drawn.index("the verdict")
    assert "1.26×" in after
    assert "oom" not in after
    assert after.index("round 2") < after.index("1.26×")
    up = "\x1b[1A"
    assert up in drawn, "what the bar had drawn is erased"
    assert up not in after[: after.index("round 2")], "and nothing of the verdict"


# How long it takes


class SteppingClock:
    """Each look at it takes a second."""

    def __init__(self) -> None:
        self.count = itertools.count()

    def __call__(self) -> float:
        return float(next(self.count))


def test_how_long_it_takes_is_said_once_after_the_parity_launch(tmp_path: Path) -> None:
    run = Simulated(tmp_path, clock=SteppingClock(), explain=True)
    lines = [line for line in run.printed if "until the verdict" in line]
    assert len(lines) == 1
    assert run.printed.index(lines[0]) < next(
        place for place, line in enumerate(run.printed) if line.startswith("after launch")
    )
    # Steps of 0.5, 0.4 and 0.8 s, and blocks of three. In either launch: a start of 1 s, and for each backend
    # what comes before the second step, it, 2.3 warm-up blocks of two, and three rounds. In parity the
    # reference was built in 1 s and the two others together in 1 s; training took no longer than its steps.
    pace = run.comparison.shared.pace
    assert pace.steps == pytest.approx({"pytorch": 0.5, "ortmodule": 0.4, "ortmodule_zero1": 0.8})
    assert (pace.starts, pace.set_ups) == ([1.0], [1.0, 0.5, 0.5])
    step = (0.5 + 0.4 + 0.8) / 3
    expected = 2 * (1 + 3 * (0.5 + step + 0.15 + 2.3 * (2 * step + 0.15) + 3 * (3 * step + 0.15)))
    assert lines[0].startswith(f"{describe_duration(expected)} until the verdict, then about ")
    alone = Simulated(tmp_path / "alone", clock=SteppingClock())
    assert f"{describe_duration(expected)} until the verdict" in alone.printed


def test_a_first_start_that_reads_its_files_anew_is_no_measure_of_later_ones() -> None:
    assert Pace(starts=[1.0], set_ups=[77.0]).set_up == 77.0, "nothing else is known"
    pace = Pace(starts=[5.0, 1.0, 2.0], set_ups=[77.0, 30.0, 32.0], steps={"pytorch": 0.5})
    assert (pace.start, pace.set_up, pace.warm_up(2)) == (4.5, 93.0, 94.0)
    assert Pace(set_ups=[10.0, 30.0]).set_up == 40.0, "the reference does less than others"


def test_what_was_seen_of_a_kind_stands_above_what_was_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    bar = ProgressBar(Console(quiet=True))
    bar.expect({"start": 2, "block": 3})
    assert bar.seconds_left() is None
    bar.guess({"start": 10.0, "block": 1.0, "profile": 5.0})
    assert bar.seconds_left() == 23.0
    with bar.doing("start", "starting"):
        now[0] = 4.0
    assert bar.seconds_left() == 4.0 + 3.0
    assert bar.seconds_of({"profile": 2, "block": 1}) == 11.0
    assert bar.seconds_of({"unheard of": 0}) == 0.0
    assert bar.seconds_of({"unheard of": 1}) is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "some minutes"), (0.2, "about 0 s"), (59.6, "about 1 min 0 s"), (270, "about 4 min 30 s")],
)
def test_a_duration_is_said_in_minutes_and_seconds(seconds: float | None, words: str) -> None:
    assert describe_duration(seconds) == words


# make why


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A results file of three launches, as this stack would name it, beside which nothing is profiled."""
    monkeypatch.setattr(preflight, "available_cores", lambda: 2)
    monkeypatch.setattr(preflight, "check_packages", lambda config: None)
    path = tmp_path / "a 'b'" / f"bert-mini-cpux2{'' if stacks.own() == DEFAULT_STACK else '-modern'}.csv"
    write(path, ["measure=quick"])
    return path


def write(path: Path, overrides: list[str], launches: int = 3) -> None:
    seconds = {"pytorch": [[2.0]] * launches, "ortmodule": [[1.6]] * launches}
    write_records(
        path,
        comparison(seconds, overrides=tuple(overrides)) if launches else [failed("pytorch", "oom", "no")],
    )


def test_why_goes_on_with_the_row_s_own_overrides_and_adds_no_launch(
    measured: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[Config, str]] = []

    def note(config: Config, stem: str) -> list[str]:
        calls.append((config, stem))
        return ["a launch failed"]

    monkeypatch.setattr(why, "measure_and_report", note)
    assert why.main([str(measured), "reports_dir=elsewhere"]) == 1
    assert capsys.readouterr().err == "a launch failed\n"
    ((config, stem),) = calls
    assert (config.resume, config.measure.explain, config.measure.launches) == (True, True, 3)
    assert (config.measure.rounds, config.measure.most_launches) == (16, 3)
    assert (config.results_dir, config.reports_dir) == (str(measured.parent), "elsewhere")
    assert stem == measured.stem


@pytest.mark.parametrize(
    ("overrides", "launches", "sentence"),
    [
        ([], 0, " has no timed launch to explain; measure with `make bench` first."),
        (["seed=3"], 3, " is not of this machine or stack, where its "),
        (["model=gone"], 3, "model=gone does not exist; choose from: "),
    ],
)
def test_what_cannot_be_gone_on_with_is_refused(
    measured: Path,
    overrides: list[str],
    launches: int,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(why, "measure_and_report", lambda *_: pytest.fail("nothing may be measured"))
    write(measured, overrides, launches)
    assert why.main([str(measured)]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_what_disturbed_the_reference_has_to_go_before_why_is_asked(
    measured: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(why, "measure_and_report", lambda *_: pytest.fail("nothing may be measured"))
    blocks = (block(other_cpu_seconds=(1.0, 1.0)),)
    write_records(measured, [record(name, blocks=blocks) for name in ("pytorch", "ortmodule")])
    assert why.main([str(measured)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"{measured}: pytorch, the reference, has no result (invalid: 1 of 1 blocks ")
    assert said.endswith("end them); measure it anew with make bench.\n")


def test_a_file_that_a_new_run_was_about_to_replace_is_not_measured_anew(
    measured: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(why, "measure_and_report", lambda *_: pytest.fail("nothing may be measured"))
    marker = measured.parent / "runs" / measured.stem / "unwritten"
    marker.parent.mkdir(parents=True)
    marker.touch()
    assert why.main([str(measured)]) == 2
    assert "was about to be replaced by a new run" in capsys.readouterr().err


def test_a_file_of_other_code_is_refused_by_resuming(
    measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = measured.read_bytes()
    assert why.main([str(measured), f"reports_dir={measured.parent}/reports"]) == 2
    assert "was measured with other settings (the files that it names, or what" in capsys.readouterr().err
    assert measured.read_bytes() == before


def test_the_newest_file_of_this_machine_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    machine = Path(compose().results_dir).parent
    with pytest.raises(UserError, match="holds no results file"):
        why.find_newest()
    names = ["bench/old.csv", "methods/new.csv", "bench/new.breakdown.csv"]
    for age, name in zip((200, 100, 0), names, strict=True):
        path = machine / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (1e9 - age, 1e9 - age))
    assert why.find_newest() == machine / "methods/new.csv"

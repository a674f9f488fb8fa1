import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import __main__ as program
from bench.config.schema import Config
from bench.errors import UserError
from bench.measure.plan import preflight
from bench.setup import stacks

INTERRUPTED = "interrupted; complete rounds are kept, and the same command with resume=true goes on.\n"

ELSEWHERE = "" if stacks.own() == "ort" else "-modern"
"""The end of the name of a results file."""

Behaviour = Callable[[Config], list[str]]
Run = Callable[..., int]


class FakeCoordinator:
    """Notes every comparison that it is asked for and does what the test wants."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.stems: list[str] = []
        self.configs: list[Config] = []
        self.in_sweep: list[bool] = []

    def measure_and_report(self, config: Config, stem: str, *, in_sweep: bool) -> list[str]:
        self.in_sweep.append(in_sweep)
        self.configs.append(config)
        self.stems.append(stem)
        return self.behaviour(config)


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> FakeCoordinator:
    """Measures nothing; all is well unless the test says otherwise."""
    fake = FakeCoordinator(lambda config: [])
    monkeypatch.setattr(program, "measure_and_report", fake.measure_and_report)
    monkeypatch.setattr(preflight, "check_packages", lambda config: None)
    monkeypatch.setattr(stacks, "find_other_versions", lambda stack, packages: [])
    return fake


@pytest.fixture
def run(coordinator: FakeCoordinator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """`python -m bench` in an empty folder, on a CPU with two cores."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(preflight, "available_cores", lambda: 2)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")

    def call(*words: str) -> int:
        arguments = ["bench", *words, "device=cpu", "device.world_size=2"]
        monkeypatch.setattr(sys, "argv", arguments)
        return program.main()

    return call


def test_a_run_without_trouble_ends_with_0_and_says_nothing(
    run: Run, coordinator: FakeCoordinator, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("seed=3") == 0
    assert [stem[:-5] for stem in coordinator.stems] == [f"bert-mini-cpux2-seed-3{ELSEWHERE}"]
    assert coordinator.configs[0].seed == 3
    assert coordinator.in_sweep == [False]
    assert capfd.readouterr() == ("", "")


def test_hydras_own_files_lie_under_the_runs_and_the_folder_stays(run: Run, tmp_path: Path) -> None:
    run("results_dir=out")
    assert Path.cwd() == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    (point,) = (tmp_path / "out/runs/hydra").iterdir()
    assert "seed: 0" in (point / ".hydra/config.yaml").read_text()


def test_a_choice_in_a_folder_of_the_user_s_is_measured_with_the_path_to_it(
    run: Run, coordinator: FakeCoordinator, tmp_path: Path
) -> None:
    (tmp_path / "my/measure").mkdir(parents=True)
    (tmp_path / "my/measure/mine.yaml").write_text("defaults: [quick]\nlaunches: 7\n")
    assert run("measure=mine", "hydra.searchpath=[file://my]", "hydra.verbose=false") == 0
    (config,) = coordinator.configs
    assert config.searchpath == ["file://my"]
    assert config.measure.launches == 7


def refuse(config: Config) -> list[str]:
    raise UserError("not today.")


@pytest.mark.parametrize(
    ("behaviour", "status", "said"),
    [
        (lambda config: ["x: ortmodule, launch 2: oom: no memory left"], 1, "x: ortmodule, launch 2: oom: "),
        (refuse, 2, "not today.\n"),
    ],
)
def test_launches_that_were_not_ok_and_a_refusal_while_measuring_are_a_line_and_the_status(
    run: Run,
    coordinator: FakeCoordinator,
    capfd: pytest.CaptureFixture[str],
    behaviour: Behaviour,
    status: int,
    said: str,
) -> None:
    coordinator.behaviour = behaviour
    assert run() == status
    printed = capfd.readouterr()
    assert printed.err.startswith(said)
    assert (printed.out, printed.err.count("\n")) == ("", 1)


@pytest.mark.slow
def test_a_sweep_measures_every_point_and_lists_all_trouble_at_the_end(
    run: Run, coordinator: FakeCoordinator, capfd: pytest.CaptureFixture[str]
) -> None:
    coordinator.behaviour = lambda config: [f"trouble {config.seed}"] if config.seed != 2 else []
    assert run("--multirun", "seed=1,2,3") == 1
    assert [stem[:-5] for stem in coordinator.stems] == [
        f"bert-mini-cpux2-seed-{seed}{ELSEWHERE}" for seed in (1, 2, 3)
    ]
    assert coordinator.in_sweep == [True] * 3
    names = [f"{stem}:" for stem in coordinator.stems]
    assert capfd.readouterr() == ("", f"{names[0]}\ntrouble 1\n{names[2]}\ntrouble 3\n")


@pytest.mark.slow
def test_a_sweep_goes_on_after_points_that_are_refused_and_says_why_once(
    run: Run, coordinator: FakeCoordinator, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("--multirun", "micro_batch=0,4", "seed=1,2") == 2
    assert [config.micro_batch for config in coordinator.configs] == [4, 4]
    assert capfd.readouterr().err == "micro_batch must be at least 1, not 0.\n"


@pytest.mark.parametrize(
    "overrides", [["model=bert-tiny,bort"], ["seed=1,x"], ["model=[bert-tiny],bert-mini"]]
)
def test_a_sweep_with_a_mistake_starts_nothing(
    run: Run, coordinator: FakeCoordinator, overrides: list[str]
) -> None:
    assert run("--multirun", *overrides) == 2
    assert coordinator.stems == []


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("precision=fp8", "precision=fp8 does not exist; choose from: bf16, fp16, fp32, tf32."),
        (
            "device.threads=2",
            "device.world_size=2 and device.threads=2 need 4 cores, but this process has 2; "
            "set device.threads=1.",
        ),
    ],
)
def test_a_mistake_ends_with_2_and_one_sentence(
    run: Run, coordinator: FakeCoordinator, capfd: pytest.CaptureFixture[str], override: str, sentence: str
) -> None:
    assert run(override) == 2
    assert coordinator.stems == []
    assert capfd.readouterr() == ("", sentence + "\n")


def test_a_results_folder_that_cannot_be_made_is_refused(
    run: Run, coordinator: FakeCoordinator, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("results_dir=/dev/null") == 2
    assert coordinator.stems == []
    said = capfd.readouterr().err
    assert said.startswith("/dev/null/runs/hydra/")
    assert said.endswith(": Not a directory; choose another results_dir.\n")


@pytest.mark.parametrize(
    ("override", "path"),
    [
        ("results_dir=möbel", "möbel"),
        ("results_dir=1e3", "1e3"),
        ("results_dir='a b'", "a b"),
        ('results_dir="a,b"', "a,b"),
        ("results_dir=out/${study}-ö", "out/1_0-ö"),
        ("results_dir=~/here", str(Path.home() / "here")),
    ],
)
def test_a_path_is_what_was_typed(run: Run, coordinator: FakeCoordinator, override: str, path: str) -> None:
    assert run("--multirun" if "home" in path else "seed=1", override, "reports_dir=bücher", "study=1_0") == 0
    (config,) = coordinator.configs
    assert (config.results_dir, config.reports_dir, config.study) == (path, "bücher", "1_0")


@pytest.mark.parametrize(
    ("words", "seeds"),
    [
        (["seed=1,2", "--multirun", "micro_batch=2"], [1, 2]),
        (["seed=2", "-m", "micro_batch=2", "grad_accum=1"], [2]),
        (["grad_accum=1", "--run", "seed=3"], [3]),
    ],
)
def test_flags_may_stand_anywhere(
    run: Run, coordinator: FakeCoordinator, words: list[str], seeds: list[int]
) -> None:
    assert run(*words) == 0
    assert [config.seed for config in coordinator.configs] == seeds


def test_reports_have_a_folder_of_their_own(
    run: Run, coordinator: FakeCoordinator, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("results_dir=a", "reports_dir=./a") == 2
    assert capfd.readouterr().err.startswith("reports_dir=./a is results_dir, too: ")
    assert coordinator.stems == []


def test_a_word_that_is_no_override_is_one_sentence(
    run: Run, coordinator: FakeCoordinator, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("--multirun", "foo", "seed=1,2") == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("foo is not an override; write key=value")
    assert printed.err.count("\n") == 1
    assert coordinator.stems == []


def test_an_error_of_ours_keeps_its_traceback_and_the_sweep_goes_on(
    run: Run, coordinator: FakeCoordinator, capfd: pytest.CaptureFixture[str]
) -> None:
    def stumble(config: Config) -> list[str]:
        if config.seed == 1:
            raise ValueError("a bug")
        return ["trouble 2"]

    coordinator.behaviour = stumble
    assert run("--multirun", "seed=1,2") == 1
    said = capfd.readouterr().err
    assert said.startswith("Traceback (most recent call last):")
    assert "in stumble" in said
    assert said.endswith(f"ValueError: a bug\n{coordinator.stems[1]}:\ntrouble 2\n")
    assert "HYDRA_FULL_ERROR" not in said


@pytest.mark.slow
def test_an_interruption_lists_the_trouble_so_far_and_ends_with_130(
    run: Run, coordinator: FakeCoordinator, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(config: Config) -> list[str]:
        if config.seed == 2:
            raise KeyboardInterrupt
        return ["trouble 1"]

    coordinator.behaviour = interrupted
    assert run("--multirun", "seed=1,2,3") == 130
    assert capfd.readouterr() == ("", f"{coordinator.stems[0]}:\ntrouble 1\n{INTERRUPTED}")
    assert len(coordinator.stems) == 2


def test_versions_that_are_not_pinned_are_named_and_measured(
    run: Run, coordinator: FakeCoordinator, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stacks, "find_other_versions", lambda stack, packages: [f"torch of {stack}"])
    monkeypatch.setattr(stacks, "installed", lambda stack: stacks.installed_here())
    assert run("backend=[pytorch,pytorch_best,pytorch@modern]") == 0
    assert len(coordinator.stems) == 1
    own = stacks.own()
    assert capfd.readouterr().err.splitlines() == [
        f"not the pinned versions of the {stack} stack: torch of {stack}" for stack in sorted({own, "modern"})
    ]

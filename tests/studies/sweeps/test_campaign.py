"""A sweep measures what is missing, and goes on with the next call."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from bench.config import identity
from bench.config.naming import file_stem
from bench.config.schema import Config
from bench.config.track import Track
from bench.errors import UserError
from bench.machine import environment
from bench.measure.plan.resolve import collect_environment
from bench.studies.sweeps import __main__ as sweeps
from bench.studies.sweeps import comparisons, runner
from bench.studies.sweeps.comparisons import is_complete, plan_comparisons
from bench.studies.sweeps.plan_file import load_plan, select_parts
from tests.support.factories import comparison, failed
from tests.support.result_files import write_records

ROOT = Path(__file__).resolve().parents[3]


class Campaign:
    """Two models in two parts, measured by a script instead of ranks.

    Attributes:
        asked: the stem and whether to resume, of every comparison that was begun.
        course: what measuring does before it leaves a complete file.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.asked: list[tuple[str, bool]] = []
        self.course: Callable[[Config, str], object] = lambda *_: None
        self.rounds = [[2.0, 2.1], [2.0, 2.1]]
        self.failing: dict[str, str] = {}
        self.absent: set[str] = set()
        monkeypatch.setattr(runner, "measure_comparison", self.measure)
        self.file = folder / "campaign.yaml"
        part = {"models": {"bert-tiny": [], "gpt2-tiny": ["micro_batch=2"]}}
        self.file.write_text(
            yaml.safe_dump(
                {
                    "skip_complete": True,
                    "common": [
                        "resume=true",
                        "device=cpu",
                        "measure.launches=2",
                        "measure.rounds=2",
                        "measure.schedule=sequential",
                    ],
                    "backends": {"ort": ["pytorch", "compile"], "modern": ["pytorch", "compile"]},
                    "parts": [
                        part | {"name": "short", "overrides": ["seq_len=16"]},
                        part | {"name": "long", "overrides": ["seq_len=32"]},
                    ],
                }
            )
        )

    def measure(self, config: Config, stem: str) -> None:
        self.asked.append((stem, config.resume))
        self.course(config, stem)
        self.write(config, stem)

    def write(self, config: Config, stem: str, **changes: Any) -> None:
        """A results file of as many rounds as `rounds` has; nothing of the backends in `absent`."""
        here = collect_environment(config)
        shared = {
            "comparison": stem,
            "config_hash": identity.config_hash(config),
            "environment": here,
            "environment_hash": environment.hash_environment(here),
        } | changes
        timed = {
            name: self.rounds
            for name in ("pytorch", "compile")
            if name not in self.failing and name not in self.absent
        }
        records = comparison(timed, **shared)
        records += [failed(name, status, "so it is", **shared) for name, status in self.failing.items()]
        write_records(Path(config.results_dir) / f"{stem}.csv", records)

    def __call__(self, *arguments: str) -> int:
        """One call; what it began replaces `asked`."""
        self.asked = []
        return sweeps.main([str(self.file), *self.places, *arguments])

    @property
    def places(self) -> list[str]:
        return [f"{key}_dir={self.folder / key}" for key in ("results", "reports")]

    @property
    def begun(self) -> list[str]:
        lengths = [re.search(r"seq_len-(\d+)", stem) for stem, _ in self.asked]
        return [
            f"{stem.split('-cpux')[0]}-{length[1]}"
            for (stem, _), length in zip(self.asked, lengths, strict=True)
            if length is not None
        ]


@pytest.fixture
def a_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    return Campaign(tmp_path, monkeypatch)


def test_without_a_plan_the_plan_alone_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        sweeps.main([])
    assert capsys.readouterr().err.endswith("required: PLAN\n")


def test_without_the_study_whose_page_a_plan_names_it_is_the_machines_page(a_campaign: Campaign) -> None:
    a_campaign.file.write_text(a_campaign.file.read_text() + yaml.safe_dump({"page_of": "gone"}))
    assert a_campaign("parts=short") == 0
    assert (a_campaign.folder / "reports" / "index.md").exists()


@pytest.mark.slow
def test_everything_is_measured_part_by_part_and_then_nothing(a_campaign: Campaign) -> None:
    assert a_campaign() == 0
    assert a_campaign.begun == ["bert-tiny-16", "gpt2-tiny-16", "bert-tiny-32", "gpt2-tiny-32"]
    assert "micro_batch-2" in a_campaign.asked[1][0]
    assert (a_campaign.folder / "reports" / "index.md").exists()
    assert a_campaign() == 0
    assert a_campaign.begun == []


def test_every_comparison_is_tracked_and_a_tracker_that_fails_costs_the_exit_status(
    a_campaign: Campaign, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    tracked: list[tuple[str, str]] = []

    def track(csv: Path, settings: Track, say: object) -> list[str]:
        assert csv.exists()
        tracked.append((csv.stem, settings.folder))
        return ["mlflow did not get the results."] if len(tracked) == 1 else []

    monkeypatch.setattr(runner, "track", track)
    assert a_campaign("parts=short") == 1
    assert [stem for stem, _ in tracked] == [stem for stem, _ in a_campaign.asked]
    assert len(tracked) == 2
    assert "mlflow did not get the results." in capfd.readouterr().err
    assert a_campaign("parts=short") == 0  # complete: nothing is measured or tracked again
    assert len(tracked) == 2


def test_some_parts_and_models_can_be_named_and_overrides_hold_for_all(
    a_campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """What will be measured is listed before it begins, and a model keeps the overrides of the plan."""
    listed: list[str] = []
    a_campaign.course = lambda *_: listed.append(capsys.readouterr().err)
    assert (
        a_campaign("parts=long", "model=gpt2-tiny,distilbert-base", "backend=[pytorch]", "grad_accum=2") == 0
    )
    assert "to measure, 2 of 2 comparisons:\n  long: gpt2-tiny-cpux" in listed[0]
    assert "  long: distilbert-base-cpux" in listed[0]
    assert [stem[:-5].removesuffix("-modern") for stem, _ in a_campaign.asked] == [
        "gpt2-tiny-cpux2-grad_accum-2-micro_batch-2-seq_len-32",
        "distilbert-base-cpux2-grad_accum-2-seq_len-32",
    ]


@pytest.mark.slow
def test_a_launch_that_failed_is_told_and_not_tried_for_ever(
    a_campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    a_campaign.failing = {"compile": "oom"}
    assert a_campaign("parts=short") == 1
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("2 comparisons are complete, 2 of them without a result of some backend. - ")
    assert "compile oom" in said
    assert "next: make report" in said
    assert a_campaign("parts=short") == 1
    assert a_campaign.begun == []
    a_campaign.failing = {"pytorch": "crashed", "compile": "skipped"}
    assert a_campaign("parts=long") == 1
    assert a_campaign("parts=long") == 1
    assert a_campaign.begun == []


@pytest.mark.slow
def test_complete_results_of_another_machine_count(a_campaign: Campaign) -> None:
    other = {"cpu": {"model": "another"}}
    elsewhere = {"environment": other, "environment_hash": environment.hash_environment(other)}
    plan = load_plan(str(a_campaign.file))
    planned = plan_comparisons(plan, select_parts(plan, ["short"]), a_campaign.places)
    a_campaign.write(planned[0].config, planned[0].stem, **elsewhere)
    a_campaign.rounds = [[2.0, 2.1]]
    a_campaign.write(planned[1].config, planned[1].stem)
    a_campaign.rounds = [[2.0, 2.1], [2.0, 2.1]]
    assert a_campaign("parts=short") == 0
    assert a_campaign.asked == [(planned[1].stem, True)]


def test_without_a_gpu_models_are_as_small_as_the_plan_says(a_campaign: Campaign) -> None:
    smaller = {"overrides": ["micro_batch=3"], "by_model": {"gpt2-tiny": ["grad_accum=4"]}}
    a_campaign.file.write_text(a_campaign.file.read_text() + yaml.safe_dump({"on_cpu": smaller}))
    plan = load_plan(str(a_campaign.file))
    planned = plan_comparisons(plan, select_parts(plan, ["short"]), a_campaign.places)
    found = [(one.config.micro_batch, one.config.grad_accum) for one in planned]
    assert found == [(3, 1), (3, 4)]


def test_where_parity_alone_is_asked_for_every_backend_must_have_its_row(a_campaign: Campaign) -> None:
    plan = load_plan(str(a_campaign.file))
    overrides = [*a_campaign.places, "measure.launches=0", "backend=[pytorch,compile]"]
    comparison, *_ = plan_comparisons(plan, plan.parts, overrides)
    a_campaign.failing, a_campaign.absent = {"pytorch": "unsupported"}, {"compile"}
    a_campaign.write(comparison.config, comparison.stem)
    assert not is_complete(comparison)
    a_campaign.failing = {"pytorch": "unsupported", "compile": "skipped"}
    a_campaign.write(comparison.config, comparison.stem)
    assert is_complete(comparison)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["parts=tiny"], "parts=tiny is not in the plan; choose from: short, long."),
        (["grad_acum=2"], "grad_acum is not a key of the configuration; the top level has model"),
        (["seq_len=8"], "two comparisons of the plan are the same and would both write "),
    ],
)
def test_a_mistake_is_refused_before_any_work(
    arguments: list[str], sentence: str, a_campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    assert a_campaign(*arguments) == 2
    assert sentence in capsys.readouterr().err
    assert a_campaign.asked == []


@pytest.mark.slow
def test_the_shipped_campaign_holds_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparisons, "check_and_name", lambda config: file_stem(config, "h100"))
    plan = load_plan("gpu-campaign")
    found = plan_comparisons(plan, plan.parts, ["device.world_size=1"])
    assert plan.skip_complete
    assert all(one.config.resume for one in found)
    assert len(found) == len({one.stem for one in found}) == 20
    assert [one.config.measure.batch for one in found] == ["equal"] * 10 + ["max"] * 10
    assert [one.config.measure.schedule for one in found] == ["interleaved"] * 10 + ["sequential"] * 10
    assert {"pytorch", "compile", "pytorch_zero1"} <= set(found[0].config.backends)


@pytest.mark.slow
def test_without_resume_everything_is_measured_anew(a_campaign: Campaign) -> None:
    assert a_campaign("parts=long", "resume=false") == 0
    assert a_campaign("parts=long", "resume=false") == 0
    assert [resumed for _, resumed in a_campaign.asked] == [False, False]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, r"x\.yaml cannot be read: no such file"),
        (None, "matrx is not a plan; choose from: claims, gpu-campaign, matrix, methods, reproduce, "),
        ("common: []\n", "x.yaml is not a plan: .*missing required field `parts`"),
        ("parts: []\nskip: true\n", "x.yaml is not a plan: .*unknown field `skip`"),
        ("parts: [\n", "x.yaml is not a plan: "),
    ],
)
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, content: str | None, sentence: str) -> None:
    if content is not None:
        (tmp_path / "x.yaml").write_text(content)
    with pytest.raises(UserError, match=sentence):
        load_plan("matrx" if "matrx" in sentence else str(tmp_path / "x.yaml"))

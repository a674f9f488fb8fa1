"""Every line of bad_inputs.md: the real command, one sentence with the remedy, within seconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.config.choices import ON_DEVICE
from tests.support import bad_inputs, quiet

pytestmark = [
    pytest.mark.timeout(1800),  # some hundred commands, one after the other, on a machine that may be busy
    pytest.mark.alone,  # each answer has its seconds
    pytest.mark.once,  # the other stack refuses less: it has no ONNX Runtime that lacks anything
]

AS_TYPED = (
    "micro_batch=0",
    "backend=[pytorch,jax]",
    "compare nowhere.csv good.csv",
    "report nowhere --out reports",
)
"""A few that are started as by hand: they say the same, and Python starts quickly enough, too."""

TABLE = (Path(bad_inputs.__file__).parent / "bad_inputs.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Answers:
    """What every case prints, and how much of the cores others took meanwhile."""

    of: Mapping[str, bad_inputs.Answer]
    others_share: float


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bad")
    bad_inputs.prepare(made)
    return made


@pytest.fixture(scope="module")
def answers(folder: Path) -> Answers:
    """What every case prints; each core runs one at a time."""
    before, others = csvs(folder), quiet.Others()
    found = bad_inputs.run_all(folder)
    assert csvs(folder) == before, "nothing was overwritten, nothing written"
    return Answers(found, others.share())


def csvs(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.csv")}


def test_the_table_holds_at_least_forty() -> None:
    assert len(set(bad_inputs.cases())) == len(bad_inputs.cases()) >= 40
    assert TABLE.count("\n| `") == len(bad_inputs.cases())


@pytest.mark.parametrize("case", bad_inputs.cases())
def test_a_mistake_ends_in_the_sentence_of_the_table(case: str, answers: Answers) -> None:
    answer = answers.of[case]
    assert "Traceback" not in answer.text
    assert answer.status == 2
    assert bad_inputs.line(case, answer) in TABLE.splitlines()


@pytest.mark.parametrize(
    ("case", "folder_of_choices"),
    [
        ("model=bert-huge", "conf/model/*.yaml"),
        ("backend=[pytorch,jax]", "conf/backend/*.yaml"),
        ("backends.pytorch.engine=jax", "bench/worker/engines/[a-z]*.py"),
    ],
)
def test_the_lists_that_the_table_leaves_out_are_complete(
    case: str, folder_of_choices: str, answers: Answers
) -> None:
    listed = answers.of[case].text.rpartition(": ")[2].rstrip(".").split(", ")
    without_a_file = {ON_DEVICE} & {*listed}
    named = {path.stem for path in bad_inputs.ROOT.glob(folder_of_choices)} | without_a_file
    assert sorted(listed) == sorted(named)


def test_every_mistake_is_refused_within_seconds(answers: Answers) -> None:
    slow = {case: one.seconds for case, one in answers.of.items() if one.seconds >= bad_inputs.SECONDS}
    if slow and answers.others_share > quiet.BUSY_SHARE:
        pytest.skip(f"about time, and other processes had {answers.others_share:.0%} of the cores")
    assert slow == {}


@pytest.mark.parametrize("case", AS_TYPED)
def test_as_typed_it_is_as_quick_and_says_the_same(case: str, folder: Path, answers: Answers) -> None:
    others = quiet.Others()
    typed = bad_inputs.run(case, folder)
    assert (typed.text, typed.status) == (answers.of[case].text, answers.of[case].status)
    if typed.seconds >= bad_inputs.SECONDS:
        others.skip_if_busy()
    assert typed.seconds < bad_inputs.SECONDS

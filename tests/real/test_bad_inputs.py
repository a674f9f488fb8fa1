"""Every line of bad_inputs.md: the real command, one sentence with the remedy, within seconds."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import bad_inputs

pytestmark = pytest.mark.once  # the other stack refuses less: it has no ONNX Runtime that lacks anything

AS_TYPED = (
    "micro_batch=0",
    "backend=[pytorch,jax]",
    "compare nowhere.csv good.csv",
    "report nowhere --out reports",
)
"""A few that are started as by hand, from Python's start on."""

TABLE = (Path(bad_inputs.__file__).parent / "bad_inputs.md").read_text(encoding="utf-8")

Answers = Mapping[str, bad_inputs.Answer]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bad")
    bad_inputs.prepare(made)
    return made


@pytest.fixture(scope="module")
def answers(folder: Path) -> Answers:
    """What every case prints; each core runs one at a time."""
    before = csvs(folder)
    found = bad_inputs.run_all(folder)
    assert csvs(folder) == before, "nothing was overwritten, nothing written"
    return found


def csvs(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.csv")}


@pytest.mark.parametrize("case", AS_TYPED)
def test_a_mistake_as_typed_ends_in_the_sentence_of_the_table(case: str, folder: Path) -> None:
    answer = bad_inputs.run(case, folder)
    assert answer.status == 2
    assert bad_inputs.line(case, answer) in TABLE.splitlines()


@pytest.mark.exhaustive
def test_every_mistake_ends_in_the_sentence_of_the_table(answers: Answers) -> None:
    assert {case for case, answer in answers.items() if answer.status != 2} == set()
    assert bad_inputs.markdown(dict(answers)) == TABLE
    assert "Traceback" not in TABLE


@pytest.mark.exhaustive
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
    listed = answers[case].text.rpartition(": ")[2].rstrip(".").split(", ")
    named = {path.stem for path in bad_inputs.ROOT.glob(folder_of_choices)}
    assert sorted(listed) == sorted(named)


@pytest.mark.time
def test_every_mistake_is_refused_within_seconds_as_typed_too(folder: Path, answers: Answers) -> None:
    for found in (answers, {case: bad_inputs.run(case, folder) for case in AS_TYPED}):
        slow = {case: one.seconds for case, one in found.items() if one.seconds >= bad_inputs.SECONDS}
        assert slow == {}

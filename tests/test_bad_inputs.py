"""Every line of bad_inputs.md: the real command, one sentence with the remedy, within seconds."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bad_inputs
import pytest

pytestmark = pytest.mark.alone  # each answer has its seconds

TABLE = (Path(__file__).parent / "bad_inputs.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bad")
    bad_inputs.prepare(made)
    return made


@pytest.fixture(scope="module")
def answers(folder: Path) -> Mapping[str, bad_inputs.Answer]:
    """What every case prints; each core runs one at a time."""
    before = csvs(folder)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        answers = pool.map(lambda case: bad_inputs.run(case, folder), bad_inputs.cases())
        found = dict(zip(bad_inputs.cases(), answers, strict=True))
    assert csvs(folder) == before, "nothing was overwritten, nothing written"
    return found


def csvs(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.csv")}


def test_the_table_holds_at_least_forty() -> None:
    assert len(set(bad_inputs.cases())) == len(bad_inputs.cases()) >= 40
    assert TABLE.count("\n| `") == len(bad_inputs.cases())


@pytest.mark.parametrize("case", bad_inputs.cases())
def test_a_mistake_ends_in_the_sentence_of_the_table(
    case: str, answers: Mapping[str, bad_inputs.Answer]
) -> None:
    answer = answers[case]
    assert "Traceback" not in answer.text
    assert answer.status == 2
    assert answer.seconds < bad_inputs.SECONDS
    assert bad_inputs.line(case, answer) in TABLE.splitlines()

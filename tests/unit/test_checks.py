"""Results files that are refused, with the reason and the remedy."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.errors import UserError
from bench.results import csv_files
from bench.results.records import SCHEMA_VERSION
from tests.support.factories import block, record
from tests.support.result_files import write_records, write_rows


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


def refused(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        csv_files.read(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_a_missing_file_is_named_with_the_remedy(tmp_path: Path) -> None:
    message = refused(tmp_path / "x.csv")
    assert "no such file or directory" in message
    assert "make bench" in message


def test_a_folder_without_results_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no results file; measure with `make bench`"):
        csv_files.list_files(tmp_path)


@pytest.mark.parametrize("cut", [1, 10, 100, 400])
def test_a_truncated_file_is_refused_wherever_it_breaks_off(saved: Path, cut: int) -> None:
    saved.write_bytes(saved.read_bytes()[:-cut])
    assert "is damaged" in refused(saved)


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe\x00", b"a,b\n1,2\n"])
def test_a_file_that_is_something_else_is_refused(saved: Path, content: bytes) -> None:
    saved.write_bytes(content)
    refused(saved)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"overrides": "seed=3"}, "overrides is no list in JSON"),
        ({"overrides": '{"seed": 3}'}, "overrides is no list in JSON"),
        ({"status": "invalid", "message": "other processes had it"}, "an invalid block lacks its cause"),
        ({"attempt": None}, "a measured row lacks its figures"),
        ({"model_flops_per_s": 0.5}, "model_flops_per_s is not what it is derived from"),
        ({"roofline_share": 0.5}, "roofline_share is not what it is derived from"),
        (
            {
                **{"model_flops_per_step": 20, "steps": 10, "seconds": 2.0, "samples_per_s": 80.0},
                **{"model_flops_per_s": 100.0, "limit_flops_per_s": 50.0, "roofline_share": 2.0},
            },
            "roofline_share is above 1",
        ),
    ],
)
def test_a_file_whose_facts_cannot_be_read_is_refused(saved: Path, changes: dict[str, Any], why: str) -> None:
    write_rows(saved, csv_files.read(saved).assign(**changes).to_dict("records"))
    assert why in refused(saved)


def test_a_file_with_nothing_but_its_header_is_refused(saved: Path) -> None:
    saved.write_text(lines(saved)[0])
    assert "it has no rows" in refused(saved)


def test_foreign_columns_are_named(saved: Path) -> None:
    header, *rest = lines(saved)
    saved.write_text(header.replace("samples_per_s", "speed") + "".join(rest))
    assert "samples_per_s, speed" in refused(saved)


def test_another_schema_version_is_named(saved: Path) -> None:
    header, first, *rest = lines(saved)
    saved.write_text(header + "99" + first[len(str(SCHEMA_VERSION)) :] + "".join(rest))
    assert f"has schema version 99, this harness reads {SCHEMA_VERSION}" in refused(saved)


CONTENTS: dict[str, tuple[Callable[[str], str | bytes], str]] = {
    "byte order mark": (lambda text: "\ufeff" + text, "open only a copy in a spreadsheet"),
    "semicolons": (lambda text: text.replace(",", ";"), "a spreadsheet has saved it without commas"),
    "UTF-16": (lambda text: text.encode("utf-16"), "a spreadsheet has saved it"),
    "joined": (lambda text: text + text, "it is two files joined"),
    "joined at once": (lambda text: text.partition("\n")[0] + "\n" + text, "it is two files joined"),
    "joined without header": (lambda text: text + text.partition("\n")[2], "give joined files as two"),
    "conflict": (lambda text: text + "<<<<<<< HEAD\n", "keep a side by `git checkout --ours`"),
}
"""What other programs make of a results file, and what is said of it."""


@pytest.mark.parametrize("name", CONTENTS)
def test_what_another_program_made_of_a_file_is_refused_and_named(saved: Path, name: str) -> None:
    change, words = CONTENTS[name]
    content = change(saved.read_text(encoding="utf-8"))
    saved.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert words in refused(saved)


@pytest.mark.parametrize("changed", ['""host"":""there""', '""threads"":2', '""numpy"":""2.2.7""'])
def test_an_environment_that_its_hash_does_not_fit_is_refused(saved: Path, changed: str) -> None:
    key = changed.partition(":")[0]
    text, found = re.subn(rf"{key}:[^,}}]*", changed, saved.read_text(encoding="utf-8"), count=1)
    assert found or key == '""threads""'
    saved.write_text(text if found else text.replace('"{', '"{' + changed + ",", 1))
    assert "an environment is not the one that environment_hash was made of" in refused(saved)


def test_rows_of_two_comparisons_are_refused(saved: Path) -> None:
    header, first, second, *rest = lines(saved)
    assert ",bench,," in second, "which says once what all of them are of"
    saved.write_text(header + first + second.replace(",bench,,", ",bench,another,", 1) + "".join(rest))
    assert "it mixes comparisons" in refused(saved)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (",80,", ",81,", "samples_per_s is not steps x global_batch / seconds"),
        (",80,", ",fast,", "samples_per_s holds something that is not a number"),
        (",80,", ",,", "a measured row lacks its figures"),
        (",10,2,", ",10,-2,", "a measured row lacks its figures"),
        (",ok,", ",fine,", "a status that does not exist"),
        (",ok,", ",,", "a status that does not exist"),
    ],
)
def test_a_row_that_was_tampered_with_is_refused(saved: Path, old: str, new: str, reason: str) -> None:
    header, first, *rest = lines(saved)
    assert old in first
    saved.write_text(header + first.replace(old, new, 1) + "".join(rest))
    assert reason in refused(saved)


@pytest.mark.parametrize("row", ["1,2\n", "\n"])
def test_a_row_with_too_few_cells_is_refused(saved: Path, row: str) -> None:
    saved.write_text("".join([*lines(saved), row]))
    assert "too few or too many cells" in refused(saved)


def test_a_backend_twice_in_one_round_is_refused(saved: Path) -> None:
    saved.write_text("".join([*lines(saved), lines(saved)[1]]))
    assert "an attempt of a backend in a round is there twice" in refused(saved)


def test_two_valid_blocks_of_one_round_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    write_records(path, [record(blocks=(block(1), block(1, attempt=2)))])
    assert "two valid blocks in one round" in refused(path)

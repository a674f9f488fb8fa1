"""Where compared results come from: files, folders and git revisions, damaged ones among them."""

import subprocess
from pathlib import Path

import pytest

from bench.compare.__main__ import main
from bench.results import csv_files
from tests.support.compared import line_of
from tests.support.factories import (
    two_backends,
)


def test_a_missing_or_truncated_file_is_one_sentence_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, half = tmp_path / "good.csv", tmp_path / "half.csv"
    csv_files.write_records(good, two_backends())
    half.write_bytes(good.read_bytes()[:-20])
    for other, words in ((half, "is damaged"), (tmp_path / "none.csv", "cannot be read")):
        assert main([str(good), str(other)]) == 2
        errors = capsys.readouterr().err
        assert words in errors
        assert errors.count("\n") == 1


def test_a_name_of_nothing_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["nothing"]) == 2
    assert capsys.readouterr().err == (
        "nothing is no file, no folder and no git revision; check the path, or `git log`\n"
    )


def test_a_new_file_that_is_damaged_is_no_new_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("base", "new"):
        csv_files.write_records(tmp_path / name / "a.csv", two_backends())
    (tmp_path / "new" / "b.csv").write_text("city,population\n")
    assert main([str(tmp_path / "base"), str(tmp_path / "new")]) == 2
    output = capsys.readouterr()
    assert "is new" not in output.out
    assert "b.csv is not a results file" in output.err or "b.csv is damaged" in output.err


# Folders and revisions


def test_folders_are_paired_by_name_and_what_is_missing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    csv_files.write_records(tmp_path / "old" / "a.csv", two_backends(seed=1))
    csv_files.write_records(tmp_path / "old" / "b.csv", two_backends(seed=1))
    csv_files.write_records(tmp_path / "new" / "a.csv", two_backends(seed=2))
    csv_files.write_records(tmp_path / "new" / "c.csv", two_backends(seed=2))
    folders = [str(tmp_path / name) for name in ("old", "new")]
    assert main(folders) == 2
    output = capsys.readouterr()
    assert "same" in line_of(output.out, "ortmodule")
    assert "c is new" in output.out
    assert output.err.startswith("b is in ")
    (tmp_path / "old" / "b.csv").unlink()
    assert main(folders) == 0


# The working tree against its last commit


def git(*arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(variable, raising=False)
    git("init")
    return tmp_path


def test_the_working_tree_is_compared_with_its_committed_files_and_new_ones_are_named(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    csv_files.write_records(checkout / "results" / "a.csv", two_backends(seed=1))
    git("add", ".")
    git("commit", "-m", "base")
    csv_files.write_records(checkout / "results" / "a.csv", two_backends(seed=2))
    csv_files.write_records(checkout / "results" / "b.csv", two_backends(seed=3))
    assert main([]) == 0
    assert "b is new" in capsys.readouterr().out

    csv_files.write_records(checkout / "results" / "a.csv", two_backends(seed=2, torch=2.3))
    assert main([]) == 1


def test_revisions_are_compared_with_each_other_and_with_the_working_tree(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, ort in ((1, 1.5), (2, 1.8)):
        csv_files.write_records(checkout / "results" / "a.csv", two_backends(seed=seed, ort=ort))
        git("add", ".")
        git("commit", "-m", "measured")
    assert main(["HEAD~1", "HEAD"]) == 1
    assert main(["HEAD~1"]) == 1
    capsys.readouterr()
    assert main(["HEAD", "HEAD~1"]) == 0
    assert "faster" in line_of(capsys.readouterr().out, "ortmodule")
    (checkout / "results" / "a.csv").unlink()
    assert main([]) == 2


def test_a_damaged_file_stops_no_other_and_is_not_passed_over(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for stem in ("a", "b"):
        csv_files.write_records(checkout / "results" / f"{stem}.csv", two_backends())
    git("add", ".")
    git("commit", "-m", "base")
    (checkout / "results" / "a.csv").write_text("half")
    assert main([]) == 2
    output = capsys.readouterr()
    assert "a.csv is damaged" in output.err
    assert "same" in line_of(output.out, "ortmodule")


def test_without_git_two_files_have_to_be_named(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(checkout))
    assert main([]) == 2
    assert "git is not installed; install it, or name two files" in capsys.readouterr().err


def test_before_the_first_commit_everything_is_new_and_nothing_compared(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    csv_files.write_records(checkout / "results" / "a.csv", two_backends())
    assert main([]) == 2
    assert "a is new" in capsys.readouterr().out


def test_outside_a_checkout_the_sentence_names_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert main([]) == 2
    assert "name two files" in capsys.readouterr().err

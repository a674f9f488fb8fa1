"""Where compared results come from: files, folders and git revisions, damaged ones among them."""

from pathlib import Path

import pytest

from bench.compare.__main__ import main
from tests.support.compared import line_of
from tests.support.factories import two_backends
from tests.support.git import git, write_results
from tests.support.result_files import write_records

A, B = "machine/bench/a", "machine/reproduce/b"
"""The places of two results files."""


def test_a_missing_or_truncated_file_is_one_sentence_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, half = tmp_path / "good.csv", tmp_path / "half.csv"
    write_records(good, two_backends())
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
        write_records(tmp_path / name / "a.csv", two_backends())
    (tmp_path / "new" / "b.csv").write_text("city,population\n")
    assert main([str(tmp_path / "base"), str(tmp_path / "new")]) == 2
    output = capsys.readouterr()
    assert "is new" not in output.out
    assert "b.csv is not a results file" in output.err or "b.csv is damaged" in output.err


# Folders and revisions


def test_folders_are_paired_by_place_and_what_is_missing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(tmp_path / "old" / "machine" / "bench" / "a.csv", two_backends(seed=1))
    write_records(tmp_path / "old" / "machine" / "bench" / "b.csv", two_backends(seed=1))
    write_records(tmp_path / "new" / "machine" / "bench" / "a.csv", two_backends(seed=2))
    write_records(tmp_path / "new" / "machine" / "methods" / "b.csv", two_backends(seed=2))
    assert main([str(tmp_path / name) for name in ("old", "new")]) == 0
    output = capsys.readouterr()
    assert "same" in line_of(output.out, "ortmodule")
    assert "machine/methods/b is new" in output.out
    assert "machine/bench/b is gone: only" in output.out


@pytest.mark.parametrize("new", ["two/bench", "two/bench/b.csv", "one/reproduce", "one/reproduce/c.csv"])
@pytest.mark.parametrize("options", [[], ["--format=markdown"]])
def test_results_of_which_no_two_belong_together_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], new: str, options: list[str]
) -> None:
    for place in ("one/bench/a", "one/reproduce/c", "two/bench/b"):
        write_records(tmp_path / f"{place}.csv", two_backends())
        (tmp_path / place).parents[1].joinpath("machine.json").write_text('{"name": "CPU", "identity": {}}')
    assert main([str(tmp_path / "one" / "bench"), str(tmp_path / new), *options]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.endswith(
        "have no file of the same machine, folder and name; "
        "choose folders of one machine and study, or name two files: "
        "python -m bench.compare BASE NEW.\n"
    )


# The working tree against its last commit


def commit() -> None:
    git("add", ".")
    git("commit", "-m", "measured")


def test_only_what_differs_from_the_last_commit_is_compared(
    empty_checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_results(A, two_backends(seed=1))
    write_results(B, two_backends(seed=1))
    commit()
    write_results("machine/bench/runs/raw", two_backends())  # no comparison lies there
    write_results(f"{A}.breakdown", two_backends())
    assert main([]) == 0
    assert capsys.readouterr().out == "2 files unchanged since HEAD.\n"

    write_results(A, two_backends(seed=2))
    git("add", ".")  # what is staged is not committed
    assert main([]) == 0
    output = capsys.readouterr().out
    assert "1 file did not become worse; 1 file unchanged since HEAD." in output
    assert B not in output

    write_results(A, two_backends(seed=2, torch=2.3))
    write_results(B, two_backends(seed=2))
    assert main([]) == 1
    output = " ".join(capsys.readouterr().out.split())
    assert f"pytorch of {A} (throughput); 1 file did not become worse." in output
    assert B not in output


def test_revisions_are_compared_with_each_other_and_with_the_working_tree(
    empty_checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, ort in ((1, 1.5), (2, 1.8)):
        write_results(A, two_backends(seed=seed, ort=ort))
        commit()
    assert main(["HEAD~1", "HEAD"]) == 1
    assert main(["HEAD~1"]) == 1
    capsys.readouterr()
    assert main(["HEAD", "HEAD~1"]) == 0
    assert "faster" in line_of(capsys.readouterr().out, "ortmodule")


def test_a_machines_folder_and_a_file_in_it_are_found_in_a_revision(
    empty_checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for machine in ("one", "two"):
        write_results(f"{machine}/bench/a", two_backends(seed=1))
        Path("results", machine, "machine.json").write_text('{"name": "CPU", "identity": {}}')
    commit()
    write_results("one/bench/a", two_backends(seed=2, ort=1.8))
    for new in ("results/one", "results/one/bench", "results/one/bench/a.csv"):
        assert main(["HEAD", new]) == 1
        output = capsys.readouterr().out
        assert "ortmodule of one/bench/a" in output
        assert "gone" not in output


def test_a_damaged_file_stops_no_other_and_is_not_passed_over(
    empty_checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in (A, B):
        write_results(place, two_backends(seed=1))
    commit()
    (empty_checkout / "results" / f"{A}.csv").write_text("half")
    write_results(B, two_backends(seed=2))
    assert main([]) == 2
    output = capsys.readouterr()
    assert "a.csv is damaged" in output.err
    assert "same" in line_of(output.out, "ortmodule")


def test_without_git_two_files_have_to_be_named(
    empty_checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(empty_checkout))
    assert main([]) == 2
    assert "git is not installed; install it, or name two files" in capsys.readouterr().err


def test_outside_a_checkout_the_sentence_names_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert main([]) == 2
    assert "name two files" in capsys.readouterr().err

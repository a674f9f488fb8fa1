"""The block that ends every command, and what it suggests to type next."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from bench.closing import print_closing, run_command, this_python
from bench.compare.__main__ import ComparedPair, ComparedSources
from bench.compare.changes import BackendChange
from bench.compare.sources import Pairing, Source
from bench.config.compose import compose
from bench.config.identity import config_hash
from bench.config.naming import DEFAULT_STACK
from bench.errors import CannotWriteResults, Terminated, UserError
from bench.report.closing_words import answer_of, suggest
from bench.report.content import study_commands
from bench.results.validity import OTHER_PROCESSES, OWN_THREADS
from bench.setup import stacks
from bench.statistics.intervals import Speedup
from tests.support.answers import UNDECIDED, compared

# How a command ends


@pytest.mark.parametrize(
    ("error", "status", "printed"),
    [
        (UserError("it is wrong", "put it right"), 2, "it is wrong; put it right.\n"),
        (CannotWriteResults("the disk is full."), 1, "the disk is full.\n"),
        (KeyboardInterrupt(), 130, "interrupted.\n"),
        (Terminated(), 143, "interrupted.\n"),
    ],
)
def test_what_ends_a_command_is_printed_and_decides_its_status(
    error: BaseException,
    status: int,
    printed: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> int:
        raise error

    monkeypatch.setattr(Terminated, "catch", lambda: None)  # not for the process of the tests
    assert run_command(fail, "interrupted.") == status
    assert capsys.readouterr().err == printed
    assert run_command(lambda: 7, "interrupted.") == 7


CSV = Path("results/x.csv")

MAKE = "make bench" if stacks.own() == DEFAULT_STACK else f"make bench STACK={stacks.own()}"


# The block


def test_answer_table_files_and_next_command_stand_in_this_order(capsys: pytest.CaptureFixture[str]) -> None:
    print_closing(
        "All is well.",
        table="a | b\n1 | 2\n",
        files=[Path("results/a.csv"), Path("reports/a.md")],
        next_command="make report",
        purpose="a page of it",
    )
    assert capsys.readouterr().out == (
        "\nAll is well.\n\na | b\n1 | 2\n\n"
        "files: results/a.csv\n       reports/a.md\nnext:  make report  # a page of it\n"
    )


def test_names_from_files_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_closing("red \x1b[31m\n and more", files=[Path("a\x1b]0;x\x07.csv")], next_command="make\nrm")
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "\x07" not in printed
    assert "red [31m and more\n" in printed
    assert "next:  make rm\n" in printed


def test_python_is_named_as_it_is_typed_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.executable", str(tmp_path / ".venv" / "bin" / "python"))
    assert this_python() == ".venv/bin/python"
    monkeypatch.setattr("sys.executable", "/elsewhere/bin/python")
    assert this_python() == "/elsewhere/bin/python"


# After `make bench`


def test_a_comparison_s_answer_names_every_backend_under_its_verdict() -> None:
    one = compared(
        "gpt2",
        {
            "pytorch": 2.0,
            "ortmodule": 1.6,
            "compile": 2.5,
            "pytorch_fused": 2.0,
            "pytorch_zero1": UNDECIDED,
            "ortmodule_zero1": "oom",
        },
    )
    words = answer_of(one)
    assert words.startswith(
        "Faster than pytorch: ortmodule 1.25× [1.250, 1.250]; as fast as pytorch: pytorch_fused 1.00× "
        "[1.000, 1.000]; slower than pytorch: compile 0.80× [0.800, 0.800]; inconclusive against pytorch: "
        "pytorch_zero1 1.20× ["
    )
    assert words.endswith("; without a result: ortmodule_zero1 (oom).")


def test_one_launch_and_a_failed_reference_have_no_winner() -> None:
    alone = compared("gpt2", {"pytorch": [2.0], "ortmodule": [1.6]})
    assert answer_of(alone).startswith(
        "Without a verdict against pytorch, since there was one launch: ortmodule"
    )
    failed = compared("gpt2", {"pytorch": "oom", "ortmodule": "skipped"})
    assert answer_of(failed) == "Nothing was compared, since pytorch, the reference, has no result (oom)."
    only = compared("gpt2", {"pytorch": 2.0})
    assert answer_of(only) == "Nothing was compared with pytorch."


@pytest.mark.parametrize(
    ("ortmodule", "command"),
    [
        (1.6, f"{this_python()} -m bench.report figure results/x.csv --out speedup.pdf"),
        (UNDECIDED, f'{MAKE} ARGS="measure.launches=6 resume=true"'),
        ([1.6], f'{MAKE} ARGS="resume=true"'),  # to the four of measure=default
        ("crashed", ""),
        ("diverged", ""),
        ("unsupported", ""),
        ("timeout", ""),
        ("oom", ""),
    ],
)
def test_the_next_command_follows_from_what_was_found(
    ortmodule: float | list[float] | str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_commands, "find_commands", lambda: ["figure"])
    seconds = {"pytorch": [2.0] if isinstance(ortmodule, list) else 2.0, "ortmodule": ortmodule}
    assert suggest(compared("gpt2", seconds), CSV, compose())[0] == command


@pytest.mark.parametrize(("made", "launches"), [(1, ""), (2, "measure.launches=6 ")])
def test_what_other_processes_disturbed_is_measured_until_two_thirds_may_count(
    made: int, launches: str
) -> None:
    measured = compared("gpt2", {"pytorch": [2.0] * made, "ortmodule": [1.6] * made})
    rows = measured.rows.assign(status="invalid", invalid_because=OTHER_PROCESSES)
    assert suggest(replace(measured, rows=rows), CSV, compose()) == (
        f'{MAKE} ARGS="{launches}resume=true"',
        "first end the other processes; then this adds launches",
    )
    other = measured.rows.assign(status="invalid", invalid_because=OWN_THREADS)
    assert suggest(replace(measured, rows=other), CSV, compose()) == ("", ""), "the table says what to change"


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["measure=quick", "measure.launches=1"],
        ["measure=thorough", "measure.launches=3"],
        ["measure=quick", "++measure.launches=2", "measure.target_half_width=0.01", "measure.max_launches=3"],
        ["measure.schedule=sequential", "data=hf", "data.path=x", "data.processor='/tmp/ö b'", "seed=3"],
    ],
)
def test_the_suggested_command_goes_on_with_what_was_measured_and_has_more_launches(
    overrides: list[str],
) -> None:
    undecided = compared("gpt2", {"pytorch": 2.0, "ortmodule": UNDECIDED})  # in three launches
    command, _ = suggest(undecided, CSV, compose(overrides))
    words = shlex.split(command)
    at_make = [word.removeprefix("ARGS=").split() for word in words if word.startswith("ARGS=")]
    before, then = compose(overrides), compose(at_make[0] if at_make else words[3:])
    assert then.measure.launches > 3
    assert then.resume
    assert config_hash(then) == config_hash(before)


# After `make compare` and `make selftest`


WORSE = BackendChange(backend="ortmodule", base="1", new="2", regressions=("throughput", "memory"))
WELL = BackendChange(
    backend="pytorch", base="1", new="1", ratio=Speedup(ratio=1, low=0.9, high=1.1, launches=3, rounds=9)
)


@pytest.mark.parametrize(
    ("changes", "uncompared", "new", "missing", "unchanged", "sentence"),
    [
        ({"a": [WELL, WORSE]}, 0, 1, 0, 0, "ortmodule of a (throughput, memory); 1 new file."),
        (
            *({"a": [WELL], "b": [WELL]}, 2, 0, 0, 0),
            "2 files did not become worse; 2 files could not be compared.",
        ),
        ({}, 1, 0, 0, 0, "1 file could not be compared."),
        ({}, 0, 0, 0, 9, "9 files unchanged since HEAD."),
        ({}, 0, 1, 2, 0, "1 new file; 2 missing files."),
        (
            {"a": [WORSE], "b": [WELL]},
            0,
            0,
            0,
            1,
            "1 file did not become worse; 1 file unchanged since HEAD.",
        ),
        ({"a": [WORSE] * 5}, 0, 0, 0, 0, "ortmodule of a (throughput, memory) and 2 more."),
    ],
)
def test_a_regression_is_named_and_what_was_not_compared_is_told_apart(
    changes: dict[str, list[BackendChange]],
    uncompared: int,
    new: int,
    missing: int,
    unchanged: int,
    sentence: str,
) -> None:
    compared = ComparedSources(
        base=Source(name="HEAD", files={}),
        pairing=Pairing(pairs=[], missing=["gone"] * missing, unchanged=unchanged),
        new=["new"] * new,
        pairs={
            title: ComparedPair(changes=several, differences=[], command="")
            for title, several in changes.items()
        },
        uncompared=uncompared,
    )
    assert compared.answer.endswith(sentence)
    assert ("Worse beyond" in compared.answer) is any(WORSE in each for each in changes.values())

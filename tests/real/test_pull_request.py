"""The GitHub Action's script as it runs on GitHub: a process in a git checkout, with GitHub's environment."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from bench.setup.checkout import ROOT
from tests.support.compared import line_of
from tests.support.factories import two_backends
from tests.support.git import git, write_results

pytestmark = [pytest.mark.exhaustive, pytest.mark.once]

SCRIPT = "bench.compare.pull_request"

A, B = "machine/bench/a", "machine/bench/b"
"""The places of two results files."""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder: a git checkout with two committed results files, and no variable of GitHub's."""
    made = tmp_path / "checkout"
    made.mkdir()
    monkeypatch.chdir(made)
    for variable in [name for name in os.environ if name.startswith(("GIT_", "GITHUB_"))]:
        monkeypatch.delenv(variable)
    git("init", "--initial-branch=main")
    write_results(A, two_backends(seed=1))
    write_results(B, two_backends(seed=5))
    git("add", ".")
    git("commit", "-m", "base")
    return made


def run_script(*arguments: str, path: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    if path:
        variables["PATH"] = f"{path}:{variables['PATH']}"
    return subprocess.run(
        [sys.executable, "-m", SCRIPT, *arguments], env=variables, capture_output=True, text=True, check=False
    )


def test_a_planted_regression_fails_and_the_summary_says_which(checkout: Path, tmp_path: Path) -> None:
    write_results(A, two_backends(seed=2, ort=2.0))  # ONNX Runtime's blocks took 1.5 s
    summary, output = tmp_path / "summary.md", tmp_path / "output"
    ran = run_script("--base", "HEAD", GITHUB_STEP_SUMMARY=str(summary), GITHUB_OUTPUT=str(output))
    assert ran.returncode == 1, ran.stderr
    assert "**Regression:** something became worse" in ran.stdout
    assert "REGRESSION: throughput, speedup" in line_of(ran.stdout, "ortmodule")
    assert "REGRESSION" not in line_of(ran.stdout, "pytorch")
    assert re.findall(r"^### (.*)", ran.stdout, re.MULTILINE) == [A]
    assert re.search(r"^Results files that are the same as in [0-9a-f]{40}: 1\.$", ran.stdout, re.MULTILINE)
    assert summary.read_text() == ran.stdout.removesuffix("\n")
    assert output.read_text() == "status=1\n"


def test_the_same_measured_again_a_new_file_and_one_that_is_gone_are_named_and_fine(checkout: Path) -> None:
    write_results(A, two_backends(seed=2))
    write_results("machine/bench/c", two_backends(seed=2))
    (checkout / "results" / f"{B}.csv").unlink()
    ran = run_script("--base", "HEAD")
    assert ran.returncode == 0, ran.stderr
    assert "\n\nNothing became worse beyond its tolerance.\n\n" in ran.stdout
    assert " same " in line_of(ran.stdout, "ortmodule")
    assert "- machine/bench/c is new: no other machine has" in ran.stdout
    assert re.search(rf"^- {B} is gone: only .* has it$", ran.stdout, re.MULTILINE)


def test_results_that_did_not_change_need_no_comparison(checkout: Path) -> None:
    ran = run_script("--base", "HEAD")
    assert ran.returncode == 0
    assert "Nothing to compare: no results file that the base has was changed." in ran.stdout
    assert "the same as in" in ran.stdout
    assert "| backend |" not in ran.stdout


def test_files_of_different_workloads_end_with_2_under_their_name(checkout: Path) -> None:
    write_results(B, [dataclasses.replace(one, device="cuda") for one in two_backends(seed=5)])
    ran = run_script("--base", "HEAD")
    assert ran.returncode == 2
    assert f"- {B}: these files cannot be compared, since device (cpu, cuda) differ" in ran.stdout


def test_another_folder_and_other_tolerances_are_taken(checkout: Path) -> None:
    for seed, seconds in ((1, 1.5), (2, 2.0)):
        write_results(A, two_backends(seed=seed, ort=seconds), folder="measured/here")
        git("add", ".")
        git("commit", "-m", "measured")
    Path("lenient.yaml").write_text("throughput: 0.5\nspeedup: 0.5\nmemory: 0.5\n")
    assert run_script("--base", "HEAD~1").returncode == 0  # of results/
    assert run_script("--base", "HEAD~1", "--results", "measured/here").returncode == 1
    lenient = run_script("--base", "HEAD~1", "--results", "measured/here", "--tolerances", "lenient.yaml")
    assert lenient.returncode == 0, lenient.stdout


# The base revision


def test_a_base_that_is_nowhere_or_not_named_is_one_sentence_with_the_remedy(checkout: Path) -> None:
    for arguments, sentence in (
        (
            ["--base", "nowhere"],
            "The base revision nowhere is not in this checkout and cannot be fetched from origin; "
            "check its name, and give actions/checkout `fetch-depth: 0`.\n",
        ),
        ([], "since this is no pull request; name one with --base, in the Action with its input `base`."),
    ):
        ran = run_script(*arguments)
        assert (ran.returncode, ran.stderr) == (2, "")
        assert sentence in ran.stdout


def test_a_pull_request_is_compared_with_what_it_is_merged_into_even_in_a_shallow_clone(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = git("rev-parse", "HEAD")
    git("checkout", "-b", "change")
    write_results(A, two_backends(seed=2, ort=2.0))
    git("commit", "-am", "slower")
    head = git("rev-parse", "HEAD")
    git("checkout", "main")
    write_results(B, two_backends(seed=6, ort=2.0))  # not the pull request's doing
    git("commit", "-am", "main goes on")
    main = git("rev-parse", "HEAD")
    git("checkout", "-b", "merge")
    git("merge", "--no-ff", "-m", "what actions/checkout leaves", "change")
    git("config", "uploadpack.allowAnySHA1InWant", "true")  # as GitHub has it
    monkeypatch.chdir(tmp_path)
    git("clone", "--depth=1", "--branch=merge", f"file://{checkout}", "shallow")
    monkeypatch.chdir(tmp_path / "shallow")
    event = tmp_path / "event.json"
    event.write_text(
        json.dumps({"pull_request": {"number": 7, "head": {"sha": head}, "base": {"sha": stale}}})
    )
    ran = run_script(GITHUB_EVENT_PATH=str(event))
    assert ran.returncode == 1, ran.stdout
    assert re.findall(r"^### (.*)", ran.stdout, re.MULTILINE) == [A]
    assert f"the same as in {main}: 1." in ran.stdout


# The comment

GH = """#!/usr/bin/env python3
import json, pathlib, sys
folder = pathlib.Path(__file__).parent
comment = folder / "comment.md"
arguments = sys.argv[1:]
with (folder / "calls").open("a") as calls:
    calls.write(json.dumps(arguments) + "\\n")
if (folder / "forbidden").exists():
    sys.exit("gh: Resource not accessible by integration (HTTP 403)")
if "--jq" in arguments:
    print(41 if comment.exists() else "")
else:
    comment.write_text(arguments[-1].removeprefix("body="))
"""
"""Stands for GitHub's command: it holds one comment, and notes how it was called."""


@pytest.fixture
def gh(tmp_path: Path) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "gh").write_text(GH)
    (folder / "gh").chmod(0o755)
    event = {"pull_request": {"number": 7, "head": {"sha": "x"}, "base": {"sha": "HEAD"}}}
    (folder / "event.json").write_text(json.dumps(event))
    return folder


def comment_on(gh: Path) -> subprocess.CompletedProcess[str]:
    return run_script(
        "--comment",
        "true",
        path=str(gh),
        GITHUB_EVENT_PATH=str(gh / "event.json"),
        GITHUB_REPOSITORY="somebody/something",
    )


def test_the_comment_is_written_once_and_then_updated(checkout: Path, gh: Path) -> None:
    assert comment_on(gh).returncode == 0
    write_results(A, two_backends(seed=2, ort=2.0))
    second = comment_on(gh)
    assert second.returncode == 1
    assert (gh / "comment.md").read_text() == second.stdout.removesuffix("\n")
    assert second.stdout.startswith("<!-- bench.compare.pull_request: results -->\n")
    listing, writing, _, updating = map(json.loads, (gh / "calls").read_text().splitlines())
    assert listing[:3] == ["api", "--paginate", "repos/somebody/something/issues/7/comments"]
    assert 'startswith("<!-- bench.compare.pull_request: results -->")' in listing[-1]
    assert writing[1:4] == ["--method", "POST", "repos/somebody/something/issues/7/comments"]
    assert updating[1:4] == ["--method", "PATCH", "repos/somebody/something/issues/comments/41"]


def test_a_comment_that_may_not_be_written_is_a_warning_with_the_remedy(checkout: Path, gh: Path) -> None:
    (gh / "forbidden").touch()
    write_results(A, two_backends(seed=2, ort=2.0))
    ran = comment_on(gh)
    assert ran.returncode == 1
    (warning,) = [line for line in ran.stdout.splitlines() if line.startswith("::warning::")]
    assert "Resource not accessible by integration (HTTP 403)" in warning
    assert warning.endswith(
        "give the job `permissions: pull-requests: write`; a pull request from a fork never has it."
    )


# What it needs

REFUSE = """
import os, runpy, sys
allowed = set(os.environ.pop("ALLOWED").split())
sites = [place for place in sys.path if "site-packages" in place]
class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        here = [os.path.join(site, top + ending) for site in sites for ending in ("", ".py")]
        if top not in allowed and any(map(os.path.exists, here)):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
sys.argv = ["compare", "HEAD", "--markdown"]
runpy.run_module("bench.compare", run_name="__main__", alter_sys=True)
"""
"""Runs a comparison where of all that is installed only a few packages can be imported."""


def test_comparing_needs_no_more_than_its_own_requirements(checkout: Path) -> None:
    lines = (ROOT / "requirements" / "compare.txt").read_text().splitlines()
    names = {line.partition("==")[0].replace("-", "_") for line in lines if "==" in line}
    assert {"numpy", "pandas", "rich"} <= names < {*names, "torch", "hydra_core", "matplotlib"}
    modules = [
        module
        for module, owners in metadata.packages_distributions().items()
        if {owner.lower().replace("-", "_") for owner in owners} & names
    ]
    write_results(A, two_backends(seed=2, ort=2.0))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ALLOWED": " ".join(modules)}
    ran = subprocess.run(
        [sys.executable, "-c", REFUSE], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert "REGRESSION" in ran.stdout, ran.stderr
    refused = subprocess.run(
        [sys.executable, "-c", REFUSE],
        env=environment | {"ALLOWED": environment["ALLOWED"].replace("scipy", "")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No module named 'scipy'" in refused.stderr  # so that the refusal works


# The files for GitHub


WORKFLOW, ACTION = "docs/examples/compare.yml", ".github/actions/compare/action.yml"


def needs(program: str) -> str:
    """A program's path, from this environment or from PATH."""
    folders = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    found = shutil.which(program, path=folders)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


@pytest.mark.parametrize(
    ("schema", "path", "mistake"),
    [
        ("workflows", WORKFLOW, ("runs-on:", "run-on:")),
        ("actions", ACTION, ("using: composite", "using: shell")),
    ],
)
def test_action_and_workflow_are_what_githubs_schemas_ask_for(
    tmp_path: Path, schema: str, path: str, mistake: tuple[str, str]
) -> None:
    command = [needs("check-jsonschema"), "--builtin-schema", f"vendor.github-{schema}"]
    assert subprocess.run([*command, ROOT / path], check=False).returncode == 0
    wrong = tmp_path / Path(path).name
    wrong.write_text((ROOT / path).read_text().replace(*mistake))
    assert subprocess.run([*command, wrong], check=False).returncode == 1


def test_actionlint_has_nothing_against_the_workflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    actionlint = needs("actionlint")
    monkeypatch.chdir(tmp_path)
    git("init")
    for source, place in ((WORKFLOW, ".github/workflows/compare.yml"), (ACTION, ACTION)):
        Path(place).parent.mkdir(parents=True)
        Path(place).write_text((ROOT / source).read_text())
    ran = subprocess.run([actionlint], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "")


def test_the_workflow_gives_the_action_only_what_it_takes_and_may_what_it_needs() -> None:
    workflow, action = (yaml.safe_load((ROOT / path).read_text()) for path in (WORKFLOW, ACTION))
    (job,) = workflow["jobs"].values()
    (step,) = [step for step in job["steps"] if step["uses"] == f"./{Path(ACTION).parent}"]
    assert set(step.get("with", {})) <= set(action["inputs"])
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
    used = re.findall(r"inputs\.(\w+)", (ROOT / ACTION).read_text())
    assert set(used) == set(action["inputs"])


def test_the_actions_own_commands_run_the_script(checkout: Path, tmp_path: Path) -> None:
    """The last step of the Action as bash on a runner gets it, with an environment that is made already."""
    write_results(A, two_backends(seed=2, ort=2.0))
    action = yaml.safe_load((ROOT / ACTION).read_text())
    step = action["runs"]["steps"][-1]
    values = {
        "github.action_path": str((ROOT / ACTION).parent),
        **{f"inputs.{name}": one["default"] for name, one in action["inputs"].items()},
        "inputs.base": "HEAD",
        "inputs.comment": "false",
    }
    variables = {
        name: re.sub(r"\$\{\{ (.*?) \}\}", lambda found: values[found[1]], text)
        for name, text in step["env"].items()
    }
    folder = tmp_path / "bench-compare" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (folder / "python").chmod(0o755)
    ran = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env={**os.environ, **variables, "RUNNER_TEMP": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stderr
    assert "REGRESSION: throughput, speedup" in ran.stdout

"""python -m bench.compare.pull_request: what a pull request does to the results, as a comment and a status.

The script of the GitHub Action in .github/actions/compare; it runs without GitHub, too. In the checkout that
it is started in, it compares the results folder of the working tree with that of a base revision: by default
the one that the pull request of GITHUB_EVENT_PATH is to be merged into. A base that a shallow clone lacks is
fetched. It prints the Markdown, adds it to GITHUB_STEP_SUMMARY where that is set, and with --comment true
keeps it as one comment of the pull request, by GitHub's own command gh.

Exit status: that of python -m bench.compare. 0: nothing became worse beyond its tolerance, or no results file
has changed; 1: a regression; 2: something could not be compared.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.closing import command_parser
from bench.compare.changes import TOLERANCES
from bench.compare.sources import RESULTS
from bench.errors import UserError
from bench.report.render.markdown import escaped

HARNESS = Path(__file__).resolve().parents[2]
"""The checkout that this file lies in, which may be another than the one whose results are compared."""

NO_TABLE = "Nothing to compare: no results file that the base has was changed."

HEADLINES = {
    0: "Nothing became worse beyond its tolerance.",
    1: "**Regression:** something became worse beyond its tolerance, or no longer runs.",
    2: "**Not everything could be compared.**",
}

LONGEST_COMMENT = 60_000
"""Characters. GitHub takes 65,536."""

NO_BASE = "name one with --base, in the Action with its input `base`"


def main(arguments: list[str] | None = None) -> int:
    """Compare, publish what came out, and return the exit status."""
    parser = command_parser("bench.compare.pull_request", __doc__)
    parser.add_argument("--base", default="", metavar="REVISION", help="default: the pull request's")
    parser.add_argument("--results", default=RESULTS, metavar="FOLDER", help="default: results")
    # an input of the Action that was left out is empty
    parser.add_argument(
        "--tolerances", type=lambda path: Path(path or TOLERANCES), default=TOLERANCES, metavar="FILE"
    )
    parser.add_argument(
        "--comment", choices=("true", "false"), default="false", help="keep a comment of the pull request"
    )
    options = parser.parse_args(arguments)
    event = _read_event()
    try:
        base = find_revision(options.base or base_of(event))
        markdown, status = compare_with(base, options.results, options.tolerances)
    except UserError as error:
        markdown, status = _page(HEADLINES[2], options.results, f"{error}\n"), 2
    print(markdown)
    _append("GITHUB_STEP_SUMMARY", markdown)
    _append("GITHUB_OUTPUT", f"status={status}\n")
    if options.comment == "true" and event.get("pull_request"):
        try:
            keep_one_comment(markdown, options.results, int(event["pull_request"]["number"]))
        except UserError as error:
            print(f"::warning::{error}")  # a pull request from a fork may not write comments
    return status


def compare_with(base: str, results: str, tolerances: Path) -> tuple[str, int]:
    """The Markdown and the exit status of comparing the working tree's results with a revision's."""
    command = ["-m", "bench.compare", base, "--markdown", "--results", results]
    done = subprocess.run(
        [sys.executable, *command, "--tolerances", str(tolerances)],
        env={**os.environ, "PYTHONPATH": str(HARNESS)},
        capture_output=True,
        text=True,
        check=False,
    )
    # Python's own status 1 is no regression
    if done.returncode not in HEADLINES or "Traceback" in done.stderr:
        raise UserError(f"python {' '.join(command)} broke down:\n\n```\n{done.stderr.strip()}\n```")
    problems = "".join(f"- {escaped(line)}\n" for line in done.stderr.splitlines())
    headline = HEADLINES[done.returncode] if problems or "### " in done.stdout else NO_TABLE
    return _page(headline, results, "\n".join(filter(None, (done.stdout, problems)))), done.returncode


def _page(headline: str, results: str, body: str) -> str:
    return f"{_marker(results)}\n## Training results in `{results}`\n\n{headline}\n\n{body}"


def _marker(results: str) -> str:
    """A comment in Markdown, which nobody sees and by which the next run finds its comment."""
    return f"<!-- bench.compare.pull_request: {results.replace('--', '%2D%2D')} -->"


def _append(variable: str, text: str) -> None:
    """Append to the file that GitHub names in an environment variable."""
    if path := os.environ.get(variable):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)


# The base revision


def base_of(event: Mapping[str, Any]) -> str:
    """The revision that a pull request is to be merged into.

    What actions/checkout leaves is a merge of the base branch and the pull request. Its first parent is the
    base: the event's own may be older, and would count what the base branch has gained since as the pull
    request's.

    Raises:
        UserError: the event is none of a pull request.
    """
    request = event.get("pull_request")
    if not request:
        raise UserError("There is no base to compare with, since this is no pull request", NO_BASE)
    head, _, _ = _git("cat-file", "-p", "HEAD").partition(
        "\n\n"
    )  # other commands hide a shallow clone's parents
    parents = re.findall("^parent (.*)$", head, re.MULTILINE)
    if len(parents) == 2 and parents[1] == request["head"]["sha"]:
        return parents[0]
    return str(request["base"]["sha"])


def find_revision(base: str) -> str:
    """The commit of a revision, which is fetched from the remote `origin` if it is not here.

    Raises:
        UserError: it is neither here nor there.
    """
    try:
        return _commit(base)
    except UserError:
        pass
    shallow = _git("rev-parse", "--is-shallow-repository").strip() == "true"
    try:  # a depth would make a complete clone shallow
        _git("fetch", "--quiet", "--no-tags", *(["--depth=1"] if shallow else []), "origin", "--", base)
        return _commit("FETCH_HEAD")
    except UserError:
        raise UserError(
            f"The base revision {base} is not in this checkout and cannot be fetched from origin",
            "check its name, and give actions/checkout `fetch-depth: 0`",
        ) from None


def _commit(revision: str) -> str:
    return _git("rev-parse", "--quiet", "--verify", "--end-of-options", f"{revision}^{{commit}}").strip()


def _git(*arguments: str) -> str:
    return _run("git", arguments, "run in a git checkout")


def _run(program: str, arguments: tuple[str, ...], remedy: str) -> str:
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise UserError(f"{program} is not installed", "install it") from None
    except subprocess.CalledProcessError as error:
        reason = " ".join(error.stderr.split()) or f"exit status {error.returncode}"
        raise UserError(f"`{program} {arguments[0]}` failed ({reason})", remedy) from None
    return done.stdout


# The comment


def keep_one_comment(markdown: str, results: str, number: int) -> None:
    """Write the Markdown into the comment of an earlier run, or into a new one.

    Raises:
        UserError: gh is missing, or may not.
    """
    if len(markdown) > LONGEST_COMMENT:
        whole_lines = markdown[:LONGEST_COMMENT].rpartition("\n")[0]
        markdown = f"{whole_lines}\n\nThe rest is in the summary of the job.\n"
    repository = os.environ.get("GITHUB_REPOSITORY", "{owner}/{repo}")  # gh fills in the checkout's own
    comments = f"repos/{repository}/issues/{number}/comments"
    ours = f'.[] | select(.user.type == "Bot" and (.body | startswith({json.dumps(_marker(results))}))) | .id'
    place = ("POST", comments)
    if earlier := _gh("--paginate", comments, "--jq", ours).split():
        place = ("PATCH", f"repos/{repository}/issues/comments/{earlier[0]}")
    _gh("--method", *place, "--raw-field", f"body={markdown}")


def _gh(*arguments: str) -> str:
    remedy = "give the job `permissions: pull-requests: write`; a pull request from a fork never has it"
    return _run("gh", ("api", *arguments), remedy)


def _read_event() -> dict[str, Any]:
    """What GitHub tells about the event that started this; nothing outside GitHub."""
    path = os.environ.get("GITHUB_EVENT_PATH")
    return json.loads(Path(path).read_text(encoding="utf-8")) if path else {}


if __name__ == "__main__":
    sys.exit(main())

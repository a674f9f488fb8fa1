"""README, CONTRIBUTING and docs/: what they name, in the form that tests check."""

import ast
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[2]
PAGES = tuple(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
)
"""Paths from the checkout's root."""

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED_FILE = re.compile(r"^`([^`\n]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"(?:\.venv/bin/)?(make|python -m bench)(?![\w.-])")


@dataclass(frozen=True)
class Command:
    """A command line that a page shows.

    Args:
        words: as a shell splits them, its comment left out.
        line: as it stands on the page, for messages.
    """

    words: tuple[str, ...]
    line: str

    @property
    def target(self) -> str | None:
        """What is made; None unless `make` runs."""
        if self.words[0] != "make":
            return None
        return next((word for word in self.words[1:] if "=" not in word), "help")

    @property
    def variables(self) -> dict[str, str]:
        """What `make` gets, by name."""
        return dict(word.split("=", 1) for word in self.words[1:] if re.match(r"[A-Z_]+=", word))


def text_of(page: str) -> str:
    """The page as it is committed."""
    return (ROOT / page).read_text(encoding="utf-8")


def files_shown(page: str) -> dict[str, str]:
    """The files that the page shows whole, each a path in backticks and a colon above a fenced block."""
    return dict(_NAMED_FILE.findall(text_of(page)))


def links(page: str) -> list[tuple[Path, str]]:
    """Where the page's relative links lead: to which file, and where in it."""
    targets = [target for target in _LINK.findall(text_of(page)) if not re.match(r"\w+:|#", target)]
    parts = [unquote(target).partition("#") for target in targets]
    return [((ROOT / page).parent / path, anchor) for path, _, anchor in parts]


def code_spans(page: str) -> list[str]:
    """What stands in backticks within the page's prose, on one line each."""
    prose = _FENCED.sub("", text_of(page))
    return [" ".join(span.split()) for span in _INLINE.findall(prose)]


def commands(page: str) -> list[Command]:
    """Every line that calls `make` or `python -m bench`, in fenced blocks and in prose."""
    blocks = [body for kind, body in _FENCED.findall(text_of(page)) if not kind]
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    shown = [line.strip() for line in (*lines, *code_spans(page))]
    return [Command(tuple(shlex.split(line, comments=True)), line) for line in shown if _COMMAND.match(line)]


def defines(path: Path, dotted: str) -> bool:
    """Whether a Python file defines a function, class, method or constant, such as `Rank.block`."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    *classes, last = dotted.split(".")
    for name in classes:
        body = next((n.body for n in body if isinstance(n, ast.ClassDef) and n.name == name), [])
    return any(last in _names(node) for node in body)


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []

"""reports/index.md: the answer of every machine, a line each, which leads to the machine's own page."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from bench.report.answer_words import QUESTION, AnswerWords
from bench.report.markdown import escaped


@dataclass(frozen=True, kw_only=True)
class MachineLine:
    """What is said of a machine.

    Attributes:
        folder: of its page.
        name: what it is called.
        answers: of its settings, that with most models first; it may have none.
    """

    folder: str
    name: str
    answers: Sequence[AnswerWords]

    @property
    def line(self) -> str:
        """Its entry in the list."""
        name, said = self.name, "nothing that answers this was measured here."
        if self.answers:
            name, said = self.answers[0].setting, self.answers[0].short
        return f"- [{escaped(name)}]({quote(self.folder)}/index.md): {escaped(said)}"


def render_machines_page(machines: Sequence[MachineLine], *, has_predictions: bool) -> str:
    """The page in Markdown."""
    lines = [f"# {QUESTION}", "", *(one.line for one in machines), ""]
    lines += ["[The same comparison on several machines, and how far these lie apart](machines.md)", ""]
    if has_predictions:
        lines += ["[Many GPUs: what is predicted, and how far predictions were off](scale.md)", ""]
    lines += [
        "Rebuilt from `results/` alone by `make report`, which also makes a page with sortable tables.",
    ]
    return "\n".join([*lines, ""])

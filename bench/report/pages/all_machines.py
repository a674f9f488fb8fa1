"""reports/index.md: the answer of every machine, a line each, which leads to the machine's own page."""

from collections.abc import Sequence
from urllib.parse import quote

from bench.report.answer_words import QUESTION, AnswerWords
from bench.report.render.markdown import escaped


def machine_line(folder: str, name: str, answers: Sequence[AnswerWords]) -> str:
    """The entry of a machine in the list.

    Args:
        folder: of its page.
        name: what it is called.
        answers: of its settings, that with most models first; it may have none.
    """
    said = "nothing that answers this was measured here."
    if answers:
        name, said = answers[0].setting, answers[0].short
    return f"- [{escaped(name)}]({quote(folder)}/index.md): {escaped(said)}"


def render_machines_page(entries: Sequence[str], *, has_predictions: bool) -> str:
    """The page in Markdown."""
    lines = [f"# {QUESTION}", "", *entries, ""]
    lines += ["[The same comparison on several machines, and how far these lie apart](machines.md)", ""]
    if has_predictions:
        lines += ["[Many GPUs: what is predicted, and how far predictions were off](scale.md)", ""]
    lines += ["Rebuilt from `results/` alone by `make report`, which also makes a page with sortable tables."]
    return "\n".join([*lines, ""])

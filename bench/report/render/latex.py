"""LaTeX: foreign text made harmless, and tables for the package booktabs."""

from collections.abc import Collection, Sequence

from bench.report.words.formatting import one_line

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
    "\N{EN DASH}": "--",
    "\N{MINUS SIGN}": "$-$",
    "\N{PLUS-MINUS SIGN}": r"$\pm$",
}
"""What LaTeX would take for a command, and signs that fonts of old compilers lack."""


def escaped(text: str) -> str:
    """Foreign text for LaTeX: shown as it is, never interpreted."""
    return "".join(_SPECIAL.get(sign, sign) for sign in one_line(text))


def render_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, text: Collection[str], caption: str
) -> str:
    """A whole table.

    Args:
        headers: the names of the columns.
        rows: as many cells each; none of it is LaTeX yet.
        text: the columns that are aligned to the left; all others hold numbers.
        caption: below it.
    """
    columns = "".join("l" if name in text else "r" for name in headers)
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            rf"  \begin{{tabular}}{{{columns}}}",
            r"    \toprule",
            _line(headers),
            r"    \midrule",
            *map(_line, rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            rf"  \caption{{{escaped(caption)}}}",
            r"\end{table}",
            "",
        ]
    )


def _line(cells: Sequence[str]) -> str:
    return f"    {' & '.join(map(_cell, cells))} " + r"\\"


def _cell(text: str) -> str:
    """A cell; one that begins with a bracket would be taken for an option of the line break before it."""
    words = escaped(text)
    return f"{{}}{words}" if words.startswith(("[", "*")) else words

"""The doctor's findings as a table for the terminal."""

import textwrap
from collections.abc import Sequence

from bench.doctor.judge import Finding

COLOURS = {"ok": "32", "poor": "33", "broken": "31"}
"""Of ANSI terminals: green, yellow, red."""


def render(findings: Sequence[Finding], *, width: int, coloured: bool) -> str:
    """Return the findings as a table of at most `width` columns; a remedy stands below its finding.

    rich is not used: nothing may be installed yet.
    """
    indent = max(len(finding.what) for finding in findings) + 10
    lines = []
    for finding in findings:
        state = (
            f"\x1b[{COLOURS[finding.state]}m{finding.state:6}\x1b[0m" if coloured else f"{finding.state:6}"
        )
        head = f"{finding.what:{indent - 10}}  {state}  "
        sentences = [finding.detail, *([f"→ {finding.remedy}"] if finding.remedy else [])]
        text = [line for sentence in sentences for line in textwrap.wrap(sentence, max(20, width - indent))]
        lines += [head + text[0], *(" " * indent + line for line in text[1:])]
    return "\n".join(lines)

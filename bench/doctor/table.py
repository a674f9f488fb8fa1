"""The doctor's diagnoses as a table for the terminal."""

import textwrap
from collections.abc import Sequence

from bench.doctor.judge import Diagnosis

COLOURS = {"ok": "32", "poor": "33", "broken": "31"}
"""Green, yellow and red of ANSI terminals."""


def render(diagnoses: Sequence[Diagnosis], *, width: int, coloured: bool) -> str:
    """Return the diagnoses as a table of at most `width` columns; a remedy stands below its diagnosis.

    rich is not used: nothing may be installed yet.
    """
    widest = max(len(diagnosis.part) for diagnosis in diagnoses)
    indent = widest + 10
    lines = []
    for diagnosis in diagnoses:
        state = f"{diagnosis.state:6}"
        if coloured:
            state = f"\x1b[{COLOURS[diagnosis.state]}m{state}\x1b[0m"
        sentences = [diagnosis.detail, *([f"→ {diagnosis.remedy}"] if diagnosis.remedy else [])]
        text = [line for sentence in sentences for line in textwrap.wrap(sentence, max(20, width - indent))]
        lines.append(f"{diagnosis.part:{widest}}  {state}  {text[0]}")
        lines += [" " * indent + line for line in text[1:]]
    return "\n".join(lines)

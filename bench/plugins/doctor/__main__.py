"""What would run on this machine, what would not, and how to repair it; nothing need be installed here."""

import shutil
import sys
import textwrap
from collections.abc import Sequence

from bench.closing import command_parser, print_closing, run_command
from bench.plugins.doctor.judge import Diagnosis, judge
from bench.plugins.doctor.probe import examine
from bench.setup import stacks
from bench.setup.checkout import ROOT


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the diagnoses; return 1 if something is broken that the stack needs."""
    parser = command_parser("bench.plugins.doctor", "What would run on this machine?")
    parser.add_argument("--stack", choices=stacks.NAMES, default=stacks.own())
    stack = parser.parse_args(arguments).stack
    return run_command(lambda: _run(stack), "interrupted.")


def _run(stack: str) -> int:
    diagnoses = judge(examine(stack))
    states = [diagnosis.state for diagnosis in diagnoses]
    broken, poor = states.count("broken"), states.count("poor")
    state = f"{broken} broken, {poor} poor" if broken or poor else "all is well"
    other_stack = f" STACK={stack}" if stack != stacks.NAMES[0] else ""
    print_closing(
        f"{stack} stack at {ROOT}: {state}.",
        table=_table(diagnoses),
        next_command=f"make {'doctor' if broken else 'bench'}{other_stack}",
        purpose="after what is broken is repaired as the arrows say" if broken else "",
    )
    return int(broken > 0)


def _table(diagnoses: Sequence[Diagnosis]) -> str:
    """A table as wide as the terminal, each remedy below its diagnosis; rich may not be installed yet."""
    widest = max(len(diagnosis.part) for diagnosis in diagnoses)
    indent = widest + 10
    width = max(20, shutil.get_terminal_size().columns - indent)
    lines = []
    for diagnosis in diagnoses:
        sentences = [diagnosis.detail, *([f"→ {diagnosis.remedy}"] if diagnosis.remedy else [])]
        text = [line for sentence in sentences for line in textwrap.wrap(sentence, width)]
        lines.append(f"{diagnosis.part:{widest}}  {diagnosis.state:6}  {text[0]}")
        lines += [" " * indent + line for line in text[1:]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

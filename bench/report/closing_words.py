"""What is printed of a comparison that was measured: the answer, the table, why, files, what to type next."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill

from rich.console import Console

from bench.analysis.answer import FASTER, INCONCLUSIVE, ONE_LAUNCH, SAME, SLOWER, Outcome, find_outcome
from bench.analysis.comparison_results import ComparisonResults
from bench.closing import WIDTH, print_closing, this_python
from bench.config.differences import overrides_of
from bench.config.naming import command_with
from bench.config.schema import Config
from bench.errors import PASSED
from bench.report.content.collection import ReportedComparison
from bench.report.content.notes import group_notes
from bench.report.content.study_commands import suggest_figure
from bench.report.pages.comparison import render_terminal
from bench.report.words.formatting import TIMES, as_sentence, short_ratio
from bench.results.validity import OTHER_PROCESSES
from bench.setup import stacks
from bench.statistics.table_values import count_launches
from bench.study import find_studies, from_parts

FEWEST_LAUNCHES = 4
"""The launches of measure=default. Fewer make a wide interval: Student's t is 3.2 with 4, 12.7 with 2."""


def _outcomes(comparison: ComparisonResults) -> list[tuple[str, Outcome]]:
    names = [summary.backend for summary in comparison.others]
    return [(name, outcome) for name in names if (outcome := find_outcome(comparison, name))]


def answer_of(comparison: ComparisonResults) -> str:
    """One sentence: which backends are faster than the reference, which are not."""
    base = comparison.base
    if base is None or base.status not in PASSED:
        status = "was not measured" if base is None else f"has no result ({base.status})"
        return f"Nothing was compared, since {comparison.reference}, the reference, {status}."
    if base.status == "untimed":
        return _answer_about_parity(comparison)
    outcomes, reference = _outcomes(comparison), comparison.reference
    kinds = (
        (FASTER, f"faster than {reference}"),
        (SAME, f"as fast as {reference}"),
        (SLOWER, f"slower than {reference}"),
        (INCONCLUSIVE, f"inconclusive against {reference}"),
        (ONE_LAUNCH, f"without a verdict against {reference}, since there was one launch"),
    )
    parts = []
    for verdict, words in kinds:
        backends = [
            f"{name} {short_ratio(outcome.speedup.ratio)}{TIMES} {outcome.speedup.interval}"
            for name, outcome in outcomes
            if outcome.verdict == verdict and outcome.speedup
        ]
        parts += [f"{words}: {', '.join(backends)}"] * bool(backends)
    failed = [f"{name} ({outcome.verdict})" for name, outcome in outcomes if outcome.failed]
    parts += [f"without a result: {', '.join(failed)}"] * bool(failed)
    return as_sentence("; ".join(parts) or f"nothing was compared with {reference}")


def whole_answer(comparison: ReportedComparison) -> str:
    """Which backends are faster, and what studies answer."""
    return " ".join([answer_of(comparison), *from_parts("section", "make_answer", comparison)])


def _answer_about_parity(comparison: ComparisonResults) -> str:
    """Which backends train like the reference, where only parity was asked for."""
    alike = [each.backend for each in comparison.others if each.status in PASSED]
    others = [f"{each.backend} ({each.status})" for each in comparison.others if each.status not in PASSED]
    parts = [f"trains like {comparison.reference}: {', '.join(alike)}"] if alike else []
    parts += [f"does not: {', '.join(others)}"] if others else []
    return f"Nothing was timed; {'; '.join(parts) or f'{comparison.reference} trains'}."


def print_verdict(comparison: ReportedComparison) -> None:
    """Print the answer and the table."""
    console = Console(width=WIDTH)
    with console.capture() as table:
        console.print(render_terminal(comparison))
    print_closing(whole_answer(comparison), table=table.get())


def print_rest(
    comparison: ReportedComparison, files: Sequence[Path], config: Config, *, interrupted: bool
) -> None:
    """Print what studies say of the comparison, the files, results first, and the next command."""
    command, purpose = suggest(comparison, files[0], config, interrupted=interrupted)
    for line in group_notes(from_parts("section", "make_closing", comparison)):
        print(fill(line, WIDTH, subsequent_indent="  "))
    print_closing("", files=files, next_command=command, purpose=purpose)


def suggest(
    comparison: ReportedComparison, results: Path, config: Config, *, interrupted: bool = False
) -> tuple[str, str]:
    """The command to type next, and its purpose; `interrupted`: the work after the verdict was."""
    failed = {summary.status for summary in comparison.summaries} - {*PASSED}
    spoiled = bool(failed) and OTHER_PROCESSES in set(comparison.rows["invalid_because"])
    verdicts = {outcome.verdict for _, outcome in _outcomes(comparison)}
    if spoiled or verdicts & {INCONCLUSIVE, ONE_LAUNCH}:
        made = count_launches(comparison.rows)
        more = max(FEWEST_LAUNCHES, (3 if spoiled else 2) * made)
        command = _resume(replace(config, measure=replace(config.measure, launches=more)))
        if spoiled:
            return command, "first end the other processes; then this adds launches"
        return command, "adds launches, to decide what is inconclusive"
    if any(summary.speedup for summary in comparison.others):
        for study in find_studies().values():
            if study.adds and (interrupted or not study.is_wanted(config)):
                purpose, ask = study.adds
                return _resume(ask(config)), purpose
        return suggest_figure(results), "draw it"
    return "", ""


def _resume(config: Config) -> str:
    line = command_with(overrides_of(replace(config, resume=True), places=True), stacks.own())
    return re.sub("^python ", f"{this_python()} ", line)

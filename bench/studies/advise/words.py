"""What `make advise` prints: a sentence, what fits and what does not, and the next command."""

import shlex
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from bench.closing import WIDTH, print_closing, this_python
from bench.config.differences import overrides_of
from bench.config.naming import command_with
from bench.config.schema import Config
from bench.report.content.backend_columns import TERMINAL, backend_table, rows_of
from bench.report.content.collection import ReportedComparison
from bench.report.content.notes import backend_notes
from bench.report.render.terminal import render_table
from bench.report.words.describe import short_machine
from bench.report.words.formatting import enumerated, number
from bench.setup import stacks
from bench.statistics.summary import BackendSummary
from bench.studies.advise.fitting import with_backends


def print_advice(comparisons: Sequence[ReportedComparison], config: Config) -> int:
    """Print what was found, the last comparison being the one that counts; the exit status."""
    results = comparisons[-1]
    fitting = sorted(
        (each for each in results.summaries if each.status == "ok"),
        key=lambda summary: -(summary.samples_per_s or 0.0),
    )
    command, purpose = next_command(fitting, results, config)
    print_closing(
        answer(fitting, results, config),
        table=table(fitting, comparisons),
        files=[each.path for each in comparisons[::-1] if each.path],
        next_command=command,
        purpose=purpose,
    )
    return 0 if fitting else 1


def answer(fitting: Sequence[BackendSummary], results: ReportedComparison, config: Config) -> str:
    """One sentence: what trains fastest within the limit, and what may be as fast."""
    within = f"within {config.device.memory_limit_gib:g} GiB"
    if not fitting:
        spoiled = any(summary.status == "invalid" for summary in results.summaries)
        begin = "No valid measurement says what trains" if spoiled else "Nothing that was tried trains"
        return f"{begin} {results.label} {within} on {short_machine(results.rows)}."
    best = fitting[0]
    rate = f"{number(best.samples_per_s)} samples/s on {short_machine(results.rows)}"
    head = f"{results.label} trains fastest {within} with {best.backend}: {rate}"
    close = as_fast(fitting, results)
    return (
        f"{head}; {enumerated(close)} may be as fast, as far as the intervals tell." if close else f"{head}."
    )


def as_fast(fitting: Sequence[BackendSummary], results: ReportedComparison) -> list[str]:
    """The backends whose interval over the fastest does not show them to be slower."""
    best, *others = (summary.backend for summary in fitting)
    ratios = {name: results.speedup_between(name, best) for name in others}
    return [name for name, ratio in ratios.items() if ratio is None or ratio.high is None or ratio.high >= 1]


def table(fitting: Sequence[BackendSummary], comparisons: Sequence[ReportedComparison]) -> str:
    """What fits, the fastest first, and below it why each of the others does not, in any comparison."""
    results = comparisons[-1]
    of_summary = {row.summary.backend: row for row in rows_of([results])}
    failed = [
        summary
        for one in comparisons
        for summary in one.summaries
        if summary.status not in ("ok", "skipped") or (one is results and summary.status != "ok")
    ]
    notes = [f"{name}: {note}" for name, note in backend_notes(failed)]
    if not fitting:
        return "\n".join(notes)
    over = f"speed-ups are over {results.reference}"
    rows = [of_summary[summary.backend] for summary in fitting]
    console = Console(width=WIDTH)
    with console.capture() as printed:
        console.print(render_table("", backend_table(TERMINAL, rows), [over, *notes]))
    return printed.get()


def next_command(
    fitting: Sequence[BackendSummary], results: ReportedComparison, config: Config
) -> tuple[str, str]:
    """The command to type next, and its purpose; both empty where there is none."""
    if fitting and (close := as_fast(fitting, results)):
        again = with_backends([fitting[0].backend, *close], config)
        more = replace(again, measure=replace(again.measure, launches=2 * config.measure.launches))
        return command_with(overrides_of(more), stacks.own()), "measures the fastest in more launches"
    half = config.micro_batch // 2
    in_parts = all(half % each.accumulate == 0 for each in config.backends.values())
    if (
        fitting
        or not half
        or not in_parts
        or {each.status for each in results.summaries} - {"oom", "skipped"}
    ):
        return "", ""
    fewer = replace(config, micro_batch=half, grad_accum=2 * config.grad_accum)
    command = shlex.join([this_python(), "-m", "bench.studies.advise", *overrides_of(fewer)])
    return command, "trains half as many samples at once"

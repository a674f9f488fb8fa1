"""What `make advise` prints: a sentence, what fits and what does not."""

from collections.abc import Sequence

from rich.console import Console

from bench.closing import WIDTH, print_closing
from bench.config.schema import Config
from bench.report.content.backend_columns import backend_table, rows_of
from bench.report.content.collection import ReportedComparison
from bench.report.content.notes import backend_notes
from bench.report.render.terminal import render_table
from bench.report.words.describe import short_machine
from bench.report.words.formatting import enumerated, number
from bench.statistics.summary import BackendSummary


def print_advice(comparisons: Sequence[ReportedComparison], config: Config) -> int:
    """Print what was found, the last comparison being the one that counts; the exit status."""
    results = comparisons[-1]
    fitting = sorted(
        (each for each in results.summaries if each.status == "ok"),
        key=lambda summary: -(summary.samples_per_s or 0.0),
    )
    print_closing(
        answer(fitting, results, config),
        table=table(fitting, comparisons),
        files=[each.path for each in comparisons[::-1] if each.path],
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
    ratios = {each.backend: results.speedup_between(each.backend, best.backend) for each in fitting[1:]}
    # whose interval does not show them to be slower
    close = [name for name, ratio in ratios.items() if not (ratio and ratio.high) or ratio.high >= 1]
    return (
        f"{head}; {enumerated(close)} may be as fast, as far as the intervals tell." if close else f"{head}."
    )


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
        console.print(render_table(backend_table(rows, in_terminal=True), [over, *notes]))
    return printed.get()

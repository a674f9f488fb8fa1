"""What went wrong: a row and a line on the terminal at once, and a list for the end of the comparison."""

from dataclasses import dataclass
from pathlib import Path

from bench.errors import PASSED, LaunchFailed
from bench.launch.messages import FROZEN
from bench.measure.plan.plans import PARITY, Launch
from bench.measure.record.ledger import Ledger
from bench.measure.record.progress import ProgressBar
from bench.statistics.summary import summarise

MOST_LINES, LONGEST_LINE = 6, 160
"""How many and how long lines of a log the terminal shows; all of it lies in the run's folder."""


@dataclass
class Failures:
    """Records and lists failures."""

    ledger: Ledger
    launches: int  # requested timed launches, for messages
    bar: ProgressBar  # prints lines

    def record(self, name: str, launch: Launch, failure: LaunchFailed, log_tail: str) -> None:
        """Put the failure of a backend's launch into the results file, and show it."""
        failure = self._naming_the_export(name, launch, failure)
        self.ledger.fail(name, launch, failure, log_tail=log_tail)
        self.bar.print_line(f"{name}, {launch.label(self.launches)}: {failure.status}: {failure.message}")
        lines = [line.rstrip() for line in (failure.details or log_tail).splitlines() if line.strip()]
        for line in lines[-MOST_LINES:]:
            self.bar.print_line(f"    | {line[:LONGEST_LINE]}")
        self.ledger.write()

    def _naming_the_export(self, name: str, launch: Launch, failure: LaunchFailed) -> LaunchFailed:
        """Add what the exporter warned of, or that what only later steps show may be due to the export."""
        places = self.ledger.templates[name].proof.get("engine", {}).get(FROZEN)
        if failure.status != "diverged" or places is None:
            return failure
        cause = ""
        if places:
            more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
            cause = f"; ONNX's export froze {places[0]}{more}"
        elif launch != PARITY:
            cause = "; ONNX's export may have frozen what Python keeps or decides"
        return LaunchFailed(failure.status, failure.message + cause, failure.details)

    def failure_lines(self) -> list[str]:
        """A line for each launch that was not ok, and a line for all backends with too few valid blocks."""
        rows, output = self.ledger.rows(), self.ledger.output
        failed = rows[rows["round"].isna() & ~rows["status"].isin(PASSED)]
        lines = []
        for row in failed.itertuples():
            launch = self.ledger.launch_of(row.backend, int(row.launch))
            log = output.log_of(row.backend, launch)
            if log is not None and log.is_relative_to(Path.cwd()):
                log = log.relative_to(Path.cwd())
            lines.append(
                f"{row.backend}, {launch.label(self.launches)}: {row.status}: {row.message}"
                + (f" (log: {log})" if log is not None else "")
            )
        invalid = [summary.backend for summary in summarise(rows) if summary.status == "invalid"]
        if invalid:
            lines.append(f"invalid, and therefore not compared: {', '.join(invalid)}")
        return lines

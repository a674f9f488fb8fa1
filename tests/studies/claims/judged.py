"""Published claims judged by results that nobody measured."""

from typing import Any

from bench.report.content.collection import ReportedComparison
from bench.results.records import Record
from bench.studies.claims.judge import JudgedClaim, judge_claims
from tests.support.factories import MIB, block, comparison, record, workload
from tests.support.result_files import table_of_records


def of(*tables: list[Record]) -> list[ReportedComparison]:
    return [
        ReportedComparison(stem=f"c{number}", rows=table_of_records(records))
        for number, records in enumerate(tables)
    ]


def verdicts(*tables: list[Record]) -> dict[str, str]:
    return {finding.claim.id: finding.verdict for finding in judge_claims(of(*tables))}


def finding(claim: str, *tables: list[Record]) -> JudgedClaim:
    return next(one for one in judge_claims(of(*tables)) if one.claim.id == claim)


def ort(ratio: float, backend: str = "ortmodule", spread: float = 0.001, **changes: Any) -> list[Record]:
    """Three launches in which `backend` is so many times as fast as pytorch."""
    return comparison(
        {
            "pytorch": [[2.0], [2.0], [2.0]],
            backend: [[2.0 / ratio * (1 + step * spread)] for step in (-1, 0, 1)],
        },
        **changes,
    )


def launches_of(backend: str, seconds: float, peak_mib: int, **choice: Any) -> list[Record]:
    """Four launches of a backend with this peak of memory and these choices."""
    peak = (peak_mib * MIB, peak_mib * MIB)
    early = 1.002 if backend == "pytorch" else 0.998  # so that the ratio has an interval
    return [
        record(
            backend,
            launch=launch,
            workload=workload(**choice),
            blocks=(block(seconds=seconds * spread, host_peak_bytes=peak),),
        )
        for launch, spread in enumerate((1.0, early, 2 - early, 1.0), 1)
    ]

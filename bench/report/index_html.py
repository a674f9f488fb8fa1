"""reports/index.html: everything in one file that works offline."""

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bench.analysis import reference
from bench.report import definitions, describe, formatting
from bench.report.claim_words import evidence_lines
from bench.report.collection import ReportedComparison
from bench.report.index_columns import Column, Line, lines_of, shown_columns
from bench.report.index_contents import Contents, caption, dark_of
from bench.report.means import geometric_means
from bench.results.environment_cell import latest_environment
from bench.results.table_values import distinct_text

TEMPLATE = "index.html.j2"


def render_html(contents: Contents) -> str:
    """The page as HTML; the template escapes everything that comes from a file."""
    collection = contents.collection
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    tables = [_table(heading, comparisons) for heading, comparisons in collection.panels.items()]
    lines = lines_of(collection.controlled)
    return environment.get_template(TEMPLATE).render(
        of_models=[(_figure(path), _figure(dark_of(path))) for path in contents.of_models],
        figures=[_figure(path) for path in contents.figures],
        not_drawn=contents.not_drawn,
        tables=tables,
        rows=sum(len(one["rows"]) for one in tables),
        verdicts=_choices(lines, lambda line: line.summary.verdict or ""),
        statuses=_choices(lines, lambda line: line.summary.status),
        devices=list(collection.panels),
        means=[(heading, geometric_means(shown)) for heading, shown in collection.panels.items()],
        comparisons=[_comparison(one, contents.warned[one.stem]) for one in collection.comparisons],
        left_alone=definitions.LEFT_ALONE,
        about_claims=definitions.ABOUT_CLAIMS,
        findings=[(finding, evidence_lines(finding)) for finding in contents.findings],
        published=[
            (one, reference.FLAGS.get(one.flag, one.flag), formatting.ratio(one.ratio))
            for one in reference.published_speedups()
        ],
        definitions=definitions.DEFINITIONS,
        refused=collection.refused,
        ratio=formatting.ratio,
        missing=formatting.MISSING,
    )


def _figure(path: Path) -> dict[str, str]:
    """A picture as a data URI: in an element of its own, nothing in it reaches the page."""
    encoded = base64.b64encode(path.read_bytes()).decode()
    return {
        "name": path.stem,
        "title": caption(path.stem),
        "uri": f"data:image/svg+xml;base64,{encoded}",
    }


def _table(heading: str, comparisons: Sequence[ReportedComparison]) -> dict[str, Any]:
    """Comparisons whose numbers may stand below each other, and what they have in common."""
    lines = lines_of(comparisons)
    columns = shown_columns(lines)
    return {
        "caption": heading,
        "columns": [{"name": column.name, "numeric": column.is_numeric} for column in columns],
        "rows": [_row(line, columns, heading) for line in lines],
    }


def _row(line: Line, columns: Sequence[Column], heading: str) -> dict[str, Any]:
    return {
        "stem": line.comparison.stem,
        "backend": formatting.one_line(line.summary.backend),
        "device": heading,
        "verdict": line.summary.verdict or "",
        "status": line.summary.status,
        "message": line.summary.message,
        "cells": [
            {
                "text": column.cell(line),
                "key": None if column.key is None else _sorting_key(column.key(line)),
            }
            for column in columns
        ],
    }


def _sorting_key(value: float | None) -> str:
    """A number as text; blank, and so last, where there is none."""
    return "" if value is None else repr(float(value))


def _choices(lines: Sequence[Line], value: Callable[[Line], str]) -> list[str]:
    """The values that a filter offers, sorted."""
    return sorted({value(line) for line in lines} - {""})


def _comparison(comparison: ReportedComparison, warnings: Sequence[str]) -> dict[str, Any]:
    rows = comparison.rows
    environment = latest_environment(rows)
    return {
        "stem": comparison.stem,
        "model": comparison.model,
        "workload": describe.workload(rows),
        "hardware": comparison.hardware,
        "versions": describe.versions(rows),
        "extent": describe.extent(rows),
        "command": comparison.command,
        "warnings": warnings,
        "uncontrolled": comparison.uncontrolled,
        "config_hash": distinct_text(rows, "config_hash"),
        "environment_hash": distinct_text(rows, "environment_hash"),
        "environment": json.dumps(environment, indent=1, sort_keys=True, ensure_ascii=False),
    }

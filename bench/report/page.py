"""reports/index.html: everything in one file that works offline."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bench.analysis import reference
from bench.report import lines, overview, text
from bench.report.collection import Comparison
from bench.report.lines import Line
from bench.report.overview import Contents
from bench.results.environment_cell import latest_environment

TEMPLATE = "page.html.j2"


def html(contents: Contents) -> str:
    """The page; everything that comes from a file is escaped by the template."""
    collection = contents.collection
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    tables = [_table(heading, chosen) for heading, chosen in collection.panels.items()]
    found = lines.lines(collection.controlled)
    return environment.get_template(TEMPLATE).render(
        figures=[_figure(path) for path in contents.figures],
        not_drawn=contents.not_drawn,
        tables=tables,
        rows=sum(len(one["rows"]) for one in tables),
        verdicts=_choices(found, lambda line: line.summary.verdict or ""),
        statuses=_choices(found, lambda line: line.summary.status),
        devices=list(collection.panels),
        means=[(heading, lines.means(shown)) for heading, shown in collection.panels.items()],
        comparisons=[_comparison(one, contents.warned[one.stem]) for one in collection.comparisons],
        left_alone=text.LEFT_ALONE,
        claims_note=overview.CLAIMS,
        findings=contents.findings,
        published=[
            (one, reference.FLAGS.get(one.flag, one.flag), text.ratio(one.ratio))
            for one in reference.speedups()
        ],
        definitions=overview.DEFINITIONS,
        refused=collection.refused,
        ratio=text.ratio,
        missing=text.MISSING,
    )


def _figure(path: Path) -> dict[str, str]:
    """A picture as a data URI: in an element of its own, nothing in it reaches the page."""
    encoded = base64.b64encode(path.read_bytes()).decode()
    return {
        "name": path.stem,
        "title": overview.caption(path.stem),
        "uri": f"data:image/svg+xml;base64,{encoded}",
    }


def _table(heading: str, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Comparisons whose figures may stand below each other, and what they have in common."""
    found = lines.lines(comparisons)
    columns = lines.shown_columns(found)
    return {
        "caption": heading,
        "columns": [{"name": one.name, "numeric": one.key is not None} for one in columns],
        "rows": [_row(line, columns) for line in found],
    }


def _row(line: Line, columns: Sequence[lines.Column]) -> dict[str, Any]:
    return {
        "stem": line.comparison.stem,
        "backend": text.one_line(line.summary.backend),
        "device": line.comparison.panel,
        "verdict": line.summary.verdict or "",
        "status": line.summary.status,
        "message": line.summary.message,
        "cells": [
            {"text": one.cell(line), "key": _key(one.key(line)) if one.key else None} for one in columns
        ],
    }


def _key(value: float | None) -> str:
    """A figure's text for sorting; what has none goes last."""
    return "" if value is None else repr(float(value))


def _choices(found: Sequence[Line], value: Any) -> list[str]:
    return sorted({value(line) for line in found} - {""})


def _comparison(one: Comparison, warnings: Sequence[str]) -> dict[str, Any]:
    rows = one.rows
    return {
        "stem": one.stem,
        "model": one.model,
        "workload": text.workload(rows),
        "hardware": one.hardware,
        "versions": text.versions(rows),
        "extent": text.extent(rows),
        "command": one.command,
        "warnings": warnings,
        "uncontrolled": one.uncontrolled,
        "config_hash": text.distinct(rows, "config_hash"),
        "environment_hash": text.distinct(rows, "environment_hash"),
        "environment": json.dumps(latest_environment(rows), indent=1, sort_keys=True, ensure_ascii=False),
    }

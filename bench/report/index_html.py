"""index.html of a machine: the answer, a figure, a row for each model, all else folded; one file, offline."""

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bench.analysis import reference
from bench.analysis.table_values import distinct_text
from bench.report import definitions, describe, formatting
from bench.report.answer_words import QUESTION
from bench.report.claim_words import evidence_lines, verdict_words
from bench.report.collection import ReportedComparison
from bench.report.division_words import Division
from bench.report.index_columns import Column, Line, lines_of, shown_columns
from bench.report.index_contents import Contents, ReportFigure
from bench.report.index_models import ModelTable
from bench.report.means import geometric_means
from bench.results.environment_cell import latest_environment

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
        question=QUESTION,
        machine_name=contents.machine,
        machines=[
            {
                "answer": machine.answer,
                "figures": _figures(machine.figures),
                "table": _model_table(machine.table),
            }
            for machine in contents.machines
        ],
        no_answer=definitions.NO_ANSWER,
        fallback_figures=_figures(contents.fallback_figures),
        about_models=definitions.ABOUT_MODELS,
        about_time=_figures(contents.about_time),
        figures=_figures(contents.further_figures),
        not_drawn=contents.not_drawn,
        tables=tables,
        rows=sum(len(one["rows"]) for one in tables),
        verdicts=_choices(lines, lambda line: line.summary.verdict or ""),
        statuses=_choices(lines, lambda line: line.summary.status),
        devices=list(collection.panels),
        means=[(heading, geometric_means(shown)) for heading, shown in collection.panels.items()],
        divisions=[
            (division.heading, division.anchor, _divided(division, contents), _figures(figures))
            for division, figures in contents.divisions
        ],
        comparisons=[_comparison(one) for one in collection.comparisons],
        heading_of_all=contents.heading_of_all,
        left_alone=definitions.LEFT_ALONE,
        about_claims=definitions.ABOUT_CLAIMS,
        findings=[
            (finding, verdict_words(finding), evidence_lines(finding)) for finding in contents.findings
        ],
        published=[
            (one, reference.FLAGS.get(one.flag, one.flag), formatting.ratio(one.ratio))
            for one in reference.published_speedups()
        ],
        definitions=definitions.DEFINITIONS,
        refused=collection.refused,
        other_pages=contents.other_pages,
        plural=formatting.plural,
        ratio=formatting.ratio,
        ratio_and_interval=formatting.ratio_and_interval,
        missing=formatting.MISSING,
    )


def _figures(figures: Sequence[ReportFigure]) -> list[dict[str, str]]:
    """Pictures as data URIs: in an element of its own, nothing in a picture reaches the page."""
    return [
        {
            "name": one.path.stem,
            "title": one.caption,
            "uri": _data_uri(one.path),
        }
        for one in figures
    ]


def _data_uri(path: Path) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode()}"


def _model_table(table: ModelTable) -> dict[str, Any]:
    return {
        "heading": table.heading,
        "headers": table.headers,
        "rows": [
            {"name": row.name, "anchor": row.comparison.anchor, "cells": row.cells} for row in table.rows
        ],
    }


def _divided(division: Division, contents: Contents) -> list[tuple[str, Any, str]]:
    """What was divided, into which parts, and how many warnings there are."""
    return [
        (one.words, one.parts, formatting.plural(count, "warning") if count else "")
        for one in division.divided
        for count in [contents.warnings_about(one.comparisons)]
    ]


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
        "title": line.comparison.title,
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


def _comparison(comparison: ReportedComparison) -> dict[str, Any]:
    rows = comparison.rows
    environment = latest_environment(rows)
    return {
        "anchor": comparison.anchor,
        "title": comparison.title,
        "file": f"{comparison.study}/{comparison.stem}.csv",
        "workload": describe.workload(rows),
        "hardware": comparison.hardware,
        "versions": describe.versions(rows),
        "extent": describe.extent(rows),
        "command": comparison.command,
        "explanation": comparison.explanation,
        "warnings": [str(warning) for warning in comparison.warnings],
        "uncontrolled": comparison.uncontrolled,
        "config_hash": distinct_text(rows, "config_hash"),
        "environment_hash": distinct_text(rows, "environment_hash"),
        "environment": json.dumps(environment, indent=1, sort_keys=True, ensure_ascii=False),
    }

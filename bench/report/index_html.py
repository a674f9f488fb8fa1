"""index.html of a machine: the answer, a figure, a row for each model, all else folded; one file, offline."""

import base64
import json
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bench.analysis import reference
from bench.analysis.table_values import distinct_text
from bench.report.content import claims as claim_words
from bench.report.content import definitions
from bench.report.content.answer import QUESTION
from bench.report.content.collection import ReportedComparison
from bench.report.content.means import geometric_means
from bench.report.index_columns import shown_columns
from bench.report.index_contents import Contents
from bench.report.summary_table import rows_of
from bench.report.words import describe, formatting
from bench.results.environment_cell import latest_environment

TEMPLATE = "index.html.j2"


def render_html(contents: Contents) -> str:
    """The page as HTML; the template escapes everything that comes from a file."""
    collection = contents.collection
    environment = Environment(
        loader=FileSystemLoader([Path(__file__).parent, Path(__file__).parent / "render"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    tables = [(heading, rows_of(comparisons)) for heading, comparisons in collection.panels.items()]
    lines = rows_of(collection.controlled)
    return environment.get_template(TEMPLATE).render(
        question=QUESTION,
        contents=contents,
        tables=[(heading, mine, shown_columns(mine)) for heading, mine in tables],
        rows=sum(len(mine) for _, mine in tables),
        verdicts=sorted({line.summary.verdict for line in lines if line.summary.verdict}),
        statuses=sorted({line.summary.status for line in lines}),
        geometric_means=geometric_means,
        environment_of=_environment,
        claim_words=claim_words,
        reference=reference,
        sorting_key=_sorting_key,
        definitions=definitions,
        describe=describe,
        distinct_text=distinct_text,
        formatting=formatting,
        data_uri=_data_uri,
    )


def _data_uri(path: Path) -> str:
    """A picture: in an element of its own, nothing in it reaches the page."""
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode()}"


def _sorting_key(value: float | None) -> str:
    """A number as text; blank, and so last, where there is none."""
    return "" if value is None else repr(float(value))


def _environment(comparison: ReportedComparison) -> str:
    environment = latest_environment(comparison.rows)
    return json.dumps(environment, indent=1, sort_keys=True, ensure_ascii=False)

"""A whole report, made from a folder of results: tables, figures and pages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.analysis.claims import judge_claims
from bench.analysis.methods import find_methods
from bench.errors import UserError
from bench.report import describe, index_contents, parallel, summary_table
from bench.report.collection import Collection, ReportedComparison, collect, with_distinct_titles
from bench.report.comparison_page import render_comparison
from bench.report.files import CLAIMS, METHODS, REPRODUCED, read_of_every_machine
from bench.report.index_contents import Contents, OtherPage
from bench.report.index_html import render_html
from bench.report.index_markdown import render_markdown
from bench.report.methods_page import (
    CAPTION,
    figure_stem,
    figure_title,
    name_method,
    render_methods,
)
from bench.report.model_rows import settings_of
from bench.report.scale_files import read_predictions
from bench.report.scale_page import render_scale
from bench.report.selftest_page import render_selftest
from bench.report.support_matrix import read_matrix
from bench.report.support_page import render_support
from bench.results.atomic import write_atomically
from bench.results.csv_files import list_files


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """What became of a report.

    Attributes:
        written: the paths; those of index.html, index.md and summary.csv first.
        refused: a sentence for each file that could not be read.
        answers: a sentence for each setting, the first of the page first.
    """

    written: Sequence[Path]
    refused: Sequence[str]
    answers: Sequence[str] = ()


def render_comparisons(results_dir: Path, out_dir: Path) -> tuple[list[Path], Sequence[str]]:
    """Write everything about the comparisons in a folder; see `render_report`.

    Returns:
        The paths written, and a sentence for each file that could not be read.

    Raises:
        UserError: there is no results file.
    """
    rendered = render_report(results_dir, out_dir)
    return list(rendered.written), rendered.refused


def render_report(results_dir: Path, out_dir: Path) -> Rendered:
    """Write everything about the comparisons in a folder.

    `index.md` and `index.html` over all comparisons with their figures, `<stem>.md` for each, and
    `summary.csv`. The same files give the same bytes.

    Raises:
        UserError: there is no results file.
    """
    reproduced, methods, claims = (
        read_of_every_machine(results_dir, name) for name in (REPRODUCED, METHODS, CLAIMS)
    )
    others = collect(
        [] if reproduced.comparisons and not any(results_dir.glob("*.csv")) else list_files(results_dir)
    )
    refused = [*reproduced.refused, *others.refused, *claims.refused]
    titled = with_distinct_titles([*reproduced.comparisons, *others.comparisons])
    if not titled:
        return Rendered(written=[], refused=refused)
    number = len(reproduced.comparisons)
    evidence = with_distinct_titles([*methods.comparisons, *claims.comparisons])
    other_pages = [page for page in index_contents.OTHER_PAGES if (results_dir / page.made_of).exists()]
    written, shown = _write_report(
        [titled[:number], titled[number:]], evidence, refused, out_dir, other_pages
    )
    summary = summary_table.rows_of([*titled[number:], *titled[:number]])
    write_atomically(out_dir / summary_table.FILE, summary_table.render_csv(summary))
    page, index, *others_written = written
    return Rendered(
        written=[page, index, out_dir / summary_table.FILE, *others_written],
        refused=refused,
        answers=shown.answers_in_short,
    )


def render_other_pages(results_dir: Path, out_dir: Path) -> tuple[list[Path], Sequence[str]]:
    """Write the pages about methods, many GPUs, the support matrix and the self-test, each if it has results.

    Returns:
        The paths written, and a sentence for each page whose results could not be read.
    """
    pages: tuple[tuple[OtherPage, Callable[[], str]], ...] = (
        (index_contents.SELFTEST, lambda: render_selftest(results_dir / "selftest")),
        (index_contents.SUPPORT, lambda: render_support(read_matrix(results_dir / "matrix"))),
    )
    written, refused = write_methods(results_dir, out_dir)
    of_scale, damaged = write_scale(results_dir, out_dir)
    written += of_scale
    refused += damaged
    for page, render in pages:
        if (results_dir / page.made_of).exists():
            try:
                write_atomically(out_dir / page.name, render())
                written.append(out_dir / page.name)
            except UserError as error:
                refused.append(str(error))
    return written, refused


def write_methods(results_dir: Path, out_dir: Path) -> tuple[list[Path], list[str]]:
    """Write the page about methods and its figures, if there are results.

    Returns:
        The paths written, and a sentence for each file that could not be read.
    """
    read = read_of_every_machine(results_dir, METHODS)
    collection = Collection(comparisons=with_distinct_titles(read.comparisons), refused=read.refused)
    if not collection.comparisons:
        return [], list(collection.refused)
    from bench.report.figures import plan
    from bench.report.figures.methods import draw_methods

    figures = []
    for one in collection.comparisons:
        found = find_methods(one)
        if found is None or not found.measured:
            continue
        draw = partial(
            draw_methods,
            found,
            [name_method(method) for method in found.methods],
            title=figure_title(one),
            subtitle=f"{describe.short_workload(describe.of_reference(one.rows))}; {one.panel}",
            caption=CAPTION,
        )
        figures.append(plan.save((figure_stem(one), draw), out_dir))
    page = out_dir / index_contents.METHODS.name
    write_atomically(page, render_methods(collection.comparisons))
    return [page, *figures], list(collection.refused)


def write_scale(results_dir: Path, out_dir: Path) -> tuple[list[Path], list[str]]:
    """Write the page about many GPUs and its figures, if anything was predicted.

    Returns:
        The paths written, and a sentence for each file that could not be read.
    """
    folder = results_dir / index_contents.SCALE.made_of
    if not folder.exists():
        return [], []
    try:
        predictions = read_predictions(folder)
    except UserError as error:
        return [], [str(error)]
    from bench.report.figures import scale

    jobs = [partial(scale.save, figure, out_dir) for figure in scale.planned_figures(predictions)]
    figures = parallel.run(jobs)
    page = out_dir / index_contents.SCALE.name
    write_atomically(page, render_scale(predictions))
    return [page, *figures], []


def _write_report(
    families: Sequence[Sequence[ReportedComparison]],
    evidence: Sequence[ReportedComparison],
    refused: Sequence[str],
    out_dir: Path,
    other_pages: Sequence[OtherPage],
) -> tuple[list[Path], Contents]:
    """Write the pages and figures about these comparisons; the paths, and what the page shows.

    Args:
        families: what `make reproduce` measured, and all others; the first that is not empty answers first.
        evidence: for claims, beside these: the comparisons of methods, which have a page of their own, and
            those of `make claims`.
        refused: a sentence for each file that could not be read.
        out_dir: where to.
        other_pages: those that this report has.
    """
    from bench.report.figures import model_figures, plan  # matplotlib: 1 s that tables need not pay

    reproduced, others = families
    everything = Collection(comparisons=[*reproduced, *others], refused=refused)
    drawn = Collection(comparisons=others or reproduced)
    sets = model_figures.figure_sets(families)
    of_models = model_figures.write_report_figures(sets, out_dir)
    figures = parallel.run([partial(plan.save, job, out_dir) for job in plan.planned_figures(drawn)])
    tables = parallel.run([partial(_write_comparison, one, out_dir) for one in everything.comparisons])
    shown = Contents(
        collection=everything,
        settings=settings_of(families),
        of_models=of_models,
        sets=sets,
        figures=figures,
        not_drawn=[*model_figures.not_drawn(sets), *plan.not_drawn(drawn)],
        findings=judge_claims([*everything.comparisons, *evidence]),
        warned={
            one.page: warnings for one, (_, warnings) in zip(everything.comparisons, tables, strict=True)
        },
        other_pages=other_pages,
    )
    index, page = out_dir / "index.md", out_dir / "index.html"
    write_atomically(index, render_markdown(shown))
    write_atomically(page, render_html(shown))
    return [page, index, *(path for path, _ in tables), *of_models, *figures], shown


def _write_comparison(comparison: ReportedComparison, out_dir: Path) -> tuple[Path, list[str]]:
    """The path, and the harness's warnings about it."""
    path = out_dir / comparison.page
    write_atomically(path, render_comparison(comparison))
    return path, [str(warning) for warning in comparison.warnings]

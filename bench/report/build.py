"""A whole report, made from the folder of a machine's results: tables, figures and pages."""

import multiprocessing
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from bench.analysis.machines import group_by_comparison
from bench.launch.lifeline import die_with
from bench.machine.hardware import available_cores
from bench.report.content.answer import QUESTION, SettingAnswer
from bench.report.content.backend_columns import IN_SUMMARY, rows_of
from bench.report.content.blocks import Block, Link
from bench.report.content.claims import judge_claims
from bench.report.content.collection import Collection, ReportedComparison, collect, with_distinct_titles
from bench.report.content.models import find_settings
from bench.report.files import EVIDENCE, OTHERS, REPRODUCED, files_of, is_machine
from bench.report.pages.claims import claims_page
from bench.report.pages.machine import MachinePage
from bench.report.pages.machines import index_page, machines_page
from bench.report.pages.methods import methods_page
from bench.report.pages.support import support_page
from bench.report.render.csv import render_csv
from bench.report.render.html import render_html
from bench.report.render.markdown import render_markdown
from bench.report.words.formatting import plural
from bench.results.atomic import write_atomically
from bench.results.csv_files import list_files
from bench.results.machines import list_machines, name_machine, name_machines

PAGE, HTML, SUMMARY, SPREAD, CLAIMS = "index.md", "index.html", "summary.csv", "machines.md", "claims.md"
METHODS, SUPPORT, SUPPORT_TABLE = "methods.md", "support.md", "support.csv"


Written: TypeAlias = tuple[list[Path], Sequence[str]]
"""The files of a page, itself first, and a sentence for each results file that could not be read."""


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """What became of a report."""

    written: Sequence[Path]  # the most important ones first
    refused: Sequence[str]  # a sentence for each file that could not be read
    answers: Sequence[SettingAnswer] = ()  # of each setting, those with most models first
    results: Sequence[ReportedComparison] = ()  # the comparisons whose speed-ups are results
    evidence: Sequence[ReportedComparison] = ()  # all comparisons that a published claim is judged by


def render_all(results_dir: Path, out_dir: Path, rendered_dir: Path) -> Rendered:
    """Write the report of every machine, and the pages over all machines.

    Args:
        results_dir: of all machines.
        out_dir: for what is committed; what an earlier call left in a machine's folder there is removed.
        rendered_dir: for the same with an index.html for each machine.
    """
    answers, by_machine = [], {}
    names, machines = name_machines(results_dir), list_machines(results_dir)
    # a forked process for each core; they end with this one
    processes = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(available_cores(), processes, die_with, (os.getpid(),)) as pool:
        folders = [rendered_dir / machine.name for machine in machines]
        reports = [*pool.map(render_report, machines, folders)]
    for machine, report in zip(machines, reports, strict=True):
        by_machine[names[machine.name]] = report.results
        if report.written:  # it may have nothing that a page shows
            first = next(iter(report.answers), None)
            answers.append((machine.name, names[machine.name], first))
        shutil.rmtree(out_dir / machine.name, ignore_errors=True)
        for path in report.written:
            if path.name != HTML:
                write_atomically(out_dir / machine.name / path.name, path.read_text(encoding="utf-8"))
    from bench.report.figures.machines import draw_machines

    page, spread, claims = out_dir / PAGE, out_dir / SPREAD, out_dir / CLAIMS
    groups = group_by_comparison(by_machine)
    pictures = draw_machines(groups, spread.with_suffix(".svg"))
    _write_page(spread, machines_page(groups))
    _write_page(claims, claims_page(judge_claims([one for report in reports for one in report.evidence])))
    _write_page(page, index_page(answers, pictures))
    return Rendered(
        written=[page, spread, claims, *(path for report in reports for path in report.written[:1])],
        refused=[sentence for report in reports for sentence in report.refused],
        answers=[answer for report in reports for answer in report.answers[:1]],
    )


def render_report(folder: Path, out_dir: Path) -> Rendered:
    """Write everything about the results of a machine, or about the comparisons in any other folder.

    `index.html` and `index.md` over all comparisons with their figures, `summary.csv`, and the pages of other
    studies. The same files give the same bytes.

    Raises:
        UserError: there is no results file in a folder that is no machine's.
    """
    machine = name_machine(folder) if is_machine(folder) else ""
    studies = [files_of(*(folder / name for name in names)) for names in ((REPRODUCED,), OTHERS, EVIDENCE)]
    paths_of_families = studies if machine else [list_files(folder)]
    read = [collect(paths) for paths in paths_of_families]
    families = with_distinct_titles([collection.comparisons for collection in read])
    shown, evidence = families[:2], families[2:]  # the first that is not empty answers first
    links, other_files, refused = _write_other_pages(folder, out_dir)
    everything = Collection(
        comparisons=list(chain(*shown)),
        refused=[*(sentence for collection in read for sentence in collection.refused), *refused],
    )
    for_claims = [*everything.comparisons, *chain(*evidence)]
    if not (everything.comparisons or links):
        return Rendered(written=[], refused=everything.refused, evidence=for_claims)
    from bench.report.figures import models, plan  # matplotlib: 1 s that tables need not pay

    drawn = Collection(comparisons=next(filter(None, reversed(shown)), []))
    planned = [
        *models.planned_figures(models.figure_sets(shown), out_dir),
        *plan.planned_figures(drawn, out_dir),
    ]
    for _, write in planned:
        write()
    for_screen, for_git, table = (out_dir / name for name in (HTML, PAGE, SUMMARY))
    page = MachinePage(
        machine=machine,
        collection=everything,
        settings=find_settings(shown),
        figures=[figure for figure, _ in planned],
        other_pages=links,
    )
    _write_page(for_git, page.blocks(on_screen=False))
    write_atomically(table, render_csv(rows_of(everything.comparisons), IN_SUMMARY))
    count = plural(len(everything.comparisons), "comparison")
    about = f"Training backends, compared: {count}, rebuilt from the results alone"
    write_atomically(for_screen, render_html(QUESTION, about, page.blocks(on_screen=True)))
    return Rendered(
        written=[for_screen, for_git, table, *other_files, *(figure.path for figure in page.figures)],
        refused=everything.refused,
        answers=[setting.answer for setting in page.settings],
        results=[comparison for comparison in everything.controlled if not comparison.at_largest],
        evidence=for_claims,
    )


def _write_other_pages(folder: Path, out_dir: Path) -> tuple[list[Link], list[Path], list[str]]:
    """Links to the pages of this machine's other studies, all their files, and what was refused."""
    links: list[Link] = []
    written: list[Path] = []
    refused: list[str] = []
    for study, (link, write) in OTHER_PAGES.items():
        if any((folder / study).glob("*.csv")):
            files, damaged = write(folder / study, out_dir)
            links += [link] if files else []
            written += files
            refused += damaged
    return links, written, refused


def write_methods(folder: Path, out_dir: Path) -> Written:
    """Write the page about methods and its figures, from the folder of that study."""
    collection = collect(files_of(folder))
    (comparisons,) = with_distinct_titles([collection.comparisons])
    if not comparisons:
        return [], collection.refused
    from bench.report.figures.methods import write_methods_figures

    figures = write_methods_figures(comparisons, out_dir)
    page = out_dir / METHODS
    _write_page(page, methods_page(comparisons))
    return [page, *figures], collection.refused


def write_claims(folder: Path, out_dir: Path) -> Written:
    """Write the page about claims, judged by the comparisons of that study's folder alone."""
    collection = collect(files_of(folder))
    if not collection.comparisons:
        return [], collection.refused
    page = out_dir / CLAIMS
    _write_page(page, claims_page(judge_claims(collection.comparisons)))
    return [page], collection.refused


def write_support(folder: Path, out_dir: Path) -> Written:
    """Write the support matrix as a page and as a table."""
    collection = collect(files_of(folder))
    if not collection.comparisons:
        return [], collection.refused
    page, table = out_dir / SUPPORT, out_dir / SUPPORT_TABLE
    _write_page(page, support_page(collection.comparisons))
    write_atomically(table, render_csv(rows_of(collection.comparisons), IN_SUMMARY))
    return [page, table], collection.refused


def _write_page(path: Path, blocks: Sequence[Block]) -> None:
    write_atomically(path, render_markdown(blocks))


OTHER_PAGES = {
    "methods": (Link("What each method of training saves, and what it costs", METHODS), write_methods),
    "matrix": (Link("Which backend trains which model", SUPPORT), write_support),
}
"""The pages beside that of a machine's comparisons, by the study whose results they are made of."""

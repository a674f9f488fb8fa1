"""A whole report, made from the folder of a machine's results: tables, figures and pages."""

import multiprocessing
import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path

from bench.launch.lifeline import die_with
from bench.machine.hardware import available_cores
from bench.report.content.answer import QUESTION, SettingAnswer
from bench.report.content.backend_columns import IN_SUMMARY, rows_of
from bench.report.content.blocks import Link
from bench.report.content.collection import Collection, ReportedComparison, collect, with_distinct_titles
from bench.report.content.models import find_settings
from bench.report.content.study_pages import StudyPage, find_pages, write_page
from bench.report.files import OTHERS, REPRODUCED, files_of, is_machine
from bench.report.pages.index import index_page
from bench.report.pages.machine import machine_page
from bench.report.render.csv import render_csv
from bench.report.render.html import render_html
from bench.report.render.markdown import render_markdown
from bench.results.atomic import write_atomically
from bench.results.csv_files import list_files
from bench.results.machines import list_machines, name_machine, name_machines
from bench.study import load_parts

PAGE, HTML, SUMMARY = "index.md", "index.html", "summary.csv"


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """The outcome of making a report."""

    written: Sequence[Path]  # the most important ones first
    refused: Sequence[str]  # a sentence for each file that could not be read
    answers: Sequence[SettingAnswer] = ()  # of each setting, those with most models first
    comparisons: Mapping[str, Sequence[ReportedComparison]]  # of a machine, by the folder of their files


def render_all(results_dir: Path, out_dir: Path, rendered_dir: Path) -> Rendered:
    """Write the report of every machine, and the pages over all machines.

    What an earlier call left in a machine's folder of `out_dir`, which is committed, is removed; in
    `rendered_dir` each machine has an index.html, too.
    """
    answers = []
    names, machines = name_machines(results_dir), list_machines(results_dir)
    import_module("bench.report.figures.plan")  # matplotlib: once, and not in each process
    sizes = {each: sum(path.stat().st_size for path in each.rglob("*.csv")) for each in machines}
    largest_first = sorted(machines, key=sizes.__getitem__, reverse=True)  # else a core idles at the end
    # a forked process for each core; they end with this one
    processes = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(available_cores(), processes, die_with, (os.getpid(), "bench-report")) as pool:
        folders = [rendered_dir / machine.name for machine in largest_first]
        made = dict(zip(largest_first, pool.map(render_report, largest_first, folders), strict=True))
    reports = [made[machine] for machine in machines]
    for machine, report in zip(machines, reports, strict=True):
        if report.written:  # a folder may have nothing that a page shows
            first = next(iter(report.answers), None)
            answers.append((machine.name, names[machine.name], first))
        shutil.rmtree(out_dir / machine.name, ignore_errors=True)
        for path in report.written:
            if path.name != HTML:
                write_atomically(out_dir / machine.name / path.name, path.read_text(encoding="utf-8"))
    by_name = {names[machine.name]: report for machine, report in zip(machines, reports, strict=True)}
    pages = [
        (page.about, page.write({name: _choose(page, report) for name, report in by_name.items()}, out_dir))
        for page in find_pages(over_machines=True)
    ]
    written = [(about, page) for about, page in pages if page.files]
    links = [Link(about, page.files[0].name) for about, page in written]
    pictures = [picture for _, page in written for picture in page.pictures]
    index = out_dir / PAGE
    write_atomically(index, render_markdown(index_page(answers, pictures, links)))
    return Rendered(
        written=[
            index,
            *(page.files[0] for _, page in written),
            *(path for report in reports for path in report.written[:1]),
        ],
        refused=[sentence for report in reports for sentence in report.refused],
        answers=[answer for report in reports for answer in report.answers[:1]],
        comparisons={},
    )


def render_report(folder: Path, out_dir: Path) -> Rendered:
    """Write everything about the results of a machine, or about the comparisons in any other folder.

    `index.html` and `index.md` over all comparisons with their figures, `summary.csv`, and the pages of other
    studies. The same files give the same bytes. UserError if a folder that is no machine's holds no results.
    """
    machine = name_machine(folder) if is_machine(folder) else ""
    shown_first = (REPRODUCED, *OTHERS)
    for_studies = [name for page in find_pages(over_machines=True) for name in page.folders]
    names = [*dict.fromkeys((*shown_first, *for_studies))] if machine else [""]
    read = [collect(files_of(folder / name) if name else list_files(folder)) for name in names]
    families = with_distinct_titles([collection.comparisons for collection in read])
    shown = families[: len(shown_first)]  # the first family that is not empty answers first
    links, other_files = list[Link](), list[Path]()
    sentences = [sentence for collection in read for sentence in collection.refused]
    for page_beside in find_pages(over_machines=False):
        results = files_of(*(folder / name for name in page_beside.folders))
        written, damaged = write_page(page_beside, results, out_dir)
        links += [Link(page_beside.about, written.files[0].name)] if written.files else []
        other_files += written.files
        sentences += damaged
    everything = Collection(comparisons=list(chain(*shown)), refused=list(dict.fromkeys(sentences)))
    comparisons = dict(zip(names, families, strict=True))
    if not (everything.comparisons or links):
        return Rendered(written=[], refused=everything.refused, comparisons=comparisons)
    from bench.report.figures import plan  # matplotlib: 1 s that tables need not pay

    drawn = Collection(comparisons=next(filter(None, reversed(shown)), []))
    planned = [
        *plan.planned_figures(drawn, out_dir),
        *chain.from_iterable(part.planned_figures(shown, out_dir) for part in load_parts("figures").values()),
    ]
    for _, write in planned:
        write()
    for_screen, for_git, table = (out_dir / name for name in (HTML, PAGE, SUMMARY))
    settings, figures = find_settings(shown), [figure for figure, _ in planned]
    markdown = render_markdown(machine_page(machine, everything, settings, figures, links))
    write_atomically(for_git, markdown)
    write_atomically(table, render_csv(rows_of(everything.comparisons), IN_SUMMARY))
    write_atomically(for_screen, render_html(QUESTION, markdown, out_dir))
    return Rendered(
        written=[for_screen, for_git, table, *other_files, *(figure.path for figure in figures)],
        refused=everything.refused,
        answers=[setting.answer for setting in settings],
        comparisons=comparisons,
    )


def _choose(page: StudyPage, report: Rendered) -> list[ReportedComparison]:
    return [one for folder in page.folders for one in report.comparisons[folder]]

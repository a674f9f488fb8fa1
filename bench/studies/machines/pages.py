"""Writes reports/machines.md, and its figure, which the page over all machines shows."""

from pathlib import Path

from bench.analysis.hosts import group_by_comparison, spread_between_hosts
from bench.report.content.study_pages import ByMachine, StudyPage, WrittenPage
from bench.report.render.markdown import render_markdown
from bench.results.atomic import write_atomically
from bench.studies.machines.page import machines_page


def _write(by_machine: ByMachine, out_dir: Path) -> WrittenPage:
    from bench.studies.machines.figure import draw_machines  # matplotlib: 1 s that tables need not pay

    groups = group_by_comparison(
        {
            machine: [one for one in comparisons if not (one.uncontrolled or one.at_largest)]
            for machine, comparisons in by_machine.items()
        }
    )
    page, hosts = out_dir / "machines.md", spread_between_hosts(groups)
    write_atomically(page, render_markdown(machines_page(groups, hosts)))
    pictures = draw_machines(groups, hosts, page.with_suffix(".svg"))
    return WrittenPage(files=[page], pictures=pictures)


PAGE = StudyPage(
    about="The same comparison on several machines, and how far these lie apart",
    folders=("reproduce", "bench"),
    over_machines=True,
    write=_write,
)

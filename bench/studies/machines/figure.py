"""The figure of one comparison on several machines: which backend is faster on which."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.compare.kinds import FEWEST, HostSpread, SameComparison, group_by_kind
from bench.report.content.blocks import Picture
from bench.report.figures import style
from bench.report.figures.picture_files import write_figure
from bench.report.figures.rows import Bar, Row, RowChart, RowGroup, draw_rows, ends_of, ratio_limits
from bench.report.figures.style import bar_entry, interval_entry
from bench.report.words.formatting import TIMES, ratio_and_interval
from bench.studies.machines.pages import compare_backends, title_of


def draw_machines(groups: Sequence[SameComparison], hosts: HostSpread, path: Path) -> list[Picture]:
    """Draw the comparison of most machines, of at least three, and the same with another path of MKL."""
    title, panels = "", {}
    for same in sorted(groups, key=lambda same: -len(same.machines)):
        name, _, mkl_path = title_of(same).rpartition(", ")
        title = title or name
        if name == title and len(same.machines) >= FEWEST:
            panels[mkl_path] = same
    if not panels:
        return []
    picture = Picture(path, f"{title}: training speed relative to PyTorch")
    write_figure(path, lambda: draw_rows(_chart(picture.caption, panels, hosts)))
    return [picture]


def _chart(title: str, panels: Mapping[str, SameComparison], hosts: HostSpread) -> RowChart:
    names = {name for same in panels.values() for name in same.launches}
    looks = style.looks(sorted(names, key=lambda name: (name.startswith("ort"), name)))
    groups = {heading: _groups(same, hosts, looks) for heading, same in panels.items()}
    rows = [row for several in groups.values() for group in several for row in group.rows]
    ends = [end for row in rows for end in row.interval or ()]
    return RowChart(
        title=title,
        panels=groups,
        limits=ratio_limits([bar.end for row in rows for bar in row.bars], ends),
        logarithmic=True,
        label=f"← slower · speed-up over the reference ({TIMES}, logarithmic) · faster →",
        legend=[*(bar_entry(name, look) for name, look in looks.items()), interval_entry()],
        line=1,
        row=0.115,
        bar=0.1,
    )


def _groups(same: SameComparison, hosts: HostSpread, looks: Mapping[str, style.Look]) -> list[RowGroup]:
    """The rows of each kind of machine: of several hosts their mean."""
    groups, backends = [], compare_backends(same, hosts)
    for first, *others in group_by_kind(same.machines):
        found = {each.backend: (each.kinds if others else each.speedups).get(first) for each in backends}
        rows = [
            Row(bars=[Bar(1, one.ratio, looks[name])], interval=ends_of(one), beside=ratio_and_interval(one))
            for name in looks
            if (one := found.get(name))
        ]
        kind = f"{first.partition(', host ')[0]}, {1 + len(others)} hosts" if others else first
        groups += [RowGroup(name=kind, rows=rows)] if rows else []
    return groups

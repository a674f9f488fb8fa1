"""Tables, figures and a page, made from results files alone."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.report import claims, overview, page, parallel, table
from bench.report.collection import Collection, Comparison, collect
from bench.results import csv_files
from bench.results.atomic import write_atomically


def render(results_dir: Path, out_dir: Path) -> tuple[list[Path], Sequence[str]]:
    """Write everything about the results files in a folder.

    `index.md` and `index.html` over all comparisons with their figures, and `<stem>.md` for each. The same
    files give the same bytes.

    Returns:
        The paths written, and a sentence for each file that could not be read.

    Raises:
        UserError: there is no results file.
    """
    collection = collect(csv_files.list_files(results_dir))
    beside = [one for one in overview.BESIDE if (results_dir / one.made_of).exists()]
    written = _everything(collection, out_dir, beside) if collection.comparisons else []
    return written, collection.refused


def _everything(collection: Collection, out_dir: Path, beside: Sequence[overview.Beside]) -> list[Path]:
    from bench.report import figures  # matplotlib: 1 s that tables and --help need not pay

    pictures = parallel.run([partial(figures.save, job, out_dir) for job in figures.planned(collection)])
    tables = parallel.run([partial(_write_table, one, out_dir) for one in collection.comparisons])
    written = [path for path, _ in tables]
    contents = overview.Contents(
        collection=collection,
        figures=pictures,
        not_drawn=figures.not_drawn(collection),
        findings=claims.check(collection),
        warned={path.stem: warnings for path, warnings in tables},
        beside=beside,
    )
    for name, content in (
        ("index.md", overview.markdown(contents)),
        ("index.html", page.html(contents)),
    ):
        write_atomically(out_dir / name, content)
        written.append(out_dir / name)
    return [*written, *pictures]


def _write_table(one: Comparison, out_dir: Path) -> tuple[Path, list[str]]:
    """The path, and the harness's warnings about it."""
    path = out_dir / f"{one.stem}.md"
    write_atomically(path, table.markdown(one))
    return path, [str(warning) for warning in one.warnings]

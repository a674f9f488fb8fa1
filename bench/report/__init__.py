"""Tables and figures of a comparison, made from its results file alone."""

from pathlib import Path

from bench import results
from bench.records import write_atomically
from bench.report import table


def render(csv_path: Path, out_dir: Path) -> list[Path]:
    """Write `<stem>.md` and `<stem>.svg` for one results file; returns their paths.

    The same file gives the same bytes.

    Raises:
        UserError: if the results file is missing, damaged or of another schema.
    """
    rows = results.read(csv_path)
    from bench.report import figure  # matplotlib: 1 s that tables and --help need not pay

    page, picture = (out_dir / f"{csv_path.stem}.{kind}" for kind in ("md", "svg"))
    figure.save(rows, picture)
    write_atomically(page, table.markdown(rows, picture.name))
    return [page, picture]

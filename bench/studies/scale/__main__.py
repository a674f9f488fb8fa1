"""`make scale`: what training a model would take on 1 to 1,024 GPUs, predicted; nothing is measured on them.

`python -m bench.studies.scale model=bert-large topology=dgx-a100 [Hydra overrides] [--out FOLDER]` predicts
samples/s and memory of each sharding at each world size, compares the bytes that its rules have ranks send
with those that `python -m bench.studies.sweeps scale` has counted, and writes scale.md and scale.svg.

Exit status: 0; 1 if the disk takes no more; 2 if the command line is wrong.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.closing import WIDTH, command_parser, print_closing, run_command
from bench.errors import UserError

RESULTS = Path("results")
PAGE, FIGURE = "scale.md", "scale.svg"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    parser = command_parser("bench.studies.scale", __doc__)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="topology=… and Hydra overrides")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="of the page (rendered)")
    options = parser.parse_intermixed_args(arguments)
    return run_command(lambda: _predict(options.settings, options.out), "interrupted; nothing was written.")


def _predict(settings: Sequence[str], out: Path | None) -> int:
    # Not for --help, which should take no time.
    from rich.console import Console

    from bench.config.sizes import PUBLISHED
    from bench.report.files import RENDERED
    from bench.report.render.markdown import render_markdown
    from bench.report.render.terminal import render_table
    from bench.results.atomic import reporting_write_errors, write_atomically
    from bench.studies.scale import topology as topologies
    from bench.studies.scale.check import check_bytes
    from bench.studies.scale.facts import facts_of
    from bench.studies.scale.page import answer_in_words, bytes_in_words, scale_page, shown_table
    from bench.studies.scale.predict import precisions_of, predict

    named = [setting.partition("=")[2] for setting in settings if setting.startswith("topology=")]
    models = [setting for setting in settings if re.match(r"[+]*model(\.pretrained|\.module)?=", setting)]
    if len(named) != 1 or not models:
        raise UserError(
            "make scale needs a model and one topology",
            f"such as MODEL=bert-large TOPOLOGY={topologies.names()[0]}; "
            f"topologies: {', '.join(topologies.names())}",
        )
    topology = topologies.load(named[0])
    overrides = [setting for setting in settings if not setting.startswith("topology=")]
    if not any(setting.startswith("precision=") for setting in overrides):
        overrides.append(f"precision={precisions_of(topology.device)[0]}")
    config, facts = facts_of(overrides)
    if config.model.size != PUBLISHED:
        raise UserError(
            f"model.size={config.model.size} is made for CPUs, and predicted are models as published",
            "leave it out",
        )
    prediction = predict(config, facts, topology)
    checked = check_bytes(RESULTS)
    from bench.report.figures.picture_files import write_figure
    from bench.studies.scale.figure import draw_scaling

    folder = out or RENDERED
    page, figure = folder / PAGE, folder / FIGURE
    with reporting_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_figure(figure, lambda: draw_scaling(prediction))
        blocks = scale_page(prediction, checked, _command(settings), Path(FIGURE))
        write_atomically(page, render_markdown(blocks))
    console = Console(width=WIDTH)
    with console.capture() as shown:
        console.print(render_table(shown_table(prediction)))
    print_closing(
        f"predicted, not measured: {answer_in_words(prediction)} Checked: {bytes_in_words(checked)}.",
        table=shown.get(),
        files=[page, figure],
    )
    return 0


def _command(settings: Sequence[str]) -> str:
    """The line to type: what make has variables for comes first."""
    given = dict(setting.split("=", 1) for setting in settings)
    variables = [f"{key.upper()}={given.pop(key)}" for key in ("model", "topology") if key in given]
    rest = " ".join(f"{key}={value}" for key, value in given.items())
    made = " ".join(["make scale", *variables])
    return f'{made} ARGS="{rest}"' if rest else made


if __name__ == "__main__":
    sys.exit(main())

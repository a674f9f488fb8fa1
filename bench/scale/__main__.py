"""`make scale`: what training a model would take on 1 to 1,024 GPUs, predicted; nothing is measured on them.

`python -m bench.scale model=bert-large topology=dgx-a100 [Hydra overrides]` predicts the seconds of a step,
throughput and memory of each sharding at each world size, and writes
results/predicted/scaling-MODEL-TOPOLOGY-PRECISION.csv. `--check` compares predictions with what `python -m
bench.sweeps scale` has measured on this machine, and with published figures. `--links` measures one model
over slow links between two nodes on this machine, which it makes itself (as root).

Exit status: 0; 1 if something that `--links` measured was not ok; 2 if the command line is wrong.
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.closing import command_parser, print_closing, run_command, this_python
from bench.errors import UserError

RESULTS = Path("results")

STUDY = "scale"  # what predictions are checked with
GBIT_PER_S = (4.0, 1.0, 0.25)  # what the links that are tried carry


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    parser = command_parser("bench.scale", __doc__)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="topology=… and Hydra overrides")
    parser.add_argument("--check", action="store_true", help="compare with what was measured and published")
    parser.add_argument("--links", action="store_true", help="measure over slow links, on this machine")
    options = parser.parse_intermixed_args(arguments)
    answer = _measure_links if options.links else _check if options.check else _predict
    return run_command(
        lambda: answer(options.settings), "interrupted; what was measured is kept, and nothing was predicted."
    )


def _predict(settings: Sequence[str]) -> int:
    # Not for --help, which should take no time.
    from bench.analysis.scale import topology as topologies
    from bench.analysis.scale.tables import FOLDER, SCALING
    from bench.config.overrides import last_values
    from bench.config.own import choose_own
    from bench.config.sizes import PUBLISHED
    from bench.machine.source_code import git_commit
    from bench.results.atomic import reporting_write_errors
    from bench.scale import words
    from bench.scale.facts import facts_of
    from bench.scale.predict import precisions_of, scaling_rows

    named = [setting.partition("=")[2] for setting in settings if setting.startswith("topology=")]
    if len(named) != 1 or "model" not in last_values(choose_own(settings)):
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
    described = {"command": _command(settings), "git_commit": git_commit()}
    rows = [described | row for row in scaling_rows(config, facts, topology)]
    path = RESULTS / FOLDER / f"scaling-{config.model.name}-{topology.name}-{config.precision.name}.csv"
    with reporting_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        SCALING.write(path, rows)
    print_closing(
        words.answer(config, facts, topology, rows),
        table=words.table(rows),
        files=[path, *_render()],
        next_command=shlex.join([this_python(), "-m", "bench.scale", "--check"]),
        purpose="compares predictions with measurements",
    )
    return 0


def _command(settings: Sequence[str]) -> str:
    """The line to type: what make has variables for comes first."""
    given = dict(setting.split("=", 1) for setting in settings)
    variables = [f"{key.upper()}={given.pop(key)}" for key in ("model", "topology") if key in given]
    rest = " ".join(f"{key}={value}" for key, value in given.items())
    made = " ".join(["make scale", *variables])
    return f'{made} ARGS="{rest}"' if rest else made


def _check(settings: Sequence[str]) -> int:
    if settings:
        raise UserError(f"--check takes no {settings[0]}", "leave it out")
    from bench.analysis.scale.tables import CHECKS, FOLDER, PUBLISHED
    from bench.report.content.scale import read_predictions
    from bench.report.pages.scale import evidence_of
    from bench.results.atomic import reporting_write_errors
    from bench.results.machines import list_study
    from bench.scale.check import check_rows
    from bench.scale.published import published_rows

    checked = [row for folder in list_study(RESULTS, STUDY) for row in check_rows(folder, RESULTS)]
    published = list(published_rows())
    folder = RESULTS / FOLDER
    with reporting_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if checked:
            CHECKS.write(folder / "checks.csv", checked)
        PUBLISHED.write(folder / "published.csv", published)
    print_closing(
        "How far predictions are from measurements:",
        table="\n".join(f"- {line}" for line in evidence_of(read_predictions(folder))),
        files=[*([folder / "checks.csv"] if checked else []), folder / "published.csv", *_render()],
        next_command="make report",
        purpose="rebuilds tables, figures and page",
    )
    return 0


def _measure_links(settings: Sequence[str]) -> int:
    from bench.config.compose import compose
    from bench.scale.links import measure_over

    results_dir = compose(["device=cpu", f"study={STUDY}"]).results_dir  # a node has fewer cores
    own = [
        *("model=bert-mini", "backend=[pytorch,pytorch_zero1]", "measure=quick", "measure.launches=3"),
        *("measure.rounds=6", "measure.parts=step", f"results_dir={results_dir}", "resume=true"),
    ]
    statuses = [measure_over(rate, [*own, *settings]) for rate in GBIT_PER_S]
    return 1 if any(statuses) else 0


def _render() -> list[Path]:
    """Rebuild the page of predictions."""
    from bench.report.build import write_scale
    from bench.report.files import RENDERED

    written, refused = write_scale(RESULTS, RENDERED)
    for sentence in refused:
        print(sentence, file=sys.stderr)
    return written


if __name__ == "__main__":
    sys.exit(main())

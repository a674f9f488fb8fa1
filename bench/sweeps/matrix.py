"""`make matrix`: which backend can train which model on this machine, how alike and how fast.

`python -m bench.sweeps.matrix [overrides]` measures `experiment=matrix` for every model of conf/matrix.yaml,
then `experiment=choices` for those that stand for their kind there, or both for those that `model=a,b`
names, one comparison each; `support.csv` and its table are up to date after each.
Exit status 0 if every comparison was made, whatever its cells say: not to be supported is a result. 2 if a
command line is wrong, 130 after Ctrl-C.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.config.compose import compose
from bench.config.naming import command, stem
from bench.config.schema import Config
from bench.errors import UserError
from bench.launch.lifeline import Terminated
from bench.measure.preflight import checked
from bench.report import support
from bench.results.disk import reporting_write_errors
from bench.results.records import write_atomically
from bench.setup import stacks

EXPERIMENTS = {"matrix": "models", "choices": "choices"}
"""Each with its list of models in conf/matrix.yaml."""

FOLDER = "results_dir=results/matrix"


def main(overrides: Sequence[str] | None = None) -> int:
    """Measure the models one after the other; the exit status."""
    overrides = sys.argv[1:] if overrides is None else overrides
    Terminated.catch()
    try:
        # All of them are composed first, so that a mistake is known before any work.
        chosen, others = divided(overrides)
        planned = [
            [f"experiment={experiment}", f"model={model}", FOLDER, *others]
            for experiment, models in chosen.items()
            for model in models
        ]
        configs = [compose(line) for line in planned]
        console = Console(stderr=True)
        for number, (line, config) in enumerate(zip(planned, configs, strict=True), 1):
            console.rule(f"{config.model.name}, {line[0]}, {number} of {len(planned)}")
            measure(config, line)
            write(Path(config.results_dir), Path(config.reports_dir))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt as interruption:
        print("interrupted; ARGS=resume=true goes on with what is missing.", file=sys.stderr)
        return 143 if isinstance(interruption, Terminated) else 130
    return 0


def divided(overrides: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """The models to measure under each experiment, and the overrides of all of them."""
    named = [word.removeprefix("model=").split(",") for word in overrides if word.startswith("model=")]
    chosen = {
        experiment: named[-1] if named else support.models(models)
        for experiment, models in EXPERIMENTS.items()
    }
    return chosen, [word for word in overrides if not word.startswith("model=")]


def write(folder: Path, reports_dir: Path) -> None:
    """Bring `support.csv` and its table up to date with the comparisons in `folder`."""
    found = support.read(folder, support.models())
    with reporting_write_errors(folder / support.TABLE):
        write_atomically(folder / support.TABLE, support.table(found))
        write_atomically(reports_dir / "support.md", support.markdown(found))


def measure(config: Config, overrides: Sequence[str]) -> None:
    """One model's comparison; what fails has its row in the results file."""
    experiment, *rest = overrides
    told = [experiment] if experiment == f"experiment={support.CHOICES}" else []
    name = stem(config, checked(config), [*told, *rest[2:]], stacks.own())

    from bench.measure.comparison import measure_comparison  # not for --help

    measure_comparison(config, name, command(list(overrides), stacks.own()))


if __name__ == "__main__":
    sys.exit(main())

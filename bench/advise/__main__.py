"""`make advise`: which configuration trains a model fastest in a given memory on this machine.

`python -m bench.advise model=bert-base device.memory_limit_gib=6 [Hydra overrides]`. Two short trials show
what plain PyTorch needs. From them, and from what every choice did on this machine in results/ (`make
methods`), the memory and the speed of each configuration of conf/backend/advised.yaml are predicted as
bounds. What cannot be the best is left out and named with the reason; the rest is trained under the limit in
one launch, and the closest are measured in full. With --check every configuration is then trained once,
whatever was predicted, to see how good the advice was. The results lie in results/<machine>/advise/.

Exit status: 0 if something trains within the limit, 1 if nothing does, 2 if the command line is wrong, 130
after Ctrl-C, 143 after SIGTERM.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.closing import command_parser, print_closing, run_command
from bench.errors import UserError

COMMON = ("device=cpu", "experiment=advise", "study=advise")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    parser = command_parser("bench.advise", __doc__)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="overrides, as of `make bench`")
    parser.add_argument(
        "--check", action="store_true", help="train all, too, and say how good the advice was"
    )
    options = parser.parse_intermixed_args(arguments)
    return run_command(
        lambda: _advise(options.overrides, check=options.check), "interrupted; what was measured is kept."
    )


def _advise(overrides: Sequence[str], *, check: bool) -> int:
    # Not for --help, which should take no time.
    from bench.advise import words
    from bench.advise.effects import find_effects, read_comparisons
    from bench.advise.measured import ONE_LAUNCH, measure_together, overrides_of, train_once
    from bench.advise.plain import PLAIN, try_plain
    from bench.advise.predict import choices_of, predict, select
    from bench.advise.search import check_advice, find_best
    from bench.config.compose import compose
    from bench.measure.plan.preflight import check_and_name
    from bench.report.words import describe
    from bench.sweeps.fit import TrialFailed, comparison_seconds

    console = Console(stderr=True, highlight=False)
    line = [*COMMON, *overrides]
    config = compose(line)
    if config.device.type != "cpu":
        raise UserError(
            "make advise predicts the memory of a CPU alone so far",
            'on a GPU measure them all: make bench ARGS="experiment=advise device=cuda"',
        )
    limit_gib = config.device.memory_limit_gib
    if limit_gib is None:
        raise UserError(
            "make advise needs to know how much memory training may take",
            'set device.memory_limit_gib=…, as in ARGS="device.memory_limit_gib=6"',
        )
    check_and_name(config)
    results = Path(config.results_dir)
    try:
        plain_config, training, plain_results = try_plain(line, results, console.print)
    except TrialFailed as error:
        print(error, file=sys.stderr)
        return 1
    plain = choices_of(plain_config, PLAIN)
    effects = find_effects(read_comparisons(results), plain_results.machine_key, plain)
    limit_bytes = limit_gib * 2**30
    candidates = [
        predict(config, name, plain_config, training, effects=effects, limit_bytes=limit_bytes)
        for name in config.backends
        if config.model.module is None or not config.checkpointing_of(name)  # which only transformers' have
    ]
    selection = select(candidates, limit_bytes)
    once_s = full_s = 0.0
    undivided_s = training.work_seconds + training.part_seconds
    if selection.open:
        once_s = comparison_seconds(compose([*overrides_of(selection.open, line), *ONE_LAUNCH]), undivided_s)
        full_s = comparison_seconds(compose(overrides_of(selection.open[:1], line)), undivided_s)
    for planned in words.plan_lines(selection, training, once_s, full_s):
        console.print(planned, markup=False, soft_wrap=True)
    advice = find_best(
        candidates,
        limit_bytes=limit_bytes,
        training=training,
        train_once=lambda chosen: train_once(chosen, line),
        measure=lambda chosen: measure_together(chosen, line),
    )
    machine, table = describe.short_machine(plain_results.rows), words.table(advice)
    answer = words.answer(advice, config.model.name, limit_gib, machine)
    outcomes = [*advice.outcomes]
    if check:
        all_s = comparison_seconds(compose([*overrides_of(candidates, line), *ONE_LAUNCH]), undivided_s)
        announced = f"{answer} {words.before_check(len(candidates), all_s)}"
        console.print(announced, markup=False, soft_wrap=True)
        checked = check_advice(
            advice,
            candidates,
            micro_batch=training.micro_batch,
            train_once=lambda chosen: measure_together(chosen, [*line, *ONE_LAUNCH, "study=advise-check"]),
            measure=lambda chosen: measure_together(chosen, line),
        )
        answer = f"{answer} {words.check_answer(checked, advice)}"
        table = f"{table}\n\n{words.check_table(checked)}"
        outcomes += checked.outcomes
    first = advice.best
    print_closing(
        answer,
        table=table,
        files=list(dict.fromkeys(each.results.path for each in outcomes if each.results.path)),
        next_command=first.command if first else "",
        purpose="measures the first alone",
    )
    return 0 if first else 1


if __name__ == "__main__":
    sys.exit(main())

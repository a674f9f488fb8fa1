"""Makes the models of a plan fit into this machine: a trial of each, and what is chosen from it, on file."""

import math
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import msgspec
from rich.console import Console

from bench.config.compose import compose
from bench.config.identity import config_hash
from bench.config.schema import Config
from bench.config.sizes import PUBLISHED
from bench.machine.hardware import available_cores, memory_bytes
from bench.machine.identity import name_processor
from bench.machine.processor import describe_processor
from bench.results.atomic import write_atomically
from bench.sweeps.fit import ModelTrial, SizeChoice, TrialFailed, choose, train_shortly
from bench.sweeps.plan_file import Fit, Plan, PlanPart

FILE = "choices.json"
"""In the results folder of the plan: what was chosen stays, so that the next call goes on with the same."""


class ChosenModel(msgspec.Struct, frozen=True, kw_only=True):
    """One model of a plan on one machine."""

    config_hash: str  # of the configuration whose trial it was; another needs another trial
    trial: ModelTrial  # what it has shown
    choice: SizeChoice  # what is measured


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """All models of a plan on one machine."""

    machine: str
    models: dict[str, ChosenModel]


def fit_to_machine(
    plan: Plan, parts: Sequence[PlanPart], overrides: Sequence[str], *, seconds: float, console: Console
) -> tuple[Sequence[PlanPart], Mapping[str, str], float]:
    """What of these parts of a plan this machine measures, in the seconds that the call may take.

    On a GPU, or if the plan says nothing of fitting, the parts stay as they are. Where the seconds are
    infinite, the plan's own limit holds. Returns the parts, with what was chosen as overrides; models that
    cannot be trained, and why; and the seconds.
    """
    if plan.fit is None or compose([*plan.common, *overrides]).device.type != "cpu":
        return parts, {}, seconds
    seconds = 60 * plan.fit.minutes if math.isinf(seconds) else seconds
    candidates = [
        _candidate(plan, plan.fit, part, model, overrides)
        for part in parts
        for model in part.overrides_by_model
    ]
    fitting = Fitting(candidates, seconds=seconds, say=lambda line: console.print(line, markup=False))
    fitting.choose_all()
    return [_fitted(plan.fit, part, fitting) for part in parts], fitting.unmeasured, seconds


@dataclass(frozen=True, kw_only=True)
class UnsizedModel:
    """A model that is to be measured, of a size that is still to be chosen."""

    model: str
    config: Config  # of its comparison, but for the size


@dataclass
class Fitting:
    """Tries each model that was not tried yet, and divides the time among them.

    What was measured already keeps its choice, whatever time there is now.
    """

    candidates: Sequence[UnsizedModel]  # all models of the call
    _: KW_ONLY
    seconds: float  # that the call may take, the trials included
    say: Callable[[str], None]  # prints a line
    trial: Callable[[Config, Path], ModelTrial] = train_shortly  # tests give their own
    clock: Callable[[], float] = time.monotonic  # seconds; tests give their own

    def __post_init__(self) -> None:
        self._end = self.clock() + self.seconds
        self._results = Path(self.candidates[0].config.results_dir)
        self.choices = _read(self._results / FILE)  # of the models
        self.unmeasured: dict[str, str] = {}  # the models that this machine cannot train, and why

    def choose_all(self) -> None:
        """Try what was not tried; then give the time to the models, to the slowest first."""
        begun = [  # those of which there are results under the choice on file
            candidate
            for candidate in self.candidates
            if self._known(candidate) and any(self._results.glob(f"{candidate.model}-cpux*.csv"))
        ]
        trials = self._run_trials({candidate.model for candidate in begun})
        left = self._end - self.clock()
        left -= sum(self.choices.models[candidate.model].choice.expected_s for candidate in begun)
        order = sorted(
            (candidate for candidate in self.candidates if candidate.model in trials),
            key=lambda candidate: -_choose(candidate, trials[candidate.model], seconds=0).expected_s,
        )
        for number, candidate in enumerate(order):
            choice = _choose(candidate, trials[candidate.model], seconds=left / (len(order) - number))
            if choice.reason:
                self.unmeasured[candidate.model] = choice.reason
                continue
            left -= choice.expected_s
            self._keep(candidate, trials[candidate.model], choice)

    def _run_trials(self, begun: Container[str]) -> dict[str, ModelTrial]:
        """Trials of every model of which no results were begun, as far as it can be tried."""
        trials: dict[str, ModelTrial] = {}
        for number, candidate in enumerate(self.candidates, start=1):
            if candidate.model in begun:
                continue
            if known := self._known(candidate):
                trials[candidate.model] = known.trial
                continue
            self.say(f"trial of {candidate.model}, {number} of {len(self.candidates)}")
            try:
                trial = self.trial(candidate.config, self._results)
            except TrialFailed as error:
                self.unmeasured[candidate.model] = str(error)
                continue
            trials[candidate.model] = trial
            self._keep(candidate, trial, _choose(candidate, trial, seconds=0))  # a kill loses no trial
        return trials

    def _known(self, candidate: UnsizedModel) -> ChosenModel | None:
        known = self.choices.models.get(candidate.model)
        return known if known is not None and known.config_hash == config_hash(candidate.config) else None

    def _keep(self, candidate: UnsizedModel, trial: ModelTrial, choice: SizeChoice) -> None:
        chosen = ChosenModel(config_hash=config_hash(candidate.config), trial=trial, choice=choice)
        models = {**self.choices.models, candidate.model: chosen}
        self.choices = msgspec.structs.replace(self.choices, models=models)
        text = msgspec.json.format(msgspec.json.encode(self.choices), indent=1).decode()
        write_atomically(self._results / FILE, f"{text}\n")


def _choose(candidate: UnsizedModel, trial: ModelTrial, *, seconds: float) -> SizeChoice:
    return choose(trial, candidate.config, memory_bytes=memory_bytes(), seconds=seconds)


def _candidate(plan: Plan, fit: Fit, part: PlanPart, model: str, overrides: Sequence[str]) -> UnsizedModel:
    backends = plan.backend_overrides(overrides)
    particular = [*part.overrides_by_model.get(model, []), *fit.by_model.get(model, [])]
    line = [*plan.common, f"model={model}", *backends, *fit.overrides, *part.overrides]
    return UnsizedModel(model=model, config=compose([*line, *particular, *overrides]))


def _fitted(fit: Fit, part: PlanPart, fitting: Fitting) -> PlanPart:
    """The part with what was chosen of its models, and how long each is expected to take."""
    by_model: dict[str, list[str]] = {}
    expected: dict[str, float] = {}
    for model, particular in part.overrides_by_model.items():
        if model in fitting.unmeasured:
            continue
        choice = fitting.choices.models[model].choice
        size = [] if choice.size == PUBLISHED else [f"model.size={choice.size}"]
        resident = [] if choice.resident == "all" else ["measure.resident=one"]
        by_model[model] = [*particular, *fit.by_model.get(model, []), *size, *resident]
        expected[model] = choice.expected_s
    return msgspec.structs.replace(
        part, models=by_model, overrides=[*fit.overrides, *part.overrides], expected_by_model=expected
    )


def _read(path: Path) -> Choices:
    """What was chosen on this machine; nothing of another one's."""
    processor = name_processor({"cpu": describe_processor()})
    machine = f"{processor}, {available_cores()} cores, {memory_bytes() / 2**30:.0f} GiB"
    try:
        choices = msgspec.json.decode(path.read_bytes(), type=Choices)
    except (OSError, msgspec.DecodeError):
        return Choices(machine=machine, models={})
    return choices if choices.machine == machine else Choices(machine=machine, models={})

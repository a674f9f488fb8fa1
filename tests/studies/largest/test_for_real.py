"""The search for the largest micro-batch with real ranks under a limit of memory."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import on_any_machine
from tests.support.comparisons import Outcome
from tests.support.configs import a_config

pytestmark = [pytest.mark.exhaustive, pytest.mark.usefixtures("forked")]


@pytest.mark.ort
def test_for_real_what_was_found_runs_and_the_next_does_not_fit(tmp_path: Path) -> None:
    measure: dict[str, Any] = {"launches": 1, "rounds": 2, "block_seconds": 0.1, "max_trials": 2}
    made = a_config(tmp_path, **measure)
    made.device.memory_limit_gib = 1.3
    made.measure.batch = "max"
    made.device.world_size = 1  # half the processes to start; test_failures.py has an oom of two
    made.backends, made.reference = {"ortmodule": made.backends["ortmodule"]}, "ortmodule"
    made.micro_batch, made.grad_accum = 500, 1  # 700 almost fill it
    with on_any_machine.accepted():
        outcome = Outcome(made)
    assert outcome.failed() == []
    for name in made.backends:
        record = outcome.comparison.shared.ledger.records[1, name]
        fitted = [trial.micro_batch for trial in record.trials if trial.fits]
        too_large = [trial.micro_batch for trial in record.trials if not trial.fits]
        assert record.workload.micro_batch == max(fitted) < min(too_large), record.trials

"""Work in forked processes: results in order, errors as they are, nothing left behind."""

import multiprocessing
import os
from functools import partial

import pytest

from bench.errors import UserError
from bench.report import side_by_side as module
from bench.report.side_by_side import side_by_side


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "available_cores", lambda: 2)


def _refuse() -> None:
    raise UserError("it is damaged", "restore it")


def _processes_of_jobs() -> list[int]:
    with side_by_side([os.getpid] * 3) as results:
        return list(results)


def test_results_come_in_the_order_of_the_jobs_and_from_other_processes() -> None:
    numbers = list(range(5))
    with side_by_side([partial(lambda n: (n, os.getpid()), n) for n in numbers]) as results:
        found = list(results)
    assert [number for number, _ in found] == numbers
    assert os.getpid() not in {process for _, process in found}
    assert not multiprocessing.active_children()


def test_what_a_job_raises_is_raised_though_nobody_asked_for_its_result() -> None:
    with pytest.raises(UserError, match=r"it is damaged; restore it\."), side_by_side([_refuse, os.getpid]):
        pass
    assert not multiprocessing.active_children()


def test_a_job_does_its_own_jobs_itself() -> None:
    with side_by_side([_processes_of_jobs, _processes_of_jobs]) as results:
        for inner in results:
            assert len(set(inner)) == 1

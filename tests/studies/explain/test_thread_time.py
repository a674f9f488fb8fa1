"""On a CPU every moment of a step is one operator's, the host's, or spent on waiting: exactly once."""

from collections.abc import Iterable

import pytest

from bench.studies.explain.operator_kinds import HOST, WAITING
from bench.studies.explain.profile_events import OPTIMIZER, STEP, Event, Spent
from bench.studies.explain.thread_time import add_thread_time

MAIN, OTHER = 7, 8  # threads
LENGTH = 1000  # of a step, in nanoseconds


def event(name: str, start: int, end: int, thread: int = MAIN, is_async: bool = False) -> Event:
    return Event(
        name=name, on_device=False, start=start, end=end, id=0, operator=0, thread=thread, is_async=is_async
    )


def spent_on(events: Iterable[Event]) -> dict[tuple[str, str], tuple[int, int]]:
    """By name and part of the step, nanoseconds and calls; checks that they add up to the step."""
    spent = Spent()
    add_thread_time(spent, [*events, event(STEP, 0, LENGTH)])
    operators = spent.operators(LENGTH)
    assert sum(round(1e9 * operator.seconds) for operator in operators) == LENGTH
    return {
        (operator.name, operator.part): (round(1e9 * operator.seconds), operator.calls)
        for operator in operators
    }


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([], {(HOST, ""): (1000, 0)}, id="nothing ran"),
        pytest.param(
            [event("aten::linear", 100, 500), event("aten::mm", 200, 300), event("aten::t", 350, 360)],
            {
                ("aten::linear", ""): (290, 1),
                ("aten::mm", ""): (100, 1),
                ("aten::t", ""): (10, 1),
                (HOST, ""): (600, 0),
            },
            id="an operator's time is without the operators that it calls",
        ),
        pytest.param(
            [event("aten::mm", 0, 400), event("aten::mm", 100, 400), event("aten::mm", 500, 600)],
            {("aten::mm", ""): (500, 2), (HOST, ""): (500, 0)},
            id="one that calls itself is called once",
        ),
        pytest.param(
            [event("aten::a", 0, 400), event("aten::b", 300, 600)],
            {("aten::a", ""): (300, 1), ("aten::b", ""): (300, 1), (HOST, ""): (400, 0)},
            id="one that outlasts another is not its part, and ends it",
        ),
        pytest.param(
            [event(f"{OPTIMIZER}AdamW.step", 500, 900), event("aten::add_", 600, 700)],
            {
                (f"{OPTIMIZER}AdamW.step", "optimizer"): (300, 1),
                ("aten::add_", "optimizer"): (100, 1),
                (HOST, ""): (600, 0),
            },
            id="what an optimizer calls is a part of it",
        ),
        pytest.param(
            [
                event("autograd::engine::evaluate_function: MmBackward0", 0, 400),
                event("aten::mm", 100, 200),
                event("gloo:all_reduce", 150, 350, thread=OTHER, is_async=True),
            ],
            {("aten::mm", ""): (100, 1), (WAITING, ""): (150, 0), (HOST, ""): (750, 0)},
            id="between operators the thread waits while the communication library works",
        ),
        pytest.param(
            [
                event("aten::elsewhere", 0, 400, thread=OTHER),
                event("aten::ends_elsewhere", 0, 400, is_async=True),
                event("aten::before", -50, 20),
                event("profiler::_record_function_enter_new", 100, 200),
                event("aten::is_leaf", 300, 400),
            ],
            {(HOST, ""): (1000, 0)},
            id="what is not of the step, or has no name of its own, is the caller's",
        ),
    ],
)
def test_every_moment_has_one_name(
    events: list[Event], expected: dict[tuple[str, str], tuple[int, int]]
) -> None:
    assert spent_on(events) == expected

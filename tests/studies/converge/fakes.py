"""The held-out loss of fake groups."""

from bench.studies.converge.messages import Evaluate, Evaluated
from tests.support.fakes import OF_STUDIES, FakeGroup


def evaluate(group: FakeGroup, request: Evaluate, rank: int) -> Evaluated:
    """Falls by a tenth a step, unless the script says otherwise; ranks have unequally many tokens."""
    predicted = 100 * (1 + rank)
    loss = group.script.get("held_out", lambda steps: 4 - steps / 10)(group.steps)
    steps = group.steps + group.script.get("extra_steps", 0)
    return Evaluated(loss_sum=loss * predicted, predicted=predicted, steps=steps)


OF_STUDIES[Evaluate] = evaluate

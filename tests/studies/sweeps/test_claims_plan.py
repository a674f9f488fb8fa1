"""The plan that measures published claims."""

import pytest

from bench.studies.sweeps.plan_file import load_plan

read_claims = pytest.importorskip("bench.studies.claims.judge").read_claims


def test_the_plan_tests_every_claim_that_it_is_said_to_judge() -> None:
    plan = load_plan("claims")
    tested = [claim for part in plan.parts for claim in part.claims]
    assert sorted(tested) == sorted(one.id for one in read_claims() if one.command == "make claims")
    assert {one.id for one in read_claims()} - {*tested} == {"ort-zero1", "tf32-3x"}

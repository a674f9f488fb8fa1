"""The published claims: each has a test."""

from bench.studies.claims.claim_tests import TESTS
from bench.studies.claims.judge import read_claims


def test_every_claim_has_a_test_and_every_test_a_claim() -> None:
    assert [claim.id for claim in read_claims()] == list(TESTS)

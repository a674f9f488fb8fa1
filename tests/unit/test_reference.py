"""The published claims: each has a test."""

from bench.analysis import reference
from bench.report.content.claim_tests import TESTS


def test_every_claim_has_a_test_and_every_test_a_claim() -> None:
    assert [claim.id for claim in reference.read_claims()] == list(TESTS)

"""The published figures and claims: whole, and read as they are meant."""

import pytest

from bench.analysis import reference
from bench.report.content.claim_tests import TESTS


def test_every_row_has_its_source() -> None:
    table = reference.read_published_figures()
    assert len(table) == 54
    assert (table["source"] != "").all()


def test_a_speed_up_is_computed_from_throughputs_or_taken_as_stated() -> None:
    found = {(one.model, one.backend, one.hardware): one for one in reference.published_speedups()}
    gpt2 = found["gpt2", "ortmodule_zero1", "8x V100-32GB (Azure ND40rs_v2)"]
    assert gpt2.ratio == pytest.approx(227.0 / 131.19)
    assert gpt2.flag == "typo-suspected"
    assert found["mistral-7b", "ortmodule", "8x V100-32GB"].ratio == pytest.approx(1.14)
    vit = found["vit-base", "ortmodule_zero1", "Azure ND40rs_v2 (V100-32GB)"]
    assert vit.ratio == pytest.approx(1144.553 / 1065.129)
    assert vit.flag == "max-batch"


def test_a_range_over_several_models_is_no_model_s_speed_up() -> None:
    assert not [one for one in reference.published_speedups() if one.flag == "range"]
    assert not [one for one in reference.published_speedups() if "range" in one.model]


def test_every_claim_has_a_test_and_every_test_a_claim() -> None:
    assert [claim.id for claim in reference.read_claims()] == list(TESTS)

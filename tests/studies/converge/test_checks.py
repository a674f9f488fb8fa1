"""What is refused of a way to a target, and what of it is hashed."""

import re

import pytest

from bench.config.compose import compose
from bench.config.identity import measured_settings
from bench.errors import UserError

CONVERGE = "measure=converge data=python_docs"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (
            "measure.launches=1",
            "several launches, each of which is a seed, and measure.launches=1 has no inter",
        ),
        ("measure.launches=0", "measure.launches=0 has no interval; set measure.launches=5."),
        (
            "measure.target_half_width=0.01",
            "with measure.evaluate_every equal steps are compared; set measure.target_half_width=null.",
        ),
        ("measure.repeats=3", "measure.repeats=3 would train a backend for longer than the others"),
        ("measure.preheat_s=5", "measure.preheat_s=5.0 would train a fast backend for more steps"),
        (
            "measure.batch=max device.memory_limit_gib=4",
            "gives each backend a batch, and so steps, of its own",
        ),
        ("measure.evaluate_every=0", "measure.evaluate_every must be at least 1, not 0."),
        ("measure.target_loss=0", "measure.target_loss must be above 0, not 0.0."),
        ("measure.margin_loss=-1", "measure.margin_loss must be above 0, not -1.0."),
        ("measure.target_loss=null", "measure.evaluate_every needs measure.target_loss"),
        ("measure.evaluate_every=null", "measure.target_loss has no effect without measure.evaluate_every; "),
        ("measure.target_loss=9", "at most 5.5, not 9: a model that has learnt nothing is there."),
        ("measure.margin_loss=3", "at most 0.5, not 3: learning little would equal learning much."),
        ("data=synthetic", "the loss on data that is never trained on, and data=synthetic has none"),
    ],
)
def test_a_way_to_a_target_that_means_nothing_is_refused(override: str, words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        compose([*CONVERGE.split(), "model=bert-tiny", "device=cpu", *override.split()])


def test_a_target_is_a_part_of_what_is_measured_only_where_there_is_one() -> None:
    keys = {"evaluate_every", "target_loss", "margin_loss"}
    assert not keys & measured_settings(compose())["measure"].keys(), (
        "older files would be of another comparison"
    )
    measured = measured_settings(compose([*CONVERGE.split(), "model=bert-tiny"]))["measure"]
    assert keys <= measured.keys()
    assert (measured["launches"], measured["repeats"], measured["preheat_s"]) == (5, 0, 0.0)

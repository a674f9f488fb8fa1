"""What of a comparison's overrides goes on record, and what they say."""

import pytest

from bench.config.compose import compose
from bench.config.identity import config_hash
from bench.config.overrides import last_values, repeatable, replace_override
from bench.errors import UserError

SEVERAL = ["device=cpu", "device.world_size=2", "device.nnodes=2", "device.rdzv_endpoint=10.0.0.1:29400"]


def test_what_does_not_change_the_measurement_is_left_out_and_the_order_stays() -> None:
    given = ["seed=3", "resume=true", "+hydra.verbose=true", "results_dir=a", "reports_dir=b", "track=mlflow"]
    assert repeatable([*given, "track.timeout_s=9", "model=gpt2"]) == ["seed=3", "model=gpt2"]


def test_where_the_user_s_own_choices_lie_goes_on_record() -> None:
    given = ["hydra.searchpath=[file://my/conf]", "model=mine"]
    assert repeatable(given) == given


def test_the_last_value_of_a_key_holds() -> None:
    assert last_values(["seed=1", "+x.y=[a,b]", "seed=3", "label=a=b"]) == {
        "seed": "3",
        "x.y": "[a,b]",
        "label": "a=b",
    }


def test_an_override_takes_the_place_of_those_with_its_key() -> None:
    given = ["measure=quick", "measure.rounds=2", "seed=1"]
    assert replace_override(given, "measure=thorough") == ["measure.rounds=2", "seed=1", "measure=thorough"]


def test_a_link_is_between_nodes_and_none_leaves_the_configuration_s_hash_as_it_was() -> None:
    free, held = (compose([*SEVERAL, f"device.link_gbit_per_s={rate}"]) for rate in ("null", "1"))
    assert config_hash(free) == config_hash(compose(SEVERAL)) != config_hash(held)
    for wrong in (["device=cpu", "device.link_gbit_per_s=1"], [*SEVERAL, "device.link_gbit_per_s=0"]):
        with pytest.raises(UserError, match="link_gbit_per_s"):
            compose(wrong)

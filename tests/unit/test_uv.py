"""The settings of pip hold for uv, which installs the packages."""

import pytest

from bench.setup.uv import LIKE_PIP, translate

pytestmark = pytest.mark.once

OWN = "https://own.example/simple"
"""Where pip looks if no setting says otherwise."""

LISTING = """\
:env:.cert='/etc/ssl/mirror.crt'
:env:.disable-pip-version-check='1'
:env:.find-links='/opt/wheels'
global.extra-index-url='https://first.example/simple\\nhttps://second.example/simple'
global.find-links='/opt/old /opt/older'
global.index-url='https://mirror.example/simple'
install.timeout='60'
"""


def test_where_packages_come_from_is_the_same_for_uv_and_the_environment_counts_more_than_a_file() -> None:
    assert translate(LISTING, {}, OWN) == LIKE_PIP | {
        "UV_INDEX": "https://mirror.example/simple https://first.example/simple",
        "UV_DEFAULT_INDEX": "https://second.example/simple",  # the one that uv looks into last
        "UV_FIND_LINKS": "/opt/wheels",
        "UV_HTTP_TIMEOUT": "60",
        "SSL_CERT_FILE": "/etc/ssl/mirror.crt",
    }


def test_the_own_index_of_pip_comes_before_those_that_are_added() -> None:
    variables = translate("global.extra-index-url='https://first.example/simple'", {}, OWN)
    assert (variables["UV_INDEX"], variables["UV_DEFAULT_INDEX"]) == (OWN, "https://first.example/simple")


def test_indexes_keep_their_places_where_a_variable_of_uv_names_some() -> None:
    listing = "global.extra-index-url='https://first.example/simple'"
    assert translate(listing, {"UV_DEFAULT_INDEX": "mine"}, OWN)["UV_INDEX"] == "https://first.example/simple"
    assert "UV_DEFAULT_INDEX" not in translate(listing, {"UV_INDEX": "mine"}, OWN)


def test_several_folders_of_wheels_are_separated_as_uv_wants_it() -> None:
    variables = translate("global.find-links='/opt/old /opt/older'", {}, OWN)
    assert variables["UV_FIND_LINKS"] == "/opt/old,/opt/older"


@pytest.mark.parametrize("variable", ["UV_DEFAULT_INDEX", "UV_INDEX_STRATEGY", "SSL_CERT_FILE"])
def test_a_variable_of_uv_that_is_set_stays(variable: str) -> None:
    assert variable in translate(LISTING, {}, OWN)
    assert variable not in translate(LISTING, {variable: "mine"}, OWN)


def test_without_settings_nothing_but_pip_s_ways_is_asked_for() -> None:
    assert translate("", {}, OWN) == LIKE_PIP

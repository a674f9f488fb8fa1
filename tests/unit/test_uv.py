"""The settings of pip hold for uv, which installs the packages."""

import pytest

from bench.setup.uv import LIKE_PIP, translate

pytestmark = pytest.mark.once

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
    assert translate(LISTING, {}) == LIKE_PIP | {
        "UV_DEFAULT_INDEX": "https://mirror.example/simple",
        "UV_INDEX": "https://first.example/simple https://second.example/simple",
        "UV_FIND_LINKS": "/opt/wheels",
        "UV_HTTP_TIMEOUT": "60",
        "SSL_CERT_FILE": "/etc/ssl/mirror.crt",
    }


def test_several_folders_of_wheels_are_separated_as_uv_wants_it() -> None:
    assert translate("global.find-links='/opt/old /opt/older'", {})["UV_FIND_LINKS"] == "/opt/old,/opt/older"


@pytest.mark.parametrize("variable", ["UV_DEFAULT_INDEX", "UV_INDEX_STRATEGY", "SSL_CERT_FILE"])
def test_a_variable_of_uv_that_is_set_stays(variable: str) -> None:
    assert variable in translate(LISTING, {})
    assert variable not in translate(LISTING, {variable: "mine"})


def test_without_settings_nothing_but_pip_s_ways_is_asked_for() -> None:
    assert translate("", {}) == LIKE_PIP

"""Installing by uv as pip is set up, with a uv and a pip that note what they were told."""

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from bench.setup import packages

pytestmark = pytest.mark.once

SCRIPT = packages.__file__


def test_pips_options_come_from_its_files_and_the_environment_wins() -> None:
    listed = """\
:env:.find-links='/env'
global.find-links='/global /more'
install.timeout='60'
global.timeout='30'
freeze.timeout='90'
global.quiet='1'
"""
    assert packages.options_of_pip(listed) == {"find-links": "/env", "timeout": "60", "quiet": "1"}


def test_uv_is_told_where_packages_come_from() -> None:
    variables = packages.variables_for_uv(
        {
            "index-url": "https://user:word@mirror/simple",
            "extra-index-url": "https://one/simple\nfile:///two",
            "find-links": "/wheels /more",
            "constraint": "requirements.txt",
            "trusted-host": "mirror",
            "cert": "/own.pem",
            "no-color": "1",
        }
    )
    told = {name: value for name, value in variables.items() if name not in packages.DEFAULTS}
    assert told == {
        "UV_DEFAULT_INDEX": "https://user:word@mirror/simple",
        "UV_INDEX": "https://one/simple file:///two",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_CONSTRAINT": "requirements.txt",
        "UV_BUILD_CONSTRAINT": "requirements.txt",
        "UV_INSECURE_HOST": "mirror",
        "SSL_CERT_FILE": "/own.pem",
    }


# For real: an environment of its own, and a wheel that only pip's configuration says where to find.


def wheel(folder: Path, version: str) -> None:
    """Write the smallest wheel there is."""
    folder.mkdir(exist_ok=True)
    info = f"thing-{version}.dist-info"
    with zipfile.ZipFile(folder / f"thing-{version}-py3-none-any.whl", "w") as file:
        file.writestr("thing.py", f"version = {version!r}\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: thing\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with pip and this one's uv, whose pip is configured by a file."""
    env = tmp_path_factory.mktemp("packages") / "env"
    venv.create(env, with_pip=True, symlinks=True)
    [site] = env.glob("lib/python*/site-packages")
    for path in Path(packages_of_uv()).parent.glob("uv*"):
        (site / path.name).symlink_to(path)
    (env / "bin" / "uv").symlink_to(Path(sys.executable).parent / "uv")
    wheel(env / "wheels", "1.0")
    wheel(env / "wheels", "1.1+cpu")
    (env / "pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {env / 'wheels'}\n")
    return env


def packages_of_uv() -> str:
    import uv

    return str(Path(uv.__file__).parent)


def install(env: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    return subprocess.run(
        [env / "bin" / "python", SCRIPT, *arguments],
        env={**inherited, "UV_OFFLINE": "1", "UV_NO_CACHE": "1", "HOME": str(env), **more},
        capture_output=True,
        text=True,
        check=False,
    )


def installed(env: Path) -> str:
    listed = subprocess.run(
        [env / "bin" / "python", "-m", "pip", "list", "--format=json"],
        capture_output=True,
        text=True,
        check=True,
    )
    return next(one["version"] for one in json.loads(listed.stdout) if one["name"] == "thing")


def test_uv_finds_what_only_pips_configuration_names(env: Path) -> None:
    done = install(env, "thing==1.0")
    assert (done.returncode, "uv could not" in done.stdout) == (0, False), done.stdout + done.stderr
    assert installed(env) == "1.0"


def test_a_build_at_hand_with_a_local_version_is_taken(env: Path) -> None:
    """That is how a build of torch for a CPU is found."""
    done = install(env, "thing==1.1")
    assert (done.returncode, "uv could not" in done.stdout) == (0, False), done.stdout + done.stderr
    assert installed(env) == "1.1+cpu"


def test_where_uv_fails_pip_installs(env: Path) -> None:
    done = install(env, "--force-reinstall", "thing==1.0", UV_FIND_LINKS=str(env / "nowhere"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "uv could not install it; pip does" in done.stdout
    assert installed(env) == "1.0"


def test_where_both_fail_so_does_the_script(env: Path) -> None:
    assert install(env, "nothing==1.0").returncode != 0

"""`make compare` as after a measurement: one committed file made slower, or a result of a new machine."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.compare.__main__ import main
from bench.machine.environment import hash_environment
from bench.results import csv_files
from bench.results.environment_cell import latest_environment
from bench.results.machines import name_machines
from tests.support.git import copy_committed, git
from tests.support.result_files import write_rows

INTEL = "intel-family6-model167-2-cores-8b1a"
KNOWN, UNKNOWN = "amd-family25-model17-2-cores-b93e", "amd-family99-model9-2-cores-0000"
STEM = "bert-mini-cpux2"
FULL_PATH = f"{STEM}-blas-full-f41f"


@pytest.fixture
def checkout(empty_checkout: Path) -> Path:
    """The present folder: a git checkout with the results of BERT-Mini that are committed here."""
    copy_committed(empty_checkout, "results/*/bench/bert-mini-cpux2*.csv", "results/*/machine.json")
    git("add", ".")
    git("commit", "-m", "measured")
    return empty_checkout / "results"


def slow_down(path: Path, backend: str, by: float) -> None:
    """Make the blocks of a backend take so much longer."""
    rows = csv_files.read(path)
    its = (rows["backend"] == backend) & (rows["status"] == "ok")
    rows.loc[its, "seconds"] *= by
    for column in ("samples_per_s", "model_flops_per_s", "roofline_share"):
        rows.loc[its, column] /= by
    write_rows(path, rows.to_dict("records"))


def change_environment(path: Path, **changes: Any) -> None:
    """Let a results file say that it was measured in a changed environment."""
    rows = csv_files.read(path)
    environment = latest_environment(rows) | changes
    cells = {"environment": json.dumps(environment), "environment_hash": hash_environment(environment)}
    write_rows(path, rows.assign(**cells).to_dict("records"))


def copy_to_a_new_machine(results: Path, stem: str) -> Path:
    """Write a machine of another identity, and a committed result as its own under another name."""
    path = results / UNKNOWN / "reproduce" / "mine-1234.csv"
    path.parent.mkdir(parents=True)
    shutil.copy(results / KNOWN / "bench" / f"{stem}.csv", path)
    machine = json.loads((results / KNOWN / "machine.json").read_text())
    machine["name"] = machine["name"].replace("family 25, model 17", "family 99, model 9")
    machine["identity"] |= {"family": 99, "model_number": 9}
    (results / UNKNOWN / "machine.json").write_text(json.dumps(machine))
    cpu = latest_environment(csv_files.read(path))["cpu"]
    change_environment(path, cpu=cpu | {"family": 99, "model_number": 9})
    return path


def test_a_planted_regression_is_shown_alone(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow_down(checkout / KNOWN / "bench" / f"{STEM}.csv", "ortmodule", by=1.3)
    slow_down(checkout / KNOWN / "bench" / f"{FULL_PATH}.csv", "ortmodule", by=0.99)
    assert main([]) == 1
    output = capsys.readouterr().out
    assert f"ortmodule of {KNOWN}/bench/{STEM}" in " ".join(output.split())
    assert "1 file did not become worse" in " ".join(output.split())
    assert output.count("REGRESSION") == 1
    assert FULL_PATH not in output


def put_on_host(path: Path, host: str | None, **slower: float) -> None:
    """Let a results file say on which host it was measured, with backends that are so much slower there."""
    if not path.exists():
        path.parent.mkdir(parents=True)
        for place in ("machine.json", f"bench/{path.name}"):
            shutil.copy(path.parents[2] / INTEL / place, path.parents[1] / place)
    change_environment(path, **({"host": host} if host else {}))
    rows = csv_files.read(path)
    for backend in set(rows["backend"]):
        slow_down(path, backend, slower.get(backend, slower.get("all", 1.0)))


HOSTS: dict[str, tuple[str | None, str | None, dict[str, float], str]] = {
    "all slower on the same host": ("one", "one", {"all": 1.2}, "REGRESSION: throughput"),
    "one slower on the same host": ("one", "one", {"ortmodule": 1.1}, "REGRESSION: throughput"),
    "all slower on another host": ("one", "two", {"all": 1.2}, ""),
    "one a little slower on another host": ("one", "two", {"ortmodule": 1.1}, ""),
    "one much slower on another host": ("one", "two", {"ortmodule": 1.4}, "REGRESSION: speedup"),
    "all slower, the host unknown before": (None, "two", {"all": 1.2}, ""),
    "all slower, both hosts unknown": (None, None, {"all": 1.2}, ""),
}
"""What was measured on which host before and now, and what `make compare` says of it."""


@pytest.mark.parametrize("case", HOSTS)
def test_raw_speed_is_judged_on_the_same_host_only(
    checkout: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    before, now, slower, words = HOSTS[case]
    path = checkout / INTEL / "bench" / f"{STEM}.csv"
    put_on_host(path, before)
    git("commit", "-am", "known")
    put_on_host(path, now, **slower)
    assert main([]) == (1 if words else 0)
    output = " ".join(capsys.readouterr().out.split())
    assert words in output
    assert ("REGRESSION" in output) is bool(words)
    assert ("judged is the change of each speed-up" in output) is (before != now or before is None)


@pytest.mark.parametrize(
    ("slower", "words"), [({"all": 1.3}, ""), ({"ortmodule": 1.4}, "REGRESSION: speedup")]
)
def test_a_new_host_of_a_known_kind_is_compared_with_one_of_its_kind_and_replaces_none(
    checkout: Path, capsys: pytest.CaptureFixture[str], slower: dict[str, float], words: str
) -> None:
    put_on_host(checkout / f"{INTEL}-abc123" / "bench" / f"{STEM}.csv", "another", **slower)
    assert git("status", "--short").split() == ["??", f"results/{INTEL}-abc123/"]
    assert main([]) == (1 if words else 0)
    output = capsys.readouterr().out
    assert words in output
    assert ("REGRESSION" in output) is bool(words)
    assert words or len(output.splitlines()) <= 25
    assert "5.0% between hosts, assumed until 3 pairs of hosts are known" in " ".join(output.split())


def test_machines_of_one_name_are_told_apart_by_their_folders(checkout: Path) -> None:
    copy_to_a_new_machine(checkout, STEM)
    shutil.copy(checkout / KNOWN / "machine.json", checkout / UNKNOWN / "machine.json")
    names = name_machines(checkout)
    assert (names[KNOWN], names[UNKNOWN]) == (
        "AMD EPYC (family 25, model 17), host b93e",
        "AMD EPYC (family 25, model 17), host 0000",
    )
    assert names["intel-family6-model207-2-cores-2ffd"] == "Intel Xeon (family 6, model 207)"

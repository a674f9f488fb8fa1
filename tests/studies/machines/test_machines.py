"""Comparisons that several machines made: a row for each, and the mean of the hosts of a kind."""

import math

import pytest

from bench.analysis.comparison_results import ComparisonResults
from bench.compare.kinds import HostSpread, group_by_comparison, group_by_kind
from bench.report.render.markdown import render_markdown
from bench.results.records import Record
from bench.studies.machines.pages import compare_backends, machines_page, machines_table
from tests.support.factories import ENVIRONMENT, two_backends, with_environment
from tests.support.result_files import table_of_records


def results(records: list[Record], stem: str = "bert-tiny-cpux2") -> ComparisonResults:
    return ComparisonResults(stem=stem, rows=table_of_records(records))


# Hosts and kinds


def test_each_machine_has_a_row_and_the_shortest_name_of_several_counts() -> None:
    by_machine = {
        "one": [results(two_backends(1, ort=1.0), "longer-name"), results(two_backends(2), "name")],
        "two": [results(of_kind(8, two_backends(3)))],
        "three": [results(of_kind(9, two_backends(4)))],
    }
    (same,) = group_by_comparison(by_machine)
    (ort,) = compare_backends(same, HostSpread())
    assert (ort.backend, ort.base) == ("ortmodule", "pytorch")
    assert list(ort.speedups) == ["one", "two", "three"]
    assert ort.speedups["one"].ratio == pytest.approx(2.0 / 1.5, rel=0.01)


def of_kind(family: int, records: list[Record]) -> list[Record]:
    """The same on another kind of machine."""
    return with_environment(records, cpu=ENVIRONMENT["cpu"] | {"family": family})


def test_hosts_of_a_kind_count_as_one_machine_of_which_their_mean_is_known() -> None:
    by_machine = {
        "one": [results(two_backends(1, ort=1.4))],
        "two": [results(two_backends(2, ort=1.6))],
        "other": [results(of_kind(8, two_backends(3)))],
    }
    (same,) = group_by_comparison(by_machine)
    (ort,) = compare_backends(same, HostSpread())
    assert group_by_kind(same.machines) == [["one", "two"], ["other"]]
    mean = ort.kinds["one"]
    assert mean.ratio == pytest.approx(2.0 / math.sqrt(1.4 * 1.6), rel=0.01)
    assert mean.low is not None
    assert math.log(mean.ratio / mean.low) == pytest.approx(1.96 * 0.05 / math.sqrt(2), rel=0.05)
    (first, second, hosts, third) = (row[0] for row in machines_table(same, HostSpread()).rows)
    assert [first, second, hosts, third] == ["one", "two", "mean of these 2 hosts", "other"]


# The table


def test_the_table_has_a_row_for_each_machine() -> None:
    by_machine = {f"machine {n}": [results(of_kind(n, two_backends(n)))] for n in (1, 2, 3)}
    page = render_markdown(machines_page(group_by_comparison(by_machine), HostSpread()))
    lines = [line for line in page.splitlines() if line.startswith("|")]
    assert lines[0] == "| machine | GFLOP/s: PyTorch, ONNX Runtime | ortmodule over pytorch |"
    assert [line.split("|")[1].strip() for line in lines[2:]] == [*by_machine]
    del by_machine["machine 2"], by_machine["machine 3"]
    page = render_markdown(machines_page(group_by_comparison(by_machine), HostSpread()))
    assert "No two machines have made the same comparison." in page

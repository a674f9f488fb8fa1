"""Which comparisons a report may show and average together."""

from bench.report.content.collection import Collection, ReportedComparison
from tests.support.factories import ENVIRONMENT, two_backends, with_environment
from tests.support.result_files import table_of_records


def reported(stem: str, **changes: object) -> ReportedComparison:
    rows = table_of_records(with_environment(two_backends(), **changes))
    return ReportedComparison(stem=stem, rows=rows)


def test_comparisons_of_one_machine_share_a_panel() -> None:
    panels = Collection(comparisons=[reported("a"), reported("b")]).panels
    assert [[one.stem for one in panel] for panel in panels.values()] == [["a", "b"]]
    (heading,) = panels
    assert "Example CPU (family 7, model 3), 2 cores" in heading


def test_cpus_that_differ_in_instruction_sets_alone_have_panels_of_their_own() -> None:
    other = ENVIRONMENT["cpu"] | {"instruction_sets": ["avx2"]}
    panels = Collection(comparisons=[reported("a"), reported("b", cpu=other), reported("c")]).panels
    assert [[one.stem for one in panel] for panel in panels.values()] == [["a", "c"], ["b"]]
    assert [heading.rpartition("instruction sets ")[2] for heading in panels] == ["avx avx2 fma", "avx2"]

"""A backend that is another one than that of the same name in the earlier file."""

import pytest

from bench.plugins.compare.changes import compare
from bench.plugins.compare.differences import named_differences
from tests.support.factories import two_backends
from tests.support.result_files import table_of_records

TOLERANCES = {"throughput": 0.02, "speedup": 0.02, "memory": 0.05}


@pytest.mark.parametrize(
    ("column", "value", "named"),
    [
        ("engine", "compile", "engine ortmodule, now compile"),
        ("engine_options", "compute_optimizer=false", "engine_options blank, now compute_optimizer=false"),
        ("optimizer", "adamw_8bit", "optimizer adamw_fused, now adamw_8bit"),
        ("sharding", "zero2", "sharding ddp, now zero2"),
        ("loop", "trainer", "loop bare, now trainer"),
        ("loader", "workers=2", "loader blank, now workers=2"),
        ("slowed_by", 0.05, "slowed_by 0, now 0.05"),
    ],
)
def test_another_backend_of_the_same_name_has_no_ratio_and_is_named(
    column: str, value: str | float, named: str
) -> None:
    base, new = (table_of_records(two_backends()) for _ in range(2))
    new.loc[new["backend"] == "ortmodule", column] = value
    same, other = compare(base, new, TOLERANCES)
    assert same.verdict == "same"
    assert (other.ratio, other.memory_change, other.verdict, other.regressions) == (None, None, "", ())
    assert other.base == other.new != ""
    assert f"ortmodule: {named}" in named_differences(base, new)


def test_a_choice_that_two_backends_swap_is_seen() -> None:
    base, new = (table_of_records(two_backends()) for _ in range(2))
    for table, name in ((base, "pytorch"), (new, "ortmodule")):
        table.loc[table["backend"] == name, "attention"] = "sdpa"
    assert [change.ratio for change in compare(base, new, TOLERANCES)] == [None, None]


def test_a_speedup_over_another_reference_of_the_same_name_is_no_change() -> None:
    base, new = (table_of_records(two_backends()) for _ in range(2))
    new.loc[new["backend"] == "pytorch", "optimizer"] = "adamw_fused"
    _, other = compare(base, new, TOLERANCES)
    assert other.ratio is not None
    assert other.speedup_change is None


def test_another_reference_and_another_kernel_of_the_optimizer_are_named() -> None:
    base, new = (table_of_records(two_backends()) for _ in range(2))
    base["optimizer_implementation"], new["optimizer_implementation"] = "foreach", "fused"
    new["reference"] = "ortmodule"
    assert named_differences(base, new) == [
        "reference: pytorch, now ortmodule",
        "optimizer_implementation: foreach, now fused",
    ]

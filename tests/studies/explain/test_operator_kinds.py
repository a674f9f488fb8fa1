"""Which operator does which kind of work."""

import pytest
import yaml  # type: ignore[import-untyped]

from bench.studies.explain.operator_kinds import HOST, KINDS, TABLE, WAITING, Operator, kind_of


def an_operator(name: str, library: str = "torch", part: str = "") -> Operator:
    return Operator(library=library, name=name, part=part, calls=1, seconds=1.0)


def test_the_table_knows_the_kinds_that_are_shown_and_no_others() -> None:
    for kinds in yaml.safe_load(TABLE.read_text(encoding="utf-8")).values():
        assert set(kinds) <= set(KINDS) - {"optimizer", "other"}


@pytest.mark.parametrize(
    ("library", "name", "kind"),
    [
        ("torch", "aten::addmm", "matrix products"),
        ("torch", "aten::_log_softmax_backward_data", "loss"),
        ("torch", "aten::_softmax_backward_data", "softmax"),
        ("torch", "aten::native_layer_norm", "normalisation"),
        ("torch", "aten::gelu_backward", "elementwise"),
        ("torch", "aten::embedding_dense_backward", "embedding"),
        ("torch", "aten::native_dropout", "dropout"),
        ("torch", "aten::copy_", "copies"),
        ("torch", "AddmmBackward0", "host"),
        ("torch", "graph_0_cpp_fused_native_layer_norm_3", "normalisation"),
        ("torch", "graph_0_cpp_fused_add_gelu_1", "elementwise"),
        ("onnxruntime", "FusedMatMul", "matrix products"),
        ("onnxruntime", "SoftmaxCrossEntropyLossInternalGrad", "loss"),
        ("onnxruntime", "SoftmaxGrad_13", "softmax"),
        ("onnxruntime", "BiasGeluFusion", "elementwise"),
        ("onnxruntime", "BitmaskDropout", "dropout"),
    ],
)
def test_operators_have_the_kind_of_what_they_compute(library: str, name: str, kind: str) -> None:
    assert kind_of(an_operator(name, library)) == kind


def test_whatever_runs_in_the_optimizer_s_step_is_the_optimizer_s() -> None:
    assert kind_of(an_operator("aten::mul_", part="optimizer")) == "optimizer"


def test_time_without_an_operator_is_waiting_or_the_host_s() -> None:
    assert kind_of(an_operator(WAITING)) == "communication"
    assert kind_of(an_operator(HOST)) == kind_of(an_operator(HOST, "onnxruntime")) == "host"


def test_what_nobody_knows_is_other_and_a_name_of_one_library_is_unknown_in_another() -> None:
    assert kind_of(an_operator("aten::never_heard_of")) == "other"
    assert kind_of(an_operator("Gemm", "torch")) == "other"

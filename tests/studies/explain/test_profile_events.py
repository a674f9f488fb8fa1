"""What a device did in a step: every moment once, and of the operator that started it."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

from bench.errors import LONGEST_MESSAGE, LaunchFailed
from bench.studies.explain.operator_kinds import HOST, Operator, kind_of
from bench.studies.explain.profile_events import (
    STEP,
    TOLERANCE_NS,
    EngineKernel,
    EngineProfile,
    Event,
    Spent,
    divide_step,
    short_name,
)

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
COPY = "Memcpy HtoD (Pinned -> Device)"
ADAM = "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float, int> >(long, int)"
LENGTH = 1_000_000
"""Of a step, in nanoseconds."""


def on_host(name: str, start: int, end: int, id: int = 0, operator: int = 0) -> Event:
    return Event(name=name, on_device=False, start=start, end=end, id=id, operator=operator)


def on_device(
    name: str, start: int, end: int, id: int = 0, operator: int = 0, is_range: bool = False
) -> Event:
    return Event(name=name, on_device=True, start=start, end=end, id=id, operator=operator, is_range=is_range)


def operators_of(events: Iterable[Event], kernels: Sequence[EngineKernel] = ()) -> dict[str, Operator]:
    """By name; checks that all of the step is there, and nothing less than nothing."""
    spent = Spent()
    spent.add_work(divide_step([on_host(STEP, 0, LENGTH, 1), *events]), kernels)
    operators = spent.operators(LENGTH)
    assert sum(nanoseconds_of(operator) for operator in operators) == LENGTH
    assert all(operator.seconds > 0 for operator in operators)
    assert len({operator.name for operator in operators}) == len(operators)
    return {operator.name: operator for operator in operators}


def nanoseconds_of(operator: Operator) -> int:
    return round(1e9 * operator.seconds)


def times_of(events: Iterable[Event], kernels: Sequence[EngineKernel] = ()) -> dict[str, int]:
    return {name: nanoseconds_of(each) for name, each in operators_of(events, kernels).items()}


def test_communication_counts_only_where_the_device_does_nothing_else() -> None:
    assert times_of(
        [
            on_host("aten::mm", 0, 10, 2),
            on_device("gemm", 100, 400, operator=2),
            on_device(NCCL, 300, 900),
            on_device("gemm", 600, 700, operator=2),
        ]
    ) == {"aten::mm": 400, "ncclDevKernel_AllReduce_Sum_f32_RING_LL": 200 + 200, HOST: LENGTH - 800}


def test_what_lies_outside_of_the_step_is_cut_off() -> None:
    assert times_of(
        [
            on_device("before", -50, 0),
            on_device("at_its_beginning", -50, 20),
            on_device("at_its_end", LENGTH - 5, LENGTH + 9),
            on_device("after", LENGTH, LENGTH + 9),
        ]
    ) == {"at_its_beginning": 20, "at_its_end": 5, HOST: LENGTH - 25}


def test_every_moment_has_the_owner_that_looking_at_each_alone_gives_it() -> None:
    draw = random.Random(0)
    events = []
    for number in range(40):
        start = draw.randrange(-20, 300)
        name = draw.choice(["kernel", "Memcpy", "nccl"]) + f"_{number}"
        events.append(on_device(name, start, start + draw.randrange(1, 60)))
    expected: Counter[str] = Counter()
    for moment in range(400):
        there = [event for event in events if event.start <= moment < event.end]
        order = {"kernel": 0, "Memcpy": 1, "nccl": 2}
        first = min(there, key=lambda e: (order[e.name.split("_")[0]], e.start), default=None)
        expected[first.name if first else HOST] += 1
    expected[HOST] += LENGTH - 400
    assert times_of(events) == expected


def test_kernels_started_in_an_optimizer_s_step_are_its_though_no_operator_started_them() -> None:
    operators = operators_of(
        [
            on_host("Optimizer.step#FusedAdam.step", 100, 200, 2),
            on_host("cudaLaunchKernel", 150, 155, 71),
            on_device(ADAM, 500, 900, 71),
            on_host("aten::mul_", 160, 165, 3),
            on_host("cudaLaunchKernel", 161, 164, 72, operator=3),
            on_device("mul", 900, 910, 72, operator=3),
            on_host("cuLaunchKernel", 250, 255, 73),
            on_device("later", 950, 960, 73),
            on_host("cudaLaunchKernelExC", 170, 175, 74),
            on_device(NCCL, 970, 990, 74),
            on_host("aten::div_", 180, 185, 4),
            on_device("div", 990, 999, 75, operator=4),  # without its launch: when its operator began
        ]
    )
    spent = {(each.name, each.part): nanoseconds_of(each) for each in operators.values()}
    assert spent == {
        ("multi_tensor_apply_kernel", "optimizer"): 400,
        ("aten::mul_", "optimizer"): 10,
        ("later", ""): 10,
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", ""): 20,
        ("aten::div_", "optimizer"): 9,
        (HOST, ""): LENGTH - 449,
    }


def test_a_number_of_cuda_s_is_none_of_torch_s() -> None:
    """Both count from 1: operator 7 started the launch 9, and something else the launch 7."""
    operators = operators_of(
        [
            on_host("Optimizer.step#Adam.step", 500, 600, 9),
            on_host("aten::mm", 0, 50, 7),
            on_host("cudaLaunchKernel", 10, 15, 9, operator=7),
            on_host("cudaLaunchKernel", 520, 525, 7),
            on_device("gemm", 100, 200, 9, operator=7),
            on_device("adam", 700, 900, 7),
        ]
    )
    assert (operators["aten::mm"].part, nanoseconds_of(operators["aten::mm"])) == ("", 100)
    assert (operators["adam"].part, nanoseconds_of(operators["adam"])) == ("optimizer", 200)


def test_a_call_that_starts_several_kernels_is_one_and_framework_owns_none() -> None:
    operators = operators_of(
        [
            on_host("aten::mm", 0, 10, 2),
            on_device("splitk", 100, 200, 60, operator=2),
            on_device("reduce", 200, 210, 61, operator=2),
            on_host("aten::mm", 20, 30, 3),
            on_device("splitk", 300, 310, 62, operator=3),
            on_host("FlashAttentionBackward", 40, 50, 4),
            on_device("void flash_bwd<64>(int)", 400, 410, 63, operator=4),
            on_host("## Call CompiledFxGraph fx ##", 40, 50, 5),
            on_device("triton_poi_fused_add_0", 500, 510, 64, operator=5),
            on_device("triton_poi_fused_add_0", 510, 520, 64, operator=5),
        ]
    )
    assert {name: each.calls for name, each in operators.items()} == {
        "aten::mm": 2,
        "flash_bwd": 1,
        "triton_poi_fused_add_0": 1,
        HOST: 0,
    }
    assert nanoseconds_of(operators["aten::mm"]) == 120


def test_a_range_with_a_name_is_no_work_but_a_kernel_called_like_its_operator_is() -> None:
    assert times_of(
        [
            on_host("nccl:all_reduce", 0, 10, 2),
            on_device("nccl:all_reduce", 0, 900, 2, is_range=True),
            on_device(STEP, 0, 900, 1, is_range=True),
            on_host("triton_poi_fused_add_0", 20, 30, 3),
            on_device("triton_poi_fused_add_0", 500, 510, 64, operator=3),
            on_device("triton_poi_fused_add_0", 600, 610, 65),
        ]
    ) == {"triton_poi_fused_add_0": 20, HOST: LENGTH - 20}


def check_refusal(failure: LaunchFailed) -> None:
    assert failure.status == "unsupported"
    assert len(failure.message) < LONGEST_MESSAGE
    assert "measure.explain=false" in failure.message


@pytest.mark.parametrize(
    "seen", [[], [on_device(STEP, 0, 900, 1, is_range=True)], [on_device("late", LENGTH, LENGTH + 1)]]
)
def test_a_step_of_which_the_profiler_saw_nothing_is_refused(seen: list[Event]) -> None:
    with pytest.raises(LaunchFailed, match="saw nothing of what the GPU did") as failure:
        operators_of([on_host("aten::mm", 0, 10, 2), *seen])
    check_refusal(failure.value)


def a_kernel(name: str, start: int, end: int) -> EngineKernel:
    return EngineKernel(name=name, start=start, end=end)


def test_a_kernel_that_an_engine_started_is_of_the_node_during_which_it_was_started() -> None:
    """The nodes of the host take 20 ns each, their kernels up to 400."""
    kernels = [a_kernel("MatMul", 100, 120), a_kernel("Gelu", 120, 140), a_kernel("MatMul", 150, 170)]
    operators = operators_of(
        [
            on_host("_ORTModuleFunction", 50, 300, 2),
            on_host("cudaLaunchKernel", 105, 110, 60, operator=2),
            on_host("cudaLaunchKernel", 111, 119, 61, operator=2),
            on_host("cudaLaunchKernel", 125, 130, 62, operator=2),
            on_host("cudaMemcpyAsync", 145, 148, 63, operator=2),
            on_host("cudaLaunchKernel", 151, 155, 64, operator=2),
            on_host("aten::embedding", 171, 180, 3),
            on_host("cudaLaunchKernel", 172, 175, 65, operator=3),
            on_device("sgemm", 200, 500, 60, operator=2),
            on_device("split", 500, 600, 61, operator=2),
            on_device("gelu", 600, 610, 62, operator=2),
            on_device(COPY, 610, 615, 63, operator=2),
            on_device("sgemm", 615, 1000, 64, operator=2),
            on_device("gather", 1000, 1005, 65, operator=3),
        ],
        kernels,
    )
    assert {(each.library, each.name, each.calls): nanoseconds_of(each) for each in operators.values()} == {
        ("onnxruntime", "MatMul", 2): 785,
        ("onnxruntime", "Gelu", 1): 10,
        ("onnxruntime", COPY, 1): 5,
        ("torch", "aten::embedding", 1): 5,
        ("torch", HOST, 0): LENGTH - 805,
    }
    assert kind_of(operators[COPY]) == "copies"


CALLS = [(100_000, 200_000), (300_000, 400_000)]


def a_profile(later: int = 0, *, executions: int = 2) -> EngineProfile:
    """Executions that begin 20 µs after their call and end 20 µs before it does, by a clock that differs."""
    return EngineProfile(
        executions=[(start + 20_000 + later, end - 20_000 + later) for start, end in CALLS[:executions]],
        kernels=[
            a_kernel("MatMul", start + shift + later, start + shift + later + 10_000)
            for start, _ in CALLS
            for shift in (21_000, 40_000)
        ],
    )


def test_an_engine_s_kernels_are_those_of_the_calls_that_torch_saw() -> None:
    assert [kernel.start for kernel in a_profile().kernels_within(CALLS[1:])] == [321_000, 340_000]
    assert len(a_profile(20_000 + TOLERANCE_NS).kernels_within(CALLS)) == 4


@pytest.mark.parametrize(
    "profile",
    [
        a_profile(20_001 + TOLERANCE_NS),
        a_profile(-20_001 - TOLERANCE_NS),
        a_profile(200_000),
        a_profile(10**12),
        a_profile(executions=1),
        EngineProfile(executions=[(120_000, 130_000), (140_000, 180_000), (320_000, 380_000)]),
    ],
)
def test_an_engine_s_profile_by_another_clock_or_cut_off_is_refused(profile: EngineProfile) -> None:
    with pytest.raises(LaunchFailed, match="one execution within each call") as failure:
        profile.kernels_within(CALLS)
    check_refusal(failure.value)


def test_on_a_cpu_an_engine_s_kernels_replace_its_calls_and_the_rest_is_its_host_s() -> None:
    spent = Spent()
    spent.add("_ORTModuleFunction", 100)
    spent.add("_ORTModuleFunctionBackward", 50)
    spent.add("aten::embedding", 25)
    spent.divide_engine_calls([a_kernel("MatMul", 0, 60), a_kernel("MatMul", 70, 80)])
    found = {(each.library, each.name, each.calls): nanoseconds_of(each) for each in spent.operators(200)}
    assert found == {
        ("onnxruntime", "MatMul", 2): 70,
        ("onnxruntime", HOST, 0): 80,
        ("torch", "aten::embedding", 1): 25,
        ("torch", HOST, 0): 25,
    }


@pytest.mark.parametrize(
    ("kernel", "short", "kind"),
    [
        (NCCL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "communication"),
        (COPY, COPY, "copies"),
        ("Memset (Device)", "Memset (Device)", "copies"),
        (ADAM, "multi_tensor_apply_kernel", "elementwise"),
        (
            "void at::native::(anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange"
            "(at::Tensor const&)::{lambda(long)#1}>(int, {lambda(long)#1})",
            "at::native::elementwise_kernel_with_index",
            "elementwise",
        ),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_16x6_tn_align4>"
            "(cutlass_80_tensorop_s1688gemm_128x64_16x6_tn_align4::Params)",
            "cutlass::Kernel2",
            "matrix products",
        ),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn", "matrix products"),
        ("triton_per_fused_native_layer_norm_2", "triton_per_fused_native_layer_norm_2", "normalisation"),
    ],
)
def test_a_kernel_s_own_name_is_short_and_of_a_kind(kernel: str, short: str, kind: str) -> None:
    assert short_name(kernel) == short
    assert kind_of(Operator(library="torch", name=short, part="", calls=1, seconds=1.0)) == kind

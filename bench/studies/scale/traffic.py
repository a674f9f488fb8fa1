"""The collectives of a step under each sharding, as the libraries were counted to do them.

In elements per parameter that a rank sends, the textbook has 2 for data parallelism and ZeRO stages 1 and 2,
and 3 for stage 3 and FSDP (Rajbhandari et al. 2020, arXiv:1910.02054, section 7; Zhao et al. 2023,
arXiv:2304.11277, section 3). What a step really asks the communication library for was counted
(`measure.collectives=count`), and the rules here give those bytes; where they are not the textbook's, the
rule says why.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from bench.studies.collectives.sent import Collective, sent_bytes
from bench.studies.scale.model_facts import ModelFacts

FORWARD, BACKWARD, AFTER_BACKWARD, AFTER_UPDATE = "forward", "backward", "after backward", "after update"
"""When collectives happen on a GPU: along with the forward or the backward pass, or where nothing is computed
meanwhile."""

MIB = 2**20

DDP_FIRST_BUCKET, DDP_BUCKET = 1 * MIB, 25 * MIB
"""Bytes of gradients that DistributedDataParallel sends at once
(torch.distributed._DEFAULT_FIRST_BUCKET_BYTES, and its argument bucket_cap_mb)."""

DEEPSPEED_BUCKET = 500_000_000
"""Elements that DeepSpeed sends at once, by default; conf/ limits them to the model's."""

MAX_LIVE = 1_000_000_000
"""Parameters that DeepSpeed's stage 3 keeps gathered by default (stage3_max_live_parameters): in a smaller
model all weights are still gathered when the backward pass begins."""

MAX_PERSISTENT = 100_000
"""Elements of a tensor that DeepSpeed's stage 3 leaves whole on every rank by default
(stage3_param_persistence_threshold); it gathers those after the update."""

SHARDINGS = ("ddp", "zero_redundancy", "zero1", "zero2", "zero3", "fsdp2")  # whose traffic is known


@dataclass(frozen=True)
class Traffic:
    """Collectives of one kind in a step."""

    kind: str  # of `bench.studies.collectives.sent.SENT`
    sizes: list[int]  # elements of each call, in order
    moment: str  # when they happen
    element_bytes: int = 4
    each_pass: bool = False  # it happens with every micro-batch, and not once a step

    @property
    def elements(self) -> int:
        """Elements of all calls together."""
        return sum(self.sizes)


def traffic_of(sharding: str, facts: ModelFacts, *, ranks: int, sixteen_bits: bool = False) -> list[Traffic]:
    """The collectives of a step under one of `SHARDINGS`; ValueError if it is another.

    `sixteen_bits` says whether FSDP2 gathers weights in 16 bits; the other shardings' autocast leaves fp32.
    """
    if ranks == 1:
        return []
    tensors, parameters, layers = facts.tensors, facts.trainable, max(1, facts.layers)
    match sharding:
        case "ddp":
            return [Traffic("all_reduce", ddp_buckets(tensors), BACKWARD)]
        case "zero_redundancy":  # each rank sends the parameters that it has updated: 3 instead of 2
            gradients = Traffic("all_reduce", ddp_buckets(tensors), BACKWARD)
            return [gradients, Traffic("broadcast", [parameters], AFTER_UPDATE)]
        case "zero1" | "zero2":
            return _deepspeed(sharding, parameters, ranks)
        case "zero3":
            return _stage_3(tensors, ranks, layers)
        case "fsdp2":
            in_layers = facts.layer_parameters if facts.layers else parameters
            return _fsdp2(in_layers, parameters - in_layers, layers, gathered_bytes=2 if sixteen_bits else 4)
        case _:
            raise ValueError(f"what sharding={sharding} sends is not known")


def _fsdp2(in_layers: int, beside: int, layers: int, *, gathered_bytes: int) -> list[Traffic]:
    """A layer at a time. What lies beside the layers stays gathered after the forward pass, as
    fully_shard's root does (reshard_after_forward in torch/distributed/fsdp/_fully_shard): a little less
    than the textbook's 3."""
    ends = [in_layers * number // layers for number in range(layers + 1)]
    each = [end - start for start, end in itertools.pairwise(ends) if end > start]
    root = [beside] if beside else []
    return [
        Traffic("all_gather", root + each, FORWARD, gathered_bytes, each_pass=True),
        Traffic("all_gather", each, BACKWARD, gathered_bytes, each_pass=True),
        Traffic("reduce_scatter", each + root, BACKWARD),
    ]


def in_buckets(elements: int, bucket: int) -> list[int]:
    """Elements of each call; the last call may have fewer."""
    full, rest = divmod(elements, bucket)
    return [bucket] * full + ([rest] if rest else [])


def ddp_buckets(tensors: Sequence[int]) -> list[int]:
    """Elements of each of DDP's buckets: whole tensors, last ones first, until a bucket's limit is reached.

    So torch's reducer begins; after the first step it goes by the order in which gradients came, which is
    about the same (compute_bucket_assignment_by_size in torch/csrc/distributed/c10d/reducer.cpp).
    """
    buckets, filled, limit = [], 0, DDP_FIRST_BUCKET
    for elements in reversed(tensors):
        filled += elements
        if 4 * filled >= limit:
            buckets.append(filled)
            filled, limit = 0, DDP_BUCKET
    return [*buckets, filled] if filled else buckets


def _deepspeed(sharding: str, parameters: int, ranks: int) -> list[Traffic]:
    """Stages 1 and 2.

    DeepSpeed 0.16.9 averages a bucket of gradients that belong to several ranks by one all-reduce, and each
    rank then keeps its part of the result (stage_1_and_2.py, allreduce_and_scatter, by
    use_multi_rank_bucket_allreduce, on by default), where the paper has a reduce-scatter, which sends half
    as much: 3 instead of 2.
    """
    gradients = Traffic(
        "all_reduce",
        in_buckets(parameters, DEEPSPEED_BUCKET),
        BACKWARD if parameters > DEEPSPEED_BUCKET else AFTER_BACKWARD,  # one bucket is full at the end
        each_pass=sharding == "zero2",  # which keeps no whole gradients to add to
    )
    weights = in_buckets(_padded(parameters, 2 * ranks), DEEPSPEED_BUCKET)
    return [gradients, Traffic("all_gather", weights, AFTER_UPDATE)]


def _stage_3(tensors: Sequence[int], ranks: int, layers: int) -> list[Traffic]:
    """Stage 3: of a model that may stay gathered, weights are gathered once a step and not twice: 2, not 3.

    Each tensor is divided by itself, and so padded by itself.
    """
    padded = [_padded(elements, ranks) for elements in tensors]
    small = [_padded(elements, ranks) for elements in tensors if elements <= MAX_PERSISTENT]
    large = sum(padded) - sum(small)
    by_layer = in_buckets(large, -(-large // layers)) if large else []
    gathered_again = sum(tensors) > MAX_LIVE
    sent = [
        Traffic("all_gather", by_layer, FORWARD, each_pass=gathered_again),
        Traffic("reduce_scatter", in_buckets(sum(padded), DEEPSPEED_BUCKET), BACKWARD, each_pass=True),
        Traffic("all_gather", by_layer if gathered_again else [], BACKWARD, each_pass=True),
        Traffic("all_gather", small, AFTER_UPDATE),  # one by one
    ]
    return [each for each in sent if each.sizes]


def _padded(elements: int, multiple: int) -> int:
    return -(-elements // multiple) * multiple


def sent_in_a_step(traffic: Sequence[Traffic], ranks: int, grad_accum: int, *, least_bytes: int = 0) -> float:
    """Bytes that a rank sends in calls of more than `least_bytes`, with `grad_accum` micro-batches a step."""
    total = 0.0
    for each in traffic:
        sizes = [elements * each.element_bytes for elements in each.sizes]
        sent = sum(size for size in sizes if size > least_bytes)
        counted = Collective(kind=each.kind, bytes=sent, element_bytes=each.element_bytes)
        total += sent_bytes(counted, ranks) * (grad_accum if each.each_pass else 1)
    return total

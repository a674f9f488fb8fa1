"""What a step's collectives carry under each sharding: as its authors say, and as the libraries do it.

The textbook's volume, in numbers per parameter that a rank sends (Rajbhandari et al. 2020,
arXiv:1910.02054, section 7; Zhao et al. 2023, arXiv:2304.11277, section 3): data parallelism 2, ZeRO stages
1 and 2 also 2, stage 3 and FSDP 3. What a step really asks the communication library for was counted
(`measure.parts=step`), and the rules here give those numbers; where they are not the textbook's, the rule
says why.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from bench.results.collectives import Collective, sent_bytes
from bench.results.step_parts import ModelFacts

FORWARD, BACKWARD, AFTER_BACKWARD, AFTER_UPDATE = "forward", "backward", "after backward", "after update"
"""When a sending happens: along with the forward or the backward pass, or where nothing is computed
meanwhile."""

MIB = 2**20

DDP_FIRST_BUCKET, DDP_BUCKET = 1 * MIB, 25 * MIB
"""Bytes of gradients that DistributedDataParallel sends at once
(torch.distributed._DEFAULT_FIRST_BUCKET_BYTES, and its argument bucket_cap_mb)."""

DEEPSPEED_BUCKET = 500_000_000
"""Numbers that DeepSpeed sends at once, by default; conf/ limits them to the model's."""

MOST_LIVE = 1_000_000_000
"""Parameters that DeepSpeed's stage 3 keeps gathered by default (stage3_max_live_parameters): of a smaller
model the backward pass finds all weights as the forward pass left them."""

MOST_PERSISTENT = 100_000
"""Numbers of a tensor that DeepSpeed's stage 3 leaves whole on every rank by default
(stage3_param_persistence_threshold); it gathers those after the update."""

TEXTBOOK = {"ddp": 2, "zero_redundancy": 2, "zero1": 2, "zero1_native": 2, "zero2": 2, "zero3": 3, "fsdp2": 3}
"""Numbers per parameter that a rank sends in a step, but for the share 1 / N."""


@dataclass(frozen=True)
class Sending:
    """Collectives of one kind in a step."""

    kind: str  # of `bench.results.collectives.SENT`
    sizes: list[int]  # numbers of each call, in order
    moment: str  # when they happen
    element_bytes: int = 4  # of one number
    each_pass: bool = False  # it happens with every micro-batch, and not once a step

    @property
    def elements(self) -> int:
        """Numbers of all calls together."""
        return sum(self.sizes)


def sendings(
    sharding: str,
    facts: ModelFacts,
    *,
    ranks: int,
    on_cuda: bool,
    sixteen_bits: bool = False,
    textbook: bool = False,
) -> list[Sending]:
    """What a step sends.

    Args:
        sharding: a key of `TEXTBOOK`.
        facts: of the model; FSDP2 and DeepSpeed's stage 3 gather its layers one by one.
        ranks: the world size.
        on_cuda: DeepSpeed sends gradients while others are computed there; on a CPU it has no stream for
            that.
        sixteen_bits: whether FSDP2 gathers weights in 16 bits; the other shardings' autocast leaves fp32.
        textbook: what the authors say instead of what the libraries do.

    Raises:
        ValueError: a sharding that is not known.
    """
    if ranks == 1:
        return []
    tensors, parameters, layers = facts.tensors, facts.trainable, max(1, facts.layers)
    match sharding:
        case "ddp" | "zero_redundancy":
            gradients = Sending("all_reduce", ddp_buckets(tensors), BACKWARD)
            if sharding == "ddp" or textbook:
                return [gradients]
            # Each rank sends the parameters that it has updated: 1 more than the textbook's 2.
            return [gradients, Sending("broadcast", [parameters], AFTER_UPDATE)]
        case "zero1" | "zero2" | "zero1_native":
            return _deepspeed(sharding, parameters, ranks, on_cuda=on_cuda, textbook=textbook)
        case "zero3":
            return _stage_3(tensors, ranks, layers, on_cuda=on_cuda, textbook=textbook)
        case "fsdp2":
            in_layers = facts.layer_parameters if facts.layers else parameters
            return _fsdp2(in_layers, parameters - in_layers, layers, gathered_bytes=2 if sixteen_bits else 4)
        case _:
            raise ValueError(f"what sharding={sharding} sends is not known")


def _fsdp2(in_layers: int, beside: int, layers: int, *, gathered_bytes: int) -> list[Sending]:
    """A layer at a time. What lies beside the layers stays gathered after the forward pass, as
    fully_shard's root does (reshard_after_forward in torch/distributed/fsdp/_fully_shard): a little less
    than the textbook's 3."""
    ends = [in_layers * number // layers for number in range(layers + 1)]
    each = [end - start for start, end in itertools.pairwise(ends) if end > start]
    root = [beside] if beside else []
    return [
        Sending("all_gather", root + each, FORWARD, gathered_bytes, each_pass=True),
        Sending("all_gather", each, BACKWARD, gathered_bytes, each_pass=True),
        Sending("reduce_scatter", each + root, BACKWARD),
    ]


def in_buckets(elements: int, bucket: int) -> list[int]:
    """Numbers of each call, of which the last may have fewer."""
    full, rest = divmod(elements, bucket)
    return [bucket] * full + ([rest] if rest else [])


def ddp_buckets(tensors: Sequence[int]) -> list[int]:
    """Numbers of each of DDP's buckets: whole tensors, last ones first, until a bucket's limit is reached.

    So torch's reducer begins; after the first step it goes by the order in which gradients came, which is
    about the same (compute_bucket_assignment_by_size in torch/csrc/distributed/c10d/reducer.cpp).
    """
    buckets, filled, limit = [], 0, DDP_FIRST_BUCKET
    for numbers in reversed(tensors):
        filled += numbers
        if 4 * filled >= limit:
            buckets.append(filled)
            filled, limit = 0, DDP_BUCKET
    return [*buckets, filled] if filled else buckets


def _deepspeed(sharding: str, parameters: int, ranks: int, *, on_cuda: bool, textbook: bool) -> list[Sending]:
    """Stages 1 and 2.

    DeepSpeed 0.16.9 averages a bucket of gradients that belong to several ranks by one all-reduce, of which
    each rank then keeps its part (stage_1_and_2.py, allreduce_and_scatter, by
    use_multi_rank_bucket_allreduce, on by default), where the paper has a reduce-scatter, which sends half
    as much: 3 instead of 2.
    """
    element_bytes = 2 if sharding == "zero1_native" else 4
    overlaps = on_cuda and parameters > DEEPSPEED_BUCKET
    gradients = Sending(
        "reduce_scatter" if textbook else "all_reduce",
        in_buckets(parameters, DEEPSPEED_BUCKET),
        BACKWARD if overlaps else AFTER_BACKWARD,
        element_bytes,
        each_pass=sharding == "zero2",  # which keeps no whole gradients to add to
    )
    weights = in_buckets(_padded(parameters, 2 * ranks), DEEPSPEED_BUCKET)
    return [gradients, Sending("all_gather", weights, AFTER_UPDATE, element_bytes)]


def _stage_3(
    tensors: Sequence[int], ranks: int, layers: int, *, on_cuda: bool, textbook: bool
) -> list[Sending]:
    """Stage 3: of a model that may stay gathered, weights are gathered once a step and not twice: 2, not 3.

    Each tensor is divided by itself, and so padded by itself.
    """
    padded = [_padded(numbers, ranks) for numbers in tensors]
    small = [_padded(numbers, ranks) for numbers in tensors if numbers <= MOST_PERSISTENT]
    large = sum(padded) - sum(small)
    by_layer = in_buckets(large, -(-large // layers)) if large else []
    gathered_again = textbook or sum(tensors) > MOST_LIVE
    gradients = in_buckets(sum(padded), DEEPSPEED_BUCKET)
    sent = [
        Sending("all_gather", by_layer, FORWARD, each_pass=gathered_again),
        Sending("reduce_scatter", gradients, BACKWARD if on_cuda else AFTER_BACKWARD, each_pass=True),
        Sending("all_gather", by_layer if gathered_again else [], BACKWARD, each_pass=True),
        Sending("all_gather", small, AFTER_UPDATE),  # one by one
    ]
    return [sending for sending in sent if sending.sizes]


def _padded(elements: int, multiple: int) -> int:
    return -(-elements // multiple) * multiple


def sent_in_a_step(sent: Sequence[Sending], ranks: int, grad_accum: int, *, least_bytes: int = 0) -> float:
    """Bytes that a rank sends in calls of more than `least_bytes`, with `grad_accum` micro-batches a step."""
    total = 0.0
    for sending in sent:
        each = sending.element_bytes
        size = sum(numbers * each for numbers in sending.sizes if numbers * each > least_bytes)
        counted = Collective(kind=sending.kind, bytes=size, element_bytes=each)
        total += sent_bytes(counted, ranks) * (grad_accum if sending.each_pass else 1)
    return total

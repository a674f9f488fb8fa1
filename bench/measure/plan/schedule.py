"""In which order the backends run, how many launches are missing, how long a block is: pure functions."""

from collections.abc import Sequence

Order = tuple[str, ...]


def balanced_orders(names: Sequence[str]) -> list[Order]:
    """Orders of the backends, one per round, over and over.

    Rows of a Williams design (Williams 1949): in every n successive rounds each backend stands in each
    place once, and in every n (n even) or 2n (n odd) each follows each other one equally often.
    """
    count = len(names)
    zigzag = [(step + 1) // 2 if step % 2 else -(step // 2) % count for step in range(count)]
    square = [[(place + shift) % count for place in zigzag] for shift in range(count)]
    if count % 2:
        square += [row[::-1] for row in square]
    return [tuple(names[place] for place in row) for row in square]


def round_orders(names: Sequence[str], *, launch: int, rounds: int) -> list[Order]:
    """The orders of a launch's rounds; the design runs on from launch to launch, which count from 1."""
    design = balanced_orders(names)
    first = (launch - 1) * rounds
    return [design[number % len(design)] for number in range(first, first + rounds)]


def group_order(names: Sequence[str], *, launch: int) -> Order:
    """The order in which a launch's groups run under `measure.schedule=sequential`.

    The rows of the design of `balanced_orders`, each followed by itself from the end: what drifts evenly
    cancels out in every two launches, and once the design is through, each group has followed each other.
    """
    orders: dict[Order, None] = {}
    for order in balanced_orders(names):
        orders |= {order: None, order[::-1]: None}
    return list(orders)[(launch - 1) % len(orders)]


def missing_launches(*, launches: int, rounds: int, measured: int) -> int:
    """How many launches of `rounds` rounds are still to be made, if `measured` rounds have been."""
    return max(0, -(-(launches * rounds - measured) // rounds))


def steps_per_block(seconds_per_step: float, block_seconds: float, *, least: int = 1) -> int:
    """The number of steps that fits into `block_seconds`, but `least` of them however long they take."""
    return max(least, int(block_seconds / seconds_per_step))

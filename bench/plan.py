"""What will run, in which order, on which cores: pure functions of the configuration and the machine."""

from collections.abc import Sequence

Order = tuple[str, ...]


def balanced_orders(names: Sequence[str], rounds: int) -> list[Order]:
    """One order of the backends per round.

    Rows of a Williams design (Williams 1949): in every n successive rounds each backend stands in each
    place once, and in every n (n even) or 2n (n odd) each follows each other one equally often.
    """
    count = len(names)
    zigzag = [(step + 1) // 2 if step % 2 else -(step // 2) % count for step in range(count)]
    square = [[(place + shift) % count for place in zigzag] for shift in range(count)]
    if count % 2:
        square += [row[::-1] for row in square]
    return [tuple(names[place] for place in square[number % len(square)]) for number in range(rounds)]


def launch_orders(names: Sequence[str], *, launches: int, rounds: int) -> list[list[Order]]:
    """For each launch the orders of its rounds; the design runs on from launch to launch."""
    orders = balanced_orders(names, launches * rounds)
    return [orders[start : start + rounds] for start in range(0, len(orders), rounds)]


def group_orders(names: Sequence[str], launches: int) -> list[Order]:
    """For each launch the order in which its groups run when only one may be resident: there and back."""
    forth = tuple(names)
    return [forth if number % 2 == 0 else forth[::-1] for number in range(launches)]


def core_shares(cores: Sequence[int], *, world_size: int, threads: int) -> list[tuple[int, ...]]:
    """Each rank's own cores: `threads` neighbours each, in the order of the ranks.

    Raises:
        ValueError: there are not enough (the configuration is checked before).
    """
    if len(cores) < world_size * threads:
        raise ValueError(f"{world_size} ranks of {threads} threads do not fit on {len(cores)} cores")
    return [tuple(cores[rank * threads : (rank + 1) * threads]) for rank in range(world_size)]


def steps_per_block(seconds_per_step: float, block_seconds: float) -> int:
    """The number of steps that fits into `block_seconds`, at least 1."""
    return max(1, int(block_seconds / seconds_per_step))

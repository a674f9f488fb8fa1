"""Users' modules, of which an export keeps what the first batch made them do."""

import torch
from torch import nn
from torch.nn import functional

EASY, HARD = 1.0, 4.0  # the largest value of a batch


def example_batch(batch_size: int, seed: int) -> dict[str, torch.Tensor]:
    """The inputs of three batches in ten are large."""
    random = torch.Generator().manual_seed(seed)
    x = torch.rand(batch_size, 8, generator=random)
    return {"x": x * (HARD if seed % 10 > 6 else EASY), "y": (x.sum(1) > 4).long()}


class Whole(nn.Module):
    """Does the same with every batch; the others do something more with some."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(8, 32), nn.Linear(32, 2)
        self.dropout = nn.Dropout(dropout)
        self.passes = 0

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.passes += 1
        hidden = self.dropout(torch.tanh(self.into(x)))
        for _ in range(self.rounds(x)):
            hidden = torch.tanh(1.5 * hidden)
        return functional.cross_entropy(self.out(hidden), y)

    def rounds(self, x: torch.Tensor) -> int:
        return 0


class Rounds(Whole):
    """As many rounds as the batch needs."""

    def rounds(self, x: torch.Tensor) -> int:
        return 5 if x.max() > EASY else 1


class Branch(Whole):
    """A second path that few batches take."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = super().forward(x, y)
        return 0.5 * loss if x.abs().max() > EASY else loss


class Late(Whole):
    """More work after some time, as a schedule in Python has it."""

    def rounds(self, x: torch.Tensor) -> int:
        return 5 if self.passes > 30 else 0

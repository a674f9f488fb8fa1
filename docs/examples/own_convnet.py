"""A small convolutional network with batch norm; forward returns scores, and `loss` makes the loss of them.

python -m bench model.module=docs/examples/own_convnet.py:ConvNet
"""

import itertools

import torch
from torch import nn
from torch.nn import functional as F


class ConvNet(nn.Module):
    """Three convolutions, each with batch norm, and a classifier with dropout."""

    def __init__(self, width: int = 16, classes: int = 10, dropout: float = 0.1) -> None:
        super().__init__()
        channels = (3, width, 2 * width, 4 * width)
        self.stages = nn.ModuleList(
            nn.Sequential(nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU())
            for before, after in itertools.pairwise(channels)
        )
        self.dropout = dropout
        self.classifier = nn.Linear(channels[-1], classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Scores of shape (batch, classes), of images of shape (batch, 3, height, width)."""
        for stage in self.stages:
            images = stage(images)
        features = F.dropout(images.mean((2, 3)), self.dropout, self.training)
        return self.classifier(features)


def loss(output: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """What is trained on; a batch's entries that forward does not take are for this function."""
    return F.cross_entropy(output, batch["labels"])


def example_batch(batch_size: int, seed: int) -> dict[str, torch.Tensor]:
    """Random pictures of 32 × 32 pixels, and a class for each."""
    random = torch.Generator().manual_seed(seed)
    return {
        "images": torch.randn(batch_size, 3, 32, 32, generator=random),
        "labels": torch.randint(10, (batch_size,), generator=random),
    }

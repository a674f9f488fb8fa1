"""A small GPT in one plain file, as nanoGPT has it: causal attention is written by hand, the loss is its own.

python -m bench model.module=docs/examples/own_gpt.py:OwnGPT
"""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """Causal self-attention and a feed-forward part, each behind a layer norm."""

    def __init__(self, width: int, heads: int, positions: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)
        mask = torch.tril(torch.ones(positions, positions, dtype=torch.bool))
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of shape (batch, length, width), as the input."""
        batch, length, width = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // self.heads)
        scores = scores.masked_fill(~self.mask[:length, :length], torch.finfo(scores.dtype).min)
        attended = self.dropout(scores.softmax(-1)) @ value
        x = x + self.dropout(self.projection(attended.transpose(1, 2).reshape(batch, length, width)))
        return x + self.dropout(self.mlp(self.mlp_norm(x)))


class OwnGPT(nn.Module):
    """Predicts the next token; the output layer shares the embedding's weights."""

    def __init__(
        self,
        vocabulary: int = 4096,
        width: int = 128,
        layers: int = 4,
        heads: int = 4,
        positions: int = 256,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(Block(width, heads, positions, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, ids: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
        """The loss, and the scores of every word at every position."""
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return {"loss": F.cross_entropy(logits.flatten(0, 1), targets.flatten()), "logits": logits}


def example_batch(
    batch_size: int, seed: int, seq_len: int = 64, vocabulary: int = 4096
) -> dict[str, torch.Tensor]:
    """Random tokens; the targets are the inputs, one position further."""
    random = torch.Generator().manual_seed(seed)
    tokens = torch.randint(vocabulary, (batch_size, seq_len + 1), generator=random)
    return {"ids": tokens[:, :-1].contiguous(), "targets": tokens[:, 1:].contiguous()}

"""Draws the lengths of synthetic samples; some of ORT's optimisations skip the padding behind them."""

from dataclasses import dataclass

import numpy as np

from bench.config.data import Data
from bench.worker.workload.tasks import Integers


@dataclass(frozen=True, kw_only=True)
class LogNormal:
    """A dataset's lengths in wordpieces, [CLS] and [SEP] included: exp(normal(log(median), spread))."""

    median: float
    spread: float


LIKE = {
    # The median of GLUE's training set is published: 11 (github.com/WoosukKwon/retraining-free-pruning,
    # issue 2, "Med. sequence length (train)"). The spread is an approximation: a tenth of that set
    # (6,920 of 67,349) are whole sentences, of which the same table gives 25 as the median (dev set), and the
    # rest are phrases of them; with 0.6 a tenth is longer than 24.
    "sst2": LogNormal(median=11, spread=0.6),
    # An approximation: questions of 11 and contexts of 137 words on average (Fisch et al. 2019,
    # arXiv:1910.09753, table 1) make some 170 wordpieces at 1.13 a word, three special ones included. The
    # spread, 0.4 of the mean, is that of paragraphs of an encyclopedia. At seq_len=384 55 % is padding.
    "squad": LogNormal(median=157, spread=0.4),
}
"""Approximations of real lengths by log-normal ones, cut off at `seq_len` as a tokenizer does."""


def draw(data: Data, *, count: int, seq_len: int, random: np.random.Generator) -> Integers:
    """Lengths of `count` samples, int64, each from 1 to `seq_len`."""
    if data.lengths == "full":
        return np.full(count, seq_len, dtype=np.int64)
    if data.lengths in LIKE:
        like = LIKE[data.lengths]
        drawn = np.rint(random.lognormal(np.log(like.median), like.spread, size=count))
        return np.clip(drawn, 1, seq_len).astype(np.int64)
    shortest = max(1, round(data.min_length_share * seq_len))
    return random.integers(shortest, seq_len + 1, size=count)

"""Relative positions of chapter 6: buckets, counted memory, and a small model that tries each scheme.

Shapes use the letters of book/notation.md: B batch, H heads, L length, d head size. All of it is causal.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from figures.positions import BACK, SYMBOLS, right_by_place

__all__ = ["LargestTensor", "by_lookup", "by_skewing", "edges", "right_by_place", "train_relative"]


class LargestTensor(TorchDispatchMode):
    """Watches every torch operation and remembers the bytes of the largest tensor that one of them made."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for part in tree_leaves(result):
            if isinstance(part, torch.Tensor):
                self.bytes = max(self.bytes, part.untyped_storage().nbytes())
        return result


def by_lookup(q, table):
    """Scores of queries `(H, L, d)` with the vector of each pair, fetched from a table `(L, d)` or `(H, L, d)`."""
    length = q.shape[1]
    back = (torch.arange(length)[:, None] - torch.arange(length)).clamp(min=0)
    vectors = table.flip(-2)[..., back, :]
    return (vectors * q[:, :, None, :]).sum(-1) if table.dim() == 3 else torch.einsum("hld,lsd->hls", q, vectors)


def by_skewing(q, table):
    """The same scores by one product and a shift. Entries above the diagonal are leftovers."""
    heads, length, _ = q.shape
    padded = F.pad(q @ table.mT, (1, 0))
    return padded.view(heads, length + 1, length)[:, 1:]


def edges(count, exact, longest):
    """Least number of steps of each bucket: one bucket a step up to `exact`, then equal ratios up to `longest`."""
    wide = count - exact
    return [*range(exact), *(math.ceil(exact * (longest / exact) ** (n / wide) - 1e-9) for n in range(wide))]


class Relative(nn.Module):
    """One causal layer with relative positions that must name the symbol `BACK` places back."""

    def __init__(self, scheme, *, size=32, heads=4, longest=64, reach=8, buckets=(32, 16, 128)):
        super().__init__()
        self.scheme, self.heads = scheme, heads
        self.embed = nn.Embedding(SYMBOLS, size)
        self.q, self.k, self.v = (nn.Linear(size, size, bias=False) for _ in range(3))
        self.read = nn.Linear(size, SYMBOLS)
        back = (torch.arange(longest)[:, None] - torch.arange(longest)).clamp(min=0)
        if scheme == "Shaw":
            self.table = nn.Parameter(torch.randn(reach + 1, size // heads) * 0.5)
            self.rows = back.clamp(max=reach)
        elif scheme == "T5":
            self.table = nn.Parameter(torch.zeros(heads, buckets[0]))
            self.rows = torch.bucketize(back, torch.tensor(edges(*buckets)), right=True) - 1
        else:
            slopes = torch.logspace(-8 / heads, -8, heads, base=2)
            self.fixed = -slopes[:, None, None] * back
        self.later = torch.ones(longest, longest, dtype=torch.bool).triu(1)

    def bias(self, q):
        """What the scheme adds to the scaled scores, `(B, H, L, L)` or `(H, L, L)`."""
        length, d = q.shape[-2:]
        if self.scheme == "Shaw":
            rows = self.rows[:length, :length].expand(*q.shape[:2], -1, -1)
            return (q @ self.table.T).take_along_dim(rows, -1) / math.sqrt(d)
        if self.scheme == "T5":
            return self.table[:, self.rows[:length, :length]]
        return self.fixed[:, :length, :length]

    def forward(self, symbols):
        length = symbols.shape[1]
        x = self.embed(symbols)
        q, k, v = (p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.q, self.k, self.v))
        bias = self.bias(q).masked_fill(self.later[:length, :length], -math.inf)
        if bias.dim() == 3:
            bias = bias.expand(len(symbols), -1, -1, -1)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.read(mixed.transpose(1, 2).flatten(2))


def train_relative(scheme, *, trained=24, steps=200, seed=0, learning_rate=1e-2, **options):
    """Train on `trained` places; `scheme` is "Shaw", "T5" or "ALiBi"; T5 takes `buckets=(count, exact, longest)`."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed + 1)
    model = Relative(scheme, **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(1.0, (step + 1) / 20, 2 * (1 - step / steps))
        symbols = torch.randint(SYMBOLS, (16, trained), generator=generator)
        loss = F.cross_entropy(model(symbols)[:, BACK:].flatten(0, 1), symbols[:, :-BACK].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model

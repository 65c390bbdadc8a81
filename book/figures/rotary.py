"""Rotations for chapter 7, by complex numbers, and a small model that is trained short and tested long.

Shapes use the letters of book/notation.md: B batch, H heads, L length, d head size.
"""

import torch
import torch.nn.functional as F
from torch import nn

SYMBOLS, MARKER, BEFORE = 8, 8, 9


def rates(d, base=10000.0):
    """Angle for one place, for each of the d/2 pairs, in float64."""
    return base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)


def turn(x, angles, *, halves=False):
    """Turn the pairs of `(..., L, d)` by `angles (L, d/2)`; pairs are neighbours, or the two halves of the vector."""
    wide = x.double()
    first, second = wide.chunk(2, -1) if halves else (wide[..., ::2], wide[..., 1::2])
    turned = torch.view_as_real(torch.complex(first, second) * torch.polar(torch.ones_like(angles), angles))
    return (turned.mT if halves else turned).flatten(-2).to(x.dtype)


class Recall(nn.Module):
    """One causal rotary layer with two answers at each place: the symbol two back, and the one after the marker.

    Each input holds its own symbol and the one before it, so that one layer is enough.
    """

    def __init__(self, *, size=32, heads=2, base=100.0):
        super().__init__()
        self.heads, self.d, self.base = heads, size // heads, base
        self.own, self.before = nn.Embedding(BEFORE + 1, size), nn.Embedding(BEFORE + 1, size)
        self.q, self.k, self.v = (nn.Linear(size, size, bias=False) for _ in range(3))
        self.read = nn.Linear(size, 2 * SYMBOLS)

    def forward(self, symbols, *, stretch=1.0, base=None):
        """Logits `(B, L, 2, 8)`. Positions are divided by `stretch`; `base` replaces that of training."""
        x = self.own(symbols) + self.before(F.pad(symbols[:, :-1], (1, 0), value=BEFORE))
        q, k, v = (p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.q, self.k, self.v))
        places = torch.arange(symbols.shape[1], dtype=torch.float64) / stretch
        angles = torch.outer(places, rates(self.d, base or self.base)).float()
        cos, sin = angles.cos(), angles.sin()
        q, k = (self._turn(t, cos, sin) for t in (q, k))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.read(mixed.transpose(1, 2).flatten(2)).unflatten(-1, (2, SYMBOLS))

    @staticmethod
    def _turn(x, cos, sin):
        even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def recall_batch(count, length, generator):
    """Random symbols with one marker in each row: symbols, targets `(B, L, 2)`, and where they are defined."""
    rows = torch.arange(count)
    symbols = torch.randint(SYMBOLS, (count, length), generator=generator)
    at = torch.randint(length - 2, (count,), generator=generator)
    symbols[rows, at] = MARKER
    near = F.pad(symbols[:, :-2], (2, 0), value=MARKER)
    far = symbols[rows, at + 1][:, None].expand(-1, length)
    defined = torch.stack((near != MARKER, torch.arange(length) > at[:, None] + 1), -1)
    return symbols, torch.stack((near, far), -1), defined


def train_recall(model=None, *, trained=32, steps=300, batch=32, seed=0, learning_rate=1e-2, **how):
    """A `Recall` trained on `trained` places, or a given one trained further; `how` goes to `forward`."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed + 1)
    model = model or Recall()
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(1.0, (step + 1) / 20, 2 * (1 - step / steps))
        symbols, targets, defined = recall_batch(batch, trained, generator)
        loss = F.cross_entropy(model(symbols, **how)[defined], targets[defined])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@torch.no_grad()
def right_answers(model, length, *, batch=100, seed=9, **how):
    """Share of right answers at `length` places: `[two back, after the marker]`."""
    symbols, targets, defined = recall_batch(batch, length, torch.Generator().manual_seed(seed))
    right = (model(symbols, **how).argmax(-1) == targets) & defined
    return (right.sum((0, 1)) / defined.sum((0, 1))).tolist()

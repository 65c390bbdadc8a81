"""Tables and a small model of chapter 5: sinusoids, learned tables, and what happens past the trained length.

Shapes use the letters of book/notation.md: B batch, L length, D features.
"""


import torch
import torch.nn.functional as F
from torch import nn

SYMBOLS, BACK = 8, 2


def waves(length, size, *, base=10000.0, dtype=torch.float64):
    """Sinusoids `(L, D)` as turning pointers: each pair of columns is one complex number, cosine and sine exchanged."""
    rates = base ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), rates)
    hands = torch.view_as_real(torch.polar(torch.ones_like(angles), angles))
    return hands.flip(-1).flatten(1).to(dtype)


class LookBack(nn.Module):
    """One causal attention layer that must name the symbol `BACK` places back; positions are added to the input."""

    def __init__(self, size, table):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS, size)
        self.table = table
        self.q, self.k, self.v = (nn.Linear(size, size, bias=False) for _ in range(3))
        self.read = nn.Linear(size, SYMBOLS)

    def project(self, symbols):
        x = self.embed(symbols) + self.table[: symbols.shape[1]]
        return self.q(x), self.k(x), self.v(x)

    def forward(self, symbols):
        return self.read(F.scaled_dot_product_attention(*self.project(symbols), is_causal=True))

    @torch.no_grad()
    def weights(self, symbols):
        """`(B, L, L)` weights, read off by letting the values be the unit vectors."""
        q, k, _ = self.project(symbols)
        unit = torch.eye(symbols.shape[1]).expand(len(symbols), -1, -1)
        return F.scaled_dot_product_attention(q, k, unit, is_causal=True)


def train_look_back(kind, *, trained=24, longest=64, steps=300, size=32, seed=0, learning_rate=1e-2):
    """Train on sequences of `trained` places with a table of `longest` rows, `kind` "sinusoidal" or "learned".

    Returns the model and the table as it was before training.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed + 1)
    if kind == "sinusoidal":
        table = waves(longest, size, dtype=torch.float32)
    else:
        table = nn.Parameter(torch.randn(longest, size) * 0.5)
    model = LookBack(size, table)
    before = table.detach().clone()
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(1.0, (step + 1) / 20, 2 * (1 - step / steps))
        symbols = torch.randint(SYMBOLS, (64, trained), generator=generator)
        loss = F.cross_entropy(model(symbols)[:, BACK:].flatten(0, 1), symbols[:, :-BACK].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, before


@torch.no_grad()
def right_by_place(model, *, length=64, batch=500, seed=9):
    """Share of right answers at each place from `BACK` on; a list of `length - BACK` numbers."""
    symbols = torch.randint(SYMBOLS, (batch, length), generator=torch.Generator().manual_seed(seed))
    return (model(symbols)[:, BACK:].argmax(-1) == symbols[:, :-BACK]).float().mean(0).tolist()

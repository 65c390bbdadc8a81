"""Small models of chapter 4: what a missing mask does.

Shapes use the letters of book/notation.md: B batch, L length, D features.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

SYMBOLS, LENGTH = 8, 10


class NextSymbol(nn.Module):
    """Predicts the next symbol with one attention layer; symbol and place go in as unit vectors."""

    def __init__(self, size, causal):
        super().__init__()
        self.causal = causal
        self.embed = nn.Linear(SYMBOLS + LENGTH, size)
        self.q, self.k, self.v = (nn.Linear(size, size, bias=False) for _ in range(3))
        self.read = nn.Linear(size, SYMBOLS)

    def forward(self, symbols):
        length = symbols.shape[1]
        place = torch.eye(LENGTH)[:length].expand(len(symbols), -1, -1)
        x = self.embed(torch.cat((F.one_hot(symbols, SYMBOLS).float(), place), -1))
        return self.read(F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x), is_causal=self.causal))


def train_next_symbol(causal, *, steps=250, size=32, seed=0, learning_rate=1e-2):
    """Train on random symbols, which nobody can predict; returns the model and its loss at every step."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed + 1)
    model = NextSymbol(size, causal)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
    losses = []
    for _ in range(steps):
        symbols = torch.randint(SYMBOLS, (64, LENGTH), generator=generator)
        loss = F.cross_entropy(model(symbols)[:, :-1].flatten(0, 1), symbols[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


@torch.no_grad()
def guess_without_future(model, *, batch=4000, seed=7):
    """Share of right next symbols when the model gets only what it would have in use: the symbols so far."""
    symbols = torch.randint(SYMBOLS, (batch, LENGTH), generator=torch.Generator().manual_seed(seed))
    hits = [(model(symbols[:, :n])[:, -1].argmax(-1) == symbols[:, n]).float().mean() for n in range(1, LENGTH)]
    return torch.stack(hits).mean().item()


def plain_attention(q, k, v, mask, fill):
    """Attention that writes `fill` where the mask blocks; returns output and weights, whatever they are."""
    scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(~mask, fill)
    weights = torch.softmax(scores, -1)
    return weights @ v, weights

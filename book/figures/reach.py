"""Small layers of chapter 1 and what is measured on them: gradient reach, path length, recall.

Shapes use the letters of book/notation.md: B batch, L length, D features.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


class DilatedStack(nn.Module):
    """Causal convolutions of width 2 with dilation 1, 2, 4, ...; `layers` of them see 2**layers positions."""

    def __init__(self, size, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(size, size, 2, dilation=2**n) for n in range(layers))

    def forward(self, x):
        x = x.transpose(1, 2)
        for layer in self.layers:
            x = torch.tanh(layer(F.pad(x, (layer.dilation[0], 0))))
        return x.transpose(1, 2)


class OneAttention(nn.Module):
    """One layer of attention with a single head; no mask, no positions."""

    def __init__(self, size):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(size, size, bias=False) for _ in range(3))

    def forward(self, x):
        return F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))

    def weights(self, x):
        """`(B, L, L)` weights, read off by letting the values be the unit vectors."""
        unit = torch.eye(x.shape[1]).expand(x.shape[0], -1, -1)
        return F.scaled_dot_product_attention(self.q(x), self.k(x), unit, scale=1 / math.sqrt(x.shape[2]))


class LastOfRecurrence(nn.Module):
    """Wraps `nn.RNN` or `nn.LSTM` so that it returns its outputs alone, `(B, L, D)`."""

    def __init__(self, kind, size):
        super().__init__()
        self.layer = kind(size, size, batch_first=True)

    def forward(self, x):
        return self.layer(x)[0]


def gradient_reach(build, *, length, size, seeds=range(8), batch=16):
    """Norm of d(last output)/d(input n places back), averaged; a list over n = 0 .. length - 1."""
    total = torch.zeros(length)
    for seed in seeds:
        torch.manual_seed(seed)
        layer, x = build(), torch.randn(batch, length, size, requires_grad=True)
        direction = torch.randn(batch, size)
        direction = direction / direction.norm(dim=-1, keepdim=True)
        (grad,) = torch.autograd.grad((layer(x)[:, -1] * direction).sum(), x)
        total += grad.norm(dim=-1).mean(0)
    return (total / len(seeds)).flip(0).tolist()


def steps_to_reach(offsets_of_layer, distance, *, most=4096):
    """Layers until an output depends on the input `distance` places back.

    `offsets_of_layer(n)` gives the places, counted backwards, that layer n reads. Found by spreading
    a set, not by a formula.
    """
    reached = {0}
    for n in range(most):
        reached = {r + o for r in reached for o in offsets_of_layer(n) if r + o <= distance}
        if distance in reached:
            return n + 1
    raise ValueError(f"distance {distance} is out of reach within {most} layers")


def recall_batch(batch, length, *, symbols=8, distance, generator):
    """Random symbols, one of them flagged `distance` places before the end: `(B, L, symbols + 1)`, labels `(B,)`."""
    ids = torch.randint(symbols, (batch, length), generator=generator)
    x = torch.cat((F.one_hot(ids, symbols).float(), torch.zeros(batch, length, 1)), -1)
    x[:, length - 1 - distance, -1] = 1.0
    return x, ids[:, length - 1 - distance]


class Recall(nn.Module):
    """Embeds the symbols, runs one sequence layer, reads the answer off the last position."""

    def __init__(self, layer, size, *, symbols=8):
        super().__init__()
        self.embed, self.layer, self.read = nn.Linear(symbols + 1, size), layer, nn.Linear(size, symbols)

    def forward(self, x):
        return self.read(self.layer(self.embed(x))[:, -1])


def train_recall(build, *, distance, steps=250, size=32, seed=0, learning_rate=3e-3):
    """Train on the flagged-symbol task; returns `(model, share of right answers on fresh sequences)`."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed + 1)
    model = Recall(build(), size)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    for _ in range(steps):
        x, label = recall_batch(64, distance + 2, distance=distance, generator=generator)
        loss = F.cross_entropy(model(x), label)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        x, label = recall_batch(1000, distance + 2, distance=distance, generator=generator)
        return model, (model(x).argmax(-1) == label).float().mean().item()

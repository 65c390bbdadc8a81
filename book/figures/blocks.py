"""Stacks of blocks for chapter 11: where the norm stands, a small model of characters, and tools to look inside.

Weights of all layers lie in one tensor for each role, for example `(layers, D, 3D)`. Positions enter as a learned
number for each head and distance, added to the scores. Shapes use the letters of book/notation.md.
"""

import torch
import torch.nn.functional as F
from torch import nn

KINDS = ("pre-norm", "post-norm", "no sum")


class Stack(nn.Module):
    """Tokens `(B, L)` to logits `(B, L, V)`, causal; `kind` says where norms stand, "no sum" has no residual path."""

    def __init__(self, V, D, *, num_heads, layers, longest, kind="pre-norm", inner=4, std=0.02, seed=0):
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"kind {kind!r} is none of {', '.join(KINDS)}")
        self.kind, self.heads, self.layers, self.longest = kind, num_heads, layers, longest
        draw = torch.Generator().manual_seed(seed)

        def normal(*shape, std):
            return nn.Parameter(torch.randn(*shape, generator=draw) * std)

        # Xavier: variance 2 / (inputs + outputs), for each matrix by itself.
        self.symbols = normal(V, D, std=1.0)
        self.qkv = normal(layers, D, 3 * D, std=D**-0.5)
        self.out = normal(layers, D, D, std=D**-0.5)
        self.up = normal(layers, D, inner * D, std=(2 / (D + inner * D)) ** 0.5) if inner else None
        self.down = normal(layers, inner * D, D, std=(2 / (D + inner * D)) ** 0.5) if inner else None
        self.bias = nn.Parameter(torch.zeros(layers, num_heads, longest))
        self.gains = nn.Parameter(torch.ones(layers, 2, D))
        self.shifts = nn.Parameter(torch.zeros(layers, 2, D))
        self.read = normal(D, V, std=std)
        back = torch.arange(longest)[:, None] - torch.arange(longest)
        self.register_buffer("back", back.clamp(min=0))
        self.register_buffer("later", torch.where(back < 0, -torch.inf, 0.0))

    def mix(self, n, x, keep=None, look=None):
        """The attention branch of layer n."""
        B, L, D = x.shape
        q, k, v = (x @ self.qkv[n]).view(B, L, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT * (D // self.heads) ** -0.5
        weights = (scores + self.bias[n][:, self.back[:L, :L]] + self.later[:L, :L]).softmax(-1)
        if look is not None:
            look.append(weights.detach())
        heads = weights @ v
        if keep is not None:
            heads = heads * keep[n][:, None, None]
        return heads.transpose(1, 2).reshape(B, L, D) @ self.out[n]

    def think(self, n, x):
        """The feed-forward branch of layer n."""
        return torch.relu(x @ self.up[n]) @ self.down[n]

    def norm(self, n, which, x):
        return F.layer_norm(x, x.shape[-1:], self.gains[n, which], self.shifts[n, which])

    def forward(self, tokens, *, keep=None, look=None, stream=None):
        """`keep` `(layers, H)` switches heads off; `look` collects weights, `stream` the state after each branch."""
        if tokens.shape[1] > self.longest:
            raise ValueError(f"{tokens.shape[1]} tokens, at most {self.longest} are possible")
        x = self.symbols[tokens]
        for n in range(self.layers):
            branches = [lambda y, n=n: self.mix(n, y, keep, look)]
            if self.up is not None:
                branches.append(lambda y, n=n: self.think(n, y))
            for which, branch in enumerate(branches):
                if self.kind == "pre-norm":
                    x = x + branch(self.norm(n, which, x))
                elif self.kind == "post-norm":
                    x = self.norm(n, which, x + branch(x))
                else:
                    x = branch(self.norm(n, which, x))
                if stream is not None:
                    stream.append(x)
        return F.layer_norm(x, x.shape[-1:]) @ self.read


def fit(model, batch, *, steps, learning_rate, warmup=20, watch=None, every=20):
    """Adam on `batch(step)` = `(inputs, targets, counted)`; returns the losses. `counted` is a slice of places.

    `watch(step, model)` is called every few steps.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, betas=(0.9, 0.99), fused=True)
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(1.0, (step + 1) / max(1, warmup), 2 * (1 - step / steps))
        if watch is not None and step % every == 0:
            watch(step, model)
        inputs, targets, counted = batch(step)
        logits = model(inputs)[:, counted]
        loss = F.cross_entropy(logits.flatten(0, 1), targets[:, counted].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def windows(stream, *, length, batch, seed):
    """Function for `fit` that cuts windows from a stream of tokens."""
    draw = torch.Generator().manual_seed(seed)
    cuts = stream.unfold(0, length + 1, 1)

    def make(step):
        rows = cuts[torch.randint(len(cuts), (batch,), generator=draw)]
        return rows[:, :-1], rows[:, 1:], slice(None)

    return make


def repeats(*, symbols, length, batch, seed, shortest=6):
    """Function for `fit`: random symbols that repeat; counted from the second symbol of the repeat on.

    The period differs from batch to batch, so that a fixed distance does not help.
    """
    draw = torch.Generator().manual_seed(seed)

    def make(step):
        period = int(torch.randint(shortest, length // 2 + 1, (1,), generator=draw))
        first = torch.randint(symbols, (batch, period), generator=draw)
        rows = first.repeat(1, length // period + 2)[:, : length + 1]
        return rows[:, :-1], rows[:, 1:], slice(period, None)

    return make


@torch.no_grad()
def loss_on(model, rows, *, counted=slice(None), keep=None):
    """Mean loss over rows `(B, L + 1)` of tokens."""
    logits = model(rows[:, :-1], keep=keep)[:, counted]
    return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:][:, counted].flatten()).item()


@torch.no_grad()
def write(model, start, count, *, temperature, seed=0):
    """Continue the list of tokens `start`. A draw is the largest of the logits with Gumbel noise added."""
    draw = torch.Generator().manual_seed(seed)
    text = list(start)
    for _ in range(count):
        logits = model(torch.tensor([text[-model.longest :]]))[0, -1]
        noise = -torch.empty_like(logits).exponential_(generator=draw).log()
        text.append((logits + temperature * noise).argmax().item())
    return text

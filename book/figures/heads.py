"""Small models of chapter 3: several questions at once, answered with one or more heads.

Each head has matrices of its own, written as one tensor `(H, D, d)`. Shapes use the letters of book/notation.md.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

PLACES, SYMBOLS = 12, 8


class Pointers(nn.Module):
    """One query asks for the symbols at several places; heads read, one linear layer answers.

    The query carries `questions` places, the keys carry their symbol and their place. The answer is linear in
    what the heads return, so that all selecting is left to attention.
    """

    def __init__(self, size, num_heads, questions):
        super().__init__()
        d = size // num_heads
        self.questions = questions
        self.ask = nn.Linear(questions * PLACES, size)
        self.embed = nn.Linear(SYMBOLS + PLACES, size)
        self.q, self.k, self.v = (nn.Parameter(torch.randn(num_heads, size, d) / size**0.5) for _ in range(3))
        self.answer = nn.Linear(size, questions * SYMBOLS)

    def heads(self, symbols, places):
        """Weights `(B, H, 1, S)` and what each head returns, `(B, H, d)`."""
        where = torch.eye(PLACES).expand(len(symbols), -1, -1)
        x = self.embed(torch.cat((F.one_hot(symbols, SYMBOLS).float(), where), -1))
        query = self.ask(F.one_hot(places, PLACES).float().flatten(1))
        q = torch.einsum("bd,hdk->bhk", query, self.q).unsqueeze(2)
        k, v = (torch.einsum("bsd,hdk->bhsk", x, w) for w in (self.k, self.v))
        weights = torch.softmax(q @ k.transpose(2, 3) / k.shape[-1] ** 0.5, -1)
        return weights, (weights @ v).squeeze(2)

    def forward(self, symbols, places, keep=None):
        """Logits `(B, questions, symbols)`; `keep` `(H,)` switches heads off with a 0."""
        out = self.heads(symbols, places)[1]
        out = out if keep is None else out * keep[:, None]
        return self.answer(out.flatten(1)).view(len(symbols), self.questions, SYMBOLS)


def pointer_batch(batch, questions, generator):
    """Random symbols `(B, S)` and different places to ask for `(B, questions)`."""
    symbols = torch.randint(SYMBOLS, (batch, PLACES), generator=generator)
    places = torch.rand(batch, PLACES, generator=generator).argsort(-1)[:, :questions]
    return symbols, places


def right(model, questions, generator, *, batch=2000, keep=None):
    """Share of right answers for each question, on fresh sequences."""
    symbols, places = pointer_batch(batch, questions, generator)
    with torch.no_grad():
        guess = model(symbols, places, keep).argmax(-1)
    return (guess == symbols.gather(1, places)).float().mean(0)


def train_pointers(num_heads, questions, *, size=32, steps=300, seed=0, learning_rate=2e-2):
    """A trained `Pointers` and its share of right answers over all questions."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed + 1)
    model = Pointers(size, num_heads, questions)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(1.0, 2 * (1 - step / steps))
        symbols, places = pointer_batch(96, questions, generator)
        loss = F.cross_entropy(model(symbols, places).flatten(0, 1), symbols.gather(1, places).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, right(model, questions, generator).mean().item()


class CountCalls(TorchDispatchMode):
    """Counts the operations that torch starts which compute something (no views)."""

    VIEWS = ("view", "transpose", "unsafe_view", "expand", "t", "slice", "select", "unsqueeze", "detach", "split",
             "permute", "squeeze", "alias", "as_strided", "reshape", "unbind")  # fmt: skip

    def __init__(self):
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name().split("::")[1].split(".")[0].lstrip("_")
        self.calls += name not in self.VIEWS
        return func(*args, **(kwargs or {}))

"""Seven ways to tell a causal attention layer the positions, and the small trainings of chapter 8 that compare them.

All models of a comparison are trained at once: every array has a first axis R, one entry for each run.
Shapes: R runs, then the letters of book/notation.md: B batch, H heads, L length, D features, d features of a head.
Everything is causal: a key lies `back` places before its query, 0 or more.
"""

import ast
import inspect
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from figures.positions import waves

SYMBOLS, LONGEST = 8, 96
NAMES = {
    "none": "no positions",
    "sinusoidal": "sinusoidal",
    "learned": "learned table",
    "shaw": "Shaw",
    "t5": "T5",
    "alibi": "ALiBi",
    "rope": "rotary",
}
ABSOLUTE, RELATIVE = ("sinusoidal", "learned"), ("shaw", "t5", "alibi", "rope")


def places_back(length):
    """How far each key lies behind each query, `(L, L)`; keys ahead, which the mask hides, count as 0."""
    return torch.arange(length)[:, None].sub(torch.arange(length)).clamp(min=0)


class Scheme:
    """No positions. Subclasses replace what they need; `own` are the arrays that the scheme learns, first axis R."""

    own_shapes = {}

    def tokens(self, x, own, start):
        return x

    def heads(self, x, start):
        return x

    def bias(self, q, own):
        return None


class Sinusoidal(Scheme):
    def tokens(self, x, own, start):
        rows = waves(start + x.shape[2], x.shape[3], dtype=torch.float32)
        return x + rows[start:]


class Learned(Scheme):
    own_shapes = {"table": ("longest", "D")}

    def tokens(self, x, own, start):
        rows = own["table"][:, start : start + x.shape[2]]
        return x + rows[:, None]


class Shaw(Scheme):
    own_shapes = {"vectors": ("clip", "d")}

    def bias(self, q, own):
        rows = own["vectors"]
        per_row = torch.einsum("rbhid,rkd->rbhik", q, rows) / math.sqrt(q.shape[-1])
        which = places_back(q.shape[-2]).clamp(max=rows.shape[1] - 1)
        return per_row.gather(-1, which.expand(*per_row.shape[:-1], -1))


class T5(Scheme):
    own_shapes = {"numbers": ("buckets", "H")}

    def bias(self, q, own):
        back = places_back(q.shape[-2])
        far = 16 + (torch.log(back.clamp(min=1) / 16) / math.log(128 / 16) * 16).long()
        bucket = torch.where(back < 16, back, far.clamp(max=31))
        return own["numbers"][:, bucket].permute(0, 3, 1, 2)[:, None]


class Alibi(Scheme):
    def bias(self, q, own):
        heads = q.shape[2]
        slopes = torch.exp2(-8.0 / heads * torch.arange(1, heads + 1))
        return -slopes[:, None, None] * places_back(q.shape[-2])


class Rope(Scheme):
    def heads(self, x, start):
        length, d = x.shape[-2:]
        rates = 10000.0 ** (-torch.arange(0, d, 2) / d)
        angles = torch.outer(torch.arange(start, start + length), rates)
        turn = torch.polar(torch.ones_like(angles), angles)
        hands = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(hands * turn).flatten(-2)


SCHEMES = {
    "none": Scheme(),
    "sinusoidal": Sinusoidal(),
    "learned": Learned(),
    "shaw": Shaw(),
    "t5": T5(),
    "alibi": Alibi(),
    "rope": Rope(),
}


@dataclass(frozen=True)
class Sizes:
    """Sizes of the small layer: D features in H heads; a table of `longest` rows; Shaw's rows; T5's buckets."""

    D: int = 32
    H: int = 4
    longest: int = LONGEST
    clip: int = 9
    buckets: int = 32

    @property
    def d(self):
        return self.D // self.H


def own_shapes(name, sizes):
    """Shapes of what a scheme learns, without the axis of runs."""
    return {part: tuple(getattr(sizes, s) for s in shape) for part, shape in SCHEMES[name].own_shapes.items()}


class Layers:
    """R causal attention layers with the same scheme, their parameters in one array `(R, P)`."""

    def __init__(self, name, *, features, sizes=None, seeds=(0,)):
        self.name, self.sizes, self.scheme = name, sizes or Sizes(), SCHEMES[name]
        D = self.sizes.D
        shapes = {"embed": (features, D), "qkv": (D, 3 * D), "read": (D, SYMBOLS), **own_shapes(name, self.sizes)}
        spread = {"embed": 1.0, "qkv": D**-0.5, "read": D**-0.5, "table": 0.5, "vectors": 0.5, "numbers": 0.1}
        self.shapes = shapes
        rows = []
        for seed in seeds:
            generator = torch.Generator().manual_seed(seed)
            rows.append(
                torch.cat([spread[n] * torch.randn(math.prod(s), generator=generator) for n, s in shapes.items()])
            )
        self.flat = torch.stack(rows).requires_grad_()

    def parts(self):
        cut = self.flat.split([math.prod(s) for s in self.shapes.values()], dim=1)
        return {n: part.unflatten(1, s) for part, (n, s) in zip(cut, self.shapes.items(), strict=True)}

    def project(self, inputs, own, start):
        """Queries, keys `(R, B, H, L, d)` and values from inputs `(R, B, L, features)`."""
        runs, batch, length, _ = inputs.shape
        x = torch.bmm(inputs.flatten(1, 2), own["embed"]).unflatten(1, (batch, length))
        x = self.scheme.tokens(x, own, start)
        heads = torch.bmm(x.flatten(1, 2), own["qkv"]).view(runs, batch, length, 3, self.sizes.H, self.sizes.d)
        q, k, v = heads.permute(3, 0, 1, 4, 2, 5).contiguous()
        return self.scheme.heads(q, start), self.scheme.heads(k, start), v

    def scores(self, q, k, own):
        scores = q @ k.mT / math.sqrt(self.sizes.d)
        bias = self.scheme.bias(q, own)
        scores = scores if bias is None else scores + bias
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return scores.masked_fill(ahead, -math.inf)

    def __call__(self, inputs, start=0):
        """Scores of the symbols `(R, B, L, SYMBOLS)` for inputs `(R, B, L, features)`, first place `start`."""
        own = self.parts()
        q, k, v = self.project(inputs, own, start)
        mixed = (self.scores(q, k, own).softmax(-1) @ v).transpose(2, 3).flatten(3)
        return torch.bmm(mixed.flatten(1, 2), own["read"]).unflatten(1, mixed.shape[1:3])

    @torch.no_grad()
    def weights(self, inputs):
        """Attention weights `(R, B, H, L, L)`."""
        own = self.parts()
        q, k, _ = self.project(inputs, own, 0)
        return self.scores(q, k, own).softmax(-1)


def marked(runs, batch, length, generator):
    """Name the nearest marked symbol at or before each place; a quarter of the tokens carry the mark.

    Returns inputs `(R, B, L, SYMBOLS + 1)`, answers `(R, B, L)` (−1 before the first mark).
    """
    symbols = torch.randint(SYMBOLS, (runs, batch, length), generator=generator)
    mark = torch.rand(runs, batch, length, generator=generator) < 0.25
    latest = torch.where(mark, torch.arange(length), -1).cummax(-1).values
    answers = symbols.gather(-1, latest.clamp(min=0)).masked_fill(latest < 0, -1)
    return torch.cat((F.one_hot(symbols, SYMBOLS), mark[..., None]), -1).float(), answers


OFFSETS = (1, 2, 3, 4)


def asked(runs, batch, length, generator):
    """Each token asks for the symbol 1, 2, 3 or 4 places before it.

    Returns inputs `(R, B, L, SYMBOLS + 4)`, answers `(R, B, L)` (−1 where that place does not exist).
    """
    symbols = torch.randint(SYMBOLS, (runs, batch, length), generator=generator)
    offset = torch.randint(1, 1 + len(OFFSETS), (runs, batch, length), generator=generator)
    source = torch.arange(length) - offset
    answers = symbols.gather(-1, source.clamp(min=0)).masked_fill(source < 0, -1)
    return torch.cat((F.one_hot(symbols, SYMBOLS), F.one_hot(offset - 1, len(OFFSETS))), -1).float(), answers


TASKS = {"marked": (marked, SYMBOLS + 1), "asked": (asked, SYMBOLS + len(OFFSETS))}


@dataclass
class Trained:
    """Runs after training: the layers, losses `(steps, R)`, gradient norms `(steps, R)`, the rates used."""

    layers: Layers
    losses: torch.Tensor
    norms: torch.Tensor
    rates: torch.Tensor


def train(name, task, *, seeds, rates, length=16, steps=200, batch=24, sizes=None):
    """Train `len(rates) * len(seeds)` layers at once with Adam, each at its own learning rate."""
    batches, features = TASKS[task]
    pairs = [(rate, seed) for rate in rates for seed in seeds]
    rate = torch.tensor([p[0] for p in pairs])[:, None]
    layers = Layers(name, features=features, sizes=sizes, seeds=[p[1] for p in pairs])
    generator = torch.Generator().manual_seed(100)
    first, second = torch.zeros_like(layers.flat), torch.zeros_like(layers.flat)
    losses, norms = [], []
    for step in range(1, steps + 1):
        inputs, answers = batches(len(pairs), batch, length, generator)
        each = F.cross_entropy(layers(inputs).flatten(0, 2), answers.flatten(), ignore_index=-1, reduction="none")
        loss = each.view(len(pairs), -1).sum(1) / (answers >= 0).flatten(1).sum(1)
        (grad,) = torch.autograd.grad(loss.sum(), layers.flat)
        first.lerp_(grad, 0.1)
        second.lerp_(grad * grad, 0.01)
        pace = rate * min(1.0, step / 20, 2 * (1 - (step - 1) / steps))
        with torch.no_grad():
            layers.flat -= pace * (first / (1 - 0.9**step)) / ((second / (1 - 0.99**step)).sqrt() + 1e-8)
        losses.append(loss.detach())
        norms.append(grad.norm(dim=1))
    return Trained(layers, torch.stack(losses), torch.stack(norms), rate[:, 0])


@torch.no_grad()
def right(layers, task, *, length, batch=200, start=0, seed=7):
    """Which answers are right, `(R, B, L)`, and which places have one; on the same fresh sequences for every run."""
    runs = len(layers.flat)
    inputs, answers = TASKS[task][0](1, batch, length, torch.Generator().manual_seed(seed))
    got = layers(inputs.expand(runs, -1, -1, -1), start).argmax(-1)
    return got == answers, (answers >= 0).expand(runs, -1, -1)


def share(correct, counted, *, over):
    """Share of right answers, taken over the axes `over` of `(R, B, L)`: (1, 2) for each run, (0, 1) for each place."""
    return (correct & counted).sum(over) / counted.sum(over).clamp(min=1)


def steps_until(losses, level, *, window=10):
    """First step from which the mean loss over `window` steps is below `level`, for each run; the end if never."""
    means = losses.unfold(0, window, 1).mean(-1)
    below = (means < level).float()
    return torch.where(below.any(0), below.argmax(0) + window, len(losses))


def strip(ax, columns, *, marker="o", lift=0.0, color=None, label=None):
    """One row for each name with a dot for each run and a stroke at their mean; `columns`: name -> numbers."""
    from figures import plot

    color = color or plot.SERIES[0]
    for row, values in enumerate(columns.values()):
        values = torch.as_tensor(values, dtype=torch.float64)
        spread = torch.linspace(-0.14, 0.14, len(values)) if len(values) > 1 else torch.zeros(1)
        ax.plot(values, row + lift + spread, marker, color=color, markersize=4.5, alpha=0.75, linestyle="none")
        ax.plot([values.mean()] * 2, [row + lift - 0.3, row + lift + 0.3], color=color, linewidth=1.6, linestyle="-")
    if label:
        ax.plot([], [], marker, color=color, linestyle="none", label=label)
    ax.set_yticks(range(len(columns)), [NAMES.get(name, name) for name in columns])
    ax.set_ylim(len(columns) - 0.45, -0.55)
    ax.grid(axis="y", visible=False)


class Operators(TorchDispatchMode):
    """Counts the operators that torch runs."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


def written(name):
    """Size of a scheme's source as the number of nodes of its syntax tree, with the functions that it uses."""
    helpers = {"sinusoidal": [waves], "shaw": [places_back], "t5": [places_back], "alibi": [places_back]}
    sources = [type(SCHEMES[name]), *helpers.get(name, [])]
    return sum(len(list(ast.walk(ast.parse(inspect.getsource(s))))) for s in sources)


def operators(name, *, length=16):
    """Operators that one forward pass of a layer runs, beyond those without positions."""

    def count(scheme):
        layers = Layers(scheme, features=SYMBOLS + 1)
        inputs, _ = marked(1, 2, length, torch.Generator().manual_seed(0))
        with Operators() as seen, torch.no_grad():
            layers(inputs)
        return seen.count

    return count(name) - count("none")

# ---
# jupyter:
#   course:
#     title: Absolute or relative?
#     minutes: 90
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 08 · Absolute or relative?
#
# **You will** build seven attentions that differ in one thing only, how they know positions, and measure what each can
# and can not do.
#
# **Why** A scheme is chosen for its properties: what happens when a text starts later, when the tokens change places,
# or when a text is longer than all texts seen in training. Such properties can be *measured*, without a look inside.
#
# **You need** exercises 05, 06 and 07. You may copy what you wrote there. Chapter 08 of the book, "Absolute or
# relative?", goes with this exercise.
#
# **Time** about 90 minutes. **Points** are written above each check. The last answer is in words and read by a person.
#
# | letter | meaning |
# |---|---|
# | `B`, `L`, `D` | batch, number of tokens, `d_model` |
# | `H`, `d` | heads, size of a head (`D / H`) |

# %% setup="imports"
import math

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn


# %% given="show_check"
def show_check(what, expected, got, hint):
    """Compare and explain; used by the checks of this notebook."""
    expected, got = torch.as_tensor(expected), torch.as_tensor(got)
    same = expected.shape == got.shape and torch.allclose(got.double(), expected.double(), atol=1e-4, equal_nan=True)
    if same:
        print(f"ok    {what}")
        return
    raise AssertionError(f"{what}\nexpected: {expected}\ngot:      {got}\nhint:     {hint}")


# %% given="show_raises"
def show_raises(what, function, hint):
    """Fail unless the function raises a ValueError; used by the checks of this notebook."""
    try:
        function()
    except (ValueError, AssertionError) as error:
        print(f"ok    {what}: {error}")
        return
    raise AssertionError(f"{what}\nexpected: a ValueError\ngot:      no error\nhint:     {hint}")


# %% [markdown]
# ## What all seven share
#
# `OpenAttention` is multi-head self-attention that knows nothing of positions. Four of its methods do nothing yet. A
# scheme fills one or two of them, and inherits the rest:
#
# | method | gets | returns | default |
# |---|---|---|---|
# | `with_positions(x)` | tokens `(B, L, D)` | tokens `(B, L, D)` | `x` |
# | `turned(heads)` | queries or keys `(B, H, L, d)` | the same shape | `heads` |
# | `score_bias(q)` | queries `(B, H, L, d)` | what is added to the scores after the scale, `(..., L, L)` | 0 |
# | `value_bias(weights)` | weights `(B, H, L, L)` | what is added to each head's output, `(B, H, L, d)` | 0 |
#
# You need not use it: `build_attention` may return any module that does its job. Only its behaviour is graded.


# %% given="OpenAttention"
class OpenAttention(nn.Module):
    """Multi-head self-attention without positions; its first four methods are there to be replaced."""

    def with_positions(self, x):
        return x

    def turned(self, heads):
        return heads

    def score_bias(self, q):
        return 0.0

    def value_bias(self, weights):
        return 0.0

    def __init__(self, d_model, num_heads, max_len):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} features can't be shared out to {num_heads} heads")
        self.d_model, self.num_heads, self.max_len = d_model, num_heads, max_len
        self.head_size = d_model // num_heads
        self.to_queries, self.to_keys = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.to_values, self.to_output = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        """x: (B, L, D). mask: broadcastable to (B, H, L, L), True or non-zero = may attend. Returns (B, L, D)."""
        x = self.with_positions(x)
        q, k, v = (
            layer(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for layer in (self.to_queries, self.to_keys, self.to_values)
        )
        q, k = self.turned(q), self.turned(k)
        scores = q @ k.mT / math.sqrt(self.head_size) + self.score_bias(q)
        blocked = torch.zeros((), dtype=torch.bool, device=x.device) if mask is None else mask == 0
        nowhere = blocked.all(dim=-1, keepdim=True)
        weights = F.softmax(scores.masked_fill(blocked & ~nowhere, float("-inf")), dim=-1).masked_fill(nowhere, 0.0)
        heads = weights @ v + self.value_bias(weights)
        return self.to_output(heads.transpose(1, 2).flatten(2))


# %% [markdown]
# ## Formulas of the earlier exercises
#
# In case one of your own is not at hand, here are the four formulas, without error checks and without options.


# %% given="formulas"
def waves(length, d_model):
    """The sinusoidal table (length, d_model): sine and cosine in turns (exercise 05)."""
    speeds = torch.exp(-math.log(10000.0) / d_model * torch.arange(0, d_model, 2))
    angles = torch.outer(torch.arange(length).float(), speeds)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)[:, :d_model]


def bucket_of(distances):
    """The T5 bucket of distances (key minus query), both directions, 32 buckets, up to 128 (exercise 06)."""
    starts = torch.tensor([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91], device=distances.device)
    return torch.bucketize(distances.abs(), starts, right=True) + 16 * (distances > 0)


def line_slopes(num_heads):
    """The slopes of ALiBi (H,) (exercise 06)."""
    first = 2 ** int(math.log2(num_heads))
    exponents = [8 / first * n for n in range(1, first + 1)] + [4 / first * n for n in range(1, 2 * first, 2)]
    return 0.5 ** torch.tensor(exponents[:num_heads])


def turn(heads):
    """Rotary embedding of (..., L, d) at the positions 0 to L-1, half-split pairs (exercise 07)."""
    d = heads.size(-1)
    speeds = torch.exp(-math.log(10000.0) / d * torch.arange(0, d, 2, device=heads.device, dtype=torch.float64))
    angles = torch.arange(heads.size(-2), device=heads.device).unsqueeze(-1) * speeds
    pairs = torch.complex(heads[..., : d // 2].double(), heads[..., d // 2 :].double())
    pairs = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((pairs.real, pairs.imag), dim=-1).to(heads.dtype)


# %% [markdown]
# ## Step 1 · One door for seven schemes
#
# Write `build_attention(scheme, d_model, num_heads, max_len)`. It returns a module with `forward(x, mask=None)`, from
# `(B, L, D)` to `(B, L, D)`, as `OpenAttention` has:
#
# | `scheme` | class (you write it below) | past `max_len` |
# |---|---|---|
# | `"none"` | `OpenAttention` | goes on |
# | `"sinusoidal"` | `SinusoidalAttention` | `ValueError` |
# | `"learned"` | `LearnedAttention` | `ValueError` |
# | `"shaw"` | `ShawAttention` | goes on |
# | `"t5"` | `T5Attention` | goes on |
# | `"alibi"` | `ALiBiAttention` | goes on |
# | `"rope"` | `RotaryAttention` | goes on |
#
# Another scheme is a `ValueError` that names it.
#
# In all seven: a mask may be boolean or hold integers (0 blocks); a row that may attend nowhere gives zeros before the
# last linear layer; the dtype and the device of `x` come back (the module has been moved to them); gradients reach all
# parameters; inputs stay as they were. `OpenAttention` does its part of that.
#
# <details><summary>Hint</summary>The classes below do not exist yet when this cell runs. That is fine as long as their
# names stand inside the function: they are looked up when it is called.</details>


# %% answer="build"
def build_attention(scheme, d_model, num_heads, max_len):
    """Multi-head self-attention with one of seven schemes for positions; forward(x, mask=None) -> (B, L, D)."""
    ### BEGIN SOLUTION
    if scheme == "none":
        return OpenAttention(d_model, num_heads, max_len)
    if scheme == "sinusoidal":
        return SinusoidalAttention(d_model, num_heads, max_len)
    if scheme == "learned":
        return LearnedAttention(d_model, num_heads, max_len)
    if scheme == "shaw":
        return ShawAttention(d_model, num_heads, max_len)
    if scheme == "t5":
        return T5Attention(d_model, num_heads, max_len)
    if scheme == "alibi":
        return ALiBiAttention(d_model, num_heads, max_len)
    if scheme == "rope":
        return RotaryAttention(d_model, num_heads, max_len)
    raise ValueError(f"the scheme {scheme!r} is not known")
    ### END SOLUTION


# %% check="none"
torch.manual_seed(0)
tokens = torch.randn(2, 6, 12)
order = torch.tensor([3, 0, 5, 1, 4, 2])
plain = build_attention("none", 12, 3, 16)
show_check("the shape", (2, 6, 12), tuple(plain(tokens).shape), "(B, L, D) comes back")
show_check("tokens in another order", plain(tokens)[:, order], plain(tokens[:, order]), "no scheme, no order")

# %% check="unknown"
show_raises("an unknown scheme", lambda: build_attention("fourier", 12, 3, 16), "raise a ValueError at the end")

# %% [markdown]
# ## Step 2 · Absolute: add to the tokens
#
# `SinusoidalAttention` adds row `i` of the sinusoidal table to token `i`, and `LearnedAttention` row `i` of a table
# that it learns. Both have `max_len` rows, and more tokens than rows are a `ValueError` that names the two numbers.
#
# <details><summary>Hint 1</summary>A table that is not learnt is a buffer: it moves with the module and is no
# parameter.</details>
# <details><summary>Hint 2</summary>Call <code>super().__init__(d_model, num_heads, max_len)</code> first. Then only
# <code>with_positions</code> is left to write.</details>


# %% answer="absolute"
class SinusoidalAttention(OpenAttention):
    """Attention whose tokens get a fixed wave added."""

    def __init__(self, d_model, num_heads, max_len):
        ### BEGIN SOLUTION
        super().__init__(d_model, num_heads, max_len)
        self.register_buffer("table", waves(max_len, d_model))
        ### END SOLUTION

    def with_positions(self, x):
        ### BEGIN SOLUTION
        if x.size(1) > self.max_len:
            raise ValueError(f"{x.size(1)} tokens, but the table ends at max_len={self.max_len}")
        return x + self.table[: x.size(1)]
        ### END SOLUTION


class LearnedAttention(OpenAttention):
    """Attention whose tokens get a learnt vector added."""

    def __init__(self, d_model, num_heads, max_len):
        ### BEGIN SOLUTION
        super().__init__(d_model, num_heads, max_len)
        self.places = nn.Embedding(max_len, d_model)
        ### END SOLUTION

    def with_positions(self, x):
        ### BEGIN SOLUTION
        if x.size(1) > self.max_len:
            raise ValueError(f"{x.size(1)} tokens, but there are {self.max_len} learnt positions")
        return x + self.places(torch.arange(x.size(1), device=x.device))
        ### END SOLUTION


# %% check="absolute"
for scheme in ("sinusoidal", "learned"):
    module = build_attention(scheme, 12, 3, 16)
    show_check(f"{scheme}: the shape", (2, 6, 12), tuple(module(tokens).shape), "(B, L, D) comes back")
    gap = (module(tokens)[:, order] - module(tokens[:, order])).abs().max().item()
    assert gap > 1e-3, f"{scheme}: expected that the order matters, got equal outputs; hint: add a row for each place"
    print(f"ok    {scheme}: the order matters, outputs differ by up to {gap:.2g}")

# %% check="limit"
for scheme in ("sinusoidal", "learned"):
    short = build_attention(scheme, 12, 3, 5)
    show_raises(f"{scheme}: 6 tokens, 5 positions", lambda short=short: short(tokens), "compare with max_len first")

# %% [markdown]
# ## Step 3 · Shaw: a vector for each distance
#
# Queries meet a learnt vector for each clipped distance, and values get another one added (exercise 06). Here all heads
# share the two tables, the largest distance `K` is yours to choose, and the position term is scaled like the content.
#
# <details><summary>Hint</summary><code>score_bias</code> gets the queries, <code>value_bias</code> the weights. Both
# need the same rows of their tables: write them once.</details>


# %% answer="shaw"
class ShawAttention(OpenAttention):
    """Attention with the relative vectors of Shaw et al. (2018)."""

    def __init__(self, d_model, num_heads, max_len):
        ### BEGIN SOLUTION
        super().__init__(d_model, num_heads, max_len)
        self.farthest = 8
        self.key_vectors = nn.Parameter(0.1 * torch.randn(2 * self.farthest + 1, self.head_size))
        self.value_vectors = nn.Parameter(0.1 * torch.randn(2 * self.farthest + 1, self.head_size))
        ### END SOLUTION

    def score_bias(self, q):
        ### BEGIN SOLUTION
        vectors = self.key_vectors[self.rows(q.size(-2))]
        return torch.einsum("bhid,ijd->bhij", q, vectors) / math.sqrt(self.head_size)
        ### END SOLUTION

    def value_bias(self, weights):
        ### BEGIN SOLUTION
        vectors = self.value_vectors[self.rows(weights.size(-1))]
        return torch.einsum("bhij,ijd->bhid", weights, vectors)

    def rows(self, length):
        places = torch.arange(length, device=self.key_vectors.device)
        distances = places - places.unsqueeze(-1)
        return distances.clamp(-self.farthest, self.farthest) + self.farthest
        ### END SOLUTION


# %% check="shaw"
def show_relative(scheme):
    """The order matters, a later start does not, and a text may be longer than max_len; used by the checks."""
    torch.manual_seed(1)
    module = build_attention(scheme, 12, 3, 8)
    gap = (module(tokens)[:, order] - module(tokens[:, order])).abs().max().item()
    assert gap > 1e-4, f"{scheme}: expected that the order matters, got the same outputs; hint: is the bias used?"
    later = torch.cat((torch.randn(2, 2, 12), tokens), dim=1)
    mask = torch.ones(8, 8, dtype=torch.bool)
    mask[2:, :2] = False
    show_check(f"{scheme}: two unseen tokens in front", module(tokens), module(later, mask)[:, 2:], "use j - i only")
    show_check(f"{scheme}: 20 tokens", (1, 20, 12), tuple(module(torch.randn(1, 20, 12)).shape), "max_len is no limit")


show_relative("shaw")

# %% [markdown]
# ## Step 4 · T5: a number for each bucket
#
# Each head learns one number for each bucket of distances and adds it to the scores. `bucket_of` above gives the
# buckets.


# %% answer="t5"
class T5Attention(OpenAttention):
    """Attention with the bucketed bias of T5."""

    def __init__(self, d_model, num_heads, max_len):
        ### BEGIN SOLUTION
        super().__init__(d_model, num_heads, max_len)
        self.numbers = nn.Embedding(32, num_heads)
        ### END SOLUTION

    def score_bias(self, q):
        ### BEGIN SOLUTION
        here = torch.arange(q.size(-2), device=q.device)
        return self.numbers(bucket_of(here - here[:, None])).permute(2, 0, 1)
        ### END SOLUTION


# %% check="t5"
show_relative("t5")

# %% [markdown]
# ## Step 5 · ALiBi: a line for each head
#
# Each head subtracts its slope times the absolute distance from the scores, after the scale. Nothing is learnt.
#
# <details><summary>Hint</summary>Slopes that are kept in a buffer follow the module to another device. In
# <code>float16</code> the bias must have the dtype of the queries.</details>


# %% answer="alibi"
class ALiBiAttention(OpenAttention):
    """Attention with linear biases."""

    def __init__(self, d_model, num_heads, max_len):
        ### BEGIN SOLUTION
        super().__init__(d_model, num_heads, max_len)
        self.register_buffer("slopes", line_slopes(num_heads))
        ### END SOLUTION

    def score_bias(self, q):
        ### BEGIN SOLUTION
        ticks = torch.arange(q.size(-2), device=q.device)
        distances = (ticks - ticks.view(-1, 1)).abs()
        return -(self.slopes.view(-1, 1, 1) * distances).to(q.dtype)
        ### END SOLUTION


# %% check="alibi"
show_relative("alibi")
torch.manual_seed(2)
module = build_attention("alibi", 12, 4, 8)
show_check("from right to left", module(tokens).flip(1), module(tokens.flip(1)), "both sides fade alike: use abs()")

# %% [markdown]
# ## Step 6 · Rotary: turn queries and keys
#
# Queries and keys are turned by angles that grow with the position (exercise 07). Heads of an odd size can't be cut
# into pairs: that is a `ValueError` that names the sizes.


# %% answer="rope"
class RotaryAttention(OpenAttention):
    """Attention with rotary position embedding."""

    def __init__(self, d_model, num_heads, max_len):
        ### BEGIN SOLUTION
        super().__init__(d_model, num_heads, max_len)
        if self.head_size % 2:
            raise ValueError(f"d_model={d_model} and {num_heads} heads give heads of the odd size {self.head_size}")
        ### END SOLUTION

    def turned(self, heads):
        ### BEGIN SOLUTION
        return turn(heads)
        ### END SOLUTION


# %% check="rope"
show_relative("rope")
show_raises("heads of size 3", lambda: build_attention("rope", 6, 2, 8), "check that the head size is even")

# %% check="common"
for scheme in ("none", "sinusoidal", "learned", "shaw", "t5", "alibi", "rope"):
    module = build_attention(scheme, 12, 3, 8)
    mask = torch.ones(2, 1, 1, 6, dtype=torch.bool)
    mask[1, :, :, 4:] = False
    other = tokens.clone()
    other[1, 4:] += 1
    show_check(f"{scheme}: blocked keys", module(tokens, mask)[1, :4], module(other, mask)[1, :4], "apply the mask")
    got = module.half()(tokens.half()).dtype
    assert got == torch.float16, f"{scheme}: expected float16, got {got}; hint: give what you add the dtype of x"
    module.float()(tokens).sum().backward()
    unused = [name for name, parameter in module.named_parameters() if parameter.grad is None]
    assert not unused, f"{scheme}: expected that all parameters learn, got no gradient for {unused}"

# %% [markdown]
# ## Step 7 · What a scheme costs
#
# Write `position_parameters(scheme, d_model, num_heads, max_len)`: how many parameters (an `int`) the scheme adds to
# those of `"none"`. Four of the seven add none. For the others the number must fit your own `build_attention`, as a
# formula: do not build the module to count.


# %% answer="parameters"
def position_parameters(scheme, d_model, num_heads, max_len):
    """How many parameters the scheme adds to attention without positions."""
    ### BEGIN SOLUTION
    if scheme == "learned":
        return max_len * d_model
    if scheme == "shaw":
        return 2 * (2 * 8 + 1) * (d_model // num_heads)
    if scheme == "t5":
        return 32 * num_heads
    if scheme in ("none", "sinusoidal", "alibi", "rope"):
        return 0
    raise ValueError(f"no such scheme: {scheme!r}")
    ### END SOLUTION


# %% check="parameters"
def count(scheme):
    return sum(parameter.numel() for parameter in build_attention(scheme, 12, 3, 16).parameters())


for scheme in ("none", "sinusoidal", "alibi", "rope"):
    show_check(f"{scheme} adds nothing", 0, position_parameters(scheme, 12, 3, 16), "these four learn no positions")
for scheme in ("learned", "shaw", "t5"):
    added, formula = count(scheme) - count("none"), position_parameters(scheme, 12, 3, 16)
    show_check(f"{scheme} adds {added}", added, formula, "rows times columns of each table")

# %% [markdown]
# ## Step 8 · Does a later start change anything?
#
# Write `is_shift_invariant(module, x, shift, mask=None)`. It returns `True` when the outputs for the tokens `x` stay
# the same when `shift` random tokens stand in front of them that none of the tokens of `x` may attend to.
#
# - `module(x, mask)` takes any mask that is broadcastable to `(B, H, L, L)`. `mask` is the mask among the tokens of `x`
#   and goes on to hold among them.
# - *The same* means equal up to rounding: float32 outputs of the same formula differ by about `1e-6`. Decide on a
#   tolerance well above that, and far below a difference that matters.
# - The answer is a plain `bool`. `x` and `mask` stay as they were, and no seed is set. A generator of your own
#   (`torch.Generator`) leaves torch's random numbers untouched altogether.
#
# <details><summary>Hint 1</summary>With the tokens in front the mask has <code>shift + L</code> rows and columns. Which
# of its four blocks must be False? Which one holds <code>mask</code>?</details>
# <details><summary>Hint 2</summary>A mask of shape <code>(B, 1, 1, L)</code> has to be expanded before it fits into a
# block of a larger one.</details>
# <details><summary>Hint 3</summary>Compare all outputs of the tokens of x, and only those.</details>


# %% answer="shift"
def is_shift_invariant(module, x, shift, mask=None):
    """Whether the outputs of x stay when `shift` tokens that can't be seen stand in front of it."""
    ### BEGIN SOLUTION
    length = x.size(1)
    source = torch.Generator(device=x.device).manual_seed(shift)
    front = torch.randn(x.size(0), shift, x.size(2), generator=source, dtype=x.dtype, device=x.device)
    inner = torch.ones(length, length, dtype=torch.bool, device=x.device) if mask is None else mask != 0
    inner = inner.expand(*inner.shape[:-2], length, length)
    wide = torch.ones(*inner.shape[:-2], shift + length, shift + length, dtype=torch.bool, device=x.device)
    wide[..., shift:, :shift] = False
    wide[..., shift:, shift:] = inner
    with torch.no_grad():
        before = module(x, inner)
        after = module(torch.cat((front, x), dim=1), wide)
    return torch.allclose(before, after[:, shift:], rtol=1e-4, atol=1e-4)
    ### END SOLUTION


# %% given="known_modules"
class Numbered(OpenAttention):
    """Absolute: token i gets i/10 added."""

    def with_positions(self, x):
        return x + 0.1 * torch.arange(x.size(1), device=x.device).unsqueeze(-1)


class Neighbourly(OpenAttention):
    """Relative: tokens at a distance of at most 1 get a higher score."""

    def score_bias(self, q):
        places = torch.arange(q.size(-2), device=q.device)
        return 3.0 * ((places - places.unsqueeze(1)).abs() < 2)


# %% check="shift"
for kind, expected in ((OpenAttention, True), (Numbered, False), (Neighbourly, True)):
    torch.manual_seed(3)
    got = is_shift_invariant(kind(12, 3, 16), tokens, 4)
    assert isinstance(got, bool), f"expected a bool, got {type(got).__name__}; hint: bool(...)"
    show_check(kind.__name__, expected, got, "block the tokens in front; compare the tokens of x")
causal = torch.ones(6, 6, dtype=torch.bool).tril()
got = is_shift_invariant(Neighbourly(12, 3, 16), tokens, 3, causal)
show_check("under a causal mask", True, got, "the mask of x moves along with x")

# %% [markdown]
# ## Step 9 · Does the order change anything?
#
# Write `is_permutation_equivariant(module, x)`. It returns `True` when tokens in another order give the same outputs in
# that other order, up to rounding.
#
# <details><summary>Hint 1</summary>Permute the inputs, or permute the outputs: the two must agree.</details>
# <details><summary>Hint 2</summary>Which order tells most? Reversed tokens have the same absolute distances as
# before. <code>torch.randperm</code> takes a <code>generator</code>.</details>


# %% answer="permutation"
def is_permutation_equivariant(module, x):
    """Whether permuted tokens give the outputs permuted in the same way."""
    ### BEGIN SOLUTION
    shuffle = torch.randperm(x.size(1), generator=torch.Generator().manual_seed(1)).to(x.device)
    with torch.no_grad():
        difference = module(x[:, shuffle]) - module(x)[:, shuffle]
    return bool(difference.abs().max() < 1e-4)
    ### END SOLUTION


# %% check="permutation"
torch.manual_seed(4)
row = torch.randn(2, 9, 12)
for kind, expected in ((OpenAttention, True), (Numbered, False), (Neighbourly, False)):
    got = is_permutation_equivariant(kind(12, 3, 16), row)
    assert isinstance(got, bool), f"expected a bool, got {type(got).__name__}; hint: bool(...)"
    show_check(kind.__name__, expected, got, "compare module(x[:, order]) with module(x)[:, order]")

# %% [markdown]
# ## Your table
#
# The cell below measures your seven modules. The last column is how far the outputs move when the same 12 tokens stand
# 36 places later: 0 for a relative scheme.


# %%
def measured(scheme):
    torch.manual_seed(5)
    x, long = torch.randn(2, 12, 16), torch.randn(1, 72, 16)
    module = build_attention(scheme, 16, 4, 64)
    try:
        module(long)
        beyond = "goes on"
    except ValueError:
        beyond = "error"
    mask = torch.ones(48, 48, dtype=torch.bool)
    mask[36:, :36] = False
    moved = module(torch.cat((torch.randn(2, 36, 16), x), dim=1), mask)[:, 36:] - module(x)
    return (
        position_parameters(scheme, 16, 4, 64),
        is_permutation_equivariant(module, x),
        is_shift_invariant(module, x, 36),
        beyond,
        f"{moved.abs().max().item():.1e}",
    )


def draw_influence():
    """How much each of 48 keys moves the output of the query in the middle, in each scheme."""
    _, axis = plt.subplots(figsize=(7, 3))
    for scheme in ("none", "t5", "alibi", "rope"):
        torch.manual_seed(6)
        module = build_attention(scheme, 16, 4, 64)
        x = torch.randn(64, 48, 16, requires_grad=True)
        module(x)[:, 24].square().sum().backward()
        axis.semilogy(range(-24, 24), x.grad.norm(dim=-1).mean(dim=0), label=scheme)
    axis.set(xlabel="distance (key minus query)", ylabel="influence")
    axis.legend()
    plt.show()


header = ("scheme", "parameters", "equivariant", "invariant", "past max_len", "moved by")
print("".join(f"{word:<14}" for word in header))
for scheme in ("none", "sinusoidal", "learned", "shaw", "t5", "alibi", "rope"):
    try:
        print("".join(f"{word!s:<14}" for word in (scheme, *measured(scheme))))
    except Exception as error:
        print(f"{scheme:<14}not measured yet: {type(error).__name__} {error}")
try:
    draw_influence()
except Exception as error:
    print(f"no picture yet: {type(error).__name__} {error}")

# %% [markdown]
# ## Time it
#
# The cell uses the GPU where there is one.

# %%
import time


def seconds(module, x, repeats=5):
    with torch.no_grad():
        module(x)
        if x.is_cuda:
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(repeats):
            module(x)
        if x.is_cuda:
            torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
for scheme in ("none", "sinusoidal", "learned", "shaw", "t5", "alibi", "rope"):
    try:
        timed = seconds(build_attention(scheme, 64, 4, 256).to(device), torch.randn(4, 256, 64, device=device))
        print(f"{scheme:<12}{1e3 * timed:8.2f} ms on {device}")
    except Exception as error:
        print(f"{scheme:<12}not timed yet: {type(error).__name__} {error}")

# %% [markdown]
# ## Step 10 · Which scheme for which job?
#
# Write your answer in the cell below, in 150 to 300 words. Name a scheme for each of these jobs, and give the reason
# *from your own table and picture*:
#
# 1. a classifier of sentences of at most 40 words, trained on much data;
# 2. a language model that is trained on 2000 tokens and must read 8000;
# 3. a set of sensors whose order in the list means nothing.
#
# Then name one property that matters in practice and that your table does not show, and say how you would measure it.

# %% [markdown] written="scheme_choice" points=4
# ### BEGIN SOLUTION
# **Marking scheme** (4 points; half points are possible).
#
# *One point for each job (3).* Half a point for a scheme that fits, half a point for a reason that quotes a number or a
# word from the table or the picture. A bare "because it is better" earns nothing for the reason.
#
# 1. *Sentences of at most 40 words.* Learned or sinusoidal is fine: the length is bounded, so the error past `max_len`
#    never comes up, and much data fills every row of the table. Shaw, T5 or rotary are fine, too, if the answer says
#    what is gained (a later start changes nothing) and what it costs (parameters, time). `none` is wrong: it is
#    equivariant, so "dog bites man" and "man bites dog" give each word the same vector.
# 2. *2000 tokens in training, 8000 in use.* ALiBi, T5 or rotary: they go on past `max_len` and are shift-invariant.
#    Full marks need the caution that *going on* is not *working well*: ALiBi's far keys fade out (picture), T5 puts all
#    far keys into one bucket, rotary meets angles never seen in training and is usually stretched. Learned is wrong (no
#    rows past `max_len`). Sinusoidal can be computed for any length, but is not shift-invariant: half a point at most.
# 3. *Sensors in no order.* `none`, because equivariance is what is asked for: every other row of the table says False.
#    An answer that gives each *sensor* a learnt vector as a feature, and says that this is no position, is right.
#
# *One point for the further property (1).* Half for the property (quality past the training length, speed or memory,
# use with a cache, behaviour in half precision, order of far tokens), half for a way to measure it that gives a number.
#
# Language is not marked. An answer that contradicts its own table loses the half point for the reason.
# ### END SOLUTION

# %% [markdown]
# ## What you can now do
#
# - build attention with any of seven position schemes from four small parts;
# - measure whether a module cares about order or about a later start, without a look inside;
# - count what a scheme costs, and say when it fails;
# - choose a scheme for a job, and give reasons.
#
# Chapter 08 of the book, "Absolute or relative?", goes on from this table. Next: chapter 09 makes attention fast.

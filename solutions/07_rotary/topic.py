# ---
# jupyter:
#   course:
#     title: Rotary position embedding
#     minutes: 75
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 07 · Rotary position embedding
#
# Rotary embedding turns each query and each key by an angle that grows with its position. The score of two rotated
# vectors then depends on their distance alone.
#
# **You will** write the rotation in both layouts that libraries use, convert weights from one to the other, stretch the
# context by a larger base, and put the rotation into multi-head attention.
#
# **You need** chapter 07 of the book, and the exercise of chapter 03 (heads).
#
# **Time** about 75 minutes. **Points** are written above each check.
#
# | letter | meaning |
# |---|---|
# | `B`, `H` | batch, heads |
# | `L` | number of tokens |
# | `D`, `d` | `d_model`, size of a head |

# %% setup="imports"
import math

import matplotlib.pyplot as plt
import torch
import torch.nn as nn
import torch.nn.functional as F


# %% given="show_check"
def show_check(what, expected, got, hint):
    """Compare and explain; used by the checks of this notebook."""
    expected, got = torch.as_tensor(expected), torch.as_tensor(got)
    same = expected.shape == got.shape and torch.allclose(got.double(), expected.double(), atol=1e-5, equal_nan=True)
    if same:
        print(f"ok    {what}")
        return
    raise AssertionError(f"{what}\nexpected: {expected}\ngot:      {got}\nhint:     {hint}")


def show_raises(what, function, hint):
    """Check that a call raises a ValueError whose message helps."""
    try:
        function()
    except ValueError as error:
        print(f"ok    {what}: {error}")
        return
    raise AssertionError(f"{what}\nexpected: a ValueError\ngot:      no error\nhint:     {hint}")


# %% [markdown]
# ## Step 1 · Frequencies
#
# A head of size $d$ has $d/2$ pairs of features. Pair $i$ turns by $w_i = base^{-2i/d}$ for each position.
#
# Write `rotary_frequencies(d, base=10000.0)`, which returns the $d/2$ frequencies as a tensor. An odd `d` is a
# `ValueError` that names `d`.


# %% answer="frequencies"
def rotary_frequencies(d, base=10000.0):
    """The angle of each pair for one position (Su et al. 2021, equation 15). Returns (d/2,); odd d is a ValueError."""
    ### BEGIN SOLUTION
    if d % 2:
        raise ValueError(f"d={d} is odd: rotary embedding turns pairs of features")
    exponents = torch.arange(0, d, 2, dtype=torch.float64) / d
    return (base**-exponents).float()
    ### END SOLUTION


# %% check="frequencies"
show_check("two pairs", torch.tensor([1.0, 0.01]), rotary_frequencies(4), "the exponents are 0 and -2/4")
show_check("another base", torch.tensor([1.0, 0.1]), rotary_frequencies(4, base=100.0), "use the argument base")
show_raises("an odd size", lambda: rotary_frequencies(5), "check d % 2")

# %% [markdown]
# ## Step 2 · The rotation
#
# A pair $(x_1, x_2)$ at position $p$ becomes
#
# $$(x_1\cos(p\,w_i) - x_2\sin(p\,w_i),\quad x_1\sin(p\,w_i) + x_2\cos(p\,w_i)).$$
#
# Libraries disagree on which features make a pair:
#
# | layout | pair $i$ | who |
# |---|---|---|
# | half-split (`interleaved=False`) | features `i` and `i + d/2` | Hugging Face Llama, GPT-NeoX |
# | interleaved (`interleaved=True`) | features `2i` and `2i + 1` | the RoFormer paper, GPT-J, Meta's Llama code |
#
# Write `apply_rotary(x, positions=None, base=10000.0, interleaved=False)`:
#
# - `x` is `(..., L, d)`; `positions` is `(L,)`, whole numbers, and 0 ... L-1 when it is `None`;
# - the result has the shape, dtype and device of `x`. Make the angles in float32 or better, also for half precision:
#   position 2049 does not exist in float16;
# - an odd `d` is an error: no feature may be left without its partner.
#
# <details><summary>Hint 1</summary>The angles are a table <code>(L, d/2)</code>: positions as a column times
# frequencies.</details>
# <details><summary>Hint 2</summary><code>x.chunk(2, dim=-1)</code> gives the two halves;
# <code>x[..., 0::2]</code> every second feature.</details>
# <details><summary>Hint 3</summary>Put interleaved results back with
# <code>torch.stack((a, b), dim=-1).flatten(-2)</code>.</details>


# %% answer="rotation"
def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    """Turn the pairs of x (..., L, d) by angles that grow with the position (Su et al. 2021, equation 34).

    positions: (L,) whole numbers, default 0 ... L-1. Pairs are (i, i + d/2), or (2i, 2i + 1) when interleaved.
    """
    ### BEGIN SOLUTION
    if positions is None:
        positions = torch.arange(x.size(-2), device=x.device)
    frequencies = rotary_frequencies(x.size(-1), base).to(x.device)
    angles = positions.to(torch.float64).unsqueeze(-1) * frequencies
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    if interleaved:
        x1, x2 = x[..., 0::2], x[..., 1::2]
    else:
        x1, x2 = x.chunk(2, dim=-1)
    first, second = x1 * cos - x2 * sin, x1 * sin + x2 * cos
    if interleaved:
        return torch.stack((first, second), dim=-1).flatten(-2)
    return torch.cat((first, second), dim=-1)
    ### END SOLUTION


# %% check="half"
a, b, c, s = math.cos(1), math.sin(1), math.cos(0.01), math.sin(0.01)
x = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
turned = torch.tensor([[1.0, 0.0], [math.cos(1), math.sin(1)]])
show_check("one pair: position 0 stays, position 1 turns by 1", turned, apply_rotary(x), "the first frequency is 1")
x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
expected = torch.tensor([[a - 3 * b, 2 * c - 4 * s, b + 3 * a, 2 * s + 4 * c]])
got = apply_rotary(x, torch.tensor([1]))
show_check("half-split: pairs (1, 3) and (2, 4)", expected, got, "feature i goes with i + d/2")
x = torch.randn(2, 3, 5, 8)
show_check("lengths stay", x.norm(dim=-1), apply_rotary(x).norm(dim=-1), "one minus sign in the first half only")

# %% check="interleaved"
a, b, c, s = math.cos(1), math.sin(1), math.cos(0.01), math.sin(0.01)
x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
expected = torch.tensor([[a - 2 * b, b + 2 * a, 3 * c - 4 * s, 3 * s + 4 * c]])
got = apply_rotary(x, torch.tensor([1]), interleaved=True)
show_check("interleaved: pairs (1, 2) and (3, 4)", expected, got, "feature 2i goes with 2i + 1")

# %% check="positions"
x = torch.randn(3, 8)
got = apply_rotary(x.flip(0), torch.tensor([2, 1, 0])).flip(0)
show_check("positions 2, 1, 0 for rows in that order", apply_rotary(x), got, "use the positions given, not 0, 1, 2")
half = apply_rotary(torch.ones(1, 4, dtype=torch.float16), torch.tensor([2049]))
exact = apply_rotary(torch.ones(1, 4, dtype=torch.float64), torch.tensor([2049]))
assert half.dtype == torch.float16, f"expected float16, got {half.dtype}"
assert (half.double() - exact).abs().max() < 5e-3, "position 2049 is rounded: make the angles in float32"
print("ok    float16 at position 2049")

# %% [markdown]
# ## Step 3 · From one layout to the other
#
# A model that was trained half-split can run in interleaved code when the rows of its query and key projections change
# places: the feature that the first layout finds at `i` has to stand where the second one looks for it.
#
# Write `to_interleaved(weight, num_heads)` for a projection `(D, D_in)` with heads of size `d = D / num_heads`: the new
# rows, used with interleaved rotation, give the scores that the old rows gave half-split.
#
# Nothing but the places of rows changes. Rows that do not make heads of an even size are an error; none may be dropped.
#
# <details><summary>Hint</summary>Within one head, the rows <code>0 1 2 | 3 4 5</code> become
# <code>0 3 1 4 2 5</code>.</details>


# %% answer="convert"
def to_interleaved(weight, num_heads):
    """Reorder the rows of a half-split query or key projection (D, D_in) for interleaved rotation."""
    ### BEGIN SOLUTION
    rows, width = weight.shape
    if rows % (2 * num_heads):
        raise ValueError(f"{rows} rows do not make num_heads={num_heads} heads of an even size")
    halves = weight.reshape(num_heads, 2, rows // num_heads // 2, width)
    return halves.transpose(1, 2).reshape(rows, width)
    ### END SOLUTION


# %% check="convert"
rows = torch.arange(12.0).unsqueeze(1)
expected = torch.tensor([0.0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]).unsqueeze(1)
show_check("two heads of six rows", expected, to_interleaved(rows, 2), "the halves of each head in turns")

# %% [markdown]
# ## Step 4 · A longer context
#
# To stretch the context by a factor, NTK-aware scaling raises the base so that the slowest pair turns slower by just
# that factor, and the fastest one stays: $base' = base \cdot factor^{\,d/(d-2)}$. Write `ntk_base(base, d, factor)`.


# %% answer="ntk"
def ntk_base(base, d, factor):
    """The base that slows the slowest of d/2 pairs by the factor and leaves the fastest as it is."""
    ### BEGIN SOLUTION
    return base * factor ** (d / (d - 2))
    ### END SOLUTION


# %% check="ntk"
show_check("factor 1 changes nothing", 10000.0, ntk_base(10000.0, 64, 1.0), "1 to any power is 1")
show_check("d = 4, factor 3", 90000.0, ntk_base(10000.0, 4, 3.0), "the exponent is d / (d - 2)")

# %% [markdown]
# ## Step 5 · In multi-head attention
#
# Write `RotaryMultiHeadAttention(d_model, num_heads, base=10000.0, bias=True)`: multi-head self-attention as in chapter
# 03, whose queries and keys are rotated (half-split), head by head, before the scores.
#
# - Linear layers `W_q`, `W_k`, `W_v`, `W_o`, all `(D, D)`; head `h` holds the features `h*d ... (h+1)*d - 1`.
# - `forward(x, mask=None, offset=0)`: `x (B, L, D)`; `mask` broadcastable to `(B, H, L, L)`, `True` (or not 0) may
#   attend; a row that may attend nowhere gives zeros before `W_o`. `offset` is added to all positions.
# - The module may be converted with `module.half()`. That rounds its buffers, too: keep no angles or frequencies there.
# - A `d_model` that `num_heads` does not divide, or an odd head size, is a `ValueError` that names the numbers.
#
# You may use `stand_in_rotary` below in place of your own `apply_rotary`; it turns half-split pairs by complex numbers.
#
# <details><summary>Hint</summary><code>F.scaled_dot_product_attention</code> takes a boolean mask of this meaning.
# </details>


# %% given="stand_in_rotary"
def stand_in_rotary(x, positions, base=10000.0):
    """Half-split rotation of x (..., L, d) by complex numbers; for use where your own step 2 is not ready."""
    d = x.size(-1)
    pairs = torch.complex(x[..., : d // 2].double(), x[..., d // 2 :].double())
    steps = torch.arange(0, d, 2, device=x.device, dtype=torch.float64)
    turns = positions.double().unsqueeze(-1) * torch.exp(-math.log(base) / d * steps)
    turned = pairs * torch.polar(torch.ones_like(turns), turns)
    return torch.cat((turned.real, turned.imag), dim=-1).to(x.dtype)


# %% answer="attention"
class RotaryMultiHeadAttention(nn.Module):
    """Multi-head self-attention with rotated queries and keys; x (B, L, D) -> (B, L, D)."""

    def __init__(self, d_model, num_heads, base=10000.0, bias=True):
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % num_heads:
            raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}")
        if d_model // num_heads % 2:
            raise ValueError(f"d_model={d_model} with num_heads={num_heads} gives heads of an odd size")
        self.num_heads, self.base = num_heads, base
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)
        ### END SOLUTION

    def forward(self, x, mask=None, offset=0):
        ### BEGIN SOLUTION
        batch, length, d_model = x.shape
        positions = torch.arange(length, device=x.device) + offset

        def heads(projection):
            return projection(x).view(batch, length, self.num_heads, -1).transpose(1, 2)

        q = apply_rotary(heads(self.W_q), positions, self.base)
        k = apply_rotary(heads(self.W_k), positions, self.base)
        keep = None if mask is None else mask.to(torch.bool)
        output = F.scaled_dot_product_attention(q, k, heads(self.W_v), attn_mask=keep)
        return self.W_o(output.transpose(1, 2).reshape(batch, length, d_model))
        ### END SOLUTION


# %% check="attention"
torch.manual_seed(0)
module = RotaryMultiHeadAttention(12, 3)
x = torch.randn(2, 5, 12)
show_check("the shape", (2, 5, 12), tuple(module(x).shape), "(B, L, D) comes back")
show_check("an offset changes nothing", module(x), module(x, offset=11), "queries and keys turn by the same offset")
swapped = module(x[:, [1, 0, 2, 3, 4]])[:, [1, 0, 2, 3, 4]]
assert not torch.allclose(module(x), swapped, atol=1e-4), "the order of the tokens changes nothing: rotate q and k"
print("ok    the order matters")
show_raises("10 features, 3 heads", lambda: RotaryMultiHeadAttention(10, 3), "check d_model % num_heads")
show_raises("heads of size 5", lambda: RotaryMultiHeadAttention(10, 2), "check that a head is even")

# %% [markdown]
# ## Look at the rotation
#
# The score of one query with one key, both moved along together (flat) and the key alone (wave).


# %%
def draw_scores():
    torch.manual_seed(2)
    q, k = torch.randn(1, 32), torch.randn(1, 32)
    steps = range(0, 100)
    together, alone = [], []
    for step in steps:
        at, start = torch.tensor([step]), torch.tensor([0])
        together.append((apply_rotary(q, at) * apply_rotary(k, at)).sum())
        alone.append((apply_rotary(q, start) * apply_rotary(k, at)).sum())
    plt.plot(steps, together, label="both move")
    plt.plot(steps, alone, label="the key moves")
    plt.xlabel("position")
    plt.ylabel("score")
    plt.legend()
    plt.show()


try:
    draw_scores()
except NotImplementedError:
    print("The picture comes once apply_rotary is written.")

# %% [markdown]
# ## Time it
#
# The cell uses the GPU where there is one.

# %%
import time


def compare_times():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.randn(4, 8, 256, 64, device=device)
    for name, interleaved in (("half-split", False), ("interleaved", True)):
        apply_rotary(x, interleaved=interleaved)
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(10):
            apply_rotary(x, interleaved=interleaved)
        if device.type == "cuda":
            torch.cuda.synchronize()
        print(f"{name}, on {device}: {100 * (time.perf_counter() - start):.2f} ms")


try:
    compare_times()
except NotImplementedError:
    print("The times come once apply_rotary is written.")

# %% [markdown]
# ## What you can now do
#
# - turn queries and keys so that their score depends on distance alone;
# - tell the two layouts apart, and convert weights between them;
# - say why the angles of far positions need float32.
#
# Next: chapter 08 compares the schemes.

# ---
# jupyter:
#   course:
#     title: Absolute positions
#     minutes: 60
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 05 · Absolute positions
#
# Attention does not know the order of its tokens: permute the tokens, and the outputs are permuted in the same way. A
# position encoding adds to each token a vector that depends on its position alone.
#
# **You will** write the sinusoidal encoding of Vaswani et al. (2017), a module that adds it, a learned table, and the
# matrix that moves an encoding by a fixed offset.
#
# **You need** chapter 05 of the book, broadcasting, and `nn.Module` with buffers and parameters.
#
# **Time** about 60 minutes. **Points** are written above each check.
#
# | letter | meaning |
# |---|---|
# | `B` | batch |
# | `L` | number of tokens |
# | `D` | `d_model`, the size of a token's vector |

# %% setup="imports"
import math

import matplotlib.pyplot as plt
import torch
import torch.nn as nn


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
# ## Step 1 · The sinusoidal encoding
#
# Row `pos` of the table, for pairs of columns `2i` and `2i + 1`:
#
# $$PE_{pos,\,2i} = \sin\!\left(\frac{offset + pos}{base^{\,2i/D}}\right)\qquad
# PE_{pos,\,2i+1} = \cos\!\left(\frac{offset + pos}{base^{\,2i/D}}\right)$$
#
# Both columns of a pair share one frequency. The first pair turns fastest, the last one slowest.
#
# Write `sinusoidal_encoding(length, d_model, base=10000.0, offset=0)`:
#
# - the result is a float32 table of shape `(length, d_model)`;
# - with an odd `d_model` the last column is a sine without its cosine.
#
# <details><summary>Hint 1</summary>Make a column of positions and a row of frequencies. Their product is a table of
# angles, half as wide as the result.</details>
# <details><summary>Hint 2</summary><code>table[:, 0::2]</code> is every second column from the first one on.</details>
# <details><summary>Hint 3</summary>With an odd <code>d_model</code> there is one angle more than there are
# cosines.</details>


# %% answer="sinusoidal"
def sinusoidal_encoding(length, d_model, base=10000.0, offset=0):
    """Sinusoidal position encoding (Vaswani et al. 2017, section 3.5).

    Returns a float32 table of shape (length, d_model); row 0 belongs to position `offset`.
    """
    ### BEGIN SOLUTION
    positions = torch.arange(offset, offset + length, dtype=torch.float64).unsqueeze(1)
    columns = torch.arange(0, d_model, 2, dtype=torch.float64)
    angles = positions / base ** (columns / d_model)
    table = torch.zeros(length, d_model, dtype=torch.float64)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles[:, : d_model // 2].cos()
    return table.float()
    ### END SOLUTION


# %% check="sinusoidal"
table = sinusoidal_encoding(3, 4)
show_check("the shape", (3, 4), tuple(table.shape), "one row a position, one column a feature")
show_check("position 0", torch.tensor([0.0, 1.0, 0.0, 1.0]), table[0], "sin(0) is 0 and cos(0) is 1, in turns")
show_check("the first pair at position 1", torch.tensor([math.sin(1), math.cos(1)]), table[1, :2], "its frequency is 1")
show_check(
    "the second pair at position 2",
    torch.tensor([math.sin(2 / 100), math.cos(2 / 100)]),
    table[2, 2:],
    "for d_model=4 the second frequency is 1 / 10000**(2/4) = 1/100",
)
show_check("an odd width", (2, 5), tuple(sinusoidal_encoding(2, 5).shape), "the last column is a sine")
show_check(
    "an offset", sinusoidal_encoding(5, 4)[3:], sinusoidal_encoding(2, 4, offset=3), "the first row is position 3"
)

# %% [markdown]
# ## Step 2 · A module that adds it
#
# Write `PositionalEncoding(d_model, max_len=5000)`:
#
# - it keeps the table in a **buffer** named `pe` (a leading batch axis of size 1 is fine): a buffer moves with
#   `module.to(...)` and is no parameter, so no optimizer changes it;
# - `forward(x)` adds the first `L` rows to `x` of shape `(B, L, D)` and returns a new tensor of the same dtype;
# - more than `max_len` tokens raise a `ValueError` that names both lengths;
# - an odd `d_model` works here, too.
#
# If your step 1 is not ready, use `stand_in_encoding(length, d_model)` below. It makes the same table by other means,
# but for even widths only.
#
# <details><summary>Hint 1</summary><code>self.register_buffer("pe", table)</code> in the constructor.</details>
# <details><summary>Hint 2</summary>In <code>(B, L, D)</code> the length is <code>x.size(1)</code>.</details>


# %% given="stand_in_encoding"
def stand_in_encoding(length, d_model):
    """The table of step 1 for even d_model, by complex numbers; for use where your own is not ready."""
    turns = torch.logspace(0, -4, d_model // 2 + 1, dtype=torch.float64)[:-1]
    angles = torch.outer(torch.arange(length, dtype=torch.float64), turns)
    points = torch.view_as_real(torch.polar(torch.ones_like(angles), angles))
    return points.flip(-1).flatten(1).float()


# %% answer="module"
class PositionalEncoding(nn.Module):
    """Adds the sinusoidal encoding to x (B, L, D). Raises ValueError when L is larger than max_len."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        ### BEGIN SOLUTION
        self.register_buffer("pe", sinusoidal_encoding(max_len, d_model))
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        if x.size(1) > self.pe.size(0):
            raise ValueError(f"the sequence has {x.size(1)} tokens, but the table ends at max_len={self.pe.size(0)}")
        return x + self.pe[: x.size(1)]
        ### END SOLUTION


# %% check="module"
module = PositionalEncoding(6, max_len=10)
x = torch.zeros(2, 4, 6)
show_check("zeros plus the table", stand_in_encoding(4, 6).expand(2, 4, 6), module(x), "add the first L rows")
show_check("x is not changed", torch.zeros(2, 4, 6), x, "return x + ..., not x += ...")
show_check("no parameters", 0, sum(p.numel() for p in module.parameters()), "register_buffer, not nn.Parameter")
show_check("pe is a buffer", True, "pe" in dict(module.named_buffers()), "register_buffer('pe', ...)")
show_raises("11 tokens with max_len=10", lambda: module(torch.zeros(1, 11, 6)), "compare x.size(1) with the table")

# %% [markdown]
# ## Step 3 · A learned table
#
# BERT and GPT-2 learn one vector for each position. Write `LearnedPositionalEncoding(d_model, max_len)`:
#
# - one trainable table, an `nn.Embedding` named `embedding`;
# - `forward(x)` adds the vectors of positions `0 ... L-1` to `x (B, L, D)`;
# - more than `max_len` tokens raise a `ValueError` that names both lengths;
# - whatever device the module is on, the positions are made there.
#
# <details><summary>Hint</summary><code>torch.arange(n, device=x.device)</code> makes positions on the device of
# <code>x</code>.</details>


# %% answer="learned"
class LearnedPositionalEncoding(nn.Module):
    """Adds a learned vector for each position to x (B, L, D). Raises ValueError when L is larger than max_len."""

    def __init__(self, d_model, max_len):
        super().__init__()
        ### BEGIN SOLUTION
        self.embedding = nn.Embedding(max_len, d_model)
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        length, max_len = x.size(1), self.embedding.num_embeddings
        if length > max_len:
            raise ValueError(f"the sequence has {length} tokens, but there are vectors for max_len={max_len} only")
        positions = torch.arange(length, device=x.device)
        return x + self.embedding(positions)
        ### END SOLUTION


# %% check="learned"
module = LearnedPositionalEncoding(6, max_len=10)
x = torch.randn(2, 4, 6)
show_check("x plus the first rows", x + module.embedding.weight[:4], module(x), "positions are 0 ... L-1")
show_check("one table of 10 by 6", 60, sum(p.numel() for p in module.parameters()), "one nn.Embedding and nothing else")
show_raises("11 tokens with max_len=10", lambda: module(torch.zeros(1, 11, 6)), "compare x.size(1) with max_len")

# %% [markdown]
# ## Step 4 · Moving by an offset is a rotation
#
# For every offset there is one matrix `M`, the same for all positions, with `M @ PE[pos] == PE[pos + offset]`. That is
# why attention can learn to look a fixed number of tokens back. For one pair with the frequency $w$:
#
# $$\sin(w(p + o)) = \sin(wp)\cos(wo) + \cos(wp)\sin(wo)\qquad
# \cos(w(p + o)) = \cos(wp)\cos(wo) - \sin(wp)\sin(wo)$$
#
# Write `shift_matrix(offset, d_model, base=10000.0)`, of shape `(D, D)`. An odd `d_model` is a `ValueError`, since its
# last sine has no partner.
#
# <details><summary>Hint</summary>Each pair needs a 2 by 2 block on the diagonal. Read its four numbers off the two
# equations.</details>


# %% answer="shift"
def shift_matrix(offset, d_model, base=10000.0):
    """The matrix M (D, D) with M @ PE[pos] == PE[pos + offset] for every position. Odd d_model is a ValueError."""
    ### BEGIN SOLUTION
    if d_model % 2:
        raise ValueError(f"d_model={d_model} is odd: its last sine has no cosine to turn with")
    matrix = torch.zeros(d_model, d_model)
    for column in range(0, d_model, 2):
        turn = offset / base ** (column / d_model)
        matrix[column, column], matrix[column, column + 1] = math.cos(turn), math.sin(turn)
        matrix[column + 1, column], matrix[column + 1, column + 1] = -math.sin(turn), math.cos(turn)
    return matrix
    ### END SOLUTION


# %% check="shift"
show_check("no shift is the identity", torch.eye(4), shift_matrix(0, 4), "cos(0) is 1 and sin(0) is 0")
quarter = shift_matrix(math.pi / 2, 2)
show_check("a quarter turn", torch.tensor([[0.0, 1.0], [-1.0, 0.0]]), quarter, "for d_model=2 the one frequency is 1")
table = stand_in_encoding(20, 8)
show_check("three steps on", table[3:], table[:17] @ shift_matrix(3, 8).T, "each pair turns by its own angle")
show_raises("an odd d_model", lambda: shift_matrix(1, 5), "check d_model % 2")

# %% [markdown]
# ## Look at your encoding


# %%
def draw_encoding():
    _figure, axes = plt.subplots(1, 2, figsize=(9, 3))
    table = sinusoidal_encoding(60, 32)
    axes[0].imshow(table.T, aspect="auto", cmap="RdBu")
    axes[0].set(title="the table: slow pairs at the bottom", xlabel="position", ylabel="column")
    axes[1].imshow(table @ table.T)
    axes[1].set(title="dot products depend on distance alone", xlabel="position", ylabel="position")
    plt.show()


try:
    draw_encoding()
except NotImplementedError:
    print("The picture comes once sinusoidal_encoding is written.")

# %% [markdown]
# ## Time it
#
# The cell uses the GPU where there is one. Making the table is slow; adding it is not. That is why it is a buffer.

# %%
import time


def seconds(function, device, repeats=20):
    function()
    if device.type == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        function()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats


def compare_times():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    module, x = PositionalEncoding(256, 512).to(device), torch.randn(8, 512, 256, device=device)
    make = seconds(lambda: sinusoidal_encoding(512, 256), torch.device("cpu"))
    add = seconds(lambda: module(x), device)
    print(f"making the table: {1e3 * make:.2f} ms; adding it, on {device}: {1e3 * add:.2f} ms")


try:
    compare_times()
except NotImplementedError:
    print("The times come once both steps are written.")

# %% [markdown]
# ## What you can now do
#
# - write down the frequency of each pair of columns, and say what an odd width means;
# - choose between a buffer and a parameter, and say what `.to()` moves;
# - show that an encoding moved by an offset is a rotation of each pair.
#
# Next: chapter 06 puts positions into the scores instead.

# ---
# jupyter:
#   course:
#     title: Relative positions
#     minutes: 90
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 06 · Relative positions
#
# **You will** write the four classic ways to tell attention how far apart two tokens are: the tables of Shaw et al.,
# the score of Transformer-XL, the buckets of T5, and the straight lines of ALiBi.
#
# **Why** An absolute position says "token 17". A sentence does not change its meaning when it starts 10 tokens later,
# but all its absolute positions do. A relative position says "3 tokens before me", and that stays the same.
#
# **You need** attention with a mask (exercises 02 and 04) and chapter 06 of the book, "Relative positions".
#
# **Time** about 90 minutes. **Points** are written above each check.
#
# ## Conventions
#
# | letter | meaning |
# |---|---|
# | `B`, `H` | batch, heads |
# | `L` | number of queries |
# | `S` | number of keys and values |
# | `d`, `d_v` | size of a query or key, size of a value |
#
# Per-head tensors are `(B, H, L, d)`. A mask is boolean and `True` means *may attend*; in an integer mask 0 blocks.
#
# A distance is always *key minus query*. Where there are more keys than queries, the queries are the last ones: query
# `i` stands at position `i + S - L`. That happens in decoding, where old keys are kept and old queries are not.

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
    same = expected.shape == got.shape and torch.allclose(got.double(), expected.double(), atol=1e-5, equal_nan=True)
    if same:
        print(f"ok    {what}")
        return
    raise AssertionError(f"{what}\nexpected: {expected}\ngot:      {got}\nhint:     {hint}")

# %% given="masked_softmax"
def masked_softmax(scores, mask=None):
    """Softmax over the keys. Blocked keys weigh 0, and a row that may attend nowhere is zeros. Yours to call."""
    if mask is None:
        return F.softmax(scores, dim=-1)
    blocked = mask == 0
    nowhere = blocked.all(dim=-1, keepdim=True)
    weights = F.softmax(scores.masked_fill(blocked & ~nowhere, float("-inf")), dim=-1)
    return weights.masked_fill(nowhere, 0.0)

# %% [markdown]
# ## Step 1 · Distances
#
# Write `relative_distances(L, S=None, device=None)`. It returns a tensor of integers of shape `(L, S)` with
#
# $$\mathrm{distance}_{ij} = j - (i + S - L)$$
#
# - `S=None` means `S = L`. Both `S > L` and `S < L` are allowed.
# - The result lies on `device`; `None` means torch's default.
#
# <details><summary>Hint 1</summary>Make one vector of key positions and one of query positions. Which shape must each
# have, so that their difference is a matrix?</details>
# <details><summary>Hint 2</summary><code>torch.arange</code> takes <code>device</code>. A tensor made on the CPU can
# not be added to one on the GPU.</details>

# %% answer="distances"
def relative_distances(L, S=None, device=None):
    """Distances key minus query, the queries aligned to the end of the keys: (L, S) integers."""
    ### BEGIN SOLUTION
    S = L if S is None else S
    queries = torch.arange(L, device=device) + (S - L)
    keys = torch.arange(S, device=device)
    return keys - queries.unsqueeze(-1)
    ### END SOLUTION

# %% check="distances"
show_check("three tokens", [[0, 1, 2], [-1, 0, 1], [-2, -1, 0]], relative_distances(3), "key minus query")
show_check("one query, four keys", [[-3, -2, -1, 0]], relative_distances(1, 4), "the last query meets the last key")
show_check("two queries, five keys", [[-3, -2, -1, 0, 1], [-4, -3, -2, -1, 0]], relative_distances(2, 5), "add S - L")
assert not relative_distances(3).is_floating_point(), "expected integers: distances become indices in the next step"

# %% [markdown]
# If step 1 resists, go on all the same: `distance_table` below gives the same numbers by another route, and the later
# steps may call either.

# %% given="distance_table"
def distance_table(L, S=None, device=None):
    """The distances of step 1: every row is a window of one long line of integers."""
    columns = L if S is None else S
    return torch.arange(1 - columns, L, device=device).unfold(0, columns, 1).flip(0)

# %% [markdown]
# ## Step 2 · Shaw: a vector for each distance
#
# Shaw, Uszkoreit and Vaswani (2018) learn one vector for each distance from $-K$ to $K$. Farther tokens share the
# outermost vector: *3 words before* matters, *52 or 53 words before* hardly differ. The vector is added to the key, and
# a second one to the value:
#
# $$e_{ij} = \frac{q_i \cdot (k_j + a^K_{ij})}{\sqrt{d}}, \qquad
# z_i = \sum_j \mathrm{softmax}(e_i)_j \, (v_j + a^V_{ij})$$
#
# Write `shaw_attention(q, k, v, key_table, value_table=None, mask=None)`, which returns `(output, weights)`:
#
# | tensor | shape |
# |---|---|
# | `q`, `k`, `v` | `(B, H, L, d)`, `(B, H, S, d)`, `(B, H, S, d_v)` |
# | `key_table` | `(2K+1, d)`, shared by all heads; row `K` is distance 0 |
# | `value_table` | `(2K+1, d_v)`, or `None`: then nothing is added to the values |
# | `mask` | broadcastable to `(B, H, L, S)`, or `None` |
# | `output`, `weights` | `(B, H, L, d_v)`, `(B, H, L, S)` |
#
# - Distances are those of step 1, clipped to `[-K, K]`. `K` follows from the size of the table.
# - Both terms of the score stand inside the scale.
# - A row that may attend nowhere is zeros, in `weights` and in `output`. `masked_softmax` above does that.
# - `float16`, `bfloat16`, `float32` and `float64` come back as they came; inputs stay unchanged; gradients reach
#   `q`, `k`, `v` and both tables; no device is named.
#
# <details><summary>Hint 1</summary>Clip first, then add K: that is the row of the table for each pair (i, j).
# <code>key_table[rows]</code> has the shape <code>(L, S, d)</code>.</details>
# <details><summary>Hint 2</summary>The position term pairs query i with the vector of (i, j). It is not a plain matrix
# product, since the vector depends on both. <code>torch.einsum</code> says it in one line.</details>
# <details><summary>Hint 3</summary>The value term is like it: the weight of (i, j) times the vector of (i, j), summed
# over j.</details>

# %% answer="shaw"
def shaw_attention(q, k, v, key_table, value_table=None, mask=None):
    """Attention with the relative position vectors of Shaw et al. (2018).

    q: (B, H, L, d). k: (B, H, S, d). v: (B, H, S, d_v). key_table: (2K+1, d). value_table: (2K+1, d_v) or None.
    mask: broadcastable to (B, H, L, S), True or non-zero = may attend.
    Returns output (B, H, L, d_v) and weights (B, H, L, S).
    """
    ### BEGIN SOLUTION
    limit = (key_table.size(0) - 1) // 2
    distances = relative_distances(q.size(-2), k.size(-2), device=q.device)
    rows = distances.clamp(-limit, limit) + limit
    content = q @ k.transpose(-2, -1)
    position = torch.einsum("...ld,lsd->...ls", q, key_table[rows])
    scores = (content + position) / math.sqrt(q.size(-1))
    weights = masked_softmax(scores, mask)
    output = weights @ v
    if value_table is not None:
        output = output + torch.einsum("...ls,lsv->...lv", weights, value_table[rows])
    return output, weights
    ### END SOLUTION

# %% check="shaw"
torch.manual_seed(0)
q, k, v = torch.randn(2, 3, 4, 6), torch.randn(2, 3, 5, 6), torch.randn(2, 3, 5, 7)
key_table, value_table = torch.randn(5, 6), torch.randn(5, 7)
output, weights = shaw_attention(q, k, v, torch.zeros(5, 6))
show_check("a table of zeros adds nothing", F.scaled_dot_product_attention(q, k, v), output, "plain attention is left")
_, weights = shaw_attention(q, k, v, key_table)
by_hand = q[1, 2, 0] @ (k[1, 2, 4] + key_table[4]) - q[1, 2, 0] @ (k[1, 2, 0] + key_table[1])
got = weights[1, 2, 0, 4].log() - weights[1, 2, 0, 0].log()
show_check("scores of one query against two keys", by_hand / math.sqrt(6), got, "query 0 stands at position 0 + S - L")
by_hand = q[1, 2, 3] @ (k[1, 2, 4] + key_table[2]) - q[1, 2, 3] @ (k[1, 2, 0] + key_table[0])
got = weights[1, 2, 3, 4].log() - weights[1, 2, 3, 0].log()
show_check("distance -4 shares the row of -2", by_hand / math.sqrt(6), got, "clip to [-K, K]; row K is distance 0")

# %% check="shaw_values"
output, weights = shaw_attention(q, k, v, key_table, value_table)
by_hand = weights[0, 1, 3] @ (v[0, 1] + value_table[torch.tensor([0, 0, 0, 1, 2])])
show_check("the output of the last query", by_hand, output[0, 1, 3], "weight (i, j) times value vector (i, j)")

# %% check="shaw_mask"
mask = torch.tensor([[True, False, True, True, False], [False] * 5, [True] * 5, [False, True, True, False, True]])
output, weights = shaw_attention(q, k, v, key_table, value_table, mask)
show_check("blocked keys weigh nothing", 0.0, weights[:, :, ~mask].sum(), "mask the scores before the softmax")
show_check("a row that may attend nowhere", torch.zeros(2, 3, 7), output[:, :, 1], "zeros: not NaN and not a mean")

# %% [markdown]
# ## Step 3 · Shift instead of look-up
#
# Step 2 makes a tensor of shape `(L, S, d)`. For long sequences it is the largest of all. There is a cheaper way: first
# take the product of each query with each *distance*, which is a matrix with `2L-1` columns, and then move row `i` so
# that its entries meet the right keys.
#
# Write `relative_shift(x)` for the case `S = L`. `x` has the shape `(..., L, 2L-1)`; column `c` holds distance
# `c - (L-1)`. The result has the shape `(..., L, L)`:
#
# $$\mathrm{out}_{ij} = x_{i,\; j - i + L - 1}$$
#
# <details><summary>Hint 1</summary>Write down x for L = 3 and circle the entries that go into row 0, row 1, row 2. How
# far does the circle move from row to row?</details>
# <details><summary>Hint 2</summary><code>gather(-1, index)</code> picks one entry of each row by an index of the same
# number of dimensions; <code>expand</code> gives the index the leading ones.</details>
# <details><summary>Hint 3</summary>The published trick needs no index: append one column, flatten the last two axes,
# cut a piece off, and give the rest rows that are one entry shorter than before.</details>

# %% answer="shift"
def relative_shift(x):
    """Move row i so that column j holds the entry of distance j - i: (..., L, 2L-1) -> (..., L, L)."""
    ### BEGIN SOLUTION
    length = x.size(-2)
    columns = relative_distances(length, device=x.device) + length - 1
    return x.gather(-1, columns.expand(*x.shape[:-1], length))
    ### END SOLUTION

# %% check="shift"
x = torch.tensor([[-2.0, -1, 0, 1, 2], [-2, -1, 0, 1, 2], [-2, -1, 0, 1, 2]])
show_check("each entry is its distance", [[0, 1, 2], [-1, 0, 1], [-2, -1, 0]], relative_shift(x), "row 0 starts at 0")
x = torch.arange(15.0).view(3, 5) + 100 * torch.arange(2.0).view(2, 1, 1)
expected = torch.tensor([[2.0, 3, 4], [6, 7, 8], [10, 11, 12]])
show_check("two matrices", torch.stack([expected, expected + 100]), relative_shift(x), "row i keeps to row i")

# %% [markdown]
# ## Step 4 · Transformer-XL
#
# Dai et al. (2019) start from absolute positions, multiply out $(x_i + p_i)^\top W_q^\top W_k (x_j + p_j)$, and put a
# relative vector $r_{ij}$ in place of $p_j$. The query's own position leaves two learnt vectors behind, $u$ and $w$,
# the same for all queries of a head:
#
# $$\mathrm{score}_{ij} = \frac{(q_i + u) \cdot k_j + (q_i + w) \cdot r_{ij}}{\sqrt{d}}$$
#
# Write `transformer_xl_scores(q, k, r, content_bias, position_bias)`, which returns the scores before any mask:
#
# | tensor | shape |
# |---|---|
# | `q`, `k` | `(B, H, L, d)`, `(B, H, S, d)` |
# | `r` | `(H, S+L-1, d)`; column `c` along the second axis is distance `c - (S-1)` |
# | `content_bias` ($u$), `position_bias` ($w$) | `(H, d)` |
# | result | `(B, H, L, S)` |
#
# Distances are those of step 1, so here `S` may differ from `L`.
#
# <details><summary>Hint 1</summary>A bias of shape <code>(H, d)</code> is the same for each query. Where must an axis
# of size 1 stand, so that it meets <code>(B, H, L, d)</code>?</details>
# <details><summary>Hint 2</summary>Query times every row of r is <code>(B, H, L, S+L-1)</code>. Then each pair (i, j)
# picks the column of its distance. For S = L that is step 3.</details>

# %% answer="xl"
def transformer_xl_scores(q, k, r, content_bias, position_bias):
    """Scores of Transformer-XL (Dai et al. 2019), scaled, without a mask.

    q: (B, H, L, d). k: (B, H, S, d). r: (H, S+L-1, d), where row c is distance c - (S-1).
    content_bias, position_bias: (H, d). Returns (B, H, L, S).
    """
    ### BEGIN SOLUTION
    content = (q + content_bias.unsqueeze(-2)) @ k.transpose(-2, -1)
    by_distance = (q + position_bias.unsqueeze(-2)) @ r.transpose(-2, -1)
    columns = relative_distances(q.size(-2), k.size(-2), device=q.device) + k.size(-2) - 1
    position = by_distance.gather(-1, columns.expand_as(content))
    return (content + position) / math.sqrt(q.size(-1))
    ### END SOLUTION

# %% check="xl"
torch.manual_seed(2)
q, k, r = torch.randn(2, 3, 4, 6), torch.randn(2, 3, 5, 6), torch.randn(3, 8, 6)
u, w = torch.randn(3, 6), torch.randn(3, 6)
got = transformer_xl_scores(q, k, r, u, w)
show_check("the shape", (2, 3, 4, 5), tuple(got.shape), "(B, H, L, S)")
nothing = torch.zeros(3, 8, 6)
expected = (q + u[:, None]) @ k.mT / math.sqrt(6)
show_check("r of zeros", expected, transformer_xl_scores(q, k, nothing, u, w), "the content term is left")
expected = ((q[1, 2, 0] + u[2]) @ k[1, 2, 3] + (q[1, 2, 0] + w[2]) @ r[2, 6]) / math.sqrt(6)
show_check("query 0, key 3", expected, got[1, 2, 0, 3], "its distance is 3 - (0 + 5 - 4) = 2, which is column 2 + 4")

# %% [markdown]
# ## Step 5 · The buckets of T5
#
# T5 (Raffel et al. 2020) learns no vectors, just one number per head for each *bucket* of distances. Near distances
# have a bucket of their own; farther ones share buckets whose width grows with the distance.
#
# Write `t5_bucket(distance, bidirectional=True, num_buckets=32, max_distance=128)`. `distance` is an integer tensor of
# any shape; the result has the same shape, with integers from 0 to `num_buckets - 1`:
#
# 1. *Bidirectional*: each direction gets half of the buckets, $n = $ `num_buckets / 2`. Keys after the query
#    (distance > 0) use the upper half: their bucket is moved up by $n$. Then $m = |\mathrm{distance}|$.
#    *Not bidirectional*: $n = $ `num_buckets`. Only keys at or before the query count:
#    $m = \max(-\mathrm{distance}, 0)$.
# 2. With $e = \lfloor n/2 \rfloor$, for $m < e$ the bucket is $m$ itself.
# 3. From $e$ on it is
#
# $$\min\!\left(n - 1,\;
# e + \left\lfloor \frac{\ln(m / e)}{\ln(\mathrm{max\_distance} / e)} \, (n - e) \right\rfloor\right)$$
#
# <details><summary>Hint 1</summary>Compute both branches for every entry and choose with
# <code>torch.where</code>. The logarithm of 0 is -inf: what does that become as an integer? Clamp before.</details>
# <details><summary>Hint 2</summary>Half of the buckets is taken before e is computed, not after.</details>

# %% answer="bucket"
def t5_bucket(distance, bidirectional=True, num_buckets=32, max_distance=128):
    """The bucket of each distance (key minus query), as in T5 (Raffel et al. 2020)."""
    ### BEGIN SOLUTION
    upper = 0
    if bidirectional:
        num_buckets = num_buckets // 2
        upper = (distance > 0) * num_buckets
        steps = distance.abs()
    else:
        steps = (-distance).clamp(min=0)
    exact = num_buckets // 2
    growth = torch.log(steps.clamp(min=1) / exact) / math.log(max_distance / exact)
    far = exact + (growth * (num_buckets - exact)).long()
    far = far.clamp(max=num_buckets - 1)
    return torch.where(steps < exact, steps, far) + upper
    ### END SOLUTION

# %% check="bucket"
show_check("near distances", [3, 2, 1, 0, 17, 18, 19], t5_bucket(torch.arange(-3, 4)), "later keys: the upper half")
far = torch.tensor([7, 8, 9, 12, 17, 33, 65, 128, 5000])
show_check("far distances", [7, 8, 8, 9, 10, 12, 14, 15, 15], t5_bucket(-far), "from 8 on, logarithmic; 15 is the last")
got = t5_bucket(torch.tensor([40, 1, 0, -3, -15, -4000]), bidirectional=False)
show_check("one direction", [0, 0, 0, 3, 15, 31], got, "later keys fall into bucket 0; all 32 buckets look back")
got = t5_bucket(-torch.tensor([0, 1, 2, 3, 20, 50]), num_buckets=8, max_distance=20)
show_check("few buckets", [0, 1, 2, 2, 3, 3], got, "n = 4, e = 2; use num_buckets and max_distance")

# %% [markdown]
# If step 5 resists: `nearest_buckets` below is right for distances up to 7 in both directions with 32 buckets, which is
# enough to do step 6.

# %% given="nearest_buckets"
def nearest_buckets(distance):
    """The buckets of distances from -7 to 7, as a table: 7, 6, ..., 0, 17, 18, ..., 23."""
    table = torch.cat([torch.arange(7, -1, -1), torch.arange(17, 24)]).to(distance.device)
    return table[distance.clamp(-7, 7) + 7]

# %% [markdown]
# ## Step 6 · The bias of T5 as a module
#
# Write `T5RelativeBias(num_heads, num_buckets=32, max_distance=128, bidirectional=True)`:
#
# - an `nn.Embedding` named `embedding`, with a row for each bucket and a column for each head, and no other parameter;
# - `forward(L, S)` returns `(1, H, L, S)`: the bias of every pair, ready to be added to scores `(B, H, L, S)`;
# - when the module moves to a GPU or to `float16`, the result follows.
#
# <details><summary>Hint 1</summary>The embedding of a matrix <code>(L, S)</code> of buckets is
# <code>(L, S, H)</code>. Which order of axes is asked for?</details>
# <details><summary>Hint 2</summary>The table knows its device: <code>self.embedding.weight.device</code>.</details>

# %% answer="t5_bias"
class T5RelativeBias(nn.Module):
    """A learnt bias for each head and each bucket of distances."""

    def __init__(self, num_heads, num_buckets=32, max_distance=128, bidirectional=True):
        ### BEGIN SOLUTION
        super().__init__()
        self.num_buckets, self.max_distance, self.bidirectional = num_buckets, max_distance, bidirectional
        self.embedding = nn.Embedding(num_buckets, num_heads)
        ### END SOLUTION

    def forward(self, L, S):
        """The bias of each head for each pair of query and key: (1, H, L, S)."""
        ### BEGIN SOLUTION
        distances = relative_distances(L, S, device=self.embedding.weight.device)
        buckets = t5_bucket(distances, self.bidirectional, self.num_buckets, self.max_distance)
        return self.embedding(buckets).permute(2, 0, 1).unsqueeze(0)
        ### END SOLUTION

# %% check="t5_bias"
bias = T5RelativeBias(3)
got = bias(2, 4)
show_check("the shape", (1, 3, 2, 4), tuple(got.shape), "(1, H, L, S)")
table = bias.embedding.weight
show_check("the shape of the table", (32, 3), tuple(table.shape), "a row for each bucket, a column for each head")
show_check("head 1, query 0: distances -2, -1, 0, 1", table[[2, 1, 0, 17], 1], got[0, 1, 0], "look up the buckets")
show_check("head 2, query 1: distances -3 to 0", table[[3, 2, 1, 0], 2], got[0, 2, 1], "queries are the last ones")

# %% [markdown]
# ## Step 7 · The slopes of ALiBi
#
# ALiBi (Press et al. 2022) learns nothing at all. Each head subtracts its slope times the distance. With a large slope
# a head sees its neighbours only; with a small one it sees far.
#
# Write `alibi_slopes(num_heads)`, a float32 tensor of shape `(H,)` on the CPU:
#
# - When `H` is a power of two, slope $h = 0, 1, \dots, H-1$ is $2^{-8(h+1)/H}$. For 8 heads: 1/2, 1/4, ..., 1/256.
# - Otherwise let `P` be the largest power of two below `H`. The first `P` slopes are those of `P` heads. The others are
#   the slopes of `2P` heads at the places 0, 2, 4, ..., as many as are needed.
#
# <details><summary>Hint 1</summary>For 6 heads, P is 4: four slopes of 4 heads, then two out of the slopes of 8
# heads.</details>
# <details><summary>Hint 2</summary>A function for powers of two, called twice, does it.
# <code>num_heads.bit_length()</code> finds P without logarithms.</details>

# %% answer="slopes"
def alibi_slopes(num_heads):
    """One slope for each head (Press et al. 2022): (H,) float32."""
    ### BEGIN SOLUTION
    power = 1 << (num_heads.bit_length() - 1)
    ratio = 2.0 ** (-8.0 / power)
    slopes = [ratio ** (h + 1) for h in range(power)]
    between = [ratio ** (h + 0.5) for h in range(num_heads - power)]
    return torch.tensor(slopes + between, dtype=torch.float32)
    ### END SOLUTION

# %% check="slopes"
show_check("4 heads", [1 / 4, 1 / 16, 1 / 64, 1 / 256], alibi_slopes(4), "2 to the power -8 (h + 1) / H")
show_check("8 heads", [0.5**n for n in range(1, 9)], alibi_slopes(8), "2 to the power -8 (h + 1) / H")
show_check("3 heads", [1 / 16, 1 / 256, 1 / 4], alibi_slopes(3), "P = 2, then place 0 of the slopes of 4 heads")

# %% [markdown]
# ## Step 8 · The bias of ALiBi
#
# Write `alibi_bias(num_heads, L, S=None)`, a float32 tensor of shape `(H, L, S)` on the CPU:
#
# $$\mathrm{bias}_{hij} = -\mathrm{slope}_h \cdot |\mathrm{distance}_{ij}|$$
#
# <details><summary>Hint</summary>Slopes with two axes of size 1 behind them, times distances.</details>

# %% answer="alibi"
def alibi_bias(num_heads, L, S=None):
    """What ALiBi adds to the scores: (H, L, S) float32."""
    ### BEGIN SOLUTION
    slopes = alibi_slopes(num_heads).view(-1, 1, 1)
    return -slopes * relative_distances(L, S).abs()
    ### END SOLUTION

# %% check="alibi"
got = alibi_bias(4, 3)
show_check("the shape", (4, 3, 3), tuple(got.shape), "(H, L, S)")
show_check("head 0 of 4", torch.tensor([[0, 1, 2], [1, 0, 1], [2, 1, 0]]) / -4, got[0], "farther keys get less")
show_check("head 1 of 4, one query", torch.tensor([[3, 2, 1, 0]]) / -16, alibi_bias(4, 1, 4)[1], "distances of step 1")

# %% [markdown]
# ## Look at your biases
#
# Left: your buckets over the distance. Steps get wider with distance, and end. Middle and right: what your ALiBi adds
# to the scores, for a steep head and a flat head. Each diagonal has one colour: that is what *relative* means.

# %%
def draw_biases():
    distance = torch.arange(-160, 161)
    figure, axes = plt.subplots(1, 3, figsize=(11, 3))
    axes[0].step(distance, t5_bucket(distance), where="mid", label="both directions")
    axes[0].step(distance, t5_bucket(distance, bidirectional=False), where="mid", label="one direction")
    axes[0].set(title="T5 buckets", xlabel="distance (key minus query)", ylabel="bucket")
    axes[0].legend()
    for axis, head in zip(axes[1:], (0, 2), strict=True):
        picture = axis.imshow(alibi_bias(4, 32)[head], vmin=-8, vmax=0)
        axis.set(title=f"ALiBi, head {head} of 4", xlabel="key", ylabel="query")
    figure.colorbar(picture, ax=axes[1:])
    plt.show()


try:
    draw_biases()
except NotImplementedError:
    print("The pictures come once t5_bucket and alibi_bias are written.")

# %% [markdown]
# ## Time it
#
# The look-up of step 2 makes a tensor of `(L, S, d)` numbers. The shift of step 3 makes `(H, L, 2L-1)`. The cell uses
# the GPU where there is one.

# %%
import time


def seconds(function, device, repeats=5):
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
    length, size = 384, 64
    queries = torch.randn(4, length, size, device=device)
    table = torch.randn(2 * length - 1, size, device=device)
    rows = relative_distances(length, device=device) + length - 1
    look_up = seconds(lambda: torch.einsum("hld,lsd->hls", queries, table[rows]), device)
    shift = seconds(lambda: relative_shift(queries @ table.T), device)
    print(f"on {device}: position scores by look-up {1e3 * look_up:.2f} ms, by shift {1e3 * shift:.2f} ms")


try:
    compare_times()
except NotImplementedError:
    print("The times come once relative_distances and relative_shift are written.")

# %% [markdown]
# ## What you can now do
#
# - turn positions into distances, also when there are more keys than queries;
# - add a learnt vector (Shaw), a learnt number (T5) or a fixed line (ALiBi) to attention, and say what each costs;
# - compute relative scores without a tensor of `(L, S, d)`;
# - read the code of Transformer-XL and know what its shift does.
#
# Chapter 06 of the book, "Relative positions", compares the schemes. Next: chapter 07 turns vectors instead of adding
# to scores.

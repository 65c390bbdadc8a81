# ---
# jupyter:
#   course:
#     title: Masking
#     minutes: 60
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 04 · Masking
#
# A mask says which keys a query may attend to. There are few kinds of masks and many conventions, and most mistakes with
# attention are mistakes with masks: they raise no error, and the model still trains.
#
# **You will** build padding and causal masks, combine them, turn them into additive form, convert from the opposite
# convention, and write masked attention that stays finite everywhere.
#
# **You need** chapter 04 of the book, and the exercise of chapter 02.
#
# **Time** about 60 minutes. **Points** are written above each check.
#
# In this course a mask is boolean and `True` means *may attend*. An integer mask means the same, and 0 blocks.
#
# | letter | meaning |
# |---|---|
# | `B` | batch |
# | `L`, `S` | number of queries; of keys |
# | `d`, `d_v` | size of a query or key; of a value |

# %% setup="imports"
import math

import matplotlib.pyplot as plt
import torch
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


# %% [markdown]
# ## Step 1 · Padding
#
# Sentences of different lengths are padded to one length. No query may attend to padding.
#
# Write `padding_mask(lengths, max_length=None)`: `lengths (B,)` are whole numbers, 0 allowed; the result is boolean, of
# shape `(B, 1, 1, S)`, so that it broadcasts over heads and queries. `S` is `max_length`, or the largest length when it
# is `None`. A length above `max_length` is a `ValueError` that names both numbers.
#
# <details><summary>Hint</summary>Compare a row of positions with a column of lengths.</details>


# %% answer="padding"
def padding_mask(lengths, max_length=None):
    """True at the real tokens of each sample: lengths (B,) -> (B, 1, 1, S). ValueError for a length above max_length."""
    ### BEGIN SOLUTION
    longest = int(lengths.max())
    size = longest if max_length is None else max_length
    if longest > size:
        raise ValueError(f"a sample has {longest} tokens, but max_length is {size}")
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths.unsqueeze(1))[:, None, None, :]
    ### END SOLUTION


# %% check="padding"
expected = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 0, 0]])
got = padding_mask(torch.tensor([2, 3, 0]))
show_check("the shape", (3, 1, 1, 3), tuple(got.shape), "(B, 1, 1, S)")
show_check("lengths 2, 3 and 0", expected, got[:, 0, 0], "position < length")
show_check("a larger max_length", 5, padding_mask(torch.tensor([2, 1]), 5).size(-1), "S is max_length")

# %% [markdown]
# ## Step 2 · Causal
#
# A token may attend to itself and to what came before it. With `L` queries and `S` keys the last query belongs to the
# last key: query `i` may attend to key `j` when `j <= i + S - L`.
#
# Write `causal_mask(L, S=None, device=None)`, boolean, `(L, S)`; `S` is `L` when it is `None`.


# %% answer="causal"
def causal_mask(L, S=None, device=None):
    """True where key j may be seen by query i, j <= i + S - L: a boolean (L, S)."""
    ### BEGIN SOLUTION
    S = L if S is None else S
    return torch.ones(L, S, dtype=torch.bool, device=device).tril(S - L)
    ### END SOLUTION


# %% check="causal"
show_check("three tokens", torch.tensor([[1, 0, 0], [1, 1, 0], [1, 1, 1]]), causal_mask(3), "a token sees itself")
show_check("2 queries, 4 keys", torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]]), causal_mask(2, 4), "aligned to the end")
show_check("1 query, 3 keys", torch.tensor([[1, 1, 1]]), causal_mask(1, 3), "a new token sees all that came before")

# %% [markdown]
# ## Step 3 · Several masks
#
# Write `combine_masks(*masks)`: a key may be seen where **every** mask allows it. Masks may be boolean or integer, may be
# `None`, and broadcast against each other. The result is boolean, or `None` when there is no mask at all.


# %% answer="combine"
def combine_masks(*masks):
    """Logical and of all masks that are not None; boolean, or None when all are None."""
    ### BEGIN SOLUTION
    result = None
    for mask in masks:
        if mask is not None:
            keep = mask.to(torch.bool)
            result = keep if result is None else result & keep
    return None if result is None else result.clone()
    ### END SOLUTION


# %% check="combine"
both = combine_masks(torch.tensor([1, 1, 0]), None, torch.tensor([[True], [False]]))
show_check("an integer and a boolean mask", torch.tensor([[1, 1, 0], [0, 0, 0]]), both, "both have to allow a key")
assert both.dtype == torch.bool, f"expected a boolean mask, got {both.dtype}"
assert combine_masks(None, None) is None, "without any mask the result is None"
print("ok    no mask at all")

# %% [markdown]
# ## Step 4 · Additive form
#
# Some kernels add a mask to the scores. Write `additive_mask(mask, dtype=torch.float32)`: 0 where a key is kept,
# `-inf` where it is blocked.
#
# <details><summary>Hint</summary><code>0 * -inf</code> is NaN. Fill, do not multiply.</details>


# %% answer="additive"
def additive_mask(mask, dtype=torch.float32):
    """0 where the mask keeps, -inf where it blocks; same shape, in the dtype given."""
    ### BEGIN SOLUTION
    zeros = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return zeros.masked_fill(~mask.to(torch.bool), float("-inf"))
    ### END SOLUTION


# %% check="additive"
got = additive_mask(torch.tensor([True, False, True]))
show_check("keep, block, keep", torch.tensor([0.0, -math.inf, 0.0]), got, "masked_fill with -inf")
got = additive_mask(torch.tensor([1, 0]), torch.float16)
assert got.dtype == torch.float16 and got[1] == -math.inf, f"expected float16 with -inf, got {got}"
print("ok    an integer mask, in float16")

# %% [markdown]
# ## Step 5 · Attention that stays finite
#
# A row that may attend nowhere has scores of `-inf` throughout, and its softmax is NaN. Padding on the left together
# with a causal mask makes such rows. Write `masked_attention(q, k, v, mask)`, which returns `(output, weights)` as in
# chapter 02:
#
# - such a row is zeros in `output` and in `weights`;
# - gradients are finite everywhere, also there;
# - all of this in float16, bfloat16, float32 and float64.
#
# <details><summary>Hint 1</summary>A finite fill such as -1e9 gives such a row the mean of the values, and does not fit
# into float16.</details>
# <details><summary>Hint 2</summary>Repairing NaN in the output is too late for the gradients: make the row finite before
# the softmax, and put zeros into its weights afterwards.</details>


# %% answer="attention"
def masked_attention(q, k, v, mask):
    """Scaled dot-product attention under a mask; rows that may attend nowhere are zeros, and gradients stay finite.

    q: (..., L, d). k: (..., S, d). v: (..., S, d_v). mask: broadcastable to (..., L, S), True or non-zero = may attend.
    Returns output (..., L, d_v) and weights (..., L, S).
    """
    ### BEGIN SOLUTION
    keep = mask.to(torch.bool)
    scores = (q / math.sqrt(q.size(-1))) @ k.transpose(-2, -1)
    nowhere = ~keep.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~keep, float("-inf")).masked_fill(nowhere, 0.0)
    weights = torch.softmax(scores, dim=-1).masked_fill(nowhere, 0.0)
    return weights @ v, weights
    ### END SOLUTION


# %% check="attention"
torch.manual_seed(0)
q, k, v = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 6)
mask = torch.tensor([[1, 0, 1, 1, 0], [1, 1, 0, 1, 1], [0, 1, 1, 0, 1]]).bool()
output, weights = masked_attention(q, k, v, mask)
show_check("the masked output", F.scaled_dot_product_attention(q, k, v, attn_mask=mask), output, "mask, then softmax")
show_check("blocked keys weigh nothing", 0.0, weights[:, ~mask].sum(), "True means: may attend")

# %% check="rows"
mask[1] = False
q.requires_grad_()
output, weights = masked_attention(q, k, v, mask)
show_check("a row that may attend nowhere", torch.zeros(2, 6), output[:, 1].detach(), "zeros, not NaN and not a mean")
output.sum().backward()
assert torch.isfinite(q.grad).all(), "the gradient holds NaN: make the row finite before the softmax"
print("ok    gradients are finite")

# %% [markdown]
# ## Step 6 · The other convention
#
# `nn.MultiheadAttention` takes masks the other way round: a boolean `True` means *blocked*. It also takes additive masks
# of 0 and `-inf`. Write `keep_from_mha(mask)`, which turns either into a boolean mask of this course.


# %% answer="convert"
def keep_from_mha(mask):
    """From nn.MultiheadAttention's masks (True = blocked, or additive 0 and -inf) to a boolean one, True = may attend."""
    ### BEGIN SOLUTION
    if mask.dtype == torch.bool:
        return ~mask
    return mask > float("-inf")
    ### END SOLUTION


# %% check="convert"
show_check("boolean", torch.tensor([0, 1, 1]), keep_from_mha(torch.tensor([True, False, False])), "turn it round")
show_check(
    "additive", torch.tensor([1, 0, 1]), keep_from_mha(torch.tensor([0.0, -math.inf, 0.0])), "-inf blocks, 0 keeps"
)

# %% [markdown]
# ## Look at your masks


# %%
def draw_masks():
    lengths = torch.tensor([6, 3])
    padding, causal = padding_mask(lengths, 6), causal_mask(6)
    pictures = {"padding": padding[1, 0].expand(6, 6), "causal": causal, "both": combine_masks(padding, causal)[1, 0]}
    _figure, axes = plt.subplots(1, 3, figsize=(8, 3))
    for axis, (title, mask) in zip(axes, pictures.items(), strict=True):
        axis.imshow(mask, vmin=0, vmax=1)
        axis.set(title=title, xlabel="key", ylabel="query")
    plt.show()


try:
    draw_masks()
except NotImplementedError:
    print("The picture comes once the masks are written.")

# %% [markdown]
# ## Time it
#
# The cell uses the GPU where there is one.

# %%
import time


def compare_times():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    q, k, v = (torch.randn(4, 8, 256, 32, device=device) for _ in range(3))
    mask = causal_mask(256, device=device)
    for name, call in (("yours", masked_attention), ("torch's", F.scaled_dot_product_attention)):
        call(q, k, v, mask)
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(5):
            call(q, k, v, mask)
        if device.type == "cuda":
            torch.cuda.synchronize()
        print(f"{name}, on {device}: {200 * (time.perf_counter() - start):.2f} ms")


try:
    compare_times()
except NotImplementedError:
    print("The times come once the steps are written.")

# %% [markdown]
# ## What you can now do
#
# - build padding and causal masks for any lengths, and say what `L != S` changes;
# - tell the conventions of two libraries apart, and convert;
# - say what a row that may attend nowhere does to outputs and gradients, and prevent it.
#
# Next: chapter 05 gives tokens their positions.

# ---
# jupyter:
#   course:
#     title: Scaled dot-product attention
#     minutes: 45
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 02 · Scaled dot-product attention
#
# **You will** write a softmax that does not overflow, and the attention that every Transformer is built on:
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# **You need** tensors, broadcasting and matrix products in PyTorch, and chapter 02 of the book.
#
# **Time** about 45 minutes. **Points** are written above each check.
#
# ## How this notebook works
#
# - Write your code where a cell says `raise NotImplementedError`.
# - After each step comes a check. Run it as often as you like. It shows what was expected, what came, and a hint.
# - The score comes from more tests than the ones you see. They use other sizes, other dtypes and other masks.
# - Nothing but `torch`, `numpy` and `matplotlib` is needed, here or on Colab.
#
# | letter | meaning |
# |---|---|
# | `L` | number of queries |
# | `S` | number of keys and values |
# | `d` | size of a query or key |
# | `d_v` | size of a value |
# | `...` | any number of leading dimensions, none included |

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
# ## Step 1 · A stable softmax
#
# $$\mathrm{softmax}(x)_i = \frac{e^{x_i}}{\sum_j e^{x_j}}$$
#
# In float32, $e^{x}$ is infinite from $x \approx 88.7$ on. Attention scores can be larger than that. Subtracting the
# same number from every $x_j$ does not change the result, so there is a free choice that keeps $e^{x}$ finite.
#
# Write `softmax(x, dim=-1)`:
#
# - `x` has any shape; `dim` is any of its axes; the result has the shape and dtype of `x`;
# - it is exact for any finite values, also when one slice holds values near 1000 and another holds values near -1000;
# - an entry of `-inf` gets the weight 0 (a slice that is `-inf` throughout is left open);
# - `x` is not changed.
#
# <details><summary>Hint 1</summary>Which number, subtracted from a slice, makes its largest exponent 0?</details>
# <details><summary>Hint 2</summary>Each slice needs its own number. <code>amax</code> with <code>keepdim=True</code>
# keeps an axis of size 1, which broadcasts.</details>

# %% answer="softmax"
def softmax(x, dim=-1):
    """Softmax of x along dim, stable for any finite values and for entries of -inf.

    x: any shape. Returns a tensor of the same shape and dtype whose slices along dim sum to 1.
    """
    ### BEGIN SOLUTION
    shifted = x - x.amax(dim=dim, keepdim=True)
    exponentials = shifted.exp()
    return exponentials / exponentials.sum(dim=dim, keepdim=True)
    ### END SOLUTION

# %% check="softmax"
x = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
show_check("softmax of two rows", F.softmax(x, dim=-1), softmax(x), "divide each exponential by the sum of its row")
show_check("softmax along dim=0", F.softmax(x, dim=0), softmax(x, dim=0), "use the dim that was asked for")
far = torch.tensor([[1000.0, 1001.0], [-1000.0, -1001.0]])
show_check("rows far from zero", F.softmax(far, dim=-1), softmax(far), "subtract each row's own maximum first")
hole = torch.tensor([0.0, float("-inf"), 1.0])
show_check("an entry of -inf", F.softmax(hole, dim=-1), softmax(hole), "exp(-inf) is 0: nothing special is needed")

# %% [markdown]
# ## Step 2 · Attention
#
# Write `scaled_dot_product_attention(q, k, v, mask=None)`, which returns the pair `(output, weights)`:
#
# | tensor | shape |
# |---|---|
# | `q` | `(..., L, d)` |
# | `k` | `(..., S, d)` |
# | `v` | `(..., S, d_v)` |
# | `mask` | broadcastable to `(..., L, S)`, or `None` |
# | `output` | `(..., L, d_v)` |
# | `weights` | `(..., L, S)` |
#
# - The scale is $1/\sqrt{d}$, with `d` the last dimension of `q`.
# - The mask is boolean, and `True` means *may attend*. An integer mask means the same, and 0 blocks. A blocked key gets
#   the weight 0.
# - Where a row of the mask blocks every key, the row of `weights` and the row of `output` are zeros.
# - `float16`, `bfloat16`, `float32` and `float64` work, and the results have the dtype of the inputs.
# - Inputs are not changed, gradients reach `q`, `k` and `v`, and no device is named in the code.
#
# <details><summary>Hint 1</summary>For any number of leading dimensions, <code>transpose(-2, -1)</code> swaps the last
# two axes.</details>
# <details><summary>Hint 2</summary>A score of <code>-inf</code> gives a weight of exactly 0. A large finite number such
# as -1e9 does not fit into float16.</details>
# <details><summary>Hint 3</summary>A row of <code>-inf</code> throughout becomes NaN. Put zeros into those rows of the
# weights after the softmax.</details>

# %% answer="attention"
def scaled_dot_product_attention(q, k, v, mask=None):
    """Scaled dot-product attention (Vaswani et al. 2017, equation 1).

    q: (..., L, d). k: (..., S, d). v: (..., S, d_v). mask: broadcastable to (..., L, S), True or non-zero = may attend.
    Returns output (..., L, d_v) and weights (..., L, S); both are zero in rows that may attend nowhere.
    """
    ### BEGIN SOLUTION
    scores = (q / math.sqrt(q.size(-1))) @ k.transpose(-2, -1)
    if mask is None:
        weights = softmax(scores)
        return weights @ v, weights
    keep = mask.to(torch.bool)
    scores = scores.masked_fill(~keep, float("-inf"))
    nowhere = ~keep.any(dim=-1, keepdim=True)
    weights = softmax(scores.masked_fill(nowhere, 0.0)).masked_fill(nowhere, 0.0)
    return weights @ v, weights
    ### END SOLUTION

# %% check="attention"
torch.manual_seed(0)
q, k, v = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 6)
output, weights = scaled_dot_product_attention(q, k, v)
show_check("the shape of the output", (2, 3, 6), tuple(output.shape), "L rows of size d_v")
show_check("each row of weights sums to 1", torch.ones(2, 3), weights.sum(dim=-1), "softmax runs over the keys")
show_check("the output", F.scaled_dot_product_attention(q, k, v), output, "scores, scale, softmax, then times v")

# %% check="mask"
mask = torch.tensor([[True, False, True, True, False], [True, True, False, True, True], [False, True, True, False, True]])
output, weights = scaled_dot_product_attention(q, k, v, mask)
show_check("blocked keys weigh nothing", 0.0, weights[:, ~mask].sum(), "True means: may attend")
show_check("the masked output", F.scaled_dot_product_attention(q, k, v, attn_mask=mask), output, "mask before softmax")
output, _ = scaled_dot_product_attention(q, k, v, mask.int())
show_check("an integer mask", F.scaled_dot_product_attention(q, k, v, attn_mask=mask), output, "0 blocks, like False")

# %% check="rows"
nowhere = torch.zeros(3, 5, dtype=torch.bool)
output, weights = scaled_dot_product_attention(q, k, v, nowhere)
show_check("rows that may attend nowhere", torch.zeros(2, 3, 6), output, "such a row is zeros, not NaN and not a mean")

# %% check="types"
for dtype in (torch.float16, torch.bfloat16, torch.float64):
    output, weights = scaled_dot_product_attention(q.to(dtype), k.to(dtype), v.to(dtype), mask)
    assert output.dtype == weights.dtype == dtype, f"expected {dtype}, got {output.dtype} and {weights.dtype}"
print("ok    the dtype of the inputs comes back")

# %% [markdown]
# ## Look at your weights
#
# Eight random queries attend to eight random keys, with `d = 64`. Left: without the scale most weights are close to
# 0 or 1. Right: with it they are spread.

# %%
def draw_weights():
    torch.manual_seed(1)
    tokens, others = torch.randn(8, 64), torch.randn(8, 64)
    pictures = {
        "the scale undone": scaled_dot_product_attention(tokens * math.sqrt(64), others, others)[1],
        "scaled by 1/sqrt(d)": scaled_dot_product_attention(tokens, others, others)[1],
    }
    figure, axes = plt.subplots(1, 2, figsize=(7, 3))
    for axis, (title, weights) in zip(axes, pictures.items(), strict=True):
        axis.imshow(weights, vmin=0, vmax=1)
        axis.set(title=title, xlabel="key", ylabel="query")
    plt.show()


try:
    draw_weights()
except NotImplementedError:
    print("The picture comes once scaled_dot_product_attention is written.")

# %% [markdown]
# ## Time it
#
# The cell uses the GPU where there is one.

# %%
import time


def seconds(function, device, repeats=10):
    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize()

    function()
    wait()
    start = time.perf_counter()
    for _ in range(repeats):
        function()
    wait()
    return (time.perf_counter() - start) / repeats


def compare_times():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    q, k, v = (torch.randn(8, 256, 64, device=device) for _ in range(3))
    yours = seconds(lambda: scaled_dot_product_attention(q, k, v), device)
    torchs = seconds(lambda: F.scaled_dot_product_attention(q, k, v), device)
    print(f"on {device}: yours {1e3 * yours:.2f} ms, torch's fused kernel {1e3 * torchs:.2f} ms")
    if device.type == "cpu":
        print("No GPU is here, so this is the CPU. On a GPU the difference is larger: chapter 09 says why.")


try:
    compare_times()
except NotImplementedError:
    print("The times come once scaled_dot_product_attention is written.")

# %% [markdown]
# ## What you can now do
#
# - write a softmax that is exact for large scores, and say why the maximum is subtracted;
# - read the attention formula as three steps, with the shape of each;
# - mask keys, and say what happens in a row that may attend nowhere.
#
# Next: chapter 03 splits the features into heads.

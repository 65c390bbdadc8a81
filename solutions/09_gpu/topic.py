# ---
# jupyter:
#   course:
#     title: On the GPU
#     minutes: 75
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 09 · On the GPU
#
# Attention is limited by memory long before it is limited by arithmetic: the scores of `L` queries and `S` keys are
# `L * S` numbers, written and read again. Fused kernels never write them.
#
# **You will** choose a device, compute exact attention block by block, use torch's fused kernel under the rules of this
# course, and count operations and bytes.
#
# **You need** chapter 09 of the book, and the exercises of chapters 02 and 04. No GPU is needed: your code is tested
# for one all the same.
#
# **Time** about 75 minutes. **Points** are written above each check.
#
# | letter | meaning |
# |---|---|
# | `B`, `H` | batch, heads |
# | `L`, `S` | number of queries; of keys and values |
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


# %% given="plain_attention"
def plain_attention(q, k, v, mask=None):
    """Attention with the whole (L, S) matrix in memory, to compare with."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask.to(torch.bool))


# %% [markdown]
# ## Step 1 · Choose a device
#
# Write `pick_device()`, which returns a `torch.device`: CUDA where there is one, else MPS (Apple), else the CPU.


# %% answer="device"
def pick_device():
    """The best device of this machine: CUDA, else MPS, else the CPU."""
    ### BEGIN SOLUTION
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")
    ### END SOLUTION


# %% check="device"
device = pick_device()
assert isinstance(device, torch.device), f"expected a torch.device, got {type(device).__name__}: torch.device('cpu')"
show_check("a tensor can be made there", torch.zeros(2), torch.zeros(2, device=device).cpu(), "is the device there?")
print(f"ok    this machine: {device}")  # the tests ask on pretended machines, too: with CUDA, with MPS, with both

# %% [markdown]
# ## Step 2 · Attention block by block
#
# With 100 000 keys and as many queries, the scores of one head take 40 GB in float32. So they have to be used up as they
# come.
#
# The softmax needs the maximum and the sum of a whole row, yet it can be computed while the keys come in blocks.
# Keep three things for each query: the maximum `m` so far, the sum `s` of exponentials so far, and the weighted sum of
# values `o` so far. A new block of scores $x_j$ changes them:
#
# $$m' = \max(m, \max_j x_j)\qquad s' = s\,e^{m - m'} + \sum_j e^{x_j - m'}\qquad
# o' = o\,e^{m - m'} + \sum_j e^{x_j - m'} v_j$$
#
# At the end the output is $o / s$. Nothing is approximated.
#
# Write `blockwise_attention(q, k, v, mask=None, block_size=128)`, which returns the output `(..., L, d_v)`:
#
# - `q (..., L, d)`, `k (..., S, d)`, `v (..., S, d_v)`; `mask` broadcastable to `(..., L, S)`, True or not 0 may attend;
#   a row that may attend nowhere is zeros;
# - no tensor of `L * S` elements is ever made, and blocks of scores are not collected: extra memory, without gradients,
#   grows with `(L + S) * block_size`;
# - `block_size` need not divide `L` or `S`; gradients flow; float16, bfloat16, float32 and float64 work.
#
# The rule above takes blocks of keys. Blocks of queries, or of both, are right as well.
#
# <details><summary>Hint 1</summary>Loop over blocks of keys: <code>k.split(block_size, dim=-2)</code>.</details>
# <details><summary>Hint 2</summary>A mask may have size 1 where it broadcasts. Cut an axis only where it has full
# size.</details>
# <details><summary>Hint 3</summary>While a query has seen no key, its maximum is <code>-inf</code>, and
# <code>-inf - -inf</code> is NaN. Put 0 in place of such a maximum before you subtract it.</details>


# %% answer="blockwise"
def blockwise_attention(q, k, v, mask=None, block_size=128):
    """Exact attention without an (L, S) matrix (Milakov and Gimelshein 2018; Rabe and Staats 2021).

    q: (..., L, d). k: (..., S, d). v: (..., S, d_v). mask: broadcastable to (..., L, S), True or non-zero = may attend.
    Returns (..., L, d_v).
    """
    ### BEGIN SOLUTION
    kind = q.dtype
    wide = torch.float64 if kind == torch.float64 else torch.float32
    q = q.to(wide) / math.sqrt(q.size(-1))
    top = total = output = None
    for start in range(0, k.size(-2), block_size):
        block = slice(start, start + block_size)
        scores = q @ k[..., block, :].to(wide).transpose(-2, -1)
        if mask is not None:
            keep = mask if mask.size(-1) == 1 else mask[..., block]
            scores = scores.masked_fill(keep == 0, float("-inf"))
        best = scores.amax(dim=-1, keepdim=True)
        new_top = best if top is None else torch.maximum(top, best)
        finite = new_top.masked_fill(new_top == float("-inf"), 0.0)
        weights = (scores - finite).exp()
        part = weights @ v[..., block, :].to(wide)
        if top is None:
            total, output = weights.sum(dim=-1, keepdim=True), part
        else:
            shrink = (top - finite).exp()
            total, output = total * shrink + weights.sum(dim=-1, keepdim=True), output * shrink + part
        top = new_top
    return (output / total.masked_fill(total == 0, 1.0)).to(kind)
    ### END SOLUTION


# %% check="blocks"
torch.manual_seed(0)
q, k, v = torch.randn(2, 5, 4), torch.randn(2, 7, 4), torch.randn(2, 7, 3)
for size in (7, 3, 1, 100):
    got = blockwise_attention(q, k, v, block_size=size)
    show_check(f"blocks of {size}", plain_attention(q, k, v), got, "rescale the old sums when the maximum grows")
mask = torch.rand(5, 7) < 0.6
mask[:, 0] = True
got = blockwise_attention(q, k, v, mask, block_size=3)
show_check("a mask", plain_attention(q, k, v, mask), got, "cut the mask like the keys")
columns = torch.tensor([[1, 0, 1, 1, 0, 1, 1]])
got = blockwise_attention(q, k, v, columns, block_size=3)
show_check("one row of 0 and 1 for all queries", plain_attention(q, k, v, columns), got, "0 blocks; an axis of size 1")
mask[2] = False
got = blockwise_attention(q, k, v, mask, block_size=3)
show_check("a row that may attend nowhere", torch.zeros(2, 3), got[:, 2], "its sum is 0: zeros, not NaN")

# %% check="memory"
from torch.utils._python_dispatch import TorchDispatchMode


class Largest(TorchDispatchMode):
    """Remembers the largest tensor that any operator makes."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.elements = max(self.elements, result.numel())
        return result


q, k, v = torch.randn(512, 8), torch.randn(768, 8), torch.randn(768, 8)
with Largest() as seen, torch.no_grad():
    blockwise_attention(q, k, v, block_size=16)
limit = (512 + 768) * 16
assert seen.elements <= limit, f"a tensor of {seen.elements} elements was made; expected at most (L + S) * 16 = {limit}"
print(f"ok    the largest tensor has {seen.elements} elements; the scores would have {512 * 768}")

# %% [markdown]
# ## Step 3 · The fused kernel
#
# `F.scaled_dot_product_attention` picks a fused kernel by device and dtype. Its option `is_causal` aligns the mask to
# the start, which is wrong when `L` is not `S`, and a mask beside it is an error by its documentation.
#
# Write `fast_attention(q, k, v, mask=None, causal=False)` through that function, under this course's rules:
#
# - the mask is as in step 2, an integer mask included;
# - causal is aligned to the end: query `i` sees key `j` when `j <= i + S - L`;
# - mask and causal together mean both; a row that may attend nowhere is zeros.
#
# <details><summary>Hint</summary><code>torch.ones(L, S, dtype=torch.bool).tril(S - L)</code> is a causal mask aligned
# to the end. It needs a device.</details>


# %% answer="fast"
def fast_attention(q, k, v, mask=None, causal=False):
    """Attention by torch's fused kernel, with a mask in which True or non-zero may attend, and causal to the end."""
    ### BEGIN SOLUTION
    keep = None if mask is None else mask.to(torch.bool)
    if causal:
        length, source = q.size(-2), k.size(-2)
        seen = torch.ones(length, source, dtype=torch.bool, device=q.device).tril(source - length)
        keep = seen if keep is None else keep & seen
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
    ### END SOLUTION


# %% check="fast"
q, k, v = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 6)
show_check("no mask", plain_attention(q, k, v), fast_attention(q, k, v), "call F.scaled_dot_product_attention")
causal = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]])
got = fast_attention(q, k, v, causal=True)
show_check("causal, 3 queries and 5 keys", plain_attention(q, k, v, causal), got, "the last query sees every key")
mask = torch.tensor([[1, 0, 1, 1, 1]])
got = fast_attention(q, k, v, mask, causal=True)
show_check("causal and a mask of 0 and 1", plain_attention(q, k, v, causal * mask), got, "both have to allow a key")

# %% [markdown]
# ## Step 4 · Count
#
# Write `attention_cost(B, H, L, S, d, d_v, bytes_per_element)`, which returns `(flops, bytes_naive, bytes_fused)`:
#
# - **flops** of the two matrix products; a multiplication with its addition counts as 2; the softmax is not counted;
# - **bytes_fused**: q, k, v are read once and the output is written once;
# - **bytes_naive**: the same, and besides the scores and the weights, `(L, S)` for each head, are each written once and
#   read once.
#
# <details><summary>Hint</summary>A product of <code>(L, d)</code> and <code>(d, S)</code> takes <code>L * S * d</code>
# multiplications.</details>


# %% answer="cost"
def attention_cost(B, H, L, S, d, d_v, bytes_per_element):
    """Operations and bytes of attention: (flops, bytes_naive, bytes_fused), whole numbers."""
    ### BEGIN SOLUTION
    flops = 2 * B * H * L * S * (d + d_v)
    elements_fused = B * H * (L * d + S * d + S * d_v + L * d_v)
    elements_naive = elements_fused + 4 * B * H * L * S
    return flops, elements_naive * bytes_per_element, elements_fused * bytes_per_element
    ### END SOLUTION


# %% check="cost"
show_check(
    "the smallest case", (4, 32, 16), attention_cost(1, 1, 1, 1, 1, 1, 4), "4 arrays of 1; scores and weights twice"
)
show_check("two heads", (2 * 2 * 2 * 3 * 9, 2 * 2 * (45 + 24), 2 * 2 * 45), attention_cost(1, 2, 2, 3, 4, 5, 2),
           "q 2*4, k 3*4, v 3*5, output 2*5; products 2*3*4 and 2*3*5")  # fmt: skip

# %% [markdown]
# ## Look at the counts
#
# Operations for each byte. A GPU needs some hundred of them to be busy with arithmetic and not with memory.


# %%
def draw_counts():
    lengths = [2**n for n in range(5, 14)]
    for name, place in (("naive", 1), ("fused", 2)):
        costs = [attention_cost(1, 1, n, n, 64, 64, 2) for n in lengths]
        plt.loglog(lengths, [cost[0] / cost[place] for cost in costs], marker="o", label=name)
    plt.xlabel("length")
    plt.ylabel("operations per byte")
    plt.legend()
    plt.show()


try:
    draw_counts()
except NotImplementedError:
    print("The picture comes once attention_cost is written.")

# %% [markdown]
# ## Time it
#
# The cell uses the GPU where there is one.

# %%
import time


def compare_times():
    device = pick_device()
    q, k, v = (torch.randn(1, 4, 1024, 64, device=device) for _ in range(3))

    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize()

    for name, call in (("fused", fast_attention), ("block by block", blockwise_attention)):
        call(q, k, v)
        wait()
        start = time.perf_counter()
        for _ in range(3):
            call(q, k, v)
        wait()
        print(f"{name}, on {device}: {1e3 * (time.perf_counter() - start) / 3:.2f} ms")


try:
    compare_times()
except NotImplementedError:
    print("The times come once the steps are written.")

# %% [markdown]
# ## What you can now do
#
# - write code that runs on any device without naming one;
# - compute an exact softmax while its row arrives in blocks;
# - say how many bytes and operations attention costs, and which of the two sets its speed.
#
# Next: chapter 10 decodes token by token.

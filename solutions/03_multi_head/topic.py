# ---
# jupyter:
#   course:
#     title: Multi-head attention
#     minutes: 60
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 03 · Multi-head attention
#
# **You will** cut a feature vector into heads, put the heads together again, and build the attention layer of the
# Transformer around that:
#
# $$\mathrm{MultiHead}(Q, K, V) = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_H)\, W^O
# \qquad \mathrm{head}_h = \mathrm{Attention}(Q W^Q_h,\; K W^K_h,\; V W^V_h)$$
#
# **You need** attention from topic 02, `nn.Linear` and `nn.Module`, and chapter 03 of the book.
#
# **Time** about 60 minutes. **Points** are written above each check.
#
# ## How this notebook works
#
# - Write your code where a cell says `raise NotImplementedError`.
# - After each step comes a check. Run it as often as you like. It shows what was expected, what came, and a hint.
# - The score comes from more tests than the ones you see. They use other sizes, other weights, other masks and other
#   dtypes. In most of them `L` and `S` differ, and the number of heads differs from the size of a head.
# - If one step does not work yet, go on: the next one has a stand-in for it.
#
# | letter | meaning |
# |---|---|
# | `B` | batch size |
# | `H` | number of heads, `num_heads` |
# | `L` | number of queries |
# | `S` | number of keys and values |
# | `D` | size of a token's vector, `d_model` |
# | `d` | size of a head, `D / H` |

# %% setup="imports"
import math
import time

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

# %% given="show_check"
def show_check(what, expected, got, hint):
    """Compare and explain; used by the checks of this notebook."""
    expected, got = torch.as_tensor(expected), torch.as_tensor(got)
    same = expected.shape == got.shape and torch.allclose(got.double(), expected.double(), atol=1e-5)
    if same:
        print(f"ok    {what}")
        return
    raise AssertionError(f"{what}\nexpected: {expected}\ngot:      {got}\nhint:     {hint}")

# %% [markdown]
# ## Step 1 · Split into heads
#
# One softmax makes one choice: a token that attends to its verb has little weight left for its subject. Several heads
# make several choices side by side. Each head works on its own slice of the features, so that all heads together cost
# as much as one large head.
#
# Write `split_heads(x, num_heads)`:
#
# - `x` is `(B, L, D)`, and the result is `(B, H, L, d)`;
# - head `h` holds the features `h*d` to `(h+1)*d - 1` of every token;
# - where `num_heads` does not divide `D`, an error is raised (torch's own error will do);
# - any dtype, any device and any memory layout of `x` works, and `x` is not changed.
#
# Why is the head axis in front of the length? Because a batched matrix product works on the last two axes, and each
# head needs a product of its own.
#
# <details><summary>Hint 1</summary>It takes two moves: the last axis becomes two axes, and then two axes change
# places.</details>
# <details><summary>Hint 2</summary><code>view</code> only reads the same numbers in the same order. It cannot move the
# heads in front of the tokens. Which operation swaps two axes?</details>

# %% answer="split"
def split_heads(x, num_heads):
    """Cut the features of x into heads.

    x: (B, L, D). Returns (B, num_heads, L, D / num_heads); head h holds features h*d ... (h+1)*d - 1.
    """
    ### BEGIN SOLUTION
    return x.unflatten(-1, (num_heads, x.size(-1) // num_heads)).transpose(1, 2)
    ### END SOLUTION

# %% check="split"
x = torch.arange(24.0).view(1, 3, 8)
heads = split_heads(x, 2)
show_check("the shape of the heads", (1, 2, 3, 4), tuple(heads.shape), "batch, heads, length, size of a head")
show_check("head 0", x[:, :, :4], heads[:, 0], "head 0 holds the first D/H features of every token")
show_check("head 1", x[:, :, 4:], heads[:, 1], "head 1 holds the next D/H features of every token")
x = torch.randn(2, 5, 12)
show_check("one head", x, split_heads(x, 1)[:, 0], "with one head nothing is cut")

# %% [markdown]
# ## Step 2 · Merge the heads
#
# After the attention each head has made a vector of size `d` for every token. The output projection wants them side by
# side, in one vector of size `D`.
#
# Write `merge_heads(x)`, the inverse of `split_heads`: `x` is `(B, H, L, d)`, and the result is `(B, L, D)`.
#
# <details><summary>Hint 1</summary>Undo the two moves of step 1 in the opposite order.</details>
# <details><summary>Hint 2</summary>After a transpose the numbers do not lie in order, and <code>view</code> refuses.
# <code>reshape</code> and <code>flatten</code> copy where they must.</details>

# %% answer="merge"
def merge_heads(x):
    """Put the heads of each token side by side.

    x: (B, H, L, d). Returns (B, L, H*d); the inverse of split_heads.
    """
    ### BEGIN SOLUTION
    return x.transpose(1, 2).flatten(2)
    ### END SOLUTION

# %% check="merge"
heads = torch.arange(24.0).view(1, 2, 3, 4)
merged = merge_heads(heads)
show_check("the shape of the merged heads", (1, 3, 8), tuple(merged.shape), "batch, length, features")
show_check("the first token", torch.cat([heads[0, 0, 0], heads[0, 1, 0]]), merged[0, 0], "head 0, then head 1")
show_check("all tokens", torch.cat([heads[:, 0], heads[:, 1]], dim=-1), merged, "the token axis comes before the heads")

# %% [markdown]
# ## Step 3 · Count the parameters
#
# The layer has four linear layers, `W_q`, `W_k`, `W_v` and `W_o`. Each maps `D` features to `D` features, with or
# without a bias. `W_q` holds the query projections of all heads: rows `h*d` to `(h+1)*d - 1` belong to head `h`.
#
# Write `parameter_count(d_model, num_heads, bias=True)`, which returns the number of parameters as an `int`. Use a
# formula, and build no layer: the count of a large model should not need its memory.
#
# <details><summary>Hint</summary>How many numbers does one <code>nn.Linear(D, D)</code> hold? What part do the heads
# play?</details>

# %% answer="count"
def parameter_count(d_model, num_heads, bias=True):
    """The number of parameters of MultiHeadAttention(d_model, num_heads, bias), by formula."""
    ### BEGIN SOLUTION
    per_layer = d_model * d_model + (d_model if bias else 0)
    return 4 * per_layer
    ### END SOLUTION

# %% check="count"
layer = nn.MultiheadAttention(8, 2)
show_check(
    "8 features, 2 heads",
    sum(p.numel() for p in layer.parameters()),
    parameter_count(8, 2),
    "four layers, each with a weight and a bias",
)
assert type(parameter_count(8, 2)) is int, f"expected an int, got {type(parameter_count(8, 2))}"

# %% [markdown]
# ## Step 4 · The layer
#
# Write `MultiHeadAttention(d_model, num_heads, bias=True)`, an `nn.Module`.
#
# **The constructor**
#
# - makes the linear layers `W_q`, `W_k`, `W_v`, `W_o`, with a bias or without one as `bias` says;
# - raises a `ValueError` where `num_heads` does not divide `d_model`, with a message that names both numbers.
#
# **`forward(q, k, v, mask=None)`**
#
# | tensor | shape |
# |---|---|
# | `q` | `(B, L, D)` |
# | `k`, `v` | `(B, S, D)` |
# | `mask` | broadcastable to `(B, H, L, S)`, or `None` |
# | result | `(B, L, D)` |
#
# - For self-attention all three are the same tensor. For cross-attention `k` and `v` come from elsewhere.
# - The scale is $1/\sqrt{d}$, with `d` the size of *one head*.
# - The mask works as in topic 02: `True`, or an integer other than 0, means *may attend*. It is broadcast as it is; the
#   layer adds no axis.
# - In a row that may attend nowhere the attention gives zeros, so that the result there is the bias of `W_o`. Gradients
#   stay finite.
# - After `.half()`, `.bfloat16()` or `.double()` the layer takes and gives tensors of that dtype.
# - Each call stands alone: nothing is kept from one call to the next, inputs are not changed, no device is named.
#
# If step 1 or 2 does not work yet, call `ready_split` and `ready_merge`. If your attention of topic 02 is not at hand,
# call `ready_attention`, which is torch's own. The next cell has all three.
#
# <details><summary>Hint 1</summary>Five moves: project, split, attend, merge, project. Only the attention mixes
# tokens.</details>
# <details><summary>Hint 2</summary>After the split, the last axis of the queries has the size that the scale
# needs.</details>
# <details><summary>Hint 3</summary>-1e9 does not fit into float16, and where all scores of a row are -1e9 the softmax
# is uniform. -inf fits every dtype; rows that may attend nowhere need a word of their own.</details>

# %% given="stand_ins"
def ready_split(x, num_heads):
    """Stand-in for split_heads."""
    return torch.stack(torch.tensor_split(x, num_heads, dim=-1), dim=1)


def ready_merge(x):
    """Stand-in for merge_heads."""
    return torch.cat(x.unbind(dim=1), dim=-1)


def ready_attention(q, k, v, mask=None):
    """Stand-in for the output of topic 02's attention; True or non-zero = may attend."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask.bool())

# %% answer="attention"
class MultiHeadAttention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2).

    d_model: features of a token, a multiple of num_heads. bias: whether the four linear layers have one.
    """

    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % num_heads != 0:
            raise ValueError(f"d_model={d_model} can't be cut into num_heads={num_heads} heads of equal size")
        self.num_heads = num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)
        ### END SOLUTION

    def forward(self, q, k, v, mask=None):
        """q: (B, L, D). k, v: (B, S, D). mask: broadcastable to (B, H, L, S), True = may attend. Returns (B, L, D)."""
        ### BEGIN SOLUTION
        queries = split_heads(self.W_q(q), self.num_heads)
        keys = split_heads(self.W_k(k), self.num_heads)
        values = split_heads(self.W_v(v), self.num_heads)
        scores = (queries / math.sqrt(queries.size(-1))) @ keys.transpose(-2, -1)
        if mask is None:
            weights = torch.softmax(scores, dim=-1)
        else:
            keep = mask.to(torch.bool)
            nowhere = ~keep.any(dim=-1, keepdim=True)
            # Without a finite score the softmax would be NaN, and so would its gradient: such rows stay as they are
            # here and become zeros below.
            scores = scores.masked_fill(~keep & ~nowhere, float("-inf"))
            weights = torch.softmax(scores, dim=-1).masked_fill(~keep, 0.0)
        return self.W_o(merge_heads(weights @ values))
        ### END SOLUTION

# %% given="torchs_layer"
def torchs_layer(layer, num_heads):
    """torch's own layer with the weights of yours."""
    other = nn.MultiheadAttention(layer.W_q.in_features, num_heads, batch_first=True)
    with torch.no_grad():
        other.in_proj_weight.copy_(torch.cat([layer.W_q.weight, layer.W_k.weight, layer.W_v.weight]))
        other.in_proj_bias.copy_(torch.cat([layer.W_q.bias, layer.W_k.bias, layer.W_v.bias]))
        other.out_proj.load_state_dict(layer.W_o.state_dict())
    return other


def layers_and_inputs():
    """Your layer, torch's layer with the same weights, and q, k, v for the checks below."""
    torch.manual_seed(0)
    yours = MultiHeadAttention(12, 3)
    return yours, torchs_layer(yours, 3), torch.randn(2, 5, 12), torch.randn(2, 7, 12), torch.randn(2, 7, 12)


def example_mask():
    """A mask for 5 queries and 7 keys, with rows that differ."""
    keep = torch.tensor([[True, False, True, True, False, True, True]] * 5)
    keep[2] = ~keep[2]
    return keep

# %% check="attention"
layer, builtin, x, memory, values = layers_and_inputs()
show_check("self-attention", builtin(x, x, x)[0], layer(x, x, x), "project, split, attend, merge, project")
show_check(
    "cross-attention",
    builtin(x, memory, values)[0],
    layer(x, memory, values),
    "queries from q, keys from k, values from v; L and S differ",
)
try:
    MultiHeadAttention(10, 3)
except (ValueError, AssertionError) as error:
    assert "10" in str(error) and "3" in str(error), f"the message should name 10 and 3, but it is: {error}"
    print("ok    10 features can't be cut into 3 heads")
else:
    raise AssertionError("expected: a ValueError for d_model=10 with 3 heads\ngot:      a layer")

# %% check="mask"
layer, builtin, x, memory, values = layers_and_inputs()
keep = example_mask()
# torch's own layer has the opposite convention: there, True means blocked.
expected = builtin(x, memory, values, attn_mask=~keep)[0]
show_check("a mask for all heads", expected, layer(x, memory, values, keep), "True means: may attend")
show_check("an integer mask", expected, layer(x, memory, values, keep.int()), "0 blocks, like False")
per_sample = torch.ones(2, 1, 1, 7, dtype=torch.bool)
per_sample[1, :, :, 4:] = False
expected = torch.cat([builtin(x[:1], memory[:1], values[:1])[0], builtin(x[1:], memory[1:, :4], values[1:, :4])[0]])
show_check("one mask for each sample", expected, layer(x, memory, values, per_sample), "broadcast the mask as it is")

# %% check="rows"
layer, _, x, memory, values = layers_and_inputs()
keep = example_mask()
keep[1] = False
show_check(
    "a row that may attend nowhere",
    layer.W_o.bias.expand(2, 12),
    layer(x, memory, values, keep)[:, 1],
    "zeros go into the output projection, and only its bias comes out",
)

# %% check="types"
_, _, x, memory, values = layers_and_inputs()
keep = example_mask()
keep[1] = False
for name, dtype in (("half", torch.float16), ("bfloat16", torch.bfloat16), ("double", torch.float64)):
    small = MultiHeadAttention(12, 3).to(dtype)
    result = small(x.to(dtype), memory.to(dtype), values.to(dtype), keep)
    assert result.dtype == dtype, f"expected {dtype} after .{name}(), got {result.dtype}"
    assert not result.isnan().any(), f"after .{name}() the result holds NaN"
print("ok    the dtype of the inputs comes back")

# %% check="bias"
plain = MultiHeadAttention(12, 3, bias=False)
show_check(
    "no bias: the number of parameters",
    4 * 12 * 12,
    sum(p.numel() for p in plain.parameters()),
    "hand `bias` on to the linear layers",
)
show_check("no bias: parameter_count", 4 * 12 * 12, parameter_count(12, 3, bias=False), "the formula, less the biases")

# %% [markdown]
# ## Look at two heads
#
# Below, each letter of a word is a vector of 32 features. The first 16 say which letter it is. The last 16 say where it
# stands. One head sees both at once. Two heads see one half each: the first looks for the same letter, the second for
# the neighbours.

# %%
def letters_and_places(word):
    torch.manual_seed(0)
    table = F.normalize(torch.randn(26, 16), dim=-1)
    what = table[[ord(letter) - ord("a") for letter in word]]
    centres = torch.linspace(0, len(word) - 1, 16)
    where = F.normalize(torch.exp(-((torch.arange(len(word))[:, None] - centres) ** 2)), dim=-1)
    return torch.cat([what, where], dim=-1)[None]


def draw_heads(word="attention"):
    x = letters_and_places(word)
    pictures = []
    for num_heads in (1, 2):
        heads = split_heads(x, num_heads)
        weights = torch.softmax(6 * heads @ heads.transpose(-2, -1), dim=-1)
        names = ["one head of 32 features"] if num_heads == 1 else ["head 0 of 2: letters", "head 1 of 2: places"]
        pictures += zip(names, weights[0], strict=True)
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4))
    for axis, (title, weights) in zip(axes, pictures, strict=True):
        axis.imshow(weights, vmin=0, vmax=1)
        axis.set(title=title, xticks=range(len(word)), yticks=range(len(word)), xlabel="key")
        axis.set_xticklabels(word)
        axis.set_yticklabels(word)
    axes[0].set_ylabel("query")
    plt.show()


try:
    draw_heads()
except NotImplementedError:
    print("The picture comes once split_heads is written.")

# %% [markdown]
# ## Time it
#
# More heads do not mean more multiplications: each head is smaller. The cell uses the GPU where there is one.

# %%
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
    x = torch.randn(4, 128, 256, device=device)
    for num_heads in (1, 4, 16):
        yours = MultiHeadAttention(256, num_heads).to(device)
        builtin = nn.MultiheadAttention(256, num_heads, batch_first=True).to(device)
        with torch.no_grad():
            own = seconds(lambda layer=yours: layer(x, x, x), device)
            torchs = seconds(lambda layer=builtin: layer(x, x, x, need_weights=False), device)
        print(f"on {device}, {num_heads:2} heads: yours {1e3 * own:.2f} ms, torch's layer {1e3 * torchs:.2f} ms")
    if device.type == "cpu":
        print("No GPU is here, so this is the CPU. The scores of all heads take H times the memory of one head's,")
        print("and reading them takes time, too: chapter 09 says more.")


try:
    compare_times()
except NotImplementedError:
    print("The times come once MultiHeadAttention is written.")

# %% [markdown]
# ## What you can now do
#
# - cut features into heads and merge them, and say why `view` alone is not enough;
# - build the attention layer of the Transformer for self-attention and cross-attention;
# - hand a mask to all heads, with one row of it for each sample where that is needed;
# - count the parameters of the layer, and say why the number of heads does not matter.
#
# Next: chapter 04 makes the masks.

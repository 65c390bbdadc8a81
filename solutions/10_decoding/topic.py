# ---
# jupyter:
#   course:
#     title: Decoding with a cache
#     minutes: 60
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 10 · Decoding with a cache
#
# A language model writes one token at a time. Keys and values of earlier tokens do not change, so they are kept in a
# cache. The cache is what fills the memory of a GPU, and grouped-query attention makes it smaller: several query heads
# share one key and value head.
#
# **You will** write the repetition of shared heads, a cache, and a causal attention that gives the same output for any
# way of cutting a sequence into chunks.
#
# **You need** chapter 10 of the book, and the exercises of chapters 03, 04 and 07.
#
# **Time** about 60 minutes. **Points** are written above each check.
#
# | letter | meaning |
# |---|---|
# | `B` | batch |
# | `H`, `H_kv` | query heads; key and value heads |
# | `L`, `S` | length of the new chunk; length with the cache |
# | `D`, `d` | `d_model`, size of a head `D / H` |

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
# ## Step 1 · Shared heads
#
# With `H = 4` query heads and `H_kv = 2` key heads, query heads 0 and 1 use key head 0, and query heads 2 and 3 use key
# head 1. So each key head is repeated **in place**: `0 0 1 1`, not `0 1 0 1`.
#
# Write `repeat_kv(x, repeats)`: `(B, H_kv, S, d)` becomes `(B, H_kv * repeats, S, d)`.
#
# <details><summary>Hint</summary>One torch function repeats each entry along an axis, another repeats the whole axis.
# Their names are close.</details>


# %% answer="repeat"
def repeat_kv(x, repeats):
    """Repeat each head in place: (B, H_kv, S, d) -> (B, H_kv * repeats, S, d)."""
    ### BEGIN SOLUTION
    return x.repeat_interleave(repeats, dim=1)
    ### END SOLUTION


# %% check="repeat"
heads = torch.tensor([0.0, 1.0]).view(1, 2, 1, 1)
show_check("two heads, twice each", torch.tensor([0.0, 0.0, 1.0, 1.0]), repeat_kv(heads, 2).flatten(), "0 0 1 1")
show_check("once is as it was", heads, repeat_kv(heads, 1), "repeats=1 changes nothing")

# %% [markdown]
# ## Step 2 · The cache
#
# Write a class `KVCache()`:
#
# - `append(k, v)` takes the keys and values of a new chunk, `(B, H_kv, L, d)`, puts them behind those that it has,
#   along the length, and returns all keys and all values;
# - `length` (an attribute or a property) is the number of positions that it holds, 0 when it is empty;
# - two caches share nothing.
#
# <details><summary>Hint</summary>In <code>(B, H_kv, L, d)</code> the length is axis 2, or -2.</details>


# %% answer="cache"
class KVCache:
    """Keys and values of the positions so far, each (B, H_kv, S, d). `length` is their number."""

    def __init__(self):
        ### BEGIN SOLUTION
        self.keys = self.values = None
        self.length = 0
        ### END SOLUTION

    def append(self, k, v):
        """Put the new keys and values behind the old ones; return all of them."""
        ### BEGIN SOLUTION
        if self.keys is not None:
            k, v = torch.cat((self.keys, k), dim=2), torch.cat((self.values, v), dim=2)
        self.keys, self.values, self.length = k, v, k.size(2)
        return k, v
        ### END SOLUTION


# %% check="cache"
cache, other = KVCache(), KVCache()
show_check("an empty cache", 0, cache.length, "length is 0 at the start")
k, v = torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4)
cache.append(k[:, :, :3], v[:, :, :3])
keys, values = cache.append(k[:, :, 3:], v[:, :, 3:])
show_check("3 + 2 positions", 5, cache.length, "count positions, not calls")
show_check("the keys in order", k, keys, "new ones behind old ones, along the length")
show_check("the values in order", v, values, "the same for values")
show_check("another cache is empty", 0, other.length, "keep the tensors in self, made in __init__")

# %% [markdown]
# ## Step 3 · Grouped-query attention with a cache
#
# Write `GroupedQueryAttention(d_model, num_heads, num_kv_heads, bias=True, base=10000.0)`: causal self-attention with
# rotary positions (half-split).
#
# - Linear layers: `W_q` and `W_o` are `(D, D)`; `W_k` and `W_v` have `H_kv * d` rows.
# - `forward(x, cache=None)`: `x (B, L, D)` holds the new tokens. With a cache they come behind those that it has: their
#   positions start at the cache's length, and they see everything before them. The result is `(B, L, D)`, for the new
#   tokens alone.
# - The cache holds `H_kv` heads: repeat what comes out of it, not what goes in.
# - However a sequence is cut into chunks, the output is the same. Gradients reach `x` and every parameter; whether they
#   also go back into earlier chunks is left open.
# - `num_heads` has to divide `d_model`, `num_kv_heads` has to divide `num_heads`, and a head must be even; otherwise a
#   `ValueError` names the numbers.
#
# For the rotation use your own code of chapter 07, or `stand_in_rotary`. If `repeat_kv` is not written yet, the option
# `enable_gqa=True` of `F.scaled_dot_product_attention` repeats the heads instead.
#
# <details><summary>Hint 1</summary>Ask the cache for its length <em>before</em> you append.</details>
# <details><summary>Hint 2</summary>Query <code>i</code> of a chunk of L sees key <code>j</code> when
# <code>j &lt;= i + S - L</code>. The option <code>is_causal</code> of torch does something else when L is not S.
# </details>


# %% given="stand_in_rotary"
def stand_in_rotary(x, positions, base=10000.0):
    """Half-split rotation of x (..., L, d) by complex numbers."""
    d = x.size(-1)
    pairs = torch.complex(x[..., : d // 2].double(), x[..., d // 2 :].double())
    steps = torch.arange(0, d, 2, device=x.device, dtype=torch.float64)
    turns = positions.double().unsqueeze(-1) * torch.exp(-math.log(base) / d * steps)
    turned = pairs * torch.polar(torch.ones_like(turns), turns)
    return torch.cat((turned.real, turned.imag), dim=-1).to(x.dtype)


# %% answer="attention"
class GroupedQueryAttention(nn.Module):
    """Causal rotary attention whose key and value heads are shared (Ainslie et al. 2023); x (B, L, D) -> (B, L, D)."""

    def __init__(self, d_model, num_heads, num_kv_heads, bias=True, base=10000.0):
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % num_heads:
            raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}")
        if num_heads % num_kv_heads:
            raise ValueError(f"num_heads={num_heads} is not divisible by num_kv_heads={num_kv_heads}")
        if d_model // num_heads % 2:
            raise ValueError(f"d_model={d_model} with num_heads={num_heads} gives heads of an odd size")
        self.num_heads, self.num_kv_heads, self.base = num_heads, num_kv_heads, base
        small = d_model // num_heads * num_kv_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, small, bias=bias)
        self.W_v = nn.Linear(d_model, small, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)
        ### END SOLUTION

    def forward(self, x, cache=None):
        ### BEGIN SOLUTION
        batch, length, d_model = x.shape
        past = 0 if cache is None else cache.length
        positions = torch.arange(past, past + length, device=x.device)

        def heads(projection, count):
            return projection(x).view(batch, length, count, -1).transpose(1, 2)

        q = stand_in_rotary(heads(self.W_q, self.num_heads), positions, self.base)
        k = stand_in_rotary(heads(self.W_k, self.num_kv_heads), positions, self.base)
        v = heads(self.W_v, self.num_kv_heads)
        if cache is not None:
            k, v = cache.append(k, v)
        repeats = self.num_heads // self.num_kv_heads
        k, v = repeat_kv(k, repeats), repeat_kv(v, repeats)
        seen = torch.arange(k.size(2), device=x.device) <= positions.unsqueeze(1)
        output = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.W_o(output.transpose(1, 2).reshape(batch, length, d_model))
        ### END SOLUTION


# %% check="attention"
torch.manual_seed(0)
module = GroupedQueryAttention(16, 4, 2)
x = torch.randn(2, 6, 16)
whole = module(x)
show_check("the shape", (2, 6, 16), tuple(whole.shape), "(B, L, D) comes back")
show_check("W_k has H_kv * d rows", (8, 16), tuple(module.W_k.weight.shape), "2 heads of size 4")
changed = x.clone()
changed[:, 4:] = 0
show_check("later tokens are not seen", whole[:, :4], module(changed)[:, :4], "the mask is causal")

# %% check="chunks"
cache = KVCache()
chunks = torch.cat([module(part, cache) for part in x.split((3, 2, 1), dim=1)], dim=1)
show_check(
    "chunks of 3, 2 and 1", whole, chunks, "positions start at the cache's length; the mask is aligned to the end"
)
cache = KVCache()
tokens = torch.cat([module(part, cache) for part in x.split(1, dim=1)], dim=1)
show_check("token by token", whole, tokens, "one query sees every key in the cache")

# %% check="sizes"
show_raises("6 heads, 4 key heads", lambda: GroupedQueryAttention(24, 6, 4), "check num_heads % num_kv_heads")
show_raises("10 features, 4 heads", lambda: GroupedQueryAttention(10, 4, 2), "check d_model % num_heads")

# %% [markdown]
# ## Look at the cost
#
# Bytes in the cache for one sequence and one layer, in float16, as it grows.


# %%
def draw_cache():
    lengths = torch.arange(0, 8193, 256)
    for kv_heads in (32, 8, 1):
        cache = KVCache()
        k = torch.zeros(1, kv_heads, 1, 128, dtype=torch.float16)
        keys, values = cache.append(k, k)
        per_token = keys.nbytes + values.nbytes
        plt.plot(lengths, lengths * per_token / 2**20, label=f"{kv_heads} key heads")
    plt.xlabel("tokens")
    plt.ylabel("MiB")
    plt.legend()
    plt.show()


try:
    draw_cache()
except NotImplementedError:
    print("The picture comes once KVCache is written.")

# %% [markdown]
# ## Time it
#
# One more token: with the cache, and by computing everything again. The cell uses the GPU where there is one.

# %%
import time


def compare_times():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    module = GroupedQueryAttention(256, 8, 2).to(device).eval()
    x = torch.randn(1, 513, 256, device=device)
    with torch.no_grad():
        cache = KVCache()
        module(x[:, :512], cache)
        for name, call in (("with the cache", lambda: module(x[:, 512:], cache)), ("all again", lambda: module(x))):
            call()
            if device.type == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            call()
            if device.type == "cuda":
                torch.cuda.synchronize()
            print(f"{name}, on {device}: {1e3 * (time.perf_counter() - start):.2f} ms")


try:
    compare_times()
except NotImplementedError:
    print("The times come once the cache and the attention are written.")

# %% [markdown]
# ## What you can now do
#
# - say which query heads share which key head, and what that saves;
# - give new tokens their positions and their mask when a cache comes before them;
# - test a cache with chunks of mixed sizes, where its mistakes show.
#
# Next: chapter 11 puts the parts together.

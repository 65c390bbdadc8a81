"""Hidden tests of topic 10. Eight points."""

import torch

from autograder.checks import (
    as_pair,
    check,
    check_any_device,
    check_close,
    check_gradient,
    check_tensor,
    check_unchanged,
    expect_error,
    item,
)

# Projections of 16 to 24 features, twice, around an attention: sums of some hundred products of values near 1, each
# rounded to float32 (1.2e-7), stay below 1e-4.
ATOL = 1e-4


# -- shared heads ----------------------------------------------------------------------------------------------------


@item("repeat", points=0.75, title="each head is repeated in place", hint="0 0 1 1, not 0 1 0 1.")
def test_repeat(learner, reference, rng):
    for shape, repeats in (((2, 3, 5, 4), 2), ((1, 2, 2, 2), 2), ((3, 1, 4, 6), 3), ((2, 4, 3, 5), 1)):
        x = rng.normal(*shape)
        check_close(
            learner.repeat_kv(x, repeats), x.repeat_interleave(repeats, 1), f"{shape} times {repeats}", atol=0.0
        )


@item("repeat", points=0.25, title="repeating keeps dtype, input and gradient", hint="Shared heads share gradients.")
def test_repeat_types(learner, reference, rng):
    check_any_device(learner, "repeat_kv", rng.normal(2, 3, 5, 4), 2)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        x = rng.normal(2, 2, 3, 4, dtype=dtype)
        check_close(check_unchanged(learner, "repeat_kv", x, 3), x.repeat_interleave(3, 1), f"{dtype}", atol=0.0)
    x = rng.normal(2, 2, 3, 4, dtype=torch.float64).requires_grad_()
    check_gradient(learner.backward("repeat_kv", x, 3).inputs[0], reference.backward("repeat_kv", x, 3).inputs[0], "x")


# -- the cache -------------------------------------------------------------------------------------------------------


@item("cache", points=0.75, title="the cache gives back everything in order", hint="New behind old, along the length.")
def test_cache(learner, reference, rng):
    for sizes in ((3, 1, 2), (1, 1, 1), (4, 5)):
        k, v = rng.normal(2, 3, sum(sizes), 4), rng.normal(2, 3, sum(sizes), 4)
        cache, end = learner.KVCache(), 0
        for size in sizes:
            start, end = end, end + size
            keys, values = as_pair(
                cache.method("append", k[:, :, start:end], v[:, :, start:end]), "append", "(keys, values)"
            )
            check_close(keys, k[:, :, :end], f"the keys after {end} positions", atol=0.0)
            check_close(values, v[:, :, :end], f"the values after {end} positions", atol=0.0)


@item("cache", points=0.25, title="length counts positions", hint="0 at first, then the size of axis 2.")
def test_cache_length(learner, reference, rng):
    cache, total = learner.KVCache(), 0
    for size in (0, 3, 1, 2):
        if size:
            cache.method("append", rng.normal(4, 2, size, 6), rng.normal(4, 2, size, 6))
        total += size
        length = cache.get("length")
        check(not isinstance(length, bool) and length == total, f"length is {length} after {total} positions.")


@item("cache", points=0.25, title="two caches share nothing", hint="Make the storage in __init__, in self.")
def test_cache_apart(learner, reference, rng):
    first, second = learner.KVCache(), learner.KVCache()
    first.method("append", rng.normal(1, 2, 3, 4), rng.normal(1, 2, 3, 4))
    check(second.get("length") == 0, "a second cache is not empty after the first one was filled.")
    k, v = rng.normal(2, 3, 2, 4, dtype=torch.float64), rng.normal(2, 3, 2, 4, dtype=torch.float64)
    keys, values = as_pair(second.method("append", k, v), "append", "(keys, values)")
    check_close(keys, k, "the keys of the second cache", atol=0.0)
    check_close(values, v, "the values of the second cache", atol=0.0)
    third = learner.KVCache()
    check(third.get("length") == 0, "a new cache is not empty.")


# -- attention -------------------------------------------------------------------------------------------------------


def module(learner, reference, rng, width, heads, kv_heads, **options):
    """The learner's module and the reference's in float64, with the same random weights and biases."""
    small = width // heads * kv_heads
    weights = {}
    for name, rows in (("W_q", width), ("W_k", small), ("W_v", small), ("W_o", width)):
        weights[f"{name}.weight"] = rng.normal(rows, width, std=width**-0.5)
        weights[f"{name}.bias"] = rng.normal(rows)
    mine = learner.GroupedQueryAttention(width, heads, kv_heads, **options).load(weights)
    right = reference.GroupedQueryAttention(width, heads, kv_heads, **options).load(weights)
    right.method("double")
    mine.method("eval")
    return mine, right


def compare(learner, reference, rng, width, heads, kv_heads, batch, length, **options):
    mine, right = module(learner, reference, rng, width, heads, kv_heads, **options)
    x = rng.normal(batch, length, width)
    what = f"the output with {heads} heads and {kv_heads} key heads"
    check_close(mine(x), right(x.double()), what, dtype=x.dtype, atol=ATOL)


@item("attention", points=1.25, title="grouped queries, causal, with rotary positions", hint="Heads 0 1 share key 0.")
def test_attention(learner, reference, rng):
    compare(learner, reference, rng, 16, 4, 2, 4, 4)
    compare(learner, reference, rng, 24, 6, 2, 2, 7)
    compare(learner, reference, rng, 24, 6, 3, 3, 5)


@item("attention", points=0.5, title="the limits: every head its own keys, and one for all", hint="H_kv = H, H_kv = 1.")
def test_attention_limits(learner, reference, rng):
    compare(learner, reference, rng, 16, 4, 4, 2, 6)
    compare(learner, reference, rng, 24, 6, 1, 2, 5)
    compare(learner, reference, rng, 12, 1, 1, 3, 4)


@item("attention", points=0.5, title="the sizes of the projections", hint="W_k and W_v have H_kv * d rows.")
def test_attention_parameters(learner, reference, rng):
    state = learner.GroupedQueryAttention(24, 6, 2).state()
    rows = {"W_q": 24, "W_k": 8, "W_v": 8, "W_o": 24}
    expected = {f"{n}.weight": (r, 24) for n, r in rows.items()} | {f"{n}.bias": (r,) for n, r in rows.items()}
    got = {name: tuple(p.shape) for name, p in state.parameters.items()}
    check(got == expected, f"the parameters are {got}.")
    names = set(learner.GroupedQueryAttention(24, 6, 2, bias=False).state().parameters)
    check(names == {f"{n}.weight" for n in rows}, f"with bias=False the parameters are {sorted(names)}.")


@item("attention", points=0.25, title="another base", hint="Hand `base` on to the rotation.")
def test_attention_base(learner, reference, rng):
    compare(learner, reference, rng, 24, 3, 1, 2, 6, base=50.0)


@item("attention", points=0.5, title="dtypes, gradients and device", hint="Modules move with .to().")
def test_attention_types(learner, reference, rng):
    mine, right = module(learner, reference, rng, 24, 6, 2)
    x = rng.normal(2, 5, 24)
    check_any_device(learner, mine, x)
    check_tensor(check_unchanged(learner, mine, x), (2, 5, 24))
    mine.method("double")
    wide = x.double().requires_grad_()
    # Angles made in float32 are off by 1e-7 for each position, which gradients hand on.
    got, expected = learner.backward(mine, wide), reference.backward(right, wide)
    check_gradient(got.inputs[0], expected.inputs[0], "x", atol=1e-4)
    for name in sorted(expected.parameters):
        check_gradient(got.parameters.get(name), expected.parameters[name], name, atol=1e-4)
    for name, dtype in (("half", torch.float16), ("bfloat16", torch.bfloat16)):
        mine.method(name)
        check_tensor(mine(x.to(dtype)), (2, 5, 24), "the output", dtype)


def in_chunks(learner, mine, x, sizes, what):
    cache, parts = learner.KVCache(), []
    for part in x.split(sizes, dim=1):
        got = mine(part.contiguous(), cache)
        check_tensor(got, tuple(part.shape), f"the output of a chunk of {part.size(1)}, {what},")
        parts.append(got)
    return torch.cat(parts, dim=1), cache


@item("chunks", points=1.25, title="chunks of mixed sizes give the same output", hint="Positions and mask go on.")
def test_chunks(learner, reference, rng):
    mine, right = module(learner, reference, rng, 24, 6, 2)
    for sizes in ((2, 3), (3, 1, 1), (1, 4, 2), (4, 4, 3)):
        x = rng.normal(2, sum(sizes), 24)
        got, _cache = in_chunks(learner, mine, x, sizes, f"cut into {sizes}")
        check_close(got, right(x.double()), f"the output cut into {sizes}", dtype=x.dtype, atol=ATOL)


@item("chunks", points=0.5, title="token by token, and a second sequence", hint="A new cache starts from nothing.")
def test_tokens(learner, reference, rng):
    mine, right = module(learner, reference, rng, 16, 4, 2)
    for batch, length in ((2, 5), (3, 4)):
        x = rng.normal(batch, length, 16)
        got, _cache = in_chunks(learner, mine, x, [1] * length, "token by token")
        check_close(got, right(x.double()), "the output token by token", dtype=x.dtype, atol=ATOL)
        check_close(mine(x), right(x.double()), "the output without a cache afterwards", dtype=x.dtype, atol=ATOL)


@item("chunks", points=0.5, title="the cache grows by the new tokens", hint="Append once for each call.")
def test_growth(learner, reference, rng):
    mine, _right = module(learner, reference, rng, 16, 4, 2)
    _got, cache = in_chunks(learner, mine, rng.normal(2, 6, 16), (3, 2, 1), "cut into (3, 2, 1)")
    check(cache.get("length") == 6, f"the cache holds {cache.get('length')} positions after 6 tokens.")


@item("sizes", points=0.5, title="sizes that do not fit are refused", hint="A ValueError that names them.")
def test_sizes(learner, reference, rng):
    with expect_error("6 heads with 4 key heads", mentions=[6, 4]):
        learner.GroupedQueryAttention(24, 6, 4)
    with expect_error("d_model=10 with 4 heads", mentions=[10, 4]):
        learner.GroupedQueryAttention(10, 4, 2)
    with expect_error("a head of size 3 (d_model=12, 4 heads)"):
        learner.GroupedQueryAttention(12, 4, 2)

"""Hidden tests of topic 10. Eight points."""

import re

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
from autograder.probe import LearnerError

# Projections of 16 to 24 features, twice, around an attention: sums of some hundred products of values near 1, each
# rounded to float32 (1.2e-7), stay below 1e-4.
ATOL = 1e-4
# bfloat16 keeps 8 bits: queries and keys of about 2 in 8 features move a score by some hundredths, and the output, of up
# to 4, by as much. Over the known right answers it is at most 0.04; angles made in bfloat16 are wrong by 0.4 and more.
FAR_ATOL = 0.15


# -- shared heads ----------------------------------------------------------------------------------------------------


@item("repeat", points=0.75, title="each head is repeated in place", hint="0 0 1 1, not 0 1 0 1.")
def test_repeat(learner, reference, rng):
    for shape, repeats in (((2, 2, 2, 2), 2), ((2, 3, 5, 4), 2), ((3, 1, 4, 6), 3), ((2, 4, 3, 5), 1)):
        x = rng.normal(*shape)
        what = f"heads of the shape {shape}, {repeats} times,"
        check_close(learner.repeat_kv(x, repeats), x.repeat_interleave(repeats, 1), what, atol=0.0)
    x = rng.normal(2, 5, 3, 4).transpose(1, 2)
    check_close(learner.repeat_kv(x, 2), x.repeat_interleave(2, 1), "strided heads, 2 times,", atol=0.0)


@item("repeat", points=0.25, title="repeating keeps dtype, input and gradient", hint="Shared heads share gradients.")
def test_repeat_types(learner, reference, rng):
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        x = rng.normal(2, 2, 3, 4, dtype=dtype)
        what = f"heads in {dtype}"
        check_close(check_unchanged(learner, "repeat_kv", x, 3), x.repeat_interleave(3, 1), what, atol=0.0)
    check_any_device(learner, "repeat_kv", rng.normal(2, 3, 5, 4), 2)
    x = rng.normal(2, 2, 3, 4, dtype=torch.float64).requires_grad_()
    check_gradient(learner.backward("repeat_kv", x, 3).inputs[0], reference.backward("repeat_kv", x, 3).inputs[0], "x")


# -- the cache -------------------------------------------------------------------------------------------------------


def append(cache, k, v):
    return as_pair(cache.method("append", k, v), "append", "(keys, values)")


@item("cache", points=0.75, title="the cache gives back everything in order", hint="New behind old, along the length.")
def test_cache(learner, reference, rng):
    for sizes in ((2, 2), (3, 1, 2), (1, 1, 1), (4, 5)):
        k, v = rng.normal(2, 3, sum(sizes), 4), rng.normal(2, 3, sum(sizes), 4)
        cache, end = learner.KVCache(), 0
        for size in sizes:
            start, end = end, end + size
            keys, values = append(cache, k[:, :, start:end], v[:, :, start:end])
            check_close(keys, k[:, :, :end], f"the keys after {end} positions", atol=0.0)
            check_close(values, v[:, :, :end], f"the values after {end} positions", atol=0.0)


@item("cache", points=0.25, title="length counts positions", hint="0 at first, then the size of axis 2.")
def test_cache_length(learner, reference, rng):
    cache, total = learner.KVCache(), 0
    for size in (0, 3, 1, 2):
        if size:
            append(cache, rng.normal(4, 2, size, 6), rng.normal(4, 2, size, 6))
        total += size
        check(length_of(cache) == total, f"length is {length_of(cache)} after {total} positions.")


def length_of(cache):
    length = cache.get("length")
    if isinstance(length, torch.Tensor) and length.dim() == 0:
        length = length.item()
    check(isinstance(length, int) and not isinstance(length, bool), "length should be a whole number.")
    return length


@item("cache", points=0.25, title="two caches share nothing", hint="Make the storage in __init__, in self.")
def test_cache_apart(learner, reference, rng):
    first, second = learner.KVCache(), learner.KVCache()
    append(first, rng.normal(1, 2, 3, 4), rng.normal(1, 2, 3, 4))
    check(length_of(second) == 0, "a second cache is not empty after the first one was filled.")
    k, v = rng.normal(2, 3, 2, 4, dtype=torch.float64), rng.normal(2, 3, 2, 4, dtype=torch.float64)
    keys, values = append(second, k, v)
    check_close(keys, k, "the keys of the second cache", atol=0.0)
    check_close(values, v, "the values of the second cache", atol=0.0)
    check(length_of(learner.KVCache()) == 0, "a new cache is not empty.")


@item("cache", points=0.25, title="dtype, gradient and device of the new keys", hint="Keep to what comes in.")
def test_cache_types(learner, reference, rng):
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        cache = learner.KVCache()
        k, v = rng.normal(2, 3, 5, 4, dtype=dtype), rng.normal(2, 3, 5, 4, dtype=dtype)
        check_unchanged(learner, cache.get("append"), k[:, :, :3], v[:, :, :3])
        pair = check_unchanged(learner, cache.get("append"), k[:, :, 3:], v[:, :, 3:])
        keys, values = as_pair(pair, "append", "(keys, values)")
        check_close(keys, k, f"the keys in {dtype}", atol=0.0)
        check_close(values, v, f"the values in {dtype}", atol=0.0)
    check_any_device(learner, learner.KVCache().get("append"), rng.normal(2, 3, 2, 4), rng.normal(2, 3, 2, 4))
    cache = learner.KVCache()
    k, v = rng.normal(2, 3, 5, 4, dtype=torch.float64), rng.normal(2, 3, 5, 4, dtype=torch.float64)
    append(cache, k[:, :, :3], v[:, :, :3])
    new, cotangent = k[:, :, 3:].clone().requires_grad_(), rng.normal(2, 3, 5, 4, dtype=torch.float64)
    got = learner.backward(cache.get("append"), new, v[:, :, 3:], cotangent=cotangent)
    check_gradient(got.inputs[0], cotangent[:, :, 3:], "the new keys")


# -- attention -------------------------------------------------------------------------------------------------------


def module(learner, reference, rng, width, heads, kv_heads, **options):
    """The learner's module and the reference's in float64, with the same random weights and biases."""
    small = width // heads * kv_heads
    weights = {}
    for name, rows in (("W_q", width), ("W_k", small), ("W_v", small), ("W_o", width)):
        weights[f"{name}.weight"] = rng.normal(rows, width, std=width**-0.5)
        if options.get("bias", True):
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


@item("attention", points=0.75, title="grouped queries, causal, with rotary positions", hint="Heads 0 1 share key 0.")
def test_attention(learner, reference, rng):
    compare(learner, reference, rng, 16, 4, 2, 4, 4)
    compare(learner, reference, rng, 24, 6, 2, 2, 7)
    compare(learner, reference, rng, 24, 6, 3, 3, 5)


@item("attention", points=0.5, title="the limits: every head its own keys, and one for all", hint="H_kv = H, H_kv = 1.")
def test_attention_limits(learner, reference, rng):
    compare(learner, reference, rng, 16, 4, 4, 2, 6)
    compare(learner, reference, rng, 24, 6, 1, 2, 5)
    compare(learner, reference, rng, 12, 1, 1, 3, 4)
    compare(learner, reference, rng, 24, 3, 1, 2, 1)


@item("attention", points=0.25, title="the sizes of the projections", hint="W_k and W_v have H_kv * d rows.")
def test_attention_parameters(learner, reference, rng):
    found = learner.GroupedQueryAttention(24, 6, 2).state().parameters
    for name, rows in (("W_q", 24), ("W_k", 8), ("W_v", 8), ("W_o", 24)):
        for part, shape in (("weight", (rows, 24)), ("bias", (rows,))):
            check(f"{name}.{part}" in found, f"there is no parameter {name}.{part}.")
            check_tensor(found[f"{name}.{part}"], shape, f"{name}.{part} of 24 features, 6 heads and 2 key heads")


@item("attention", points=0.25, title="without biases", hint="Hand `bias` on to all four projections.")
def test_attention_bias(learner, reference, rng):
    found = learner.GroupedQueryAttention(24, 6, 2, bias=False).state().parameters
    left = sorted(n for n in found if re.fullmatch(r"W_[qkvo]\.bias", n))
    check(not left, f"with bias=False there is still {', '.join(left)}.")
    compare(learner, reference, rng, 24, 6, 2, 2, 5, bias=False)


@item("attention", points=0.25, title="another base", hint="Hand `base` on to the rotation.")
def test_attention_base(learner, reference, rng):
    compare(learner, reference, rng, 24, 3, 1, 2, 6, base=50.0)


@item("attention", points=0.5, title="dtypes, gradients and device", hint="Modules move with .to().")
def test_attention_types(learner, reference, rng):
    mine, right = module(learner, reference, rng, 24, 6, 2)
    x = rng.normal(2, 5, 24)
    # First of all: a seed that is set in every call changes nothing the second time.
    check_tensor(check_unchanged(learner, mine, x), (2, 5, 24))
    check_any_device(learner, mine, x)
    mine.method("double")
    wide = x.double().requires_grad_()
    # Angles made in float32 are off by 1e-7 for each position, which gradients hand on.
    got, expected = learner.backward(mine, wide), reference.backward(right, wide)
    check_gradient(got.inputs[0], expected.inputs[0], "x", atol=ATOL)
    for name in sorted(expected.parameters):
        check_gradient(got.parameters.get(name), expected.parameters[name], name, atol=ATOL)
    for name, dtype in (("half", torch.float16), ("bfloat16", torch.bfloat16)):
        other, _right = module(learner, reference, rng, 24, 6, 2)
        other.method(name)
        check_tensor(other(x.to(dtype)), (2, 5, 24), "the output", dtype)


# -- with a cache ----------------------------------------------------------------------------------------------------


def in_chunks(learner, mine, x, sizes, what):
    cache, parts = learner.KVCache(), []
    for part in x.split(sizes, dim=1):
        got = mine(part.contiguous(), cache)
        check_tensor(got, tuple(part.shape), f"the output of a chunk of {part.size(1)}, {what},")
        parts.append(got)
    return torch.cat(parts, dim=1), cache


@item("chunks", points=1, title="chunks of mixed sizes give the same output", hint="Positions and mask go on.")
def test_chunks(learner, reference, rng):
    mine, right = module(learner, reference, rng, 24, 6, 2)
    for sizes in ((2, 3), (3, 1, 1), (1, 4, 2), (4, 4, 3)):
        x = rng.normal(2, sum(sizes), 24)
        got, _cache = in_chunks(learner, mine, x, sizes, f"cut into {sizes}")
        check_close(got, right(x.double()), f"the output cut into {sizes}", dtype=x.dtype, atol=ATOL)
    cache = learner.KVCache()
    first, second = mine(x[:, :5], cache=cache), mine(x[:, 5:], cache=cache)
    got = torch.cat((first, second), dim=1)
    check_close(got, right(x.double()), "the output of two chunks, cache= by name", dtype=x.dtype, atol=ATOL)


@item("chunks", points=0.5, title="token by token, and a second sequence", hint="A new cache starts from nothing.")
def test_tokens(learner, reference, rng):
    mine, right = module(learner, reference, rng, 16, 4, 2)
    for batch, length in ((2, 5), (3, 4)):
        x = rng.normal(batch, length, 16)
        got, _cache = in_chunks(learner, mine, x, [1] * length, "token by token")
        check_close(got, right(x.double()), "the output token by token", dtype=x.dtype, atol=ATOL)
        check_close(mine(x), right(x.double()), "the output without a cache afterwards", dtype=x.dtype, atol=ATOL)
    sequences = [rng.normal(2, 6, 16), rng.normal(2, 6, 16)]
    caches, parts = [learner.KVCache(), learner.KVCache()], ([], [])
    for start, stop in ((0, 3), (3, 4), (4, 6)):
        for x, cache, outputs in zip(sequences, caches, parts, strict=True):
            outputs.append(mine(x[:, start:stop], cache))
    for x, outputs in zip(sequences, parts, strict=True):
        what = "the output of two sequences in turn, each with its cache,"
        check_close(torch.cat(outputs, dim=1), right(x.double()), what, dtype=x.dtype, atol=ATOL)


@item("chunks", points=0.25, title="the cache grows by the new tokens", hint="Append once for each call.")
def test_growth(learner, reference, rng):
    mine, _right = module(learner, reference, rng, 16, 4, 2)
    with learner.quiet():
        _got, cache = in_chunks(learner, mine, rng.normal(2, 6, 16), (3, 2, 1), "cut into (3, 2, 1)")
    check(length_of(cache) == 6, f"the cache holds {length_of(cache)} positions after 6 tokens.")


@item("chunks", points=0.25, title="the cache holds the shared heads once", hint="H_kv heads: repeat after the cache.")
def test_cache_heads(learner, reference, rng):
    mine, _right = module(learner, reference, rng, 24, 6, 2)
    cache = learner.KVCache()
    # What stands in the cache is free (keys before or after their rotation), so it is not compared.
    with learner.quiet():
        mine(rng.normal(2, 3, 24), cache)
        try:
            keys, values = append(cache, rng.normal(2, 2, 1, 4), rng.normal(2, 2, 1, 4))
            shapes = [tuple(t.shape) for t in (keys, values) if isinstance(t, torch.Tensor)]
        except LearnerError:
            shapes = []
    right = shapes == [(2, 2, 4, 4)] * 2
    # The sizes tell heads that were repeated from keys that were appended twice and from storage that is not filled.
    learner.note(shapes)
    check(
        right, "after three tokens, keys and values of one more, (B, H_kv, 1, d), do not fit behind those in the cache."
    )


@item("chunks", points=0.25, title="gradients within a chunk", hint="New keys stay in the graph, cached or not.")
def test_chunk_gradient(learner, reference, rng):
    mine, right = module(learner, reference, rng, 24, 6, 2)
    mine.method("double")
    x, cotangent = rng.normal(2, 6, 24, dtype=torch.float64), rng.normal(2, 6, 24, dtype=torch.float64)
    cotangent[:, :3] = 0.0
    expected = reference.backward(right, x.clone().requires_grad_(), cotangent=cotangent)
    cache = learner.KVCache()
    mine(x[:, :3], cache)
    got = learner.backward(mine, x[:, 3:].clone().requires_grad_(), cache, cotangent=cotangent[:, 3:])
    # Angles made in float32 are off by 1e-7 for each position, which gradients hand on.
    check_gradient(got.inputs[0], expected.inputs[0][:, 3:], "the tokens of the second chunk", atol=ATOL)
    for name in ("W_q.weight", "W_o.weight"):
        check_gradient(got.parameters.get(name), expected.parameters[name], name, atol=ATOL)


@item("chunks", points=0.25, title="dtypes and device with a cache", hint="Make positions in float32 or better.")
def test_chunk_types(learner, reference, rng):
    mine, right = module(learner, reference, rng, 24, 6, 2)
    check_unchanged(learner, mine, rng.normal(2, 3, 24), learner.KVCache())
    check_any_device(learner, mine, rng.normal(2, 3, 24), learner.KVCache())
    mine.method("double")
    x = rng.normal(2, 6, 24, dtype=torch.float64)
    got, _cache = in_chunks(learner, mine, x, (3, 1, 2), "in float64")
    # Angles made in float32 are right to 1e-6 at these positions; scores and values hand that on.
    check_close(got, right(x), "the output in float64, cut into (3, 1, 2)", atol=1e-5)
    mine, right = module(learner, reference, rng, 16, 2, 1)
    mine.method("bfloat16")
    right.method("bfloat16")
    right.method("double")
    x = rng.normal(1, 303, 16, dtype=torch.bfloat16)
    got, _cache = in_chunks(learner, mine, x, (300, 2, 1), "at far positions in bfloat16")
    check_close(got, right(x.double()), "the output at positions of some hundred", dtype=x.dtype, atol=FAR_ATOL)


@item("sizes", points=0.5, title="sizes that do not fit are refused", hint="A ValueError that names them.")
def test_sizes(learner, reference, rng):
    with expect_error("6 heads with 4 key heads", mentions=[6, 4]):
        learner.GroupedQueryAttention(24, 6, 4)
    with expect_error("2 heads with 4 key heads", mentions=[2, 4]):
        learner.GroupedQueryAttention(16, 2, 4)
    with expect_error("d_model=10 with 4 heads", mentions=[10, 4]):
        learner.GroupedQueryAttention(10, 4, 2)
    with expect_error("a head of size 3 (d_model=12, 4 heads)"):
        try:
            learner.GroupedQueryAttention(12, 4, 2)
        except LearnerError as error:
            numbers = set(re.findall(r"\d+", error.text))
            check(
                "3" in numbers or {"12", "4"} <= numbers, f"`{error.text[:120]}` does not name the odd size of a head."
            )
            raise

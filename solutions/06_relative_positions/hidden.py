"""Hidden tests of topic 06. Thirteen points."""

import math

import torch

from autograder.checks import (
    as_pair,
    check,
    check_any_device,
    check_close,
    check_finite,
    check_gradient,
    check_tensor,
    check_unchanged,
    item,
)
from autograder.probe import LearnerError

SHAW, XL = "shaw_attention", "transformer_xl_scores"
DTYPES = (torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def check_integers(got, expected, what):
    """Equal integers; any integer dtype will do."""
    check_tensor(got, expected.shape, what)
    check(got.dtype in INTEGERS, f"{what} should hold integers, but the dtype is {got.dtype}.")
    check_close(got.long(), expected.long(), what)


def unless_view(call):
    """The value, or None where torch itself refuses to view strided data, which is an honest answer to it."""
    try:
        return call()
    except LearnerError as error:
        if "view" in error.text or "contiguous" in error.text:
            return None
        raise


# -- distances -------------------------------------------------------------------------------------------------------


@item("distances", points=0.5, title="distances where L and S are equal", hint="Key minus query.")
def test_distances_square(learner, reference, rng):
    for length in (4, 1, 7):
        check_integers(learner.relative_distances(length), reference.relative_distances(length), f"L={length}")
    check_integers(learner.relative_distances(5, 5), reference.relative_distances(5, 5), "L=5, S=5")


@item("distances", points=0.25, title="distances where L and S differ", hint="Query i stands at i + S - L.")
def test_distances_offset(learner, reference, rng):
    for length, source in ((3, 7), (1, 5), (7, 3), (4, 1), (2, 300)):
        got = learner.relative_distances(length, source)
        check_integers(got, reference.relative_distances(length, source), f"the distances for L={length}, S={source}")


@item("distances", points=0.25, title="distances on the device that is asked for", hint="Hand `device` on to arange.")
def test_distances_device(learner, reference, rng):
    check_any_device(learner, "relative_distances", 3, 5, device=torch.device("cpu"))
    check_any_device(learner, "relative_distances", 4, device=torch.device("cpu"))
    check_unchanged(learner, "relative_distances", 4, 6)


# -- shaw ------------------------------------------------------------------------------------------------------------


def shaw_inputs(rng, *lead, length=6, source=6, limit=2, d=4, d_v=3, dtype=torch.float32):
    """q, k, v, key_table, value_table with random, asymmetric tables, and scores far from one-hot."""
    return (
        rng.normal(*lead, length, d, dtype=dtype),
        rng.normal(*lead, source, d, dtype=dtype),
        rng.normal(*lead, source, d_v, dtype=dtype),
        rng.normal(2 * limit + 1, d, dtype=dtype),
        rng.normal(2 * limit + 1, d_v, dtype=dtype),
    )


def compare_shaw(learner, reference, inputs, mask=None, what=""):
    """Learner against a reference in float64. Without a value table and a mask, neither argument is passed."""
    extra = {} if mask is None else {"mask": mask}
    expected_output, expected_weights = reference.shaw_attention(*(t.double() for t in inputs), **extra)
    output, weights = as_pair(learner.shaw_attention(*inputs, **extra))
    dtype = inputs[0].dtype
    check_close(weights, expected_weights, f"the weights{what}", dtype=dtype)
    check_close(output, expected_output, f"the output{what}", dtype=dtype)


@item("shaw", points=1, title="relative keys, no distance clipped", hint="Row K is distance 0; key minus query.")
def test_shaw_keys(learner, reference, rng):
    # All sizes equal hides much, yet here a mistake computes instead of raising, and so can be named.
    inputs = shaw_inputs(rng, 4, 4, length=4, source=4, limit=5, d=4, d_v=4)
    compare_shaw(learner, reference, inputs[:4], what=" where B, H, L, S and d are equal")
    compare_shaw(learner, reference, shaw_inputs(rng, 2, 3, length=5, source=5, limit=6, d=9)[:4])
    inputs = shaw_inputs(rng, 2, 1, length=3, source=3, limit=2, d=6, d_v=5)[:4]
    compare_shaw(learner, reference, inputs, what=" where K = L - 1")


@item("shaw", points=0.5, title="distances clipped to [-K, K]", hint="Clip before K is added, at both ends.")
def test_shaw_clip(learner, reference, rng):
    for length, limit in ((8, 2), (7, 1), (9, 4), (4, 3), (5, 0), (70, 12)):
        inputs = shaw_inputs(rng, 2, 3, length=length, source=length, limit=limit)
        compare_shaw(learner, reference, inputs[:4], what=f" for L=S={length}, K={limit}")


@item("shaw", points=0.5, title="other numbers of keys than queries", hint="Query i stands at i + S - L.")
def test_shaw_offset(learner, reference, rng):
    for length, source, limit in ((3, 7, 9), (3, 7, 2), (1, 6, 3), (6, 2, 3), (7, 3, 1)):
        inputs = shaw_inputs(rng, 2, 3, length=length, source=source, limit=limit, d=5)
        compare_shaw(learner, reference, inputs[:4], what=f" for L={length}, S={source}, K={limit}")


@item("shaw_values", points=0.5, title="relative values", hint="A second table, weighted like the values.")
def test_shaw_values(learner, reference, rng):
    inputs = shaw_inputs(rng, 5, 5, length=5, source=5, limit=2, d=5, d_v=5)
    compare_shaw(learner, reference, inputs, what=" with a value table, where all sizes are equal")
    compare_shaw(learner, reference, shaw_inputs(rng, 2, 3), what=" with a value table")
    compare_shaw(learner, reference, shaw_inputs(rng, 2, 3, length=3, source=8, d_v=7), what=" for L=3, S=8")
    compare_shaw(learner, reference, shaw_inputs(rng, 2, 3, length=5, source=2, limit=1), what=" for L=5, S=2")


@item("shaw_mask", points=0.5, title="masks, and rows that may attend nowhere", hint="Mask the scores, then softmax.")
def test_shaw_mask(learner, reference, rng):
    inputs = shaw_inputs(rng, 2, 3, length=5, source=5, limit=2)
    for shape in ((5, 5), (2, 1, 5, 5), (2, 1, 1, 5), (2, 3, 5, 5)):
        compare_shaw(learner, reference, inputs, rng.mask(*shape), what=f" under a mask of shape {shape}")
    compare_shaw(learner, reference, inputs[:4], rng.mask(5, 5), what=" under a mask, without a value table")
    numbers = rng.mask(2, 1, 5, 5) * rng.integers(1, 4, 2, 1, 5, 5)
    for dtype in (torch.int64, torch.uint8):
        compare_shaw(learner, reference, inputs, numbers.to(dtype), what=f" under a mask of {dtype}")
    inputs = shaw_inputs(rng, 2, 3, length=4, source=7, limit=2, dtype=torch.float64)
    mask = rng.mask(2, 1, 4, 7)
    mask[0, 0, 1] = mask[1, 0, 3] = False
    compare_shaw(learner, reference, inputs, mask, what=" with a row that may attend nowhere")
    _, weights = as_pair(learner.shaw_attention(*inputs, mask=mask))
    check(bool((weights[~mask.expand_as(weights)] == 0).all()), "a blocked key has a weight that is not exactly 0.")
    far = (inputs[0] * 0.1 - 20_000.0, inputs[1] * 0.1 + 5.0, *inputs[2:])
    _, weights = as_pair(learner.shaw_attention(*far, mask=mask))
    hidden = ~mask.expand_as(weights)
    check(bool((weights[hidden] == 0).all()), "a blocked key gets weight when the other scores are very negative.")
    got = learner.backward(SHAW, *(t.requires_grad_() for t in inputs), mask=mask)
    for name, gradient in zip(("q", "k", "v", "key_table", "value_table"), got.inputs, strict=True):
        check_finite(gradient, f"the gradient of {name} with a row that may attend nowhere")


@item("shaw_values", points=0.25, title="gradients reach q, k, v and both tables", hint="Tensor operations only.")
def test_shaw_gradients(learner, reference, rng):
    inputs = [t.requires_grad_() for t in shaw_inputs(rng, 2, 3, length=4, source=6, dtype=torch.float64)]
    for extra in ({}, {"mask": rng.mask(2, 1, 4, 6)}):
        got = learner.backward(SHAW, *inputs, **extra)
        expected = reference.backward(SHAW, *inputs, **extra)
        for name, mine, right in zip(
            ("q", "k", "v", "key_table", "value_table"), got.inputs, expected.inputs, strict=True
        ):
            check_gradient(mine, right, name)


@item("shaw_mask", points=0.25, title="dtypes, strides, devices, unchanged inputs", hint="Use q.device, q.dtype.")
def test_shaw_types(learner, reference, rng):
    for dtype in DTYPES:
        compare_shaw(learner, reference, shaw_inputs(rng, 2, 3, dtype=dtype), rng.mask(6, 6), what=f" in {dtype}")
    inputs = shaw_inputs(rng, 2, 3, length=4, source=6)
    mask = rng.mask(2, 1, 4, 6)
    check_unchanged(learner, SHAW, *inputs, mask=mask)
    check_unchanged(learner, SHAW, *inputs[:4], mask=mask.int())
    check_any_device(learner, SHAW, *inputs, mask=mask)
    check_any_device(learner, SHAW, *inputs[:4])
    strided = [t.transpose(0, 1) for t in inputs[:3]] + [t.T.contiguous().T for t in inputs[3:]]
    result = unless_view(lambda: learner.shaw_attention(*strided))
    if result is not None:
        expected = reference.shaw_attention(*strided)
        check_close(as_pair(result)[0], expected[0], "the output of strided inputs")


# -- relative shift --------------------------------------------------------------------------------------------------


@item("shift", points=0.5, title="the shift of one matrix and of many", hint="Row i starts i places further left.")
def test_shift_values(learner, reference, rng):
    for shape in ((2, 3, 4, 7), (3, 5, 9), (6, 11), (1, 2, 2, 3), (4, 1, 1), (2, 1, 2, 3, 5)):
        x = rng.normal(*shape)
        check_close(learner.relative_shift(x), reference.relative_shift(x), f"the shift of {shape}")
    x = rng.normal(3, 2, 4, 7).transpose(0, 1)
    got = unless_view(lambda: learner.relative_shift(x))
    if got is not None:
        check_close(got, reference.relative_shift(x), "the shift of a strided tensor")


@item("shift", points=0.5, title="gradients, dtypes and devices of the shift", hint="Entries are moved.")
def test_shift_gradients(learner, reference, rng):
    for dtype in DTYPES:
        x = rng.normal(2, 3, 4, 7, dtype=dtype)
        got = check_unchanged(learner, "relative_shift", x)
        # Entries are moved, hence equal to the last bit.
        check_close(got, reference.relative_shift(x), f"the shift in {dtype}", atol=0.0)
    x = rng.normal(2, 3, 5, 9, dtype=torch.float64).requires_grad_()
    got, expected = learner.backward("relative_shift", x), reference.backward("relative_shift", x)
    check_gradient(got.inputs[0], expected.inputs[0], "x")
    check_any_device(learner, "relative_shift", rng.normal(2, 3, 4, 7))


# -- transformer-xl --------------------------------------------------------------------------------------------------


def xl_inputs(rng, batch, heads, length, source, d, dtype=torch.float32):
    return (
        rng.normal(batch, heads, length, d, dtype=dtype),
        rng.normal(batch, heads, source, d, dtype=dtype),
        rng.normal(heads, source + length - 1, d, dtype=dtype),
        rng.normal(heads, d, dtype=dtype),
        rng.normal(heads, d, dtype=dtype),
    )


def compare_xl(learner, reference, inputs, what=""):
    expected = reference.transformer_xl_scores(*(t.double() for t in inputs))
    got = learner.transformer_xl_scores(*inputs)
    check_close(got, expected, f"the scores{what}", dtype=inputs[0].dtype)


@item("xl", points=0.75, title="scores where L and S are equal", hint="u goes with k, w with r; scale both terms.")
def test_xl_square(learner, reference, rng):
    # All sizes equal: a bias on the wrong axis computes here instead of raising.
    compare_xl(learner, reference, xl_inputs(rng, 4, 4, 4, 4, 4), " where B, H, L, S and d are equal")
    compare_xl(learner, reference, xl_inputs(rng, 2, 3, 5, 5, 6))
    compare_xl(learner, reference, xl_inputs(rng, 3, 1, 7, 7, 2), " of one head")


@item("xl", points=0.75, title="scores where L and S differ", hint="Column c of r is distance c - (S-1).")
def test_xl_memory(learner, reference, rng):
    for length, source in ((3, 7), (1, 5), (4, 6), (6, 2)):
        compare_xl(learner, reference, xl_inputs(rng, 2, 3, length, source, 5), f" for L={length}, S={source}")


@item("xl", points=0.25, title="gradients reach q, k, r and both biases", hint="Keep to tensor operations.")
def test_xl_gradients(learner, reference, rng):
    inputs = [t.requires_grad_() for t in xl_inputs(rng, 2, 3, 4, 6, 5, dtype=torch.float64)]
    got, expected = learner.backward(XL, *inputs), reference.backward(XL, *inputs)
    for name, mine, right in zip(
        ("q", "k", "r", "content_bias", "position_bias"), got.inputs, expected.inputs, strict=True
    ):
        check_gradient(mine, right, name)


@item("xl", points=0.25, title="dtypes, strides, devices, unchanged inputs", hint="Use q.device, q.dtype.")
def test_xl_types(learner, reference, rng):
    for dtype in DTYPES:
        compare_xl(learner, reference, xl_inputs(rng, 2, 3, 5, 5, 4, dtype=dtype), f" in {dtype}")
    inputs = xl_inputs(rng, 2, 3, 4, 6, 5)
    check_unchanged(learner, XL, *inputs)
    check_any_device(learner, XL, *inputs)
    q, k, r, u, w = xl_inputs(rng, 2, 3, 5, 5, 4)
    strided = (q.mT.contiguous().mT, k.mT.contiguous().mT, r.transpose(0, 1).contiguous().transpose(0, 1), u, w)
    got = unless_view(lambda: learner.transformer_xl_scores(*strided))
    if got is not None:
        check_close(got, reference.transformer_xl_scores(q, k, r, u, w), "the scores of strided inputs")


# -- t5 --------------------------------------------------------------------------------------------------------------


def check_buckets(learner, reference, distance, **options):
    """Exact, but where the logarithm is a whole number: rounding decides there, and both neighbours are right."""
    words = ", ".join(f"{name}={value}" for name, value in options.items())
    what = f"the buckets of the distances {int(distance.min())} to {int(distance.max())}"
    what += f" with {words}" if words else ""
    got, expected = learner.t5_bucket(distance, **options), reference.t5_bucket(distance, **options)
    check_tensor(got, expected.shape, what)
    check(got.dtype in INTEGERS, f"{what} should be integers, but the dtype is {got.dtype}.")
    buckets = options.get("num_buckets", 32) // (2 if options.get("bidirectional", True) else 1)
    exact = buckets // 2
    ratio = math.log(options.get("max_distance", 128) / exact)
    growth = torch.log(distance.abs().clamp(min=1).double() / exact) / ratio * (buckets - exact)
    # float32 logarithms of numbers up to 1e6 are off by 1e-6; times 16 buckets over a ratio of 1 or more: 2e-5.
    tie = ((growth - growth.round()).abs() < 5e-5) & (growth.round() > 0)
    got, expected = got.long(), expected.long()
    wrong = (got != expected) & ~(tie & ((got - expected).abs() == 1) & (got // buckets == expected // buckets))
    check(not wrong.any(), f"{what}: {int(wrong.sum())} of {wrong.numel()} are wrong.")


@item("bucket", points=0.75, title="both directions", hint="Halve first; the upper half is for distance > 0.")
def test_bucket_bidirectional(learner, reference, rng):
    check_buckets(learner, reference, torch.arange(-7, 8))
    check_buckets(learner, reference, torch.arange(-200, 201))
    check_buckets(learner, reference, torch.arange(-3000, 3001))


@item("bucket", points=0.5, title="one direction", hint="Only keys at or before the query have a distance that counts.")
def test_bucket_one_direction(learner, reference, rng):
    check_buckets(learner, reference, torch.arange(-3, 4), bidirectional=False)
    check_buckets(learner, reference, torch.arange(-200, 201), bidirectional=False)
    check_buckets(learner, reference, torch.arange(-3000, 3001), bidirectional=False)
    check_buckets(learner, reference, torch.arange(-90, 91), bidirectional=False, num_buckets=12, max_distance=50)


@item("bucket", points=0.5, title="other numbers of buckets, other distances", hint="Use num_buckets and max_distance.")
def test_bucket_options(learner, reference, rng):
    for buckets, limit in ((32, 40), (32, 600), (20, 128), (20, 100), (8, 20), (64, 1000)):
        check_buckets(learner, reference, torch.arange(-700, 701), num_buckets=buckets, max_distance=limit)
    check_buckets(learner, reference, torch.arange(-700, 701), bidirectional=False, num_buckets=10, max_distance=300)


@item("bucket", points=0.25, title="any shape, any device, unchanged distances", hint="No operation in place.")
def test_bucket_shapes(learner, reference, rng):
    # The largest comes first: the bucket of one distance alone fits many mistakes, and would name the wrong one.
    for shape in ((2, 3, 5), (6,), ()):
        check_buckets(learner, reference, rng.integers(-400, 400, *shape))
    distance = rng.integers(-200, 200, 4, 6)
    for options in ({}, {"bidirectional": False}):
        check_unchanged(learner, "t5_bucket", distance, **options)
        check_any_device(learner, "t5_bucket", distance, **options)
    check_buckets(learner, reference, torch.tensor([-1_000_000, -5000, 0, 5000, 1_000_000]))


def t5_pair(learner, reference, rng, heads, buckets=32, dtype=torch.float32, **options):
    """The learner's module and the reference's with the same random table."""
    options |= {} if buckets == 32 else {"num_buckets": buckets}
    table = rng.normal(buckets, heads, dtype=dtype)
    pair = [side.T5RelativeBias(heads, **options) for side in (learner, reference)]
    for module in pair:
        if dtype != torch.float32:
            module.method("to", dtype)
        module.load({"embedding.weight": table})
    return pair


@item("t5_bias", points=0.5, title="the bias of near distances", hint="Look up the buckets, then order the axes.")
def test_t5_bias_near(learner, reference, rng):
    mine, right = t5_pair(learner, reference, rng, 4)
    check_close(mine(4, 4), right(4, 4), "the bias for H=L=S=4")
    mine, right = t5_pair(learner, reference, rng, 3)
    check_close(mine(6, 6), right(6, 6), "the bias for L=S=6")
    state = mine.state()
    check(list(state.parameters) == ["embedding.weight"], "the module should hold `embedding` and no other parameter.")
    check(all(state.trainable.values()), "the table can't be trained: it must require a gradient.")


@item("t5_bias", points=0.25, title="the bias where L and S differ", hint="Query i stands at i + S - L.")
def test_t5_bias_offset(learner, reference, rng):
    mine, right = t5_pair(learner, reference, rng, 3)
    for length, source in ((2, 5), (3, 7), (2, 7), (1, 6), (7, 4), (5, 5)):
        check_close(mine(length, source), right(length, source), f"the bias for L={length}, S={source}")


@item("t5_bias", points=0.5, title="far distances and the module's options", hint="Hand every option on to t5_bucket.")
def test_t5_bias_options(learner, reference, rng):
    # Sizes keep away from distances whose bucket depends on rounding (16, 32, 64 with the defaults).
    mine, right = t5_pair(learner, reference, rng, 3)
    check_close(mine(15, 15), right(15, 15), "the bias for L=S=15")
    mine, right = t5_pair(learner, reference, rng, 3, bidirectional=False)
    check_close(mine(40, 40), right(40, 40), "the bias in one direction")
    mine, right = t5_pair(learner, reference, rng, 2, buckets=20, max_distance=100)
    check_close(mine(150, 150), right(150, 150), "the bias with 20 buckets up to 100")
    mine, right = t5_pair(learner, reference, rng, 5, buckets=12, max_distance=50, bidirectional=False)
    check_close(mine(9, 70), right(9, 70), "the bias with 12 buckets up to 50, in one direction")


@item("t5_bias", points=0.25, title="the table learns; the bias follows its dtype and device", hint="Ask the weight.")
def test_t5_bias_types(learner, reference, rng):
    for dtype in DTYPES:
        mine, right = t5_pair(learner, reference, rng, 3, dtype=dtype)
        check_close(mine(4, 6), right(4, 6), f"the bias in {dtype}")
    mine, right = t5_pair(learner, reference, rng, 3, dtype=torch.float64)
    got, expected = learner.backward(mine, 5, 7), reference.backward(right, 5, 7)
    gradient = got.parameters.get("embedding.weight")
    check_gradient(gradient, expected.parameters["embedding.weight"], "the table")
    mine, _ = t5_pair(learner, reference, rng, 3)
    check_unchanged(learner, mine, 4, 6)
    check_any_device(learner, mine, 4, 6)


# -- alibi -----------------------------------------------------------------------------------------------------------


@item("slopes", points=0.5, title="slopes for powers of two", hint="2 to the power of -8 (h + 1) / H.")
def test_slopes_powers(learner, reference, rng):
    for heads in (4, 1, 2, 8, 16, 32, 64):
        got = check_unchanged(learner, "alibi_slopes", heads)
        check_close(got, reference.alibi_slopes(heads), f"the slopes of {heads} heads")


@item("slopes", points=0.5, title="slopes for other numbers of heads", hint="First P heads, then every second of 2P.")
def test_slopes_others(learner, reference, rng):
    for heads in (6, 3, 5, 7, 12, 14, 20, 31, 40):
        got = check_unchanged(learner, "alibi_slopes", heads)
        check_close(got, reference.alibi_slopes(heads), f"the slopes of {heads} heads")


@item("alibi", points=0.5, title="the bias where L and S are equal", hint="Minus the slope times the distance.")
def test_alibi_square(learner, reference, rng):
    for heads, length in ((4, 4), (2, 7), (8, 5), (1, 3), (4, 1)):
        got = check_unchanged(learner, "alibi_bias", heads, length)
        check_close(got, reference.alibi_bias(heads, length), f"the bias of {heads} heads for L=S={length}")
    got = learner.alibi_bias(6, 5, 5)
    check_close(got, reference.alibi_bias(6, 5, 5), "the bias of 6 heads for L=S=5")


@item("alibi", points=0.5, title="the bias where L and S differ", hint="Query i stands at i + S - L.")
def test_alibi_offset(learner, reference, rng):
    for heads, length, source in ((4, 3, 7), (4, 2, 7), (2, 1, 6), (8, 6, 2), (4, 5, 5), (16, 2, 300)):
        got = learner.alibi_bias(heads, length, source)
        what = f"the bias of {heads} heads for L={length}, S={source}"
        check_close(got, reference.alibi_bias(heads, length, source), what)

"""Hidden tests of topic 02. Nine points."""

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
    tolerance,
)

ATTENTION = "scaled_dot_product_attention"


# -- softmax ---------------------------------------------------------------------------------------------------------


@item("softmax", points=1, title="softmax of ordinary values, along any axis", hint="Use the axis `dim`.")
def test_softmax_axis(learner, reference, rng):
    x = rng.normal(3, 4, 5, 2)
    for dim in (-1, 0, 1, 2):
        check_close(learner.softmax(x, dim=dim), reference.softmax(x, dim=dim), f"softmax along dim={dim}")
    x = rng.normal(3, 6)
    check_close(learner.softmax(x), reference.softmax(x), "softmax along the default axis")
    check_close(learner.softmax(x, dim=0), reference.softmax(x, dim=0), "softmax of a matrix along dim=0")


@item("softmax", points=1, title="softmax of values far from zero", hint="Subtract each slice's own maximum.")
def test_softmax_stable(learner, reference, rng):
    base = rng.normal(3, 7)
    # Subtracting a float32 maximum near 1000 is exact here, but forms such as exp(x - logsumexp(x)) round at 1000.
    atol = 1000 * torch.finfo(torch.float32).eps * 2
    # A row near -60 tells who subtracts the largest absolute value (0/0 there) from who never subtracts less than 0.
    shifts = torch.tensor([[1000.0], [-60.0], [-1000.0]])
    for name, x in {
        "rows near 1000, -60 and -1000": base + shifts,
        "rows shifted to -1000": base - 1000,
        "widely spread values": base * 100,
    }.items():
        got = learner.softmax(x)
        check_close(got, reference.softmax(x.double()), f"softmax of {name}", dtype=x.dtype, atol=atol)
        check_close(learner.softmax(x.T, dim=0), got.T, f"softmax along dim=0 of {name}", atol=atol)
    x = base.half() * 20
    # log-sum-exp of values near 40 is rounded to 40 * eps = 0.04 in float16 at worst, which the exponential hands on.
    got, expected = learner.softmax(x), reference.softmax(x.double())
    check_close(got, expected, "softmax of large float16 values", dtype=torch.float16, atol=4e-2)


@item("softmax", points=0.5, title="softmax with entries of -inf", hint="exp(-inf) is 0.")
def test_softmax_minus_infinity(learner, reference, rng):
    x = rng.normal(4, 6)
    x[~rng.mask(4, 6)] = -math.inf
    check_close(learner.softmax(x), reference.softmax(x), "softmax with entries of -inf")
    for shift in (500, -500):
        got = learner.softmax(x + shift)
        check_close(got, reference.softmax(x), f"softmax with -inf, the other entries near {shift}", atol=1e-4)


@item("softmax", points=0.25, title="softmax runs on whatever device its input is on", hint="Name no device.")
def test_softmax_device(learner, reference, rng):
    check_any_device(learner, "softmax", rng.normal(3, 5))


@item("softmax", points=0.25, title="softmax keeps dtype, precision and its input", hint="Return the dtype of x.")
def test_softmax_types(learner, reference, rng):
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        x = rng.normal(3, 5, dtype=dtype)
        got = check_unchanged(learner, "softmax", x)
        check_close(got, reference.softmax(x.double()), f"softmax in {dtype}", dtype=dtype)
    rows = learner.softmax(rng.normal(4, 9, dtype=torch.float64))
    check_close(rows.sum(-1), torch.ones(4, dtype=torch.float64), "the sum of each slice", atol=1e-12)
    x = rng.normal(3, 5, dtype=torch.float64).requires_grad_()
    got = learner.backward("softmax", x)
    check_gradient(got.inputs[0], reference.backward("softmax", x).inputs[0], "x")


# -- attention -------------------------------------------------------------------------------------------------------


def inputs(rng, *lead, length=5, source=7, d=4, d_v=3, dtype=torch.float32):
    """q, k, v with no two sizes equal; small enough scores that the softmax is far from one-hot."""
    return (
        rng.normal(*lead, length, d, dtype=dtype),
        rng.normal(*lead, source, d, dtype=dtype),
        rng.normal(*lead, source, d_v, dtype=dtype),
    )


def compare(learner, reference, q, k, v, *mask, dtype=None, atol=None, what=""):
    wide = [t.double() for t in (q, k, v)]
    expected_output, expected_weights = reference.scaled_dot_product_attention(*wide, *mask)
    output, weights = as_pair(learner.scaled_dot_product_attention(q, k, v, *mask))
    dtype = dtype or q.dtype
    check_close(weights, expected_weights, f"the weights{what}", dtype=dtype, atol=atol)
    check_close(output, expected_output, f"the output{what}", dtype=dtype, atol=atol)


@item("attention", points=1, title="weights and output", hint="Scores, scale, softmax over the keys, times v.")
def test_attention_values(learner, reference, rng):
    # All sizes equal hides much, yet here a mistake computes instead of raising, and so can be named.
    compare(learner, reference, *inputs(rng, 4, 4, length=4, source=4, d=4, d_v=4), what=" where all sizes are equal")
    compare(learner, reference, *inputs(rng, 2, 3))
    compare(learner, reference, *inputs(rng, 2, length=8, source=3, d=6, d_v=5))
    q, k, v = inputs(rng, 2, 2, length=4, source=6, d=9, d_v=2)
    compare(learner, reference, q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1), what=" of strided inputs")


@item("attention", points=0.5, title="any number of leading dimensions", hint="Address axes from the end: -2, -1.")
def test_attention_shapes(learner, reference, rng):
    for lead in ((), (3,), (2, 1, 3, 2)):
        compare(learner, reference, *inputs(rng, *lead), what=f" with leading dimensions {lead}")
    for length, source in ((1, 6), (6, 1), (2, 9)):
        compare(learner, reference, *inputs(rng, 2, length=length, source=source), what=f" of {length} by {source}")
    q, k, v = inputs(rng, 4)
    # The contract gives q, k and v the same leading dimensions: shared keys come expanded, with a stride of 0.
    k, v = (t[:1].expand(4, -1, -1) for t in (k, v))
    compare(learner, reference, q, k, v, what=" with keys shared by the batch")


@item("attention", points=0.5, title="gradients reach q, k and v", hint="Keep to tensor operations; no detach, no numpy.")
def test_attention_gradients(learner, reference, rng):
    q, k, v = (t.requires_grad_() for t in inputs(rng, 2, 3, dtype=torch.float64))
    mask = rng.mask(2, 1, 5, 7)
    for extra in ((), (mask,)):
        got = learner.backward(ATTENTION, q, k, v, *extra)
        expected = reference.backward(ATTENTION, q, k, v, *extra)
        for name, mine, right in zip("qkv", got.inputs, expected.inputs, strict=True):
            check_gradient(mine, right, name)


@item("mask", points=1, title="boolean masks", hint="True may attend; mask the scores before the softmax.")
def test_mask_boolean(learner, reference, rng):
    q, k, v = inputs(rng, 2, 3)
    masks = [rng.mask(5, 7), rng.mask(2, 1, 5, 7), rng.mask(2, 3, 5, 7), rng.mask(2, 1, 1, 7), rng.mask(1, 7)]
    for mask in masks:
        compare(learner, reference, q, k, v, mask, what=f" under a mask of shape {tuple(mask.shape)}")
    _, weights = as_pair(learner.scaled_dot_product_attention(q, k, v, masks[2]))
    check(bool((weights[~masks[2]] == 0).all()), "a blocked key has a weight that is not exactly 0.")
    square = inputs(rng, 2, 5, length=5, source=5, d=5, d_v=5)
    compare(learner, reference, *square, rng.mask(5, 5), what=" where all sizes are equal")


@item("mask", points=0.5, title="integer masks", hint="0 blocks, everything else lets through.")
def test_mask_integer(learner, reference, rng):
    q, k, v = inputs(rng, 2, 3)
    keep = rng.mask(2, 1, 5, 7)
    for dtype in (torch.int64, torch.int32, torch.uint8):
        compare(learner, reference, q, k, v, keep.to(dtype), what=f" under a mask of {dtype}")
    keep = keep.long() * rng.integers(1, 5, 2, 1, 5, 7)
    compare(learner, reference, q, k, v, keep, what=" under a mask of 0 and other integers")


@item("mask", points=0.5, title="masks beside very large scores", hint="A finite fill is no match for a large score.")
def test_mask_large(learner, reference, rng):
    q, k, v = inputs(rng, 2)
    mask = rng.mask(2, 5, 7)
    # Every kept key of one query scores about -30000 and less: a fill of -1e4 or -1e6/d would win against it.
    k = k * 0.1 + 1.0
    q = q * 0.1 - 20_000.0
    # Scores near -4e4 are rounded to about 4e-3 in float32, and the weights move by as much.
    compare(learner, reference, q, k, v, mask, what=" under a mask, with large negative scores", atol=2e-2)
    _, weights = as_pair(learner.scaled_dot_product_attention(q, k, v, mask))
    check(bool((weights[~mask] == 0).all()), "a blocked key gets weight when the other scores are very negative.")
    q, k, v = inputs(rng, 2)
    k[:, 3] += 1000
    mask[:, :, 3], mask[:, :, 0] = False, True
    compare(learner, reference, q, k, v, mask, what=" where a blocked key has the largest score")


@item("rows", points=0.5, title="rows that may attend nowhere are zeros", hint="Zeros: not NaN, and not the mean of v.")
def test_rows_nowhere(learner, reference, rng):
    q, k, v = inputs(rng, 2, 3)
    mask = rng.mask(2, 1, 5, 7)
    mask[0, 0, 1] = mask[1, 0, 4] = False
    compare(learner, reference, q, k, v, mask, what=" with a row that may attend nowhere")
    q, k, v = (t.double().requires_grad_() for t in (q, k, v))
    got = learner.backward(ATTENTION, q, k, v, mask)
    for name, gradient in zip("qkv", got.inputs, strict=True):
        check_finite(gradient, f"the gradient of {name} with a row that may attend nowhere")


@item("types", points=0.5, title="half precision and double", hint="Compute as you like; return the dtype of the inputs.")
def test_types(learner, reference, rng):
    mask = rng.mask(2, 1, 5, 7)
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        q, k, v = inputs(rng, 2, 3, dtype=dtype)
        compare(learner, reference, q, k, v, what=f" in {dtype}")
        compare(learner, reference, q, k, v, mask, what=f" in {dtype} under a mask")


@item("types", points=0.5, title="inputs and global state stay as they were", hint="No operation that ends in _ on inputs.")
def test_unchanged(learner, reference, rng):
    q, k, v = inputs(rng, 2)
    for mask in (rng.mask(2, 5, 7), rng.mask(5, 7).int()):
        output, weights = as_pair(check_unchanged(learner, ATTENTION, q, k, v, mask))
        check_tensor(output, (2, 5, 3))
    again, _ = as_pair(learner.scaled_dot_product_attention(q, k, v, mask))
    check_close(again, output, "the output of a second call with the same inputs", atol=tolerance(q.dtype))


@item("types", points=0.5, title="runs on whatever device its inputs are on", hint="Make tensors with device=q.device.")
def test_any_device(learner, reference, rng):
    q, k, v = inputs(rng, 2, 3)
    run = check_any_device(learner, ATTENTION, q, k, v, rng.mask(5, 7))
    check(run.dtypes == [torch.float32] * 2, "on another device the dtype of the results is different.")
    check_any_device(learner, ATTENTION, q, k, v)

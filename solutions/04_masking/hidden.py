"""Hidden tests of topic 04. Eleven points."""

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
    expect_error,
    item,
)

# -- padding ---------------------------------------------------------------------------------------------------------


@item("padding", points=0.75, title="real tokens are True", hint="position < length, of shape (B, 1, 1, S).")
def test_padding(learner, reference, rng):
    for lengths in ([3, 1, 3], [2, 5, 0, 4], [1], [4, 2, 1, 3, 4]):
        lengths = torch.tensor(lengths)
        check_close(
            learner.padding_mask(lengths), reference.padding_mask(lengths), f"the mask of lengths {lengths.tolist()}"
        )
    lengths = torch.tensor([2, 4, 1], dtype=torch.int32)
    check_close(learner.padding_mask(lengths), reference.padding_mask(lengths), "the mask of int32 lengths")
    lengths = lengths.to(torch.uint8)
    check_close(learner.padding_mask(lengths), reference.padding_mask(lengths), "the mask of uint8 lengths")


@item("padding", points=0.5, title="max_length, and lengths above it", hint="S is max_length; compare first.")
def test_padding_max(learner, reference, rng):
    for lengths, size in (([2, 3], 7), ([0, 1, 0], 2), ([4, 4], 4)):
        lengths = torch.tensor(lengths)
        got = learner.padding_mask(lengths, size)
        check_close(got, reference.padding_mask(lengths, size), f"the mask with max_length={size}")
    for lengths, size in (([9, 2, 3], 6), ([2, 9], 6), ([0, 3], 0)):
        with expect_error(f"the lengths {lengths} with max_length={size}", mentions=[max(lengths), size]):
            learner.padding_mask(torch.tensor(lengths), size)


@item("padding", points=0.25, title="nothing else changes", hint="Do not write into lengths.")
def test_padding_unchanged(learner, reference, rng):
    lengths = torch.tensor([2, 0, 3])
    check_tensor(check_unchanged(learner, "padding_mask", lengths, 4), (3, 1, 1, 4))
    # With max_length given, no value has to be read; the comparison with it may still need one.
    check_any_device(learner, "padding_mask", lengths, 4)


# -- causal ----------------------------------------------------------------------------------------------------------


@item("causal", points=0.5, title="as many queries as keys", hint="A token sees itself and what came before.")
def test_causal_square(learner, reference, rng):
    for size in (4, 1, 6):
        check_close(learner.causal_mask(size), reference.causal_mask(size), f"causal_mask({size})")
        check_close(learner.causal_mask(size, size), reference.causal_mask(size), f"causal_mask({size}, {size})")


@item("causal", points=0.75, title="L and S differ", hint="Aligned to the end: j <= i + S - L.")
def test_causal_rectangle(learner, reference, rng):
    for length, source in ((2, 5), (1, 6), (3, 4), (5, 3)):
        expected = reference.causal_mask(length, source)
        check_close(learner.causal_mask(length, source), expected, f"causal_mask({length}, {source})")


@item("causal", points=0.25, title="on the device that is asked for", hint="Hand `device` on.")
def test_causal_device(learner, reference, rng):
    # In this order: a helper with a cache would otherwise keep a tensor of the imaginary device, and hand it out here.
    check_close(learner.causal_mask(3, 5, torch.device("cpu")), reference.causal_mask(3, 5), "the mask with a device")
    check_any_device(learner, "causal_mask", 3, 5, torch.device("cpu"))


# -- combining -------------------------------------------------------------------------------------------------------


@item("combine", points=0.75, title="every mask has to allow a key", hint="Logical and, with broadcasting.")
def test_combine(learner, reference, rng):
    a, b, c = rng.mask(4, 5), rng.mask(4, 5), rng.mask(2, 1, 1, 5)
    for masks in ((a, b), (a, c), (a, b, c), (a,), (c, rng.mask(3, 4, 5))):
        check_close(learner.combine_masks(*masks), reference.combine_masks(*masks), f"{len(masks)} masks combined")
    a, b = a.int(), b.int()
    check_close(learner.combine_masks(a, b), reference.combine_masks(a, b), "two masks of 0 and 1 combined")
    b = 3 * b.long()
    check_close(learner.combine_masks(a, b), reference.combine_masks(a, b), "two integer masks combined")
    check_close(learner.combine_masks(2 * a, b), reference.combine_masks(a, b), "masks of other integers combined")
    check_close(learner.combine_masks(2 * a, c), reference.combine_masks(a, c), "an integer and a boolean mask")
    check_close(learner.combine_masks(2 * a), reference.combine_masks(a), "one integer mask")
    a, b = (m.to(torch.uint8) * (n + 1) for n, m in enumerate((a, b)))
    check_close(learner.combine_masks(a, b), reference.combine_masks(a, b), "two masks of uint8")
    c = rng.mask(3, 4, 5)
    check_close(learner.combine_masks(c, b), reference.combine_masks(c, b), "a boolean mask and one of uint8")


@item("combine", points=0.5, title="None stands for no mask", hint="Skip None; without any mask the result is None.")
def test_combine_none(learner, reference, rng):
    a, b = rng.mask(4, 5), rng.mask(2, 4, 5)
    for masks in ((a, None), (None, a), (a, None, b), (None, None, b)):
        check_close(learner.combine_masks(*masks), reference.combine_masks(*masks), "masks with None among them")
    check(learner.combine_masks(None, None) is None, "without any mask the result should be None.")
    check(learner.combine_masks() is None, "combine_masks() should be None.")
    check_unchanged(learner, "combine_masks", a, None, b)
    check_unchanged(learner, "combine_masks", a, rng.mask(4, 5))
    check_any_device(learner, "combine_masks", a, None, b)


# -- additive --------------------------------------------------------------------------------------------------------


@item("additive", points=0.75, title="0 keeps and -inf blocks", hint="Fill with -inf; do not multiply.")
def test_additive(learner, reference, rng):
    kinds = rng.mask(3, 4).int(), 2 * rng.mask(3, 4).long(), rng.mask(3, 4).to(torch.uint8)
    for mask in (rng.mask(4, 5), rng.mask(2, 1, 1, 6), *kinds):
        check_close(learner.additive_mask(mask), reference.additive_mask(mask), f"the mask of {mask.dtype}", atol=0.0)


@item("additive", points=0.5, title="in every dtype", hint="The dtype is an argument.")
def test_additive_dtypes(learner, reference, rng):
    mask = rng.mask(4, 5)
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.float32):
        got = learner.additive_mask(mask, dtype)
        check_close(got, reference.additive_mask(mask, dtype), f"the mask in {dtype}", atol=0.0)


@item("additive", points=0.25, title="on the device of the mask", hint="device=mask.device.")
def test_additive_device(learner, reference, rng):
    mask = rng.mask(4, 5)
    check_unchanged(learner, "additive_mask", mask)
    check_any_device(learner, "additive_mask", mask)


# -- attention -------------------------------------------------------------------------------------------------------


def inputs(rng, *lead, length=5, source=7, d=4, d_v=3, dtype=torch.float32):
    """q, k, v with no two sizes equal; small enough scores that the softmax is far from one-hot."""
    return (
        rng.normal(*lead, length, d, dtype=dtype),
        rng.normal(*lead, source, d, dtype=dtype),
        rng.normal(*lead, source, d_v, dtype=dtype),
    )


def compare(learner, reference, q, k, v, mask, what, atol=None):
    wide = [t.double() for t in (q, k, v)]
    expected_output, expected_weights = reference.masked_attention(*wide, mask)
    output, weights = as_pair(learner.masked_attention(q, k, v, mask))
    check_close(weights, expected_weights, f"the weights {what}", dtype=q.dtype, atol=atol)
    check_close(output, expected_output, f"the output {what}", dtype=q.dtype, atol=atol)


@item("attention", points=0.75, title="masks of every shape", hint="True may attend; mask before the softmax.")
def test_attention(learner, reference, rng):
    q, k, v = inputs(rng, 4, 4, length=4, source=4, d=4, d_v=4)
    compare(learner, reference, q, k, v, rng.mask(4, 4), "where all sizes are equal")
    q, k, v = inputs(rng, 2, 3)
    for mask in (rng.mask(5, 7), rng.mask(2, 1, 5, 7), rng.mask(2, 1, 1, 7), rng.mask(2, 3, 5, 7)):
        compare(learner, reference, q, k, v, mask, f"under a mask of shape {tuple(mask.shape)}")
    compare(learner, reference, *inputs(rng), rng.mask(5, 7), "without leading dimensions")


@item("attention", points=0.25, title="integer masks, unchanged inputs", hint="0 blocks, everything else lets through.")
def test_attention_integer(learner, reference, rng):
    q, k, v = inputs(rng, 2, 3)
    numbers = rng.mask(2, 1, 5, 7) * rng.integers(1, 5, 2, 1, 5, 7)
    for mask in (rng.mask(5, 7).int(), numbers, numbers.to(torch.uint8)):
        check_unchanged(learner, "masked_attention", q, k, v, mask)
        compare(learner, reference, q, k, v, mask, f"under a mask of {mask.dtype}")


@item("attention", points=0.5, title="padding on the left, causal", hint="Rows of padding may attend nowhere.")
def test_attention_left(learner, reference, rng):
    q, k, v = inputs(rng, 3, 2, length=6, source=6)
    real = torch.arange(6) >= torch.tensor([0, 2, 4]).view(3, 1, 1, 1)
    mask = real & torch.ones(6, 6, dtype=torch.bool).tril()
    compare(learner, reference, q, k, v, mask, "under a causal mask with padding on the left")


@item("attention", points=0.5, title="masks beside very large scores", hint="A finite fill is no match for them.")
def test_attention_large(learner, reference, rng):
    q, k, v = inputs(rng, 2)
    mask = rng.mask(2, 5, 7)
    # Every kept key scores about -40000. Such scores are rounded to 4e-3 in float32, and the weights by as much.
    compare(learner, reference, q * 0.1 - 20_000.0, k * 0.1 + 1.0, v, mask, "beside very negative scores", atol=2e-2)
    k[:, 3] += 100_000
    mask[:, :, 3], mask[:, :, 0] = False, True
    compare(learner, reference, q, k, v, mask, "where a blocked key has the largest score")


@item("attention", points=0.25, title="runs on whatever device its inputs are on", hint="Name no device.")
def test_attention_device(learner, reference, rng):
    check_any_device(learner, "masked_attention", *inputs(rng, 2, 3), rng.mask(5, 7))


@item("rows", points=0.75, title="rows that may attend nowhere are zeros", hint="Zeros: not NaN, and not a mean.")
def test_rows(learner, reference, rng):
    q, k, v = inputs(rng, 2, 3)
    mask = rng.mask(2, 1, 5, 7)
    mask[0, 0, 1] = mask[1, 0, 4] = False
    compare(learner, reference, q, k, v, torch.zeros(5, 7, dtype=torch.bool), "where nothing may be attended to")
    compare(learner, reference, q, k, v, mask, "with a row that may attend nowhere")
    sample = torch.tensor([4, 0]).view(2, 1, 1, 1) > torch.arange(7)
    compare(learner, reference, q, k, v, sample, "with a sample that has no keys")


@item("rows", points=0.5, title="half precision and double", hint="-1e9 does not fit into float16; -inf does.")
def test_rows_dtypes(learner, reference, rng):
    mask = rng.mask(2, 1, 5, 7)
    mask[0, 0, 1] = False
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        compare(learner, reference, *inputs(rng, 2, 3, dtype=dtype), mask, f"in {dtype}")


@item("rows", points=0.5, title="gradients stay finite, and are right", hint="Make the row finite before the softmax.")
def test_rows_gradients(learner, reference, rng):
    mask = rng.mask(2, 1, 5, 7)
    mask[0, 0, 1] = mask[1, 0, 4] = False
    wide = [t.requires_grad_() for t in inputs(rng, 2, 3, dtype=torch.float64)]
    got = learner.backward("masked_attention", *wide, mask)
    expected = reference.backward("masked_attention", *wide, mask)
    for name, mine, right in zip("qkv", got.inputs, expected.inputs, strict=True):
        if mine is not None:
            check_finite(mine, f"the gradient of {name} with a row that may attend nowhere")
        check_gradient(mine, right, name)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        narrow = [t.detach().to(dtype).requires_grad_() for t in wide]
        for name, mine in zip("qkv", learner.backward("masked_attention", *narrow, mask).inputs, strict=True):
            check(mine is not None, f"no gradient reaches {name} in {dtype}.")
            check_finite(mine, f"the gradient of {name} in {dtype}")


# -- the other convention --------------------------------------------------------------------------------------------


@item("convert", points=0.5, title="boolean masks of nn.MultiheadAttention", hint="There True means blocked.")
def test_convert_boolean(learner, reference, rng):
    for mask in (rng.mask(4, 5), rng.mask(2, 6), torch.zeros(3, 3, dtype=torch.bool)):
        check_close(check_unchanged(learner, "keep_from_mha", mask), ~mask, "the converted boolean mask")


@item("convert", points=0.5, title="additive masks of nn.MultiheadAttention", hint="0 keeps, -inf blocks.")
def test_convert_additive(learner, reference, rng):
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        keep = rng.mask(4, 5)
        mask = torch.zeros(4, 5, dtype=dtype).masked_fill(~keep, -math.inf)
        check_close(check_unchanged(learner, "keep_from_mha", mask), keep, f"the converted mask of {dtype}")


@item("convert", points=0.25, title="conversion on any device", hint="Name no device.")
def test_convert_device(learner, reference, rng):
    check_any_device(learner, "keep_from_mha", rng.mask(4, 5))
    check_any_device(learner, "keep_from_mha", torch.zeros(4, 5))

"""Hidden tests of topic 09. Nine points."""

import torch

from autograder.checks import (
    check,
    check_any_device,
    check_close,
    check_finite,
    check_gradient,
    check_tensor,
    check_unchanged,
    item,
)


def inputs(rng, *lead, length=5, source=7, d=4, d_v=3, dtype=torch.float32):
    """q, k, v with no two sizes equal; small enough scores that the softmax is far from one-hot."""
    return (
        rng.normal(*lead, length, d, dtype=dtype),
        rng.normal(*lead, source, d, dtype=dtype),
        rng.normal(*lead, source, d_v, dtype=dtype),
    )


def compare(learner, reference, name, q, k, v, *rest, what="", **options):
    right = {key: value for key, value in options.items() if key == "causal"}
    expected = reference.fast_attention(q.double(), k.double(), v.double(), *rest, **right)
    check_close(getattr(learner, name)(q, k, v, *rest, **options), expected, f"the output{what}", dtype=q.dtype)


# -- device ----------------------------------------------------------------------------------------------------------


@item("device", points=0.5, title="a device that is there", hint="A torch.device: CUDA, else MPS, else the CPU.")
def test_device(learner, reference, rng):
    got = learner.pick_device()
    check(isinstance(got, torch.device), "pick_device should return a torch.device, as torch.device('cpu') makes it.")
    check(got.type == reference.pick_device().type, f"pick_device chose {got.type}, which is not the best one here.")


# -- block by block --------------------------------------------------------------------------------------------------


@item("blocks", points=1.25, title="exact for every block size", hint="Rescale what you have when the maximum grows.")
def test_blocks(learner, reference, rng):
    q, k, v = inputs(rng, 4, 4, length=4, source=4, d=4, d_v=4)
    compare(learner, reference, "blockwise_attention", q, k, v, block_size=2, what=" where all sizes are equal")
    for size in (1, 2, 3, 7, 8, 100):
        compare(
            learner, reference, "blockwise_attention", *inputs(rng, 2, 3), block_size=size, what=f", blocks of {size}"
        )
    q, k, v = inputs(rng, 2, length=9, source=4, d=6, d_v=5)
    compare(learner, reference, "blockwise_attention", q, k, v, block_size=3, what=" for more queries than keys")
    compare(learner, reference, "blockwise_attention", *inputs(rng), what=" without leading dimensions")
    q, k, v = inputs(rng, 2, source=300)
    compare(learner, reference, "blockwise_attention", q, k, v, what=" with the default block size")


@item("blocks", points=0.5, title="scores that grow and fall along the row", hint="Keep the maximum of all blocks.")
def test_blocks_range(learner, reference, rng):
    for slope in (40.0, -40.0):
        q, k, v = inputs(rng, 2, source=9)
        q[..., 0], k[..., 0] = 1.0, slope * torch.linspace(-1, 1, 9)
        # Scores up to 20 are rounded to 20 * eps, and their exponentials by as much, relatively.
        expected = reference.fast_attention(q.double(), k.double(), v.double())
        for size in (2, 4):
            got = learner.blockwise_attention(q, k, v, block_size=size)
            check_close(got, expected, "the output where scores change along the row", dtype=q.dtype, atol=5e-5)
        q, k, v = inputs(rng, 2, source=9)
        q[..., 0], k[..., 0] = 10.0, 10 * slope * torch.linspace(-1, 1, 9)
        got = learner.blockwise_attention(q, k, v, block_size=2)
        check_finite(got, "the output for scores of hundreds")
        expected = reference.fast_attention(q.double(), k.double(), v.double())
        # Scores near 2000 are rounded to 2000 * eps = 2.4e-4.
        check_close(got, expected, "the output for scores of hundreds", dtype=q.dtype, atol=2e-3)


@item("blocks", points=0.75, title="masks of every shape", hint="Cut the mask like the keys, where it has full size.")
def test_blocks_mask(learner, reference, rng):
    q, k, v = inputs(rng, 2, 3)
    for mask in (rng.mask(5, 7), rng.mask(2, 1, 5, 7), rng.mask(2, 1, 1, 7), rng.mask(1, 7), rng.mask(2, 3, 5, 7).int()):
        what = f" under a mask of shape {tuple(mask.shape)}"
        compare(learner, reference, "blockwise_attention", q, k, v, mask, block_size=3, what=what)
    column = torch.tensor([True, True, False, True, True]).view(5, 1)
    compare(learner, reference, "blockwise_attention", q, k, v, column, block_size=3, what=" under a mask of (5, 1)")


@item("blocks", points=0.5, title="rows that may attend nowhere, and blocks that are blocked", hint="exp(-inf + inf).")
def test_blocks_rows(learner, reference, rng):
    q, k, v = inputs(rng, 2, 3)
    mask = rng.mask(2, 1, 5, 7)
    mask[0, 0, 1] = mask[1, 0, 4] = False
    mask[:, :, 2, :3], mask[:, :, 3, 3:] = False, False
    mask[:, :, 2, 5], mask[:, :, 3, 1] = True, True
    compare(
        learner, reference, "blockwise_attention", q, k, v, mask, block_size=3, what=" with blocked rows and blocks"
    )
    wide = [t.double().requires_grad_() for t in (q, k, v)]
    got = learner.backward("blockwise_attention", *wide, mask, block_size=3)
    for name, gradient in zip("qkv", got.inputs, strict=True):
        check_finite(gradient, f"the gradient of {name} with a row that may attend nowhere")


@item(
    "blocks", points=0.5, title="gradients flow", hint="No torch.no_grad, no in-place write into what autograd keeps."
)
def test_blocks_gradient(learner, reference, rng):
    wide = [t.requires_grad_() for t in inputs(rng, 2, 2, dtype=torch.float64)]
    mask = rng.mask(5, 7)
    got = learner.backward("blockwise_attention", *wide, mask, block_size=3)
    expected = reference.backward("fast_attention", *wide, mask)
    for name, mine, right in zip("qkv", got.inputs, expected.inputs, strict=True):
        check_gradient(mine, right, name)


@item("blocks", points=0.5, title="dtypes, unchanged inputs, any device", hint="Return the dtype of q.")
def test_blocks_types(learner, reference, rng):
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        q, k, v = inputs(rng, 2, 3, dtype=dtype)
        compare(learner, reference, "blockwise_attention", q, k, v, block_size=3, what=f" in {dtype}")
    q, k, v = inputs(rng, 2)
    check_tensor(check_unchanged(learner, "blockwise_attention", q, k, v, rng.mask(5, 7), block_size=3), (2, 5, 3))
    check_any_device(learner, "blockwise_attention", q, k, v, block_size=3)


@item("memory", points=1, title="no (L, S) matrix", hint="Only blocks of scores: nothing of L * S elements.")
def test_memory(learner, reference, rng):
    # Extra memory may grow with (L + S) * block_size. A factor of 2 leaves room for a block with its neighbour; the
    # whole matrix is 12 times as large as that.
    length, source, block = 500, 700, 12
    q, k, v = inputs(rng, length=length, source=source, d=8, d_v=6)
    for rest in ((), (rng.mask(1, source),)):
        got, largest = learner.largest_tensor("blockwise_attention", q, k, v, *rest, block_size=block)
        check_tensor(got, (length, 6))
        limit = 2 * (length + source) * block
        check(
            isinstance(largest, int) and largest <= limit,
            f"a tensor of {largest} elements was made for L={length}, S={source}, block_size={block}; a matrix of "
            f"L * S would have {length * source}, and {limit} are enough.",
        )


# -- the fused kernel ------------------------------------------------------------------------------------------------


@item("fast", points=0.5, title="the fused kernel, and masks", hint="True may attend; an integer mask means the same.")
def test_fast(learner, reference, rng):
    compare(learner, reference, "fast_attention", *inputs(rng, 4, 4, length=4, source=4, d=4, d_v=4))
    q, k, v = inputs(rng, 2, 3)
    for mask in (rng.mask(5, 7), rng.mask(2, 1, 1, 7), rng.mask(2, 3, 5, 7).int(), 3 * rng.mask(5, 7).long()):
        compare(learner, reference, "fast_attention", q, k, v, mask, what=f" under a mask of {mask.dtype}")


@item("fast", points=0.75, title="causal, aligned to the end", hint="j <= i + S - L, not is_causal.")
def test_fast_causal(learner, reference, rng):
    compare(learner, reference, "fast_attention", *inputs(rng, 2, length=5, source=5), causal=True, what=", square")
    compare(learner, reference, "fast_attention", *inputs(rng, 2, 3), causal=True, what=", more keys than queries")
    compare(learner, reference, "fast_attention", *inputs(rng, 2, length=1, source=6), causal=True, what=", one query")
    q, k, v = inputs(rng, 2, length=7, source=4)
    compare(learner, reference, "fast_attention", q, k, v, causal=True, what=", more queries than keys")


@item("fast", points=0.5, title="causal and a mask together", hint="Both have to allow a key.")
def test_fast_both(learner, reference, rng):
    q, k, v = inputs(rng, 2, 3)
    for mask in (rng.mask(5, 7), rng.mask(2, 1, 1, 7), rng.mask(2, 1, 5, 7).int()):
        compare(learner, reference, "fast_attention", q, k, v, mask, causal=True, what=", causal under a mask")
    mask = rng.mask(5, 7)
    mask[0], mask[3] = False, False
    compare(learner, reference, "fast_attention", q, k, v, mask, causal=True, what=" with rows that attend nowhere")


@item("fast", points=0.5, title="dtypes, gradients, unchanged inputs, any device", hint="device=q.device.")
def test_fast_types(learner, reference, rng):
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        q, k, v = inputs(rng, 2, 3, dtype=dtype)
        compare(learner, reference, "fast_attention", q, k, v, rng.mask(5, 7), causal=True, what=f" in {dtype}")
    q, k, v = inputs(rng, 2)
    check_unchanged(learner, "fast_attention", q, k, v, rng.mask(5, 7), causal=True)
    check_any_device(learner, "fast_attention", q, k, v, rng.mask(5, 7), causal=True)
    wide = [t.double().requires_grad_() for t in (q, k, v)]
    got, expected = (side.backward("fast_attention", *wide, causal=True) for side in (learner, reference))
    for name, mine, right in zip("qkv", got.inputs, expected.inputs, strict=True):
        check_gradient(mine, right, name)


# -- counting --------------------------------------------------------------------------------------------------------

SIZES = ((2, 3, 5, 7, 11, 13, 4), (1, 1, 8, 8, 8, 8, 2), (4, 2, 1, 900, 64, 32, 2))


def costs(learner):
    for sizes in SIZES:
        got = learner.attention_cost(*sizes)
        check(isinstance(got, tuple | list) and len(got) == 3, "attention_cost returns three numbers.")
        yield sizes, got


@item("cost", points=0.5, title="operations", hint="Two products; a multiplication with its addition counts as 2.")
def test_flops(learner, reference, rng):
    for sizes, got in costs(learner):
        check(got[0] == reference.attention_cost(*sizes)[0], f"the operations for {sizes} are wrong.")


@item(
    "cost", points=0.75, title="bytes", hint="Each array is read or written once; naive also scores and weights, twice."
)
def test_bytes(learner, reference, rng):
    for sizes, got in costs(learner):
        expected = reference.attention_cost(*sizes)
        check(got[2] == expected[2], f"the bytes of the fused kernel for {sizes} are wrong.")
        check(got[1] == expected[1], f"the bytes of the naive way for {sizes} are wrong.")

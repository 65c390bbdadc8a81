"""Hidden tests of topic 09. Nine points."""

import math

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

BLOCKS = "blockwise_attention"
FAST = "fast_attention"


def inputs(rng, *lead, length=5, source=7, d=4, d_v=3, dtype=torch.float32):
    """q, k, v with no two sizes equal; small enough scores that the softmax is far from one-hot."""
    return (
        rng.normal(*lead, length, d, dtype=dtype),
        rng.normal(*lead, source, d, dtype=dtype),
        rng.normal(*lead, source, d_v, dtype=dtype),
    )


def exact(q, k, v, mask=None, causal=False):
    """The formula as it is written, in float64; rows that may attend nowhere are zeros."""
    q, k, v = q.double(), k.double(), v.double()
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    keep = torch.ones(scores.shape[-2:], dtype=torch.bool)
    if causal:
        keep = keep.tril(k.size(-2) - q.size(-2))
    keep = (keep if mask is None else keep & (mask != 0)).expand_as(scores)
    nowhere = ~keep.any(dim=-1, keepdim=True)
    weights = scores.masked_fill(~keep, -math.inf).masked_fill(nowhere, 0.0).softmax(dim=-1)
    return weights.masked_fill(nowhere, 0.0) @ v


def compare(learner, name, q, k, v, *mask, what="", atol=None, **options):
    right = {key: value for key, value in options.items() if key == "causal"}
    got = getattr(learner, name)(q, k, v, *mask, **options)
    check_close(got, exact(q, k, v, *mask, **right), f"the output{what}", dtype=q.dtype, atol=atol)


def compare_gradients(learner, name, q, k, v, *mask, what="", **options):
    right = {key: value for key, value in options.items() if key == "causal"}
    q, k, v = (t.double().requires_grad_() for t in (q, k, v))
    output = exact(q, k, v, *mask, **right)
    cotangent = torch.cos(torch.arange(output.numel(), dtype=torch.float64)).view(output.shape)
    expected = torch.autograd.grad((output * cotangent).sum(), (q, k, v))
    got = learner.backward(name, q, k, v, *mask, cotangent=cotangent, **options)
    for letter, mine, gradient in zip("qkv", got.inputs, expected, strict=True):
        check_gradient(mine, gradient, f"{letter}{what}")


# -- device ----------------------------------------------------------------------------------------------------------


@item("device", points=0.25, title="a device that is there", hint="A torch.device: CUDA, else MPS, else the CPU.")
def test_device(learner, reference, rng):
    got = learner.pick_device()
    check(isinstance(got, torch.device), "pick_device should return a torch.device, as torch.device('cpu') makes it.")
    check(got.type == reference.pick_device().type, f"pick_device chose {got.type}, which is not the best one here.")


@item("device", points=0.25, title="the choice on other machines", hint="Ask for CUDA first, then for MPS.")
def test_device_elsewhere(learner, reference, rng):
    for devices, best in ((["cuda"], "cuda"), (["mps"], "mps"), (["cuda", "mps"], "cuda"), ([], "cpu")):
        got = learner.pretend(devices, "pick_device")
        check(
            isinstance(got, torch.device), "pick_device should return a torch.device, as torch.device('cpu') makes it."
        )
        there = " and ".join(devices) or "no accelerator"
        check(got.type == best, f"on a machine with {there}, pick_device chooses {got.type}.")


# -- block by block --------------------------------------------------------------------------------------------------


@item("blocks", points=0.75, title="exact for every block size", hint="Rescale what you have when the maximum grows.")
def test_blocks(learner, reference, rng):
    # Four blocks: with two, a first block that is lost and one that is forgotten later give the same output.
    q, k, v = inputs(rng, 4, 4, length=4, source=4, d=4, d_v=4)
    compare(learner, BLOCKS, q, k, v, block_size=1, what=" where all sizes are equal")
    for size in (1, 2, 3, 5, 7, 8, 100):
        compare(learner, BLOCKS, *inputs(rng, 2, 3), block_size=size, what=f", blocks of {size}")
    for lead in ((), (3,), (2, 1, 3)):
        q, k, v = inputs(rng, *lead, length=9, source=4, d=6, d_v=5)
        compare(learner, BLOCKS, q, k, v, block_size=3, what=f" with leading dimensions {lead}")
    for length, source in ((1, 6), (6, 1), (2, 300), (300, 2)):
        q, k, v = inputs(rng, 2, length=length, source=source)
        compare(learner, BLOCKS, q, k, v, what=f" of {length} by {source} with the default block size")
    q, k, v = (t.transpose(0, 1) for t in inputs(rng, 2, 3))
    compare(learner, BLOCKS, q, k, v, block_size=3, what=" of strided inputs")


@item("blocks", points=0.5, title="scores that grow and fall along the row", hint="Keep the maximum of all blocks.")
def test_blocks_range(learner, reference, rng):
    for slope in (40.0, -40.0):
        q, k, v = inputs(rng, 2, source=9)
        q[..., 0], k[..., 0] = 1.0, slope * torch.linspace(-1, 1, 9)
        # Scores up to 20 are rounded to 20 * eps, and their exponentials by as much, relatively.
        for size in (2, 4):
            compare(learner, BLOCKS, q, k, v, block_size=size, atol=5e-5, what=" where scores change along the row")
        q[..., 0], k[..., 0] = 10.0, 10 * slope * torch.linspace(-1, 1, 9)
        check_finite(learner.blockwise_attention(q, k, v, block_size=2), "the output for scores of hundreds")
        # Scores near 2000 are rounded to 2000 * eps = 2.4e-4.
        compare(learner, BLOCKS, q, k, v, block_size=2, atol=2e-3, what=" for scores of hundreds")
    q, k, v = inputs(rng, 2, source=9)
    q[..., 0], k[..., 0] = 20.0, -7.0
    # Scores near -70 are rounded to 70 * eps = 8e-6.
    compare(learner, BLOCKS, q, k, v, block_size=4, atol=1e-4, what=" where every score is below zero")
    q[..., 0], k[..., 0] = 20.0, -100.0
    # Every score is near -1000 or 1000 and rounded to 1000 * eps = 1.2e-4.
    compare(learner, BLOCKS, q, k, v, block_size=4, atol=1e-3, what=" where every score is far below zero")
    q[:, 1, 0] = -20.0
    compare(learner, BLOCKS, q, k, v, block_size=4, atol=1e-3, what=" where one row scores far above the others")


@item("blocks", points=0.5, title="masks", hint="True may attend. Cut the mask like the keys.")
def test_blocks_mask(learner, reference, rng):
    q, k, v = inputs(rng, 2, 3)
    for mask in (rng.mask(5, 7), rng.mask(2, 3, 5, 7), rng.mask(2, 1, 5, 7)):
        compare(learner, BLOCKS, q, k, v, mask, block_size=3, what=" under a mask")
        numbers = mask.to(torch.int32) * rng.integers(1, 5, *mask.shape)
        compare(learner, BLOCKS, q, k, v, numbers, block_size=2, what=" under a mask of 0 and other integers")
    # Where all kept keys score near -30000, no number in place of -inf is small enough. Such scores are rounded to
    # about 4e-3 in float32, and the weights move by as much.
    mask = rng.mask(2, 3, 5, 7)
    compare(
        learner,
        BLOCKS,
        q * 0.1 - 20_000.0,
        k * 0.1 + 1.0,
        v,
        mask,
        block_size=3,
        atol=2e-2,
        what=" of low scores, masked",
    )
    k = k.clone()
    k[..., 3, :] += 1000.0
    mask[..., 3], mask[..., 0] = False, True
    compare(learner, BLOCKS, q, k, v, mask, block_size=3, what=" where a blocked key has the largest score")


@item("blocks", points=0.25, title="masks that broadcast", hint="Cut an axis of the mask only where it has full size.")
def test_blocks_broadcast(learner, reference, rng):
    q, k, v = inputs(rng, 2, 3)
    for shape in ((1, 7), (2, 1, 1, 7), (3, 1, 7)):
        mask = rng.mask(*shape)
        compare(learner, BLOCKS, q, k, v, mask, block_size=3, what=f" under a mask of shape {shape}")
    for shape in ((5, 1), (2, 1, 5, 1), (2, 3, 1, 1)):
        mask = rng.integers(0, 2, *shape).bool()
        mask.view(-1)[0], mask.view(-1)[1] = True, False
        compare(learner, BLOCKS, q, k, v, mask, block_size=3, what=f" under a mask of shape {shape}")
    q, k, v = inputs(rng, 2, 3, length=4, source=4)
    compare(learner, BLOCKS, q, k, v, rng.mask(4, 4).tril(), block_size=2, what=" under a square mask")


@item("blocks", points=0.5, title="rows and blocks that may attend nowhere", hint="-inf minus -inf is NaN.")
def test_blocks_rows(learner, reference, rng):
    q, k, v = inputs(rng, 2, 3)
    mask = rng.mask(2, 1, 5, 7)
    mask[0, 0, 1] = mask[1, 0, 4] = False
    for rows, part, kept in ((2, slice(0, 3), 5), (3, slice(3, 7), 1), (0, slice(2, 6), 6)):
        mask[:, :, rows, part], mask[:, :, rows, kept] = False, True
    for size in (1, 3, 7):
        compare(learner, BLOCKS, q, k, v, mask, block_size=size, what=" with blocked rows and blocks")
        compare_gradients(learner, BLOCKS, q, k, v, mask, block_size=size, what=" with blocked rows and blocks")
    nowhere = torch.zeros(1, 7, dtype=torch.bool)
    compare(learner, BLOCKS, q, k, v, nowhere, block_size=3, what=" where no query may attend anywhere")
    half = [t.half() for t in (q, k, v)]
    compare(learner, BLOCKS, *half, mask, block_size=3, what=" with blocked rows, in float16")


@item("blocks", points=0.25, title="gradients flow", hint="No no_grad, no detach, no write into what autograd keeps.")
def test_blocks_gradient(learner, reference, rng):
    q, k, v = inputs(rng, 2, 2)
    compare_gradients(learner, BLOCKS, q, k, v, block_size=2)
    compare_gradients(learner, BLOCKS, q, k, v, rng.mask(5, 7), block_size=3)


@item("blocks", points=0.25, title="half precision and double", hint="Compute as you like; return the dtype of q.")
def test_blocks_types(learner, reference, rng):
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        q, k, v = inputs(rng, 2, 3, dtype=dtype)
        # Sums kept in half precision are rounded once more for each block: 3 blocks, so 3 times the usual 4 eps.
        atol = None if dtype == torch.float64 else 12 * torch.finfo(dtype).eps
        compare(learner, BLOCKS, q, k, v, block_size=3, atol=atol, what=f" in {dtype}")
        compare(learner, BLOCKS, q, k, v, rng.mask(5, 7), block_size=3, atol=atol, what=f" in {dtype} under a mask")


@item("blocks", points=0.25, title="unchanged inputs, any device", hint="Make tensors with device=q.device.")
def test_blocks_effects(learner, reference, rng):
    q, k, v = inputs(rng, 2)
    for mask in (rng.mask(2, 5, 7), rng.mask(1, 7).int()):
        check_tensor(check_unchanged(learner, BLOCKS, q, k, v, mask, block_size=3), (2, 5, 3))
        check_any_device(learner, BLOCKS, q, k, v, mask, block_size=3)
    check_any_device(learner, BLOCKS, q, k, v, block_size=3)


# -- memory ----------------------------------------------------------------------------------------------------------


def measure(learner, length, source, block, mask=None):
    """The largest tensor and all tensors alive at one time, each as a multiple of (L + S) * block_size."""
    generator = torch.Generator().manual_seed(length)
    lead = (1,) if length > 100 else (1, 1)
    q, k = (torch.randn(*lead, n, 2, generator=generator) for n in (length, source))
    v = torch.randn(*lead, source, 3, generator=generator)
    rest = () if mask is None else (mask,)
    # How much a right answer needs is its own affair, so the numbers are kept out of the comparison of mistakes.
    with learner.quiet():
        got, largest, peak = learner.memory(BLOCKS, q, k, v, *rest, block_size=block)
    check_tensor(got, (*lead, length, 3))
    check(isinstance(largest, int) and isinstance(peak, int), "the memory could not be measured.")
    unit = (length + source) * block
    return largest / unit, peak / unit


@item("memory", points=0.75, title="no (L, S) matrix", hint="Only blocks of scores: nothing of L * S elements.")
def test_memory(learner, reference, rng):
    # Scores of a block with all keys or all queries take at most 1 unit of (L + S) * block_size elements. A right
    # answer that multiplies by broadcasting has 2 or 3 features (d or d_v) beside each score: 3 units. The whole matrix
    # takes 14 units in the first case and 10 in the second, and blocks of the default 128 are the whole matrix there.
    for length, source, block, masked in ((600, 840, 24, False), (600, 840, 24, True), (36, 48, 2, False)):
        largest, _peak = measure(learner, length, source, block, rng.mask(1, source) if masked else None)
        learner.note(largest > 3)
        check(
            largest <= 3,
            f"for L={length}, S={source} and block_size={block} a tensor of {largest:.1f} * (L + S) * block_size "
            "elements was made" + (" under a mask of shape (1, S)." if masked else "."),
        )


@item("memory", points=0.25, title="blocks are let go", hint="Keep sums of what you have seen, not the blocks.")
def test_memory_alive(learner, reference, rng):
    # Scores, the masked and the exponentials live side by side, with up to 3 features each where a product is made by
    # broadcasting: below 10 units. All blocks of scores together take 14.
    for masked in (False, True):
        _largest, peak = measure(learner, 600, 840, 24, rng.mask(1, 840) if masked else None)
        learner.note(peak > 10)
        check(peak <= 10, f"tensors of {peak:.1f} * (L + S) * block_size elements are alive at one time.")


# -- the fused kernel ------------------------------------------------------------------------------------------------


@item("fast", points=0.5, title="the fused kernel, and boolean masks", hint="True may attend.")
def test_fast(learner, reference, rng):
    compare(learner, FAST, *inputs(rng, 4, 4, length=4, source=4, d=4, d_v=4), what=" where all sizes are equal")
    for lead in ((), (3,), (2, 3), (2, 1, 3)):
        compare(learner, FAST, *inputs(rng, *lead), what=f" with leading dimensions {lead}")
    q, k, v = inputs(rng, 2, 3)
    for mask in (rng.mask(5, 7), rng.mask(2, 1, 1, 7), rng.mask(2, 3, 5, 7), rng.mask(1, 7)):
        compare(learner, FAST, q, k, v, mask, what=f" under a mask of shape {tuple(mask.shape)}")
    q, k, v = (t.transpose(0, 1) for t in inputs(rng, 2, 3))
    compare(learner, FAST, q, k, v, rng.mask(2, 5, 7), what=" of strided inputs under a mask")


@item("fast", points=0.25, title="integer masks", hint="0 blocks, every other number lets through.")
def test_fast_integer(learner, reference, rng):
    q, k, v = inputs(rng, 2, 3)
    mask = rng.mask(5, 7)
    for dtype in (torch.int64, torch.int32, torch.uint8):
        compare(learner, FAST, q, k, v, mask.to(dtype), what=f" under a mask of {dtype}")
        compare(learner, FAST, q, k, v, mask.to(dtype), causal=True, what=f", causal under a mask of {dtype}")
    numbers = mask.long() * rng.integers(1, 5, 5, 7)
    compare(learner, FAST, q, k, v, numbers, what=" under a mask of 0 and other integers")
    compare(learner, FAST, q, k, v, numbers, causal=True, what=", causal under a mask of 0 and other integers")


@item("fast", points=0.75, title="causal, aligned to the end", hint="j <= i + S - L, not is_causal.")
def test_fast_causal(learner, reference, rng):
    compare(learner, FAST, *inputs(rng, 2, length=5, source=5), causal=True, what=", causal and square")
    compare(learner, FAST, *inputs(rng, 2, 3), causal=True, what=", causal with more keys than queries")
    compare(learner, FAST, *inputs(rng, 2, length=1, source=6), causal=True, what=", causal with one query")
    compare(learner, FAST, *inputs(rng, length=3, source=4), causal=True, what=", causal without leading dimensions")


@item("fast", points=0.5, title="causal and a mask together", hint="Both have to allow a key.")
def test_fast_both(learner, reference, rng):
    q, k, v = inputs(rng, 2, 3)
    for mask in (rng.mask(5, 7), rng.mask(2, 1, 1, 7), rng.mask(2, 1, 5, 7), rng.mask(1, 7)):
        mask[..., 0] = True
        compare(learner, FAST, q, k, v, mask, causal=True, what=f", causal under a mask of {tuple(mask.shape)}")
    q, k, v = inputs(rng, 2, 3, length=6, source=6)
    mask = rng.mask(2, 1, 1, 6)
    mask[..., 0] = True
    compare(learner, FAST, q, k, v, mask, causal=True, what=", causal and square under a mask")


@item("fast", points=0.25, title="rows that may attend nowhere", hint="Zeros, with finite gradients.")
def test_fast_rows(learner, reference, rng):
    q, k, v = inputs(rng, 2, 3)
    mask = rng.mask(5, 7)
    mask[0], mask[3] = False, False
    for causal in (False, True):
        compare(learner, FAST, q, k, v, mask, causal=causal, what=" with rows that may attend nowhere")
        compare_gradients(learner, FAST, q, k, v, mask, causal=causal, what=" with rows that may attend nowhere")
    q, k, v = inputs(rng, 2, length=7, source=4)
    compare(learner, FAST, q, k, v, causal=True, what=", causal with more queries than keys")


@item("fast", points=0.5, title="dtypes and gradients", hint="Return the dtype of q; no detach.")
def test_fast_types(learner, reference, rng):
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        q, k, v = inputs(rng, 2, 3, dtype=dtype)
        compare(learner, FAST, q, k, v, what=f" in {dtype}")
        compare(learner, FAST, q, k, v, rng.mask(5, 7), causal=True, what=f" in {dtype}, causal under a mask")
    q, k, v = inputs(rng, 2)
    compare_gradients(learner, FAST, q, k, v)
    compare_gradients(learner, FAST, q, k, v, rng.mask(2, 1, 7), causal=True)


@item("fast", points=0.25, title="unchanged inputs, any device", hint="device=q.device.")
def test_fast_effects(learner, reference, rng):
    q, k, v = inputs(rng, 2)
    for mask in (rng.mask(2, 5, 7), rng.mask(5, 7).int()):
        check_tensor(check_unchanged(learner, FAST, q, k, v, mask, causal=True), (2, 5, 3))
        check_any_device(learner, FAST, q, k, v, mask)
    check_any_device(learner, FAST, q, k, v, mask, causal=True)
    check_any_device(learner, FAST, q, k, v, causal=True)


# -- counting --------------------------------------------------------------------------------------------------------

SIZES = ((2, 3, 5, 7, 11, 13, 4), (1, 1, 8, 8, 8, 8, 2), (4, 2, 1, 900, 64, 32, 2), (1, 16, 4096, 512, 64, 128, 1))


def compare_cost(learner, reference, place, what):
    for sizes in SIZES:
        got = learner.attention_cost(*sizes)
        check(isinstance(got, tuple | list) and len(got) == 3, "attention_cost returns three numbers.")
        check(isinstance(got[place], int | float), f"{what} should be a number.")
        text = ", ".join(f"{n}={s}" for n, s in zip(("B", "H", "L", "S", "d", "d_v", "bytes"), sizes, strict=True))
        check(got[place] == reference.attention_cost(*sizes)[place], f"{what} for {text}: the count is wrong.")


@item("cost", points=0.5, title="operations", hint="Two products; a multiplication with its addition counts as 2.")
def test_flops(learner, reference, rng):
    compare_cost(learner, reference, 0, "the operations")


@item(
    "cost", points=0.25, title="bytes of the fused kernel", hint="q, k and v are read once, the output is written once."
)
def test_bytes_fused(learner, reference, rng):
    compare_cost(learner, reference, 2, "the bytes of the fused kernel")


@item("cost", points=0.5, title="bytes of the naive way", hint="Scores and weights are each written and read, besides.")
def test_bytes_naive(learner, reference, rng):
    compare_cost(learner, reference, 1, "the bytes of the naive way")

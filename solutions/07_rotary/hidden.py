"""Hidden tests of topic 07. Ten points."""

import torch

from autograder.checks import (
    check,
    check_any_device,
    check_close,
    check_gradient,
    check_tensor,
    check_unchanged,
    expect_error,
    item,
)

EPS = torch.finfo(torch.float32).eps


def drift(last, scale=4.0):
    """Allowed difference for values of about `scale`: a float32 angle at position `last` is off by 2 * eps * last."""
    return scale * (1e-5 + 2 * EPS * last)


def compare(learner, reference, x, *arguments, last=0, dtype=None, atol=None, what="", **options):
    got = learner.apply_rotary(x, *arguments, **options)
    expected = reference.apply_rotary(x.double(), *arguments, **options)
    half = (dtype or x.dtype) in (torch.float16, torch.bfloat16)
    atol = atol if atol is not None or half else drift(last or x.size(-2))
    check_close(got, expected, f"the rotated tensor{what}", dtype=x.dtype, atol=atol)


# -- frequencies -----------------------------------------------------------------------------------------------------


@item("frequencies", points=0.75, title="the frequencies of the pairs", hint="base to the power -2i/d.")
def test_frequencies(learner, reference, rng):
    for d, options in ((8, {}), (6, {}), (2, {}), (12, {"base": 500.0}), (10, {"base": 20.0})):
        got = learner.rotary_frequencies(d, **options)
        check_tensor(got, (d // 2,), f"the frequencies for d={d}")
        check(got.dtype in (torch.float32, torch.float64), f"the frequencies have the dtype {got.dtype}.")
        check_close(got.float(), reference.rotary_frequencies(d, **options), f"the frequencies for d={d}")


@item("frequencies", points=0.25, title="an odd size is refused", hint="A ValueError that names d.")
def test_frequencies_odd(learner, reference, rng):
    with expect_error("d=7", mentions=[7]):
        learner.rotary_frequencies(7)


# -- the rotation ----------------------------------------------------------------------------------------------------


@item("half", points=1.25, title="half-split rotation", hint="Feature i goes with feature i + d/2.")
def test_half(learner, reference, rng):
    compare(learner, reference, rng.normal(6, 6, 6, 6), what=" where all sizes are equal")
    for shape in ((2, 3, 5, 8), (7, 4), (3, 4, 10), (2, 9, 1, 6), (1, 2, 5, 2)):
        compare(learner, reference, rng.normal(*shape), what=f" of shape {shape}")
    compare(learner, reference, rng.normal(2, 5, 3, 8).transpose(1, 2), what=" of a strided input")


@item("interleaved", points=1, title="interleaved rotation", hint="Feature 2i goes with feature 2i + 1.")
def test_interleaved(learner, reference, rng):
    compare(learner, reference, rng.normal(6, 6, 6, 6), interleaved=True, what=" where all sizes are equal")
    for shape in ((2, 3, 5, 8), (7, 4), (3, 4, 10)):
        compare(learner, reference, rng.normal(*shape), interleaved=True, what=f" of shape {shape}")
    strided = rng.normal(2, 8, 5).transpose(1, 2)
    compare(learner, reference, strided, interleaved=True, what=" of a strided input")


@item("positions", points=0.75, title="positions that are given", hint="Use `positions`, whatever their order.")
def test_positions(learner, reference, rng):
    for positions in ((4, 5, 6, 7, 8), (9, 0, 3, 3, 1)):
        given = torch.tensor(positions)
        compare(learner, reference, rng.normal(2, 3, 5, 8), given, last=9, what=f" at positions {positions}")
        compare(learner, reference, rng.normal(5, 6), given, last=9, interleaved=True, what=f" at {positions}")
    compare(learner, reference, rng.normal(2, 2, 1, 8), torch.tensor([6]), last=6, what=" at position 6")


@item("positions", points=0.5, title="another base", hint="Hand `base` on to the frequencies.")
def test_base(learner, reference, rng):
    compare(learner, reference, rng.normal(2, 5, 8), base=500.0, what=" with base 500")
    compare(learner, reference, rng.normal(2, 5, 8), base=40.0, interleaved=True, what=" with base 40")


@item("positions", points=0.5, title="positions of thousands", hint="Make the angles in float32, not in half.")
def test_far(learner, reference, rng):
    positions = torch.tensor([1000, 2049, 3001, 4097])
    compare(learner, reference, rng.normal(2, 4, 8), positions, last=4097, what=" far out")
    for dtype in (torch.float16, torch.bfloat16):
        x = rng.normal(2, 4, 8, dtype=dtype)
        # Rounding to the dtype, plus what float32 angles lose at position 4097.
        atol = 4 * torch.finfo(dtype).eps * 4 + drift(4097)
        compare(learner, reference, x, positions, atol=atol, what=f" far out in {dtype}")


@item("positions", points=0.5, title="the dtype of x comes back", hint="Cast cosines and sines to the dtype of x.")
def test_dtypes(learner, reference, rng):
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        x = rng.normal(2, 5, 8, dtype=dtype)
        compare(learner, reference, x, what=f" in {dtype}")
        compare(learner, reference, x, interleaved=True, what=f" in {dtype}, interleaved")


@item("positions", points=0.5, title="x stays as it was, and gets its gradient", hint="Build a new tensor.")
def test_unchanged(learner, reference, rng):
    x, positions = rng.normal(2, 5, 8), torch.tensor([3, 1, 4, 1, 5])
    check_tensor(check_unchanged(learner, "apply_rotary", x, positions), (2, 5, 8))
    x = rng.normal(2, 5, 8, dtype=torch.float64).requires_grad_()
    for interleaved in (False, True):
        got = learner.backward("apply_rotary", x, positions, interleaved=interleaved)
        expected = reference.backward("apply_rotary", x, positions, interleaved=interleaved)
        check_gradient(got.inputs[0], expected.inputs[0], "x", atol=drift(5))


@item("positions", points=0.5, title="runs on whatever device x is on", hint="device=x.device for all that is made.")
def test_device(learner, reference, rng):
    check_any_device(learner, "apply_rotary", rng.normal(2, 5, 8))
    run = check_any_device(learner, "apply_rotary", rng.normal(2, 5, 8), torch.arange(5), interleaved=True)
    check(run.dtypes == [torch.float32], "on another device the dtype of the result is different.")


# -- conversion and base ---------------------------------------------------------------------------------------------


@item("convert", points=1, title="the scores stay when the layout changes", hint="Row 2i of the new weight is row i.")
def test_convert(learner, reference, rng):
    for heads, width, inner in ((3, 18, 7), (2, 8, 8), (1, 6, 4)):
        weight = rng.normal(width, inner)
        got = check_unchanged(learner, "to_interleaved", weight, heads)
        check_tensor(got, (width, inner), "the converted weight")
        tokens = rng.normal(5, inner)
        other = reference.to_interleaved(rng.normal(width, inner), heads)
        before = rotated(reference, tokens, weight, heads, interleaved=False)
        after = rotated(reference, tokens, got, heads, interleaved=True)
        expected = before @ before.transpose(1, 2)
        what = f"the scores of the converted weight ({heads} heads of {width // heads})"
        check_close(after @ after.transpose(1, 2), expected, what, atol=1e-3)
        check_close(got, reference.to_interleaved(weight, heads), "the converted weight", atol=0.0)
        check_tensor(other, (width, inner))


def rotated(reference, tokens, weight, heads, *, interleaved):
    projected = (tokens @ weight.T).view(len(tokens), heads, -1).transpose(0, 1)
    return reference.apply_rotary(projected, interleaved=interleaved)


@item("ntk", points=0.5, title="the base for a longer context", hint="The exponent is d / (d - 2).")
def test_ntk(learner, reference, rng):
    for base, d, factor in ((10000.0, 64, 4.0), (500.0, 8, 2.5), (10000.0, 128, 8)):
        got = learner.ntk_base(base, d, factor)
        expected = base * factor ** (d / (d - 2))
        if isinstance(got, torch.Tensor) and got.numel() == 1:
            got = got.item()
        check(isinstance(got, int | float), "the base should be a number.")
        check(abs(got - expected) <= 1e-5 * expected, f"the base for d={d} and factor {factor} is wrong.")


# -- in attention ----------------------------------------------------------------------------------------------------


def module(learner, reference, rng, width=12, heads=3, dtype=torch.float32, **options):
    """The learner's module and the reference's in float64, with the same random weights and biases."""
    weights = {}
    for name in ("W_q", "W_k", "W_v", "W_o"):
        weights[f"{name}.weight"] = rng.normal(width, width, std=width**-0.5)
        weights[f"{name}.bias"] = rng.normal(width)
    mine = learner.RotaryMultiHeadAttention(width, heads, **options).load(weights)
    right = reference.RotaryMultiHeadAttention(width, heads, **options).load(weights)
    right.method("double")
    mine.method("eval")
    return mine, right


@item(
    "attention", points=1, title="multi-head attention with rotated queries and keys", hint="Head by head, half-split."
)
def test_attention(learner, reference, rng):
    for width, heads, shape in ((16, 4, (4, 4)), (12, 3, (2, 7)), (12, 1, (3, 5)), (8, 4, (2, 6))):
        mine, right = module(learner, reference, rng, width, heads)
        x = rng.normal(*shape, width)
        check_close(mine(x), right(x.double()), f"the output with {heads} heads", dtype=x.dtype, atol=1e-4)
    mine, right = module(learner, reference, rng, base=100.0)
    x = rng.normal(2, 6, 12)
    check_close(mine(x), right(x.double()), "the output with base 100", dtype=x.dtype, atol=1e-4)


@item("attention", points=0.5, title="masks, and an offset that changes nothing", hint="True may attend.")
def test_attention_mask(learner, reference, rng):
    mine, right = module(learner, reference, rng)
    x = rng.normal(2, 6, 12)
    for mask in (rng.mask(6, 6), rng.mask(2, 1, 1, 6), rng.mask(2, 3, 6, 6).int()):
        check_close(mine(x, mask), right(x.double(), mask), "the masked output", dtype=x.dtype, atol=1e-4)
    mask = rng.mask(6, 6)
    mask[2] = False
    check_close(mine(x, mask), right(x.double(), mask), "the output with a row that attends nowhere", dtype=x.dtype,
                atol=1e-4)  # fmt: skip
    for offset in (9, 500):
        got = mine(x, None, offset)
        check_close(got, right(x.double()), f"the output with offset={offset}", dtype=x.dtype, atol=1e-4 + drift(510))


@item("attention", points=0.25, title="sizes that do not fit are refused", hint="A ValueError that names them.")
def test_attention_sizes(learner, reference, rng):
    with expect_error("d_model=10 with 3 heads", mentions=[10, 3]):
        learner.RotaryMultiHeadAttention(10, 3)
    with expect_error("a head of size 3 (d_model=12, 4 heads)"):
        learner.RotaryMultiHeadAttention(12, 4)


@item(
    "attention", points=0.25, title="dtypes, gradients, device and bias of the module", hint="Modules move with .to()."
)
def test_attention_module(learner, reference, rng):
    mine, right = module(learner, reference, rng)
    x = rng.normal(2, 5, 12)
    check_any_device(learner, mine, x)
    mine.method("double")
    wide = x.double().requires_grad_()
    got, expected = learner.backward(mine, wide), reference.backward(right, wide)
    check_gradient(got.inputs[0], expected.inputs[0], "x", atol=1e-3)
    for name in sorted(expected.parameters):
        check_gradient(got.parameters.get(name), expected.parameters[name], name, atol=1e-3)
    names = set(learner.RotaryMultiHeadAttention(12, 3, bias=False).state().parameters)
    check(names == {f"W_{n}.weight" for n in "qkvo"}, f"with bias=False the parameters are {sorted(names)}.")

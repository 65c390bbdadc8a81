"""Hidden tests of topic 07. Ten points."""

import torch

from autograder.checks import (
    CheckFailed,
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

EPS = torch.finfo(torch.float32).eps


def drift(last, scale=4.0):
    """Allowed difference for values of about `scale`, rotated at positions up to `last`.

    In float32 a frequency is off by up to one eps and the angle, position times frequency, by half an eps more; the
    rotation hands these 2 eps * last on. 1e-5 is 80 eps, for the sines and the products.
    """
    return scale * (1e-5 + 2 * EPS * last)


def compare(learner, reference, x, *arguments, last=0, dtype=None, atol=None, what="", **options):
    got = learner.apply_rotary(x, *arguments, **options)
    expected = reference.apply_rotary(x.double(), *arguments, **options)
    half = (dtype or x.dtype) in (torch.float16, torch.bfloat16)
    atol = atol if atol is not None or half else drift(last or x.size(-2))
    check_close(got, expected, f"the rotated tensor{what}", dtype=x.dtype, atol=atol)


def backward(learner, target, *arguments, **options):
    """Gradients in float64, which the trace holds in float32: angles may be made in float32, so right programs (and
    those with the same mistake) differ by more than float64 allows."""
    with learner.quiet():
        got = learner.backward(target, *arguments, **options)
    parts = (got.value, got.inputs, [got.parameters[name] for name in sorted(got.parameters)])
    learner.note([in_single(part) for part in parts])
    return got


def in_single(part):
    if isinstance(part, list):
        return [in_single(entry) for entry in part]
    return part.float() if isinstance(part, torch.Tensor) else part


# -- frequencies -----------------------------------------------------------------------------------------------------


@item("frequencies", points=0.75, title="the frequencies of the pairs", hint="base to the power -2i/d.")
def test_frequencies(learner, reference, rng):
    for d, options in ((8, {}), (6, {}), (2, {}), (12, {"base": 500.0}), (10, {"base": 20.0})):
        got = learner.rotary_frequencies(d, **options)
        check_tensor(got, (d // 2,), f"the frequencies for d={d}")
        check(got.dtype in (torch.float32, torch.float64), f"the frequencies have the dtype {got.dtype}.")
        check_close(got.float(), reference.rotary_frequencies(d, **options), f"the frequencies for d={d}")
        # The slow pairs have small frequencies, and are compared by their ratio.
        ratio = got.double() / reference.rotary_frequencies(d, **options)
        check_close(ratio.float(), torch.ones(d // 2), f"the slow frequencies for d={d}, compared with the right ones,")


@item("frequencies", points=0.25, title="an odd size is refused", hint="A ValueError that names d.")
def test_frequencies_odd(learner, reference, rng):
    with expect_error("d=7", mentions=[7]):
        learner.rotary_frequencies(7)


# -- the rotation ----------------------------------------------------------------------------------------------------


@item("half", points=1, title="half-split rotation", hint="Feature i goes with feature i + d/2.")
def test_half(learner, reference, rng):
    compare(learner, reference, rng.normal(6, 6, 6, 6), what=" where all sizes are equal")
    for shape in ((2, 3, 5, 8), (7, 4), (3, 4, 10), (2, 9, 1, 6), (1, 2, 5, 2)):
        compare(learner, reference, rng.normal(*shape), what=f" of shape {shape}")
    compare(learner, reference, rng.normal(2, 5, 3, 8).transpose(1, 2), what=" of a strided input")


@item("half", points=0.25, title="features without a partner are refused", hint="None may be left as it was.")
def test_rotation_odd(learner, reference, rng):
    # Most right forms leave this to torch, which raises for sizes that do not fit.
    for interleaved in (False, True):
        with expect_error("apply_rotary with d=7", "any"):
            learner.apply_rotary(rng.normal(2, 4, 7), interleaved=interleaved)


@item("interleaved", points=0.75, title="interleaved rotation", hint="Feature 2i goes with feature 2i + 1.")
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
    short = torch.tensor([5, 2, 8, 0, 3], dtype=torch.int32)
    compare(learner, reference, rng.normal(3, 5, 8), short, last=9, what=" at positions in int32")


@item("positions", points=0.5, title="another base", hint="Hand `base` on to the frequencies.")
def test_base(learner, reference, rng):
    compare(learner, reference, rng.normal(2, 3, 14), base=300.0, what=" with base 300")
    # The same size with one base after another, for those who keep frequencies from an earlier call.
    x = rng.normal(2, 5, 8)
    compare(learner, reference, x, what=" with the default base")
    compare(learner, reference, x, base=500.0, what=" with base 500")
    compare(learner, reference, rng.normal(2, 5, 8), base=40.0, interleaved=True, what=" with base 40")


def compare_far(learner, reference, x, positions, *, last, what):
    """Right values drift apart by more than two runs of one mistake may: the trace holds them where they are wrong."""
    with learner.quiet():
        got = learner.apply_rotary(x, positions)
    try:
        check_close(got, reference.apply_rotary(x.double(), positions), f"the rotated tensor{what}", dtype=x.dtype, atol=drift(last))
    except CheckFailed:
        learner.note(got)
        raise


@item("positions", points=0.5, title="positions of thousands", hint="Make the angles in float32, not in half.")
def test_far(learner, reference, rng):
    positions = torch.tensor([1000, 2049, 3001, 4097])
    compare_far(learner, reference, rng.normal(2, 4, 8), positions, last=4097, what=" far out")
    farther = torch.tensor([5000, 10_001, 40_009, 100_003])
    compare_far(learner, reference, rng.normal(3, 4, 6), farther, last=100_003, what=" at positions beyond a table")
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


@item("positions", points=0.25, title="x stays as it was", hint="Build a new tensor.")
def test_unchanged(learner, reference, rng):
    x, positions = rng.normal(2, 5, 8), torch.tensor([3, 1, 4, 1, 5])
    for interleaved in (False, True):
        got = check_unchanged(learner, "apply_rotary", x, positions, interleaved=interleaved)
        check_tensor(got, (2, 5, 8))


@item("positions", points=0.25, title="x gets its gradient", hint="Keep to tensor operations; no detach, no numpy.")
def test_gradient(learner, reference, rng):
    x, positions = rng.normal(2, 5, 8, dtype=torch.float64).requires_grad_(), torch.tensor([3, 1, 4, 1, 5])
    for interleaved in (False, True):
        got = backward(learner, "apply_rotary", x, positions, interleaved=interleaved)
        expected = reference.backward("apply_rotary", x, positions, interleaved=interleaved)
        check_gradient(got.inputs[0], expected.inputs[0], "x", atol=drift(5))


@item("positions", points=0.5, title="runs on whatever device x is on", hint="device=x.device for all that is made.")
def test_device(learner, reference, rng):
    check_any_device(learner, "apply_rotary", rng.normal(2, 5, 8))
    run = check_any_device(learner, "apply_rotary", rng.normal(2, 5, 8), torch.arange(5), interleaved=True)
    check(run.dtypes == [torch.float32], "on another device the dtype of the result is different.")


# -- conversion and base ---------------------------------------------------------------------------------------------


@item(
    "convert", points=0.75, title="the scores stay when the layout changes", hint="Row 2i of the new weight is row i."
)
def test_convert(learner, reference, rng):
    for heads, width, inner in ((2, 8, 8), (3, 18, 7), (1, 6, 4), (4, 8, 5)):
        tokens, pair = rng.normal(5, inner), [rng.normal(width, inner), rng.normal(inner, width).T]
        converted = [learner.to_interleaved(weight, heads) for weight in pair]
        for got in converted:
            check_tensor(got, (width, inner), "the converted weight")
        q, k = (rotated(reference, tokens, weight, heads, interleaved=False) for weight in pair)
        new_q, new_k = (rotated(reference, tokens, weight, heads, interleaved=True) for weight in converted)
        what = f"the scores of the converted weights ({heads} heads of {width // heads})"
        # In float64, but the angles have float32 frequencies; both sides have the same.
        check_close(new_q @ new_k.transpose(1, 2), q @ k.transpose(1, 2), what)
        # The rows change places and nothing else, so the values are exact; only one order keeps the scores.
        for got, weight in zip(converted, pair, strict=True):
            check_close(got, reference.to_interleaved(weight, heads), "the order of the rows", atol=0.0)


def rotated(reference, tokens, weight, heads, *, interleaved):
    projected = (tokens.double() @ weight.double().T).view(len(tokens), heads, -1).transpose(0, 1)
    return reference.apply_rotary(projected, interleaved=interleaved)


@item("convert", points=0.25, title="the weight keeps its dtype, device and gradient", hint="Only rows change places.")
def test_convert_types(learner, reference, rng):
    weight = rng.normal(12, 5)
    check_tensor(check_unchanged(learner, "to_interleaved", weight, 2), (12, 5), "the converted weight")
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        got = learner.to_interleaved(weight.to(dtype), 3)
        expected = reference.to_interleaved(weight.to(dtype), 3)
        check_close(got, expected, f"the weight in {dtype}", atol=0.0)
    check_any_device(learner, "to_interleaved", weight, 2)
    wide = weight.double().requires_grad_()
    got, expected = learner.backward("to_interleaved", wide, 3), reference.backward("to_interleaved", wide, 3)
    check_gradient(got.inputs[0], expected.inputs[0], "the weight")


@item("ntk", points=0.25, title="the base for a longer context", hint="The exponent is d / (d - 2).")
def test_ntk(learner, reference, rng):
    for base, d, factor in ((10000.0, 64, 4.0), (500.0, 8, 2.5), (10000.0, 128, 8)):
        got = learner.ntk_base(base, d, factor)
        expected = base * factor ** (d / (d - 2))
        if isinstance(got, torch.Tensor) and got.numel() == 1:
            got = got.item()
        check(isinstance(got, int | float), "the base should be a number.")
        check(abs(got - expected) <= 1e-5 * expected, f"the base for d={d} and factor {factor} is wrong.")


# -- in attention ----------------------------------------------------------------------------------------------------


def random_weights(rng, width):
    """Weights that keep the size of the features, and biases that are not 0."""
    weights = {}
    for name in ("W_q", "W_k", "W_v", "W_o"):
        weights[f"{name}.weight"] = rng.normal(width, width, std=width**-0.5)
        weights[f"{name}.bias"] = rng.normal(width)
    return weights


def module(learner, reference, rng, width=12, heads=3, **options):
    """The learner's module and the reference's in float64, with the same random weights and biases."""
    weights = random_weights(rng, width)
    mine = learner.RotaryMultiHeadAttention(width, heads, **options).load(weights)
    right = reference.RotaryMultiHeadAttention(width, heads, **options).load(weights)
    right.method("double")
    mine.method("eval")
    return mine, right


def near(last):
    """Allowed difference of outputs: a wrong angle moves a score, the weights and the output.

    A score moves by the error times |q| |k| / sqrt(d), about 2; the spread of the values, through W_o, is about 5.
    """
    return drift(last, scale=10)


@item("attention", points=0.5, title="attention with rotated queries and keys", hint="Head by head, half-split.")
def test_attention(learner, reference, rng):
    for width, heads, shape in ((16, 4, (4, 4)), (12, 3, (2, 7)), (12, 1, (3, 5)), (8, 4, (2, 6)), (24, 2, (1, 9))):
        mine, right = module(learner, reference, rng, width, heads)
        x = rng.normal(*shape, width)
        check_close(mine(x), right(x.double()), f"the output with {heads} heads", dtype=x.dtype, atol=near(9))
    mine, right = module(learner, reference, rng, base=100.0)
    x = rng.normal(6, 2, 12).transpose(0, 1)
    check_close(mine(x), right(x.double()), "the output with base 100", dtype=x.dtype, atol=near(6))


@item("attention", points=0.25, title="masks in attention", hint="True, or not 0, may attend.")
def test_attention_mask(learner, reference, rng):
    mine, right = module(learner, reference, rng)
    x = rng.normal(2, 6, 12)
    for mask in (rng.mask(6, 6), rng.mask(2, 1, 1, 6), rng.mask(2, 3, 6, 6).int(), rng.mask(2, 1, 6, 6).long() * 3):
        what = f"the output under a mask of shape {tuple(mask.shape)}"
        check_close(mine(x, mask), right(x.double(), mask), what, dtype=x.dtype, atol=near(6))
    before = check_unchanged(learner, mine, x, mask)
    check_close(mine(x, mask), before, "the output of a second call")


@item("attention", points=0.25, title="rows that may attend nowhere", hint="Zeros before W_o, not NaN or a mean.")
def test_attention_nowhere(learner, reference, rng):
    mine, right = module(learner, reference, rng)
    x, mask = rng.normal(2, 6, 12), rng.mask(2, 1, 6, 6)
    mask[0, 0, 2] = mask[1, 0, 5] = False
    expected = right(x.double(), mask)
    check_close(mine(x, mask), expected, "the output with a row that attends nowhere", dtype=x.dtype, atol=near(6))
    mine.method("double")
    got = backward(learner, mine, x.double().requires_grad_(), mask)
    check_finite(got.inputs[0], "the gradient of x with a row that attends nowhere")
    for name in ("W_q.weight", "W_k.weight", "W_v.weight"):
        check_finite(got.parameters.get(name), f"the gradient of {name} with a row that attends nowhere")


@item("attention", points=0.25, title="an offset changes nothing", hint="It moves queries and keys alike.")
def test_attention_offset(learner, reference, rng):
    mine, right = module(learner, reference, rng)
    x = rng.normal(2, 6, 12)
    for offset in (9, 500, 9000):
        what = f"the output with offset={offset}"
        check_close(mine(x, None, offset), right(x.double()), what, dtype=x.dtype, atol=near(offset + 6))
    mask = rng.mask(6, 6)
    got = mine(x, mask=mask, offset=31)
    check_close(got, right(x.double(), mask), "the output with a mask and offset=31", dtype=x.dtype, atol=near(37))


@item("attention", points=0.25, title="a module in half precision", hint="Buffers are rounded when converted.")
def test_attention_half(learner, reference, rng):
    # Far from the few keys that are open, a rounded frequency turns queries wrongly; with base 7 all frequencies are
    # rounded. Right answers differ from float64 by a third of the default tolerance, rounded angles by five times it.
    for name, dtype in (("half", torch.float16), ("bfloat16", torch.bfloat16)):
        weights = {key: value.to(dtype).float() for key, value in random_weights(rng, 16).items()}
        mine = learner.RotaryMultiHeadAttention(16, 2, base=7.0).load(weights)
        right = reference.RotaryMultiHeadAttention(16, 2, base=7.0).load(weights)
        mine.method("eval")
        mine.method(name)
        right.method("double")
        for length, offset, keys in ((7, 3000, 6), (900, 0, 3)):
            x = rng.normal(1, length, 16, dtype=dtype)
            mask = (torch.arange(length) < keys).view(1, 1, 1, -1)
            got, expected = mine(x, mask, offset), right(x.double(), mask)
            check_close(got, expected, f"the output in {dtype} for {length} tokens, offset={offset}", dtype=dtype)


@item("attention", points=0.25, title="sizes that do not fit are refused", hint="A ValueError that names them.")
def test_attention_sizes(learner, reference, rng):
    with expect_error("d_model=10 with 3 heads", mentions=[10, 3]):
        learner.RotaryMultiHeadAttention(10, 3)
    # Refused when it is built or when it is called; the size of the head or d_model=15 is named.
    with expect_error("a head of size 5 (d_model=15, 3 heads)", mentions=[5]):
        learner.RotaryMultiHeadAttention(15, 3)(rng.normal(2, 4, 15))


@item("attention", points=0.25, title="gradients reach x and every parameter", hint="Detach nothing.")
def test_attention_gradients(learner, reference, rng):
    mine, right = module(learner, reference, rng)
    mine.method("double")
    x, mask = rng.normal(2, 5, 12, dtype=torch.float64).requires_grad_(), rng.mask(5, 5)
    for extra in ((), (mask,)):
        got, expected = backward(learner, mine, x, *extra), reference.backward(right, x, *extra)
        # A gradient sums over the ten tokens, so that errors of angles add up.
        check_gradient(got.inputs[0], expected.inputs[0], "x", atol=10 * near(5))
        for name in sorted(expected.parameters):
            check_gradient(got.parameters.get(name), expected.parameters[name], name, atol=10 * near(5))


@item("attention", points=0.25, title="the module runs on whatever device it is moved to", hint="device=x.device.")
def test_attention_device(learner, reference, rng):
    mine, _right = module(learner, reference, rng)
    check_any_device(learner, mine, rng.normal(2, 5, 12))
    check_any_device(learner, mine, rng.normal(2, 5, 12), rng.mask(5, 5), 7)


@item("attention", points=0.25, title="four projections, with or without bias", hint="Pass `bias` to nn.Linear.")
def test_attention_bias(learner, reference, rng):
    for bias in (True, False):
        weights = {k: v for k, v in random_weights(rng, 12).items() if bias or k.endswith("weight")}
        mine = learner.RotaryMultiHeadAttention(12, 3, bias=bias)
        state = mine.state()
        trained = sorted(name for name, trainable in state.trainable.items() if trainable)
        check(trained == sorted(weights), f"with bias={bias} the trained parameters are {trained}.")
        right = reference.RotaryMultiHeadAttention(12, 3, bias=bias).load(weights)
        right.method("double")
        x = rng.normal(2, 5, 12)
        got = mine.load(weights)(x)
        check_close(got, right(x.double()), f"the output with bias={bias}", dtype=x.dtype, atol=near(5))

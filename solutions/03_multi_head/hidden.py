"""Hidden tests of topic 03. Eleven points.

Weights are drawn here and loaded into both sides. Biases are zeros except in the tests about biases and about rows
that may attend nowhere, so that a layer without biases still earns the points of the other tests.
"""

import torch

from autograder.checks import (
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
from autograder.probe import LearnerError

LAYERS = ("W_q", "W_k", "W_v", "W_o")
HALVES = {"half": torch.float16, "bfloat16": torch.bfloat16}


# -- split_heads -----------------------------------------------------------------------------------------------------


@item("split", points=1, title="each head holds its own features", hint="Cut the last axis in two, then swap two axes.")
def test_split_values(learner, reference, rng):
    # With equal sizes a mistake computes instead of raising, and so can be named.
    for shape, heads in (((4, 4, 16), 4), ((2, 5, 12), 3), ((3, 4, 10), 5), ((1, 6, 8), 2)):
        x = rng.normal(*shape)
        got = learner.split_heads(x, heads)
        check_close(got, reference.split_heads(x, heads), f"the heads of {shape} with num_heads={heads}")
    x = rng.normal(2, 3, 6)
    for heads in (1, 6):
        check_close(learner.split_heads(x, heads), reference.split_heads(x, heads), f"{heads} heads of 6 features")


@item("split", points=0.25, title="any memory layout of the input", hint="view refuses some layouts; reshape copies.")
def test_split_strides(learner, reference, rng):
    for x in (
        rng.normal(5, 2, 12).transpose(0, 1),
        rng.normal(2, 12, 5).transpose(1, 2),
        rng.normal(2, 10, 24)[:, ::2, ::2],
    ):
        check_close(learner.split_heads(x, 3), reference.split_heads(x, 3), "the heads of a tensor with other strides")


@item("split", points=0.25, title="features that can't be shared out", hint="No feature may be dropped in silence.")
def test_split_sizes(learner, reference, rng):
    x = rng.normal(2, 5, 10)
    with expect_error("split_heads of 10 features with num_heads=3", "any"):
        learner.split_heads(x, 3)
    with expect_error("split_heads of 10 features with num_heads=4", "any"):
        learner.split_heads(x, 4)


@item("split", points=0.25, title="dtype, device, gradient and input of split_heads", hint="Move data; compute nothing.")
def test_split_types(learner, reference, rng):
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        x = rng.normal(2, 5, 12, dtype=dtype)
        got = check_unchanged(learner, "split_heads", x, 3)
        check_close(got, reference.split_heads(x, 3), f"the heads in {dtype}", atol=0.0)  # nothing is computed
    x = x.requires_grad_()
    got, expected = learner.backward("split_heads", x, 3), reference.backward("split_heads", x, 3)
    check_gradient(got.inputs[0], expected.inputs[0], "x")
    check_any_device(learner, "split_heads", x.detach(), 3)


# -- merge_heads -----------------------------------------------------------------------------------------------------


@item("merge", points=1, title="the heads of a token lie side by side", hint="Tokens in front of heads, then flatten.")
def test_merge_values(learner, reference, rng):
    for shape in ((4, 4, 4, 4), (2, 3, 5, 4), (3, 5, 2, 4), (1, 2, 6, 3), (2, 1, 3, 5)):
        x = rng.normal(*shape)
        check_close(learner.merge_heads(x), reference.merge_heads(x), f"the merged heads of {shape}")
    for x in (rng.normal(2, 5, 3, 4).transpose(1, 2), rng.normal(2, 3, 4, 5).mT):
        check_close(learner.merge_heads(x), reference.merge_heads(x), "the merged heads of a tensor with other strides")


@item("merge", points=0.5, title="dtype, device, gradient and input of merge_heads", hint="Move data; compute nothing.")
def test_merge_types(learner, reference, rng):
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        x = rng.normal(2, 3, 5, 4, dtype=dtype)
        got = check_unchanged(learner, "merge_heads", x)
        check_close(got, reference.merge_heads(x), f"the merged heads in {dtype}", atol=0.0)  # nothing is computed
    x = x.requires_grad_()
    got, expected = learner.backward("merge_heads", x), reference.backward("merge_heads", x)
    check_gradient(got.inputs[0], expected.inputs[0], "x")
    check_any_device(learner, "merge_heads", x.detach())


# -- parameter_count -------------------------------------------------------------------------------------------------


def compare_count(learner, reference, *args, **options):
    got = learner.parameter_count(*args, **options)
    text = ", ".join([*map(str, args), *(f"{name}={value}" for name, value in options.items())])
    check(type(got) is int, f"parameter_count({text}) should be an int, but it is of type {type(got).__name__}.")
    check(got == reference.parameter_count(*args, **options), f"parameter_count({text}) is wrong.")


@item("count", points=0.5, title="the number of parameters", hint="Four linear layers, each with its bias.")
def test_count_values(learner, reference, rng):
    for d_model, heads in ((12, 3), (16, 2), (8, 8), (5, 1), (768, 12)):
        compare_count(learner, reference, d_model, heads)


@item("count", points=0.25, title="the count needs no layer", hint="Compute it from d_model alone.")
def test_count_formula(learner, reference, rng):
    # Building a layer draws its first weights from the global random state.
    check_unchanged(learner, "parameter_count", 12, 3)


# -- the layer -------------------------------------------------------------------------------------------------------


def draw(rng, d_model, *, biases=False, suffix=("weight", "bias")):
    """Values for the four layers. Their size keeps projected vectors near N(0, 1), and scores far from saturated."""
    values = {}
    for layer in LAYERS:
        if "weight" in suffix:
            values[f"{layer}.weight"] = rng.normal(d_model, d_model, std=d_model**-0.5)
        if "bias" in suffix:
            values[f"{layer}.bias"] = rng.normal(d_model) if biases else torch.zeros(d_model)
    return values


def parameters_of(module, d_model):
    try:
        return module.state(record=False).parameters
    except LearnerError:
        # Layers that take their size from the first input have no weights before it.
        x = torch.zeros(1, 2, d_model)
        module(x, x, x)
        return module.state(record=False).parameters


def build(source, values, heads, *args, **options):
    """A layer with the given values. A bias of zeros that the layer does not have changes nothing and is left out."""
    d_model = values["W_q.weight"].size(0)
    module = source.MultiHeadAttention(d_model, heads, *args, **options)
    own = parameters_of(module, d_model)
    return module.load({n: v for n, v in values.items() if n in own or n.endswith(".weight") or bool(v.any())})


def both(learner, reference, rng, d_model, heads, *, biases=False):
    values = draw(rng, d_model, biases=biases)
    return build(learner, values, heads), build(reference, values, heads)


def streams(rng, batch, length, source, d_model, dtype=torch.float32):
    """q, k and v, all different."""
    return (
        rng.normal(batch, length, d_model, dtype=dtype),
        rng.normal(batch, source, d_model, dtype=dtype),
        rng.normal(batch, source, d_model, dtype=dtype),
    )


def compare(mine, right, *args, what, atol=None, **options):
    check_close(mine(*args, **options), right(*args, **options), what, atol=atol)


@item("attention", points=1, title="self-attention", hint="Project, split, attend, merge, project.")
def test_self_attention(learner, reference, rng):
    # B = H = L = d: much is hidden here, yet a mistake computes instead of raising, and so can be named.
    mine, right = both(learner, reference, rng, 16, 4)
    x = rng.normal(4, 4, 16)
    compare(mine, right, x, x, x, what="the output where batch, heads, length and head size are equal")
    for batch, length, d_model, heads in ((2, 5, 12, 3), (3, 7, 8, 4), (1, 6, 10, 2)):
        mine, right = both(learner, reference, rng, d_model, heads)
        x = rng.normal(batch, length, d_model)
        compare(mine, right, x, x, x, what=f"the output for {length} tokens, d_model={d_model}, {heads} heads")
    mine, right = both(learner, reference, rng, 6, 1)
    x = rng.normal(5, 2, 6).transpose(0, 1)
    compare(mine, right, x, x, x, what="the output of one head, for an input with other strides")


@item("attention", points=0.75, title="cross-attention", hint="Queries from q, keys from k, values from v.")
def test_cross_attention(learner, reference, rng):
    mine, right = both(learner, reference, rng, 16, 4)
    compare(mine, right, *streams(rng, 4, 4, 4, 16), what="the output for q, k and v of equal sizes")
    mine, right = both(learner, reference, rng, 12, 3)
    # 3 queries and 6 keys: a layer that views keys with the length of the queries computes something, and wrongly.
    for length, source in ((3, 6), (5, 7), (8, 3), (1, 4), (4, 1)):
        q, k, v = streams(rng, 2, length, source, 12)
        compare(mine, right, q, k, v, what=f"the output for {length} queries and {source} keys")


@item("attention", points=0.25, title="four layers W_q, W_k, W_v, W_o", hint="Each is an nn.Linear(d_model, d_model).")
def test_layers(learner, reference, rng):
    module = learner.MultiHeadAttention(12, 3)
    own = parameters_of(module, 12)
    learner.note([name for name in LAYERS if f"{name}.weight" in own])
    for name in LAYERS:
        check(
            f"{name}.weight" in own,
            f"the layer has no parameter {name}.weight. Is {name} an nn.Linear of its own that is assigned to self?",
        )
        check_tensor(own[f"{name}.weight"], (12, 12), f"{name}.weight")
    trainable = module.state(record=False).trainable
    frozen = [name for name in LAYERS if not trainable[f"{name}.weight"]]
    check(not frozen, f"not trainable: {', '.join(frozen)}.")


@item("attention", points=0.25, title="sizes that do not fit", hint="Compare d_model with num_heads in the constructor.")
def test_sizes(learner, reference, rng):
    for d_model, heads in ((10, 3), (16, 5), (4, 8)):
        with expect_error(f"MultiHeadAttention({d_model}, {heads})"):
            learner.MultiHeadAttention(d_model, heads)


@item("attention", points=0.25, title="the error names the sizes", hint="An f-string can show both numbers.")
def test_sizes_message(learner, reference, rng):
    for d_model, heads in ((10, 3), (16, 5)):
        with expect_error(f"MultiHeadAttention({d_model}, {heads})", mentions=[d_model, heads]):
            learner.MultiHeadAttention(d_model, heads)


@item("attention", points=0.25, title="each call stands alone", hint="Keep nothing from one call to the next.")
def test_calls(learner, reference, rng):
    mine, right = both(learner, reference, rng, 12, 3)
    first = streams(rng, 2, 5, 7, 12)
    mask = rng.mask(2, 1, 5, 7)
    once = check_unchanged(learner, mine, *first, mask)
    check_tensor(once, (2, 5, 12))
    compare(mine, right, *streams(rng, 2, 5, 7, 12), what="the output of a second call, with other inputs")
    q, k, v = streams(rng, 3, 4, 6, 12)
    compare(mine, right, q, k, v, what="the output of a third call, with other sizes")
    check_close(mine(*first, mask), once, "the output of another call with the first inputs")
    check_unchanged(learner, mine, *first, mask.long())


# -- masks -----------------------------------------------------------------------------------------------------------


@item("mask", points=0.75, title="boolean masks", hint="True may attend; all heads and all samples see their mask.")
def test_mask_boolean(learner, reference, rng):
    mine, right = both(learner, reference, rng, 16, 4)
    inputs = streams(rng, 4, 4, 4, 16)
    for mask in (rng.mask(4, 4), rng.mask(4, 1, 4, 4)):
        compare(mine, right, *inputs, mask, what=f"the output of 4 samples and 4 heads, mask {tuple(mask.shape)}")
    mine, right = both(learner, reference, rng, 12, 3)
    inputs = streams(rng, 2, 5, 7, 12)
    ragged = torch.arange(7) < torch.tensor([3, 6]).view(2, 1, 1, 1)
    compare(mine, right, *inputs, ragged, what="the output of two samples with 3 and 6 tokens")
    for mask in (rng.mask(5, 7), rng.mask(2, 1, 5, 7), rng.mask(2, 3, 5, 7)):
        compare(mine, right, *inputs, mask, what=f"the output under a mask of shape {tuple(mask.shape)}")
    compare(mine, right, *inputs, mask=mask, what="the output under a mask handed in by name")


@item("mask", points=0.25, title="every shape that broadcasts", hint="Use the mask as it is; add no axis.")
def test_mask_shapes(learner, reference, rng):
    mine, right = both(learner, reference, rng, 12, 3)
    inputs = streams(rng, 2, 5, 7, 12)
    for shape in ((1, 3, 5, 7), (3, 5, 7), (3, 1, 7), (1, 5, 7), (2, 3, 1, 7), (1, 1, 5, 7), (1, 7)):
        compare(mine, right, *inputs, rng.mask(*shape), what=f"the output under a mask of shape {shape}")


@item("mask", points=0.5, title="integer masks", hint="0 blocks, every other integer lets through.")
def test_mask_integer(learner, reference, rng):
    mine, right = both(learner, reference, rng, 12, 3)
    inputs = streams(rng, 2, 5, 7, 12)
    keep = rng.mask(2, 1, 5, 7)
    for dtype in (torch.int64, torch.int32, torch.uint8):
        compare(mine, right, *inputs, keep.to(dtype), what=f"the output under a mask of {dtype}")
    keep = keep.long() * rng.integers(1, 5, 2, 1, 5, 7)
    compare(mine, right, *inputs, keep, what="the output under a mask of 0 and other integers")


@item("mask", points=0.25, title="masks beside very large scores", hint="A finite fill is no match for a large score.")
def test_mask_large(learner, reference, rng):
    values = draw(rng, 12)
    for name in ("W_q.weight", "W_k.weight"):
        values[name][:, 0] = 1.0
    mine, right = build(learner, values, 3).method("double"), build(reference, values, 3).method("double")
    q, k, v = streams(rng, 2, 5, 7, 12, dtype=torch.float64)
    mask = rng.mask(2, 1, 5, 7)
    # All keys have nearly the same projection, and the score of every kept key is near -1e5: a fill of -1e4 would win.
    k, q[..., 0], k[..., 0] = k * 1e-5, -5e4, 1.0
    # Scores near 1e5 are sums of a few products of that size: each is rounded to 1e5 * eps = 2e-11.
    atol = 1e-9
    compare(mine, right, q, k, v, mask, what="the output under a mask, with scores near -1e5", atol=atol)
    # A blocked key whose score, near 2e4, is far above the others: lowered by 1e4 it would still win.
    q[..., 0], k[:, 3, 0] = 100.0, 100.0
    mask[:, :, :, 3], mask[:, :, :, 0] = False, True
    compare(mine, right, q, k, v, mask, what="the output where a blocked key has the largest score", atol=atol)


@item("rows", points=0.25, title="rows that may attend nowhere", hint="Zeros go into W_o: not NaN, not the mean of v.")
def test_rows_nowhere(learner, reference, rng):
    mine, right = both(learner, reference, rng, 12, 3, biases=True)
    inputs = streams(rng, 2, 5, 7, 12)
    mask = rng.mask(2, 1, 5, 7)
    mask[0, 0, 1] = mask[1, 0, 4] = False
    compare(mine, right, *inputs, mask, what="the output with one row in each sample that may attend nowhere")
    mask = rng.mask(2, 3, 5, 7)
    mask[1, 2, 3] = False
    compare(mine, right, *inputs, mask, what="the output with one row of one head that may attend nowhere")
    padding = torch.arange(7) < torch.tensor([4, 0]).view(2, 1, 1, 1)
    compare(mine, right, *inputs, padding, what="the output with a sample that has no keys")


@item("rows", points=0.25, title="gradients beside such rows", hint="NaN times 0 is NaN, in the gradient as well.")
def test_rows_gradients(learner, reference, rng):
    module = build(learner, draw(rng, 12), 3)
    module.method("double")
    q, k, v = (t.requires_grad_() for t in streams(rng, 2, 5, 7, 12, dtype=torch.float64))
    mask = rng.mask(2, 1, 5, 7)
    mask[0, 0, 1] = mask[1, 0, 4] = False
    got = learner.backward(module, q, k, v, mask)
    for name, gradient in zip("qkv", got.inputs, strict=True):
        check(gradient is not None, f"no gradient reaches {name}.")
        check_finite(gradient, f"the gradient of {name} with a row that may attend nowhere")
    for name, gradient in got.parameters.items():
        if gradient is not None:
            check_finite(gradient, f"the gradient of {name} with a row that may attend nowhere")


# -- dtypes, gradients, device ---------------------------------------------------------------------------------------


def compare_in(learner, reference, rng, method, dtype, *mask):
    """Compare in a dtype with the reference in float64, whose weights and inputs were rounded to that dtype."""
    values = {name: value.to(dtype).float() for name, value in draw(rng, 12).items()}
    mine, right = build(learner, values, 3), build(reference, values, 3)
    mine.method(method)
    right.method("double")
    inputs = streams(rng, 2, 5, 7, 12, dtype=dtype)
    expected = right(*(t.double() for t in inputs), *mask)
    # A number below 2 is rounded by eps / 2 at most, one below 4 by eps. A head moves by 2 eps for its scores (rounded
    # themselves, and made of rounded queries and keys; an error of a score moves the weights by as much, relatively),
    # by eps for its weights, by eps for its values and by eps / 2 for itself. The rows of W_o have random signs and a
    # length of 1.4 at most, so 4.5 eps come out as 6.3, and rounding the output adds 1: 8 eps. Right answers show 3.3.
    atol = 8 * torch.finfo(dtype).eps if dtype in HALVES.values() else None
    check_close(mine(*inputs, *mask), expected, f"the output in {dtype}", dtype=dtype, atol=atol)


@item("types", points=0.25, title="double and half precision", hint="Cast nothing to float32 for good.")
def test_types(learner, reference, rng):
    for method, dtype in {"double": torch.float64, **HALVES}.items():
        compare_in(learner, reference, rng, method, dtype)


@item("types", points=0.25, title="masks in half precision", hint="What number do you fill in? Does float16 hold it?")
def test_types_mask(learner, reference, rng):
    mask = rng.mask(2, 1, 5, 7)
    for method, dtype in HALVES.items():
        compare_in(learner, reference, rng, method, dtype, mask)


@item("types", points=0.25, title="gradients reach inputs and weights", hint="Tensor operations only; no detach, no numpy.")
def test_gradients(learner, reference, rng):
    mine, right = both(learner, reference, rng, 12, 3)
    for module in (mine, right):
        module.method("double")
    q, k, v = (t.requires_grad_() for t in streams(rng, 2, 5, 7, 12, dtype=torch.float64))
    for mask in ((), (rng.mask(2, 1, 5, 7),)):
        got, expected = learner.backward(mine, q, k, v, *mask), reference.backward(right, q, k, v, *mask)
        for name, gradient, wanted in zip("qkv", got.inputs, expected.inputs, strict=True):
            check_gradient(gradient, wanted, name)
        for name, wanted in expected.parameters.items():
            if name.endswith(".weight") or name in got.parameters:
                check_gradient(got.parameters.get(name), wanted, name)


@item("types", points=0.25, title="runs on whatever device it is moved to", hint="Register constants as buffers.")
def test_any_device(learner, reference, rng):
    mine = build(learner, draw(rng, 12), 3)
    q, k, v = streams(rng, 2, 5, 7, 12)
    for mask in (rng.mask(5, 7), rng.mask(2, 1, 5, 7).long()):
        run = check_any_device(learner, mine, q, k, v, mask)
        check(run.dtypes == [torch.float32], "on another device the dtype of the output is different.")
    check_any_device(learner, mine, q, k, v)


# -- bias ------------------------------------------------------------------------------------------------------------


@item("bias", points=0.5, title="biases act", hint="Call the layers; do not multiply by their weights alone.")
def test_bias_used(learner, reference, rng):
    mine, right = both(learner, reference, rng, 16, 4, biases=True)
    compare(mine, right, *streams(rng, 4, 4, 4, 16), what="the output with biases that are not zero")
    mine, right = both(learner, reference, rng, 12, 3, biases=True)
    compare(mine, right, *streams(rng, 2, 5, 7, 12), what="the output with biases that are not zero")


@item("bias", points=0.25, title="a layer without biases", hint="Hand `bias` on to all four linear layers.")
def test_bias_option(learner, reference, rng):
    values = draw(rng, 12, suffix=("weight",))
    inputs = streams(rng, 2, 5, 7, 12)
    right = build(reference, values, 3, bias=False)
    for options in ({"bias": False}, None):
        mine = build(learner, values, 3, **options) if options else build(learner, values, 3, False)
        left = [name for name in parameters_of(mine, 12) if name in {f"{layer}.bias" for layer in LAYERS}]
        learner.note(left)
        check(not left, f"with bias=False the layer still has the parameters {', '.join(left)}.")
        compare(mine, right, *inputs, what="the output of a layer without biases")
    own = parameters_of(build(learner, values, 3, bias=True), 12)
    missing = [f"{layer}.bias" for layer in LAYERS if f"{layer}.bias" not in own]
    learner.note(missing)
    check(not missing, f"with bias=True the layer lacks {', '.join(missing)}.")


@item("bias", points=0.25, title="the count without biases", hint="What does each layer lose?")
def test_bias_count(learner, reference, rng):
    for d_model, heads in ((12, 3), (16, 2), (5, 1)):
        compare_count(learner, reference, d_model, heads, bias=False)
    compare_count(learner, reference, 12, 3, True)

"""Hidden tests of topic 05. Ten points."""

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


def drift(last):
    """Allowed difference at positions up to `last`.

    The angle is last * w with w <= 1. In float32 w is off by up to one eps (a power, or exp of a rounded exponent: the
    error t * eps/2 of the exponent t meets w = exp(-t), so at most 0.2 eps), and the product by half an eps more; a
    quarter turn added for the cosine by another half. Sine and cosine hand these 2 eps * last on.
    """
    return 1e-5 + 2 * EPS * last


def compare(learner, reference, length, width, **options):
    got = learner.sinusoidal_encoding(length, width, **options)
    expected = reference.sinusoidal_encoding(length, width, **options)
    last = length + options.get("offset", 0)
    check_close(got, expected, f"the table for length={length}, d_model={width}", atol=drift(last))


# -- the table -------------------------------------------------------------------------------------------------------


@item("sinusoidal", points=1.5, title="the table of sines and cosines", hint="One frequency for each pair of columns.")
def test_table(learner, reference, rng):
    for length, width in ((7, 6), (12, 10), (3, 2), (1, 8), (40, 16)):
        compare(learner, reference, length, width)


@item("sinusoidal", points=0.5, title="an odd width ends on a sine", hint="One more sine than cosines.")
def test_table_odd(learner, reference, rng):
    for length, width in ((6, 5), (9, 7), (4, 1)):
        compare(learner, reference, length, width)


@item("sinusoidal", points=0.5, title="another base", hint="The base is an argument.")
def test_table_base(learner, reference, rng):
    compare(learner, reference, 9, 6, base=500.0)
    compare(learner, reference, 9, 8, base=100.0)


@item("sinusoidal", points=0.5, title="an offset", hint="Row 0 belongs to the position `offset`.")
def test_table_offset(learner, reference, rng):
    compare(learner, reference, 6, 8, offset=5)
    compare(learner, reference, 4, 6, offset=123)
    compare(learner, reference, 7, 10, offset=6001)


@item("sinusoidal", points=0.5, title="long tables, in float32, without side effects", hint="Positions in float32.")
def test_table_long(learner, reference, rng):
    got = check_unchanged(learner, "sinusoidal_encoding", 3000, 12)
    expected = reference.sinusoidal_encoding(3000, 12)
    check_close(got, expected, "the table of 3000 positions", atol=drift(3000))


# -- the module ------------------------------------------------------------------------------------------------------


def added(reference, x):
    """x plus the table, in float64."""
    return x.double() + reference.sinusoidal_encoding(x.size(1), x.size(2)).double()


@item("module", points=1, title="the module adds the first L rows", hint="The length is x.size(1).")
def test_module_values(learner, reference, rng):
    module = learner.PositionalEncoding(6, 11)
    for batch, length in ((4, 4), (3, 5), (1, 7), (2, 11)):
        x = rng.normal(batch, length, 6)
        check_close(module(x), added(reference, x), f"the output for {length} tokens", dtype=x.dtype, atol=drift(11))
    x = rng.normal(2, 9, 8)
    check_close(learner.PositionalEncoding(8)(x), added(reference, x), "the output", dtype=x.dtype, atol=drift(9))


@item("module", points=0.5, title="the table is a buffer, and nothing is trained", hint="register_buffer('pe', ...).")
def test_module_buffer(learner, reference, rng):
    state = learner.PositionalEncoding(6, 11).state()
    check(not state.parameters, f"the module has parameters: {sorted(state.parameters)}. A fixed table is a buffer.")
    check("pe" in state.buffers, f"the module has no buffer named pe; its buffers are {sorted(state.buffers)}.")
    table = state.buffers["pe"]
    table = table[0] if table.dim() == 3 and table.size(0) == 1 else table
    check_close(table, reference.sinusoidal_encoding(11, 6), "the buffer pe", atol=drift(11))
    table = learner.PositionalEncoding(2).state().buffers["pe"]
    check(table.numel() == 10_000, "without an argument, max_len should be 5000.")


@item("module", points=0.5, title="the module in other dtypes", hint="A buffer is converted along with the module.")
def test_module_dtypes(learner, reference, rng):
    for name, dtype in (("double", torch.float64), ("half", torch.float16), ("bfloat16", torch.bfloat16)):
        module = learner.PositionalEncoding(6, 11)
        module.method(name)
        x = rng.normal(2, 5, 6, dtype=dtype)
        # The table was made in float32, or is rounded to the narrower dtype: never better than float32.
        atol = drift(11) if dtype is torch.float64 else None
        check_close(module(x), added(reference, x), f"the output in {dtype}", dtype=dtype, atol=atol)


@item("module", points=0.5, title="more than max_len tokens are refused", hint="A ValueError that names both lengths.")
def test_module_too_long(learner, reference, rng):
    module = learner.PositionalEncoding(6, 11)
    check_tensor(module(rng.normal(2, 11, 6)), (2, 11, 6))
    with expect_error("12 tokens with max_len=11", mentions=[12, 11]):
        module(rng.normal(2, 12, 6))
    with expect_error("20 tokens with max_len=11", mentions=[20, 11]):
        module(rng.normal(11, 20, 6))
    # A table of one row broadcasts, so that torch does not complain.
    module = learner.PositionalEncoding(6, 1)
    with expect_error("3 tokens with max_len=1", mentions=[3, 1]):
        module(rng.normal(2, 3, 6))


@item("module", points=0.25, title="the module with an odd width", hint="It uses the same table.")
def test_module_odd(learner, reference, rng):
    x = rng.normal(2, 4, 7)
    got = learner.PositionalEncoding(7, 9)(x)
    check_close(got, added(reference, x), "the output for d_model=7", dtype=x.dtype, atol=drift(9))


@item("module", points=0.25, title="the input stays as it was, and gets its gradient", hint="x + ..., not x += ...")
def test_module_unchanged(learner, reference, rng):
    module = learner.PositionalEncoding(6, 11)
    module.method("eval")
    first = check_unchanged(learner, module, rng.normal(2, 5, 6))
    check_tensor(first, (2, 5, 6))
    x = rng.normal(2, 5, 6, dtype=torch.float64).requires_grad_()
    module.method("double")
    got = learner.backward(module, x)
    expected = torch.cos(torch.arange(x.numel(), dtype=torch.float64)).view(x.shape)
    check_gradient(got.inputs[0], expected, "x")


@item(
    "module", points=0.5, title="the module runs on whatever device it is moved to", hint="A buffer moves with .to()."
)
def test_module_device(learner, reference, rng):
    check_any_device(learner, learner.PositionalEncoding(6, 11), rng.normal(2, 5, 6))


# -- the learned table -----------------------------------------------------------------------------------------------


def learned(learner, rng, width=6, max_len=11):
    weight = rng.normal(max_len, width)
    module = learner.LearnedPositionalEncoding(width, max_len)
    module.load({"embedding.weight": weight})
    return module, weight


@item("learned", points=0.75, title="the learned table is added", hint="Positions 0 ... L-1, one vector for each.")
def test_learned_values(learner, reference, rng):
    module, weight = learned(learner, rng)
    for batch, length in ((5, 5), (3, 4), (1, 11), (4, 7)):
        x = rng.normal(batch, length, 6)
        check_close(check_unchanged(learner, module, x), x + weight[:length], f"the output for {length} tokens")


@item("learned", points=0.25, title="one trainable table", hint="One nn.Embedding named embedding.")
def test_learned_parameters(learner, reference, rng):
    state = learner.LearnedPositionalEncoding(6, 11).state()
    sizes = {name: tuple(p.shape) for name, p in state.parameters.items()}
    check(sizes == {"embedding.weight": (11, 6)}, f"the parameters are {sizes}; expected one table of (11, 6).")
    check(all(state.trainable.values()), "the table is not trainable: requires_grad is False.")
    for module in (learner.LearnedPositionalEncoding(6, 11) for _ in range(2)):
        table = module.state().parameters["embedding.weight"]
        check(bool(torch.isfinite(table).all()) and table.abs().max() < 100, "the table is not initialised.")


@item("learned", points=0.25, title="every position that is used learns", hint="No row is left out of the gradient.")
def test_learned_gradient(learner, reference, rng):
    module, _weight = learned(learner, rng)
    module.method("double")
    x = rng.normal(3, 5, 6, dtype=torch.float64).requires_grad_()
    cotangent = rng.normal(3, 5, 6, dtype=torch.float64)
    got = learner.backward(module, x, cotangent=cotangent)
    expected = torch.zeros(11, 6, dtype=torch.float64)
    expected[:5] = cotangent.sum(0)
    check_gradient(got.parameters.get("embedding.weight"), expected, "the table")
    check_gradient(got.inputs[0], cotangent, "x")


@item(
    "learned", points=0.25, title="more tokens than vectors are refused", hint="A ValueError that names both lengths."
)
def test_learned_too_long(learner, reference, rng):
    module, _weight = learned(learner, rng)
    with expect_error("12 tokens with max_len=11", mentions=[12, 11]):
        module(rng.normal(2, 12, 6))
    module, _weight = learned(learner, rng, max_len=1)
    with expect_error("3 tokens with max_len=1", mentions=[3, 1]):
        module(rng.normal(2, 3, 6))


@item("learned", points=0.25, title="positions are made on the device of x, in any dtype", hint="device=x.device.")
def test_learned_device(learner, reference, rng):
    module, weight = learned(learner, rng)
    check_any_device(learner, module, rng.normal(2, 5, 6))
    module.method("half")
    x = rng.normal(2, 5, 6, dtype=torch.float16)
    check_close(module(x), x.double() + weight[:5].half().double(), "the output in float16", dtype=torch.float16)


# -- the shift matrix ------------------------------------------------------------------------------------------------


@item("shift", points=0.75, title="M @ PE[pos] is PE[pos + offset]", hint="A 2 by 2 block for each pair.")
def test_shift(learner, reference, rng):
    for offset, width in ((3, 6), (1, 2), (7, 8), (25, 10), (900, 4)):
        check_shift(learner, reference, offset, width)


def check_shift(learner, reference, offset, width, **options):
    matrix = learner.shift_matrix(offset, width, **options)
    check_tensor(matrix, (width, width), "the matrix")
    check(matrix.dtype.is_floating_point, "the matrix should hold floating point numbers.")
    # Near positions alone hide the slow pairs: their sines stay close to 0 there.
    for start in (50, 2000):
        table = reference.sinusoidal_encoding(30, width, offset=start, **options).double()
        expected = reference.sinusoidal_encoding(30, width, offset=start + offset, **options)
        what = f"M @ PE[pos] for offset={offset}, d_model={width}"
        # The tables are exact to float32; the angle of the matrix is `offset` times a frequency.
        check_close((table @ matrix.double().T).float(), expected, what, atol=drift(abs(offset)))


@item("shift", points=0.25, title="steps back, another base, no step", hint="A negative offset turns the other way.")
def test_shift_options(learner, reference, rng):
    check_shift(learner, reference, -4, 6)
    check_shift(learner, reference, 5, 6, base=300.0)
    check_shift(learner, reference, 0, 4)


@item("shift", points=0.25, title="an odd width has no shift matrix", hint="A ValueError that names d_model.")
def test_shift_odd(learner, reference, rng):
    with expect_error("d_model=5", mentions=[5]):
        learner.shift_matrix(2, 5)

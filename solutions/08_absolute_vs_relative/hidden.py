"""Hidden tests of topic 08. Seven points; four more are given by hand for the written answer.

`build_attention` has no fixed insides. Its modules get random weights, whatever their names, and are then measured from
outside, by the tests themselves: the learner's own measuring functions are never asked about them.
"""

import torch

from autograder.checks import (
    check,
    check_any_device,
    check_close,
    check_finite,
    check_tensor,
    check_unchanged,
    expect_error,
    item,
)

SCHEMES = ("none", "sinusoidal", "learned", "shaw", "t5", "alibi", "rope")
D, H, MAX_LEN = 12, 3, 24
ORDER = torch.tensor([3, 0, 5, 1, 6, 4, 2])
# Sums of float32 numbers of about 1 differ by 1e-6; a rotation by 50 rad is rounded by 3e-6, which scores multiply by
# |q||k| of about 10. What has to matter moves the outputs by 0.1 and more.
SAME, MATTERS = 1e-4, 5e-3


def build(learner, rng, scheme, d_model=D, num_heads=H, max_len=MAX_LEN, std=0.4, dtype=None):
    """A module of the scheme whose parameters are all random: tables that start as zeros would hide everything.

    Values are drawn by shape, so that a table gets the same ones whatever its name is and wherever it is made.
    """
    module = learner.build_attention(scheme, d_model, num_heads, max_len)
    if dtype is not None:
        module.method("to", dtype)
    shapes = {name: tuple(p.shape) for name, p in module.state(record=False).parameters.items()}
    names = sorted(shapes, key=shapes.get)
    return module.load({name: rng.normal(*shapes[name], std=std).to(dtype or torch.float32) for name in names})


def parameters(learner, *arguments):
    """How many numbers the module's parameters hold."""
    state = learner.build_attention(*arguments).state(record=False)
    return sum(p.numel() for p in state.parameters.values())


def behind(module, x, front):
    """The outputs of x when tokens stand in front of it that its own tokens may not attend to."""
    shift, length = front.size(1), front.size(1) + x.size(1)
    mask = torch.ones(length, length, dtype=torch.bool)
    mask[shift:, :shift] = False
    wide = module(torch.cat((front, x), dim=1), mask)
    check_tensor(wide, (x.size(0), length, x.size(2)), f"the output of {length} tokens")
    return wide[:, shift:]


def difference(a, b):
    return (a.double() - b.double()).abs().max().item()


def check_common(module, x, scheme):
    """What holds in every scheme: the shape, samples that don't mix, and tokens that are blocked as if not there."""
    output = module(x)
    check_tensor(output, x.shape, f"the output of {scheme}", torch.float32)
    check_finite(output, f"the output of {scheme}")
    check_close(module(x[1:]), output[1:], f"{scheme}: a sample alone", atol=SAME, hint="Samples must not mix.")
    start = x[:, :4]
    mask = torch.ones(1, 1, 1, x.size(1), dtype=torch.bool)
    mask[..., 4:] = False
    got = module(x, mask)
    check_tensor(got, x.shape, f"the output of {scheme} under a mask")
    what = f"{scheme}: the first 4 tokens alone, compared with a mask that blocks the others"
    check_close(module(start), got[:, :4], what, atol=SAME)
    changed = x.clone()
    changed[:, -1] += 1.0
    check(difference(module(changed)[:, 0], output[:, 0]) > 1e-3, f"{scheme}: the first token never sees the last one.")
    check_tensor(module(x[:, :1]), (x.size(0), 1, x.size(2)), f"the output of {scheme} for one token")
    return output


def check_order_matters(module, x, output, scheme):
    gap = difference(module(x[:, ORDER]), output[:, ORDER])
    check(gap > MATTERS, f"{scheme}: the order of the tokens changes nothing, as if positions were not used.")


def check_relative(learner, rng, scheme, *, mirrored):
    """Order matters, a later start does not, max_len is no limit; mirrored: whether both directions are alike."""
    for d_model, num_heads in ((D, H), (20, 5)):
        module = build(learner, rng, scheme, d_model, num_heads)
        x = rng.normal(2, 7, d_model)
        output = check_common(module, x, scheme)
        check_order_matters(module, x, output, scheme)
        for shift in (1, 4, 40):
            got = behind(module, x, rng.normal(2, shift, d_model))
            what = f"{scheme}: the output behind {shift} unseen tokens"
            check_close(got, output, what, atol=SAME, hint="It should depend on distances only.")
        gap = difference(module(x.flip(1)).flip(1), output)
        if mirrored:
            check(gap < SAME, f"{scheme}: keys before and after the query are not treated alike.")
        else:
            check(gap > MATTERS, f"{scheme}: keys before and after the query can't be told apart.")
        check_finite(module(rng.normal(1, 150, d_model)), f"the output of {scheme} for 150 tokens")


@item("none", points=0.5, title="without positions the order changes nothing", hint="Add nothing, keep attention.")
def test_none(learner, reference, rng):
    for d_model, num_heads in ((D, H), (20, 5)):
        module = build(learner, rng, "none", d_model, num_heads)
        x = rng.normal(2, 7, d_model)
        output = check_common(module, x, "none")
        check_close(module(x[:, ORDER]), output[:, ORDER], "none: permuted tokens", atol=SAME)
        check_close(behind(module, x, rng.normal(2, 40, d_model)), output, "none: behind 40 unseen tokens", atol=SAME)
    many, one = (learner.build_attention("none", 12, heads, 24) for heads in (3, 1))
    shapes = [{n: tuple(p.shape) for n, p in m.state(record=False).parameters.items()} for m in (many, one)]
    if shapes[0] == shapes[1]:
        weights = {name: rng.normal(*shape, std=0.4) for name, shape in shapes[0].items()}
        x = rng.normal(2, 7, 12)
        gap = difference(many.load(weights)(x), one.load(weights)(x))
        check(gap > MATTERS, "the number of heads changes nothing: 3 heads and 1 head give the same output.")


@item("absolute", points=0.5, title="sinusoidal and learned: order and place matter", hint="Token i gets row i.")
def test_absolute(learner, reference, rng):
    for scheme in ("sinusoidal", "learned"):
        for d_model, num_heads in ((D, H), (20, 5)):
            module = build(learner, rng, scheme, d_model, num_heads)
            for batch in (2, 7):
                x = rng.normal(batch, 7, d_model)
                output = check_common(module, x, scheme)
                check_order_matters(module, x, output, scheme)
            check_order_matters(module, x[:1], module(x[:1]), scheme)
            got = behind(module, x, rng.normal(7, 5, d_model))
            check(
                difference(got, output) > MATTERS, f"{scheme}: a later start changes nothing, as in a relative scheme."
            )


@item("shaw", points=0.5, title="shaw depends on signed distances", hint="Rows follow from j - i, clipped.")
def test_shaw(learner, reference, rng):
    check_relative(learner, rng, "shaw", mirrored=False)


@item("t5", points=0.5, title="t5 depends on signed distances", hint="Buckets follow from j - i.")
def test_t5(learner, reference, rng):
    check_relative(learner, rng, "t5", mirrored=False)


@item("rope", points=0.5, title="rope depends on signed distances", hint="Turn queries and keys, by head.")
def test_rope(learner, reference, rng):
    check_relative(learner, rng, "rope", mirrored=False)


@item("alibi", points=0.25, title="alibi depends on absolute distances", hint="Minus the slope times |j - i|.")
def test_alibi(learner, reference, rng):
    check_relative(learner, rng, "alibi", mirrored=True)


@item(
    "alibi", points=0.25, title="influence falls with distance as the slopes say", hint="After the scale; -slope * |d|."
)
def test_alibi_slopes(learner, reference, rng):
    for heads, length, query in ((1, 41, 20), (4, 33, 16), (4, 33, 5)):
        # With tiny weights all scores are 0, and a head's weights are the softmax of its bias alone. Outputs are linear
        # in a change of token j: each head gives its weight (i, j) times an unknown vector.
        module = build(learner, rng, "alibi", 4 * heads, heads, std=1e-4, dtype=torch.float64)
        x = rng.normal(1, length, 4 * heads, dtype=torch.float64)
        step = rng.normal(4 * heads, dtype=torch.float64)
        changed = x + torch.eye(length, dtype=torch.float64).unsqueeze(-1) * step
        output = module(torch.cat((x, changed)))
        check_tensor(output, (length + 1, length, 4 * heads), "the output of alibi", torch.float64)
        moved = output[1:, query] - output[0, query]
        slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1, dtype=torch.float64) / heads)
        distance = (torch.arange(length) - query).abs().unsqueeze(-1)
        basis = torch.softmax(-slopes * distance, dim=0)
        shares = torch.linalg.lstsq(basis, moved).solution
        fitted = basis @ shares
        # Scores of 1e-7 and slopes kept in float32 leave 1e-6; a wrong slope leaves 1e-3 and more.
        error = (fitted - moved).norm() / moved.norm().clamp(min=1e-300)
        check(error.item() < 2e-5, f"{heads} heads: the influence of a key does not fall with distance as it should.")
        # Random weights give each head a share of the same order; a slope that no head has gets what rounding leaves.
        share = shares.norm(dim=-1)
        check(bool((share > 1e-3 * share.max()).all()), f"{heads} heads: some slopes are missing, others stand twice.")


@item("limit", points=0.5, title="more tokens than positions are an error", hint="Compare L with max_len first.")
def test_limit(learner, reference, rng):
    for scheme in ("sinusoidal", "learned"):
        for limit in (5, 9):
            module = build(learner, rng, scheme, max_len=limit)
            check_tensor(module(rng.normal(2, limit, D)), (2, limit, D), f"the output of {scheme} for L = max_len")
            for length in (limit + 1, 2 * limit + 3):
                with expect_error(f"{scheme} with L={length}, max_len={limit}", mentions=[length, limit]):
                    module(rng.normal(2, length, D))
            with expect_error(f"{scheme} with one sample of L={limit + 1}, max_len={limit}", mentions=[limit]):
                module(rng.normal(1, limit + 1, D))


@item("unknown", points=0.25, title="an unknown scheme and bad sizes are errors", hint="Raise a ValueError.")
def test_unknown(learner, reference, rng):
    for scheme in ("fourier", "relative", ""):
        with expect_error(f"the scheme {scheme!r}"):
            learner.build_attention(scheme, D, H, MAX_LEN)
    with expect_error("d_model=10 with 3 heads", "any"):
        learner.build_attention("none", 10, 3, MAX_LEN)(rng.normal(2, 5, 10))
    with expect_error("rope with heads of size 3", "any"):
        learner.build_attention("rope", 6, 2, MAX_LEN)(rng.normal(2, 5, 6))


@item("common", points=0.25, title="masks hold in all schemes", hint="Mask the scores before the softmax.")
def test_masks(learner, reference, rng):
    for scheme in SCHEMES:
        module = build(learner, rng, scheme)
        x = rng.normal(2, 7, D)
        keep = rng.mask(2, 1, 7, 7)
        output = module(x, keep)
        check_tensor(output, (2, 7, D), f"the output of {scheme} under a mask")
        changed = x.clone()
        changed[:, 3] += 1.0
        moved = (module(changed, keep) - output).abs().amax(dim=-1)
        rows = torch.arange(7) != 3
        check(bool((moved[~keep[:, 0, :, 3] & rows] < SAME).all()), f"{scheme}: a blocked key changes the output.")
        check(
            bool((moved[keep[:, 0, :, 3] & rows] > SAME).any()), f"{scheme}: a key that is not blocked has no effect."
        )
        equal = {
            "of integers": keep * rng.integers(1, 4, 2, 1, 7, 7),
            "with a mask for each head": keep.expand(2, H, 7, 7),
        }
        for name, mask in equal.items():
            check_close(module(x, mask), output, f"{scheme}: the output under a mask {name}", atol=SAME)
        square = rng.mask(7, 7)
        wide = module(x, square.expand(2, H, 7, 7))
        check_close(module(x, square), wide, f"{scheme}: the output under a mask of shape (7, 7)", atol=SAME)
        padding = rng.mask(2, 1, 1, 7)
        wide = module(x, padding.expand(2, H, 7, 7))
        check_close(module(x, padding), wide, f"{scheme}: the output under a mask of shape (2, 1, 1, 7)", atol=SAME)
        one_head = keep.expand(2, H, 7, 7).clone()
        one_head[:, 1] = True
        gap = difference(module(x, one_head), output)
        check(gap > SAME, f"{scheme}: a mask for each head is read as one mask for all heads.")
        keep[0, 0, 2] = keep[1, 0, 5] = False
        output = module(x, keep)
        check_finite(output, f"the output of {scheme} with rows that may attend nowhere")
        what = f"{scheme}: two rows that may attend nowhere"
        check_close(output[0, 2], output[1, 5], what, atol=SAME, hint="Both are zeros before the last layer.")


def by_shape(gradients, module):
    shapes = {name: tuple(p.shape) for name, p in module.state(record=False).parameters.items()}
    return [gradients.get(name) for name in sorted(shapes, key=shapes.get)]


@item("common", points=0.25, title="gradients reach all parameters", hint="Register tables; use all of them.")
def test_gradients(learner, reference, rng):
    for scheme in SCHEMES:
        module = build(learner, rng, scheme, dtype=torch.float64)
        x = rng.normal(2, 7, D, dtype=torch.float64).requires_grad_()
        mask = rng.mask(2, 1, 7, 7)
        mask[0, 0, 2] = mask[1, 0, 5] = False
        for extra in ((), (mask,)):
            with learner.quiet():  # names of parameters are free, so their gradients are noted by shape
                got = learner.backward(module, x, *extra)
            learner.note([got.value, got.inputs, by_shape(got.parameters, module)])
            check(got.inputs[0] is not None, f"{scheme}: no gradient reaches x.")
            check_finite(got.inputs[0], f"{scheme}: the gradient of x")
            check(bool(got.parameters), f"{scheme}: the module has no parameters.")
            for name, gradient in got.parameters.items():
                check(gradient is not None, f"{scheme}: no gradient reaches the parameter {name}.")
                check_finite(gradient, f"{scheme}: the gradient of {name}")
                # A bias of the keys cancels in the softmax, so vectors may get nothing.
                check(gradient.dim() < 2 or bool(gradient.any()), f"{scheme}: the gradient of {name} is all zeros.")


@item("common", points=0.25, title="dtypes, devices, lengths, unchanged inputs", hint="Make tensors like x.")
def test_types(learner, reference, rng):
    for scheme in SCHEMES:
        for dtype in (torch.float16, torch.bfloat16, torch.float64):
            module = build(learner, rng, scheme, dtype=dtype)
            output = module(rng.normal(2, 7, D, dtype=dtype), rng.mask(7, 7))
            check_tensor(output, (2, 7, D), f"the output of {scheme} in {dtype}", dtype)
            check_finite(output, f"the output of {scheme} in {dtype}")
        module = build(learner, rng, scheme)
        x = rng.normal(2, 9, D)
        # The first call after the module was built: a seed that an earlier call had set would not show any more.
        first = check_unchanged(learner, module, x)
        check_close(module(x[:, :5]), module(x[:, :5].clone()), f"{scheme}: a second call with the same tokens")
        check_unchanged(learner, module, x, rng.mask(2, 1, 9, 9).int())
        check_close(module(x), first, f"{scheme}: the same tokens after calls of other lengths")
        check_any_device(learner, module, x, rng.mask(9, 9))
        check_any_device(learner, module, x)
    # Beyond 256 bfloat16 holds every second integer only. Positions in that dtype turn neighbours by the same angle.
    narrow = build(learner, rng, "rope", dtype=torch.bfloat16)
    weights = {name: p.float() for name, p in narrow.state(record=False).parameters.items()}
    wide = learner.build_attention("rope", D, H, MAX_LEN).load(weights)
    x = rng.normal(1, 400, D, dtype=torch.bfloat16)
    places = torch.arange(400)
    window = (places - places.unsqueeze(1)).abs() <= 2
    gap = (narrow(x, window).float() - wide(x.float(), window)).abs().mean().item()
    check(gap < 0.03, "rope: far positions are rounded in bfloat16. Make the angles in float32.")


# -- what a scheme costs ---------------------------------------------------------------------------------------------

SIZES = ((12, 3, 16), (8, 2, 5), (20, 5, 40))


@item("parameters", points=0.25, title="four schemes add no parameters", hint="A fixed table is a buffer.")
def test_parameters_none(learner, reference, rng):
    for scheme in ("none", "sinusoidal", "alibi", "rope"):
        got = [learner.position_parameters(scheme, *size) for size in SIZES]
        check(got == [0, 0, 0], f"position_parameters should be 0 for {scheme}.")
        added = [parameters(learner, scheme, *size) - parameters(learner, "none", *size) for size in SIZES]
        check(added == [0, 0, 0], f"build_attention holds more parameters for {scheme} than for none.")


@item("parameters", points=0.5, title="the formula fits the module", hint="Rows times columns of each table.")
def test_parameters_formula(learner, reference, rng):
    for scheme in ("learned", "shaw", "t5"):
        for size in SIZES:
            got = learner.position_parameters(scheme, *size)
            check(type(got) is int, f"position_parameters of {scheme} should be an int.")
            added = parameters(learner, scheme, *size) - parameters(learner, "none", *size)
            check(added > 0, f"build_attention learns no positions for {scheme}.")
            check(got == added, f"position_parameters of {scheme} does not fit what build_attention holds at {size}.")


# -- the measuring functions -----------------------------------------------------------------------------------------
# Modules of known properties, computed on this side of the channel. Inside they are float64, so that noise and effects
# have the sizes that the tests give them.


def attend(x, mask=None, bias=None, keys=None):
    """Attention with two heads whose queries, keys and values are the tokens themselves."""
    heads = x.double().unflatten(-1, (2, -1)).transpose(1, 2)
    others = heads if keys is None else keys.unflatten(-1, (2, -1)).transpose(1, 2)
    scores = heads @ others.mT * 0.5
    if bias is not None:
        scores = scores + bias(x.size(1))
    keep = torch.ones_like(scores, dtype=torch.bool) if mask is None else (mask != 0).expand_as(scores)
    weights = torch.softmax(scores.masked_fill(~keep, -1e30), dim=-1) * keep
    return (weights @ others).transpose(1, 2).flatten(2)


def numbered(length):
    return torch.arange(length, dtype=torch.float64).unsqueeze(-1)


def ends(length):
    """Numbers that the first two tokens share, and the last two."""
    return 0.1 * numbered(length).clamp(1, length - 2)


def fading(length):
    return -0.4 * (numbered(length) - numbered(length).T).abs()


def earlier(length):
    """Keys before the query are favoured, keys after it are not."""
    return 0.4 * (numbered(length).T - numbered(length)).clamp(-3, 3)


def noisy(output, size):
    """Noise that differs with the length, as rounding does."""
    noise = torch.cos(torch.arange(output.numel(), dtype=torch.float64) * 1.7 + output.size(1))
    return output + size * noise.view(output.shape)


def single(output, size, sample=-1):
    """Moves one feature of one sample, at every token but by its number."""
    moved = output.clone()
    moved[sample, :, 2] += size * numbered(output.size(1)).squeeze(-1)
    return moved


def counted(output, tokens):
    """Some tokens' outputs move with the number of all tokens."""
    moved = output.clone()
    moved[:, tokens] += 0.1 * output.size(1)
    return moved


def opposite(output, size):
    """Two features move by the same amount, one up and one down: their sum stays."""
    moved = output.clone()
    moved[..., 2] += size * output.size(1)
    moved[..., 5] -= size * output.size(1)
    return moved


def as_module(learner, function, seen=None):
    """A module for the learner's code; seen collects the tokens of each call."""

    def forward(x, mask=None):
        if seen is not None:
            seen.append(x)
        return function(x, mask).to(x.dtype)

    return learner.callback(forward)


def judge(verdicts, name):
    """verdicts: (what the module is, the learner's answer, the right answer)."""
    for what, got, right in verdicts:
        check(type(got) is bool, f"{name} should return a bool.")
        check(got is right, f"{name} says {got} of {what}.")


def others(run):
    """Global state that was changed. Drawing tokens or an order may use up random numbers; nothing else may change."""
    return sorted(set(run.changed_state) - {"random state"})


def effects(learner, name, *arguments):
    """The effects of a call; whether it draws from the global random state plays no part in naming a mistake."""
    with learner.quiet():
        run = learner.effects(name, *arguments)
    learner.note([run.value, run.changed_inputs, others(run)])
    return run


SHIFT = "is_shift_invariant"


@item("shift", points=0.5, title="modules of known behaviour", hint="Unseen tokens in front; compare all of x.")
def test_shift_known(learner, reference, rng):
    known = [
        ("attention without positions", True, attend),
        ("attention whose tokens are numbered", False, lambda x, m: attend(x + 0.1 * numbered(x.size(1)), m)),
        ("attention that fades with distance", True, lambda x, m: attend(x, m, fading)),
        ("attention that favours earlier keys", True, lambda x, m: attend(x, m, earlier)),
        ("a function of single tokens", True, lambda x, m: x.double().tanh()),
        ("tokens that get the sum of all tokens added, seen or not", False, lambda x, m: x + x.sum(1, keepdim=True)),
        ("attention that divides by the number of tokens", False, lambda x, m: attend(x, m) * 6 / x.size(1)),
        ("numbers counted from the end", True, lambda x, m: attend(x + 0.1 * numbered(x.size(1)).flip(0), m)),
        ("a single feature of one sample that is numbered", False, lambda x, m: single(attend(x, m), 0.1)),
        ("a single feature of the first sample that is numbered", False, lambda x, m: single(attend(x, m), 0.1, 0)),
        ("attention in which all but the last 3 outputs move", False, lambda x, m: counted(attend(x, m), slice(-3))),
        ("attention in which the last output moves", False, lambda x, m: counted(attend(x, m), slice(-1, None))),
    ]
    verdicts = []
    for what, right, function in known:
        for length, shift in ((6, 3), (5, 1), (4, 9)):
            x = rng.normal(2, length, 8)
            got = learner.is_shift_invariant(as_module(learner, function), x, shift)
            verdicts.append((f"{what}, {shift} tokens in front of {length}", got, right))
    judge(verdicts, SHIFT)


@item("shift", points=0.25, title="the mask among the tokens holds on", hint="It goes into one block of a larger mask.")
def test_shift_mask(learner, reference, rng):
    def moving(x, mask, token=-1):
        """One token, as a key and a value, moves with the number of all tokens."""
        keys = x.double().clone()
        keys[:, token] += x.size(1)
        return attend(x, mask, keys=keys)

    def blocking(x, mask, alone):
        """The last key is blocked by the module, too: where the 6 tokens are alone, or where others stand in front."""
        keep = torch.ones(x.size(1), x.size(1), dtype=torch.bool) if mask is None else mask != 0
        keep = keep.expand(*keep.shape[:-2], x.size(1), x.size(1)).clone()
        keep[..., -6:, -1] &= alone != (x.size(1) == 6)
        return attend(x, keep)

    x = rng.normal(2, 6, 8)
    causal = torch.ones(6, 6, dtype=torch.bool).tril()
    padding = torch.ones(2, 1, 1, 6, dtype=torch.bool)
    padding[0, ..., 4:] = padding[1, ..., 5:] = False
    masks = {
        "causal": causal,
        "causal, of integers": causal.int(),
        "padding": padding,
        "one for each sample": rng.mask(2, 1, 6, 6),
        "one for each head": rng.mask(2, 2, 6, 6),
        "integers": rng.mask(2, 1, 6, 6).long() * 3,
    }
    verdicts = []
    for name, mask in masks.items():
        for bias in (None, fading):
            module = as_module(learner, lambda x, m, bias=bias: attend(x, m, bias))
            run = effects(learner, SHIFT, module, x, 4, mask)
            check(not run.changed_inputs, "is_shift_invariant changes x or the mask.")
            verdicts.append((f"attention under a mask ({name})", run.value, True))
    unseen = torch.ones(6, 6, dtype=torch.bool)
    unseen[:, 5] = False
    module = as_module(learner, moving)
    verdicts.append(("a last key that moves, and is seen", learner.is_shift_invariant(module, x, 3), False))
    for mask, shift in ((unseen, 3), (unseen.int(), 2), (unseen[:1].expand(2, 1, 1, 6), 5)):
        got = learner.is_shift_invariant(module, x, shift, mask)
        verdicts.append(("a last key that moves, but is blocked", got, True))
    first = as_module(learner, lambda x, m: moving(x, m, -6))
    got = learner.is_shift_invariant(first, x, 3, unseen)
    verdicts.append(("a first key that moves, and is seen, where the last one is blocked", got, False))
    for alone in (True, False):
        module = as_module(learner, lambda x, m, alone=alone: blocking(x, m, alone))
        got = learner.is_shift_invariant(module, x, 3, unseen)
        verdicts.append(("a blocked key that the module blocks itself, in some lengths", got, True))
    judge(verdicts, SHIFT)


@item("shift", points=0.25, title="tolerance, dtypes and global state", hint="About 1e-4; tokens like x; no seed.")
def test_shift_tolerance(learner, reference, rng):
    x = rng.normal(2, 8, 8)
    degrees = [
        ("whose outputs differ by rounding", True, lambda x, m: noisy(attend(x, m), 6e-7)),
        ("whose outputs are moved by 0.03", False, lambda x, m: attend(x, m) + 0.01 * x.size(1)),
        ("of which one feature of one sample is moved by 0.03", False, lambda x, m: single(attend(x, m), 0.01)),
        ("whose outputs are moved by -0.03", False, lambda x, m: attend(x, m) - 0.01 * x.size(1)),
        ("whose outputs are moved by 0.03, up and down", False, lambda x, m: noisy(attend(x, m), 0.03)),
        ("of which two features are moved by 0.03 and -0.03", False, lambda x, m: opposite(attend(x, m), 0.01)),
    ]
    verdicts = []
    for what, right, function in degrees:
        run = effects(learner, SHIFT, as_module(learner, function), x, 3)
        check(not run.changed_inputs, "is_shift_invariant changes x.")
        check(not others(run), "is_shift_invariant leaves global state changed.")
        verdicts.append((f"attention {what}", run.value, right))
    judge(verdicts, SHIFT)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        seen = []
        learner.is_shift_invariant(as_module(learner, attend, seen), x.to(dtype), 3)
        check({t.dtype for t in seen} == {dtype}, f"tokens of {dtype} reach the module in another dtype.")
        check({t.size(1) for t in seen} >= {11}, "the module never sees the tokens with `shift` others in front.")
    # After a seed inside the function, whatever draws next draws the same numbers.
    drawn = []
    for _ in range(2):
        learner.is_shift_invariant(as_module(learner, attend), x, 3)
        drawn.append(learner.torch("Linear", 4, 4).state(record=False).parameters["weight"])
    check(not torch.equal(*drawn), "is_shift_invariant seeds torch's random numbers. Use a generator of its own.")


PERMUTATION = "is_permutation_equivariant"


@item("permutation", points=0.5, title="modules of known behaviour", hint="Permute inputs, or outputs: the same?")
def test_permutation_known(learner, reference, rng):
    known = [
        ("attention without positions", True, attend),
        ("attention whose tokens are numbered", False, lambda x, m: attend(x + 0.1 * numbered(x.size(1)), m)),
        ("attention that fades with distance, alike on both sides", False, lambda x, m: attend(x, m, fading)),
        ("tokens with numbers, alike for the first two and for the last two", False, lambda x, m: attend(x + ends(x.size(1)), m)),
        ("attention that favours earlier keys", False, lambda x, m: attend(x, m, earlier)),
        ("a function of single tokens", True, lambda x, m: x.double().tanh()),
        ("the mean of all tokens, for each token", True, lambda x, m: x.mean(1, keepdim=True).expand_as(x)),
        ("a sum over the tokens so far", False, lambda x, m: x.cumsum(1)),
        ("tokens that get their left neighbour added, in a ring", False, lambda x, m: x + x.roll(1, dims=1)),
        ("a function that mixes samples", True, lambda x, m: x + x.roll(1, dims=0)),
        ("a single feature of one sample that is numbered", False, lambda x, m: single(attend(x, m), 0.1)),
    ]
    verdicts = []
    for what, right, function in known:
        # With 9 tokens a random order is the same or reversed once in 180000.
        for batch, length in ((3, 9), (2, 12)):
            x = rng.normal(batch, length, 8)
            verdicts.append((what, learner.is_permutation_equivariant(as_module(learner, function), x), right))
    judge(verdicts, PERMUTATION)


@item("permutation", points=0.25, title="tolerance and global state", hint="About 1e-4; no seed; x stays as it was.")
def test_permutation_tolerance(learner, reference, rng):
    x = rng.normal(2, 10, 8)
    degrees = [
        ("whose outputs differ by rounding", True, lambda x, m: noisy(attend(x, m), 6e-7)),
        ("whose outputs differ by up to 0.03", False, lambda x, m: noisy(attend(x, m), 0.03)),
        (
            "of which one feature of one sample is numbered in steps of 0.02",
            False,
            lambda x, m: single(attend(x, m), 0.02),
        ),
    ]
    verdicts = []
    for what, right, function in degrees:
        run = effects(learner, PERMUTATION, as_module(learner, function), x)
        check(not run.changed_inputs, "is_permutation_equivariant changes x.")
        check(not others(run), "is_permutation_equivariant leaves global state changed.")
        verdicts.append((f"attention {what}", run.value, right))
    judge(verdicts, PERMUTATION)
    drawn = []
    for _ in range(2):
        learner.is_permutation_equivariant(as_module(learner, attend), x)
        drawn.append(learner.torch("Linear", 4, 4).state(record=False).parameters["weight"])
    check(
        not torch.equal(*drawn), "is_permutation_equivariant seeds torch's random numbers. Use a generator of its own."
    )

"""Hidden tests of topic 11. Eight points.

Two right answers have different parts inside, so nearly every test is about a property. Weights are loaded by the
prefix of the part that they belong to, never by a full name. For the same reason a mistake is known by what a test
finds, and not by the values that led to it: see `by_findings`.
"""

import functools
import math
import re
import zlib
from contextlib import contextmanager

import torch
import torch.nn.functional as F

from autograder.checks import (
    CheckFailed,
    Inputs,
    check,
    check_any_device,
    check_close,
    check_finite,
    check_tensor,
    check_unchanged,
    expect_error,
    item,
)
from autograder.probe import LearnerError

BRANCHES = ("attention.", "feed_forward.")
PARTS = ("norm1.", "attention.", "norm2.", "feed_forward.")
DOUBLE = torch.float64
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\w.+-]*")


def by_findings(test):
    """Keep values out of the trace of a test, and put in what it found: its sentence, without numbers and names (shapes are kept)."""

    @functools.wraps(test)
    def run(learner, reference, rng):
        with learner.quiet():
            try:
                return test(learner, reference, rng)
            except CheckFailed as error:
                text = str(error)
                learner.note(text if "shape" in text else NUMBER.sub("#", re.sub(r"\(.*?\)", "", text)))
                raise
            except LearnerError as error:
                if "dtype" in str(error):
                    note_weights(learner)
                raise

    return run


def note_weights(learner):
    """Note whether the attention holds too few weights for queries, keys, values and outputs: some hide in a list."""
    try:
        weights = learner.TransformerBlock(12, 3, 20).state(record=False).parameters
        learner.note(sum(v.numel() for n, v in weights.items() if n.startswith("attention.")) < 1.5 * 12 * 12)
    except (LearnerError, CheckFailed):
        learner.note("no block can be made")


# -- the block -------------------------------------------------------------------------------------------------------


def new_block(learner, d_model=12, num_heads=3, d_ff=20):
    block = learner.TransformerBlock(d_model, num_heads, d_ff)
    block.method("eval")
    block.method("double")
    return block


def redraw(module, rng, *, zero=(), only=None, std=0.4):
    """Load random values into every parameter (or those under the prefixes `only`); zeros under the prefixes `zero`.

    A value depends on the name of its parameter, not on how many others there are.
    """
    round_ = int(rng.integers(0, 2**40, 1))
    weights = {}
    for name, value in module.state(record=False).parameters.items():
        if only is None or name.startswith(only):
            own = Inputs(round_ + zlib.crc32(name.encode()))
            silent = zero and name.startswith(zero)
            weights[name] = torch.zeros_like(value) if silent else own.normal(*value.shape, dtype=value.dtype, std=std)
    module.load(weights)


def picture(learner, block, rng):
    """Note what the block does with plain parts in place of its own, which is the same for all insides.

    Where that is right, the mistake is in the norms: note what they do. Only on the way to a failure: a right block may
    call its parts in a way that plain ones do not know.
    """
    first, steps = rng.normal(2, 5, 12, dtype=DOUBLE, std=3.0), torch.arange(1, 6, dtype=DOUBLE)[:, None]
    try:
        own = [block.get(name) for name in ("norm1", "norm2")]
        plain = [learner.torch(kind, *sizes) for kind, *sizes in (("LayerNorm", 12), ("LayerNorm", 12), ("Linear", 12, 12))]
        for name, part in zip(("norm1", "norm2", "feed_forward"), plain, strict=True):
            part.method("double")
            redraw(part, rng)
            block.method("__setattr__", name, part)
        block.method("__setattr__", "attention", learner.callback(lambda h, *_, **__: h.cumsum(1) / steps))
        got = block(first)
        learner.note(got)
        norm1, norm2, linear = (part.state(record=False).parameters for part in plain)
        right = first + F.layer_norm(first, (12,), norm1["weight"], norm1["bias"]).cumsum(1) / steps
        right = right + F.linear(F.layer_norm(right, (12,), norm2["weight"], norm2["bias"]), linear["weight"], linear["bias"])
        if isinstance(got, torch.Tensor) and got.shape == right.shape and torch.allclose(got.double(), right, atol=1e-6):
            for norm in own:
                learner.note(norm_facts(learner, norm, rng))
    except LearnerError:
        learner.note("plain parts do not fit")


def norm_facts(learner, norm, rng):
    """What a norm does, whatever its gains: the power of the input's size that it keeps (0 in a norm, 1 where nothing is
    normed, -1 where the variance divides), and whether a feature of a token moves another token, other features of it,
    and another window."""
    norm = learner.torch("Sequential", norm)  # the trace would hold the name of its class
    x = rng.normal(2, 5, 12, dtype=DOUBLE)
    once, more, most = (norm(factor * x) for factor in (1, 7, 49))
    near, far = ((a - b).abs().max().item() for a, b in ((more, once), (most, more)))
    power = None
    if math.isfinite(near) and math.isfinite(far):
        power = 0 if near < 1e-3 * once.abs().max().item() else round(math.log(max(far, 1e-9) / near, 7))
    changed = x.clone()
    changed[1, 3, 0] += 1
    moved = (norm(changed) - once).abs() > 1e-6
    return [power, bool(moved[1, 0].any()), bool(moved[1, 0, 1:].any()), bool(moved[0].any())]


@contextmanager
def pictured(learner, block, rng):
    """Notes `picture` when the checks inside fail."""
    try:
        yield
    except CheckFailed:
        picture(learner, block, rng)
        raise


def silence(module, prefix):
    """Zero every parameter of a part, so that its branch adds nothing."""
    own = {n: torch.zeros_like(v) for n, v in module.state(record=False).parameters.items() if n.startswith(prefix)}
    module.load(own)
    return own


def check_parts(block):
    """Fail with a sentence when a part has not the name that the exercise gives."""
    for part in ("norm1", "attention", "norm2", "feed_forward"):
        block.get(part)
    names = list(block.state(record=False).parameters)
    for prefix in BRANCHES:
        found = any(name.startswith(prefix) for name in names)
        check(found, f"the part `{prefix[:-1]}` holds no weights. Is it a module that is assigned to self?")


@item(
    "block",
    points=0.5,
    title="a block with silent branches is the identity",
    hint="Each branch is added to its own input. Nothing else stands on the way from input to output.",
)
@by_findings
def test_block_identity(learner, reference, rng):
    block = new_block(learner)
    redraw(block, rng, zero=BRANCHES)
    # Not centred and not of unit variance, or a norm on the main path would hardly show.
    x = rng.normal(2, 5, 12, dtype=DOUBLE, std=3.0) + 1
    with pictured(learner, block, rng):
        check_close(block(x), x, "the output of a block whose attention and feed_forward have zero weights")
        check_parts(block)


@item(
    "block",
    points=0.5,
    title="each branch begins with its own norm",
    hint="attention sees norm1(x), and feed_forward sees norm2(y). The norms are two modules.",
)
@by_findings
def test_block_norms(learner, reference, rng):
    block = new_block(learner)
    # Norms put an eps of up to 1e-5 beside the variance, 900 here: a relative difference of 1e-8.
    x = rng.normal(2, 5, 12, dtype=DOUBLE, std=30.0)
    with pictured(learner, block, rng):
        check_norms(block, x, rng)


def check_norms(block, x, rng):
    for active, own, other in (("attention", "norm1.", "norm2."), ("feed_forward", "norm2.", "norm1.")):
        redraw(block, rng, zero=tuple(p for p in BRANCHES if p != active + "."))
        added = block(x) - x
        check_finite(added, f"what the {active} branch adds")
        scale = added.abs().max().item()
        check(scale > 1e-3, f"the {active} branch adds nothing to its input.")
        # The difference of two numbers near 7 * 100 in float64 is exact to 1e-13; eps moves the norm by 1e-8.
        check_close(block(7 * x) - 7 * x, added, f"what {active} adds to an input 7 times as large", atol=1e-5 * scale)
        names = list(block.state(record=False).parameters)
        if any(name.startswith(other) for name in names):
            before = block(x)
            redraw(block, rng, only=(other,))
            check_close(block(x), before, f"what the block does when only {active} is active and {other[:-1]} changes")
        if any(name.startswith(own) for name in names):
            before = block(x)
            redraw(block, rng, only=(own,))
            moved = (block(x) - before).abs().max().item()
            check(moved > 1e-6, f"the weights of {own[:-1]} make no difference to what {active} adds.")
    names = list(block.state(record=False).parameters)
    held = [any(name.startswith(norm) for name in names) for norm in ("norm1.", "norm2.")]
    check(held[0] == held[1], "norm1 and norm2 do not hold weights of their own. Are they one and the same module?")


@item(
    "block",
    points=0.5,
    title="first attention, then feed_forward on its result",
    hint="The second branch starts from y = x + attention(norm1(x)), both for its input and for its sum.",
)
@by_findings
def test_block_order(learner, reference, rng):
    block = new_block(learner)
    redraw(block, rng)
    x = rng.normal(2, 5, 12, dtype=DOUBLE, std=2.0)
    together = block(x)
    kept = block.state(record=False).parameters
    silence(block, "feed_forward.")
    attended = block(x)
    block.load({n: kept[n] for n in kept if n.startswith("feed_forward.")})
    silence(block, "attention.")
    with pictured(learner, block, rng):
        check_close(together, block(attended), "the block, compared with its two branches one after the other")


@item(
    "block",
    points=0.5,
    title="the block is causal",
    hint="A token sees itself and every earlier token, and no later one.",
)
@by_findings
def test_block_causal(learner, reference, rng):
    block = new_block(learner)
    redraw(block, rng, zero=("feed_forward.",))
    length = 6
    x = rng.normal(2, length, 12, dtype=DOUBLE)
    before = block(x)
    check_finite(before, "the output of the block")
    check_tensor(before, (2, length, 12), "the output of the block")
    sees = influence(block, x, before, rng)
    alone, other = (block(t) - t for t in (x[:, :1], x[:, 1:2]))
    if not (alone - other).abs().max().item() > 1e-6:  # NaN, too: a norm over the tokens may fail at a single one
        sees[0, 0] = False
    if not torch.equal(sees, torch.ones(length, length).tril().bool()):
        learner.note(sees)
        note_attention(learner, block, x, before)
        try:
            learner.note(norm_facts(learner, block.get("norm1"), rng)[1:])
        except LearnerError:
            learner.note("the norm does not fit")
    check(not sees.triu(1).any(), "a token makes a difference to outputs before it: attention looks ahead.")
    check(bool(sees.diagonal().all()), "a token does not attend to itself.")
    check(bool((sees | ~torch.ones(length, length).tril().bool()).all()), "a token does not see some earlier token.")
    # Weights so large that a token's score with itself is about -1e6 in some heads. A blocked score of -1e4 would win.
    redraw(block, rng, only=("attention.",), std=240.0)
    for length in (2, 6):
        x = rng.normal(3, length, 12, dtype=DOUBLE)
        before = block(x)
        x[:, 1:] = rng.normal(3, length - 1, 12, dtype=DOUBLE)
        check_close(block(x)[:, :1], before[:, :1], "the first output, when later tokens change and scores are large")


def note_attention(learner, block, x, before):
    """Two facts that tell wrong masks from a wrong softmax, and both from a norm that mixes tokens."""
    same = x[:, :1].expand(-1, 6, -1)
    swapped = x[:, [2, 1, 0, 3, 4, 5]]
    added = block(same) - same
    moved = (block(swapped) - swapped - (before - x))[:, 1]
    learner.note([bool(added.std(dim=1).max() < 1e-9), bool(moved.abs().max() < 1e-9)])
    loud = x * torch.tensor([1.0, 1.0, 1.0, 50.0, 1.0, 1.0], dtype=DOUBLE)[:, None]
    learner.note(bool(((block(loud) - loud) - (before - x))[:, :3].abs().max() < 1e-4))


def influence(block, x, before, rng):
    """A square mask: whether output i of the attention branch moves when input j does."""
    columns = []
    for j in range(x.size(1)):
        changed = x.clone()
        changed[:, j] = rng.normal(2, 12, dtype=DOUBLE)
        moved = ((block(changed) - changed) - (before - x)).abs().amax(dim=(0, 2))
        # Rounding moves sums of numbers near 10 by 1e-14; a weight of attention in unsaturated scores is far larger.
        columns.append(moved > 1e-9)
    return torch.stack(columns, dim=1)


@item(
    "block",
    points=0.25,
    title="feed_forward works on each token, and is not linear",
    hint="d_model to d_ff, an activation between the two layers, back to d_model.",
)
@by_findings
def test_block_feed_forward(learner, reference, rng):
    block = new_block(learner)
    redraw(block, rng, zero=("attention.",))
    # Centred rows of one length: any usual norm is a linear map of them, and a linear feed_forward would be, too.
    x = rng.normal(80, 2, 12, dtype=DOUBLE)
    x = x - x.mean(-1, keepdim=True)
    x = 3 * x / x.square().mean(-1, keepdim=True).sqrt()
    added = block(x) - x
    check_close(block(x[:, :1]) - x[:, :1], added[:, :1], "what feed_forward adds to a token, with and without another")
    rows, outputs = x.flatten(0, 1), added.flatten(0, 1)
    columns = torch.cat([rows, torch.ones(len(rows), 1, dtype=DOUBLE)], dim=1)
    rest = outputs - columns @ (torch.linalg.pinv(columns) @ outputs)
    share = (rest.square().sum() / (outputs - outputs.mean(0)).square().sum().clamp_min(1e-30)).sqrt().item()
    check(share > 1e-3, "feed_forward is a linear map of its input: an activation has to stand between its layers.")
    highest, lowest = outputs.max().item(), outputs.min().item()
    check(
        highest > 0.1 * abs(lowest) and -lowest > 0.1 * abs(highest),
        "what feed_forward adds has hardly a sign but one. The last thing in it is a linear layer, not an activation.",
    )
    sizes = []
    for d_ff in (20, 44):
        parameters = learner.TransformerBlock(12, 3, d_ff).state(record=False).parameters
        sizes.append(sum(v.numel() for n, v in parameters.items() if n.startswith("feed_forward.")))
    check(sizes[1] > sizes[0], "feed_forward has as many weights for d_ff=44 as for d_ff=20.")


@item(
    "block",
    points=0.25,
    title="the block works in every dtype, on every device, and leaves its input alone",
    hint="Make new tensors with the device and dtype of x.",
)
@by_findings
def test_block_types(learner, reference, rng):
    block = new_block(learner)
    x = rng.normal(2, 5, 12, dtype=DOUBLE)
    check_close(check_unchanged(learner, block, x), block(x), "the output of a second call")
    got = learner.backward(block, x.clone().requires_grad_())
    check(got.inputs[0] is not None, "no gradient reaches the input of the block.")
    check_reached(got.parameters)
    wide = block(x)
    for dtype, method in ((torch.float32, "float"), (torch.bfloat16, "bfloat16"), (torch.float16, "half")):
        block.method(method)
        output = block(x.to(dtype))
        # Some ten operations on values of up to 5, each rounded by eps / 2, add up to about 16 eps at most.
        atol = 16 * torch.finfo(dtype).eps * wide.abs().max().item()
        check_close(output, wide, f"the output of the block in {dtype}", dtype=dtype, atol=atol)
    block.method("float")
    check_any_device(learner, block, x.float())
    with expect_error("d_model=10 with 3 heads", "any"):
        learner.TransformerBlock(10, 3, 16)(rng.normal(2, 4, 10))


def check_reached(parameters):
    lost = [name for name, gradient in parameters.items() if gradient is None]
    parts = [part[:-1] for part in PARTS if any(f".{name}".find(f".{part}") >= 0 for name in lost)]
    where = f" of {' and '.join(parts)}" if parts else ""
    check(not lost, f"no gradient reaches some weights{where} ({', '.join(map(str, lost[:3]))}). Does each part take part in forward?")


# -- the model -------------------------------------------------------------------------------------------------------


def new_model(learner, vocab_size=13, d_model=12, num_heads=3, num_layers=2, max_len=10):
    model = learner.TinyTransformer(vocab_size, d_model, num_heads, num_layers, max_len)
    model.method("eval")
    return model


@item(
    "model",
    points=0.5,
    title="logits for every token, up to max_len",
    hint="(B, L) ids in, (B, L, vocab_size) logits out; compare L with max_len first.",
)
@by_findings
def test_model_shapes(learner, reference, rng):
    model = new_model(learner)
    # The first window has B = L: a position table that is read along the wrong axis computes there.
    for batch, length in ((4, 4), (2, 7), (1, 1), (3, 10)):
        logits = model(rng.integers(0, 13, batch, length))
        check_tensor(logits, (batch, length, 13), f"the logits of {batch} windows of {length} tokens", torch.float32)
        check_finite(logits, "the logits")
    sums_to_one = bool((logits.sum(-1) - 1).abs().max() < 1e-3)
    check(not (sums_to_one and bool((logits >= 0).all())), "the model returns probabilities; return logits.")
    check(model.get("max_len") == 10, "the attribute max_len is not the max_len of the constructor.")
    with expect_error("11 tokens with max_len=10", "ValueError", "AssertionError", mentions=[11, 10]):
        model(rng.integers(0, 13, 2, 11))
    with expect_error("21 tokens with max_len=10", "ValueError", "AssertionError", mentions=[21, 10]):
        model(rng.integers(0, 13, 1, 21))


@item(
    "model",
    points=0.5,
    title="the logits depend on earlier tokens and their order, and on no later one",
    hint="Every block is causal, and positions are added or rotated before the attention.",
)
@by_findings
def test_model_causal(learner, reference, rng):
    model = new_model(learner)
    model.method("double")
    redraw(model, rng)
    tokens = rng.integers(0, 13, 2, 9)
    before = model(tokens)
    for j in range(1, 9):
        changed = tokens.clone()
        changed[:, j:] = (changed[:, j:] + rng.integers(1, 13, 2, 9 - j)) % 13
        after = model(changed)
        check_close(after[:, :j], before[:, :j], f"the logits before token {j}, when the tokens from {j} on change")
    changed = tokens.clone()
    changed[:, 0] = (changed[:, 0] + 5) % 13
    moved = (model(changed) - before).abs().amax(dim=(0, 2))
    check(bool((moved > 1e-6).all()), "the first token makes no difference to the logits of some token after it.")
    single = new_model(learner, num_layers=1)
    single.method("double")
    redraw(single, rng)
    tokens = torch.tensor([[3, 7, 1, 5, 2], [4, 0, 9, 5, 8]])
    for order in ([1, 0, 2, 3, 4], [0, 2, 1, 3, 4], [3, 1, 2, 0, 4]):
        moved = (single(tokens[:, order]) - single(tokens))[:, -1].abs().amax(-1)
        check(bool((moved > 1e-6).all()), "the order of the earlier tokens makes no difference to one layer.")


@item(
    "model",
    points=0.5,
    title="every layer has its own weights, and every sample its own logits",
    hint="A ModuleList of num_layers blocks, each made anew.",
)
@by_findings
def test_model_layers(learner, reference, rng):
    sizes = []
    for layers in (1, 2, 3, 5):
        # Recorded: the names tell a shared block from a list that hides the blocks and from a fixed number of them.
        parameters = new_model(learner, num_layers=layers).state(record=False).parameters
        sizes.append(sum(v.numel() for v in parameters.values()))
    if sizes[1] == sizes[0]:
        # A handful of tensors without any block, some twenty with one block, more with several.
        learner.note(sum(len(parameters) > limit for limit in (8, 24)))
    check(sizes[1] > sizes[0], "a second layer adds no weights. Is one block shared, or a list hiding them?")
    even = sizes[2] - sizes[1] == sizes[1] - sizes[0] and sizes[3] - sizes[2] == 2 * (sizes[1] - sizes[0])
    check(even, "the number of weights does not grow by the same amount with each layer.")
    model = new_model(learner, num_layers=3)
    model.method("double")
    redraw(model, rng)
    tokens = rng.integers(0, 13, 4, 7)
    logits = model(tokens)
    with noting(learner, lambda: windows_meet(model, tokens, logits)):
        for i in range(4):
            check_close(model(tokens[i : i + 1]), logits[i : i + 1], "the logits of a window alone, compared with a batch")
    check_reached(learner.backward(model, tokens).parameters)


def windows_meet(model, tokens, logits):
    """Whether a window's logits move when the tokens of another window do, or only with the number of windows."""
    changed = tokens.clone()
    changed[1:] = (changed[1:] + 1) % 13
    return bool((model(changed) - logits)[0].abs().max() > 1e-9)


@item(
    "model",
    points=0.25,
    title="the first loss is near ln V",
    hint="A fresh model gives every token about the same probability: its logits are small.",
)
@by_findings
def test_model_initial_loss(learner, reference, rng):
    for vocab_size, d_model, length in ((29, 32, 24), (11, 48, 16)):
        model = new_model(learner, vocab_size, d_model, 4, 2, length)
        tokens = rng.integers(0, vocab_size, 16, length + 1)
        logits = model(tokens[:, :-1])
        check_tensor(logits, (16, length, vocab_size), "the logits")
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).item()
        away = abs(loss - math.log(vocab_size))
        if away >= 0.7:
            learner.note((logits.argmax(-1) == tokens[:, :-1]).float().mean().item() > 0.5)
        check(away < 0.7, f"the loss of a fresh model is {away:.1f} away from ln V (allowed: 0.7).")


@item(
    "model",
    points=0.25,
    title="the model runs on every device and leaves tokens and global state alone",
    hint="torch.arange(L, device=tokens.device), and no seed in forward.",
)
@by_findings
def test_model_device(learner, reference, rng):
    model = new_model(learner)
    tokens = rng.integers(0, 13, 2, 7)
    logits = check_unchanged(learner, model, tokens)
    check_close(model(tokens), logits, "the logits of a second call with the same tokens")
    check_any_device(learner, model, tokens)


# -- training --------------------------------------------------------------------------------------------------------


def pair_model(side, embedding, weight, bias, max_len):
    """torch's own Embedding and Linear in a row: the logits depend on the present token alone."""
    vocab_size, d_model = embedding.shape
    first, last = side.torch("Embedding", vocab_size, d_model), side.torch("Linear", d_model, weight.size(0))
    model = side.torch("Sequential", first, last)
    model.method("__setattr__", "max_len", max_len)
    return model.load({"0.weight": embedding, "1.weight": weight, "1.bias": bias})


def check_losses(losses, steps):
    kind = "None" if losses is None else f"an object of type {type(losses).__name__}"
    check(isinstance(losses, list | tuple), f"train should return a list with the loss of each step, not {kind}.")
    check(len(losses) == steps, f"train returned {len(losses)} losses for {steps} steps.")
    check(all(type(loss) is float for loss in losses), "the losses should be Python floats: loss.item().")
    check(all(math.isfinite(loss) for loss in losses), "a loss is not finite.")


def check_state(effects, what):
    others = [name for name in effects.changed_state if name != "random state"]
    check(not effects.changed_inputs, f"{what} changes the tensor of tokens that it was given.")
    check(not others, f"{what} changes global state: {', '.join(map(str, others))}.")


@item(
    "train",
    points=0.5,
    title="the losses of the batches, repeatable by their seed",
    hint="One mean cross-entropy per step, taken before the step; windows drawn from a generator with the seed.",
)
@by_findings
def test_train_losses(learner, reference, rng):
    # Going round in a circle, with logits that depend on the distance between two tokens alone: every prediction has
    # the same loss, whatever the windows.
    circle, scores = torch.arange(7).repeat(13), rng.normal(7)
    weight = torch.stack([scores.roll(i) for i in range(7)], dim=1)
    model = pair_model(learner, torch.eye(7), weight, torch.zeros(7), 5)
    losses = learner.train(model, circle, 1, 4, 0.05)
    check_losses(losses, 1)
    off = abs(losses[0] - (scores.logsumexp(0) - scores[1]).item())
    if off >= 1e-4:
        learner.note(losses[0])
    check(off < 1e-4, "the first loss is not the mean cross-entropy of the next token under the untrained model.")
    stream, embedding, zeros = rng.integers(0, 7, 90), rng.normal(7, 6), torch.zeros(7)
    model = pair_model(learner, embedding, torch.zeros(7, 6), zeros, 5)
    effects = learner.effects("train", model, stream, 9, 4, 0.05, seed=3)
    check_losses(effects.value, 9)
    check_state(effects, "train")
    weight = rng.normal(7, 6)
    runs = []
    for count in (1, 4):
        for _ in range(count):
            learner.torch("Linear", 3, 3)  # draws from the global random state, which must not matter
        model = pair_model(learner, embedding, weight, zeros, 5)
        runs.append(learner.train(model, stream, steps=9, batch_size=4, learning_rate=0.05, seed=5))
        check_losses(runs[-1], 9)
    apart = max(abs(a - b) for a, b in zip(*runs, strict=True))
    check(apart < 1e-4, "two runs with the same seed, model and text give different losses.")


@item(
    "train",
    points=0.5,
    title="the model learns the next token, all over the text",
    hint="The target is the input one token later. Windows come from anywhere in the stream.",
)
@by_findings
def test_train_next(learner, reference, rng):
    # Two circles of five tokens; the second half of the stream knows nothing of the first.
    circles = [torch.randperm(5, generator=torch.Generator().manual_seed(rng.seed % 1000 + i)) for i in range(2)]
    stream = torch.cat([circles[0].repeat(40), circles[1].repeat(40) + 5])
    embedding, weight = rng.normal(10, 16), rng.normal(10, 16, std=0.1)
    model = pair_model(learner, embedding, weight, torch.zeros(10), 8)
    losses = learner.train(model, stream, 300, 8, 0.1)
    check_losses(losses, 300)
    with noting(learner, [losses[-1] > 1.2 * losses[0], losses[-1] < 0.5 * losses[0]]):
        check_learnt(model, stream, embedding, weight)


@contextmanager
def noting(learner, fact):
    """Notes a fact when the checks inside fail; a function that finds it is called then."""
    try:
        yield
    except CheckFailed:
        learner.note(fact() if callable(fact) else fact)
        raise


def check_learnt(model, stream, embedding, weight):
    state = model.state(record=False).parameters
    moved = [not torch.equal(state["0.weight"], embedding), not torch.equal(state["1.weight"], weight)]
    check(any(moved), "train does not change the model that it was given.")
    check(all(moved), "train changes some of the weights and leaves others as they were.")
    model.method("eval")
    logits = as_logits(model(stream[None]), len(stream), 10)
    for half, part in (("first", slice(0, 199)), ("second", slice(200, 399))):
        targets = stream[1:][part]
        loss = F.cross_entropy(logits[:-1][part], targets).item()
        echo = (logits[:-1][part].argmax(-1) == stream[:-1][part]).float().mean().item()
        check(echo < 0.5, "after training the model repeats the present token: the targets are not shifted by one.")
        check(loss < 0.8, f"after training the model has not learnt what follows what in the {half} half of the text.")


def as_logits(logits, length, vocab_size):
    check_tensor(logits, (1, length, vocab_size), "the logits of the trained model")
    check_finite(logits, "the logits of the trained model")
    return logits[0]


@item(
    "train",
    points=0.5,
    title="windows, batch size, learning rate and gradients",
    hint="Each step: batch_size windows, gradients cleared, one step with the given learning rate.",
)
@by_findings
def test_train_care(learner, reference, rng):
    size, max_len = 61, 6
    stream = torch.randperm(size, generator=torch.Generator().manual_seed(rng.seed % 100_000))
    check_windows(learner, stream, size, max_len)
    # Gradients of earlier steps: after the last step only the rows of its 2 * 3 tokens may hold one.
    model = pair_model(learner, rng.normal(size, 6), rng.normal(size, 6), torch.zeros(size), 3)
    learner.train(model, stream, 8, 2, 0.05)
    gradient = model.get("0.weight.grad")
    if isinstance(gradient, torch.Tensor) and gradient.shape == (size, 6):
        rows = int((gradient != 0).any(dim=1).sum())
        check(rows <= 6, "the gradients of earlier steps are still there: clear them before each backward.")
    # One step moves the embedding of every token that was read. Rows of equal length give gradients of like size, and
    # small embeddings keep weight decay far below them.
    embedding, weight = rng.normal(size, 6, std=0.1), F.normalize(rng.normal(size, 6))
    model = pair_model(learner, embedding, weight, torch.zeros(size), 3)
    learner.train(model, stream, 1, 2, 0.05)
    steps = (model.state(record=False).parameters["0.weight"] - embedding).norm(dim=1)
    check(int((steps > 0.2 * steps.max()).sum()) >= 3, "a step learns from some tokens of a window and not from all.")
    embedding, weight = rng.normal(size, 6), rng.normal(size, 6)
    model = pair_model(learner, embedding, weight, torch.zeros(size), 3)
    learner.train(model, stream, 5, 2, 1e-7)
    state = model.state(record=False).parameters
    moved = max((state["0.weight"] - embedding).abs().max().item(), (state["1.weight"] - weight).abs().max().item())
    check(moved < 1e-5, "with a learning rate of 1e-7 the weights move far. Is learning_rate used?")


def check_windows(learner, stream, size, max_len):
    place = torch.empty(size, dtype=torch.long).scatter_(0, stream, torch.arange(size))
    seen = []

    def watch(tokens):
        seen.append(tokens)
        return F.one_hot(tokens.clamp(0, size - 1), size).float()

    watcher = learner.torch("Sequential", learner.callback(watch), learner.torch("Linear", size, size))
    watcher.method("__setattr__", "max_len", max_len)
    effects = learner.effects("train", watcher, stream, 5, 4, 0.05)
    check_losses(effects.value, 5)
    check_state(effects, "train")
    check(all(t.dim() == 2 for t in seen), "the model should be called with tokens of shape (B, L).")
    check(all(t.size(1) <= max_len for t in seen), "the model gets more than max_len tokens at once.")
    starts = set()
    for row in (row for batch in seen for row in batch):
        places = place[row]
        check(bool((places.diff() == 1).all()), "a window is not a piece of the text: its tokens are not neighbours.")
        starts.add(int(places[0]))
    rows = sum(len(batch) for batch in seen)
    check(20 <= rows <= 60, f"in 5 steps with batch_size=4 the model saw {rows} windows.")
    if len(starts) < 7:
        one = all(len(batch) > 1 and bool((batch == batch[:1]).all()) for batch in seen)
        learner.note("one window per batch" if one else [len(starts) > 4, max(starts) < 4, max(starts) < max_len])
    check(len(starts) >= 7, "the windows begin at the same few places of the text.")
    check(max(t.size(1) for t in seen) > 1, "each window holds one token only: there is no context to learn from.")


# -- all together ----------------------------------------------------------------------------------------------------


@item(
    "learn",
    points=0.5,
    title="your model learns a small language",
    hint="Which of the earlier checks fails?",
    slow=True,
)
def test_learn(learner, reference, rng):
    # Four words, each an order of the same six letters: the loss falls from ln 7 = 1.95 to 0.27 where context is used.
    # Right models end between 0.26 (AdamW) and 1.3 (plain gradient descent, which the contract allows).
    letters = torch.Generator().manual_seed(rng.seed % 1_000_000)
    words = [torch.cat([torch.randperm(6, generator=letters) + 1, torch.zeros(1, dtype=torch.long)]) for _ in range(4)]
    stream = torch.cat([words[i] for i in rng.integers(0, 4, 250).tolist()])
    model = learner.TinyTransformer(7, 32, 4, 2, 21)
    losses = learner.train(model, stream, steps=500, batch_size=8, learning_rate=0.02, seed=1)
    check_losses(losses, 500)
    bound = 0.75 * math.log(7)
    away = abs(losses[0] - math.log(7))
    check(away < 0.7, f"the first loss is {away:.1f} away from ln V (allowed: 0.7).")
    last = sum(losses[-50:]) / 50
    check(last < bound, f"the last 50 of 500 losses are {last:.2f} on average; they should be below {bound:.2f}.")
    model.method("eval")
    windows = torch.stack([stream[i : i + 22] for i in range(0, 1700, 21)])
    logits = model(windows[:, :-1])
    check_tensor(logits, (len(windows), 21, 7), "the logits of the trained model")
    loss = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten()).item()
    check(loss < bound, f"the loss of the trained model on the text is {loss:.2f}; it should be below {bound:.2f}.")


# -- generation ------------------------------------------------------------------------------------------------------


def check_text(got, prompt, length, vocab_size, what="the result of generate"):
    check_tensor(got, (1, prompt.size(1) + length), what, torch.int64)
    check(torch.equal(got[:, : prompt.size(1)], prompt), f"{what} does not begin with the prompt.")
    check(bool(((got >= 0) & (got < vocab_size)).all()), f"{what} holds ids that are no tokens.")


@item(
    "generate",
    points=0.5,
    title="greedy text begins with the prompt and follows the model",
    hint="At temperature 0 append the argmax of the last token's logits, `length` times.",
)
def test_generate_greedy(learner, reference, rng):
    size = 9
    order = torch.randperm(size, generator=torch.Generator().manual_seed(rng.seed % 100_000))
    after = torch.empty(size, dtype=torch.long).scatter_(0, order, order.roll(-1))
    # Row a of the logits is highest at after[a], by 1.5 at least: noise of 0.5 at most, a peak of 2.5.
    weight = 2.5 * F.one_hot(after, size).float().T + rng.normal(size, size).clamp(-1, 1) * 0.5
    model = pair_model(learner, torch.eye(size), weight, torch.zeros(size), 5)
    prompt = rng.integers(0, size, 1, 4)
    with learner.quiet():  # right programs seed the global state, or not
        effects = learner.effects("generate", model, prompt, 3, 0)
    check_text(effects.value, prompt, 3, size, "greedy text")
    check_state(effects, "generate")
    for prompt in (rng.integers(0, size, 1, 3), rng.integers(0, size, 1, 1), rng.integers(0, size, 1, 8)):
        expected = prompt[0].tolist()
        for _ in range(12):
            expected.append(int(after[expected[-1]]))
        got = learner.generate(model, prompt, 12, temperature=0)
        check_text(got, prompt, 12, size, "greedy text")
        right = torch.equal(got[0], torch.tensor(expected))
        check(right, f"greedy text after a prompt of {prompt.size(1)} tokens is not the most probable one.")
        again = learner.generate(model, prompt, 12, temperature=0.0, seed=1)
        check_close(again, got, "greedy text with another seed")
    with learner.quiet():
        effects = learner.effects("generate", model, prompt, 3, 1.0)
    check_text(effects.value, prompt, 3, size)
    check_state(effects, "generate")
    same = torch.equal(model.state(record=False).parameters["1.weight"], weight)
    check(same, "generate changes the weights of the model.")


@item(
    "generate",
    points=0.5,
    title="the context is the last max_len tokens",
    hint="tokens[:, -model.max_len:], anew for each token.",
)
def test_generate_context(learner, reference, rng):
    size, max_len = 11, 4
    seen = []

    def follow(tokens):
        """The next token after `tokens`; it depends on the first, the last and the number of them."""
        return (3 * tokens[0] + 5 * tokens[-1] + 2 * len(tokens) + 1) % size

    def watch(tokens):
        seen.append(tuple(tokens.shape))
        rows = [[follow(row[: i + 1]) for i in range(len(row))] for row in tokens.tolist()]
        return 8 * F.one_hot(torch.tensor(rows), size).float()

    last = learner.torch("Linear", size, size, bias=False)
    model = learner.torch("Sequential", learner.callback(watch), last).load({"1.weight": torch.eye(size)})
    model.method("__setattr__", "max_len", max_len)
    for prompt_length in (1, 4, 9):
        prompt = rng.integers(0, size, 1, prompt_length)
        expected = prompt[0].tolist()
        for _ in range(10):
            expected.append(follow(expected[-max_len:]))
        seen.clear()
        got = learner.generate(model, prompt, 10, temperature=0)
        check(all(len(s) == 2 for s in seen), "the model should be called with tokens of shape (1, L).")
        check(all(s[1] <= max_len for s in seen), "the model gets more than max_len tokens. Crop the context.")
        check_text(got, prompt, 10, size, "greedy text")
        right = torch.equal(got[0], torch.tensor(expected))
        check(right, "greedy text differs from that of a model which sees exactly the last max_len tokens.")


@item(
    "generate",
    points=0.5,
    title="sampling follows temperature and seed",
    hint="Draw from softmax(logits / temperature) with a generator made from the seed, once per call.",
)
@by_findings
def test_generate_sampling(learner, reference, rng):
    order = torch.randperm(5, generator=torch.Generator().manual_seed(rng.seed % 100_000))
    bias = torch.tensor([1.5, 0.5, 0.0, -0.5, -1.5])[order]
    # The logits are the same after every token, so that the draws are independent.
    model = pair_model(learner, torch.zeros(5, 2), torch.zeros(5, 2), bias, 4)
    prompt = rng.integers(0, 5, 1, 2)
    first = learner.generate(model, prompt, 40, seed=3)
    check_text(first, prompt, 40, 5, "a sample")
    other = learner.generate(model, prompt, 40, seed=4)
    if torch.equal(other, first):
        learner.note(bool((first[0, 2:] == first[0, 2]).all()))
    check(not torch.equal(other, first), "seeds 3 and 4 give the same text.")
    learner.torch("Linear", 3, 3)  # draws from the global random state, which must not matter
    check_close(learner.generate(model, prompt, 40, seed=3), first, "the text of a second call with the same seed")
    check_close(learner.generate(model, prompt, 40, 1.0, 3), first, "the text at temperature 1.0, which is the default")
    count = 800
    for temperature in (1.0, 0.5, 2.0):
        text = learner.generate(model, prompt, count, temperature=temperature, seed=11)
        check_text(text, prompt, count, 5, "a sample")
        share = torch.bincount(text[0, 2:], minlength=5).double() / count
        p = torch.softmax(bias.double() / temperature, dim=-1)
        # 5.5 standard deviations are exceeded once in ten million tries; the rarest token is expected 2 times, and the
        # tail of so small a count is longer, by 4 draws.
        limit = 5.5 * (p * (1 - p) / count).sqrt() + 4 / count
        fits = bool(((share - p).abs() < limit).all())
        if not fits:
            # Which use of the temperature comes closest: none, turned round, or no chance at all.
            others = [torch.softmax(bias.double() * factor, dim=-1) for factor in (1.0, temperature, 1e6, 0.0)]
            learner.note(min(range(4), key=lambda i: (share - others[i]).abs().max().item()))
        check(fits, f"at temperature {temperature} tokens are not drawn from softmax(logits / temperature).")
    # exp(150) is infinite in float32, and the best token has a probability of 1 - exp(-100).
    cold = learner.generate(model, prompt, 6, temperature=0.01)
    check_text(cold, prompt, 6, 5, "a sample at temperature 0.01")
    check(bool((cold[0, 2:] == bias.argmax()).all()), "at temperature 0.01 another token than the best is drawn.")

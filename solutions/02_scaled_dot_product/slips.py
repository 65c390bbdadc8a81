"""Known mistakes of topic 02. Read as text by `autograder.slips`; ids are those of the catalogue of mistakes."""

from autograder.slips import edit, slip

# -- softmax ---------------------------------------------------------------------------------------------------------

edit(
    "SM-01",
    "The softmax takes exp of the raw values. Large values overflow to infinity: subtract each slice's maximum first.",
    ("shifted = x - x.amax(dim=dim, keepdim=True)", "shifted = x"),
)
edit(
    "SM-02",
    "One maximum of the whole tensor is subtracted. A slice far below it becomes 0/0: each slice needs its own maximum.",
    ("x.amax(dim=dim, keepdim=True)", "x.max()"),
)
edit(
    "SM-04",
    "The largest absolute value is subtracted. A slice of large negative numbers then underflows to 0/0: use the maximum.",
    ("x.amax(dim=dim, keepdim=True)", "x.abs().amax(dim=dim, keepdim=True)"),
)
edit(
    "SM-04b",
    "The number that is subtracted is never below 0, as when a running maximum starts at 0. A slice of large negative "
    "numbers then underflows to 0/0: start at -inf, or use the maximum.",
    ("x.amax(dim=dim, keepdim=True)", "x.amax(dim=dim, keepdim=True).clamp(min=0)"),
)
edit(
    "SM-05",
    "The mean is subtracted, not the maximum. Widely spread values still overflow.",
    ("x.amax(dim=dim, keepdim=True)", "x.mean(dim=dim, keepdim=True)"),
)
edit(
    "SM-06",
    "The minimum is subtracted, not the maximum. Widely spread values still overflow.",
    ("x.amax(dim=dim, keepdim=True)", "x.amin(dim=dim, keepdim=True)"),
)
edit(
    "SM-08",
    "The maximum is taken without keepdim=True, so it lines up with the wrong axis.",
    ("x.amax(dim=dim, keepdim=True)", "x.amax(dim=dim)"),
)
edit(
    "SM-08b",
    "The sum is taken without keepdim=True, so it lines up with the wrong axis.",
    ("exponentials.sum(dim=dim, keepdim=True)", "exponentials.sum(dim=dim)"),
    same_as=("SM-08",),
)


@slip("SM-09", "The softmax always runs over the last axis and ignores the argument `dim`.")
def softmax(x, dim=-1):
    e = (x - x.amax(dim=-1, keepdim=True)).exp()
    return e / e.sum(dim=-1, keepdim=True)


@slip("SM-10", "The softmax always runs over axis 1 and ignores the argument `dim`.")
def softmax(x, dim=-1):
    e = (x - x.amax(dim=1, keepdim=True)).exp()
    return e / e.sum(dim=1, keepdim=True)


@slip("SM-12", "F.softmax is called without its axis. The old rule then picks axis 0 or 1 by the number of dimensions.")
def softmax(x, dim=-1):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return F.softmax(x)


@slip("SM-13", "The values are clamped before exp. That loses the differences between values beyond the clamp.")
def softmax(x, dim=-1):
    e = x.clamp(-50, 50).exp()
    return e / e.sum(dim=dim, keepdim=True)


edit(
    "SM-14",
    "A small number is added to the denominator, so that the weights do not sum to 1. The sum can't be 0: leave it out.",
    ("exponentials.sum(dim=dim, keepdim=True)", "(exponentials.sum(dim=dim, keepdim=True) + 1e-9)"),
)


@slip("SM-16", "The softmax computes in float32 and returns float32, whatever came in. Cast back to the dtype of x.")
def softmax(x, dim=-1):
    x = x.float()
    e = (x - x.amax(dim=dim, keepdim=True)).exp()
    return e / e.sum(dim=dim, keepdim=True)


@slip("SM-16b", "The softmax goes through float32 and back. For float64 input that loses half of the digits.")
def softmax(x, dim=-1):
    kind = x.dtype
    x = x.float()
    e = (x - x.amax(dim=dim, keepdim=True)).exp()
    return (e / e.sum(dim=dim, keepdim=True)).to(kind)


@slip("SM-19", "The softmax subtracts the maximum in place and so changes the caller's tensor.")
def softmax(x, dim=-1):
    with torch.no_grad():
        m = x.amax(dim=dim, keepdim=True)
        x -= m
    e = x.exp()
    return e / e.sum(dim=dim, keepdim=True)


@slip("SM-21", "The exponentials are divided by their maximum, not by their sum: the slices do not sum to 1.")
def softmax(x, dim=-1):
    e = (x - x.amax(dim=dim, keepdim=True)).exp()
    return e / e.amax(dim=dim, keepdim=True)


@slip("SM-20", "The gradient of the softmax is cut: a detach, .data or numpy call stands in the way.")
def softmax(x, dim=-1):
    e = (x - x.amax(dim=dim, keepdim=True)).detach().exp()
    return e / e.sum(dim=dim, keepdim=True)


# -- scale and softmax axis ------------------------------------------------------------------------------------------

edit(
    "SD-01",
    "The scores are not scaled: the factor 1/sqrt(d) is missing.",
    ("(q / math.sqrt(q.size(-1)))", "q"),
)
edit(
    "SD-02",
    "The scores are divided by d_k, not by its square root.",
    ("math.sqrt(q.size(-1))", "q.size(-1)"),
)


@slip("SD-04", "The scale is applied to the weights, after the softmax. It belongs to the scores, before it.")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = torch.nan_to_num(softmax(scores)) / math.sqrt(q.size(-1))
    return weights @ v, weights


edit(
    "SD-05",
    "The scale comes from the number of keys, not from the size d of a query.",
    ("math.sqrt(q.size(-1))", "math.sqrt(k.size(-2))"),
)
edit(
    "SD-05b",
    "The scale comes from the number of queries, not from the size d of a query.",
    ("math.sqrt(q.size(-1))", "math.sqrt(q.size(-2))"),
)
edit(
    "SD-05c",
    "The scale comes from the size of a value, not from the size d of a query.",
    ("math.sqrt(q.size(-1))", "math.sqrt(v.size(-1))"),
)
edit(
    "SD-06",
    "The scale comes from axis 1, which holds heads or positions, not from the last axis of q.",
    ("math.sqrt(q.size(-1))", "math.sqrt(q.size(1))"),
)
edit(
    "SD-07",
    "The scores are multiplied by sqrt(d); they have to be divided by it.",
    ("q / math.sqrt(q.size(-1))", "q * math.sqrt(q.size(-1))"),
)
edit(
    "SD-08",
    "The softmax runs over the queries (dim=-2). Each query's weights over the keys have to sum to 1: use the last axis.",
    ("weights = softmax(scores)\n", "weights = softmax(scores, dim=-2)\n"),
    ("softmax(scores.masked_fill(nowhere, 0.0))", "softmax(scores.masked_fill(nowhere, 0.0), dim=-2)"),
)
edit(
    "SD-09",
    "The softmax runs over axis 1, which holds the heads. Each query's weights over the keys have to sum to 1.",
    ("weights = softmax(scores)\n", "weights = softmax(scores, dim=1)\n"),
    ("softmax(scores.masked_fill(nowhere, 0.0))", "softmax(scores.masked_fill(nowhere, 0.0), dim=1)"),
)
edit(
    "SD-11",
    "The softmax runs over the first axis, the batch. Each query's weights over the keys have to sum to 1.",
    ("weights = softmax(scores)\n", "weights = softmax(scores, dim=0)\n"),
    ("softmax(scores.masked_fill(nowhere, 0.0))", "softmax(scores.masked_fill(nowhere, 0.0), dim=0)"),
)
edit(
    "SD-10",
    "The softmax runs over axis 2, which is the right one only for three dimensions. Count from the end: dim=-1.",
    ("weights = softmax(scores)\n", "weights = softmax(scores, dim=2)\n"),
    ("softmax(scores.masked_fill(nowhere, 0.0))", "softmax(scores.masked_fill(nowhere, 0.0), dim=2)"),
)

# -- products --------------------------------------------------------------------------------------------------------

edit(
    "SD-12",
    "k.transpose(1, 2) swaps the right axes only for three dimensions. Count from the end: transpose(-2, -1).",
    ("k.transpose(-2, -1)", "k.transpose(1, 2)"),
)
edit(
    "SD-13",
    "k.T reverses all axes. Only the last two have to be swapped: transpose(-2, -1).",
    ("k.transpose(-2, -1)", "k.permute(*reversed(range(k.dim())))"),
)
edit(
    "SD-14",
    "k is reshaped to (d, S), which mixes its entries up. Swap the two axes with transpose(-2, -1).",
    ("k.transpose(-2, -1)", "k.reshape(*k.shape[:-2], k.size(-1), k.size(-2))"),
)
edit(
    "SD-16",
    "The weights are transposed before the product with v.",
    (
        "        return weights @ v, weights\n    keep",
        "        return weights.transpose(-2, -1) @ v, weights\n    keep",
    ),
    (
        "masked_fill(nowhere, 0.0)\n    return weights @ v",
        "masked_fill(nowhere, 0.0)\n    return weights.transpose(-2, -1) @ v",
    ),
)


@slip("SD-17", "Keys and values are swapped: the scores are made with v and the average is taken over k.")
def scaled_dot_product_attention(q, k, v, mask=None):
    k, v = v, k
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = torch.nan_to_num(softmax(scores))
    return weights @ v, weights


@slip("SD-18", "Keys and values are cut to the number of queries. L and S may differ.")
def scaled_dot_product_attention(q, k, v, mask=None):
    n = q.size(-2)
    k, v = k[..., :n, :], v[..., :n, :]
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask[..., :n] == 0, float("-inf"))
    weights = torch.nan_to_num(softmax(scores))
    return weights @ v, weights


@slip("SD-20", "The attention computes in float32 and returns float32. Cast the results back to the dtype of the inputs.")
def scaled_dot_product_attention(q, k, v, mask=None):
    q, k, v = q.float(), k.float(), v.float()
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = torch.nan_to_num(softmax(scores))
    return weights @ v, weights


@slip("SD-27", "The unmasked weights are returned: the mask has to act on the weights, too.")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    first = softmax(scores)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    return torch.nan_to_num(softmax(scores)) @ v, first


@slip("SD-22", "Dropout acts although nobody asked for it: two calls with the same inputs differ. Leave it out here.")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = F.dropout(torch.nan_to_num(softmax(scores)), 0.5)
    return weights @ v, weights


edit(
    "DV-10",
    "The gradient is cut on its way to k: a detach, .data or numpy call stands in the way.",
    ("k.transpose(-2, -1)", "k.detach().transpose(-2, -1)"),
)
edit(
    "DV-09",
    "The computation goes through numpy or .data, so no gradient reaches q, k and v.",
    (
        "    scores = (q / math.sqrt(q.size(-1))) @ k.transpose(-2, -1)",
        "    q, k, v = q.detach(), k.detach(), v.detach()\n    scores = (q / math.sqrt(q.size(-1))) @ k.transpose(-2, -1)",
    ),
)
edit(
    "DV-01",
    "A tensor is made on the CPU inside the attention. On a GPU it would meet tensors of another device: "
    "pass device=q.device.",
    ("keep = mask.to(torch.bool)", "keep = mask.to(torch.bool) & torch.ones(k.size(-2), dtype=torch.bool)"),
)

# -- masks -----------------------------------------------------------------------------------------------------------

edit(
    "MK-01",
    "The mask is inverted: True means may attend, and here it blocks.",
    ("keep = mask.to(torch.bool)", "keep = ~mask.to(torch.bool)"),
)
edit(
    "MK-02",
    "The mask has no effect. masked_fill returns a new tensor: is its result assigned, and is the mask used as it came?",
    (
        'scores = scores.masked_fill(~keep, float("-inf"))',
        'scores.masked_fill(~keep, float("-inf"))',
    ),
    ("nowhere = ~keep.any(dim=-1, keepdim=True)", "nowhere = torch.zeros_like(keep)"),
)
edit(
    "MK-04",
    "The scores are multiplied by the mask. A score of 0 is not a weight of 0: exp(0) is 1. Fill with -inf.",
    ('scores.masked_fill(~keep, float("-inf"))', "scores * keep"),
)
edit(
    "MK-05",
    "Blocked scores are set to 0 or to a small positive number. exp of that is about 1: fill with -inf.",
    ('masked_fill(~keep, float("-inf"))', "masked_fill(~keep, 1e-9)"),
    same_as=("MK-04",),
)


@slip("MK-06", "The mask is added to the scores as 0 and 1. That shifts them by 1 and blocks nothing.")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores + mask.to(scores.dtype)
    weights = softmax(scores)
    return weights @ v, weights


@slip("MK-08", "(1 - mask) is multiplied by -inf. Where a key is kept this is 0 times infinity, which is NaN.")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores + (1 - (mask != 0).to(scores.dtype)) * float("-inf")
    weights = softmax(scores)
    return weights @ v, weights


edit(
    "MK-09",
    "Blocked scores are filled with a number such as -1e4. Where the kept scores are lower still, blocked keys win: "
    "use -inf.",
    ('masked_fill(~keep, float("-inf"))', "masked_fill(~keep, -1e4)"),
)
edit(
    "MK-09c",
    "Blocked scores are filled with -100 or a number like it. Such a key keeps a little weight, and where the kept scores "
    "are lower still, it wins: use -inf.",
    ('masked_fill(~keep, float("-inf"))', "masked_fill(~keep, -100.0)"),
)
edit(
    "MK-09d",
    "The logarithm of the mask plus a small number is added. log(1e-6) is -14, and a blocked key keeps some weight: add "
    "-inf, the logarithm of 0.",
    ('masked_fill(~keep, float("-inf"))', "add((keep.to(scores.dtype) + 1e-6).log())"),
    ("nowhere = ~keep.any(dim=-1, keepdim=True)", "nowhere = torch.zeros_like(keep)"),
)
edit(
    "MK-10",
    "Blocked scores are lowered by a fixed amount such as 1e9. In a row that may attend nowhere the keys still share "
    "the weight, and float16 can't hold it: use -inf.",
    (
        'scores = scores.masked_fill(~keep, float("-inf"))',
        "scores = scores - 1e9 * (~keep).to(scores.dtype)",
    ),
    ("nowhere = ~keep.any(dim=-1, keepdim=True)", "nowhere = torch.zeros_like(keep)"),
)


@slip("MK-13", "A row that may attend nowhere is -inf throughout, and its softmax is NaN. Those rows have to be zeros.")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = softmax(scores)
    return weights @ v, weights


@slip("MK-14", "A row that may attend nowhere gets equal weights, because its fill is finite. Those rows have to be zeros.", same_as=("MK-10", "MK-14b"))
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)
    weights = softmax(scores)
    return weights @ v, weights


@slip("MK-14b", "Blocked scores are filled with -1e9. A row that may attend nowhere gets equal weights, and float16 can't "
    "hold -1e9. Fill with -inf, and put zeros into those rows.")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = softmax(scores)
    return weights @ v, weights


@slip("MK-15", "NaN is replaced in the output only. The weights still hold NaN, and so do the gradients.")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = softmax(scores)
    return torch.nan_to_num(weights @ v), weights


@slip("MK-15b", "-inf is added to the scores, and the NaN of a row that may attend nowhere is replaced in the weights. "
    "The gradients still hold NaN: make that row finite before the softmax.")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores + torch.zeros_like(scores).masked_fill(mask == 0, float("-inf"))
    weights = torch.nan_to_num(softmax(scores))
    return weights @ v, weights


@slip("MK-18", "The mask gets a new axis in front of its last two. Its leading dimensions then meet the wrong axes.")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask.unsqueeze(-3) == 0, float("-inf"))
    weights = torch.nan_to_num(softmax(scores))
    return weights @ v, weights


edit(
    "MK-34",
    "~mask is taken of an integer mask. That flips bits: ~1 is -2, which still counts as true. Convert to bool first.",
    ("keep = mask.to(torch.bool)", "keep = (~mask).to(torch.bool) if mask.dtype != torch.bool else mask"),
    (
        'scores = scores.masked_fill(~keep, float("-inf"))',
        'scores = scores.masked_fill(keep if mask.dtype != torch.bool else ~keep, float("-inf"))',
    ),
    ("nowhere = ~keep.any(dim=-1, keepdim=True)", "nowhere = torch.zeros_like(keep)"),
)
edit(
    "MK-36",
    "masked_fill takes boolean masks only. An integer mask has to be converted first: mask.bool() or mask == 0.",
    ("keep = mask.to(torch.bool)", "keep = mask"),
)
edit(
    "MK-36b",
    "Only a mask entry of exactly 1 lets through. Every integer but 0 has to.",
    ("keep = mask.to(torch.bool)", "keep = mask == 1"),
)


@slip("MK-41", "The scores or the mask are changed in place, and with them a tensor of the caller.")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
        mask.fill_(1)
    weights = torch.nan_to_num(softmax(scores))
    return weights @ v, weights


@slip("MK-50", "The mask is applied to the weights after the softmax. The rows then no longer sum to 1.")
def scaled_dot_product_attention(q, k, v, mask=None):
    weights = softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)))
    if mask is not None:
        weights = weights * (mask != 0).to(weights.dtype)
    return weights @ v, weights


@slip("MK-51", "The argument `mask` is never used.", same_as=("MK-02",))
def scaled_dot_product_attention(q, k, v, mask=None):
    weights = softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)))
    return weights @ v, weights


@slip("DV-12", "The global random seed is set inside the function. Leave global state alone.")
def scaled_dot_product_attention(q, k, v, mask=None):
    torch.manual_seed(0)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = torch.nan_to_num(softmax(scores))
    return weights @ v, weights


@slip("SD-30", "Only the output is returned. The exercise asks for the pair (output, weights).")
def scaled_dot_product_attention(q, k, v, mask=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask.bool())


@slip("SD-31", "The pair comes in the wrong order: the output first, then the weights.")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = torch.nan_to_num(softmax(scores))
    return weights, weights @ v


"""Known mistakes of topic 09. Read as text by `autograder.slips`; ids are those of the catalogue of mistakes."""

from autograder.slips import edit, slip

# -- device ----------------------------------------------------------------------------------------------------------

edit(
    "PD-01",
    "The device is named by a string. A torch.device is asked for.",
    ('return torch.device("cpu")', 'return "cpu"'),
)
edit(
    "PD-01b",
    "The device is named by a string on every machine. A torch.device is asked for.",
    ('return torch.device("cuda")', 'return "cuda"'),
    ('return torch.device("mps")', 'return "mps"'),
    ('return torch.device("cpu")', 'return "cpu"'),
)
edit(
    "PD-02",
    "CUDA is taken without asking whether it is there.",
    ("    if torch.cuda.is_available():\n        return", "    if True:\n        return"),
)
edit(
    "PD-03",
    "MPS is taken without asking whether this machine has it. That torch was built with it (is_built) says too little.",
    ("    if torch.backends.mps.is_available():\n        return", "    if True:\n        return"),
)
edit(
    "PD-03b",
    "is_built says that torch was built with MPS, not that this machine has it: ask is_available.",
    ("torch.backends.mps.is_available()", "torch.backends.mps.is_built()"),
    same_as=("PD-03",),
)
edit(
    "PD-04",
    "Nothing is returned on a machine that has only a CPU.",
    ('    return torch.device("cpu")', "    return None"),
)
edit(
    "PD-05",
    "MPS is asked for first. CUDA comes before it.",
    (
        '    if torch.cuda.is_available():\n        return torch.device("cuda")\n'
        '    if torch.backends.mps.is_available():\n        return torch.device("mps")\n',
        '    if torch.backends.mps.is_available():\n        return torch.device("mps")\n'
        '    if torch.cuda.is_available():\n        return torch.device("cuda")\n',
    ),
)
edit(
    "PD-06",
    "MPS is never chosen. It comes after CUDA and before the CPU.",
    ('    if torch.backends.mps.is_available():\n        return torch.device("mps")\n', ""),
)
edit(
    "PD-07",
    "The CPU is chosen on every machine.",
    ('return torch.device("cuda")', 'return torch.device("cpu")'),
    ('return torch.device("mps")', 'return torch.device("cpu")'),
)
edit(
    "PD-08",
    "The CUDA device comes as a string. A torch.device is asked for.",
    ('return torch.device("cuda")', 'return "cuda"'),
)
edit(
    "DV-02",
    "The device is looked for by trying it out, and the error is not caught.",
    ("    if torch.cuda.is_available():\n", "    torch.zeros(1).cuda()\n    if torch.cuda.is_available():\n"),
)

# -- block by block --------------------------------------------------------------------------------------------------

edit(
    "BW-01",
    "The sums of the earlier blocks are not rescaled when a larger score comes.",
    (
        "total, output = total * shrink + weights.sum(dim=-1, keepdim=True), output * shrink + part",
        "total, output = total + weights.sum(dim=-1, keepdim=True), output + part",
    ),
)
edit(
    "BW-02",
    "The weighted values of earlier blocks are not rescaled when a larger score comes; the sum is.",
    ("output * shrink + part", "output + part"),
)
edit(
    "BW-03",
    "The sum of earlier blocks is not rescaled when a larger score comes; the weighted values are.",
    ("total * shrink + weights.sum", "total + weights.sum"),
)
edit(
    "BW-04",
    "The maximum is that of the newest block. It has to be the largest so far.",
    ("best if top is None else torch.maximum(top, best)", "best"),
)
edit(
    "BW-05",
    "The softmax of each block is taken by itself, and the blocks are averaged.",
    (
        "part = weights @ v[..., block, :].to(wide)",
        "weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-30)\n        part = weights @ v[..., block, :].to(wide)",
    ),
    ("            shrink = (top - finite).exp()\n", "            shrink = 1.0\n"),
)
edit(
    "BW-06",
    "The last block is dropped when block_size does not divide the number of keys.",
    ("range(0, k.size(-2), block_size)", "range(0, max(1, k.size(-2) // block_size) * block_size, block_size)"),
)
edit("SD-01", "The scale is missing.", ("q = q.to(wide) / math.sqrt(q.size(-1))", "q = q.to(wide)"))
edit(
    "BW-08",
    "The division by the sum is missing at the end.",
    ("(output / total.masked_fill(total == 0, 1.0))", "output"),
)
edit(
    "BW-09",
    "The division by the sum happens in every block, not at the end.",
    (
        "            total, output = total * shrink + weights.sum(dim=-1, keepdim=True), output * shrink + part\n",
        "            total, output = total * shrink + weights.sum(dim=-1, keepdim=True), output * shrink + part\n            output = output / total\n",
    ),
)
edit(
    "BW-10",
    "The mask is not cut like the keys: every block uses its first columns.",
    ("mask[..., block]", "mask[..., : scores.size(-1)]"),
)
edit(
    "MK-51",
    "The argument `mask` is not used.",
    (
        "        if mask is not None:\n            keep = mask if mask.size(-1) == 1",
        "        if False:\n            keep = mask if mask.size(-1) == 1",
    ),
)
edit("MK-01", "The mask is inverted: True means may attend.", ("masked_fill(keep == 0,", "masked_fill(keep != 0,"))
edit(
    "BW-13",
    "A mask with a column of size 1 is cut, too. It broadcasts: leave it whole.",
    ("keep = mask if mask.size(-1) == 1 else mask[..., block]", "keep = mask[..., block]"),
)
edit(
    "MK-13",
    "A block or a row that may attend nowhere gives NaN: -inf minus -inf. Put 0 in place of such a maximum.",
    ('finite = new_top.masked_fill(new_top == float("-inf"), 0.0)', "finite = new_top"),
)
edit(
    "BW-15",
    "A row that may attend nowhere is divided by a sum of 0, which is NaN.",
    ("total.masked_fill(total == 0, 1.0)", "total"),
)
edit(
    "MK-14",
    "Blocked scores get a finite number. A row that may attend nowhere then averages the values.",
    ('masked_fill(keep == 0, float("-inf"))', "masked_fill(keep == 0, -1e9)"),
)
edit(
    "SM-01",
    "The maximum is not subtracted: large scores overflow.",
    (
        "        new_top = best if top is None else torch.maximum(top, best)\n",
        "        new_top = torch.zeros_like(best)\n",
    ),
)
edit(
    "BW-18",
    "The whole matrix of scores is made first and cut afterwards: that is what was to be avoided.",
    (
        "    top = total = output = None\n",
        "    whole = q @ k.to(wide).transpose(-2, -1)\n    top = total = output = None\n",
    ),
    ("scores = q @ k[..., block, :].to(wide).transpose(-2, -1)", "scores = whole[..., block]"),
)


@slip(
    "BW-19", "The fused kernel or plain attention is called on everything: no block is ever made.", same_as=("BW-18",)
)
def blockwise_attention(q, k, v, mask=None, block_size=128):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
        nowhere = (mask == 0).all(dim=-1, keepdim=True)
        return scores.masked_fill(nowhere, 0.0).softmax(-1).masked_fill(nowhere, 0.0) @ v
    return scores.softmax(-1) @ v


edit(
    "BW-20",
    "The mask is expanded to (L, S) in full: that is the matrix that was to be avoided.",
    (
        "    top = total = output = None\n",
        "    if mask is not None:\n        mask = mask.expand(torch.broadcast_shapes(mask.shape, (q.size(-2), k.size(-2)))).clone()\n    top = total = output = None\n",
    ),
)
edit(
    "DV-10",
    "No gradient flows: the loop runs under no_grad or on detached tensors.",
    ("q = q.to(wide) / math.sqrt", "k, v = k.detach(), v.detach()\n    q = q.detach().to(wide) / math.sqrt"),
)
edit("SD-20", "The result is not in the dtype of q.", (".to(kind)\n", "\n"))
edit(
    "BW-23",
    "The argument block_size is not used: blocks of 128 are made whatever it says.",
    ("range(0, k.size(-2), block_size)", "range(0, k.size(-2), 128)"),
    ("slice(start, start + block_size)", "slice(start, start + 128)"),
)
edit(
    "DV-01",
    "A tensor is made on the CPU inside. On a GPU it would meet tensors of another device.",
    (
        "        new_top = best if top",
        "        best = torch.maximum(best, torch.full(best.shape, -3e38))\n        new_top = best if top",
    ),
)
edit(
    "BW-25",
    "q is scaled in place: the caller's tensor is changed.",
    ("    q = q.to(wide) / math.sqrt(q.size(-1))", "    q.data.div_(math.sqrt(q.size(-1)))\n    q = q.to(wide)"),
)
edit(
    "SD-05",
    "The scale comes from the number of keys in a block.",
    ("scores = q @ k[", "scores = math.sqrt(q.size(-1) / min(block_size, k.size(-2))) * q @ k["),
)

edit(
    "BW-27",
    "The running maximum starts at 0. A row whose scores are all far below 0 then underflows: start lower.",
    (
        "best if top is None else torch.maximum(top, best)",
        "torch.maximum(torch.zeros_like(best) if top is None else top, best)",
    ),
)
edit(
    "BW-28",
    "The maximum of the first block is kept for the whole row. A later block with larger scores then overflows.",
    ("best if top is None else torch.maximum(top, best)", "best if top is None else top"),
)
edit(
    "BW-29",
    "The first block is missing: the loop starts at block_size.",
    ("range(0, k.size(-2), block_size)", "range(min(block_size, k.size(-2) - 1), k.size(-2), block_size)"),
)
edit(
    "BW-42",
    "Only the last block counts: the running maximum never leaves its start, which scales all blocks before down to 0.",
    ("        top = new_top\n", "        top = torch.full_like(new_top, torch.finfo(wide).min)\n"),
)
edit(
    "BW-30",
    "Every block repeats the last key of the block before: where does a slice end?",
    ("slice(start, start + block_size)", "slice(start, start + block_size + 1)"),
)


@slip(
    "BW-31",
    "All blocks of scores are kept until the end. Together they are the (L, S) matrix: keep running sums in their place.",
)
def blockwise_attention(q, k, v, mask=None, block_size=128):
    kind = q.dtype
    wide = torch.float64 if kind == torch.float64 else torch.float32
    q = q.to(wide) / math.sqrt(q.size(-1))
    blocks = []
    for start in range(0, k.size(-2), block_size):
        scores = q @ k[..., start : start + block_size, :].to(wide).transpose(-2, -1)
        if mask is not None:
            keep = mask if mask.size(-1) == 1 else mask[..., start : start + block_size]
            scores = scores.masked_fill(keep == 0, float("-inf"))
        blocks.append(scores)
    top = blocks[0].amax(dim=-1, keepdim=True)
    for scores in blocks[1:]:
        top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
    top = top.masked_fill(top == float("-inf"), 0.0)
    total = output = 0.0
    for scores, values in zip(blocks, v.split(block_size, dim=-2), strict=True):
        weights = (scores - top).exp()
        total = total + weights.sum(dim=-1, keepdim=True)
        output = output + weights @ values.to(wide)
    return (output / total.masked_fill(total == 0, 1.0)).to(kind)


@slip(
    "BW-32",
    "The blocks of scores are joined to one matrix before the softmax: that is the (L, S) matrix again.",
    same_as=("BW-18", "BW-19", "BW-33"),
)
def blockwise_attention(q, k, v, mask=None, block_size=128):
    q = q / math.sqrt(q.size(-1))
    scores = torch.cat([q @ part.transpose(-2, -1) for part in k.split(block_size, dim=-2)], dim=-1)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
        nowhere = (mask == 0).all(dim=-1, keepdim=True)
        return scores.masked_fill(nowhere, 0.0).softmax(-1).masked_fill(nowhere, 0.0) @ v
    return scores.softmax(-1) @ v


@slip(
    "BW-33",
    "Blocks of queries and of keys are made, but all their scores at once: together they are the (L, S) matrix.",
    same_as=("BW-18", "BW-19", "BW-32"),
)
def blockwise_attention(q, k, v, mask=None, block_size=128):
    q = q / math.sqrt(q.size(-1))
    parts = [[qb @ kb.transpose(-2, -1) for kb in k.split(block_size, dim=-2)] for qb in q.split(block_size, dim=-2)]
    scores = torch.cat([torch.cat(row, dim=-1) for row in parts], dim=-2)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
        nowhere = (mask == 0).all(dim=-1, keepdim=True)
        return scores.masked_fill(nowhere, 0.0).softmax(-1).masked_fill(nowhere, 0.0) @ v
    return scores.softmax(-1) @ v


def by_queries(q, k, v, mask, block_size, cut):
    outputs = []
    for start in range(0, q.size(-2), block_size):
        part = slice(start, start + block_size)
        keep = None if mask is None else cut(mask.bool(), part)
        outputs.append(F.scaled_dot_product_attention(q[..., part, :], k, v, attn_mask=keep))
    return torch.cat(outputs, dim=-2)


@slip(
    "BW-34", "The queries come in blocks, but the mask is not cut with them. Which axis of the mask belongs to queries?"
)
def blockwise_attention(q, k, v, mask=None, block_size=128):
    return by_queries(q, k, v, mask, block_size, lambda mask, part: mask)


@slip("BW-35", "The queries come in blocks, but the mask is cut along the keys, its last axis.")
def blockwise_attention(q, k, v, mask=None, block_size=128):
    return by_queries(q, k, v, mask, block_size, lambda mask, part: mask[..., part])


@slip("BW-36", "A mask whose query axis has size 1 is cut, too. It broadcasts: leave it whole.")
def blockwise_attention(q, k, v, mask=None, block_size=128):
    return by_queries(q, k, v, mask, block_size, lambda mask, part: mask[..., part, :])


@slip("BW-37", "The last block of queries is dropped when block_size does not divide their number.")
def blockwise_attention(q, k, v, mask=None, block_size=128):
    whole = max(1, q.size(-2) // block_size) * block_size
    mask = None if mask is None else mask.expand(*mask.shape[:-2], q.size(-2), mask.size(-1))[..., :whole, :]
    return by_queries(q[..., :whole, :], k, v, mask, block_size, lambda mask, part: mask[..., part, :])


@slip(
    "BW-38",
    "Each block of queries looks at the block of keys at the same place alone. Every query has to see every key.",
)
def blockwise_attention(q, k, v, mask=None, block_size=128):
    outputs = []
    for start in range(0, q.size(-2), block_size):
        part = slice(start, start + block_size)
        outputs.append(F.scaled_dot_product_attention(q[..., part, :], k[..., part, :], v[..., part, :]))
    return torch.cat(outputs, dim=-2)


@slip(
    "BW-39",
    "The output of each block is weighted by its number of keys. It has to be weighted by its sum of exponentials.",
)
def blockwise_attention(q, k, v, mask=None, block_size=128):
    parts = []
    for start in range(0, k.size(-2), block_size):
        part = slice(start, start + block_size)
        keep = None if mask is None else (mask if mask.size(-1) == 1 else mask[..., part]).bool()
        out = F.scaled_dot_product_attention(q, k[..., part, :], v[..., part, :], attn_mask=keep)
        parts.append(out * (k[..., part, :].size(-2) / k.size(-2)))
    return sum(parts)


edit(
    "BW-40",
    "float64 is computed in float32. Half of its digits are lost.",
    ("wide = torch.float64 if kind == torch.float64 else torch.float32\n    q =", "wide = torch.float32\n    q ="),
)

# -- mistakes of attention, in blocks --------------------------------------------------------------------------------

edit(
    "SD-02",
    "The scores are divided by d, not by its square root.",
    ("q = q.to(wide) / math.sqrt(q.size(-1))", "q = q.to(wide) / q.size(-1)"),
)
edit(
    "SD-04",
    "The scale is applied to the output. It belongs to the scores, before the softmax.",
    ("q = q.to(wide) / math.sqrt(q.size(-1))", "q = q.to(wide)"),
    ("return (output / total", "return (output / math.sqrt(q.size(-1)) / total"),
)
edit(
    "SD-05b",
    "The scale comes from the number of queries. It comes from the size of a query.",
    ("q = q.to(wide) / math.sqrt(q.size(-1))", "q = q.to(wide) / math.sqrt(q.size(-2))"),
)
edit(
    "SD-06",
    "The scale comes from the number of keys. It comes from the size of a query.",
    ("q = q.to(wide) / math.sqrt(q.size(-1))", "q = q.to(wide) / math.sqrt(k.size(-2))"),
)
edit(
    "SD-12",
    "Axes 1 and 2 of k are swapped. The last two have to be, whatever comes before them.",
    (".to(wide).transpose(-2, -1)", ".to(wide).transpose(1, 2)"),
)
edit(
    "SD-14",
    "k is reshaped, not transposed: its numbers land at other places.",
    (
        "k[..., block, :].to(wide).transpose(-2, -1)",
        "(lambda t: t.reshape(*t.shape[:-2], t.size(-1), t.size(-2)))(k[..., block, :].to(wide))",
    ),
)
edit(
    "SD-17",
    "k and v stand in each other's place.",
    ("    q = q.to(wide) / math.sqrt(q.size(-1))\n", "    q, k, v = q.to(wide) / math.sqrt(q.size(-1)), v, k\n"),
)
edit(
    "SD-18",
    "The loop over the keys ends with the number of queries. There may be more keys, or fewer.",
    ("range(0, k.size(-2), block_size)", "range(0, min(q.size(-2), k.size(-2)), block_size)"),
    ("slice(start, start + block_size)", "slice(start, min(start + block_size, q.size(-2)))"),
)


@slip("SD-08", "The softmax runs over the queries. The weights of one query have to sum to 1 over its keys.")
def blockwise_attention(q, k, v, mask=None, block_size=128):
    output = 0.0
    for start in range(0, k.size(-2), block_size):
        part = slice(start, start + block_size)
        scores = q @ k[..., part, :].transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill((mask if mask.size(-1) == 1 else mask[..., part]) == 0, float("-inf"))
        output = output + scores.softmax(dim=-2).nan_to_num(0.0) @ v[..., part, :]
    return output


edit(
    "SM-02",
    "One maximum is subtracted for all rows. A row far below it underflows: each row needs its own.",
    ("best = scores.amax(dim=-1, keepdim=True)", "best = scores.amax().expand(*scores.shape[:-1], 1)"),
)
edit(
    "SM-04",
    "The largest absolute score is subtracted. A row of large negative scores then underflows.",
    (
        "best = scores.amax(dim=-1, keepdim=True)",
        "best = scores.masked_fill(scores.isinf(), 0.0).abs().amax(dim=-1, keepdim=True)",
    ),
)
edit(
    "SM-05",
    "The mean is subtracted. Where scores are spread widely, the largest exponential overflows.",
    (
        "best = scores.amax(dim=-1, keepdim=True)",
        "best = scores.masked_fill(scores.isinf(), 0.0).mean(dim=-1, keepdim=True)",
    ),
)
edit(
    "SM-06",
    "The smallest score is subtracted. Where scores are spread widely, the largest exponential overflows.",
    (
        "best = scores.amax(dim=-1, keepdim=True)",
        "best = scores.masked_fill(scores.isinf(), 0.0).amin(dim=-1, keepdim=True)",
    ),
    ("torch.maximum(top, best)", "torch.minimum(top, best)"),
)
edit(
    "SM-13",
    "Scores are clamped. Beyond the limit all differences are lost.",
    (
        "        best = scores.amax",
        "        scores = torch.where(scores.isinf(), scores, scores.clamp(-50, 50))\n        best = scores.amax",
    ),
)
edit(
    "SM-14",
    "A number such as 1e-6 is added to the sum before the division. In float64 this can be seen: the rows fall short.",
    ("total.masked_fill(total == 0, 1.0)", "(total + 1e-6)"),
)
edit(
    "MK-02",
    "The mask has no effect. masked_fill returns a new tensor: is its result assigned?",
    ('scores = scores.masked_fill(keep == 0, float("-inf"))', 'scores.masked_fill(keep == 0, float("-inf"))'),
    same_as=("MK-51",),
)
edit(
    "MK-04",
    "A blocked score becomes 0, by a product with the mask or a fill, and exp(0) is not 0.",
    ('scores = scores.masked_fill(keep == 0, float("-inf"))', "scores = scores * (keep != 0).to(scores.dtype)"),
)
edit(
    "MK-05",
    "Blocked scores get a number near 0. exp of it is 1: a blocked key needs the weight 0.",
    ('masked_fill(keep == 0, float("-inf"))', "masked_fill(keep == 0, 1e-9)"),
    same_as=("MK-04",),
)
edit(
    "MK-06",
    "The mask is added to the scores as 0 and 1. That shifts them by 1 and blocks nothing.",
    ('scores = scores.masked_fill(keep == 0, float("-inf"))', "scores = scores + (keep != 0).to(scores.dtype)"),
)
edit(
    "MK-08",
    "Outputs are NaN: somewhere infinity is subtracted from infinity or multiplied by 0, as in (1 - mask) * -inf.",
    (
        'scores = scores.masked_fill(keep == 0, float("-inf"))',
        'scores = scores + (keep == 0).to(scores.dtype) * float("-inf")',
    ),
)
edit(
    "MK-09",
    "Blocked scores are filled with a number such as -1e4. Where the kept scores are lower still, blocked keys win.",
    ('masked_fill(keep == 0, float("-inf"))', "masked_fill(keep == 0, -1e4)"),
)
edit(
    "MK-10",
    "Blocked scores are lowered by a fixed amount such as 1e9. In a row that may attend nowhere the keys share the weight.",
    ('scores = scores.masked_fill(keep == 0, float("-inf"))', "scores = scores - 1e9 * (keep == 0).to(scores.dtype)"),
    same_as=("MK-14",),
)
edit(
    "MK-14b",
    "Blocked scores get the smallest number of the dtype. A row that may attend nowhere then averages the values.",
    ('masked_fill(keep == 0, float("-inf"))', "masked_fill(keep == 0, torch.finfo(scores.dtype).min)"),
    same_as=("MK-14", "MK-10"),
)
edit(
    "MK-15",
    "NaN is replaced in the output only. A row whose first block is blocked stays NaN to its end, and comes out as zeros.",
    ('finite = new_top.masked_fill(new_top == float("-inf"), 0.0)', "finite = new_top"),
    (
        "return (output / total.masked_fill(total == 0, 1.0)).to(kind)",
        "return (output / total).nan_to_num(0.0).to(kind)",
    ),
)
edit(
    "MK-15b",
    "0 / 0 is replaced in the output only. The gradients are still NaN: make the sum 1 before the division.",
    (
        "return (output / total.masked_fill(total == 0, 1.0)).to(kind)",
        "return (output / total).nan_to_num(0.0).to(kind)",
    ),
)
edit(
    "MK-17",
    "The mask is cut and used along the queries, as if its axes were swapped. Its last axis belongs to the keys.",
    (
        "keep = mask if mask.size(-1) == 1 else mask[..., block]",
        "keep = mask.transpose(-2, -1) if mask.dim() > 1 else mask\n            keep = keep if keep.size(-1) == 1 else keep[..., block]",
    ),
)
edit(
    "MK-18",
    "The mask gets a new axis in front of its last two. Its leading dimensions then meet the wrong axes.",
    (
        "keep = mask if mask.size(-1) == 1 else mask[..., block]",
        "keep = mask if mask.size(-1) == 1 else mask[..., block]\n            keep = keep.unsqueeze(-3) if keep.dim() > 2 else keep",
    ),
)
edit(
    "MK-34",
    "~mask is taken of an integer mask. That flips bits: ~1 is -2, which still counts as true. Convert to bool first.",
    ("masked_fill(keep == 0,", "masked_fill((~keep).to(torch.bool),"),
)
edit(
    "MK-36",
    "masked_fill takes boolean masks only. An integer mask has to be converted first.",
    ("masked_fill(keep == 0,", "masked_fill(keep.bitwise_xor(1) if keep.dtype != torch.bool else ~keep,"),
)
edit(
    "MK-36b",
    "Only a mask entry of exactly 1 lets through. Every integer but 0 has to.",
    ("masked_fill(keep == 0,", "masked_fill(keep != 1,"),
)
edit(
    "MK-41",
    "The mask is changed in place, and with it a tensor of the caller.",
    (
        "        best = scores.amax",
        "        if mask is not None:\n            keep.fill_(0)\n        best = scores.amax",
    ),
)
edit(
    "DV-09",
    "The computation leaves torch for numpy. No gradient comes back from there.",
    (
        "return (output / total.masked_fill(total == 0, 1.0)).to(kind)",
        "return torch.from_numpy((output / total.masked_fill(total == 0, 1.0)).detach().numpy()).to(kind)",
    ),
    same_as=("DV-10", "DV-10b"),
)
edit(
    "DV-10b",
    "Everything runs under torch.no_grad: no gradient flows.",
    (
        "return (output / total.masked_fill(total == 0, 1.0)).to(kind)",
        "return (output / total.masked_fill(total == 0, 1.0)).to(kind).detach()",
    ),
    same_as=("DV-10", "DV-09"),
)
edit(
    "DV-10c",
    "The factor that rescales the earlier sums is cut from the graph, and the maximum is not: their gradients no longer "
    "cancel.",
    ("shrink = (top - finite).exp()", "shrink = (top - finite).exp().detach()"),
)
edit(
    "DV-12",
    "The global random seed is set inside the function. Leave global state alone.",
    ("    top = total = output = None\n", "    top = total = output = None\n    torch.manual_seed(0)\n"),
)

# -- the fused kernel ------------------------------------------------------------------------------------------------

edit(
    "MK-25",
    "is_causal aligns the mask to the start. With L != S it has to be aligned to the end.",
    ("tril(source - length)", "tril(0)"),
)
edit(
    "FA-02",
    "causal is used only when there is no mask: both have to act.",
    ("    if causal:\n", "    if causal and mask is None:\n"),
)
edit(
    "FA-03",
    "The mask is forgotten when causal is set: both have to act.",
    ("seen if keep is None else keep & seen", "seen"),
)
edit("MK-29", "Mask and causal are joined by or. A key needs both: use and.", ("keep & seen", "keep | seen"))
edit(
    "MK-01b",
    "The mask is inverted: True means may attend.",
    (
        "    keep = None if mask is None else mask.to(torch.bool)\n    if causal",
        "    keep = None if mask is None else ~mask.to(torch.bool)\n    if causal",
    ),
)
edit(
    "MK-06b",
    "An integer mask is added to the scores as numbers. Make it boolean first.",
    (
        "    keep = None if mask is None else mask.to(torch.bool)\n    if causal",
        "    keep = mask if mask is None or mask.dtype == torch.bool else mask.to(q.dtype)\n    if causal",
    ),
    ("keep & seen", "(keep.to(torch.bool) & seen)"),
)
edit(
    "MK-06c",
    "Every mask is added to the scores as 0 and 1, which blocks nothing. The function wants it boolean.",
    ("v, attn_mask=keep)", "v, attn_mask=None if keep is None else keep.to(q.dtype))"),
)
edit("FA-07", "The argument `causal` is not used.", ("    if causal:\n", "    if False:\n"))
edit(
    "MK-22",
    "causal is off by one: a query does not see its own position.",
    ("tril(source - length)", "tril(source - length - 1)"),
)
edit(
    "MK-22b",
    "causal is off by one: a query sees one key too many.",
    ("tril(source - length)", "tril(source - length + 1)"),
)
edit(
    "MK-40",
    "The causal mask is made on the CPU: pass device=q.device.",
    ("dtype=torch.bool, device=q.device)", "dtype=torch.bool)"),
)
edit(
    "MK-24",
    "The causal mask keeps the future and blocks the past.",
    (".tril(source - length)", ".triu(source - length)"),
)
edit(
    "MK-51b",
    "The argument `mask` is not used.",
    ("    keep = None if mask is None else mask.to(torch.bool)\n    if causal", "    keep = None\n    if causal"),
)

edit(
    "MK-25b",
    "is_causal is handed on. It aligns the mask to the start, which is wrong when L is not S.",
    ("    if causal:\n        length", "    if False:\n        length"),
    (
        "return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)\n",
        "return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, is_causal=causal)\n",
    ),
    same_as=("MK-25",),
)
edit(
    "MK-25c",
    "The causal mask is made of L and L. Its columns are the keys, and there are S.",
    ("torch.ones(length, source, dtype", "torch.ones(length, length, dtype"),
)
edit(
    "MK-26",
    "causal acts only when there is a mask, too. It has to act on its own.",
    ("    if causal:\n", "    if causal and mask is not None:\n"),
)
edit(
    "MK-25d",
    "Causal is aligned to the end the wrong way round: it is S - L that the diagonal moves by.",
    ("tril(source - length)", "tril(length - source)"),
)
edit(
    "MK-34b",
    "~mask is taken of an integer mask. That flips bits: ~1 is -2, which still counts as true. Convert to bool first.",
    (
        "    keep = None if mask is None else mask.to(torch.bool)\n    if causal",
        "    keep = None if mask is None else ~(~mask).to(torch.bool)\n    if causal",
    ),
)
edit(
    "MK-36c",
    "An integer mask is handed on as it is. The kernel takes booleans, or numbers to be added.",
    (
        "    keep = None if mask is None else mask.to(torch.bool)\n    if causal",
        "    keep = mask\n    if causal",
    ),
)
edit(
    "MK-36d",
    "Only a mask entry of exactly 1 lets through. Every integer but 0 has to.",
    (
        "    keep = None if mask is None else mask.to(torch.bool)\n    if causal",
        "    keep = None if mask is None else mask == 1\n    if causal",
    ),
)
edit(
    "MK-41b",
    "The causal mask is joined into the caller's mask in place. Make a new tensor.",
    ("keep & seen", "keep.logical_and_(seen) if keep.shape[-2:] == seen.shape else keep & seen"),
)


@slip(
    "MK-14c",
    "Blocked scores get a large negative number to be added. A row that may attend nowhere then averages the values.",
)
def fast_attention(q, k, v, mask=None, causal=False):
    bias = torch.zeros(q.size(-2), k.size(-2), dtype=q.dtype, device=q.device)
    if causal:
        seen = torch.ones_like(bias).tril(k.size(-2) - q.size(-2)).bool()
        bias = bias.masked_fill(~seen, torch.finfo(q.dtype).min / 4)
    if mask is not None:
        bias = bias + torch.zeros(mask.shape, dtype=q.dtype, device=q.device).masked_fill(
            mask == 0, torch.finfo(q.dtype).min / 4
        )
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


@slip(
    "MK-13b", "A row that may attend nowhere is -inf throughout, and its softmax is NaN. Those rows have to be zeros."
)
def fast_attention(q, k, v, mask=None, causal=False):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if causal:
        seen = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool, device=q.device).tril(k.size(-2) - q.size(-2))
        scores = scores.masked_fill(~seen, float("-inf"))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    return scores.softmax(dim=-1) @ v


edit(
    "SD-02b",
    "The scale is set to 1/d. The kernel's own scale is the right one.",
    (
        "return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)\n",
        "return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, scale=1 / q.size(-1))\n",
    ),
)
edit(
    "SD-02c",
    "The queries are scaled before the kernel, which scales them again.",
    (
        "return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)\n",
        "return F.scaled_dot_product_attention(q / math.sqrt(q.size(-1)), k, v, attn_mask=keep)\n",
    ),
    same_as=("SD-02b",),
)
edit(
    "SD-17b",
    "k and v stand in each other's place.",
    (
        "return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)\n",
        "return F.scaled_dot_product_attention(q, v, k, attn_mask=keep)\n",
    ),
)
edit(
    "SD-18b",
    "With causal the keys are cut to the number of queries: the newest keys are lost.",
    (
        "seen if keep is None else keep & seen",
        "seen if keep is None else keep & seen\n        if source > length:\n"
        "            keep, k, v = keep[..., :length], k[..., :length, :], v[..., :length, :]",
    ),
)
edit(
    "SD-20b",
    "The result is float32 whatever came in. Return the dtype of the inputs.",
    (
        "return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)\n",
        "return F.scaled_dot_product_attention(q.float(), k.float(), v.float(), attn_mask=keep)\n",
    ),
)
edit(
    "SD-22",
    "Dropout is on: two calls with the same inputs differ.",
    (
        "return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)\n",
        "return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, dropout_p=0.5)\n",
    ),
)
edit(
    "DV-10d",
    "The inputs are detached, so no gradient reaches them.",
    (
        "return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)\n",
        "return F.scaled_dot_product_attention(q.detach(), k.detach(), v.detach(), attn_mask=keep)\n",
    ),
)

# -- counting --------------------------------------------------------------------------------------------------------

edit("AC-01", "A multiplication with its addition counts as 2 operations, not as 1.", ("flops = 2 * B", "flops = B"))
edit("AC-02", "Only the product of q and k is counted. The weights are multiplied by v, too.", ("(d + d_v)", "d"))
edit("AC-03", "Both products are counted with d. The second one has the size d_v.", ("(d + d_v)", "(d + d)"))
edit("AC-04", "The number of heads is missing in the operations.", ("flops = 2 * B * H * L", "flops = 2 * B * L"))
edit("AC-05", "The number of heads is missing in the bytes.", ("elements_fused = B * H *", "elements_fused = B *"))
edit("AC-06", "The output is not counted: it is written once.", ("S * d_v + L * d_v", "S * d_v"))
edit(
    "AC-18",
    "The output is counted with d. Its rows have the size d_v.",
    ("S * d_v + L * d_v", "S * d_v + L * d"),
)
edit(
    "AC-07",
    "Scores and weights are each written and read: four times L * S, not twice.",
    ("4 * B * H * L * S", "2 * B * H * L * S"),
)
edit(
    "AC-08",
    "The bytes of one element are missing: elements are counted, not bytes.",
    ("elements_naive * bytes_per_element, elements_fused * bytes_per_element", "elements_naive, elements_fused"),
)
edit(
    "AC-09",
    "The naive and the fused bytes stand in each other's place.",
    (
        "elements_naive * bytes_per_element, elements_fused * bytes_per_element",
        "elements_fused * bytes_per_element, elements_naive * bytes_per_element",
    ),
)
edit(
    "AC-10",
    "Keys and values are counted with L, not with S.",
    ("L * d + S * d + S * d_v + L * d_v", "L * d + L * d + L * d_v + L * d_v"),
)
edit(
    "AC-11",
    "The softmax is counted. Here it is left out.",
    ("flops = 2 * B * H * L * S * (d + d_v)", "flops = 2 * B * H * L * S * (d + d_v) + 5 * B * H * L * S"),
)
edit(
    "AC-12",
    "S is taken to be L: the scores have L * S entries.",
    ("flops = 2 * B * H * L * S *", "flops = 2 * B * H * L * L *"),
)
edit(
    "AC-13",
    "Only the scores are counted, or only the weights: each of the two is written and read.",
    ("4 * B * H * L * S", "3 * B * H * L * S"),
)
edit(
    "AC-14",
    "The three numbers come in another order: operations, naive bytes, fused bytes.",
    (
        "return flops, elements_naive * bytes_per_element, elements_fused * bytes_per_element",
        "return elements_naive * bytes_per_element, elements_fused * bytes_per_element, flops",
    ),
)
edit(
    "AC-15",
    "The number of heads is missing in the bytes of the scores and weights.",
    ("4 * B * H * L * S", "4 * B * L * S"),
)
edit(
    "AC-16",
    "The naive bytes hold the scores and weights alone. q, k, v and the output move, too.",
    ("elements_naive = elements_fused + 4", "elements_naive = 4"),
)
edit(
    "AC-17",
    "d_v is not used: values and output have the size d_v, not d.",
    ("L * d + S * d + S * d_v + L * d_v", "L * d + S * d + S * d + L * d"),
)

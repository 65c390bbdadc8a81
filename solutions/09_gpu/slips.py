"""Known mistakes of topic 09. Read as text by `autograder.slips`; ids are those of the catalogue of mistakes."""

from autograder.slips import edit, slip

# -- device ----------------------------------------------------------------------------------------------------------

edit(
    "PD-01",
    "The device is named by a string. A torch.device is asked for.",
    ('return torch.device("cpu")', 'return "cpu"'),
)
edit(
    "PD-02",
    "CUDA is taken without asking whether it is there.",
    ("    if torch.cuda.is_available():\n        return", "    if True:\n        return"),
)
edit(
    "PD-03",
    "MPS is taken without asking whether it is there.",
    ("    if torch.backends.mps.is_available():\n        return", "    if True:\n        return"),
)
edit(
    "PD-04",
    "Nothing is returned on a machine that has only a CPU.",
    ('    return torch.device("cpu")', "    return None"),
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
edit("BW-07", "The scale is missing.", ("q = q.to(wide) / math.sqrt(q.size(-1))", "q = q.to(wide)"))
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
    "BW-11",
    "The argument `mask` is not used.",
    (
        "        if mask is not None:\n            keep = mask if mask.size(-1) == 1",
        "        if False:\n            keep = mask if mask.size(-1) == 1",
    ),
)
edit("BW-12", "The mask is inverted: True means may attend.", ("masked_fill(keep == 0,", "masked_fill(keep != 0,"))
edit(
    "BW-13",
    "A mask with a column of size 1 is cut, too. It broadcasts: leave it whole.",
    ("keep = mask if mask.size(-1) == 1 else mask[..., block]", "keep = mask[..., block]"),
)
edit(
    "BW-14",
    "A block or a row that may attend nowhere gives NaN: -inf minus -inf. Put 0 in place of such a maximum.",
    ('finite = new_top.masked_fill(new_top == float("-inf"), 0.0)', "finite = new_top"),
)
edit(
    "BW-15",
    "A row that may attend nowhere is divided by a sum of 0, which is NaN.",
    ("total.masked_fill(total == 0, 1.0)", "total"),
)
edit(
    "BW-16",
    "Blocked scores get a finite number. A row that may attend nowhere then averages the values.",
    ('masked_fill(keep == 0, float("-inf"))', "masked_fill(keep == 0, -1e9)"),
)
edit(
    "BW-17",
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
    "BW-21",
    "No gradient flows: the loop runs under no_grad or on detached tensors.",
    ("q = q.to(wide) / math.sqrt", "k, v = k.detach(), v.detach()\n    q = q.detach().to(wide) / math.sqrt"),
)
edit("BW-22", "The result is not in the dtype of q.", (".to(kind)\n", "\n"))
edit(
    "BW-23",
    "The argument block_size is not used: blocks of 128 are made whatever it says.",
    ("range(0, k.size(-2), block_size)", "range(0, k.size(-2), 128)"),
    ("slice(start, start + block_size)", "slice(start, start + 128)"),
)
edit(
    "BW-24",
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
    "BW-26",
    "The scale comes from the number of keys in a block.",
    ("scores = q @ k[", "scores = math.sqrt(q.size(-1) / min(block_size, k.size(-2))) * q @ k["),
)

# -- the fused kernel ------------------------------------------------------------------------------------------------

edit(
    "FA-01",
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
edit("FA-04", "Mask and causal are joined by or. A key needs both: use and.", ("keep & seen", "keep | seen"))
edit(
    "FA-05",
    "The mask is inverted: True means may attend.",
    (
        "    keep = None if mask is None else mask.to(torch.bool)\n    if causal",
        "    keep = None if mask is None else ~mask.to(torch.bool)\n    if causal",
    ),
)
edit(
    "FA-06",
    "An integer mask is handed on as it is. It has to be boolean, or it is added to the scores.",
    (
        "    keep = None if mask is None else mask.to(torch.bool)\n    if causal",
        "    keep = mask if mask is None or mask.dtype == torch.bool else mask.to(q.dtype)\n    if causal",
    ),
    ("keep & seen", "(keep.to(torch.bool) & seen)"),
)
edit("FA-07", "The argument `causal` is not used.", ("    if causal:\n", "    if False:\n"))
edit(
    "FA-08",
    "causal is off by one: a query does not see its own position.",
    ("tril(source - length)", "tril(source - length - 1)"),
)
edit(
    "FA-08b",
    "causal is off by one: a query sees one key too many.",
    ("tril(source - length)", "tril(source - length + 1)"),
)
edit(
    "FA-09",
    "The causal mask is made on the CPU: pass device=q.device.",
    ("dtype=torch.bool, device=q.device)", "dtype=torch.bool)"),
)
edit(
    "FA-10",
    "The causal mask keeps the future and blocks the past.",
    (".tril(source - length)", ".triu(source - length)"),
)
edit(
    "FA-12",
    "The argument `mask` is not used.",
    ("    keep = None if mask is None else mask.to(torch.bool)\n    if causal", "    keep = None\n    if causal"),
)

# -- counting --------------------------------------------------------------------------------------------------------

edit("AC-01", "A multiplication with its addition counts as 2 operations, not as 1.", ("flops = 2 * B", "flops = B"))
edit("AC-02", "Only the product of q and k is counted. The weights are multiplied by v, too.", ("(d + d_v)", "d"))
edit("AC-03", "Both products are counted with d. The second one has the size d_v.", ("(d + d_v)", "(d + d)"))
edit("AC-04", "The number of heads is missing in the operations.", ("flops = 2 * B * H * L", "flops = 2 * B * L"))
edit("AC-05", "The number of heads is missing in the bytes.", ("elements_fused = B * H *", "elements_fused = B *"))
edit("AC-06", "The output is not counted: it is written once.", ("S * d_v + L * d_v", "S * d_v"))
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

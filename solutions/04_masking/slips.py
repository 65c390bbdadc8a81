"""Known mistakes of topic 04. Read as text by `autograder.slips`; ids are those of the catalogue of mistakes."""

from autograder.slips import edit

# -- padding ---------------------------------------------------------------------------------------------------------

edit(
    "MK-01a",
    "The padding mask is inverted: the real tokens are True.",
    ("positions < lengths.unsqueeze(1)", "positions >= lengths.unsqueeze(1)"),
)
edit(
    "PM-01",
    "The padding mask is off by one: position and length are compared with <=, and the length itself is too far.",
    ("positions < lengths.unsqueeze(1)", "positions <= lengths.unsqueeze(1)"),
)
edit(
    "PM-02",
    "Positions are counted from 1, so the last real token is blocked.",
    ("positions = torch.arange(size,", "positions = 1 + torch.arange(size,"),
)
edit(
    "MK-17",
    "The mask blocks rows of queries, not columns of keys: the new axes stand on the wrong side.",
    ("[:, None, None, :]", "[:, None, :, None]"),
)
edit(
    "MK-18",
    "The axis for the heads is missing: the mask is (B, 1, S), and meets the wrong axis of the scores.",
    ("[:, None, None, :]", "[:, None, :]"),
)
edit(
    "PM-03",
    "The argument `max_length` is not used.",
    ("size = longest if max_length is None else max_length", "size = longest"),
)
edit(
    "PM-04",
    "A length above max_length is not refused: its tokens are dropped in silence.",
    (
        '    if longest > size:\n        raise ValueError(f"a sample has {longest} tokens, but max_length is {size}")\n',
        "",
    ),
)
edit(
    "PM-05",
    "The error for a length above max_length does not name the numbers.",
    ('f"a sample has {longest} tokens, but max_length is {size}"', '"too long"'),
)
edit(
    "PM-06",
    "The mask holds numbers. A boolean mask is asked for.",
    ("[:, None, None, :]", "[:, None, None, :].float()"),
)
edit(
    "PM-07",
    "Every sample gets the mask of the longest one.",
    ("lengths.unsqueeze(1)", "lengths.max().expand(lengths.size(0), 1)"),
)
edit(
    "PM-08",
    "Padding is put on the left. Here the real tokens come first.",
    ("positions < lengths.unsqueeze(1)", "positions >= size - lengths.unsqueeze(1)"),
)
edit(
    "PM-09",
    "The size is the number of samples, or their mean length, not the largest length.",
    ("size = longest if max_length is None", "size = lengths.size(0) if max_length is None"),
    ("if longest > size:", "if max_length is not None and longest > size:"),
)

edit(
    "PM-10",
    "A length equal to max_length is refused. It still fits.",
    ("    if longest > size:", "    if max_length is not None and longest >= size:"),
)
edit(
    "PM-11",
    "Only the first length is compared with max_length. Any of them may be too long.",
    (
        "size = longest if max_length is None else max_length\n    if longest > size:",
        "size = longest if max_length is None else max_length\n    longest = int(lengths[0])\n    if longest > size:",
    ),
)
edit(
    "PM-12",
    "max_length=0 counts as if it were not given. `is None` is not the same as `not`.",
    ("size = longest if max_length is None else max_length", "size = max_length or longest"),
)
edit(
    "PM-13",
    "A sample without tokens gets one. A length of 0 is allowed, and blocks every key.",
    ("positions < lengths.unsqueeze(1)", "positions < lengths.clamp(min=1).unsqueeze(1)"),
)
edit(
    "PM-14",
    "A length above max_length raises, but no ValueError.",
    ("        raise ValueError(f", "        raise RuntimeError(f"),
)
edit(
    "PM-15",
    "The lengths are changed in place. They belong to the caller.",
    ("    longest = int(lengths.max())\n", "    lengths -= 1\n    lengths += 1\n    longest = int(lengths.max())\n"),
)
# -- causal ----------------------------------------------------------------------------------------------------------

edit(
    "MK-25",
    "The causal mask is aligned to the start. With L != S the last query belongs to the last key.",
    ("tril(S - L)", "tril(0)"),
)
edit("MK-22", "The diagonal is off by one: a token does not see itself.", ("tril(S - L)", "tril(S - L - 1)"))
edit("MK-22b", "The diagonal is off by one: a token sees the next one.", ("tril(S - L)", "tril(S - L + 1)"))
edit(
    "MK-24",
    "The upper triangle is kept, so a token sees only what comes after it. The lower one is asked for.",
    (".tril(S - L)", ".triu(S - L)"),
)
edit(
    "CM-01",
    "The causal mask is inverted: True means may attend, and here it blocks.",
    (
        "return torch.ones(L, S, dtype=torch.bool, device=device).tril(S - L)",
        "return ~torch.ones(L, S, dtype=torch.bool, device=device).tril(S - L)",
    ),
)
edit(
    "CM-02",
    "The argument `S` is not used: the mask is square every time.",
    ("    S = L if S is None else S\n    return", "    S = L\n    return"),
)
edit(
    "CM-03",
    "The sign of the shift is wrong: the diagonal moves by S - L, not by L - S.",
    ("tril(S - L)", "tril(L - S)"),
)
edit(
    "CM-04",
    "The mask holds numbers. A boolean mask is asked for.",
    ("dtype=torch.bool, device=device).tril", "device=device).tril"),
)
edit(
    "CM-05",
    "The argument `device` is not used.",
    ("dtype=torch.bool, device=device).tril(S - L)", "dtype=torch.bool).tril(S - L)"),
)
edit(
    "CM-06",
    "Rows and columns are swapped: the mask is (L, S), queries down and keys across.",
    ("device=device).tril(S - L)", "device=device).tril(S - L).T.flip(0, 1)"),
)

edit(
    "CM-07",
    "The shift is cut off at 0. With fewer keys than queries it is negative, and the first queries see nothing.",
    ("tril(S - L)", "tril(max(S - L, 0))"),
)
edit(
    "CM-08",
    "The mask holds 0 and -inf. A boolean mask is asked for, and True means may attend.",
    (
        "torch.ones(L, S, dtype=torch.bool, device=device).tril(S - L)",
        'torch.full((L, S), float("-inf"), device=device).triu(S - L + 1)',
    ),
)
edit("CM-09", "The mask has axes of size 1 in front. (L, S) is asked for.", ("tril(S - L)", "tril(S - L)[None, None]"))
# -- combining -------------------------------------------------------------------------------------------------------

edit("MK-29", "The masks are joined by or. A key needs all of them: and.", ("result & keep", "result | keep"))
edit(
    "CB-01",
    "Only the last mask counts. Every mask has to allow a key.",
    ("keep if result is None else result & keep", "keep"),
)
edit(
    "CB-02",
    "Only the first mask counts. Every mask has to allow a key.",
    ("keep if result is None else result & keep", "keep if result is None else result"),
)
edit(
    "CB-03",
    "Integer masks are joined bit by bit: 1 & 2 is 0. Convert each mask to bool first.",
    (
        "keep = mask.to(torch.bool)\n            result = keep if result is None else result & keep\n    return None if result is None else result.clone()",
        "keep = mask\n            result = keep if result is None else result & keep\n    return None if result is None else result.bool()",
    ),
)
edit(
    "CB-04",
    "None is not skipped.",
    (
        "        if mask is not None:\n            keep = mask.to(torch.bool)\n            result = keep",
        "        if True:\n            keep = mask.to(torch.bool)\n            result = keep",
    ),
)
edit(
    "CB-05",
    "Without any mask an error or a mask comes back. None is asked for.",
    (
        "return None if result is None else result.clone()",
        "return torch.ones(1, dtype=torch.bool) if result is None else result.clone()",
    ),
)
edit(
    "CB-06",
    "The result keeps the dtype of the masks. A boolean mask is asked for.",
    (
        "            keep = mask.to(torch.bool)\n            result = keep if result is None else result & keep\n    return None if result is None else result.clone()",
        "            keep = mask\n            result = keep if result is None else result * keep\n    return None if result is None else result.clone()",
    ),
)
edit(
    "CB-07",
    "The masks are joined by exclusive or: where two masks allow a key, it is blocked. Both have to allow it: and.",
    ("result & keep", "result ^ keep"),
)
edit(
    "CB-08",
    "Only the first two masks count. There may be any number.",
    ("for mask in masks:", "for mask in masks[:2]:"),
)
edit(
    "CB-09",
    "As soon as one mask is None, the result is None. Skip it, and join the others.",
    (
        "    result = None\n    for",
        "    result = None\n    if any(mask is None for mask in masks):\n        return None\n    for",
    ),
)
edit(
    "CB-10",
    "The loop ends at the first None. Skip it, and go on.",
    (
        "            result = keep if result is None else result & keep\n",
        "            result = keep if result is None else result & keep\n        else:\n            break\n",
    ),
)
edit(
    "CB-11",
    "Only a mask entry of exactly 1 lets through. Every integer but 0 has to.",
    (
        "            keep = mask.to(torch.bool)\n            result",
        "            keep = mask == 1\n            result",
    ),
)
edit(
    "MK-41b",
    "The first mask is changed in place by &=, and it belongs to the caller.",
    (
        "            keep = mask.to(torch.bool)\n            result = keep if result is None else result & keep\n",
        "            keep = mask.to(torch.bool)\n"
        "            if result is not None and result.shape == torch.broadcast_shapes(result.shape, keep.shape):\n"
        "                result &= keep\n"
        "            else:\n"
        "                result = keep if result is None else result & keep\n",
    ),
)
edit(
    "MK-34",
    "~mask is taken of an integer mask: that flips bits, and ~1 still counts as true.",
    (
        "            keep = mask.to(torch.bool)\n            result = keep",
        "            keep = ~(~mask).to(torch.bool)\n            result = keep",
    ),
)

# -- additive --------------------------------------------------------------------------------------------------------

edit(
    "MK-08",
    "The blocked entries are multiplied by -inf, and 0 times -inf is NaN. Fill instead.",
    ('zeros.masked_fill(~mask.to(torch.bool), float("-inf"))', '(1 - mask.to(torch.bool).to(dtype)) * float("-inf")'),
)
edit(
    "AM-01",
    "The signs of the mask are swapped: kept entries get -inf.",
    ('masked_fill(~mask.to(torch.bool), float("-inf"))', 'masked_fill(mask.to(torch.bool), float("-inf"))'),
)
edit(
    "MK-12",
    "Blocked entries get a large finite number. -inf is asked for: sums of finite ones overflow in half precision.",
    (
        'zeros.masked_fill(~mask.to(torch.bool), float("-inf"))',
        "zeros.masked_fill(~mask.to(torch.bool), torch.finfo(dtype).min)",
    ),
)
edit(
    "AM-02",
    "Blocked entries get -1e9. That does not fit into float16, and -inf is asked for.",
    ('zeros.masked_fill(~mask.to(torch.bool), float("-inf"))', "zeros.masked_fill(~mask.to(torch.bool), -1e9)"),
)
edit(
    "AM-03",
    "Kept entries are 1. They have to be 0, since the mask is added.",
    ("zeros = torch.zeros(mask.shape", "zeros = torch.ones(mask.shape"),
)
edit("AM-04", "The argument `dtype` is not used.", ("torch.zeros(mask.shape, dtype=dtype,", "torch.zeros(mask.shape,"))
edit(
    "AM-05",
    "The mask is made on the CPU: pass device=mask.device.",
    ("dtype=dtype, device=mask.device)", "dtype=dtype)"),
)
edit(
    "AM-06",
    "Blocked entries are +inf. They have to be -inf.",
    ('~mask.to(torch.bool), float("-inf"))', '~mask.to(torch.bool), float("inf"))'),
)
edit(
    "MK-34b",
    "~mask is taken of an integer mask: that flips bits, and everything counts as blocked.",
    (
        'zeros.masked_fill(~mask.to(torch.bool), float("-inf"))',
        'zeros.masked_fill((~mask).to(torch.bool), float("-inf"))',
    ),
)

edit(
    "MK-02b",
    "The filled tensor is not used: masked_fill returns a new one.",
    (
        'return zeros.masked_fill(~mask.to(torch.bool), float("-inf"))',
        'zeros.masked_fill(~mask.to(torch.bool), float("-inf"))\n    return zeros',
    ),
)
edit(
    "AM-07",
    "Only a mask entry of exactly 1 is kept. Every integer but 0 has to be.",
    ("zeros.masked_fill(~mask.to(torch.bool)", "zeros.masked_fill(mask != 1"),
)
edit(
    "AM-08",
    "masked_fill takes boolean masks only. An integer mask has to be converted first.",
    ("zeros.masked_fill(~mask.to(torch.bool)", "zeros.masked_fill(~mask if mask.dtype == torch.bool else 1 - mask"),
)
# -- attention -------------------------------------------------------------------------------------------------------

edit(
    "MK-01",
    "The mask is inverted: True means may attend, and here it blocks.",
    ("    keep = mask.to(torch.bool)\n    scores", "    keep = ~mask.to(torch.bool)\n    scores"),
)
edit(
    "MK-02",
    "The mask has no effect. masked_fill returns a new tensor: is its result assigned?",
    (
        'scores = scores.masked_fill(~keep, float("-inf")).masked_fill(nowhere, 0.0)',
        'scores.masked_fill(~keep, float("-inf"))',
    ),
)
edit(
    "MK-02c",
    "The mask has no effect: masked_fill returns a new tensor, and it is not used. So no row becomes zeros, either.",
    (
        'scores = scores.masked_fill(~keep, float("-inf")).masked_fill(nowhere, 0.0)',
        "scores.masked_fill(~keep, -torch.inf)",
    ),
    ("torch.softmax(scores, dim=-1).masked_fill(nowhere, 0.0)", "torch.softmax(scores, dim=-1)"),
)
edit(
    "MK-04",
    "The scores are multiplied by the mask. A score of 0 is not a weight of 0: exp(0) is 1.",
    ('scores.masked_fill(~keep, float("-inf")).masked_fill(nowhere, 0.0)', "scores * keep"),
)
edit(
    "MK-04b",
    "The scores are multiplied by the mask. A score of 0 is not a weight of 0, and no row becomes zeros.",
    ('scores.masked_fill(~keep, float("-inf")).masked_fill(nowhere, 0.0)', "scores * keep"),
    ("torch.softmax(scores, dim=-1).masked_fill(nowhere, 0.0)", "torch.softmax(scores, dim=-1)"),
    same_as=("MK-05b",),
)
edit(
    "MK-05",
    "Blocked scores become 0 or a small positive number. exp of that is about 1: fill with -inf.",
    ('masked_fill(~keep, float("-inf"))', "masked_fill(~keep, 1e-9)"),
    same_as=("MK-04",),
)
edit(
    "MK-05b",
    "Blocked scores become 0 or a small positive number. exp of that is about 1, and no row becomes zeros: fill with -inf.",
    ('masked_fill(~keep, float("-inf")).masked_fill(nowhere, 0.0)', "masked_fill(~keep, 1e-9)"),
    ("torch.softmax(scores, dim=-1).masked_fill(nowhere, 0.0)", "torch.softmax(scores, dim=-1)"),
    same_as=("MK-04b",),
)
edit(
    "MK-06",
    "The mask is added to the scores as 0 and 1. That blocks nothing.",
    ('scores.masked_fill(~keep, float("-inf")).masked_fill(nowhere, 0.0)', "scores + keep.to(scores.dtype)"),
)
edit(
    "MK-06b",
    "The mask is added to the scores as 0 and 1. That blocks nothing, and no row becomes zeros.",
    ('scores.masked_fill(~keep, float("-inf")).masked_fill(nowhere, 0.0)', "scores + keep.to(scores.dtype)"),
    ("torch.softmax(scores, dim=-1).masked_fill(nowhere, 0.0)", "torch.softmax(scores, dim=-1)"),
)
edit(
    "MK-09",
    "Blocked scores get a number such as -1e4. Where kept scores are lower still, blocked keys win.",
    ('masked_fill(~keep, float("-inf"))', "masked_fill(~keep, -1e4)"),
)
edit(
    "MK-10",
    "Blocked scores are lowered by a large number. A row that may attend nowhere is lowered alike, and its keys still "
    "share the weight; float16 can't even hold that number.",
    (
        'scores.masked_fill(~keep, float("-inf")).masked_fill(nowhere, 0.0)',
        "scores - 1e9 * (~keep).to(scores.dtype)",
    ),
    ("torch.softmax(scores, dim=-1).masked_fill(nowhere, 0.0)", "torch.softmax(scores, dim=-1)"),
)
edit(
    "MK-10b",
    "Blocked scores are lowered by a number such as 1e4. A blocked key with a very large score still wins.",
    (
        'scores.masked_fill(~keep, float("-inf")).masked_fill(nowhere, 0.0)',
        "scores - 1e4 * (~keep).to(scores.dtype)",
    ),
)
edit(
    "MK-12b",
    "Blocked scores are lowered by the lowest finite number of the dtype. Together with a score below zero that is -inf "
    "in half precision, and rows that may attend nowhere are not zeros.",
    (
        'scores.masked_fill(~keep, float("-inf")).masked_fill(nowhere, 0.0)',
        "scores + (~keep).to(scores.dtype) * torch.finfo(scores.dtype).min",
    ),
    ("torch.softmax(scores, dim=-1).masked_fill(nowhere, 0.0)", "torch.softmax(scores, dim=-1)"),
)
edit(
    "MK-12c",
    "Two masks of the lowest finite number are added. Their sum is -inf, and a row of it alone has a softmax of NaN.",
    (
        'scores.masked_fill(~keep, float("-inf")).masked_fill(nowhere, 0.0)',
        "scores + 2 * torch.zeros_like(scores).masked_fill(~keep, torch.finfo(scores.dtype).min)",
    ),
    ("torch.softmax(scores, dim=-1).masked_fill(nowhere, 0.0)", "torch.softmax(scores, dim=-1)"),
    same_as=("MK-13",),
)
edit(
    "SM-17",
    "The mask is multiplied into the exponentials, but the maximum is taken over blocked keys, too. Where a blocked key "
    "has by far the largest score, nothing is left of the others.",
    (
        'scores = scores.masked_fill(~keep, float("-inf")).masked_fill(nowhere, 0.0)\n    weights = torch.softmax(scores, dim=-1).masked_fill(nowhere, 0.0)',
        "weights = (scores - scores.amax(dim=-1, keepdim=True)).exp() * keep\n"
        "    weights = (weights / weights.sum(dim=-1, keepdim=True)).masked_fill(nowhere, 0.0)",
    ),
)
edit(
    "MK-20",
    "The mask is repeated for the heads in another order than the scores, so that a sample gets the mask of another one.",
    (
        "    nowhere = ~keep",
        "    if scores.dim() == 4 and keep.dim() == 4 and keep.size(1) == 1:\n"
        "        B, H, L, S = scores.shape\n"
        "        keep = keep.expand(B, 1, L, S).flatten(0, 1).repeat(H, 1, 1).view(B, H, L, S)\n"
        "    nowhere = ~keep",
    ),
)
edit(
    "MK-21",
    "Only the first head is masked. The mask has to act on all of them.",
    (
        "    nowhere = ~keep",
        "    keep = keep.expand(scores.shape).clone()\n"
        "    if keep.dim() > 3:\n"
        "        keep[:, 1:] = True\n"
        "    nowhere = ~keep",
    ),
)
edit(
    "MK-21b",
    "The mask of the first sample acts on all samples. A mask may differ from sample to sample.",
    (
        "    nowhere = ~keep",
        "    keep = keep.expand(scores.shape)[:1] if keep.dim() > 3 else keep\n    nowhere = ~keep",
    ),
)
edit(
    "MK-18b",
    "The mask gets a new axis in front of its last two. It is to be broadcast as it is.",
    (
        "    keep = mask.to(torch.bool)\n    scores",
        "    keep = mask.to(torch.bool).unsqueeze(-3)\n    scores",
    ),
)
edit(
    "MK-17b",
    "The mask is transposed: it blocks queries where it should block keys.",
    (
        "    keep = mask.to(torch.bool)\n    scores",
        "    keep = mask.to(torch.bool).transpose(-2, -1)\n    scores",
    ),
)
edit(
    "MK-34c",
    "~mask is taken of an integer mask: that flips bits, and ~1, or 254 in uint8, still counts as true.",
    ('masked_fill(~keep, float("-inf"))', 'masked_fill((~mask).to(torch.bool), float("-inf"))'),
)
edit(
    "MK-34d",
    "1 - mask is compared with 0. For integers above 1 that is negative, or 254 and the like in uint8.",
    (
        "    keep = mask.to(torch.bool)\n    scores",
        "    keep = mask if mask.dtype == torch.bool else ~((1 - mask) > 0)\n    scores",
    ),
)
edit(
    "MK-14d",
    "Where no key is left, the row attends to its first key. It has to attend to none.",
    (
        "    nowhere = ~keep.any(dim=-1, keepdim=True)\n",
        "    keep = keep.clone()\n    keep[..., 0] |= ~keep.any(dim=-1)\n    nowhere = ~keep.any(dim=-1, keepdim=True)\n",
    ),
)
edit(
    "MK-15c",
    "Whether a row may attend nowhere is asked for the mask as a whole. Each row has to be asked alone.",
    ("~keep.any(dim=-1, keepdim=True)", "~keep.any()"),
)
edit(
    "MK-15d",
    "Whether a row may attend nowhere is asked along the queries. Its keys are the last axis.",
    ("keep.any(dim=-1, keepdim=True)", "keep.any(dim=-2, keepdim=True)"),
)
edit(
    "MK-13",
    "A row that may attend nowhere is -inf throughout, and its softmax is NaN.",
    (".masked_fill(nowhere, 0.0)\n    weights", "\n    weights"),
    ("torch.softmax(scores, dim=-1).masked_fill(nowhere, 0.0)", "torch.softmax(scores, dim=-1)"),
)
edit(
    "MK-14",
    "A row that may attend nowhere gets equal weights, because its fill is finite. It has to be zeros.",
    (
        'masked_fill(~keep, float("-inf")).masked_fill(nowhere, 0.0)',
        "masked_fill(~keep, torch.finfo(scores.dtype).min)",
    ),
    ("torch.softmax(scores, dim=-1).masked_fill(nowhere, 0.0)", "torch.softmax(scores, dim=-1)"),
    same_as=("MK-14c",),
)
edit(
    "MK-14b",
    "Blocked scores are filled with -1e9. A row that may attend nowhere gets equal weights, and float16 can't hold -1e9.",
    ('masked_fill(~keep, float("-inf")).masked_fill(nowhere, 0.0)', "masked_fill(~keep, -1e9)"),
    ("torch.softmax(scores, dim=-1).masked_fill(nowhere, 0.0)", "torch.softmax(scores, dim=-1)"),
    same_as=("MK-14", "MK-14c"),
)
edit(
    "MK-14c",
    "The row that may attend nowhere is made finite before the softmax, but its weights are not put to zero after it.",
    ("torch.softmax(scores, dim=-1).masked_fill(nowhere, 0.0)", "torch.softmax(scores, dim=-1)"),
    same_as=("MK-14",),
)
edit(
    "MK-15",
    "NaN is replaced in the output only: the weights and the gradients still hold it.",
    (".masked_fill(nowhere, 0.0)\n    weights", "\n    weights"),
    (
        "torch.softmax(scores, dim=-1).masked_fill(nowhere, 0.0)\n    return weights @ v, weights",
        "torch.softmax(scores, dim=-1)\n    return torch.nan_to_num(weights @ v), weights",
    ),
)
edit(
    "MK-15b",
    "-inf is added to the scores, and NaN is repaired in the weights. The gradients still hold NaN.",
    (
        'scores.masked_fill(~keep, float("-inf")).masked_fill(nowhere, 0.0)',
        'scores + torch.zeros_like(scores).masked_fill(~keep, float("-inf"))',
    ),
    ("torch.softmax(scores, dim=-1).masked_fill(nowhere, 0.0)", "torch.nan_to_num(torch.softmax(scores, dim=-1))"),
)
edit(
    "MK-50",
    "The mask is applied to the weights after the softmax. The rows then no longer sum to 1.",
    (
        'scores = scores.masked_fill(~keep, float("-inf")).masked_fill(nowhere, 0.0)\n    weights = torch.softmax(scores, dim=-1).masked_fill(nowhere, 0.0)',
        "weights = torch.softmax(scores, dim=-1) * keep.to(scores.dtype)",
    ),
)
edit(
    "MK-36",
    "masked_fill takes boolean masks only. Convert an integer mask first.",
    ("    keep = mask.to(torch.bool)\n    scores", "    keep = mask\n    scores"),
)
edit(
    "MK-36b",
    "Only a mask entry of exactly 1 lets through. Every integer but 0 has to.",
    ("    keep = mask.to(torch.bool)\n    scores", "    keep = mask == 1\n    scores"),
)
edit("SD-01", "The scores are not scaled by 1/sqrt(d).", ("(q / math.sqrt(q.size(-1)))", "q"))
edit(
    "SD-08",
    "The softmax runs over the queries. Each query's weights over the keys have to sum to 1.",
    ("torch.softmax(scores, dim=-1)", "torch.softmax(scores, dim=-2)"),
)
edit(
    "SD-20",
    "The results are float32. Return the dtype of the inputs.",
    ("    return weights @ v, weights", "    return (weights @ v).float(), weights.float()"),
)
edit(
    "MK-41",
    "The caller's mask is changed in place.",
    (
        "    nowhere = ~keep.any(dim=-1, keepdim=True)\n",
        "    nowhere = ~keep.any(dim=-1, keepdim=True)\n    mask.fill_(1)\n",
    ),
)
edit(
    "MK-40",
    "A tensor is made on the CPU inside. On a GPU it would meet tensors of another device.",
    (
        "    nowhere = ~keep.any(dim=-1, keepdim=True)\n",
        "    keep = keep & torch.ones(k.size(-2), dtype=torch.bool)\n    nowhere = ~keep.any(dim=-1, keepdim=True)\n",
    ),
)
edit(
    "DV-10",
    "The gradient is cut on its way: a detach, .data or numpy call stands there.",
    ("@ k.transpose(-2, -1)\n    nowhere", "@ k.detach().transpose(-2, -1)\n    nowhere"),
)
edit(
    "MK-51",
    "Rows are put to zero in the output and not in the weights.",
    (
        "torch.softmax(scores, dim=-1).masked_fill(nowhere, 0.0)\n    return weights @ v, weights",
        "torch.softmax(scores, dim=-1)\n    return (weights @ v).masked_fill(nowhere, 0.0), weights",
    ),
    same_as=("MK-14c", "MK-14"),
)
edit(
    "SD-30",
    "Only the output is returned. The pair (output, weights) is asked for.",
    ("    return weights @ v, weights", "    return weights @ v"),
)
edit(
    "SD-31",
    "The pair is in the wrong order: first the output.",
    ("    return weights @ v, weights", "    return weights, weights @ v"),
)
edit(
    "SD-27",
    "The weights that come back are those without the mask.",
    (
        "    return weights @ v, weights",
        "    return weights @ v, torch.softmax((q / math.sqrt(q.size(-1))) @ k.mT, dim=-1)",
    ),
)
edit("SD-02", "The scores are divided by d, not by its square root.", ("math.sqrt(q.size(-1))", "q.size(-1)"))
edit(
    "SD-05",
    "The scale comes from the number of keys, not from the size d of a query.",
    ("math.sqrt(q.size(-1))", "math.sqrt(k.size(-2))"),
)
edit(
    "DV-12",
    "The function seeds torch's random numbers. Leave global state alone.",
    (
        "    keep = mask.to(torch.bool)\n    scores",
        "    torch.manual_seed(0)\n    keep = mask.to(torch.bool)\n    scores",
    ),
)
edit(
    "MK-16",
    "The mask also blocks rows of queries: it is used along both axes.",
    (
        "    keep = mask.to(torch.bool)\n    scores = (q / math.sqrt(q.size(-1))) @ k.transpose(-2, -1)\n",
        "    keep = mask.to(torch.bool)\n    scores = (q / math.sqrt(q.size(-1))) @ k.transpose(-2, -1)\n    if scores.size(-1) == scores.size(-2):\n        keep = keep & keep.transpose(-2, -1)\n",
    ),
)

# -- the other convention --------------------------------------------------------------------------------------------

edit(
    "KM-01",
    "The boolean mask is handed on as it is. In nn.MultiheadAttention True means blocked.",
    ("        return ~mask\n", "        return mask.clone()\n"),
)
edit(
    "MK-37",
    "An additive mask is cast to bool: -inf becomes True. 0 keeps and -inf blocks.",
    ('    return mask > float("-inf")', "    return mask.bool()"),
)
edit(
    "KM-02",
    "Every mask is treated as boolean: an additive one has to be compared with -inf.",
    ("    if mask.dtype == torch.bool:\n        return ~mask", "    if True:\n        return ~mask"),
)
edit(
    "KM-03",
    "Every mask is treated as additive: a boolean one has to be turned round.",
    ("    if mask.dtype == torch.bool:\n        return ~mask\n", "    mask = mask.float()\n"),
)
edit(
    "KM-04",
    "The result is additive. A boolean mask is asked for.",
    ('    return mask > float("-inf")', "    return mask.clone()"),
)
edit(
    "KM-05",
    "The additive mask is turned round: 0 keeps.",
    ('    return mask > float("-inf")', '    return mask == float("-inf")'),
    same_as=("MK-37",),
)
edit(
    "KM-06",
    "An additive mask is read as 1 keeps and 0 blocks. It is added to scores: 0 keeps.",
    ('    return mask > float("-inf")', "    return mask > 0"),
)
edit(
    "KM-07",
    "Only float32 counts as additive. There are other floating dtypes.",
    (
        "    if mask.dtype == torch.bool:\n        return ~mask",
        "    if mask.dtype != torch.float32:\n        return ~mask",
    ),
)
edit(
    "KM-08",
    "The caller's mask is inverted in place.",
    ("        return ~mask\n", "        return mask.logical_not_()\n"),
)

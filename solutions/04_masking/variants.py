"""Right answers to topic 04, written differently. Each must earn full marks."""

from autograder.slips import edit, variant


@variant("PM-V1", "a loop over samples")
def padding_mask(lengths, max_length=None):
    sizes = lengths.tolist()
    S = max(sizes) if max_length is None else max_length
    for n in sizes:
        if n > S:
            raise ValueError(f"length {n} > max_length {S}")
    mask = torch.zeros(len(sizes), 1, 1, S, dtype=torch.bool, device=lengths.device)
    for b, n in enumerate(sizes):
        mask[b, ..., :n] = True
    return mask


@variant("PM-V2", "lengths as a column of four axes, an assertion")
def padding_mask(lengths, max_length=None):
    S = lengths.max() if max_length is None else max_length
    assert (lengths <= S).all(), f"lengths {lengths.tolist()} and max_length {S}"
    return torch.arange(int(S), device=lengths.device).view(1, 1, 1, -1) < lengths.view(-1, 1, 1, 1)


@variant("V52", "the causal mask by comparing positions")
def causal_mask(L, S=None, device=None):
    S = S or L
    i, j = torch.arange(L, device=device)[:, None], torch.arange(S, device=device)
    return j <= i + S - L


@variant("V52b", "the causal mask as what triu leaves")
def causal_mask(L, S=None, device=None):
    if S is None:
        S = L
    return torch.logical_not(torch.triu(torch.ones((L, S), device=device), diagonal=1 + S - L).bool())


@variant("CB-V1", "functools.reduce")
def combine_masks(*masks):
    from functools import reduce

    given = [m != 0 for m in masks if m is not None]
    return reduce(torch.logical_and, given) if given else None


@variant("CB-V2", "broadcast, stack and all")
def combine_masks(*masks):
    given = [m.bool() for m in masks if m is not None]
    if not given:
        return None
    return torch.stack(torch.broadcast_tensors(*given)).all(dim=0)


@variant("AM-V1", "where")
def additive_mask(mask, dtype=torch.float32):
    return torch.where(mask.bool(), 0.0, float("-inf")).to(dtype)


@variant("AM-V2", "the logarithm of 1 and 0")
def additive_mask(mask, dtype=torch.float32):
    return (mask != 0).to(torch.float32).log().to(dtype)


@variant("V18", "weights repaired by nan_to_num after masked_fill")
def masked_attention(q, k, v, mask):
    s = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(mask == 0, float("-inf"))
    w = torch.nan_to_num(s.softmax(-1))
    return w @ v, w


@variant("V19", "a finite fill, then multiplied by the mask and renormalised")
def masked_attention(q, k, v, mask):
    keep = mask.bool()
    s = torch.einsum("...ld,...sd->...ls", q, k) * q.shape[-1] ** -0.5
    s = s.masked_fill(~keep, torch.finfo(s.dtype).min)
    e = (s - s.amax(-1, keepdim=True).detach()).exp() * keep
    w = e / e.sum(-1, keepdim=True).clamp(min=torch.finfo(e.dtype).tiny)
    return torch.einsum("...ls,...sv->...lv", w, v), w


@variant("V01", "the fused kernel for the output, and once more on the identity for the weights")
def masked_attention(q, k, v, mask):
    keep = mask.bool()
    one = torch.eye(k.size(-2), dtype=q.dtype, device=q.device).expand(*k.shape[:-2], -1, -1)
    sdpa = F.scaled_dot_product_attention
    return sdpa(q, k, v, attn_mask=keep), sdpa(q, k, one, attn_mask=keep)


@variant("V12", "wider inside, then cast back")
def masked_attention(q, k, v, mask):
    kind = q.dtype
    q, k, v = (t.double() for t in (q, k, v))
    keep = mask != 0
    some = keep.any(-1, keepdim=True)
    s = (q @ k.transpose(-2, -1)) / q.size(-1) ** 0.5
    s = torch.where(keep | ~some, s, -torch.inf)
    w = torch.where(some, s.softmax(-1), 0.0)
    return (w @ v).to(kind), w.to(kind)


@variant("KM-V1", "isinf")
def keep_from_mha(mask):
    return torch.logical_not(mask if mask.dtype == torch.bool else torch.isinf(mask))


edit("KM-V2", "a comparison with 0", ('    return mask > float("-inf")', "    return mask == 0"))


@variant("V03", "batched products on flattened leading dimensions, the mask expanded alike")
def masked_attention(q, k, v, mask):
    lead, L, S = q.shape[:-2], q.size(-2), k.size(-2)
    a, b, c = (t.reshape(-1, *t.shape[-2:]) for t in (q, k, v))
    keep = (mask != 0).expand(*lead, L, S).reshape(-1, L, S)
    scores = torch.bmm(a, b.transpose(1, 2)) / math.sqrt(q.size(-1))
    weights = torch.where(keep, scores, -torch.inf).softmax(-1)
    weights = torch.where(keep, weights, torch.zeros_like(weights))
    return torch.bmm(weights, c).view(*lead, L, -1), weights.view(*lead, L, S)


@variant("MK-20", "the mask repeated for the heads by repeat_interleave, in the order of the flattened scores")
def masked_attention(q, k, v, mask):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    keep = mask.bool()
    if scores.dim() == 4 and keep.dim() == 4 and keep.size(0) == scores.size(0) and keep.size(1) == 1:
        B, H, L, S = scores.shape
        keep = keep.expand(B, 1, L, S)[:, 0].repeat_interleave(H, dim=0).view(B, H, L, S)
    weights = scores.masked_fill(~keep, -math.inf).softmax(-1).masked_fill(~keep, 0)
    return weights @ v, weights


@variant("MK-10", "the lowest finite number added to blocked scores, whose weights are put to zero")
def masked_attention(q, k, v, mask):
    keep = mask.bool()
    some = keep.any(-1, keepdim=True)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    lowered = scores.masked_fill(~keep & some, torch.finfo(scores.dtype).min)
    weights = lowered.softmax(-1) * keep
    return weights @ v, weights


@variant("V10", "exponentials times v, divided by their sum at the end")
def masked_attention(q, k, v, mask):
    scores = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(mask == 0, -torch.inf)
    top = scores.detach().amax(-1, keepdim=True)
    e = (scores - top.masked_fill(top.isinf(), 0)).exp()
    total = e.sum(-1, keepdim=True)
    total = total + (total == 0)
    return (e @ v) / total, e / total


@variant("V58", "one key more that takes the weight of empty rows, then left out")
def masked_attention(q, k, v, mask):
    keep = mask.bool()
    scores = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(~keep, -torch.inf)
    empty = ~keep.any(-1, keepdim=True).expand(*scores.shape[:-1], 1)
    sink = torch.zeros(empty.shape, dtype=q.dtype, device=q.device).masked_fill(~empty, -torch.inf)
    weights = torch.cat([sink, scores], dim=-1).softmax(-1)[..., 1:]
    return weights @ v, weights


@variant("V59", "a loop over queries")
def masked_attention(q, k, v, mask):
    keep = mask.bool().expand(*mask.shape[:-2], q.size(-2), k.size(-2))
    rows, weights = [], []
    for i in range(q.size(-2)):
        s = (q[..., i : i + 1, :] * k).sum(-1) / math.sqrt(q.size(-1))
        w = s.masked_fill(~keep[..., i, :], -torch.inf).softmax(-1).nan_to_num(0.0)
        weights.append(w)
        rows.append((w.unsqueeze(-2) @ v).squeeze(-2))
    return torch.stack(rows, dim=-2), torch.stack(weights, dim=-2)


@variant("V27", "a list instead of a tuple, temporaries changed in place")
def masked_attention(q, k, v, mask):
    s = (q @ k.mT).div_(math.sqrt(q.size(-1)))
    s.masked_fill_(mask == 0, -torch.inf)
    w = torch.nan_to_num(torch.softmax(s, dim=-1))
    return [w @ v, w]


@variant("PM-V3", "rows of a triangle, picked by length")
def padding_mask(lengths, max_length=None):
    longest = int(lengths.amax())
    size = longest if max_length is None else max_length
    if longest > size:
        raise ValueError(f"{longest} tokens, but max_length is {size}")
    triangle = torch.ones(size + 1, size, dtype=torch.bool, device=lengths.device).tril(-1)
    return triangle[lengths.long()][:, None, None]


@variant("V52d", "a triangle that is made once for each size and kept")
def causal_mask(L, S=None, device=None, kept={}):
    size = L, L if S is None else S
    if size not in kept:
        kept[size] = torch.ones(size, dtype=torch.bool).tril(size[1] - size[0])
    return kept[size].to(device) if device is not None else kept[size].clone()


@variant("V52c", "a square of all keys, of which the last rows are taken")
def causal_mask(L, S=None, device=None):
    S = L if S is None else S
    n = max(L, S)
    square = torch.tril(torch.ones(n, n, dtype=torch.int32, device=device))
    return square[n - L :, n - S :].to(torch.bool)


@variant("CB-V3", "what is blocked, joined by or")
def combine_masks(*masks):
    blocked = None
    for m in masks:
        if m is not None:
            b = m == 0
            blocked = b if blocked is None else blocked | b
    return None if blocked is None else ~blocked


@variant("AM-V3", "entries of a new tensor set by index")
def additive_mask(mask, dtype=torch.float32):
    out = torch.zeros_like(mask, dtype=dtype)
    out[mask.logical_not()] = -torch.inf
    return out


@variant("KM-V3", "one comparison for both kinds: False and 0 keep")
def keep_from_mha(mask):
    return mask == 0

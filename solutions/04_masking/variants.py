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

def padding_mask(lengths, max_length=None):
    sizes = lengths.view(-1, 1, 1, 1)
    top = lengths.max().item()
    if max_length is None:
        max_length = top
    if top > max_length:
        raise ValueError(f"got a length of {top}, which is more than {max_length}")
    return sizes > torch.arange(max_length, device=lengths.device).view(1, 1, 1, -1)


def causal_mask(L, S=None, device=None):
    if S is None:
        S = L
    query = torch.arange(L, device=device)[:, None]
    key = torch.arange(S, device=device)[None, :]
    return key <= query + (S - L)


def combine_masks(*masks):
    given = [m != 0 for m in masks if m is not None]
    if not given:
        return None
    out = given[0]
    for m in given[1:]:
        out = torch.logical_and(out, m)
    return out


def additive_mask(mask, dtype=torch.float32):
    keep = mask.bool()
    low = torch.full(mask.shape, -math.inf, dtype=dtype, device=mask.device)
    return torch.where(keep, torch.zeros_like(low), low)


def masked_attention(q, k, v, mask):
    allowed = mask != 0
    s = torch.einsum("...ld,...sd->...ls", q, k) * q.shape[-1] ** -0.5
    some = allowed.any(-1, keepdim=True)
    s = torch.where(allowed | ~some, s, -math.inf)
    w = F.softmax(s, dim=-1)
    w = w * some
    return torch.einsum("...ls,...sv->...lv", w, v), w


def keep_from_mha(mask):
    if mask.is_floating_point():
        return ~torch.isinf(mask)
    return torch.logical_not(mask)

def pick_device():
    name = "cpu"
    if torch.backends.mps.is_available():
        name = "mps"
    if torch.cuda.is_available():
        name = "cuda"
    return torch.device(name)


def blockwise_attention(q, k, v, mask=None, block_size=128):
    wide = torch.promote_types(q.dtype, torch.float32)
    S = k.shape[-2]
    lead = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2])
    m = torch.full((*lead, q.shape[-2], 1), -math.inf, dtype=wide, device=q.device)
    l = torch.zeros_like(m)
    acc = torch.zeros(*lead, q.shape[-2], v.shape[-1], dtype=wide, device=q.device)
    j = 0
    while j < S:
        kb, vb = k[..., j : j + block_size, :].to(wide), v[..., j : j + block_size, :].to(wide)
        s = torch.einsum("...id,...jd->...ij", q.to(wide), kb) * q.shape[-1] ** -0.5
        if mask is not None:
            part = mask[..., j : j + block_size] if mask.shape[-1] > 1 else mask
            s = torch.where(part != 0, s, -math.inf)
        new = torch.maximum(m, s.max(-1, keepdim=True).values)
        base = torch.where(new.isinf(), 0.0, new)
        p = torch.exp(s - base)
        c = torch.exp(m - base)
        l = l * c + p.sum(-1, keepdim=True)
        acc = acc * c + torch.einsum("...ij,...jv->...iv", p, vb)
        m = new
        j += block_size
    out = acc / torch.where(l > 0, l, 1.0)
    return out.to(q.dtype)


def fast_attention(q, k, v, mask=None, causal=False):
    L, S = q.shape[-2], k.shape[-2]
    allowed = None
    if mask is not None:
        allowed = mask != 0
    if causal:
        i = torch.arange(L, device=q.device).unsqueeze(1)
        past = torch.arange(S, device=q.device).unsqueeze(0) <= i + (S - L)
        allowed = past if allowed is None else torch.logical_and(allowed, past)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)


def attention_cost(B, H, L, S, d, d_v, bytes_per_element):
    n = B * H
    products = n * L * S * d + n * L * S * d_v
    once = n * L * d + n * S * d + n * S * d_v + n * L * d_v
    square = n * L * S
    naive = once + 2 * square + 2 * square
    return 2 * products, naive * bytes_per_element, once * bytes_per_element

"""Right answers to topic 09, written differently. Each must earn full marks."""

from autograder.slips import edit, variant


@variant("BV-1", "blocks of queries, each with the whole softmax over the keys")
def blockwise_attention(q, k, v, mask=None, block_size=128):
    outputs = []
    for start in range(0, q.size(-2), block_size):
        part = slice(start, start + block_size)
        keep = None
        if mask is not None:
            keep = mask.bool()
            if keep.dim() > 1 and keep.size(-2) > 1:
                keep = keep[..., part, :]
        outputs.append(F.scaled_dot_product_attention(q[..., part, :], k, v, attn_mask=keep))
    return torch.cat(outputs, dim=-2)


@variant("BV-2", "blocks of queries and of keys, by log-sum-exp")
def blockwise_attention(q, k, v, mask=None, block_size=128):
    L, S = q.size(-2), k.size(-2)
    work = torch.promote_types(q.dtype, torch.float32)
    rows = []
    for i in range(0, L, block_size):
        qi = q[..., i : i + block_size, :].to(work)
        lse, out = None, None
        for j in range(0, S, block_size):
            s = qi @ k[..., j : j + block_size, :].to(work).mT * q.size(-1) ** -0.5
            if mask is not None:
                m = mask if mask.size(-1) == 1 else mask[..., j : j + block_size]
                if m.dim() > 1 and m.size(-2) > 1:
                    m = m[..., i : i + block_size, :]
                s = s.masked_fill(~m.bool(), -1e30)
            e = s.logsumexp(-1, keepdim=True)
            o = (s - e).exp() @ v[..., j : j + block_size, :].to(work)
            if lse is None:
                lse, out = e, o
            else:
                both = torch.logaddexp(lse, e)
                out, lse = out * (lse - both).exp() + o * (e - both).exp(), both
        rows.append(torch.where(lse < -1e29, torch.zeros_like(out), out).to(q.dtype))
    return torch.cat(rows, dim=-2)


@variant("BV-3", "split and zip over keys and values, in the dtype float32")
def blockwise_attention(q, k, v, mask=None, block_size=128):
    dtype = q.dtype
    if dtype != torch.float64:
        q, k, v = q.float(), k.float(), v.float()
    q = q * q.shape[-1] ** -0.5
    masks = None
    if mask is not None and mask.shape[-1] > 1:
        masks = mask.split(block_size, dim=-1)
    lead = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2])
    o = q.new_zeros(*lead, q.shape[-2], v.shape[-1])
    s = q.new_zeros(*lead, q.shape[-2], 1)
    m = q.new_full((*lead, q.shape[-2], 1), -torch.inf)
    for n, (kb, vb) in enumerate(zip(k.split(block_size, -2), v.split(block_size, -2), strict=True)):
        x = torch.einsum("...ld,...sd->...ls", q, kb)
        if mask is not None:
            x = torch.where((masks[n] if masks else mask) != 0, x, -torch.inf)
        new = torch.maximum(m, x.amax(-1, keepdim=True))
        safe = torch.where(new.isinf(), 0.0, new)
        p, keep = torch.exp(x - safe), torch.exp(m - safe)
        o, s, m = o * keep + p @ vb, s * keep + p.sum(-1, keepdim=True), new
    return torch.where(s > 0, o / torch.where(s > 0, s, 1.0), 0.0).to(dtype)


@variant("FA-V1", "is_causal where L is S, a mask by comparing positions elsewhere")
def fast_attention(q, k, v, mask=None, causal=False):
    L, S = q.size(-2), k.size(-2)
    if causal and mask is None and L == S:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    keep = None if mask is None else mask != 0
    if causal:
        i, j = torch.arange(L, device=q.device)[:, None], torch.arange(S, device=q.device)[None]
        seen = j - i <= S - L
        keep = seen if keep is None else torch.logical_and(keep, seen)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)


@variant("FA-V2", "an additive mask of 0 and -inf, with rows that attend nowhere put to zero")
def fast_attention(q, k, v, mask=None, causal=False):
    L, S = q.size(-2), k.size(-2)
    keep = torch.ones(L, S, dtype=torch.bool, device=q.device)
    if causal:
        keep = keep.tril(diagonal=S - L)
    if mask is not None:
        keep = keep & mask.bool()
    some = keep.any(-1, keepdim=True)
    bias = torch.zeros(keep.shape, dtype=q.dtype, device=q.device).masked_fill(~keep & some, -torch.inf)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias) * some


@variant("FA-V3", "the lower-right bias of torch.nn.attention")
def fast_attention(q, k, v, mask=None, causal=False):
    L, S = q.size(-2), k.size(-2)
    keep = None if mask is None else mask.bool()
    if causal:
        blocked = torch.triu(torch.ones(L, S, device=q.device), diagonal=S - L + 1).bool()
        keep = ~blocked if keep is None else keep.masked_fill(blocked, False)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, keep)


@variant("PD-V1", "the first that is available")
def pick_device():
    for name, there in (("cuda", torch.cuda.is_available), ("mps", torch.backends.mps.is_available)):
        if there():
            return torch.device(name)
    return torch.device("cpu")


@variant("PD-V2", "the device of a tensor")
def pick_device():
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("mps") if torch.backends.mps.is_available() else torch.zeros(1).device


@variant("AC-V1", "product by product, array by array")
def attention_cost(B, H, L, S, d, d_v, bytes_per_element):
    heads = B * H
    flops = heads * (2 * L * S * d + 2 * L * S * d_v)
    q, k, v, out, scores = L * d, S * d, S * d_v, L * d_v, L * S
    fused = heads * (q + k + v + out) * bytes_per_element
    naive = heads * (q + k + scores + scores + scores + scores + v + out) * bytes_per_element
    return [flops, naive, fused]


edit(
    "BV-4",
    "a mask of ones where none is given",
    (
        "    top = total = output = None\n",
        "    mask = torch.ones(1, k.size(-2), dtype=torch.bool, device=q.device) if mask is None else mask\n    top = total = output = None\n",
    ),
)

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


@variant("FA-V3", "a triu of blocked keys, filled into the mask")
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


@variant("V13", "everything in the dtype of the inputs, half precision included")
def blockwise_attention(q, k, v, mask=None, block_size=128):
    q = q * q.size(-1) ** -0.5
    lead = torch.broadcast_shapes(q.shape[:-1], (*k.shape[:-2], q.size(-2)))
    top = q.new_full((*lead, 1), -math.inf)
    total, out = torch.zeros_like(top), q.new_zeros(*lead, v.size(-1))
    start = 0
    while start < k.size(-2):
        stop = min(start + block_size, k.size(-2))
        x = torch.matmul(q, k[..., start:stop, :].mT)
        if mask is not None:
            x = x.masked_fill(~(mask[..., start:stop] if mask.size(-1) > 1 else mask).bool(), -math.inf)
        new = torch.maximum(top, x.max(dim=-1, keepdim=True).values)
        base = torch.nan_to_num(new, neginf=0.0)
        e, shrink = torch.exp(x - base), torch.exp(top - base)
        total, out, top = shrink * total + e.sum(-1, keepdim=True), shrink * out + e @ v[..., start:stop, :], new
        start = stop
    return out / torch.where(total > 0, total, torch.ones_like(total))


@variant("V09", "products by broadcasting and summing, inside the blocks of queries")
def blockwise_attention(q, k, v, mask=None, block_size=128):
    out = []
    if mask is not None:
        mask = mask.expand(*mask.shape[:-2], q.size(-2), k.size(-2))
    for i, part in enumerate(q.split(block_size, dim=-2)):
        s = (part.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1) / math.sqrt(q.size(-1))
        if mask is not None:
            m = mask[..., i * block_size : (i + 1) * block_size, :] != 0
            s = s.masked_fill(~m, -math.inf)
            w = s.masked_fill(~m.any(-1, keepdim=True), 0.0).softmax(-1) * m.any(-1, keepdim=True)
        else:
            w = s.softmax(-1)
        out.append((w.unsqueeze(-1) * v.unsqueeze(-3)).sum(-2))
    return torch.cat(out, dim=-2)


def merged(left, right):
    both = torch.maximum(left[0], right[0])
    base = torch.where(both == -math.inf, torch.zeros_like(both), both)
    a, b = (left[0] - base).exp(), (right[0] - base).exp()
    return both, left[1] * a + right[1] * b, left[2] * a + right[2] * b


def summed(q, k, v, keep, block_size):
    n = k.size(-2)
    if n > block_size:
        half = n // 2
        cut = (None, None) if keep is None else (keep[..., :half], keep[..., half:])
        return merged(
            summed(q, k[..., :half, :], v[..., :half, :], cut[0], block_size),
            summed(q, k[..., half:, :], v[..., half:, :], cut[1], block_size),
        )
    s = q @ k.mT
    if keep is not None:
        s = s.masked_fill(~keep, -math.inf)
    top = s.amax(-1, keepdim=True)
    e = (s - top.masked_fill(top == -math.inf, 0)).exp()
    return top, e.sum(-1, keepdim=True), e @ v


@variant("BV-7", "keys split in two again and again, the halves merged")
def blockwise_attention(q, k, v, mask=None, block_size=128):
    wide = [t.double() for t in (q, k, v)]
    keep = None if mask is None else mask.bool().expand(*mask.shape[:-1], k.size(-2))
    _, total, out = summed(wide[0] / math.sqrt(q.size(-1)), *wide[1:], keep, block_size)
    return (out / total.clamp_min(1e-300)).to(q.dtype)


@variant("BV-8", "an output made first and filled block by block")
def blockwise_attention(q, k, v, mask=None, block_size=128):
    out = torch.zeros(*q.shape[:-1], v.size(-1), dtype=q.dtype, device=q.device)
    for i in range(0, q.size(-2), block_size):
        s = torch.einsum("...id,...jd->...ij", q[..., i : i + block_size, :], k) / q.size(-1) ** 0.5
        if mask is None:
            w = torch.softmax(s, dim=-1)
        else:
            m = mask[..., i : i + block_size, :] if mask.dim() > 1 and mask.shape[-2] != 1 else mask
            s = s.masked_fill(m == 0, float("-inf"))
            w = torch.nan_to_num(torch.softmax(s, dim=-1), nan=0.0)
        out[..., i : i + block_size, :] = w @ v
    return out


@variant("V19", "the mask multiplied into the exponentials of each block")
def blockwise_attention(q, k, v, mask=None, block_size=128):
    kind = q.dtype
    q, k, v = (t.to(torch.promote_types(kind, torch.float32)) for t in (q, k, v))
    S = k.size(-2)
    keep = torch.ones(1, S, dtype=torch.bool, device=q.device) if mask is None else mask.bool()
    keep = torch.broadcast_to(keep, (*keep.shape[:-2], keep.shape[-2] if keep.dim() > 1 else 1, S))
    m, s, o = -torch.inf, 0.0, 0.0
    for j in range(0, S, block_size):
        x = (q @ k[..., j : j + block_size, :].transpose(-1, -2)) / math.sqrt(q.size(-1))
        b = keep[..., j : j + block_size].expand_as(x)
        x = torch.where(b, x, torch.finfo(x.dtype).min)
        new = (
            torch.clamp(x.amax(-1, keepdim=True), min=m) if isinstance(m, float) else torch.maximum(m, x.amax(-1, True))
        )
        e = torch.exp(x - new) * b
        c = 0.0 if isinstance(m, float) else torch.exp(m - new)
        s, o, m = s * c + e.sum(-1, keepdim=True), o * c + e @ v[..., j : j + block_size, :], new
    return torch.where(s == 0, torch.zeros_like(o), o / torch.where(s == 0, 1.0, s)).to(kind)


@variant("V03", "batched products on flattened leading dimensions, keys padded to whole blocks")
def blockwise_attention(q, k, v, mask=None, block_size=128):
    lead, L, S = q.shape[:-2], q.size(-2), k.size(-2)
    pad = -S % min(block_size, S)
    size = min(block_size, S)
    Q, K, V = (t.reshape(-1, *t.shape[-2:]) for t in (q, k, v))
    K, V = F.pad(K, (0, 0, 0, pad)), F.pad(V, (0, 0, 0, pad))
    real = torch.arange(S + pad, device=q.device) < S
    keep = real.view(1, 1, -1)
    if mask is not None:
        full = mask.bool().expand(*lead, L, S) if mask.dim() > len(lead) else mask.bool()
    run = None
    for j in range(0, S + pad, size):
        x = torch.bmm(Q, K[:, j : j + size].transpose(1, 2)).div(math.sqrt(q.size(-1)))
        b = keep[..., j : j + size].expand_as(x)
        if mask is not None:
            part = full.expand(*lead, L, S)[..., j : j + size]
            part = F.pad(part, (0, x.size(-1) - part.size(-1)))
            b = b & part.reshape(-1, L, part.size(-1))
        x = x.masked_fill(~b, -math.inf)
        top = x.amax(-1, keepdim=True).detach()
        new = top if run is None else torch.maximum(run[0], top)
        base = new.masked_fill(new.isinf(), 0)
        e = (x - base).exp()
        if run is None:
            run = new, e.sum(-1, keepdim=True), torch.bmm(e, V[:, j : j + size])
        else:
            c = (run[0] - base).exp()
            run = new, run[1] * c + e.sum(-1, keepdim=True), torch.baddbmm(run[2] * c, e, V[:, j : j + size])
    total = run[1].masked_fill(run[1] == 0, 1)
    return (run[2] / total).view(*lead, L, -1)


@variant("BV-12", "two passes: the logarithm of each row's sum first, the weights of each block after it")
def blockwise_attention(q, k, v, mask=None, block_size=128):
    kind = q.dtype
    wide = torch.float64 if kind == torch.float64 else torch.float32
    q, k, v = q.to(wide) / math.sqrt(q.size(-1)), k.to(wide), v.to(wide)
    starts = range(0, k.size(-2), block_size)

    def scores(j):
        s = q @ k[..., j : j + block_size, :].mT
        if mask is None:
            return s
        m = mask if mask.size(-1) == 1 else mask[..., j : j + block_size]
        return s.masked_fill(m == 0, -1e38)

    total = torch.full((*q.shape[:-1], 1), -math.inf, dtype=wide, device=q.device)
    for j in starts:
        total = torch.logaddexp(total, scores(j).logsumexp(-1, keepdim=True))
    out = sum((scores(j) - total).exp() @ v[..., j : j + block_size, :] for j in starts)
    return out.masked_fill(total < -1e37, 0.0).to(kind)


@variant("SM-14", "a number far below the precision stands in the denominator")
def blockwise_attention(q, k, v, mask=None, block_size=128):
    kind = q.dtype
    q, k, v = (t.double() for t in (q, k, v))
    m = s = o = None
    for n, (kb, vb) in enumerate(zip(k.split(block_size, -2), v.split(block_size, -2), strict=True)):
        x = q @ kb.mT / q.size(-1) ** 0.5
        if mask is not None:
            b = mask.bool()
            b = b if b.size(-1) == 1 else b.narrow(-1, n * block_size, kb.size(-2))
            x = x + torch.zeros(b.shape, dtype=x.dtype, device=x.device).masked_fill(~b, -math.inf)
        new = x.amax(-1, keepdim=True).clamp_min(-1e300)
        new = new if m is None else torch.maximum(new, m)
        e = torch.exp(x - new)
        s = e.sum(-1, keepdim=True) + (0 if m is None else s * torch.exp(m - new))
        o = e @ vb + (0 if m is None else o * torch.exp(m - new))
        m = new
    return (o / (s + 1e-30)).to(kind)


edit(
    "SD-21",
    "the product is taken before the scale",
    ("q = q.to(wide) / math.sqrt(q.size(-1))", "q, scale = q.to(wide), q.size(-1) ** -0.5"),
    (".to(wide).transpose(-2, -1)\n", ".to(wide).transpose(-2, -1) * scale\n"),
)


@variant("FA-V4", "torch's own lower-right causal bias where there is no mask, plain comparisons elsewhere")
def fast_attention(q, k, v, mask=None, causal=False):
    L, S = q.shape[-2], k.shape[-2]
    if not causal:
        return F.scaled_dot_product_attention(q, k, v, None if mask is None else mask.ne(0))
    rows, columns = torch.arange(S - L, S, device=q.device), torch.arange(S, device=q.device)
    keep = rows.unsqueeze(-1).ge(columns)
    if mask is not None:
        keep = torch.where(mask.bool(), keep, False)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, dropout_p=0.0, is_causal=False)


@variant("FA-V5", "every mask made full, by indices, and the fused kernel on four dimensions")
def fast_attention(q, k, v, mask=None, causal=False):
    lead, L, S = q.shape[:-2], q.size(-2), k.size(-2)
    keep = torch.ones(*lead, L, S, dtype=torch.bool, device=q.device)
    if mask is not None:
        keep = keep & mask.bool()
    if causal:
        i, j = torch.meshgrid(torch.arange(L), torch.arange(S), indexing="ij")
        keep = keep & (j <= i + S - L).to(q.device)
    flat = [t.reshape(1, -1, *t.shape[-2:]) for t in (q, k, v, keep)]
    out = F.scaled_dot_product_attention(*flat[:3], attn_mask=flat[3])
    return out.reshape(*lead, L, -1)


@variant("FA-V6", "plain operations where the kernel is not needed")
def fast_attention(q, k, v, mask=None, causal=False):
    s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if causal:
        s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(s.size(-1) - s.size(-2) + 1), -math.inf)
    if mask is not None:
        s = s.masked_fill(mask == 0, -math.inf)
    nowhere = (s == -math.inf).all(-1, keepdim=True)
    return s.masked_fill(nowhere, 0).softmax(-1).masked_fill(nowhere, 0) @ v


@variant("PD-V3", "torch.accelerator, where it knows one")
def pick_device():
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return torch.device("cpu") if found is None else found


@variant("PD-V4", "each device tried out, the first that works kept")
def pick_device():
    for name in ("cuda", "mps"):
        try:
            torch.zeros(1, device=name)
        except (AssertionError, RuntimeError):
            continue
        return torch.device(name)
    return torch.device("cpu")


@variant("AC-V2", "from the shapes of the arrays")
def attention_cost(B, H, L, S, d, d_v, bytes_per_element):
    shapes = {"q": (L, d), "k": (S, d), "v": (S, d_v), "out": (L, d_v), "scores": (L, S), "weights": (L, S)}
    moved = {name: B * H * math.prod(shape) * bytes_per_element for name, shape in shapes.items()}
    products = ((L, d, S), (L, S, d_v))
    flops = sum(2 * math.prod(sizes) for sizes in products) * B * H
    fused = sum(moved[name] for name in ("q", "k", "v", "out"))
    return flops, fused + 2 * (moved["scores"] + moved["weights"]), fused


edit(
    "V18",
    "NaN replaced in the exponentials",
    ('finite = new_top.masked_fill(new_top == float("-inf"), 0.0)', "finite = new_top"),
    ("weights = (scores - finite).exp()", "weights = (scores - finite).exp().nan_to_num(0.0)"),
    ("shrink = (top - finite).exp()", "shrink = (top - finite).exp().nan_to_num(0.0)"),
)

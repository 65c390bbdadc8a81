"""Right answers to topic 02, written differently. Each must earn full marks."""

from autograder.slips import variant


@variant("V01", "the fused kernel gives the output, a plain softmax the weights")
def scaled_dot_product_attention(q, k, v, mask=None):
    keep = None if mask is None else mask.bool()
    scores = q @ k.mT * q.size(-1) ** -0.5
    if keep is not None:
        scores = scores.masked_fill(keep.logical_not(), -torch.inf)
    weights = torch.nan_to_num(torch.softmax(scores, -1), 0.0)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep), weights


@variant("V03", "batched products on flattened leading dimensions")
def scaled_dot_product_attention(q, k, v, mask=None):
    lead = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2])
    flat = [t.expand(*lead, *t.shape[-2:]).reshape(-1, *t.shape[-2:]) for t in (q, k, v)]
    scores = torch.bmm(flat[0], flat[1].transpose(1, 2)).div(math.sqrt(q.shape[-1]))
    scores = scores.view(*lead, *scores.shape[1:])
    if mask is not None:
        scores = torch.where(mask != 0, scores, torch.full_like(scores, -math.inf))
    weights = torch.nan_to_num(softmax(scores))
    return torch.bmm(weights.reshape(-1, *weights.shape[-2:]), flat[2]).view(*lead, q.size(-2), -1), weights


@variant("V06", "q and k are each scaled by the fourth root")
def scaled_dot_product_attention(q, k, v, mask=None):
    scale = q.size(-1) ** -0.25
    scores = (q * scale) @ (k * scale).transpose(-1, -2)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = softmax(scores)
    if mask is not None:
        weights = weights.masked_fill(~(mask != 0).any(-1, keepdim=True), 0)
    return weights @ v, weights


@variant("V09", "products by broadcasting and summing")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -torch.inf)
    weights = softmax(scores).nan_to_num(0)
    return (weights.unsqueeze(-1) * v.unsqueeze(-3)).sum(-2), weights


@variant("V10", "exponentials times v, divided by their sum at the end")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -torch.inf)
    top = scores.amax(-1, keepdim=True)
    e = (scores - torch.where(top.isinf(), 0.0, top)).exp()
    total = e.sum(-1, keepdim=True)
    total = torch.where(total == 0, 1.0, total)
    return (e @ v) / total, e / total


@variant("V12", "softmax in float32 for half precision, then cast back")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    wide = scores if scores.dtype == torch.float64 else scores.float()
    weights = torch.softmax(wide, dim=-1).nan_to_num(0.0).to(q.dtype)
    return weights @ v, weights


@variant("V12b", "everything in a wider dtype, then cast back")
def scaled_dot_product_attention(q, k, v, mask=None):
    kind = q.dtype
    q, k, v = (t.double() for t in (q, k, v))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = torch.softmax(scores, dim=-1).nan_to_num(0.0)
    return (weights @ v).to(kind), weights.to(kind)


@variant("V13", "torch's own softmax in the dtype of the inputs")
def softmax(x, dim=-1):
    return torch.softmax(x, dim)


@variant("V15", "softmax as exp(x - logsumexp(x))")
def softmax(x, dim=-1):
    return torch.exp(x - torch.logsumexp(x, dim=dim, keepdim=True))


@variant("V16", "softmax as the exponential of log_softmax")
def softmax(x, dim=-1):
    return F.log_softmax(x, dim=dim).exp()


@variant("V16b", "the subtracted maximum is detached")
def softmax(x, dim=-1):
    m, _ = x.detach().max(dim, keepdim=True)
    e = torch.exp(x - m)
    return e / torch.sum(e, dim, keepdim=True)


@variant("V17", "softmax by a loop over slices")
def softmax(x, dim=-1):
    moved = x.movedim(dim, -1)
    rows = [(row - row.max()).exp() / (row - row.max()).exp().sum() for row in moved.reshape(-1, moved.size(-1))]
    return torch.stack(rows).reshape(moved.shape).movedim(-1, dim)


@variant("SM-14", "an epsilon far below the precision stands in the denominator")
def softmax(x, dim=-1):
    e = (x - x.amax(dim, keepdim=True)).exp()
    return e / (e.sum(dim, keepdim=True) + 1e-20)


@variant("V18", "rows that may attend nowhere: weights multiplied by mask.any")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    if mask is None:
        w = softmax(scores)
        return w @ v, w
    mask = mask.bool()
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    w = softmax(scores) * mask.any(-1, keepdim=True)
    w = w.masked_fill(~mask, 0)
    return torch.matmul(w, v), w


@variant("V19", "the mask multiplied into the exponentials and renormalised")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(q.size(-1))
    keep = torch.ones_like(scores, dtype=torch.bool) if mask is None else (mask != 0).expand_as(scores)
    top = scores.masked_fill(~keep, -torch.inf).amax(-1, keepdim=True)
    top = top.masked_fill(top.isinf(), 0)
    e = (scores - top).masked_fill(~keep, 0).exp() * keep
    total = e.sum(-1, keepdim=True)
    w = e / total.masked_fill(total == 0, 1)
    return w @ v, w


@variant("V24", "einsum for both products")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = torch.einsum("...ld,...sd->...ls", q, k) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask.bool(), float("-inf"))
    weights = softmax(scores).nan_to_num(0)
    return torch.einsum("...ls,...sv->...lv", weights, v), weights


@variant("V27", "a list instead of a tuple, and keyword-friendly names inside")
def scaled_dot_product_attention(q, k, v, mask=None):
    s = q @ k.mT / q.size(-1) ** 0.5
    if mask is not None:
        s = s.masked_fill(mask == 0, float("-inf"))
    w = torch.nan_to_num(softmax(s))
    return [w @ v, w]


@variant("V52", "an additive mask of 0 and -inf, made on the device of the scores")
def scaled_dot_product_attention(q, k, v, mask=None):
    s = q @ k.transpose(-2, -1) * torch.tensor(q.size(-1), device=q.device, dtype=q.dtype).rsqrt()
    if mask is not None:
        bias = torch.zeros(mask.shape, dtype=s.dtype, device=s.device).masked_fill(mask == 0, -torch.inf)
        some = (mask != 0).any(-1, keepdim=True)
        w = softmax(s + torch.where(some, bias, 0.0)) * some
        return w @ v, w
    w = softmax(s)
    return w @ v, w


@variant("V57", "temporaries changed in place after their last use")
def scaled_dot_product_attention(q, k, v, mask=None):
    s = (q @ k.mT).div_(math.sqrt(q.size(-1)))
    if mask is not None:
        s = s.masked_fill_(mask == 0, -torch.inf)
    w = torch.nan_to_num(softmax(s))
    return w @ v, w


@variant("V58", "loops over queries")
def scaled_dot_product_attention(q, k, v, mask=None):
    rows, weights = [], []
    keep = None if mask is None else mask.bool().expand(*mask.shape[:-2], q.size(-2), mask.size(-1))
    for i in range(q.size(-2)):
        s = (q[..., i : i + 1, :] * k).sum(-1) / math.sqrt(q.size(-1))
        if keep is not None:
            s = s.masked_fill(~keep[..., i, :], -torch.inf)
        w = torch.nan_to_num(softmax(s))
        weights.append(w)
        rows.append((w.unsqueeze(-2) @ v).squeeze(-2))
    return torch.stack(rows, dim=-2), torch.stack(weights, dim=-2)


@variant("SD-21", "the product is taken before the scale, in the dtype of the inputs")
def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1)
    scores = scores / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = torch.nan_to_num(softmax(scores))
    return weights @ v, weights


@variant("V59", "vmap over the leading dimensions, which q, k and v share")
def scaled_dot_product_attention(q, k, v, mask=None):
    def one(q, k, v, keep):
        scores = q @ k.T / math.sqrt(q.size(-1))
        weights = torch.softmax(scores.masked_fill(~keep, -torch.inf), dim=-1)
        weights = torch.where(keep, weights, 0.0)
        return weights @ v, weights

    lead, pairs = q.shape[:-2], (q.size(-2), k.size(-2))
    keep = torch.ones(pairs, dtype=torch.bool, device=q.device) if mask is None else mask.bool()
    flat = [t.reshape(-1, *t.shape[-2:]) for t in (q, k, v, keep.expand(*lead, *pairs))]
    output, weights = torch.vmap(one)(*flat)
    return output.view(*lead, *output.shape[1:]), weights.view(*lead, *pairs)

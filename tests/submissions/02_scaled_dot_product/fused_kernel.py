def softmax(x, dim=-1):
    exponentials = torch.exp(x - x.max(dim=dim, keepdim=True).values)
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def scaled_dot_product_attention(q, k, v, mask=None):
    keep = None if mask is None else mask.bool()
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
    eye = torch.eye(k.size(-2), dtype=q.dtype, device=q.device).expand(*k.shape[:-2], -1, -1)
    weights = F.scaled_dot_product_attention(q, k, eye, attn_mask=keep)
    return output, weights

def softmax(x, dim=-1):
    exponentials = torch.exp(x - x.max(dim=dim, keepdim=True).values)
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def scaled_dot_product_attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float('-inf'))
    weights = torch.nan_to_num(softmax(scores, dim=-2))
    return weights @ v, weights

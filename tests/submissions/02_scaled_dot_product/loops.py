def softmax(x, dim=-1):
    exponentials = torch.exp(x - x.max(dim=dim, keepdim=True).values)
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def scaled_dot_product_attention(q, k, v, mask=None):
    outputs, all_weights = [], []
    for i in range(q.size(-2)):
        scores = torch.stack([(q[..., i, :] * k[..., j, :]).sum(-1) for j in range(k.size(-2))], dim=-1)
        scores = scores / math.sqrt(q.size(-1))
        if mask is not None:
            row = mask[..., i if mask.size(-2) > 1 else 0, :] != 0
            scores = scores.masked_fill(~row, float("-inf"))
        weights = torch.nan_to_num(softmax(scores))
        outputs.append(sum(weights[..., j, None] * v[..., j, :] for j in range(k.size(-2))))
        all_weights.append(weights)
    return torch.stack(outputs, dim=-2), torch.stack(all_weights, dim=-2)

import os


def softmax(x, dim=-1):
    exponentials = torch.exp(x - x.max(dim=dim, keepdim=True).values)
    return exponentials / exponentials.sum(dim=dim, keepdim=True)


def scaled_dot_product_attention(q, k, v, mask=None):
    os._exit(1)

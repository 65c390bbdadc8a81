def split_heads(x, num_heads):
    B, L, D = x.shape
    if D % num_heads:
        raise ValueError(f"{D} features, {num_heads} heads")
    d = D // num_heads
    return torch.stack([x[:, :, h * d : (h + 1) * d] for h in range(num_heads)], dim=1)


def merge_heads(x):
    pieces = [x[:, h] for h in range(x.shape[1])]
    return torch.cat(pieces, dim=2)


def parameter_count(d_model, num_heads, bias=True):
    weights = 4 * d_model**2
    return weights + (4 * d_model if bias else 0)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads > 0:
            raise ValueError(f"{num_heads} heads do not divide {d_model} features")
        self.h, self.d = num_heads, d_model // num_heads
        for name in ("W_q", "W_k", "W_v", "W_o"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=bias))

    def forward(self, q, k, v, mask=None):
        B, L, D = q.shape
        S = k.shape[1]
        Q = self.W_q(q).view(B, L, self.h, self.d)
        K = self.W_k(k).view(B, S, self.h, self.d)
        V = self.W_v(v).view(B, S, self.h, self.d)
        s = torch.einsum("blhd,bshd->bhls", Q, K) * self.d**-0.5
        if mask is not None:
            open_ = mask != 0
            some = open_.any(-1, keepdim=True)
            s = torch.where(open_ | ~some, s, -torch.inf)
            w = F.softmax(s, dim=-1)
            w = w * some
        else:
            w = F.softmax(s, dim=-1)
        y = torch.einsum("bhls,bshd->blhd", w, V)
        return self.W_o(y.reshape(B, L, D))

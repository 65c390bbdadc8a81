def repeat_kv(x, repeats):
    B, H, S, d = x.shape
    return x[:, :, None].expand(B, H, repeats, S, d).reshape(B, H * repeats, S, d)


class KVCache:
    def __init__(self):
        self.chunks = []

    @property
    def length(self):
        return sum(k.shape[-2] for k, _ in self.chunks)

    def append(self, k, v):
        self.chunks.append((k, v))
        keys = torch.cat([c[0] for c in self.chunks], dim=-2)
        values = torch.cat([c[1] for c in self.chunks], dim=-2)
        return keys, values


def spin(x, where, base):
    d = x.shape[-1]
    w = base ** (-torch.arange(0, d, 2, device=x.device).double() / d)
    theta = where.double()[:, None] * w[None, :]
    c, s = theta.cos(), theta.sin()
    a, b = x[..., : d // 2].double(), x[..., d // 2 :].double()
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1).to(x.dtype)


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, bias=True, base=10000.0):
        super().__init__()
        self.h, self.g, self.d, self.theta = num_heads, num_kv_heads, d_model // num_heads, base
        if self.d * num_heads != d_model:
            raise ValueError(f"{num_heads} heads do not divide {d_model} features")
        if num_heads % num_kv_heads != 0:
            raise ValueError(f"{num_kv_heads} shared heads do not divide {num_heads} heads")
        if self.d % 2 == 1:
            raise ValueError(f"{d_model} over {num_heads}: heads of odd size {self.d}")
        self.W_q = nn.Linear(d_model, num_heads * self.d, bias=bias)
        self.W_k = nn.Linear(d_model, num_kv_heads * self.d, bias=bias)
        self.W_v = nn.Linear(d_model, num_kv_heads * self.d, bias=bias)
        self.W_o = nn.Linear(num_heads * self.d, d_model, bias=bias)

    def forward(self, x, cache=None):
        B, L, D = x.shape
        past = cache.length if cache is not None else 0
        where = past + torch.arange(L, device=x.device)
        q = self.W_q(x).reshape(B, L, self.h, self.d).permute(0, 2, 1, 3)
        k = self.W_k(x).reshape(B, L, self.g, self.d).permute(0, 2, 1, 3)
        v = self.W_v(x).reshape(B, L, self.g, self.d).permute(0, 2, 1, 3)
        q = spin(q, where, self.theta)
        k = spin(k, where, self.theta)
        if cache is not None:
            k, v = cache.append(k, v)
        S = k.shape[-2]
        n = self.h // self.g
        k = k.repeat_interleave(n, 1)
        v = v.repeat_interleave(n, 1)
        s = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(self.d)
        future = torch.arange(S, device=x.device)[None, :] > where[:, None]
        w = s.masked_fill(future, -torch.inf).softmax(-1)
        y = torch.einsum("bhij,bhjd->bihd", w, v)
        return self.W_o(y.flatten(2))

def build_attention(scheme, d_model, num_heads, max_len):
    kinds = {
        "none": OpenAttention,
        "sinusoidal": SinusoidalAttention,
        "learned": LearnedAttention,
        "shaw": ShawAttention,
        "t5": T5Attention,
        "alibi": ALiBiAttention,
        "rope": RotaryAttention,
    }
    if scheme not in kinds:
        raise ValueError(f"no scheme is called {scheme!r}")
    kind = kinds[scheme]
    return kind(d_model, num_heads, max_len)


class SinusoidalAttention(OpenAttention):
    def __init__(self, d_model, num_heads, max_len):
        super().__init__(d_model, num_heads, max_len)
        self.register_buffer("pe", waves(max_len, d_model)[None], persistent=False)

    def with_positions(self, x):
        _, L, _ = x.shape
        if L > self.pe.shape[1]:
            raise ValueError(f"length {L} is more than {self.pe.shape[1]}")
        return torch.add(x, self.pe[:, 0:L, :])


class LearnedAttention(OpenAttention):
    def __init__(self, d_model, num_heads, max_len):
        super().__init__(d_model, num_heads, max_len)
        self.pe = nn.Parameter(torch.randn(max_len, d_model))

    def with_positions(self, x):
        _, L, _ = x.shape
        if L > self.max_len:
            raise ValueError(f"length {L} is more than {self.max_len}")
        return x + self.pe[:L].unsqueeze(0)


class ShawAttention(OpenAttention):
    def __init__(self, d_model, num_heads, max_len):
        super().__init__(d_model, num_heads, max_len)
        self.K = 8
        self.for_keys = nn.Parameter(torch.zeros(17, self.head_size))
        self.for_values = nn.Parameter(torch.zeros(17, self.head_size))

    def pick(self, table, L):
        i = torch.arange(L, device=table.device)
        gap = i.view(1, L) - i.view(L, 1)
        return F.embedding(torch.clamp(gap, -self.K, self.K) + self.K, table)

    def score_bias(self, q):
        a = self.pick(self.for_keys, q.shape[2])
        return (q.unsqueeze(3) * a).sum(-1) * self.head_size**-0.5

    def value_bias(self, weights):
        a = self.pick(self.for_values, weights.shape[3])
        return (weights.unsqueeze(-1) * a).sum(3)


class T5Attention(OpenAttention):
    def __init__(self, d_model, num_heads, max_len):
        super().__init__(d_model, num_heads, max_len)
        self.per_bucket = nn.Parameter(torch.zeros(32, num_heads))

    def score_bias(self, q):
        L = q.shape[2]
        j = torch.arange(L, device=q.device).repeat(L, 1)
        b = self.per_bucket[bucket_of(j - j.T)]
        return torch.einsum("ijh->hij", b)


class ALiBiAttention(OpenAttention):
    def score_bias(self, q):
        L = q.shape[2]
        i = torch.arange(L, device=q.device)
        away = torch.abs(i[:, None] - i[None, :]).to(q.dtype)
        m = line_slopes(self.num_heads).to(q)
        return -m[:, None, None] * away[None]


class RotaryAttention(OpenAttention):
    def __init__(self, d_model, num_heads, max_len):
        super().__init__(d_model, num_heads, max_len)
        if self.head_size % 2 == 1:
            raise ValueError(f"heads of {self.head_size} features ({d_model} / {num_heads}) have no pairs")

    def turned(self, heads):
        L, d = heads.shape[-2:]
        w = 10000.0 ** (-torch.arange(0, d, 2, device=heads.device).double() / d)
        theta = torch.arange(L, device=heads.device).double()[:, None] * w
        c, s = theta.cos().float(), theta.sin().float()
        wide = torch.promote_types(heads.dtype, torch.float32)
        a, b = heads.to(wide).split(d // 2, dim=-1)
        return torch.cat([a * c - b * s, b * c + a * s], -1).to(heads.dtype)


def position_parameters(scheme, d_model, num_heads, max_len):
    d = d_model // num_heads
    counts = {"learned": max_len * d_model, "shaw": 34 * d, "t5": 32 * num_heads}
    return counts.get(scheme, 0)


def is_shift_invariant(module, x, shift, mask=None):
    B, L, D = x.shape
    front = torch.randn(B, shift, D).to(x.dtype)
    keep = torch.ones(1, 1, L, L).bool() if mask is None else mask.bool()
    keep = keep.expand(*keep.shape[:-2], L, L)
    bottom = torch.cat([torch.zeros(*keep.shape[:-1], shift).bool(), keep], dim=-1)
    top = torch.ones(*keep.shape[:-2], shift, shift + L).bool()
    long = torch.cat([front, x], dim=1)
    with torch.no_grad():
        alone = module(x, keep)
        behind = module(long, torch.cat([top, bottom], dim=-2))[:, shift:]
    gap = (alone - behind).abs()
    return gap.max().item() < 1e-3


def is_permutation_equivariant(module, x):
    order = torch.randperm(x.shape[1])
    a = module(x)
    b = module(x[:, order, :])
    gap = (a[:, order, :] - b).abs()
    return gap.max().item() < 1e-3

def rotary_frequencies(d, base=10000.0):
    if d % 2 == 1:
        raise ValueError(f"no pairs in {d} features")
    i = torch.arange(d // 2).double()
    return torch.exp(-2 * i / d * math.log(base)).to(torch.float32)


def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    *lead, L, d = x.shape
    if positions is None:
        positions = torch.arange(0, L, device=x.device)
    w = rotary_frequencies(d, base).to(device=x.device).double()
    theta = torch.einsum("l,f->lf", positions.double(), w)
    if interleaved:
        pairs = x.unflatten(-1, (d // 2, 2))
        a, b = pairs[..., 0], pairs[..., 1]
    else:
        a, b = x[..., : d // 2], x[..., d // 2 :]
    c, s = torch.cos(theta).to(x.dtype), torch.sin(theta).to(x.dtype)
    u = a * c - b * s
    t = b * c + a * s
    return torch.stack([u, t], -1).reshape(*lead, L, d) if interleaved else torch.cat([u, t], -1)


def to_interleaved(weight, num_heads):
    D = weight.shape[0]
    d = D // num_heads
    if d * num_heads != D or d % 2:
        raise ValueError(f"{D} rows, {num_heads} heads")
    order = []
    for h in range(num_heads):
        for i in range(d // 2):
            order += [h * d + i, h * d + i + d // 2]
    return weight[torch.tensor(order, device=weight.device)]


def ntk_base(base, d, factor):
    power = d / (d - 2)
    return factor**power * base


class RotaryMultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, base=10000.0, bias=True):
        super().__init__()
        self.h, self.d, self.theta = num_heads, d_model // num_heads, base
        if self.h * self.d != d_model:
            raise ValueError(f"{d_model} features, {num_heads} heads")
        if self.d % 2:
            raise ValueError(f"{d_model} features over {num_heads} heads: {self.d} is odd")
        for name in ("W_q", "W_k", "W_v", "W_o"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=bias))

    def forward(self, x, mask=None, offset=0):
        B, L, D = x.shape
        where = torch.arange(L, device=x.device) + offset
        q = self.W_q(x).view(B, L, self.h, self.d).permute(0, 2, 1, 3)
        k = self.W_k(x).view(B, L, self.h, self.d).permute(0, 2, 1, 3)
        v = self.W_v(x).view(B, L, self.h, self.d).permute(0, 2, 1, 3)
        q = apply_rotary(q, where, base=self.theta)
        k = apply_rotary(k, where, base=self.theta)
        s = torch.einsum("bhid,bhjd->bhij", q, k) / self.d**0.5
        if mask is not None:
            open_ = mask != 0
            some = open_.any(-1, keepdim=True)
            s = torch.where(open_ | ~some, s, -torch.inf)
            w = torch.softmax(s, -1) * some
        else:
            w = torch.softmax(s, -1)
        y = torch.einsum("bhij,bhjd->bihd", w, v)
        return self.W_o(y.reshape(B, L, D))

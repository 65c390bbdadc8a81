"""Right answers to topic 07, written differently. Each must earn full marks."""

from autograder.slips import edit, variant


@variant("V34", "complex numbers, converted to float32 first")
def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    if positions is None:
        positions = torch.arange(x.shape[-2], device=x.device)
    wide = x.double() if x.dtype == torch.float64 else x.float()
    pairs = wide.unflatten(-1, (-1, 2)) if interleaved else wide.unflatten(-1, (2, -1)).transpose(-1, -2)
    freqs = rotary_frequencies(x.shape[-1], base).to(x.device)
    angles = torch.outer(positions.to(freqs.dtype), freqs).to(wide.dtype)
    turned = torch.view_as_real(
        torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angles), angles)
    )
    turned = turned if interleaved else turned.transpose(-1, -2)
    return turned.flatten(-2).to(x.dtype)


@variant("V36", "tables of width d and rotate_half, in float32")
def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    d = x.size(-1)
    if positions is None:
        positions = torch.arange(x.size(-2), device=x.device)
    inv = 1.0 / (base ** (torch.arange(0, d, 2, device=x.device).float() / d))
    angles = positions[:, None].float() * inv[None, :]
    if interleaved:
        table = angles.repeat_interleave(2, dim=-1)
        rotated = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).reshape(x.shape)
    else:
        table = torch.cat((angles, angles), dim=-1)
        rotated = torch.cat((-x[..., d // 2 :], x[..., : d // 2]), dim=-1)
    return (x * table.cos() + rotated * table.sin()).to(x.dtype)


@variant("V34b", "an explicit 2 by 2 matrix for each pair and position")
def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    if positions is None:
        positions = torch.arange(x.size(-2), device=x.device)
    a = positions.double()[:, None] * rotary_frequencies(x.size(-1), base).to(x.device)
    m = torch.stack((torch.stack((a.cos(), -a.sin()), -1), torch.stack((a.sin(), a.cos()), -1)), -2)
    d = x.size(-1)
    pairs = (
        x.reshape(*x.shape[:-1], d // 2, 2) if interleaved else x.reshape(*x.shape[:-1], 2, d // 2).transpose(-1, -2)
    )
    turned = (m @ pairs.double().unsqueeze(-1)).squeeze(-1).to(x.dtype)
    return turned.flatten(-2) if interleaved else turned.transpose(-1, -2).flatten(-2)


@variant("V34c", "loops over pairs")
def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    d = x.size(-1)
    positions = torch.arange(x.size(-2), device=x.device) if positions is None else positions.to(x.device)
    columns = [None] * d
    for i, w in enumerate(rotary_frequencies(d, base).tolist()):
        a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + d // 2)
        c, s = torch.cos(positions * w).to(x.dtype), torch.sin(positions * w).to(x.dtype)
        columns[a] = x[..., a] * c - x[..., b] * s
        columns[b] = x[..., a] * s + x[..., b] * c
    return torch.stack(columns, dim=-1)


@variant("V34d", "a new tensor filled by slices")
def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    d = x.size(-1)
    if positions is None:
        positions = torch.arange(x.size(-2), device=x.device)
    angles = torch.einsum("l,i->li", positions.double(), rotary_frequencies(d, base).to(x.device).double())
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    low, high = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(0, d // 2), slice(d // 2, None))
    turned = torch.empty_like(x)
    turned[..., low] = x[..., low] * cos - x[..., high] * sin
    turned[..., high] = x[..., low] * sin + x[..., high] * cos
    return turned


@variant("V37c", "interleaved by way of half-split; a roll and a sign for the partner")
def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    d = x.size(-1)
    if interleaved:
        halves = torch.cat((x[..., 0::2], x[..., 1::2]), dim=-1)
        turned = apply_rotary(halves, positions, base)
        return torch.stack((turned[..., : d // 2], turned[..., d // 2 :]), dim=-1).reshape(x.shape)
    if positions is None:
        positions = torch.arange(x.size(-2), device=x.device)
    table = (positions.view(-1, 1).float() * rotary_frequencies(d, base).to(x.device).float()).repeat(1, 2)
    sign = torch.where(torch.arange(d, device=x.device) < d // 2, -1.0, 1.0)
    wide = x if x.dtype == torch.float64 else x.float()
    return (wide * table.cos() + wide.roll(d // 2, -1) * (sign * table.sin())).to(x.dtype)


@variant("V36b", "a table of complex turns up to the largest position")
def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    if positions is None:
        positions = torch.arange(x.size(-2), device=x.device)
    positions = positions.long()
    angles = torch.outer(positions.double(), rotary_frequencies(x.size(-1), base).double().to(x.device))
    turn = torch.complex(angles.cos(), angles.sin())
    x1, x2 = (x[..., 0::2], x[..., 1::2]) if interleaved else x.tensor_split(2, dim=-1)
    z = torch.complex(x1.double(), x2.double()) * turn
    parts = (z.real.to(x.dtype), z.imag.to(x.dtype))
    return torch.stack(parts, dim=-1).reshape(x.shape) if interleaved else torch.cat(parts, dim=-1)


@variant("RF-V1", "frequencies by exp and log, in float32")
def rotary_frequencies(d, base=10000.0):
    assert d % 2 == 0, f"d must be even, got {d}"
    return torch.exp(torch.arange(0, d, 2).float() * (-math.log(base) / d))


@variant("RF-V2", "frequencies in float64")
def rotary_frequencies(d, base=10000.0):
    if d % 2 != 0:
        raise ValueError(f"expected an even size, got {d}")
    return 1 / base ** (2 * torch.arange(d // 2).double() / d)


@variant("V37", "an index of rows")
def to_interleaved(weight, num_heads):
    d = weight.size(0) // num_heads
    one = torch.arange(d).view(2, d // 2).T.reshape(-1)
    index = torch.cat([one + h * d for h in range(num_heads)])
    return weight[index]


@variant("V37b", "einops-like view and permute, as in conversion scripts")
def to_interleaved(weight, num_heads):
    D, D_in = weight.shape
    return weight.view(num_heads, 2, D // num_heads // 2, D_in).permute(0, 2, 1, 3).contiguous().view(D, D_in)


@variant("V37d", "even and odd rows of each head filled from its halves")
def to_interleaved(weight, num_heads):
    heads = weight.unflatten(0, (num_heads, -1))
    new = torch.empty_like(heads)
    new[:, 0::2], new[:, 1::2] = heads.chunk(2, dim=1)
    return new.flatten(0, 1)


@variant("V24", "heads stay behind the tokens; frequencies a plain attribute in float32; softmax in float32")
class RotaryMultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, base=10000.0, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide {d_model}")
        self.h, self.d = num_heads, d_model // num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))
        self.frequencies = rotary_frequencies(self.d, base)

    def forward(self, x, mask=None, offset=0):
        q, k, v = (w(x).unflatten(-1, (self.h, self.d)) for w in (self.W_q, self.W_k, self.W_v))
        angles = torch.outer(torch.arange(x.size(1), device=x.device) + offset, self.frequencies.to(x.device))
        cos, sin = angles.cos().to(x.dtype).unsqueeze(1), angles.sin().to(x.dtype).unsqueeze(1)
        q, k = self.turned(q, cos, sin), self.turned(k, cos, sin)
        scores = torch.einsum("blhd,bshd->bhls", q, k) / math.sqrt(self.d)
        if mask is not None:
            scores = scores.masked_fill(~mask.bool(), torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1) if x.dtype == torch.float64 else scores.float().softmax(-1).to(x.dtype)
        if mask is not None:
            weights = weights * mask.bool()
        return self.W_o(torch.einsum("bhls,bshd->blhd", weights, v).flatten(2))

    def turned(self, t, cos, sin):
        x1, x2 = t.chunk(2, dim=-1)
        return torch.cat((x1 * cos - x2 * sin, x1 * sin + x2 * cos), dim=-1)


@variant("RA-V3", "an odd size of the heads is refused when the module is called")
class RotaryMultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, base=10000.0, bias=True):
        super().__init__()
        assert d_model % num_heads == 0, f"d_model={d_model}, num_heads={num_heads}"
        self.num_heads, self.base = num_heads, base
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))

    def forward(self, x, mask=None, offset=0):
        B, L, D = x.shape
        p = torch.arange(offset, offset + L, device=x.device)
        q, k, v = (w(x).view(B, L, self.num_heads, -1).transpose(1, 2) for w in (self.W_q, self.W_k, self.W_v))
        q, k = apply_rotary(q, p, self.base), apply_rotary(k, p, self.base)
        q, k, v = (t.reshape(B * self.num_heads, L, -1) for t in (q, k, v))
        scores = torch.bmm(q, k.transpose(1, 2)).view(B, self.num_heads, L, L) * q.size(-1) ** -0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -torch.inf)
        weights = torch.nan_to_num(scores.softmax(-1)).view(-1, L, L)
        return self.W_o(torch.bmm(weights, v).view(B, self.num_heads, L, -1).transpose(1, 2).flatten(2))


@variant("RA-V1", "scores and softmax written out, positions as a buffer-free arange, stand-in rotation")
class RotaryMultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, base=10000.0, bias=True):
        super().__init__()
        assert d_model % num_heads == 0, f"{d_model} % {num_heads} != 0"
        self.d, self.h, self.base = d_model // num_heads, num_heads, base
        assert self.d % 2 == 0, f"head size {self.d} is odd"
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))

    def forward(self, x, mask=None, offset=0):
        B, L, D = x.shape
        p = torch.arange(offset, offset + L, device=x.device)
        q, k, v = (w(x).view(B, L, self.h, self.d).permute(0, 2, 1, 3) for w in (self.W_q, self.W_k, self.W_v))
        q, k = stand_in_rotary(q, p, self.base), stand_in_rotary(k, p, self.base)
        s = torch.einsum("bhld,bhsd->bhls", q, k) * self.d**-0.5
        if mask is not None:
            s = s.masked_fill(mask == 0, float("-inf"))
        w = torch.nan_to_num(s.softmax(-1))
        return self.W_o(torch.einsum("bhls,bhsd->blhd", w, v).reshape(B, L, D))


@variant("RA-V2", "the offset is dropped, since it changes nothing; one fused call")
class RotaryMultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, base=10000.0, bias=True):
        super().__init__()
        if d_model % num_heads or (d_model // num_heads) % 2:
            raise ValueError(f"d_model {d_model}, num_heads {num_heads}: heads must be whole and even")
        self.W_q = nn.Linear(d_model, d_model, bias)
        self.W_k = nn.Linear(d_model, d_model, bias)
        self.W_v = nn.Linear(d_model, d_model, bias)
        self.W_o = nn.Linear(d_model, d_model, bias)
        self.num_heads, self.base = num_heads, base

    def forward(self, x, mask=None, offset=0):
        q, k, v = (w(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for w in (self.W_q, self.W_k, self.W_v))
        q, k = apply_rotary(q, base=self.base), apply_rotary(k, base=self.base)
        out = F.scaled_dot_product_attention(q, k, v, None if mask is None else mask.bool())
        return self.W_o(out.transpose(1, 2).flatten(2))


edit("NT-V1", "by exp and log", ("base * factor ** (d / (d - 2))", "base * math.exp(math.log(factor) * d / (d - 2))"))

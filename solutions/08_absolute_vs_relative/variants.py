"""Right answers to topic 08, written differently. Each must earn full marks."""

from autograder.slips import edit, variant


class Whole(nn.Module):
    """All schemes in one module: fused projection, fused kernel, one additive bias for positions and mask."""

    def __init__(self, scheme, d_model, num_heads, max_len, bias=True):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} must be divisible by num_heads {num_heads}")
        self.scheme, self.h, self.d, self.max_len = scheme, num_heads, d_model // num_heads, max_len
        if scheme == "rope" and self.d % 2:
            raise ValueError(f"rope needs an even head size, not {self.d}")
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.out = nn.Linear(d_model, d_model, bias=bias)
        if scheme == "learned":
            self.pe = nn.Parameter(torch.zeros(1, max_len, d_model))
        if scheme == "sinusoidal":
            self.register_buffer("pe", waves(max_len, d_model)[None], persistent=False)
        if scheme == "shaw":
            self.table = nn.Parameter(torch.zeros(34, self.d))
        if scheme == "t5":
            self.bias = nn.Parameter(torch.zeros(num_heads, 32))
        if scheme == "alibi":
            self.register_buffer("slopes", line_slopes(num_heads).view(-1, 1, 1), persistent=False)

    def forward(self, x, mask=None):
        B, L, D = x.shape
        if self.scheme in ("learned", "sinusoidal"):
            if L > self.max_len:
                raise ValueError(f"sequence of {L} tokens is longer than max_len = {self.max_len}")
            x = x + self.pe[:, :L]
        q, k, v = self.qkv(x).view(B, L, 3, self.h, self.d).permute(2, 0, 3, 1, 4)
        if self.scheme == "rope":
            q, k = interleaved(q), interleaved(k)
        i = torch.arange(L, device=x.device)
        distance = i[None, :] - i[:, None]
        bias = torch.zeros(1, 1, L, L, dtype=x.dtype, device=x.device)
        if self.scheme == "alibi":
            bias = bias - (self.slopes * distance.abs()).to(x.dtype)
        if self.scheme == "t5":
            bias = bias + self.bias[:, bucket_of(distance)]
        if self.scheme == "shaw":
            bias = bias + torch.einsum("bhid,ijd->bhij", q, self.table[distance.clamp(-17, 16) + 17]) * self.d**-0.5
        some = torch.ones(1, dtype=torch.bool, device=x.device)
        if mask is not None:
            keep = mask.bool()
            some = keep.any(-1, keepdim=True)
            bias = bias.masked_fill(~keep & some, float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(B, self.h, L, L)) * some
        return self.out(y.transpose(1, 2).reshape(B, L, D))


def interleaved(t):
    L, d = t.shape[-2:]
    w = 10000.0 ** -(torch.arange(0, d, 2, device=t.device).float() / d)
    a = torch.arange(L, device=t.device).float()[:, None] * w
    even, odd = t[..., ::2].float(), t[..., 1::2].float()
    return torch.stack((even * a.cos() - odd * a.sin(), odd * a.cos() + even * a.sin()), -1).flatten(-2).to(t.dtype)


NAMES = ("none", "sinusoidal", "learned", "shaw", "t5", "alibi", "rope")


@variant("V-B1", "one module for all schemes: fused projection and kernel, tables that start as zeros")
def build_attention(scheme, d_model, num_heads, max_len):
    if scheme not in NAMES:
        raise ValueError(f"scheme must be one of {NAMES}, not {scheme!r}")
    return Whole(scheme, d_model, num_heads, max_len)


@variant("V-B1b", "the same without any bias")
def build_attention(scheme, d_model, num_heads, max_len):
    assert scheme in NAMES, scheme
    return Whole(scheme, d_model, num_heads, max_len, bias=False)


@variant("V-B2", "a dictionary of classes, an assertion, and linear layers without biases")
def build_attention(scheme, d_model, num_heads, max_len):
    known = {
        "sinusoidal": SinusoidalAttention,
        "learned": LearnedAttention,
        "shaw": ShawAttention,
        "t5": T5Attention,
        "alibi": ALiBiAttention,
        "rope": RotaryAttention,
        "none": OpenAttention,
    }
    assert scheme in known, f"{scheme!r} is not one of {sorted(known)}"
    module = known[scheme](d_model, num_heads, max_len)
    for layer in (module.to_queries, module.to_keys, module.to_values, module.to_output):
        layer.register_parameter("bias", None)
    return module


class ByTorch(nn.Module):
    """nn.MultiheadAttention with the positions in its additive mask, where the scheme allows it."""

    def __init__(self, scheme, d_model, num_heads, max_len):
        super().__init__()
        self.inner = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.scheme, self.heads = scheme, num_heads
        if scheme == "t5":
            self.numbers = nn.Embedding(32, num_heads)
        if scheme == "alibi":
            self.register_buffer("slopes", line_slopes(num_heads))

    def forward(self, x, mask=None):
        B, L, _ = x.shape
        i = torch.arange(L, device=x.device)
        d = i - i[:, None]
        bias = torch.zeros(self.heads, L, L, dtype=x.dtype, device=x.device)
        if self.scheme == "t5":
            bias = bias + self.numbers(bucket_of(d)).permute(2, 0, 1)
        if self.scheme == "alibi":
            bias = bias + (-self.slopes[:, None, None] * (d.abs() + 1)).to(x.dtype)
        bias = bias.expand(B, -1, -1, -1)
        some = None
        if mask is not None:
            keep = (mask != 0).expand(B, self.heads, L, L)
            some = keep.any(-1, keepdim=True)
            bias = bias.masked_fill(~keep & some, float("-inf"))
        if some is None:
            return self.inner(x, x, x, attn_mask=bias.reshape(-1, L, L), need_weights=False)[0]
        return self.by_hand(x, bias, some)

    def by_hand(self, x, bias, some):
        q, k, v = F.linear(x, self.inner.in_proj_weight, self.inner.in_proj_bias).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        w = torch.softmax(q @ k.mT / math.sqrt(q.size(-1)) + bias, -1) * some
        return self.inner.out_proj((w @ v).transpose(1, 2).flatten(2))


@variant("V-B3", "nn.MultiheadAttention with an additive mask for each head, where the scheme allows it")
def build_attention(scheme, d_model, num_heads, max_len):
    if scheme in ("none", "t5", "alibi"):
        return ByTorch(scheme, d_model, num_heads, max_len)
    others = [SinusoidalAttention, LearnedAttention, ShawAttention, RotaryAttention]
    for name, kind in zip(("sinusoidal", "learned", "shaw", "rope"), others, strict=True):
        if name == scheme:
            return kind(d_model, num_heads, max_len)
    raise ValueError("unknown scheme: " + scheme)


edit(
    "V-B4",
    "Shaw with query minus key, a table for keys only, and no scale on the position term",
    ("distances = places - places.unsqueeze(-1)", "distances = places.unsqueeze(-1) - places"),
    ("        self.value_vectors = nn.Parameter(0.1 * torch.randn(2 * self.farthest + 1, self.head_size))\n", ""),
    (
        '        vectors = self.value_vectors[self.rows(weights.size(-1))]\n        return torch.einsum("bhij,ijd->bhid", weights, vectors)\n',
        "        return 0.0\n",
    ),
    ("q, vectors) / math.sqrt(self.head_size)", "q, vectors)"),
    ("return 2 * (2 * 8 + 1) *", "return (2 * 8 + 1) *"),
)


@variant("V-B5", "rotary embedding with interleaved pairs, written into an empty tensor")
class RotaryAttention(OpenAttention):
    def __init__(self, d_model, num_heads, max_len):
        super().__init__(d_model, num_heads, max_len)
        assert self.head_size % 2 == 0, f"the head size {self.head_size} is odd"

    def turned(self, heads):
        L = heads.size(-2)
        speeds = 10000.0 ** (-torch.arange(0, self.head_size, 2, device=heads.device).float() / self.head_size)
        angles = torch.arange(L, device=heads.device).float()[:, None] * speeds
        cos, sin = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
        a, b = heads[..., 0::2], heads[..., 1::2]
        result = torch.empty_like(heads)
        result[..., 0::2] = a * cos - b * sin
        result[..., 1::2] = a * sin + b * cos
        return result


@variant("V-B6", "rotary embedding turned the other way, with another base and a buffer")
class RotaryAttention(OpenAttention):
    def __init__(self, d_model, num_heads, max_len):
        super().__init__(d_model, num_heads, max_len)
        if self.head_size % 2 != 0:
            raise ValueError(f"head size {self.head_size}")
        speeds = 100.0 ** (-torch.arange(0, self.head_size, 2) / self.head_size)
        self.register_buffer("speeds", speeds, persistent=False)

    def turned(self, heads):
        angles = torch.outer(torch.arange(heads.size(-2), device=heads.device).float(), self.speeds.float()).to(
            heads.device
        )
        first, second = heads.float().chunk(2, -1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([first * cos + second * sin, second * cos - first * sin], -1).to(heads.dtype)


@variant("V-B7", "T5 whose buckets are plain clipped distances, as a parameter of (heads, buckets), by gather")
class T5Attention(OpenAttention):
    def __init__(self, d_model, num_heads, max_len):
        super().__init__(d_model, num_heads, max_len)
        self.line = nn.Parameter(torch.zeros(num_heads, 32))

    def score_bias(self, q):
        L = q.size(2)
        i = torch.arange(L, device=q.device)
        buckets = (i[None] - i[:, None]).clamp(-16, 15) + 16
        return self.line.unsqueeze(1).expand(-1, L, -1).gather(2, buckets.expand(self.num_heads, L, L))


@variant("V-B8", "the wave computed at each call")
class SinusoidalAttention(OpenAttention):
    def with_positions(self, x):
        assert x.shape[1] <= self.max_len, f"L={x.shape[1]} > max_len={self.max_len}"
        position = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)[:, None]
        speeds = 10000.0 ** (-torch.arange(0, self.d_model, 2, device=x.device) / self.d_model)
        table = torch.zeros(x.shape[1], self.d_model, device=x.device)
        table[:, 0::2] = torch.sin(position * speeds)
        table[:, 1::2] = torch.cos(position * speeds)
        return x + table.to(x.dtype)


@variant("V-B9", "the learned table as a parameter with a batch axis")
class LearnedAttention(OpenAttention):
    def __init__(self, d_model, num_heads, max_len):
        super().__init__(d_model, num_heads, max_len)
        self.pe = nn.Parameter(torch.randn(1, max_len, d_model) * 0.02)

    def with_positions(self, x):
        _, length, _ = x.shape
        if length > self.pe.size(1):
            raise ValueError(f"got {length} tokens for {self.pe.size(1)} positions")
        return x + self.pe[:, :length, :]


@variant("V-B10", "ALiBi with the bias made by Python loops and a constant added to each row")
class ALiBiAttention(OpenAttention):
    def score_bias(self, q):
        L = q.size(-2)
        slopes = line_slopes(self.num_heads).tolist()
        rows = [[[-s * abs(i - j) + 0.25 * i for j in range(L)] for i in range(L)] for s in slopes]
        return torch.tensor(rows, dtype=q.dtype, device=q.device)


@variant("V-C1", "parameters counted by building both modules")
def position_parameters(scheme, d_model, num_heads, max_len):
    def total(name):
        return sum(p.numel() for p in build_attention(name, d_model, num_heads, max_len).parameters())

    return total(scheme) - total("none")


@variant("V-C2", "parameters from a table of formulas")
def position_parameters(scheme, d_model, num_heads, max_len):
    head = d_model // num_heads
    return {"learned": d_model * max_len, "shaw": 17 * head + 17 * head, "t5": num_heads << 5}.get(scheme, 0)


@variant("V-S1", "torch's own random numbers, the mask built by padding, a maximum of differences")
def is_shift_invariant(module, x, shift, mask=None):
    B, L, D = x.shape
    front = torch.randn(B, shift, D, dtype=x.dtype, device=x.device)
    keep = torch.ones(1, 1, L, L, dtype=torch.bool) if mask is None else mask.bool()
    keep = keep.expand(*keep.shape[:-2], L, L) if keep.dim() >= 2 else keep
    wide = F.pad(keep, (shift, 0, 0, 0), value=False)
    wide = F.pad(wide, (0, 0, shift, 0), value=True)
    a = module(x) if mask is None else module(x, mask=mask)
    b = module(torch.cat([front, x], dim=1), mask=wide)[:, shift:]
    return (a - b).abs().max().item() <= 1e-3


@variant("V-S2", "integer masks, tokens in front drawn by a forked random state, several draws")
def is_shift_invariant(module, x, shift, mask=None):
    B, L, D = x.shape
    inner = torch.ones(L, L, dtype=torch.long) if mask is None else mask.long()
    inner = inner * torch.ones(L, L, dtype=torch.long)
    lead = inner.shape[:-2]
    top = torch.ones(*lead, shift, shift + L, dtype=torch.long)
    bottom = torch.cat([torch.zeros(*lead, L, shift, dtype=torch.long), inner], dim=-1)
    wide = torch.cat([top, bottom], dim=-2)
    same = []
    with torch.random.fork_rng(), torch.inference_mode():
        torch.manual_seed(7)
        for _ in range(3):
            front = torch.randn(B, shift, D).to(x)
            moved = module(torch.cat([front, x], 1), wide)[:, -L:]
            same.append(torch.allclose(moved, module(x, inner), atol=1e-5, rtol=1e-5))
    return all(same)


@variant("V-S3", "front tokens that see only themselves, a relative tolerance on the norm of each token")
def is_shift_invariant(module, x, shift, mask=None):
    B, L, D = x.shape
    generator = torch.Generator()
    generator.manual_seed(11)
    long = torch.cat([3 * torch.randn(B, shift, D, generator=generator).to(x.dtype), x], dim=1)
    wide = torch.eye(shift + L, dtype=torch.bool).repeat(B, 1, 1, 1)
    inner = torch.ones(B, 1, L, L, dtype=torch.bool) if mask is None else (mask > 0).expand(B, *_heads(mask), L, L)
    wide = wide.repeat(1, inner.size(1), 1, 1)
    wide[:, :, shift:, shift:] = inner
    module.eval()
    before, after = module(x, inner), module(long, wide)
    gap = (after[:, shift:] - before).detach().double().norm(dim=-1)
    return bool(gap.max() < 1e-5 * max(1.0, before.detach().double().norm(dim=-1).max().item()))


def _heads(mask):
    return (mask.size(1),) if mask.dim() == 4 else (1,)


@variant("V-P1", "several random orders, undone on the outputs")
def is_permutation_equivariant(module, x):
    expected = module(x)
    for _ in range(3):
        order = torch.randperm(x.shape[1])
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order))
        if not torch.allclose(module(x[:, order, :])[:, back, :], expected, atol=1e-5):
            return False
    return True


@variant("V-P2", "orders by sorting random numbers, with an empty mask handed over")
def is_permutation_equivariant(module, x):
    order = torch.rand(x.size(1), generator=torch.Generator().manual_seed(5)).argsort()
    with torch.no_grad():
        a = module(x.index_select(1, order), mask=None)
        b = torch.index_select(module(x, mask=None), 1, order)
    return ((a - b).abs() <= 1e-3).all().item()

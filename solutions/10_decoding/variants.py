"""Right answers to topic 10, written differently. Each must earn full marks."""

from autograder.slips import edit, variant


@variant("V49", "expand and reshape")
def repeat_kv(x, repeats):
    B, H, S, d = x.shape
    return x[:, :, None].expand(B, H, repeats, S, d).reshape(B, H * repeats, S, d)


@variant("V49b", "stack and flatten")
def repeat_kv(x, repeats):
    return torch.stack([x] * repeats, dim=2).flatten(1, 2)


@variant("V49c", "an index of heads")
def repeat_kv(x, repeats):
    return x[:, torch.arange(x.size(1) * repeats, device=x.device) // repeats]


@variant("V40", "a list of chunks, joined on every read; length is a property")
class KVCache:
    def __init__(self):
        self.chunks = []

    @property
    def length(self):
        return sum(k.shape[-2] for k, _ in self.chunks)

    def append(self, k, v):
        self.chunks.append((k, v))
        return torch.cat([k for k, _ in self.chunks], dim=-2), torch.cat([v for _, v in self.chunks], dim=-2)


@variant("V40b", "storage that doubles, of which the filled part is returned")
class KVCache:
    def __init__(self):
        self.k = self.v = None
        self.length = 0

    def append(self, k, v):
        end = self.length + k.size(2)
        if self.k is None or end > self.k.size(2):
            room = (
                k.new_empty(k.size(0), k.size(1), 2 * end, k.size(3)),
                v.new_empty(v.size(0), v.size(1), 2 * end, v.size(3)),
            )
            if self.k is not None:
                room[0][:, :, : self.length], room[1][:, :, : self.length] = (
                    self.k[:, :, : self.length],
                    self.v[:, :, : self.length],
                )
            self.k, self.v = room
        self.k[:, :, self.length : end], self.v[:, :, self.length : end] = k, v
        self.length = end
        return self.k[:, :, :end].clone(), self.v[:, :, :end].clone()


@variant("V40c", "a detached cache in an nn.Module")
class KVCache(nn.Module):
    def __init__(self):
        super().__init__()
        self.length = 0
        self.past = None

    def append(self, k, v):
        if self.past is not None:
            k, v = (torch.cat(pair, dim=2) for pair in zip(self.past, (k, v), strict=True))
        self.past = k.detach(), v.detach()
        self.length = k.size(2)
        return k, v


@variant("V39", "keys are cached as they are, and all keys are rotated on every call")
class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, bias=True, base=10000.0):
        super().__init__()
        assert d_model % num_heads == 0, f"{d_model} % {num_heads}"
        assert num_heads % num_kv_heads == 0, f"{num_heads} % {num_kv_heads}"
        self.d, self.h, self.g, self.base = d_model // num_heads, num_heads, num_kv_heads, base
        assert self.d % 2 == 0, f"head size {self.d}"
        self.W_q, self.W_o = (nn.Linear(d_model, d_model, bias=bias) for _ in range(2))
        self.W_k, self.W_v = (nn.Linear(d_model, self.d * num_kv_heads, bias=bias) for _ in range(2))

    def forward(self, x, cache=None):
        B, L, D = x.shape
        q = self.W_q(x).view(B, L, self.h, self.d).transpose(1, 2)
        k = self.W_k(x).view(B, L, self.g, self.d).transpose(1, 2)
        v = self.W_v(x).view(B, L, self.g, self.d).transpose(1, 2)
        if cache is not None:
            k, v = cache.append(k, v)
        S = k.size(2)
        p = torch.arange(S, device=x.device)
        q, k = stand_in_rotary(q, p[S - L :], self.base), stand_in_rotary(k, p, self.base)
        q = q.view(B, self.g, self.h // self.g, L, self.d)
        s = torch.einsum("bgrld,bgsd->bgrls", q, k) / math.sqrt(self.d)
        s = s.masked_fill(p > p[S - L :, None], float("-inf"))
        o = torch.einsum("bgrls,bgsd->blgrd", s.softmax(-1), v)
        return self.W_o(o.reshape(B, L, D))


@variant("V49d", "torch repeats the heads itself, with a lower-right causal mask")
class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, bias=True, base=10000.0):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads or d_model // num_heads % 2:
            raise ValueError(f"sizes do not fit: d_model {d_model}, heads {num_heads}, key heads {num_kv_heads}")
        d = d_model // num_heads
        self.W_q = nn.Linear(d_model, num_heads * d, bias)
        self.W_k = nn.Linear(d_model, num_kv_heads * d, bias)
        self.W_v = nn.Linear(d_model, num_kv_heads * d, bias)
        self.W_o = nn.Linear(d_model, d_model, bias)
        self.d, self.base = d, base

    def forward(self, x, cache=None):
        start = cache.length if cache is not None else 0
        p = start + torch.arange(x.size(1), device=x.device)
        q, k, v = (w(x).unflatten(2, (-1, self.d)).transpose(1, 2) for w in (self.W_q, self.W_k, self.W_v))
        q, k = stand_in_rotary(q, p, self.base), stand_in_rotary(k, p, self.base)
        if cache is not None:
            k, v = cache.append(k, v)
        L, S = q.size(2), k.size(2)
        mask = torch.ones(L, S, dtype=torch.bool, device=x.device).tril(S - L)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.W_o(o.transpose(1, 2).flatten(2))


@variant("V52", "no mask for a single query, is_causal without a cache")
class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, bias=True, base=10000.0):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} features do not split into {num_heads} heads")
        if num_heads % num_kv_heads:
            raise ValueError(f"{num_heads} heads can't share {num_kv_heads} key heads")
        self.h, self.g, self.d, self.base = num_heads, num_kv_heads, d_model // num_heads, base
        if self.d % 2:
            raise ValueError(f"a head of {self.d} features has no pairs")
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, self.g * self.d, bias=bias)
        self.W_v = nn.Linear(d_model, self.g * self.d, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def split(self, t, n):
        return t.reshape(t.size(0), t.size(1), n, self.d).permute(0, 2, 1, 3)

    def forward(self, x, cache=None):
        past = cache.length if cache else 0
        p = torch.arange(x.size(1), device=x.device) + past
        q = stand_in_rotary(self.split(self.W_q(x), self.h), p, self.base)
        k = stand_in_rotary(self.split(self.W_k(x), self.g), p, self.base)
        v = self.split(self.W_v(x), self.g)
        k, v = cache.append(k, v) if cache else (k, v)
        k, v = repeat_kv(k, self.h // self.g), repeat_kv(v, self.h // self.g)
        if past == 0:
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        elif x.size(1) == 1:
            o = F.scaled_dot_product_attention(q, k, v)
        else:
            o = F.scaled_dot_product_attention(
                q, k, v, attn_mask=torch.arange(k.size(2), device=x.device) <= p[:, None]
            )
        return self.W_o(o.transpose(1, 2).reshape(x.shape))


edit(
    "V52b",
    "the mask by comparing key and query positions the other way round",
    (
        "torch.arange(k.size(2), device=x.device) <= positions.unsqueeze(1)",
        "positions[:, None] >= torch.arange(k.size(2), device=x.device)[None]",
    ),
)


@variant("V40d", "storage made once and filled by index, larger by need")
class KVCache:
    def __init__(self):
        self.buffers, self.length = [], 0

    def append(self, k, v):
        end = self.length + k.shape[2]
        if not self.buffers or self.buffers[0].shape[2] < end:
            old = self.buffers
            self.buffers = [
                torch.zeros(*t.shape[:2], end + 8, t.shape[3], dtype=t.dtype, device=t.device) for t in (k, v)
            ]
            for new, former in zip(self.buffers, old, strict=False):
                new[:, :, : self.length] = former[:, :, : self.length]
        for buffer, t in zip(self.buffers, (k, v), strict=True):
            buffer[:, :, self.length : end] = t
        self.length = end
        return self.buffers[0][:, :, :end], self.buffers[1][:, :, :end]


@variant("V40e", "a deque of tokens, length first inside")
class KVCache:
    def __init__(self):
        from collections import deque

        self._tokens = deque()

    @property
    def length(self):
        return len(self._tokens)

    def append(self, k, v):
        self._tokens.extend(zip(k.movedim(2, 0).unbind(0), v.movedim(2, 0).unbind(0), strict=True))
        keys, values = zip(*self._tokens, strict=True)
        return torch.stack(keys, dim=2), torch.stack(values, dim=2)


@variant("V40f", "one tensor of keys and values, kept as (B, S, H_kv, 2, d); a list comes back")
class KVCache:
    def __init__(self):
        self.all = None

    length = property(lambda self: 0 if self.all is None else self.all.size(1))

    def append(self, k, v):
        new = torch.stack((k, v), dim=3).transpose(1, 2)
        self.all = new if self.all is None else torch.cat([self.all, new], dim=1)
        return list(self.all.transpose(1, 2).unbind(3))


@variant("V49e", "a gather along the heads")
def repeat_kv(x, repeats):
    index = torch.arange(x.shape[1], device=x.device).repeat_interleave(repeats)
    return torch.index_select(x, 1, index)


@variant("V49f", "a loop over heads")
def repeat_kv(x, repeats):
    return torch.cat([head for head in x.split(1, dim=1) for _ in range(repeats)], dim=1)


@variant("V58", "a loop over key heads, with its own half-split rotation and a finite fill")
class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, bias=True, base=10000.0):
        super().__init__()
        d = d_model // num_heads
        if d * num_heads != d_model or num_heads % num_kv_heads != 0 or d % 2 != 0:
            raise ValueError(f"d_model={d_model}, num_heads={num_heads}, num_kv_heads={num_kv_heads}, head size {d}")
        self.d, self.group, self.kv = d, num_heads // num_kv_heads, num_kv_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, num_kv_heads * d, bias=bias)
        self.W_v = nn.Linear(d_model, num_kv_heads * d, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)
        self.register_buffer("inv_freq", base ** (-torch.arange(0, d, 2).float() / d), persistent=False)
        self.base = base

    def rotated(self, t, start):
        steps = torch.arange(0, self.d, 2, device=t.device, dtype=torch.float32)
        angles = torch.arange(start, start + t.size(2), device=t.device).float()[:, None] * self.base ** (
            -steps / self.d
        )
        cos, sin = torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()
        half = torch.cat((-t[..., self.d // 2 :], t[..., : self.d // 2]), dim=-1)
        return (t * cos + half * sin).to(t.dtype)

    def forward(self, x, cache=None):
        B, L, D = x.shape
        past = cache.length if cache is not None else 0
        q = self.rotated(self.W_q(x).reshape(B, L, -1, self.d).transpose(1, 2), past)
        k = self.rotated(self.W_k(x).reshape(B, L, -1, self.d).transpose(1, 2), past)
        v = self.W_v(x).reshape(B, L, -1, self.d).transpose(1, 2)
        if cache is not None:
            k, v = cache.append(k, v)
        future = torch.ones(L, k.size(2), device=x.device).triu(past + 1).bool()
        outputs = []
        for n in range(self.kv):
            mine = q[:, n * self.group : (n + 1) * self.group]
            s = mine @ k[:, n : n + 1].mT * self.d**-0.5
            s = s.masked_fill(future, torch.finfo(s.dtype).min)
            outputs.append(
                torch.softmax(s.float() if s.dtype != torch.float64 else s, dim=-1).to(v.dtype) @ v[:, n : n + 1]
            )
        return self.W_o(torch.cat(outputs, dim=1).permute(0, 2, 1, 3).contiguous().view(B, L, D))


@variant("V24", "axes kept as (B, L, H, d), products by einsum, an additive mask, scaled queries")
class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, bias=True, base=10000.0):
        assert d_model % num_heads == 0, (d_model, num_heads)
        assert num_heads % num_kv_heads == 0, (num_heads, num_kv_heads)
        assert (d_model // num_heads) % 2 == 0, (d_model, num_heads)
        super().__init__()
        self.sizes = num_heads, num_kv_heads, d_model // num_heads
        self.base = base
        rows = {"W_q": num_heads, "W_k": num_kv_heads, "W_v": num_kv_heads, "W_o": num_heads}
        for name, count in rows.items():
            setattr(self, name, nn.Linear(d_model, count * self.sizes[2], bias=bias))

    def forward(self, x, cache=None):
        H, G, d = self.sizes
        past = 0 if cache is None else cache.length
        at = past + torch.arange(x.size(1), device=x.device)
        q = stand_in_rotary((self.W_q(x) * d**-0.5).unflatten(-1, (H, d)).transpose(1, 2), at, self.base)
        k = stand_in_rotary(self.W_k(x).unflatten(-1, (G, d)).transpose(1, 2), at, self.base)
        v = self.W_v(x).unflatten(-1, (G, d)).transpose(1, 2)
        if cache is not None:
            k, v = cache.append(k, v)
        q = q.unflatten(1, (G, H // G))
        bias = torch.full((x.size(1), k.size(2)), -torch.inf, dtype=x.dtype, device=x.device).triu(past + 1)
        w = torch.softmax(torch.einsum("bgrld,bgsd->bgrls", q, k) + bias, dim=-1)
        o = torch.einsum("bgrls,bgsd->bgrld", w, v)
        return self.W_o(o.flatten(1, 2).transpose(1, 2).flatten(2))

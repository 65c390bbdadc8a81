def relative_distances(L, S=None, device=None):
    if S is None:
        S = L
    i = torch.arange(L, device=device).view(-1, 1)
    j = torch.arange(S, device=device).view(1, -1)
    return j - i - (S - L)


def shaw_attention(q, k, v, key_table, value_table=None, mask=None):
    L, S, d = q.shape[-2], k.shape[-2], q.shape[-1]
    K = key_table.shape[0] // 2
    gap = torch.arange(S, device=q.device)[None, :] - (torch.arange(L, device=q.device)[:, None] + S - L)
    idx = torch.clamp(gap, min=-K, max=K) + K
    a = F.embedding(idx, key_table)
    s = torch.einsum("bhid,bhjd->bhij", q, k)
    s = s + (q.unsqueeze(-2) * a).sum(-1)
    s = s * d**-0.5
    if mask is None:
        w = s.softmax(-1)
    else:
        open_ = mask.bool()
        some = open_.any(-1, keepdim=True)
        w = torch.where(open_ | ~some, s, -torch.inf).softmax(-1) * some
    y = torch.einsum("bhij,bhjv->bhiv", w, v)
    if value_table is None:
        return y, w
    b = F.embedding(idx, value_table)
    y = y + (w.unsqueeze(-1) * b).sum(-2)
    return y, w


def relative_shift(x):
    L = x.shape[-2]
    rows = [x[..., i, L - 1 - i : 2 * L - 1 - i] for i in range(L)]
    return torch.stack(rows, dim=-2)


def transformer_xl_scores(q, k, r, content_bias, position_bias):
    H, d = content_bias.shape
    L, S = q.shape[-2], k.shape[-2]
    u, w = content_bias.view(1, H, 1, d), position_bias.view(1, H, 1, d)
    ac = torch.einsum("bhid,bhjd->bhij", q + u, k)
    bd = torch.einsum("bhid,hcd->bhic", q + w, r)
    rows = [bd[:, :, i, L - 1 - i : L - 1 - i + S] for i in range(L)]
    bd = torch.stack(rows, dim=2)
    return (ac + bd) * d**-0.5


def t5_bucket(distance, bidirectional=True, num_buckets=32, max_distance=128):
    n = num_buckets
    if bidirectional:
        n = n // 2
        start = torch.where(distance > 0, n, 0)
        m = torch.abs(distance)
    else:
        start = torch.zeros_like(distance)
        m = torch.relu(-distance)
    e = n // 2
    ratio = torch.log(m.clamp(min=1).float() / e) / math.log(max_distance / e)
    large = torch.clamp(e + torch.floor(ratio * (n - e)).to(torch.long), max=n - 1)
    return start + torch.where(m < e, m, large)


class T5RelativeBias(nn.Module):
    def __init__(self, num_heads, num_buckets=32, max_distance=128, bidirectional=True):
        super().__init__()
        self.both, self.far, self.n = bidirectional, max_distance, num_buckets
        self.embedding = nn.Embedding(num_buckets, num_heads)

    def forward(self, L, S):
        dev = self.embedding.weight.device
        gap = torch.arange(S, device=dev)[None] - torch.arange(L, device=dev)[:, None] - (S - L)
        idx = t5_bucket(gap, bidirectional=self.both, num_buckets=self.n, max_distance=self.far)
        out = self.embedding(idx)
        return torch.einsum("ijh->hij", out)[None]


def alibi_slopes(num_heads):
    n = 2 ** int(math.floor(math.log2(num_heads)))
    first = [2.0 ** (-8.0 * (i + 1) / n) for i in range(n)]
    more = [2.0 ** (-8.0 * (i + 1) / (2 * n)) for i in range(2 * n)]
    return torch.tensor(first + more[0::2][: num_heads - n])


def alibi_bias(num_heads, L, S=None):
    if S is None:
        S = L
    i, j = torch.arange(L)[:, None] + S - L, torch.arange(S)[None, :]
    away = torch.abs(j - i).float()
    return torch.einsum("h,ij->hij", alibi_slopes(num_heads), -away)

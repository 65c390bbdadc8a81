"""Right answers to topic 06, written differently. Each must earn full marks."""

from autograder.slips import edit, variant

# -- distances -------------------------------------------------------------------------------------------------------


@variant("V-D1", "distances by nested loops")
def relative_distances(L, S=None, device=None):
    S = S if S is not None else L
    return torch.tensor([[j - (i + S - L) for j in range(S)] for i in range(L)], device=device).reshape(L, S)


@variant("V-D2", "distances as windows of one line")
def relative_distances(L, S=None, device=None):
    return distance_table(L, S, device)


@variant("V-D3", "distances in int32, counted from the end")
def relative_distances(L, S=None, device=None):
    S = L if S is None else S
    j = torch.arange(-S, 0, device=device, dtype=torch.int32)
    i = torch.arange(-L, 0, device=device, dtype=torch.int32)
    return j[None, :] - i[:, None]


@variant("V-D4", "distances by a running sum and by meshgrid")
def relative_distances(L, S=None, device=None):
    S = L if S is None else S
    i, j = torch.meshgrid(torch.arange(S - L, S, device=device), torch.arange(S, device=device), indexing="ij")
    return torch.sub(j, i)


@variant("V-D5", "distances by a cumulative sum of ones")
def relative_distances(L, S=None, device=None):
    S = L if S is None else S
    ones = torch.ones(L, S, dtype=torch.long, device=device)
    return ones.cumsum(1) - ones.cumsum(0) - (S - L)


# -- shaw ------------------------------------------------------------------------------------------------------------


@variant("V-S1", "position scores by product with the whole table, then gather; values by one-hot weights")
def shaw_attention(q, k, v, key_table, value_table=None, mask=None):
    K = key_table.shape[0] // 2
    L, S = q.shape[-2], k.shape[-2]
    i = torch.arange(L, device=q.device)[:, None] + S - L
    j = torch.arange(S, device=q.device)[None, :]
    index = (j - i + K).clamp(0, 2 * K)
    by_row = q @ key_table.transpose(0, 1)
    position = torch.gather(by_row, -1, index.expand(*q.shape[:-1], S))
    weights = masked_softmax((q @ k.mT + position) * q.shape[-1] ** -0.5, mask)
    out = weights @ v
    if value_table is not None:
        sums = torch.zeros_like(by_row).scatter_add(-1, index.expand(*q.shape[:-1], S), weights)
        out = out + sums @ value_table
    return out, weights


@variant("V-S2", "loops over queries and keys")
def shaw_attention(q, k, v, key_table, value_table=None, mask=None):
    K = (len(key_table) - 1) // 2
    L, S = q.size(2), k.size(2)
    rows = []
    for i in range(L):
        entries = []
        for j in range(S):
            distance = max(-K, min(K, j - (i + S - L)))
            entries.append((q[:, :, i] * (k[:, :, j] + key_table[distance + K])).sum(-1))
        rows.append(torch.stack(entries, -1))
    scores = torch.stack(rows, -2) / math.sqrt(q.size(3))
    weights = masked_softmax(scores, mask)
    outputs = []
    for i in range(L):
        o = 0
        for j in range(S):
            value = v[:, :, j]
            if value_table is not None:
                value = value + value_table[max(-K, min(K, j - (i + S - L))) + K]
            o = o + weights[:, :, i, j, None] * value
        outputs.append(o)
    return torch.stack(outputs, 2), weights


@variant("V-S3", "keys with their vectors added, for each query, by broadcasting")
def shaw_attention(q, k, v, key_table, value_table=None, mask=None):
    K = key_table.size(0) // 2
    r = relative_distances(q.size(2), k.size(2), q.device).clamp(min=-K, max=K).add(K)
    keys = k.unsqueeze(2) + F.embedding(r, key_table)
    scores = (q.unsqueeze(3) * keys).sum(-1) / q.size(-1) ** 0.5
    weights = masked_softmax(scores, mask)
    values = v.unsqueeze(2)
    if value_table is not None:
        values = values + F.embedding(r, value_table)
    return (weights.unsqueeze(-1) * values).sum(3), weights


@variant("V-S4", "the fused kernel with the position scores as its additive mask")
def shaw_attention(q, k, v, key_table, value_table=None, mask=None):
    K = (key_table.size(0) - 1) // 2
    r = relative_distances(q.size(2), k.size(2), q.device).clamp(-K, K) + K
    scale = q.size(-1) ** -0.5
    bias = torch.einsum("bhld,lsd->bhls", q * scale, key_table[r])
    some = torch.ones((), dtype=torch.bool, device=q.device)
    if mask is not None:
        some = mask.bool().any(-1, keepdim=True)
        bias = bias.masked_fill(~mask.bool() & some, float("-inf"))
    weights = torch.softmax(torch.matmul(q * scale, k.mT) + bias, -1) * some
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias) * some
    if value_table is not None:
        out = out + torch.einsum("bhls,lsv->bhlv", weights, value_table[r])
    return out, weights


@variant("V-S5", "batched products over queries, as in the published code")
def shaw_attention(q, k, v, key_table, value_table=None, mask=None):
    B, H, L, d = q.shape
    S = k.size(2)
    K = (key_table.size(0) - 1) // 2
    r = relative_distances(L, S, device=q.device).clamp(-K, K) + K
    by_query = q.permute(2, 0, 1, 3).reshape(L, B * H, d)
    position = torch.bmm(by_query, key_table[r].transpose(1, 2)).reshape(L, B, H, S).permute(1, 2, 0, 3)
    scores = torch.add(q @ k.mT, position).div(math.sqrt(d))
    w = masked_softmax(scores, mask)
    out = w @ v
    if value_table is not None:
        out = out + torch.bmm(w.permute(2, 0, 1, 3).reshape(L, B * H, S), value_table[r]).reshape(L, B, H, -1).permute(
            1, 2, 0, 3
        )
    return out, w


@variant("V-S6", "everything in float64, own masking by the exponentials, cast back at the end")
def shaw_attention(q, k, v, key_table, value_table=None, mask=None):
    kind = q.dtype
    q, k, v, key_table = q.double(), k.double(), v.double(), key_table.double()
    K = (key_table.size(0) - 1) // 2
    r = relative_distances(q.size(2), k.size(2), q.device)
    r = torch.where(r > K, K, torch.where(r < -K, -K, r)) + K
    scores = torch.einsum("bhid,bhijd->bhij", q, k[:, :, None] + key_table[r]) / math.sqrt(q.size(-1))
    keep = torch.ones_like(scores) if mask is None else (mask != 0).double().expand_as(scores)
    e = (scores - scores.amax(-1, keepdim=True).detach()).exp() * keep
    total = e.sum(-1, keepdim=True)
    w = e / torch.where(total == 0, 1.0, total)
    out = w @ v
    if value_table is not None:
        out = out + torch.einsum("bhij,ijv->bhiv", w, value_table.double()[r])
    return out.to(kind), w.to(kind)


@variant("V-S7", "the skew of Transformer-XL on a table stretched to all distances")
def shaw_attention(q, k, v, key_table, value_table=None, mask=None):
    K = (key_table.size(0) - 1) // 2
    L, S = q.size(2), k.size(2)
    line = torch.arange(1 - S, L, device=q.device).clamp(-K, K) + K
    by_distance = F.pad(q @ key_table[line].mT, (0, 1)).flatten(2)[..., L - 1 :]
    by_distance = F.pad(by_distance, (0, L - 1 + S + L - 1))[..., : L * (S + L - 1)]
    position = by_distance.reshape(*q.shape[:3], S + L - 1)[..., :S]
    w = masked_softmax((q @ k.mT + position) / math.sqrt(q.size(-1)), mask)
    out = w @ v
    if value_table is not None:
        rows = torch.stack([line[L - 1 - i : L - 1 - i + S] for i in range(L)])
        out = out + torch.einsum("bhls,lsv->bhlv", w, value_table[rows])
    return [out, w]


edit(
    "V-S8",
    "the rows of the table stay on the CPU: torch takes such an index for a tensor of any device",
    (
        "distances = relative_distances(q.size(-2), k.size(-2), device=q.device)\n    rows",
        "distances = relative_distances(q.size(-2), k.size(-2))\n    rows",
    ),
)


@variant("V-S9", "content and position in one product, with a view that wants plain strides")
def shaw_attention(q, k, v, key_table, value_table=None, mask=None):
    B, H, L, d = q.shape
    K = key_table.size(0) // 2
    r = relative_distances(L, k.size(2), device=q.device).clamp(-K, K) + K
    content = torch.baddbmm(
        torch.zeros((), dtype=q.dtype, device=q.device),
        q.view(B * H, L, d),
        k.view(B * H, -1, d).mT,
        beta=0,
    ).view(B, H, L, -1)
    scores = (content + torch.einsum("bhld,lsd->bhls", q, key_table[r])) / math.sqrt(d)
    w = masked_softmax(scores, mask)
    out = w @ v
    return (out if value_table is None else out + torch.einsum("bhls,lsv->bhlv", w, value_table[r])), w


# -- relative shift --------------------------------------------------------------------------------------------------


@variant("V43", "pad one column, flatten, cut the front, fold again")
def relative_shift(x):
    L = x.size(-2)
    lead = x.shape[:-2]
    flat = F.pad(x, (0, 1)).reshape(*lead, 2 * L * L)
    flat = F.pad(flat, (0, L - 1))
    return flat.reshape(*lead, L + 1, 2 * L - 1)[..., :L, L - 1 :]


@variant("V43b", "pad on the left, drop the first entries")
def relative_shift(x):
    L = x.size(-2)
    lead = x.shape[:-2]
    flat = x.reshape(*lead, L * (2 * L - 1))[..., L - 1 :]
    flat = F.pad(flat, (0, L - 1))
    return torch.stack([flat[..., i * (2 * L - 2) : i * (2 * L - 2) + L] for i in range(L)], dim=-2)


@variant("V43c", "a slice for each row")
def relative_shift(x):
    L = x.size(-2)
    return torch.stack([x[..., i, L - 1 - i : 2 * L - 1 - i] for i in range(L)], dim=-2)


@variant("V43d", "rows rolled, then one half kept")
def relative_shift(x):
    L = x.size(-2)
    rows = [x[..., i, :].roll(-(L - 1 - i), dims=-1) for i in range(L)]
    return torch.stack(rows, dim=-2)[..., :L]


@variant("V43h", "rows rolled to the right, then the other half kept")
def relative_shift(x):
    L = x.size(-2)
    return torch.stack([torch.roll(x[..., i, :], i, dims=-1)[..., L - 1 :] for i in range(L)], dim=-2)


@variant("V43e", "strides of a contiguous copy")
def relative_shift(x):
    L = x.size(-2)
    x = x.contiguous()
    W = 2 * L - 1
    return x.as_strided((*x.shape[:-1], L), (*x.stride()[:-2], W - 1, 1), x.storage_offset() + L - 1)


@variant("V43f", "indices for both axes, and a view that wants plain strides")
def relative_shift(x):
    L, W = x.size(-2), x.size(-1)
    i = torch.arange(L, device=x.device)
    index = (i[:, None] * W + i - i[:, None] + L - 1).view(-1)
    return x.view(*x.shape[:-2], L * W)[..., index].view(*x.shape[:-1], L)


@variant("V43g", "a sum over a one-hot tensor")
def relative_shift(x):
    L = x.size(-2)
    hot = F.one_hot(relative_distances(L, device=x.device) + L - 1, 2 * L - 1).to(x.dtype)
    return (x.unsqueeze(-2) * hot).sum(-1)


# -- transformer-xl --------------------------------------------------------------------------------------------------


@variant("V-X1", "four terms, each by einsum, with r picked by distance first")
def transformer_xl_scores(q, k, r, content_bias, position_bias):
    L, S = q.size(-2), k.size(-2)
    picked = r[:, relative_distances(L, S, device=q.device) + S - 1]
    a = torch.einsum("bhld,bhsd->bhls", q, k)
    b = torch.einsum("bhld,hlsd->bhls", q, picked)
    c = torch.einsum("hd,bhsd->bhs", content_bias, k).unsqueeze(2)
    d = torch.einsum("hd,hlsd->hls", position_bias, picked)
    return (a + b + c + d) * q.size(-1) ** -0.5


@variant("V-X2", "loops over queries, slices of r")
def transformer_xl_scores(q, k, r, content_bias, position_bias):
    L, S = q.size(2), k.size(2)
    rows = []
    for i in range(L):
        u = (q[:, :, i] + content_bias).unsqueeze(2)
        w = (q[:, :, i] + position_bias).unsqueeze(2)
        rows.append((u * k).sum(-1) + (w * r[:, L - 1 - i : L - 1 - i + S]).sum(-1))
    return torch.stack(rows, 2) / math.sqrt(q.size(3))


@variant("V-X3", "the published shift, generalised: pad, fold, slice")
def transformer_xl_scores(q, k, r, content_bias, position_bias):
    L, S, W = q.size(-2), k.size(-2), r.size(-2)
    scale = q.size(-1) ** -0.25
    content = torch.matmul((q + content_bias[None, :, None]) * scale, k.mT * scale)
    p = torch.matmul((q + position_bias[None, :, None]) * scale, r.mT * scale)
    p = F.pad(p.flatten(-2)[..., L - 1 :], (0, L - 1)).unfold(-1, S, W - 1)[..., :L, :] if W > 1 else p
    return content + p


@variant("V-X4", "heads and batch as axes of a loop, everything in float64")
def transformer_xl_scores(q, k, r, content_bias, position_bias):
    kind = q.dtype
    columns = distance_table(q.size(2), k.size(2), q.device) + k.size(2) - 1
    batch = []
    for qb, kb in zip(q.double(), k.double(), strict=True):
        heads = []
        for h in range(q.size(1)):
            c = (qb[h] + content_bias[h].double()) @ kb[h].T
            p = (qb[h] + position_bias[h].double()) @ r[h].double().T
            heads.append((c + p.gather(1, columns)) / math.sqrt(q.size(-1)))
        batch.append(torch.stack(heads))
    return torch.stack(batch).to(kind)


@variant("V-X5", "keys and position vectors side by side, one product for each query")
def transformer_xl_scores(q, k, r, content_bias, position_bias):
    B, H, L, d = q.shape
    S = k.size(2)
    rel = r[:, relative_distances(L, S, device=q.device) + (S - 1)].expand(B, -1, -1, -1, -1)
    both = torch.cat([k.unsqueeze(2).expand(-1, -1, L, -1, -1), rel], dim=-1)
    two = torch.cat([q + content_bias.view(1, H, 1, d), q + position_bias.view(1, H, 1, d)], dim=-1)
    return (both @ two.unsqueeze(-1)).squeeze(-1).div(d**0.5)


# -- t5 --------------------------------------------------------------------------------------------------------------


@variant("V-T1", "a tiny number inside the logarithm")
def t5_bucket(distance, bidirectional=True, num_buckets=32, max_distance=128):
    buckets = torch.zeros_like(distance)
    n = num_buckets
    if bidirectional:
        n //= 2
        buckets = buckets + (distance > 0).to(torch.long) * n
        m = torch.abs(distance)
    else:
        m = -torch.min(distance, torch.zeros_like(distance))
    e = n // 2
    large = e + (torch.log(m.float() / e + 1e-6) / math.log(max_distance / e) * (n - e)).to(torch.long)
    large = torch.min(large, torch.full_like(large, n - 1))
    return buckets + torch.where(m < e, m, large)


@variant("V-T2", "the published code: the exact branch first, the logarithm in float32")
def t5_bucket(distance, bidirectional=True, num_buckets=32, max_distance=128):
    result = 0
    if bidirectional:
        num_buckets //= 2
        result += (distance > 0).long() * num_buckets
        distance = distance.abs()
    else:
        distance = -torch.minimum(distance, torch.zeros_like(distance))
    max_exact = num_buckets // 2
    is_small = distance < max_exact
    large = (
        max_exact
        + (
            torch.log(distance.float() / max_exact) / math.log(max_distance / max_exact) * (num_buckets - max_exact)
        ).long()
    )
    large = torch.min(large, torch.full_like(large, num_buckets - 1))
    result += torch.where(is_small, distance, large)
    return result


@variant("V-T3", "a search in the list of the distances at which a bucket begins")
def t5_bucket(distance, bidirectional=True, num_buckets=32, max_distance=128):
    n = num_buckets // 2 if bidirectional else num_buckets
    e = n // 2
    starts = list(range(1, e + 1)) + [e * (max_distance / e) ** (b / (n - e)) for b in range(1, n - e)]
    starts = torch.tensor(starts, dtype=torch.float64, device=distance.device)
    m = distance.abs() if bidirectional else (-distance).clamp(min=0)
    bucket = torch.bucketize(m.double(), starts, right=True)
    return bucket + n * (distance > 0) if bidirectional else bucket


@variant("V-T4", "one integer after another, with Python's logarithm")
def t5_bucket(distance, bidirectional=True, num_buckets=32, max_distance=128):
    n = num_buckets // 2 if bidirectional else num_buckets
    e = n // 2
    reach = range(8 * max_distance + 1)
    table = [m if m < e else min(n - 1, e + int(math.log(m / e) / math.log(max_distance / e) * (n - e))) for m in reach]
    table = torch.tensor(table, device=distance.device)
    m = distance.abs() if bidirectional else torch.relu(-distance)
    bucket = table[m.clamp(max=8 * max_distance)]
    return torch.where(distance > 0, bucket + n, bucket) if bidirectional else bucket


@variant("V-T5", "logarithms to the base 2 in float64, result in int32")
def t5_bucket(distance, bidirectional=True, num_buckets=32, max_distance=128):
    n = num_buckets // (2 if bidirectional else 1)
    e = n // 2
    m = distance.abs() if bidirectional else distance.neg().clamp_min(0)
    log = (m.clamp_min(1).double().log2() - math.log2(e)) * ((n - e) / math.log2(max_distance / e))
    bucket = torch.where(m < e, m.double(), (e + log.floor()).clamp(max=n - 1))
    if bidirectional:
        bucket = bucket + torch.where(distance > 0, n, 0)
    return bucket.to(torch.int32)


@variant("V-T6", "the table as a product with one-hot buckets")
class T5RelativeBias(nn.Module):
    def __init__(self, num_heads, num_buckets=32, max_distance=128, bidirectional=True):
        super().__init__()
        self.embedding = nn.Embedding(num_buckets, num_heads)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.options = {"bidirectional": bidirectional, "num_buckets": num_buckets, "max_distance": max_distance}

    def forward(self, L, S):
        weight = self.embedding.weight
        hot = F.one_hot(t5_bucket(relative_distances(L, S, weight.device), **self.options), len(weight))
        return torch.einsum("lsn,nh->hls", hot.to(weight.dtype), weight)[None]


@variant("V-T7", "one line of biases over all distances, then windows of it")
class T5RelativeBias(nn.Module):
    def __init__(self, num_heads, num_buckets=32, max_distance=128, bidirectional=True):
        super().__init__()
        self.embedding = nn.Embedding(num_embeddings=num_buckets, embedding_dim=num_heads)
        self.arguments = (bidirectional, num_buckets, max_distance)

    def forward(self, L, S):
        line = torch.arange(1 - S, L, device=self.embedding.weight.device)
        values = self.embedding(t5_bucket(line, *self.arguments)).T
        return values.unfold(1, S, 1).flip(1).unsqueeze(0)


@variant("V-T8", "a buffer of distances, read by position")
class T5RelativeBias(nn.Module):
    def __init__(self, num_heads, num_buckets=32, max_distance=128, bidirectional=True):
        super().__init__()
        self.num_heads, self.n, self.far, self.both = num_heads, num_buckets, max_distance, bidirectional
        self.embedding = nn.Embedding(num_buckets, num_heads)
        self.register_buffer("line", torch.arange(-512, 513), persistent=False)

    def forward(self, L, S):
        places = (
            torch.arange(S, device=self.line.device)[None] - torch.arange(S - L, S, device=self.line.device)[:, None]
        )
        buckets = t5_bucket(self.line, self.both, self.n, self.far)[places + 512]
        return F.embedding(buckets, self.embedding.weight).movedim(-1, 0).unsqueeze(0)


# -- alibi -----------------------------------------------------------------------------------------------------------


@variant("V46", "slopes of the next power of two, put in another order and cut")
def alibi_slopes(num_heads):
    power = 2 ** math.ceil(math.log2(num_heads))
    m = torch.arange(1, power + 1).float().mul(8 / power)
    slopes = 1.0 / torch.pow(2, m)
    if power != num_heads:
        slopes = torch.cat([slopes[1::2], slopes[::2]])[:num_heads]
    return slopes


@variant("V46b", "slopes by the published recursion")
def alibi_slopes(num_heads):
    def powers(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    def slopes(n):
        if math.log2(n).is_integer():
            return powers(n)
        closest = 2 ** math.floor(math.log2(n))
        return powers(closest) + slopes(2 * closest)[0::2][: n - closest]

    return torch.tensor(slopes(num_heads))


@variant("V46c", "slopes by logspace and exp2")
def alibi_slopes(num_heads):
    power = 1
    while 2 * power <= num_heads:
        power *= 2
    first = torch.logspace(-8 / power, -8, power, base=2)
    rest = torch.exp2(-(torch.arange(num_heads - power) + 0.5) * 8 / power)
    return torch.cat((first, rest))


@variant("V-A1", "the bias by loops")
def alibi_bias(num_heads, L, S=None):
    S = S or L
    rows = [[[-m * abs(i + S - L - j) for j in range(S)] for i in range(L)] for m in alibi_slopes(num_heads).tolist()]
    return torch.tensor(rows)


@variant("V-A2", "the bias by einsum, from the smaller of two signed distances")
def alibi_bias(num_heads, L, S=None):
    d = relative_distances(L, S)
    return torch.einsum("h,ls->hls", alibi_slopes(num_heads), torch.minimum(d, -d).float())


@variant("V-A3", "the bias as windows of one line")
def alibi_bias(num_heads, L, S=None):
    S = L if S is None else S
    line = torch.arange(1 - S, L).abs()
    return torch.outer(-alibi_slopes(num_heads), line).unfold(1, S, 1).flip(1)


@variant("V-A4", "the bias by cdist")
def alibi_bias(num_heads, L, S=None):
    S = L if S is None else S
    distances = torch.cdist(torch.arange(S - L, S).float()[:, None], torch.arange(S).float()[:, None], p=1)
    return distances.neg() * alibi_slopes(num_heads)[:, None, None]

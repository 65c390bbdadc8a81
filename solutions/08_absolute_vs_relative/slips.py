"""Known mistakes of topic 08. Read as text by `autograder.slips`; ids are those of the catalogue of mistakes."""

from autograder.slips import edit, slip

# -- build_attention -------------------------------------------------------------------------------------------------

edit(
    "AB-01",
    'The scheme "none" still adds positions. It must know nothing of the order.',
    ('if scheme == "none":\n        return OpenAttention', 'if scheme == "none":\n        return SinusoidalAttention'),
)
edit(
    "AB-02",
    "An unknown scheme falls back to attention without positions. A typing error would never be noticed: raise.",
    (
        '    raise ValueError(f"the scheme {scheme!r} is not known")',
        "    return OpenAttention(d_model, num_heads, max_len)",
    ),
)
edit(
    "AB-03",
    "An unknown scheme returns None. Raise a ValueError.",
    ('    raise ValueError(f"the scheme {scheme!r} is not known")', "    return None"),
)
edit(
    "AB-04",
    "An unknown scheme ends in a KeyError. The exercise asks for a ValueError with a message.",
    ('    raise ValueError(f"the scheme {scheme!r} is not known")', "    raise KeyError(scheme)"),
)
edit(
    "AB-05",
    "The number of heads is not handed on: there is always one head.",
    (
        'def build_attention(scheme, d_model, num_heads, max_len):\n    """Multi-head self-attention with one of seven schemes '
        'for positions; forward(x, mask=None) -> (B, L, D)."""\n',
        "def build_attention(scheme, d_model, num_heads, max_len):\n    num_heads = 1\n",
    ),
)


@slip(
    "AB-06", "The head size is rounded down, so that features are silently lost. Sizes that don't divide are an error."
)
class OpenAttention(OpenAttention):
    def __init__(self, d_model, num_heads, max_len):
        nn.Module.__init__(self)
        self.d_model, self.num_heads, self.max_len = d_model, num_heads, max_len
        self.head_size = d_model // num_heads
        inner = self.head_size * num_heads
        self.to_queries, self.to_keys = nn.Linear(d_model, inner), nn.Linear(d_model, inner)
        self.to_values, self.to_output = nn.Linear(d_model, inner), nn.Linear(inner, d_model)


edit(
    "AB-07",
    "Two schemes are mixed up: learned and sinusoidal are exchanged.",
    ('if scheme == "sinusoidal":', 'if scheme == "LEARNED":'),
    ('if scheme == "learned":\n        return Learned', 'if scheme == "sinusoidal":\n        return Learned'),
    ('if scheme == "LEARNED":', 'if scheme == "learned":'),
)
edit(
    "AB-08",
    "Every module is causal. The schemes differ in positions only: who may attend is said by the mask.",
    (
        "scores = q @ k.mT / math.sqrt(self.head_size) + self.score_bias(q)",
        "scores = q @ k.mT / math.sqrt(self.head_size) + self.score_bias(q)\n"
        "        scores = scores + torch.full_like(scores, -1e4).triu(1)",
    ),
)
edit(
    "AB-09",
    "Samples of a batch mix: attention runs over the batch as well.",
    ("x = self.with_positions(x)\n", "x = self.with_positions(x)\n        x = x + x.mean(dim=0, keepdim=True)\n"),
)

# -- absolute --------------------------------------------------------------------------------------------------------

edit(
    "PE-30",
    "The sinusoidal table is made and never added.",
    ("return x + self.table[: x.size(1)]", "return x"),
)
edit(
    "PE-16",
    "The table is read by the batch axis, so all tokens of a sample get the same row. Tokens are axis 1.",
    ("return x + self.table[: x.size(1)]", "return x + self.table[: x.size(0)].unsqueeze(1)"),
)
edit(
    "PE-17",
    "One row of the table is added to all tokens: a colon is missing in the slice.",
    ("return x + self.table[: x.size(1)]", "return x + self.table[x.size(1) - 1]"),
)
edit(
    "PE-18",
    "The whole table is added, not its first L rows.",
    ("return x + self.table[: x.size(1)]", "return x + self.table"),
)
edit(
    "PE-12",
    "The positions depend on the length of the text: the same token gets other rows in a longer text.",
    (
        "return x + self.table[: x.size(1)]",
        "return x + waves(x.size(1) * 8, x.size(2))[:: 8][: x.size(1)].to(x) / x.size(1)",
    ),
)
edit(
    "PE-31",
    "Positions are counted from the end. Token i gets row i.",
    ("return x + self.table[: x.size(1)]", "return x + self.table[: x.size(1)].flip(0)"),
)
edit(
    "PE-20",
    "The fixed table is a trainable parameter. A table that is not learnt is a buffer.",
    ('self.register_buffer("table", waves(max_len, d_model))', "self.table = nn.Parameter(waves(max_len, d_model))"),
)
edit(
    "PE-20b",
    "The fixed table is a parameter without gradient. It still counts as one: make it a buffer.",
    (
        'self.register_buffer("table", waves(max_len, d_model))',
        "self.table = nn.Parameter(waves(max_len, d_model), requires_grad=False)",
    ),
)
edit(
    "PE-22",
    "The table is added to the caller's tokens in place.",
    ("return x + self.table[: x.size(1)]", "x.data += self.table[: x.size(1)]\n        return x"),
)
edit(
    "DV-01",
    "The table is a plain attribute: it does not move when the module moves to another device or dtype.",
    ('self.register_buffer("table", waves(max_len, d_model))', "self.table = waves(max_len, d_model)"),
)
edit(
    "PE-26",
    "Past max_len torch's own error comes up, about sizes that do not match. Raise a ValueError that names both numbers.",
    (
        '        if x.size(1) > self.max_len:\n            raise ValueError(f"{x.size(1)} tokens, but the table ends at '
        'max_len={self.max_len}")\n',
        "",
    ),
)
edit(
    "PE-26b",
    "Past max_len the table is read from its start again. That is to be an error.",
    (
        '        if x.size(1) > self.max_len:\n            raise ValueError(f"{x.size(1)} tokens, but the table ends at '
        'max_len={self.max_len}")\n        return x + self.table[: x.size(1)]',
        "        return x + self.table[torch.arange(x.size(1), device=x.device) % self.max_len]",
    ),
)
edit(
    "PE-26c",
    "Past max_len the table is computed anew, so that there is no error. The exercise asks for one.",
    (
        '        if x.size(1) > self.max_len:\n            raise ValueError(f"{x.size(1)} tokens, but the table ends at '
        'max_len={self.max_len}")\n        return x + self.table[: x.size(1)]',
        "        if x.size(1) > self.max_len:\n            return x + waves(x.size(1), x.size(2)).to(x)\n"
        "        return x + self.table[: x.size(1)]",
    ),
)
edit(
    "PE-26d",
    "Text of exactly max_len tokens is refused. The table has a row for each of them.",
    (
        '        if x.size(1) > self.max_len:\n            raise ValueError(f"{x.size(1)} tokens, but the table',
        '        if x.size(1) >= self.max_len:\n            raise ValueError(f"{x.size(1)} tokens, but the table',
    ),
)
edit(
    "PE-26e",
    "The error does not say which numbers are wrong.",
    (
        'raise ValueError(f"{x.size(1)} tokens, but the table ends at max_len={self.max_len}")',
        'raise ValueError("the text is too long")',
    ),
)
edit(
    "PE-26f",
    "Tokens past max_len are cut off without a word.",
    (
        '            raise ValueError(f"{x.size(1)} tokens, but the table ends at max_len={self.max_len}")',
        "            x = x[:, : self.max_len]",
    ),
)
edit(
    "LP-01",
    "Past max_len the embedding raises an IndexError. Raise a ValueError that names both numbers.",
    (
        '        if x.size(1) > self.max_len:\n            raise ValueError(f"{x.size(1)} tokens, but there are '
        '{self.max_len} learnt positions")\n',
        "",
    ),
)
edit(
    "LP-02",
    "All tokens past max_len share the last position. That is to be an error.",
    (
        '        if x.size(1) > self.max_len:\n            raise ValueError(f"{x.size(1)} tokens, but there are '
        '{self.max_len} learnt positions")\n        return x + self.places(torch.arange(x.size(1), device=x.device))',
        "        return x + self.places(torch.arange(x.size(1), device=x.device).clamp(max=self.max_len - 1))",
    ),
)
edit(
    "LP-03",
    "The learnt table is detached, so that it can't learn.",
    (
        "self.places(torch.arange(x.size(1), device=x.device))",
        "self.places(torch.arange(x.size(1), device=x.device)).detach()",
    ),
)
edit(
    "LP-04",
    "The learnt table is a plain tensor: it is no parameter, does not move and does not learn.",
    ("self.places = nn.Embedding(max_len, d_model)", "self.places = [torch.randn(max_len, d_model)]"),
    (
        "x + self.places(torch.arange(x.size(1), device=x.device))",
        "x + self.places[0][: x.size(1)].to(x)",
    ),
)
edit(
    "LP-05",
    "The learnt table is read by the batch axis. Tokens are axis 1.",
    (
        "x + self.places(torch.arange(x.size(1), device=x.device))",
        "x + self.places(torch.arange(x.size(0), device=x.device)).unsqueeze(1)",
    ),
)
edit(
    "LP-06",
    "The positions or the table stay on the CPU. On a GPU they meet tensors of another device.",
    ("self.places(torch.arange(x.size(1), device=x.device))", "self.places(torch.arange(x.size(1)))"),
)
edit(
    "LP-07",
    "The learnt table is made and never added.",
    ("return x + self.places(torch.arange(x.size(1), device=x.device))", "return x"),
)
edit(
    "LP-08",
    "Text of exactly max_len tokens is refused. The table has a row for each of them.",
    (
        '        if x.size(1) > self.max_len:\n            raise ValueError(f"{x.size(1)} tokens, but there',
        '        if x.size(1) >= self.max_len:\n            raise ValueError(f"{x.size(1)} tokens, but there',
    ),
)

# -- shaw ------------------------------------------------------------------------------------------------------------

edit(
    "SH-04",
    "The distances are not clipped. Far keys run out of the table, or wrap around to its other end.",
    (".clamp(-self.farthest, self.farthest) + self.farthest", " + self.farthest"),
)
edit(
    "SH-05",
    "The table is read by the absolute distance, so before and after can't be told apart.",
    (
        "distances.clamp(-self.farthest, self.farthest) + self.farthest",
        "distances.abs().clamp(max=self.farthest) + self.farthest",
    ),
)
edit(
    "SH-06",
    "The rows are moved up by the length of the text, so that the same distance reads other rows in a longer text.",
    (
        "return distances.clamp(-self.farthest, self.farthest) + self.farthest",
        "return (distances + length - 1).clamp(0, 2 * self.farthest)",
    ),
)
edit(
    "SH-10",
    "Each key gets one vector, whoever asks. The vector must depend on the distance from the query.",
    ("distances = places - places.unsqueeze(-1)", "distances = (places - 4).expand(length, length)"),
)
edit(
    "SH-10b",
    "Each query gets one vector for all keys. The vector must depend on the distance.",
    ("distances = places - places.unsqueeze(-1)", "distances = (places - 4).unsqueeze(-1).expand(length, length)"),
)
edit(
    "SH-12",
    "The value vectors are made and never used.",
    ('return torch.einsum("bhij,ijd->bhid", weights, vectors)', "return 0.0"),
)
edit(
    "SH-12b",
    "The key vectors are made and never used.",
    ('return torch.einsum("bhid,ijd->bhij", q, vectors) / math.sqrt(self.head_size)', "return 0.0"),
)
edit(
    "SH-13",
    "The values get the vectors of the keys. There is a second table for them.",
    (
        "vectors = self.value_vectors[self.rows(weights.size(-1))]",
        "vectors = self.key_vectors[self.rows(weights.size(-1))]",
    ),
)
edit(
    "SH-15",
    "The value vectors are summed with equal weights, blocked keys included.",
    (
        'torch.einsum("bhij,ijd->bhid", weights, vectors)',
        'torch.einsum("bhij,ijd->bhid", torch.ones_like(weights), vectors)',
    ),
)
edit(
    "SH-18",
    "The table reaches max_len positions only and is not clipped. Longer texts run out of it.",
    ("self.farthest = 8", "self.farthest = max_len - 1"),
    (".clamp(-self.farthest, self.farthest) + self.farthest", " + self.farthest"),
    ("return 2 * (2 * 8 + 1) * (d_model // num_heads)", "return 2 * (2 * max_len - 1) * (d_model // num_heads)"),
)
edit(
    "SH-36",
    "The vectors are detached, so that they can't learn.",
    ("vectors = self.key_vectors[self", "vectors = self.key_vectors.detach()[self"),
)
edit(
    "SH-37",
    "The tables are plain tensors: they are no parameters and do not learn.",
    (
        "self.key_vectors = nn.Parameter(0.1 * torch.randn(2 * self.farthest + 1, self.head_size))",
        'self.register_buffer("key_vectors", torch.randn(2 * self.farthest + 1, self.head_size))',
    ),
    (
        "self.value_vectors = nn.Parameter(0.1 * torch.randn(2 * self.farthest + 1, self.head_size))",
        'self.register_buffer("value_vectors", torch.randn(2 * self.farthest + 1, self.head_size))',
    ),
)
edit(
    "SH-42",
    "A tensor is made on the CPU. On a GPU it meets scores of another device.",
    (
        "vectors) / math.sqrt(self.head_size)",
        "vectors) / math.sqrt(self.head_size) + torch.zeros(q.size(-2), q.size(-2), dtype=q.dtype)",
    ),
)

# -- t5 --------------------------------------------------------------------------------------------------------------

edit(
    "T5-04",
    "Far distances have no bucket: the index runs out of the table.",
    ("self.numbers(bucket_of(here - here[:, None]))", "self.numbers((here - here[:, None]) + 16)"),
)
edit(
    "T5-02",
    "Both directions share their buckets, so before and after can't be told apart.",
    ("bucket_of(here - here[:, None])", "bucket_of(-(here - here[:, None]).abs())"),
)
edit(
    "T5-17c",
    "The heads are moved by a reshape, which mixes heads and positions. Axes are moved by permute.",
    (".permute(2, 0, 1)", ".reshape(-1, q.size(-2), q.size(-2))"),
)
edit(
    "T5-41",
    "The bucket is taken from the position of the key alone. It is the distance from the query that counts.",
    ("bucket_of(here - here[:, None])", "bucket_of(-here.expand(len(here), -1))"),
)
edit(
    "T5-42",
    "The bias is computed and not returned.",
    (
        "return self.numbers(bucket_of(here - here[:, None])).permute(2, 0, 1)",
        "self.numbers(bucket_of(here - here[:, None])).permute(2, 0, 1)\n        return 0.0",
    ),
)
edit(
    "T5-33b",
    "The bias is detached from its table, so that the table can't learn.",
    ("bucket_of(here - here[:, None])).permute(2, 0, 1)", "bucket_of(here - here[:, None])).permute(2, 0, 1).detach()"),
)
edit(
    "T5-32",
    "The positions or their buckets are made on the CPU. On a GPU they meet tensors of another device.",
    ("here = torch.arange(q.size(-2), device=q.device)", "here = torch.arange(q.size(-2))"),
)
edit(
    "T5-35",
    "The bias is float32 also when the module was moved to another dtype.",
    (".permute(2, 0, 1)", ".permute(2, 0, 1).float()"),
)
edit(
    "T5-43",
    "The bias is made for max_len tokens and sliced. A longer text does not fit.",
    (
        "here = torch.arange(q.size(-2), device=q.device)",
        "here = torch.arange(min(q.size(-2), self.max_len), device=q.device)",
    ),
)


@slip("T5-44", "The bias is added to the weights after the softmax. It belongs to the scores before it.")
class T5Attention(T5Attention):
    def score_bias(self, q):
        return 0.0

    def value_bias(self, weights):
        return 0.0

    def forward(self, x, mask=None):
        q, k, v = (
            layer(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for layer in (self.to_queries, self.to_keys, self.to_values)
        )
        scores = q @ k.mT / math.sqrt(self.head_size)
        blocked = torch.zeros((), dtype=torch.bool, device=x.device) if mask is None else mask == 0
        nowhere = blocked.all(dim=-1, keepdim=True)
        weights = F.softmax(scores.masked_fill(blocked & ~nowhere, float("-inf")), dim=-1).masked_fill(nowhere, 0.0)
        here = torch.arange(q.size(-2), device=q.device)
        weights = weights + self.numbers(bucket_of(here - here[:, None])).permute(2, 0, 1)
        return self.to_output((weights @ v).transpose(1, 2).flatten(2))


# -- alibi -----------------------------------------------------------------------------------------------------------

edit(
    "AL-01",
    "The bias rewards distance: far keys must lose, so a minus sign is missing.",
    ("return -(self.slopes.view(-1, 1, 1) * distances)", "return (self.slopes.view(-1, 1, 1) * distances)"),
)
edit(
    "AL-02",
    "The signed distance is used, so that later keys are rewarded. Both sides must fade alike.",
    ("distances = (ticks - ticks.view(-1, 1)).abs()", "distances = ticks.view(-1, 1) - ticks"),
)
edit(
    "AL-02b",
    "Later keys get no bias. Both sides must fade alike.",
    ("distances = (ticks - ticks.view(-1, 1)).abs()", "distances = (ticks.view(-1, 1) - ticks).clamp(min=0)"),
)
edit(
    "AL-03",
    "The bias depends on the position of the key alone. It is the distance from the query that counts.",
    ("distances = (ticks - ticks.view(-1, 1)).abs()", "distances = ticks.expand(len(ticks), -1)"),
)
edit(
    "AL-04",
    "The slopes start at 1: the first exponent must not be 0.",
    ("for n in range(1, first + 1)]", "for n in range(first)]"),
)
edit(
    "AL-05",
    "The slopes halve from head to head, which is right for 8 heads only.",
    ("[8 / first * n for n in", "[n for n in"),
)
edit(
    "AL-13",
    "All heads have the same slope.",
    ("self.slopes.view(-1, 1, 1) * distances", "self.slopes[0] * distances"),
)
edit(
    "AL-14",
    "The bias is divided by the root of d together with the scores. It is added after the scale.",
    (
        "return -(self.slopes.view(-1, 1, 1) * distances)",
        "return -(self.slopes.view(-1, 1, 1) * distances / math.sqrt(self.head_size))",
    ),
)
edit(
    "AL-17",
    "The slopes are a parameter. ALiBi learns nothing: keep them in a buffer.",
    ('self.register_buffer("slopes", line_slopes(num_heads))', "self.slopes = nn.Parameter(line_slopes(num_heads))"),
)
edit(
    "AL-17b",
    "The slopes or the distances stay on the CPU: a constant of a module is a buffer, a new tensor goes to q.device.",
    ('self.register_buffer("slopes", line_slopes(num_heads))', "self.slopes = line_slopes(num_heads)"),
)
edit(
    "AL-20",
    "The bias is float32 also when the queries are not.",
    ("* distances).to(q.dtype)", "* distances).float()"),
)
edit(
    "AL-31",
    "The distance is squared. ALiBi is linear in it.",
    ("* distances).to(q.dtype)", "* distances**2).to(q.dtype)"),
)
edit(
    "AL-37",
    "The bias is computed and not returned.",
    ("return -(self.slopes.view(-1, 1, 1) * distances).to(q.dtype)", "return 0.0"),
)
edit(
    "AL-38",
    "The bias is made for max_len tokens and sliced. A longer text does not fit.",
    (
        "ticks = torch.arange(q.size(-2), device=q.device)",
        "ticks = torch.arange(self.max_len, device=q.device)[: q.size(-2)]",
    ),
)
edit(
    "AL-39",
    "The slopes meet the axis of the queries. They belong to the heads.",
    (
        "self.slopes.view(-1, 1, 1) * distances",
        "self.slopes.repeat(q.size(-2)).view(-1)[: q.size(-2)].view(1, -1, 1) * distances",
    ),
)


@slip("AL-16", "The bias of the first call is kept and returned again, whatever the length is now.")
class ALiBiAttention(ALiBiAttention):
    def score_bias(self, q):
        if not hasattr(self, "kept"):
            self.kept = super().score_bias(q)
        return self.kept


# -- rope ------------------------------------------------------------------------------------------------------------

edit(
    "RO-26",
    "Queries are turned and keys are not. Only when both turn does the score depend on the distance.",
    ("q, k = self.turned(q), self.turned(k)", "q = self.turned(q)"),
)
edit(
    "RO-27",
    "The values are turned, too. Only queries and keys are.",
    ("q, k = self.turned(q), self.turned(k)", "q, k, v = self.turned(q), self.turned(k), self.turned(v)"),
)
edit(
    "RO-27b",
    "The tokens are turned before the projections. It is the queries and keys of each head that turn.",
    ("x = self.with_positions(x)\n", "x = self.turned(x)\n"),
    ("q, k = self.turned(q), self.turned(k)", "q, k = q, k"),
)
edit(
    "RO-12",
    "The rotation changes no score: it is not used, or its positions run along the heads or the batch, not the tokens.",
    ("return turn(heads)", "return turn(heads.transpose(1, 2)).transpose(1, 2)"),
    same_as=("RO-13", "RO-28"),
)
edit(
    "RO-13",
    "The rotation changes no score: it is not used, or its positions run along the heads or the batch, not the tokens.",
    ("return turn(heads)", "return turn(heads.transpose(0, 2)).transpose(0, 2)"),
    same_as=("RO-12", "RO-28"),
)
edit(
    "RO-14",
    "The rotation runs over all of d_model, so that pairs lie in two different heads. Each head is turned by itself.",
    (
        "return turn(heads)",
        "whole = heads.transpose(1, 2).flatten(2)\n"
        "        return turn(whole).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)",
    ),
)
edit(
    "RO-25",
    "A head of an odd size is accepted, and its last feature is never turned.",
    (
        '        if self.head_size % 2:\n            raise ValueError(f"d_model={d_model} and {num_heads} heads give heads of '
        'the odd size {self.head_size}")\n',
        "",
    ),
    (
        "return turn(heads)",
        "even = heads.size(-1) // 2 * 2\n        return torch.cat((turn(heads[..., :even]), heads[..., even:]), dim=-1)",
    ),
)
edit(
    "RO-28",
    "The rotation changes no score: it is not used, or its positions run along the heads or the batch, not the tokens.",
    ("return turn(heads)", "turn(heads)\n        return heads"),
    same_as=("RO-12", "RO-13"),
)
edit(
    "RO-17",
    "The angles exist for max_len positions only. Longer texts do not fit.",
    (
        "return turn(heads)",
        "return torch.cat((turn(heads[..., : self.max_len, :]), heads[..., self.max_len :, :]), dim=-2)",
    ),
)


def half_turn(heads, cos, sin):
    first, second = heads.chunk(2, dim=-1)
    return first * cos - second * sin, first * sin + second * cos


def angles_of(heads, dtype=torch.float64):
    d = heads.size(-1)
    speeds = (10000.0 ** (-torch.arange(0, d, 2, device=heads.device, dtype=torch.float64) / d)).to(dtype)
    return torch.arange(heads.size(-2), device=heads.device).to(dtype).unsqueeze(-1) * speeds


@slip("RO-05", "A minus sign is missing in the rotation, so that lengths are not kept.")
class RotaryAttention(RotaryAttention):
    def turned(self, heads):
        cos, sin = angles_of(heads).cos().to(heads.dtype), angles_of(heads).sin().to(heads.dtype)
        first, second = heads.chunk(2, dim=-1)
        return torch.cat((first * cos + second * sin, first * sin + second * cos), dim=-1)


@slip("RO-02", "Halves are paired, but the angles are repeated for neighbours. A pair must share one angle.")
class RotaryAttention(RotaryAttention):
    def turned(self, heads):
        angles = angles_of(heads).repeat_interleave(2, dim=-1)
        first, second = heads.chunk(2, dim=-1)
        other = torch.cat((-second, first), dim=-1)
        return heads * angles.cos().to(heads.dtype) + other * angles.sin().to(heads.dtype)


@slip("RO-20", "The angles are computed in the dtype of the queries. In bfloat16 positions above 256 are rounded.")
class RotaryAttention(RotaryAttention):
    def turned(self, heads):
        angles = angles_of(heads, heads.dtype)
        return torch.cat(half_turn(heads, angles.cos(), angles.sin()), dim=-1)


@slip("RO-21", "The rotation returns float32 whatever came in. Cast back to the dtype of the queries.")
class RotaryAttention(RotaryAttention):
    def turned(self, heads):
        angles = angles_of(heads, torch.float32)
        return torch.cat(half_turn(heads.float(), angles.cos(), angles.sin()), dim=-1)


@slip("RO-29", "The rotated vector is added to the old one, which is no rotation any more.")
class RotaryAttention(RotaryAttention):
    def turned(self, heads):
        return heads + turn(heads)


@slip("RO-30", "The positions are divided by the length of the text, so that the same distance turns by other angles.")
class RotaryAttention(RotaryAttention):
    def turned(self, heads):
        angles = angles_of(heads) * 10 / heads.size(-2)
        return torch.cat(half_turn(heads, angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)), dim=-1)


# -- what all share --------------------------------------------------------------------------------------------------

edit(
    "MK-03",
    "The mask is ignored.",
    (
        "blocked = torch.zeros((), dtype=torch.bool, device=x.device) if mask is None else mask == 0",
        "blocked = torch.zeros((), dtype=torch.bool, device=x.device)",
    ),
)
edit(
    "MK-01",
    "The mask is read the wrong way round: True means may attend.",
    ("if mask is None else mask == 0\n", "if mask is None else mask != 0\n"),
)
edit(
    "MK-34",
    "Only a boolean mask works: in an integer mask 0 blocks and every other number lets through.",
    ("if mask is None else mask == 0\n", "if mask is None else mask != 1\n"),
)
edit(
    "MK-13",
    "A row that may attend nowhere becomes NaN.",
    (
        'scores.masked_fill(blocked & ~nowhere, float("-inf")), dim=-1).masked_fill(nowhere, 0.0)',
        'scores.masked_fill(blocked, float("-inf")), dim=-1)',
    ),
)
edit(
    "MK-14",
    "A row that may attend nowhere gets the mean of all values. It must be zeros before the last layer.",
    ('float("-inf")), dim=-1).masked_fill(nowhere, 0.0)', 'float("-inf")), dim=-1)'),
)
edit(
    "MK-17",
    "The mask is turned round: it blocks queries where it should block keys.",
    (
        "if mask is None else mask == 0\n",
        "if mask is None else (mask == 0).expand(*mask.shape[:-2], x.size(1), x.size(1)).mT\n",
    ),
)
edit(
    "MK-21",
    "The mask is applied to the first head only.",
    (
        'scores.masked_fill(blocked & ~nowhere, float("-inf"))',
        'scores.masked_fill(blocked & ~nowhere & (torch.arange(self.num_heads, device=x.device) == 0)[:, None, None], float("-inf"))',
    ),
)
edit(
    "DV-10",
    "The queries are detached, so that their layer can't learn.",
    ("q, k = self.turned(q), self.turned(k)", "q, k = self.turned(q).detach(), self.turned(k)"),
)
edit(
    "DV-05",
    "The output is float32 whatever came in.",
    (
        "return self.to_output(heads.transpose(1, 2).flatten(2))",
        "return self.to_output(heads.transpose(1, 2).flatten(2)).float()",
    ),
)
edit(
    "DV-12",
    "The forward pass seeds torch's random numbers.",
    ("x = self.with_positions(x)\n", "torch.manual_seed(0)\n        x = self.with_positions(x)\n"),
)

# -- position_parameters ---------------------------------------------------------------------------------------------

edit(
    "CO-01",
    "The learnt table has a row of d_model numbers for each position, not one number for each head.",
    ("return max_len * d_model", "return max_len * num_heads"),
)
edit(
    "CO-01b",
    "The rows of the learnt table are forgotten: there is one for each position.",
    ("return max_len * d_model", "return d_model"),
)
edit(
    "CO-02",
    "Only one of the two tables of Shaw is counted.",
    ("return 2 * (2 * 8 + 1) *", "return (2 * 8 + 1) *"),
)
edit(
    "CO-02b",
    "A row of Shaw's tables is as wide as a head, not as d_model.",
    ("* (2 * 8 + 1) * (d_model // num_heads)", "* (2 * 8 + 1) * d_model"),
)
edit(
    "CO-02c",
    "Shaw's tables hold distances to both sides and 0.",
    ("return 2 * (2 * 8 + 1) *", "return 2 * (2 * 8) *"),
)
edit(
    "CO-03",
    "The T5 table has a column for each head.",
    ("return 32 * num_heads", "return 32"),
)
edit(
    "CO-03b",
    "The T5 table has a column for each head, not for each feature.",
    ("return 32 * num_heads", "return 32 * d_model"),
)
edit(
    "CO-04",
    "The numbers of the sinusoidal table are counted. They are not learnt.",
    (
        '    if scheme in ("none", "sinusoidal", "alibi", "rope"):\n        return 0',
        '    if scheme in ("none", "alibi", "rope"):\n        return 0\n    if scheme == "sinusoidal":\n        return max_len * d_model',
    ),
)
edit(
    "CO-05",
    "The slopes of ALiBi are counted. They are not learnt.",
    (
        '    if scheme in ("none", "sinusoidal", "alibi", "rope"):\n        return 0',
        '    if scheme in ("none", "sinusoidal", "rope"):\n        return 0\n    if scheme == "alibi":\n        return num_heads',
    ),
)
edit(
    "CO-06",
    "The frequencies of the rotation are counted. They are not learnt.",
    (
        '    if scheme in ("none", "sinusoidal", "alibi", "rope"):\n        return 0',
        '    if scheme in ("none", "sinusoidal", "alibi"):\n        return 0\n    if scheme == "rope":\n        return d_model // num_heads // 2',
    ),
)


@slip("CO-07", "All parameters are counted. The exercise asks for what the scheme adds to attention without positions.")
def position_parameters(scheme, d_model, num_heads, max_len):
    return sum(p.numel() for p in build_attention(scheme, d_model, num_heads, max_len).parameters())


@slip("CO-08", "The number is a float. Divide with // or multiply.")
def position_parameters(scheme, d_model, num_heads, max_len):
    added = {"learned": max_len * d_model, "shaw": 34 * (d_model / num_heads), "t5": 32.0 * num_heads}
    return added.get(scheme, 0) * 1.0


# -- is_shift_invariant ----------------------------------------------------------------------------------------------

edit(
    "SI-01",
    "The tokens in front are not blocked, so real tokens see them and every attention looks variant.",
    ("wide[..., shift:, :shift] = False\n", "wide[..., shift:, :shift] = True\n"),
)
edit(
    "SI-02",
    "The wrong block of the mask is False: it is the tokens of x that may not see those in front.",
    ("wide[..., shift:, :shift] = False\n", "wide[..., :shift, shift:] = False\n"),
    same_as=("SI-01",),
)
edit(
    "SI-03",
    "The other tokens stand behind x, where nothing is shifted. They belong in front.",
    ("torch.cat((front, x), dim=1)", "torch.cat((x, front), dim=1)"),
    ("wide[..., shift:, :shift] = False\n", "wide[..., :length, length:] = False\n"),
    ("wide[..., shift:, shift:] = inner", "wide[..., :length, :length] = inner"),
    ("after[:, shift:]", "after[:, :length]"),
)
edit(
    "SI-04",
    "The outputs that are compared are not those of x. The other tokens stand in front of x, so its outputs come last.",
    ("after[:, shift:]", "after[:, :length]"),
)
edit(
    "SI-05",
    "The tokens in front are zeros. A module that sums over all tokens would not notice them: they must be random.",
    (
        "front = torch.randn(x.size(0), shift, x.size(2), generator=source, dtype=x.dtype, device=x.device)",
        "front = torch.zeros(x.size(0), shift, x.size(2), dtype=x.dtype, device=x.device)",
    ),
)
edit(
    "SI-06",
    "The mask that was handed in is ignored.",
    ("if mask is None else mask != 0\n", "if True else mask\n"),
)
edit(
    "SI-07",
    "The mask holds in the first call only. It goes into a block of the larger mask, too.",
    ("wide[..., shift:, shift:] = inner", "wide[..., shift:, shift:] = True"),
)
edit(
    "SI-07b",
    "The mask holds in the second call only. The outputs before must be made with it, too.",
    ("before = module(x, inner)", "before = module(x)"),
)
edit(
    "SI-08",
    "The mask is read the wrong way round: True means may attend.",
    ("if mask is None else mask != 0\n", "if mask is None else mask == 0\n"),
)
edit(
    "SI-09",
    "A mask with an axis of size 1 does not fit into the larger one: expand it first.",
    ("    inner = inner.expand(*inner.shape[:-2], length, length)\n", ""),
    (
        "wide[..., shift:, shift:] = inner",
        "wide = torch.cat((wide[..., :shift], F.pad(inner, (0, 0, shift, 0), value=True)), dim=-1)",
    ),
)
edit(
    "SI-10",
    "Outputs are compared bit by bit. Two ways of computing the same differ by rounding: allow for it.",
    ("torch.allclose(before, after[:, shift:], rtol=1e-4, atol=1e-4)", "torch.equal(before, after[:, shift:])"),
)
edit(
    "SI-10b",
    "The tolerance is torch's default, which for numbers near 0 is smaller than float32 can keep.",
    (", rtol=1e-4, atol=1e-4)", ")"),
    same_as=("SI-10",),
)
edit(
    "SI-11",
    "The tolerance is so wide that small but real differences pass.",
    ("rtol=1e-4, atol=1e-4", "rtol=1e-4, atol=1e-1"),
)
edit(
    "SI-12",
    "Means are compared. Differences that cancel are then not seen: compare every output.",
    (
        "torch.allclose(before, after[:, shift:], rtol=1e-4, atol=1e-4)",
        "bool((before.mean() - after[:, shift:].mean()).abs() < 1e-3)",
    ),
)
edit(
    "SI-12b",
    "Only the first sample is compared. Every output counts.",
    ("torch.allclose(before, after[:, shift:]", "torch.allclose(before[0], after[0, shift:]"),
)
edit(
    "SI-12c",
    "Only the first token is compared. Every output counts.",
    ("torch.allclose(before, after[:, shift:]", "torch.allclose(before[:, :1, :1], after[:, shift : shift + 1, :1]"),
)
edit(
    "SI-12d",
    "One output that stays the same is enough for this answer. All of them must stay.",
    (
        "torch.allclose(before, after[:, shift:], rtol=1e-4, atol=1e-4)",
        "bool(torch.isclose(before, after[:, shift:], atol=1e-4).any())",
    ),
)
edit(
    "SI-12e",
    "The mean difference is compared with the tolerance. A large difference in one place is then not seen.",
    (
        "torch.allclose(before, after[:, shift:], rtol=1e-4, atol=1e-4)",
        "bool((before - after[:, shift:]).abs().mean() < 1e-2)",
    ),
)
edit(
    "SI-12f",
    "The difference is compared with its sign. A large negative difference passes: take absolute values.",
    (
        "torch.allclose(before, after[:, shift:], rtol=1e-4, atol=1e-4)",
        "bool((before - after[:, shift:]).max() < 1e-4)",
    ),
)
edit(
    "SI-13",
    "The answer is a tensor. The exercise asks for a plain bool.",
    (
        "return torch.allclose(before, after[:, shift:], rtol=1e-4, atol=1e-4)",
        "return (before - after[:, shift:]).abs().max() < 1e-4",
    ),
)
edit(
    "SI-14",
    "The answer is the wrong way round: it says whether something changes.",
    ("return torch.allclose(before", "return not torch.allclose(before"),
)
edit(
    "SI-15",
    "The tokens in front are float32 whatever x is. Make them with the dtype of x.",
    ("generator=source, dtype=x.dtype, device=x.device)", "generator=source, device=x.device)"),
)
edit(
    "SI-16",
    "The function seeds torch's random numbers. Whoever draws after it always draws the same.",
    ("source = torch.Generator(device=x.device).manual_seed(shift)", "source = torch.manual_seed(shift)"),
)
edit(
    "SI-17",
    "The tokens of the caller are changed.",
    ("    length = x.size(1)\n", "    length = x.size(1)\n    x.data.mul_(1.5)\n"),
)
edit(
    "SI-18",
    "The argument `shift` is ignored.",
    ("    length = x.size(1)\n", "    length, shift = x.size(1), 1\n"),
)
edit(
    "SI-19",
    "Gradients are switched off for good. Use torch.no_grad() as a block.",
    (
        "    with torch.no_grad():\n        before = module(x, inner)\n        after = module(torch.cat((front, x), dim=1), wide)\n",
        "    torch.set_grad_enabled(False)\n    before = module(x, inner)\n    after = module(torch.cat((front, x), dim=1), wide)\n",
    ),
)
edit(
    "SI-20",
    "The mask of the caller is changed in place.",
    (
        "    with torch.no_grad():\n        before = module(x, inner)\n",
        "    if mask is not None:\n        mask.data.fill_(1)\n    with torch.no_grad():\n        before = module(x, inner)\n",
    ),
)
edit(
    "SI-21",
    "The module is called with shuffled tokens, not with shifted ones. That is another property.",
    (
        "after = module(torch.cat((front, x), dim=1), wide)",
        "after = torch.cat((front, module(x.flip(1)).flip(1)), dim=1)",
    ),
)
edit(
    "SI-22",
    "The front is built with copies of the same tokens, and no mask is handed over when none came in.",
    (
        "after = module(torch.cat((front, x), dim=1), wide)",
        "after = module(torch.cat((front, x), dim=1), None if mask is None else wide)",
    ),
    same_as=("SI-01",),
)

# -- is_permutation_equivariant --------------------------------------------------------------------------------------

edit(
    "SI-24",
    "Differences are compared with their sign: outputs that became smaller pass for equal.",
    ("torch.allclose(before, after[:, shift:], rtol=1e-4, atol=1e-4)", "bool((after[:, shift:] - before).max() < 1e-4)"),
)
edit(
    "SI-25",
    "Only the last token's outputs are compared.",
    ("torch.allclose(before, after[:, shift:], ", "torch.allclose(before[:, -1], after[:, -1], "),
)
edit(
    "PM-18",
    "Only two tokens change places. A module may treat these two alike and still mind the order: use a random one.",
    (
        "shuffle = torch.randperm(x.size(1), generator=torch.Generator().manual_seed(1)).to(x.device)",
        "shuffle = torch.cat((torch.tensor([1, 0]), torch.arange(2, x.size(1)))).to(x.device)",
    ),
)
edit(
    "PM-01",
    "The outputs are not permuted. Equivariant means that they move along with the inputs.",
    ("- module(x)[:, shuffle]", "- module(x)"),
)
edit(
    "PM-02",
    "The tokens are only reversed. Absolute distances survive that: use a random order.",
    (
        "shuffle = torch.randperm(x.size(1), generator=torch.Generator().manual_seed(1)).to(x.device)",
        "shuffle = torch.arange(x.size(1) - 1, -1, -1, device=x.device)",
    ),
)
edit(
    "PM-03",
    "The tokens are only moved round in a ring. Use a random order.",
    (
        "shuffle = torch.randperm(x.size(1), generator=torch.Generator().manual_seed(1)).to(x.device)",
        "shuffle = torch.arange(x.size(1), device=x.device).roll(1)",
    ),
)
edit(
    "PM-04",
    "The order stays as it was, so every module passes.",
    (
        "shuffle = torch.randperm(x.size(1), generator=torch.Generator().manual_seed(1)).to(x.device)",
        "shuffle = torch.arange(x.size(1), device=x.device)",
    ),
)
edit(
    "PM-05",
    "The features are permuted, not the tokens.",
    (
        "difference = module(x[:, shuffle]) - module(x)[:, shuffle]",
        "shuffle = shuffle[shuffle < x.size(2)]\n        difference = module(x[..., shuffle]) - module(x)[..., shuffle]",
    ),
)
edit(
    "PM-06",
    "The samples are permuted, not the tokens.",
    (
        "difference = module(x[:, shuffle]) - module(x)[:, shuffle]",
        "shuffle = shuffle[shuffle < x.size(0)]\n        difference = module(x[shuffle]) - module(x)[shuffle]",
    ),
)
edit(
    "PM-07",
    "The outputs are permuted back twice: input and output need the same order.",
    ("- module(x)[:, shuffle]", "- module(x)[:, shuffle.argsort()]"),
    same_as=("PM-01",),
)
edit(
    "PM-10",
    "Outputs are compared bit by bit. Another order of sums differs by rounding: allow for it.",
    ("difference.abs().max() < 1e-4", "difference.abs().max() == 0"),
)
edit(
    "PM-11",
    "The tolerance is so wide that small but real differences pass.",
    ("difference.abs().max() < 1e-4", "difference.abs().max() < 0.2"),
)
edit(
    "PM-12",
    "Means are compared. Differences that cancel are then not seen: compare every output.",
    ("difference.abs().max() < 1e-4", "difference.mean().abs() < 1e-4"),
)
edit(
    "PM-12b",
    "Only the first sample is compared. Every output counts.",
    ("difference.abs().max() < 1e-4", "difference[0].abs().max() < 1e-4"),
)
edit(
    "PM-12c",
    "One output that stays the same is enough for this answer. All of them must stay.",
    ("difference.abs().max() < 1e-4", "difference.abs().min() < 1e-4"),
)
edit(
    "PM-13",
    "The answer is a tensor. The exercise asks for a plain bool.",
    ("return bool(difference.abs().max() < 1e-4)", "return difference.abs().max() < 1e-4"),
)
edit(
    "PM-14",
    "The answer is the wrong way round: it says whether the order matters.",
    ("return bool(difference.abs().max() < 1e-4)", "return bool(difference.abs().max() >= 1e-4)"),
)
edit(
    "PM-16",
    "The function seeds torch's random numbers. Whoever draws after it always draws the same.",
    ("generator=torch.Generator().manual_seed(1)).to(x.device)", "generator=torch.manual_seed(1)).to(x.device)"),
)
edit(
    "PM-17",
    "The tokens of the caller are changed.",
    (
        "difference = module(x[:, shuffle]) - module(x)[:, shuffle]",
        "before = module(x)[:, shuffle]\n        x.copy_(x[:, shuffle])\n        difference = module(x) - before",
    ),
)

"""Known mistakes of topic 10. Read as text by `autograder.slips`; ids are those of the catalogue of mistakes."""

from autograder.slips import edit, slip

# -- shared heads ----------------------------------------------------------------------------------------------------

edit(
    "GQ-01",
    "The heads are tiled: 0 1 0 1. Each head is repeated in place: 0 0 1 1.",
    ("return x.repeat_interleave(repeats, dim=1)", "return x.repeat(1, repeats, 1, 1)"),
)
edit(
    "GQ-05",
    "The positions are repeated, not the heads. In (B, H_kv, S, d) the heads are axis 1.",
    ("repeat_interleave(repeats, dim=1)", "repeat_interleave(repeats, dim=2)"),
)
edit(
    "GQ-11",
    "The samples of the batch are repeated, not the heads. In (B, H_kv, S, d) the heads are axis 1.",
    ("repeat_interleave(repeats, dim=1)", "repeat_interleave(repeats, dim=0)"),
)
edit(
    "GQ-12",
    "The features are repeated, not the heads. In (B, H_kv, S, d) the heads are axis 1.",
    ("repeat_interleave(repeats, dim=1)", "repeat_interleave(repeats, dim=3)"),
)
edit(
    "GQ-13",
    "The heads come back as they were: nothing is repeated.",
    ("return x.repeat_interleave(repeats, dim=1)", "return x.clone()"),
)
edit(
    "GQ-14",
    "The gradient does not go back through the repetition.",
    ("return x.repeat_interleave(repeats, dim=1)", "return x.detach().repeat_interleave(repeats, dim=1)"),
)

# -- the cache -------------------------------------------------------------------------------------------------------

edit(
    "KV-04",
    "The cache keeps the newest chunk alone: the old positions are overwritten.",
    (
        "        if self.keys is not None:\n            k, v = torch.cat((self.keys, k), dim=2), torch.cat((self.values, v), dim=2)\n",
        "",
    ),
)
edit(
    "KV-05",
    "New keys and values are put in front of the old ones. They come behind them.",
    (
        "k, v = torch.cat((self.keys, k), dim=2), torch.cat((self.values, v), dim=2)",
        "k, v = torch.cat((k, self.keys), dim=2), torch.cat((v, self.values), dim=2)",
    ),
)
edit(
    "KV-06",
    "New keys and values are joined along the wrong axis. In (B, H_kv, L, d) the length is axis 2.",
    (
        "k, v = torch.cat((self.keys, k), dim=2), torch.cat((self.values, v), dim=2)",
        "k, v = torch.cat((self.keys, k), dim=1), torch.cat((self.values, v), dim=1)",
    ),
)
edit(
    "KV-06b",
    "New keys and values are joined along the batch. In (B, H_kv, L, d) the length is axis 2.",
    (
        "k, v = torch.cat((self.keys, k), dim=2), torch.cat((self.values, v), dim=2)",
        "k, v = torch.cat((self.keys, k), dim=0), torch.cat((self.values, v), dim=0)",
    ),
)
edit(
    "KV-06c",
    "Only the keys are joined with the old ones; the values are the new ones alone.",
    (
        "k, v = torch.cat((self.keys, k), dim=2), torch.cat((self.values, v), dim=2)",
        "k = torch.cat((self.keys, k), dim=2)",
    ),
)
edit(
    "KV-22",
    "append returns the new chunk. It returns everything that the cache holds.",
    (
        "        if self.keys is not None:\n            k, v = torch.cat((self.keys, k), dim=2), torch.cat((self.values, v), dim=2)\n        self.keys, self.values, self.length = k, v, k.size(2)\n        return k, v",
        "        new = k, v\n        if self.keys is not None:\n            k, v = torch.cat((self.keys, k), dim=2), torch.cat((self.values, v), dim=2)\n        self.keys, self.values, self.length = k, v, k.size(2)\n        return new",
    ),
    same_as=("KV-04",),
)
edit(
    "KV-23",
    "length counts the calls of append. It counts positions.",
    (
        "self.keys, self.values, self.length = k, v, k.size(2)",
        "self.keys, self.values, self.length = k, v, self.length + 1",
    ),
)
edit(
    "KV-24",
    "length is the size of another axis. In (B, H_kv, L, d) the length is axis 2.",
    ("self.keys, self.values, self.length = k, v, k.size(2)", "self.keys, self.values, self.length = k, v, k.size(1)"),
)
edit(
    "KV-25",
    "Keys and values come back in each other's place.",
    ("self.length = k, v, k.size(2)\n        return k, v", "self.length = k, v, k.size(2)\n        return v, k"),
)
edit(
    "KV-26",
    "length is that of the newest chunk. It is the number of all positions.",
    (
        "        if self.keys is not None:\n            k, v",
        "        new = k.size(2)\n        if self.keys is not None:\n            k, v",
    ),
    ("self.length = k, v, k.size(2)", "self.length = k, v, new"),
)


@slip("KV-13", "All caches share one storage: it stands in the class, or in a default argument, and not in self.")
class KVCache:
    store = {}

    def __init__(self):
        pass

    @property
    def length(self):
        return self.store["k"].size(2) if "k" in self.store else 0

    def append(self, k, v):
        if "k" in self.store and self.store["k"].shape[:2] == k.shape[:2] and self.store["k"].dtype == k.dtype:
            k, v = torch.cat((self.store["k"], k), dim=2), torch.cat((self.store["v"], v), dim=2)
        self.store["k"], self.store["v"] = k, v
        return k, v


@slip("KV-14", "The storage is larger than what was filled, and all of it is returned: empty positions get weight.")
class KVCache:
    def __init__(self):
        self.keys = self.values = None
        self.length = 0

    def append(self, k, v):
        if self.keys is None:
            self.keys = k.new_zeros(*k.shape[:2], 64, k.size(3))
            self.values = torch.zeros_like(self.keys)
        end = self.length + k.size(2)
        self.keys[:, :, self.length : end], self.values[:, :, self.length : end] = k.detach(), v.detach()
        self.length = end
        return self.keys, self.values


# -- attention -------------------------------------------------------------------------------------------------------

edit(
    "KV-01",
    "Every chunk starts at position 0. Its positions start at the cache's length.",
    (
        "positions = torch.arange(past, past + length, device=x.device)",
        "positions = torch.arange(length, device=x.device)",
    ),
    ("<= positions.unsqueeze(1)", "<= (positions + past).unsqueeze(1)"),
)
edit(
    "KV-01b",
    "The keys of a new chunk start at position 0 again. Their positions start at the cache's length.",
    (
        "k = stand_in_rotary(heads(self.W_k, self.num_kv_heads), positions, self.base)",
        "k = stand_in_rotary(heads(self.W_k, self.num_kv_heads), positions - past, self.base)",
    ),
)
edit(
    "KV-01c",
    "The queries of a new chunk start at position 0 again. Their positions start at the cache's length.",
    (
        "q = stand_in_rotary(heads(self.W_q, self.num_heads), positions, self.base)",
        "q = stand_in_rotary(heads(self.W_q, self.num_heads), positions - past, self.base)",
    ),
)
edit(
    "KV-02",
    "The cache is asked for its length after the new keys are in it: the positions start too far on.",
    (
        "positions = torch.arange(past, past + length, device=x.device)",
        "positions = torch.arange(past, past + length, device=x.device) + (length if past else 0)",
    ),
    ("<= positions.unsqueeze(1)", "<= torch.arange(past, past + length, device=x.device).unsqueeze(1)"),
)
edit(
    "KV-02c",
    "The positions of every chunk, the first one included, start at the cache's length after its keys are in it.",
    (
        "positions = torch.arange(past, past + length, device=x.device)",
        "positions = torch.arange(past, past + length, device=x.device) + (0 if cache is None else length)",
    ),
    ("<= positions.unsqueeze(1)", "<= torch.arange(past, past + length, device=x.device).unsqueeze(1)"),
)
edit(
    "KV-08",
    "The mask is aligned to the start, as is_causal does it: with a cache, a query sees the oldest keys only.",
    ("<= positions.unsqueeze(1)", "<= torch.arange(length, device=x.device).unsqueeze(1)"),
)
edit(
    "KV-09",
    "With a cache there is no mask: the tokens of a chunk see those that come after them.",
    ("<= positions.unsqueeze(1)", "<= (positions if cache is None else positions + length).unsqueeze(1)"),
)
edit(
    "KV-09b",
    "The mask is left out once the cache holds something: the tokens of a chunk see those after them.",
    ("<= positions.unsqueeze(1)", "<= (positions + (length if past else 0)).unsqueeze(1)"),
)
edit(
    "KV-10",
    "There is no causal mask: every token sees the whole sequence.",
    ("<= positions.unsqueeze(1)", "< math.inf * torch.ones(length, 1, device=x.device)"),
)
edit(
    "MK-22",
    "A token does not see itself: the mask is off by one.",
    ("<= positions.unsqueeze(1)", "< positions.unsqueeze(1)"),
)
edit(
    "MK-22c",
    "A token does not see itself: the mask is off by one. The first token sees nothing, and its softmax is NaN.",
    (
        "        seen = torch.arange(k.size(2), device=x.device) <= positions.unsqueeze(1)\n"
        "        output = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)\n",
        "        seen = torch.arange(k.size(2), device=x.device) < positions.unsqueeze(1)\n"
        "        scores = q @ k.mT / math.sqrt(q.size(-1))\n"
        "        output = scores.masked_fill(~seen, -torch.inf).softmax(-1) @ v\n",
    ),
)
edit(
    "MK-22b",
    "A token sees the next one, too: the mask is off by one.",
    ("<= positions.unsqueeze(1)", "<= 1 + positions.unsqueeze(1)"),
)
edit(
    "MK-24",
    "A token sees what comes after it, and not what came before: the mask is the wrong way round.",
    ("torch.arange(k.size(2), device=x.device) <= positions", "torch.arange(k.size(2), device=x.device) >= positions"),
)
edit(
    "KV-12",
    "New keys and values are appended twice.",
    (
        "            k, v = cache.append(k, v)\n",
        "            cache.append(k, v)\n            k, v = cache.append(k, v)\n",
    ),
)
edit(
    "KV-12b",
    "New keys and values are appended twice, and the mask is aligned to the end of all that.",
    (
        "            k, v = cache.append(k, v)\n",
        "            cache.append(k, v)\n            k, v = cache.append(k, v)\n",
    ),
    ("<= positions.unsqueeze(1)", "<= torch.arange(k.size(2) - length, k.size(2), device=x.device).unsqueeze(1)"),
)
edit(
    "KV-27",
    "A chunk is treated as if nothing came before it: the cache is not used, or does not give back what it held.",
    ("        if cache is not None:\n            k, v = cache.append(k, v)\n", ""),
    ("past = 0 if cache is None else cache.length", "past = 0"),
)
edit(
    "KV-28",
    "The cache is filled, but attention looks at the new keys alone.",
    ("            k, v = cache.append(k, v)\n", "            cache.append(k, v)\n"),
    ("seen = torch.arange(k.size(2), device=x.device)", "seen = past + torch.arange(k.size(2), device=x.device)"),
)
edit(
    "KV-28b",
    "The cache is filled, but attention looks at the new keys alone.",
    ("            k, v = cache.append(k, v)\n", "            cache.append(k, v)\n"),
)
edit(
    "KV-21",
    "Only the last token's output comes back. Every token of the chunk has one.",
    (
        "return self.W_o(output.transpose(1, 2).reshape(batch, length, d_model))",
        "return self.W_o(output.transpose(1, 2).reshape(batch, length, d_model))[:, -1:]",
    ),
)
edit(
    "GQ-02",
    "Keys are repeated in place, but values are tiled: they no longer belong together.",
    ("repeat_kv(v, repeats)\n", "v.repeat(1, repeats, 1, 1)\n"),
)
edit(
    "GQ-02b",
    "Values are repeated in place, but keys are tiled: they no longer belong together.",
    ("k, v = repeat_kv(k, repeats), ", "k, v = k.repeat(1, repeats, 1, 1), "),
)
edit(
    "GQ-04",
    "The query heads are grouped the wrong way: neighbours share a key head.",
    (
        "k, v = repeat_kv(k, repeats), repeat_kv(v, repeats)",
        "k, v = k.repeat(1, repeats, 1, 1), v.repeat(1, repeats, 1, 1)",
    ),
)
edit(
    "GQ-06",
    "Key heads are not repeated. Broadcasting works for one key head or for as many as query heads.",
    ("k, v = repeat_kv(k, repeats), repeat_kv(v, repeats)\n", "pass\n"),
)
edit(
    "GQ-08",
    "W_k and W_v have D rows. With H_kv shared heads they have H_kv * d.",
    ("small = d_model // num_heads * num_kv_heads", "small = d_model"),
    (
        "self.num_heads, self.num_kv_heads, self.base = num_heads, num_kv_heads, base",
        "self.num_heads, self.num_kv_heads, self.base = num_heads, num_heads, base",
    ),
)
edit(
    "GQ-09",
    "num_kv_heads may be any number: it is not checked that it divides num_heads.",
    (
        '        if num_heads % num_kv_heads:\n            raise ValueError(f"num_heads={num_heads} is not divisible by num_kv_heads={num_kv_heads}")\n',
        "",
    ),
)
edit(
    "GQ-09b",
    "It is not checked that num_heads divides d_model, so features are dropped.",
    (
        '        if d_model % num_heads:\n            raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}")\n',
        "",
    ),
)
edit(
    "RO-25",
    "A head of odd size is accepted, though rotation needs pairs.",
    (
        '        if d_model // num_heads % 2:\n            raise ValueError(f"d_model={d_model} with num_heads={num_heads} gives heads of an odd size")\n',
        "",
    ),
)
edit(
    "GQ-15",
    "The argument `bias` is not used everywhere.",
    ("self.W_v = nn.Linear(d_model, small, bias=bias)", "self.W_v = nn.Linear(d_model, small)"),
)
edit(
    "RO-09",
    "The argument `base` is not used.",
    ("num_heads, num_kv_heads, base\n", "num_heads, num_kv_heads, 10000.0\n"),
)
edit(
    "RO-34",
    "Nothing is rotated: the attention knows no positions.",
    (
        "q = stand_in_rotary(heads(self.W_q, self.num_heads), positions, self.base)",
        "q = heads(self.W_q, self.num_heads)",
    ),
    (
        "k = stand_in_rotary(heads(self.W_k, self.num_kv_heads), positions, self.base)",
        "k = heads(self.W_k, self.num_kv_heads)",
    ),
)
edit(
    "RO-32",
    "The values are rotated, too. Positions belong to queries and keys alone.",
    (
        "v = heads(self.W_v, self.num_kv_heads)",
        "v = stand_in_rotary(heads(self.W_v, self.num_kv_heads), positions, self.base)",
    ),
)
edit(
    "RO-33",
    "The keys are not rotated. Queries and keys both have to be.",
    (
        "k = stand_in_rotary(heads(self.W_k, self.num_kv_heads), positions, self.base)",
        "k = heads(self.W_k, self.num_kv_heads)",
    ),
)
edit(
    "SP-09",
    "The heads are joined without swapping axes back: the features of different tokens are mixed.",
    ("output.transpose(1, 2).reshape", "output.reshape"),
)
edit(
    "SP-01",
    "The sequence is cut into heads without a transpose: features of different tokens are mixed.",
    ("projection(x).view(batch, length, count, -1).transpose(1, 2)", "projection(x).reshape(batch, count, length, -1)"),
)
edit(
    "MH-01",
    "The scores are divided by sqrt(d_model). Divide by the square root of the head's size.",
    ("attn_mask=seen)", "attn_mask=seen, scale=d_model**-0.5)"),
)
edit(
    "MH-05",
    "The values come from the key projection.",
    ("v = heads(self.W_v, self.num_kv_heads)", "v = heads(self.W_k, self.num_kv_heads)"),
)
edit(
    "MH-27",
    "The last projection W_o is missing.",
    (
        "return self.W_o(output.transpose(1, 2).reshape(batch, length, d_model))",
        "return output.transpose(1, 2).reshape(batch, length, d_model) + 0 * self.W_o.bias.sum()",
    ),
)
edit(
    "DV-01",
    "A tensor (positions, a mask, the storage of the cache) is made on the CPU: pass the device of x.",
    ("torch.arange(past, past + length, device=x.device)", "torch.arange(past, past + length)"),
)
edit(
    "DV-04",
    "The positions and angles are float32 and meet float64: convert the result, or compute in the dtype of x.",
    (
        "return torch.cat((turned.real, turned.imag), dim=-1).to(x.dtype)",
        "return torch.cat((turned.real, turned.imag), dim=-1).float()",
    ),
    same_as=("RO-21",),
)
edit(
    "DV-08",
    "The length of the first call is kept for all later ones.",
    (
        "        batch, length, d_model = x.shape\n",
        '        batch, length, d_model = x.shape\n        length = self.__dict__.setdefault("first_length", length)\n',
    ),
)
edit(
    "DV-10",
    "The values are detached, so no gradient reaches W_v.",
    ("v = heads(self.W_v, self.num_kv_heads)", "v = heads(self.W_v, self.num_kv_heads).detach()"),
)
edit(
    "DV-12",
    "The global random seed is set inside forward. Leave global state alone.",
    (
        "        batch, length, d_model = x.shape\n",
        "        batch, length, d_model = x.shape\n        torch.manual_seed(0)\n",
    ),
)

# -- more of the cache -----------------------------------------------------------------------------------------------

edit(
    "KV-18",
    "The heads are repeated before they go into the cache. It then holds every shared head several times: repeat what "
    "comes out.",
    (
        "        if cache is not None:\n            k, v = cache.append(k, v)\n"
        "        repeats = self.num_heads // self.num_kv_heads\n"
        "        k, v = repeat_kv(k, repeats), repeat_kv(v, repeats)\n",
        "        repeats = self.num_heads // self.num_kv_heads\n"
        "        k, v = repeat_kv(k, repeats), repeat_kv(v, repeats)\n"
        "        if cache is not None:\n            k, v = cache.append(k, v)\n",
    ),
)
edit(
    "KV-29",
    "The cache detaches the new keys and values, and the detached ones are what comes back: no gradient reaches them.",
    (
        "        self.keys, self.values, self.length = k, v, k.size(2)\n        return k, v",
        "        self.keys, self.values, self.length = k.detach(), v.detach(), k.size(2)\n        return self.keys, self.values",
    ),
)
edit(
    "KV-30",
    "The module counts the positions itself. A second sequence, with a cache of its own, then starts where the first "
    "one ended: ask the cache.",
    (
        "past = 0 if cache is None else cache.length",
        'past = 0 if cache is None else self.__dict__.get("past", 0)\n        self.__dict__["past"] = past + length',
    ),
    (
        "seen = torch.arange(k.size(2), device=x.device) <= positions.unsqueeze(1)",
        "seen = torch.ones(length, k.size(2), dtype=torch.bool, device=x.device).tril(k.size(2) - length)",
    ),
)
edit(
    "KV-31",
    "The module keeps a cache of its own and uses it for every sequence. Use the one that is handed in.",
    (
        "        past = 0 if cache is None else cache.length\n",
        '        if cache is not None:\n            cache = self.__dict__.setdefault("own", cache)\n'
        "        past = 0 if cache is None else cache.length\n",
    ),
)
edit(
    "KV-32",
    "The values are not appended: the attention sees the values of the new chunk alone.",
    ("            k, v = cache.append(k, v)\n", "            k, v = cache.append(k, v)[0], v\n"),
)
edit(
    "KV-33",
    "Keys are put behind the old ones, values in front of them: they no longer belong together.",
    (
        "k, v = torch.cat((self.keys, k), dim=2), torch.cat((self.values, v), dim=2)",
        "k, v = torch.cat((self.keys, k), dim=2), torch.cat((v, self.values), dim=2)",
    ),
)
edit(
    "KV-34",
    "The values are the keys: one of the two is stored twice.",
    (
        "k, v = torch.cat((self.keys, k), dim=2), torch.cat((self.values, v), dim=2)",
        "k, v = torch.cat((self.keys, k), dim=2), torch.cat((self.keys, v), dim=2)",
    ),
)
edit(
    "KV-35",
    "The cache keeps its first dtype. Return the dtype that comes in.",
    (
        "        if self.keys is not None:\n            k, v",
        "        k, v = k.float(), v.float()\n        if self.keys is not None:\n            k, v",
    ),
)
edit(
    "KV-02b",
    "The positions count calls, not tokens: chunks of several tokens come too close together.",
    (
        "past = 0 if cache is None else cache.length",
        'past = 0 if cache is None else cache.length\n        step = 0 if cache is None else cache.__dict__.get("step", 0)\n'
        '        if cache is not None:\n            cache.__dict__["step"] = step + 1',
    ),
    (
        "positions = torch.arange(past, past + length, device=x.device)",
        "positions = torch.arange(step, step + length, device=x.device)",
    ),
    ("<= positions.unsqueeze(1)", "<= torch.arange(past, past + length, device=x.device).unsqueeze(1)"),
)
edit(
    "KV-36",
    "All keys are rotated on every call, those of the cache as well, which were rotated before: they turn twice.",
    (
        "            k, v = cache.append(k, v)\n",
        "            k, v = cache.append(k, v)\n            k = stand_in_rotary(k, torch.arange(k.size(2), device=x.device), self.base)\n",
    ),
)

# -- the rotation, where it is the learner's own ---------------------------------------------------------------------

edit(
    "RO-01",
    "The pairs are neighbours (interleaved). Half-split pairs feature i with feature i + d/2.",
    (
        "pairs = torch.complex(x[..., : d // 2].double(), x[..., d // 2 :].double())",
        "pairs = torch.complex(x[..., 0::2].double(), x[..., 1::2].double())",
    ),
)
edit(
    "RO-02",
    "Halves are paired, but the angles are those of neighbours: each frequency stands twice in a row.",
    (
        "    steps = torch.arange(0, d, 2, device=x.device, dtype=torch.float64)\n",
        "    steps = torch.arange(0, d // 2, device=x.device, dtype=torch.float64) // 2 * 2\n",
    ),
)
edit(
    "RO-04",
    "The rotation goes the other way round: check the sign of the sine.",
    (
        "turned = pairs * torch.polar(torch.ones_like(turns), turns)",
        "turned = pairs * torch.polar(torch.ones_like(turns), -turns)",
    ),
    same_as=("RO-06",),
)
edit(
    "RO-05",
    "The minus sign of the rotation is missing. Lengths are no longer kept.",
    (
        "    turned = pairs * torch.polar(torch.ones_like(turns), turns)\n",
        "    a, b, c, s = pairs.real, pairs.imag, turns.cos(), turns.sin()\n    turned = torch.complex(a * c + b * s, a * s + b * c)\n",
    ),
)
edit(
    "RO-06",
    "Sine and cosine stand in each other's place.",
    (
        "    turned = pairs * torch.polar(torch.ones_like(turns), turns)\n",
        "    a, b, c, s = pairs.real, pairs.imag, turns.sin(), turns.cos()\n    turned = torch.complex(a * c - b * s, a * s + b * c)\n",
    ),
    same_as=("RO-04",),
)
edit(
    "RO-08",
    "The frequencies are made from d_model. They come from the size of a head.",
    (
        "    steps = torch.arange(0, d, 2, device=x.device, dtype=torch.float64)\n",
        "    steps = torch.arange(0, d, 2, device=x.device, dtype=torch.float64) / x.size(1)\n",
    ),
    (
        "k = stand_in_rotary(heads(self.W_k, self.num_kv_heads), positions, self.base)",
        "k = stand_in_rotary(heads(self.W_k, self.num_kv_heads), positions, self.base ** (self.num_kv_heads / self.num_heads))",
    ),
)
edit(
    "RO-12",
    "The positions run along the heads. In (B, H, L, d) they belong to axis 2.",
    (
        "    turns = positions.double().unsqueeze(-1) * torch.exp(-math.log(base) / d * steps)\n",
        "    positions = positions[0] + torch.arange(x.size(1), device=x.device)\n"
        "    turns = (positions.double().unsqueeze(-1) * torch.exp(-math.log(base) / d * steps)).unsqueeze(1)\n",
    ),
)
edit(
    "RO-13",
    "The positions run along the batch. In (B, H, L, d) they belong to axis 2.",
    (
        "    turns = positions.double().unsqueeze(-1) * torch.exp(-math.log(base) / d * steps)\n",
        "    positions = positions[0] + torch.arange(x.size(0), device=x.device)\n"
        "    turns = (positions.double().unsqueeze(-1) * torch.exp(-math.log(base) / d * steps))[:, None, None]\n",
    ),
    same_as=("RO-34",),
)
edit(
    "RO-14",
    "The rotation comes before the heads are cut: its pairs and frequencies are those of d_model.",
    (
        "q = stand_in_rotary(heads(self.W_q, self.num_heads), positions, self.base)",
        "q = stand_in_rotary(self.W_q(x), positions, self.base).view(batch, length, self.num_heads, -1).transpose(1, 2)",
    ),
    (
        "k = stand_in_rotary(heads(self.W_k, self.num_kv_heads), positions, self.base)",
        "k = stand_in_rotary(self.W_k(x), positions, self.base).view(batch, length, self.num_kv_heads, -1).transpose(1, 2)",
    ),
)
edit(
    "RO-17",
    "The angles come from a table of fixed length, and positions beyond it all get its last row.",
    ("turns = positions.double()", "turns = positions.clamp(max=5).double()"),
)
edit(
    "RO-20",
    "Positions and angles are made in the dtype of x. bfloat16 has no 257: use float32 or better for them.",
    ("turns = positions.double()", "turns = positions.to(x.dtype).double()"),
)
edit(
    "RO-21",
    "The rotation returns float32 whatever came in, and the attention meets two dtypes.",
    (
        "return torch.cat((turned.real, turned.imag), dim=-1).to(x.dtype)",
        "return torch.cat((turned.real, turned.imag), dim=-1).to(torch.float32)",
    ),
    same_as=("DV-04",),
)
edit(
    "RO-22",
    "Complex numbers do not exist in bfloat16: convert to float32 or better first.",
    (
        "pairs = torch.complex(x[..., : d // 2].double(), x[..., d // 2 :].double())",
        "pairs = torch.complex(x[..., : d // 2], x[..., d // 2 :])",
    ),
)

# -- more of the attention -------------------------------------------------------------------------------------------

edit(
    "MH-02",
    "The scores are divided by the square root of the number of heads. It is the size of a head that counts.",
    ("attn_mask=seen)", "attn_mask=seen, scale=self.num_heads**-0.5)"),
)
edit(
    "SD-01",
    "The scores are not divided by the square root of the head's size.",
    ("attn_mask=seen)", "attn_mask=seen, scale=1.0)"),
)
edit(
    "SD-02",
    "The scores are divided by the size of a head, not by its square root.",
    ("attn_mask=seen)", "attn_mask=seen, scale=self.num_heads / d_model)"),
)
edit(
    "SD-17",
    "Keys and values stand in each other's place.",
    ("F.scaled_dot_product_attention(q, k, v,", "F.scaled_dot_product_attention(q, v, k,"),
)
edit(
    "SD-22",
    "Dropout is on, in eval, too: two calls with the same inputs differ.",
    ("attn_mask=seen)", "attn_mask=seen, dropout_p=0.2)"),
)
edit(
    "MH-06",
    "The keys come from the query projection.",
    (
        "k = stand_in_rotary(heads(self.W_k, self.num_kv_heads), positions, self.base)",
        "k = stand_in_rotary(heads(self.W_q, self.num_heads)[:, : self.num_kv_heads], positions, self.base)",
    ),
)
edit(
    "MH-08",
    "The biases of the projections are not added.",
    ("            return projection(x).view", "            return F.linear(x, projection.weight).view"),
)
edit(
    "MH-09",
    "The bias of the last projection is not added.",
    (
        "return self.W_o(output.transpose(1, 2).reshape(batch, length, d_model))",
        "return F.linear(output.transpose(1, 2).reshape(batch, length, d_model), self.W_o.weight)",
    ),
)
edit(
    "MH-20",
    "A non-linearity stands after the last projection. There is none.",
    (
        "return self.W_o(output.transpose(1, 2).reshape(batch, length, d_model))",
        "return self.W_o(output.transpose(1, 2).reshape(batch, length, d_model)).relu()",
    ),
)
edit(
    "MH-21",
    "The input is added to the output. A block does that, not the attention.",
    (
        "return self.W_o(output.transpose(1, 2).reshape(batch, length, d_model))",
        "return x + self.W_o(output.transpose(1, 2).reshape(batch, length, d_model))",
    ),
)
edit(
    "SP-02",
    "The heads are cut without regard to the tokens: a view straight to (B, H, L, d) mixes positions and heads.",
    (
        "projection(x).view(batch, length, count, -1).transpose(1, 2)",
        "projection(x).view(batch * count, length, -1).view(batch, count, length, -1)",
    ),
    same_as=("SP-01",),
)
edit(
    "SP-05",
    "The input is read as (L, B, D). It is (B, L, D): samples and positions are mixed.",
    (
        "projection(x).view(batch, length, count, -1).transpose(1, 2)",
        "projection(x).reshape(length, batch, count, -1).permute(1, 2, 0, 3)",
    ),
)
edit(
    "SP-10",
    "The features of the heads are interleaved when they are joined. Head 0 comes first, then head 1.",
    ("output.transpose(1, 2).reshape(", "output.permute(0, 2, 3, 1).reshape("),
)
edit(
    "SP-14",
    "The heads are averaged, not joined.",
    (
        "output.transpose(1, 2).reshape(batch, length, d_model)",
        "output.mean(dim=1).repeat(1, 1, self.num_heads)",
    ),
)
edit(
    "MK-25",
    "is_causal is used with a cache. It aligns the mask to the start.",
    ("attn_mask=seen)", "is_causal=True)"),
    same_as=("KV-08",),
)
edit(
    "MK-01",
    "The mask is inverted: True means may attend.",
    ("output = F.scaled", "seen = ~seen\n        output = F.scaled"),
)
edit(
    "GQ-17",
    "W_q has H_kv * d rows, like W_k. Queries have all H heads.",
    (
        "self.W_q = nn.Linear(d_model, d_model, bias=bias)",
        "self.W_q = nn.Linear(d_model, small, bias=bias)",
    ),
)
edit(
    "GQ-18",
    "Each key head serves every query head in turn by a sum over groups: the outputs of a group are mixed.",
    (
        "        k, v = repeat_kv(k, repeats), repeat_kv(v, repeats)\n",
        "        k, v = repeat_kv(k, repeats), repeat_kv(v, repeats)\n"
        "        q = q.unflatten(1, (-1, repeats)).mean(dim=2).repeat_interleave(repeats, dim=1)\n",
    ),
)
edit(
    "GQ-15b",
    "The argument `bias` is not used at the last projection.",
    ("self.W_o = nn.Linear(d_model, d_model, bias=bias)", "self.W_o = nn.Linear(d_model, d_model)"),
)
edit(
    "GQ-15c",
    "There are no biases, whatever `bias` says: its default is True.",
    (
        "self.W_q = nn.Linear(d_model, d_model, bias=bias)",
        "bias = False\n        self.W_q = nn.Linear(d_model, d_model, bias=bias)",
    ),
)
edit(
    "GQ-19",
    "The error does not say which sizes do not fit: name the numbers.",
    (
        'raise ValueError(f"num_heads={num_heads} is not divisible by num_kv_heads={num_kv_heads}")',
        'raise ValueError("the heads do not fit")',
    ),
)


@slip("GQ-20", "The error is a TypeError or another one. Sizes that do not fit are a ValueError.")
class GroupedQueryAttention(GroupedQueryAttention):
    def __init__(self, d_model, num_heads, num_kv_heads, bias=True, base=10000.0):
        try:
            super().__init__(d_model, num_heads, num_kv_heads, bias, base)
        except ValueError as error:
            raise TypeError(str(error)) from None

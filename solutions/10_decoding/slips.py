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
    "KV-27",
    "The argument `cache` is not used.",
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
    "GQ-09c",
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
    "GQ-16",
    "The argument `base` is not used.",
    ("num_heads, num_kv_heads, base\n", "num_heads, num_kv_heads, 10000.0\n"),
)
edit(
    "RO-01",
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
    "Positions are made on the CPU: pass device=x.device.",
    ("torch.arange(past, past + length, device=x.device)", "torch.arange(past, past + length)"),
)

"""Known mistakes of topic 07. Read as text by `autograder.slips`; ids are those of the catalogue of mistakes."""

from autograder.slips import edit, slip

# -- frequencies -----------------------------------------------------------------------------------------------------

edit(
    "RF-01",
    "The exponents run to exactly 1: they are divided by d/2 - 1. Here they are 2i/d.",
    ("dtype=torch.float64) / d\n", "dtype=torch.float64) / max(d - 2, 1)\n"),
)
edit(
    "RF-02",
    "The exponent counts features twice: arange(0, d, 2) is 2i already.",
    ("torch.arange(0, d, 2, dtype=torch.float64) / d\n", "2 * torch.arange(0, d, 2, dtype=torch.float64) / d\n"),
)
edit(
    "RF-03",
    "The exponent has the wrong sign: frequencies fall from 1, they do not grow.",
    ("base**-exponents", "base**exponents"),
)
edit(
    "RF-04",
    "The exponent is i/d, half of what it should be: pair i has the exponent 2i/d.",
    ("torch.arange(0, d, 2, dtype=torch.float64) / d\n", "torch.arange(d // 2, dtype=torch.float64) / d\n"),
)
edit(
    "RF-05",
    "There are d frequencies, one for each feature. A pair shares one: there are d/2.",
    ("return (base**-exponents).float()", "return (base**-exponents).float().repeat(2)"),
)
edit(
    "RF-07",
    "The frequencies are kept in half precision. Their rounding grows with the position: keep float32.",
    ("(base**-exponents).float()", "(base**-exponents).half()"),
)
edit(
    "RF-07b",
    "The frequencies go through half precision. What was rounded there stays rounded: keep float32 throughout.",
    ("(base**-exponents).float()", "(base**-exponents).half().float()"),
)
edit(
    "RF-08",
    "The order of the frequencies is reversed: pair 0 turns fastest, by 1 for each position.",
    ("(base**-exponents).float()", "(base**-exponents).float().flip(0)"),
)
edit(
    "RF-09",
    "A logarithm to base 10 stands where math.exp needs the natural one.",
    ("(base**-exponents).float()", "torch.exp(-exponents * math.log10(base)).float()"),
)
edit("RO-09", "The argument `base` is ignored: 10000 stands in the code.", ("base**-exponents", "10000.0**-exponents"))
edit(
    "RO-25",
    "An odd size is accepted. Rotary embedding turns pairs: raise a ValueError that names d.",
    ('    if d % 2:\n        raise ValueError(f"d={d} is odd: rotary embedding turns pairs of features")\n', ""),
)
edit(
    "RF-06",
    "The error for an odd size does not name it.",
    ('f"d={d} is odd: rotary embedding turns pairs of features"', '"the size is odd"'),
)

# -- the rotation ----------------------------------------------------------------------------------------------------

edit(
    "RO-01",
    "The pairs are interleaved (2i, 2i + 1) where half-split pairs (i, i + d/2) are asked for.",
    ("    if interleaved:\n        x1", "    interleaved = True\n    if interleaved:\n        x1"),
)
edit(
    "RO-01b",
    "The argument `interleaved` is ignored: the pairs are half-split every time.",
    ("    if interleaved:\n        x1", "    interleaved = False\n    if interleaved:\n        x1"),
)
edit(
    "RO-01c",
    "The two layouts are swapped.",
    ("    if interleaved:\n        x1", "    interleaved = not interleaved\n    if interleaved:\n        x1"),
)
edit(
    "RO-01d",
    "Interleaved pairs are turned, but then joined as halves. Put each feature back where it stood.",
    ("    if interleaved:\n        return torch.stack((first, second), dim=-1).flatten(-2)\n", ""),
)


@slip(
    "RO-02", "The features are paired as halves, but the angles are repeated for neighbours: the two layouts are mixed."
)
def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    if positions is None:
        positions = torch.arange(x.size(-2), device=x.device)
    angles = positions.double().unsqueeze(-1) * rotary_frequencies(x.size(-1), base).to(x.device)
    angles = angles.repeat_interleave(2, -1)
    x1, x2 = x.chunk(2, -1)
    return x * angles.cos().to(x.dtype) + torch.cat((-x2, x1), -1) * angles.sin().to(x.dtype)


@slip("RO-02b", "The neighbours are paired, but the angles are repeated for halves: the two layouts are mixed.")
def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    if positions is None:
        positions = torch.arange(x.size(-2), device=x.device)
    angles = positions.double().unsqueeze(-1) * rotary_frequencies(x.size(-1), base).to(x.device)
    angles = angles.repeat(1, 2)
    x1, x2 = x[..., 0::2], x[..., 1::2]
    return x * angles.cos().to(x.dtype) + torch.stack((-x2, x1), -1).flatten(-2) * angles.sin().to(x.dtype)


edit(
    "RO-04",
    "The rotation goes the wrong way round: the minus sign belongs to the first of the two sines.",
    ("x1 * cos - x2 * sin, x1 * sin + x2 * cos", "x1 * cos + x2 * sin, x2 * cos - x1 * sin"),
)
edit(
    "RO-05",
    "The minus sign is missing: this is no rotation, and lengths change.",
    ("x1 * cos - x2 * sin, x1", "x1 * cos + x2 * sin, x1"),
)
edit(
    "RO-33",
    "The first half is overwritten before the second is computed from it. Both need the values from before the rotation.",
    ("x1 * cos - x2 * sin, x1 * sin + x2 * cos", "(x1 := x1 * cos - x2 * sin), x1 * sin + x2 * cos"),
)
edit(
    "RO-05b",
    "Both sines have a minus sign: this is no rotation, and lengths change.",
    ("x1 * sin + x2 * cos", "x2 * cos - x1 * sin"),
)
edit(
    "RO-06",
    "Cosine and sine are swapped. At position 0 nothing may turn.",
    ("cos, sin = angles.cos()", "sin, cos = angles.cos()"),
)


@slip("RO-25b", "With an odd size the last feature is left as it was. Rotary embedding turns pairs: raise an error.")
def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    even = x.size(-1) // 2 * 2
    return torch.cat((plain_rotary(x[..., :even], positions, base, interleaved), x[..., even:]), -1)


@slip("RO-32", "Frequencies are kept from an earlier call, whatever the base is now. The base belongs to their key.")
def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    key = (x.size(-1), x.device)
    kept = apply_rotary.__dict__.setdefault("kept", {})
    base = kept.setdefault(key, base)
    return plain_rotary(x, positions, base, interleaved)


@slip("RO-17b", "Angles come from a table of fixed length: positions past its end raise. A position may be any number.")
def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    if positions is None:
        positions = torch.arange(x.size(-2), device=x.device)
    frequencies = rotary_frequencies(x.size(-1), base).to(x.device)
    angles = (torch.arange(8192, device=x.device).double().unsqueeze(-1) * frequencies)[positions]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    x1, x2 = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    turned = (x1 * cos - x2 * sin, x1 * sin + x2 * cos)
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)


@slip("RO-11", "The given positions are counted from the first one: their own start is lost.")
def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    if positions is not None:
        positions = positions - positions[0]
    return plain_rotary(x, positions, base, interleaved)


@slip("RO-27b", "The interleaved result is written into x. Build a new tensor.")
def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    turned = plain_rotary(x, positions, base, interleaved)
    if interleaved:
        x.data.copy_(turned)
    return turned


edit(
    "RO-10",
    "The argument `positions` is ignored.",
    ("    if positions is None:\n        positions =", "    if True:\n        positions ="),
)
edit(
    "RO-10b",
    "Positions start at 1. The first one is 0.",
    (
        "positions = torch.arange(x.size(-2), device=x.device)\n    freq",
        "positions = 1 + torch.arange(x.size(-2), device=x.device)\n    freq",
    ),
)
edit(
    "RO-10c",
    "The argument `base` is not handed on to the frequencies.",
    ("rotary_frequencies(x.size(-1), base)", "rotary_frequencies(x.size(-1))"),
)


@slip("RO-12", "The positions run along the heads, axis 1. In (..., L, d) they run along the last axis but one.")
def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    if x.dim() < 4:
        return plain_rotary(x, positions, base, interleaved)
    return plain_rotary(x.transpose(1, 2), positions, base, interleaved).transpose(1, 2)


@slip("RO-13", "The positions run along the batch, axis 0. In (..., L, d) they run along the last axis but one.")
def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    if x.dim() < 3:
        return plain_rotary(x, positions, base, interleaved)
    return plain_rotary(x.transpose(0, -2), positions, base, interleaved).transpose(0, -2)


def plain_rotary(x, positions, base, interleaved):
    if positions is None:
        positions = torch.arange(x.size(-2), device=x.device)
    angles = positions.double().unsqueeze(-1) * rotary_frequencies(x.size(-1), base).to(x.device)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    if interleaved:
        x1, x2 = x[..., 0::2], x[..., 1::2]
        return torch.stack((x1 * cos - x2 * sin, x1 * sin + x2 * cos), -1).flatten(-2)
    x1, x2 = x.chunk(2, -1)
    return torch.cat((x1 * cos - x2 * sin, x1 * sin + x2 * cos), -1)


edit(
    "RO-17",
    "Angles come from a table of fixed length, and far positions are cut to its end.",
    ("positions.to(torch.float64)", "positions.clamp(max=1023).to(torch.float64)"),
)
edit(
    "RO-20",
    "Angles are made in half precision. Position 2049 does not exist in float16: use float32.",
    (
        "angles = positions.to(torch.float64).unsqueeze(-1) * frequencies",
        "angles = positions.to(x.dtype).unsqueeze(-1) * frequencies.to(x.dtype)",
    ),
)
edit(
    "RO-20b",
    "Frequencies are cast to the dtype of x before they meet the positions. In half precision far angles are wrong.",
    (
        "positions.to(torch.float64).unsqueeze(-1) * frequencies",
        "positions.to(torch.float64).unsqueeze(-1) * frequencies.to(x.dtype).double()",
    ),
)
edit(
    "RO-21",
    "The result is not in the dtype of x: cosines and sines are float32 and were not cast.",
    (
        "cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)",
        "cos, sin = angles.cos().float(), angles.sin().float()",
    ),
)


@slip("RO-22", "view_as_complex can't take bfloat16, nor a strided tensor. Convert first, or use cosines and sines.")
def apply_rotary(x, positions=None, base=10000.0, interleaved=False):
    if positions is None:
        positions = torch.arange(x.size(-2), device=x.device)
    angles = positions.float().unsqueeze(-1) * rotary_frequencies(x.size(-1), base).to(x.device)
    turn = torch.polar(torch.ones_like(angles), angles)
    if interleaved:
        return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turn).flatten(-2).to(x.dtype)
    pairs = torch.stack(x.chunk(2, -1), -1)
    turned = torch.view_as_real(torch.view_as_complex(pairs) * turn).to(x.dtype)
    return torch.cat((turned[..., 0], turned[..., 1]), -1)


edit(
    "RO-27",
    "x is changed in place. Build a new tensor.",
    (
        "    return torch.cat((first, second), dim=-1)",
        "    x.data.copy_(torch.cat((first, second), dim=-1))\n    return x",
    ),
)
edit(
    "RO-28",
    "A tensor that is made inside (positions, frequencies, a table or a mask) stays on the CPU: pass the device of x.",
    (
        "positions = torch.arange(x.size(-2), device=x.device)\n    freq",
        "positions = torch.arange(x.size(-2))\n    freq",
    ),
)
edit(
    "RO-29",
    "A table or the frequencies stay on the CPU: move them to the device of x.",
    ("rotary_frequencies(x.size(-1), base).to(x.device)", "rotary_frequencies(x.size(-1), base)"),
)
edit(
    "RO-30",
    "The gradient is cut on its way to x.",
    ("x1, x2 = x.chunk(2, dim=-1)", "x1, x2 = x.detach().chunk(2, dim=-1)"),
)
edit(
    "RO-31",
    "Only the first half of the pairs is turned: the last feature pairs are left as they were.",
    (
        "    if interleaved:\n        x1",
        "    cos, sin = cos.clone(), sin.clone()\n    cos[..., cos.size(-1) // 2 :], sin[..., cos.size(-1) // 2 :] = 1, 0\n    if interleaved:\n        x1",
    ),
)

# -- conversion ------------------------------------------------------------------------------------------------------

edit(
    "TI-01",
    "This is the way back: it turns interleaved rows into half-split ones.",
    (
        "weight.reshape(num_heads, 2, rows // num_heads // 2, width)",
        "weight.reshape(num_heads, rows // num_heads // 2, 2, width)",
    ),
)
edit(
    "TI-02",
    "The rows are reordered over the whole width. Each head has halves of its own.",
    ("weight.reshape(num_heads, 2, rows // num_heads // 2, width)", "weight.reshape(1, 2, rows // 2, width)"),
)
edit(
    "TI-03",
    "The columns are reordered. The features of a head are rows of the weight.",
    (
        "    halves =",
        "    even = width // 2 * 2\n"
        "    order = torch.cat((torch.arange(even).view(2, -1).T.reshape(-1), torch.arange(even, width)))\n"
        "    return weight[:, order]\n"
        "    halves =",
    ),
)
edit(
    "TI-04",
    "The weight comes back as it was.",
    ("return halves.transpose(1, 2).reshape(rows, width)", "return weight.clone()"),
)
edit(
    "TI-05",
    "The two members of each pair are swapped, so that the rotation goes the other way.",
    ("halves.transpose(1, 2).reshape", "halves.flip(1).transpose(1, 2).reshape"),
)

edit(
    "TI-06",
    "The gradient of the weight is cut: a detach, .data or numpy call stands in the way.",
    ("weight.reshape(num_heads, 2", "weight.detach().reshape(num_heads, 2"),
)
edit(
    "TI-07",
    "The rows are put into a new tensor without dtype and device: it is float32 on the CPU, whatever the weight was.",
    (
        "return halves.transpose(1, 2).reshape(rows, width)",
        "new = torch.zeros(rows, width)\n    new[:] = halves.transpose(1, 2).reshape(rows, width)\n    return new",
    ),
)
edit(
    "TI-08",
    "The heads are taken as the fast axis of the rows. Head h holds the rows h*d ... (h+1)*d - 1.",
    (
        "weight.reshape(num_heads, 2, rows // num_heads // 2, width)",
        "weight.reshape(2, rows // num_heads // 2, num_heads, width).permute(2, 0, 1, 3)",
    ),
)

# -- the base --------------------------------------------------------------------------------------------------------

edit(
    "NT-01",
    "The exponent is missing: the base is multiplied by the factor alone.",
    ("factor ** (d / (d - 2))", "factor"),
)
edit(
    "NT-05",
    "The power is taken of d alone and then divided: the exponent d / (d - 2) needs its parentheses.",
    ("factor ** (d / (d - 2))", "factor ** d / (d - 2)"),
)
edit("NT-02", "The exponent is upside down: it is d / (d - 2).", ("factor ** (d / (d - 2))", "factor ** ((d - 2) / d)"))
edit("NT-03", "The base is divided. A longer context needs a larger base.", ("base * factor", "base / factor"))
edit(
    "NT-04",
    "The power is taken of base and factor together.",
    ("base * factor ** (d / (d - 2))", "(base * factor) ** (d / (d - 2))"),
)

# -- in attention ----------------------------------------------------------------------------------------------------

edit(
    "RO-14",
    "The rotation is applied to all of D before the heads are split. Each head has frequencies of its own.",
    (
        "        q = apply_rotary(heads(self.W_q), positions, self.base)\n        k = apply_rotary(heads(self.W_k), positions, self.base)\n",
        "        def split(t):\n            return t.view(batch, length, self.num_heads, -1).transpose(1, 2)\n\n        q = split(apply_rotary(self.W_q(x), positions, self.base))\n        k = split(apply_rotary(self.W_k(x), positions, self.base))\n",
    ),
)
edit(
    "RA-01",
    "Only the queries are rotated. Keys have to be, too.",
    ("k = apply_rotary(heads(self.W_k), positions, self.base)", "k = heads(self.W_k)"),
)
edit(
    "RA-02",
    "Only the keys are rotated. Queries have to be, too.",
    ("q = apply_rotary(heads(self.W_q), positions, self.base)", "q = heads(self.W_q)"),
)
edit(
    "RA-03",
    "No position reaches the scores: queries and keys are not rotated, or all tokens of a head turn by the same angle.",
    ("k = apply_rotary(heads(self.W_k), positions, self.base)", "k = heads(self.W_k)"),
    ("q = apply_rotary(heads(self.W_q), positions, self.base)", "q = heads(self.W_q)"),
)
edit(
    "RA-04",
    "The values are rotated, too. Positions belong to queries and keys alone.",
    ("heads(self.W_v), attn_mask", "apply_rotary(heads(self.W_v), positions, self.base), attn_mask"),
)
edit(
    "RA-05",
    "Interleaved pairs are used. Half-split pairs are asked for.",
    (
        "q = apply_rotary(heads(self.W_q), positions, self.base)",
        "q = apply_rotary(heads(self.W_q), positions, self.base, True)",
    ),
    (
        "k = apply_rotary(heads(self.W_k), positions, self.base)",
        "k = apply_rotary(heads(self.W_k), positions, self.base, True)",
    ),
)
edit(
    "RA-06",
    "The rotation does not use the module's `base`: hand it on, and keep no frequencies of another base.",
    ("self.num_heads, self.base = num_heads, base", "self.num_heads, self.base = num_heads, 10000.0"),
)
edit(
    "RA-07",
    "The offset moves the queries and not the keys. It has to move both.",
    (
        "k = apply_rotary(heads(self.W_k), positions, self.base)",
        "k = apply_rotary(heads(self.W_k), positions - offset, self.base)",
    ),
)
edit("RA-08", "The mask is inverted: True means may attend.", ("mask.to(torch.bool)", "~mask.to(torch.bool)"))
edit("RA-09", "The argument `mask` is not used.", ("attn_mask=keep", "attn_mask=None"))
edit(
    "RA-10",
    "The heads are joined without swapping axes back: the features of different tokens are mixed.",
    ("output.transpose(1, 2).reshape", "output.reshape"),
)
edit(
    "RA-11",
    "The sequence is cut into heads without a transpose: features of different tokens are mixed.",
    (
        ".view(batch, length, self.num_heads, -1).transpose(1, 2)\n\n        q = apply",
        ".reshape(batch, self.num_heads, length, -1)\n\n        q = apply",
    ),
)
edit(
    "RA-12",
    "The last projection W_o is missing.",
    (
        "return self.W_o(output.transpose(1, 2).reshape(batch, length, d_model))",
        "return output.transpose(1, 2).reshape(batch, length, d_model) + 0 * self.W_o.weight.sum()",
    ),
)
edit(
    "RA-13",
    "The scores are divided by sqrt(d_model). Divide by the square root of the head's size.",
    ("attn_mask=keep)", "attn_mask=keep, scale=d_model**-0.5)"),
)
edit(
    "RA-14",
    "Sizes that do not fit are not refused: num_heads has to divide d_model.",
    (
        '        if d_model % num_heads:\n            raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}")\n',
        "",
    ),
    (
        '        if d_model // num_heads % 2:\n            raise ValueError(f"d_model={d_model} with num_heads={num_heads} gives heads of an odd size")\n',
        "",
    ),
)
edit(
    "RA-15",
    "The argument `bias` is not used.",
    ("self.W_o = nn.Linear(d_model, d_model, bias=bias)", "self.W_o = nn.Linear(d_model, d_model)"),
)
edit(
    "RA-16",
    "The value projection is applied to nothing of its own: keys are used as values.",
    ("heads(self.W_v), attn_mask", "heads(self.W_k), attn_mask"),
)
edit(
    "RA-17",
    "A finite number such as -1e9 blocks keys. A row that may attend nowhere then averages the values.",
    (
        "output = F.scaled_dot_product_attention(q, k, heads(self.W_v), attn_mask=keep)",
        "bias = None if keep is None else torch.zeros(keep.shape, dtype=q.dtype, device=q.device).masked_fill(~keep, -1e9)\n        output = F.scaled_dot_product_attention(q, k, heads(self.W_v), attn_mask=bias)",
    ),
)


def half_split(t, cos, sin):
    x1, x2 = t.chunk(2, dim=-1)
    return torch.cat((x1 * cos - x2 * sin, x1 * sin + x2 * cos), dim=-1)


@slip(
    "RO-20c",
    "Angles are made in half precision: module.half() rounds a buffer, and a cast to the dtype of x does the same.",
)
class RotaryMultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, base=10000.0, bias=True):
        super().__init__()
        if d_model % num_heads or d_model // num_heads % 2:
            raise ValueError(f"d_model={d_model}, num_heads={num_heads}: heads must be whole and even")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))
        self.register_buffer("frequencies", rotary_frequencies(d_model // num_heads, base), persistent=False)

    def forward(self, x, mask=None, offset=0):
        q, k, v = (w(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for w in (self.W_q, self.W_k, self.W_v))
        positions = torch.arange(offset, offset + x.size(1), device=x.device).to(self.frequencies.dtype)
        angles = positions.unsqueeze(1) * self.frequencies
        q, k = half_split(q, angles.cos(), angles.sin()), half_split(k, angles.cos(), angles.sin())
        output = F.scaled_dot_product_attention(q, k, v, None if mask is None else mask.bool())
        return self.W_o(output.transpose(1, 2).flatten(2))


@slip("RO-20d", "The frequencies are a buffer, which module.half() rounds: far tokens turn by wrong angles.")
class RotaryMultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, base=10000.0, bias=True):
        super().__init__()
        if d_model % num_heads or d_model // num_heads % 2:
            raise ValueError(f"d_model={d_model}, num_heads={num_heads}: heads must be whole and even")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))
        self.register_buffer("frequencies", rotary_frequencies(d_model // num_heads, base), persistent=False)

    def forward(self, x, mask=None, offset=0):
        q, k, v = (w(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for w in (self.W_q, self.W_k, self.W_v))
        positions = torch.arange(offset, offset + x.size(1), device=x.device).float()
        angles = positions.unsqueeze(1) * self.frequencies.float()
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        q, k = half_split(q, cos, sin), half_split(k, cos, sin)
        output = F.scaled_dot_product_attention(q, k, v, None if mask is None else mask.bool())
        return self.W_o(output.transpose(1, 2).flatten(2))


@slip(
    "RA-18", "NaN is replaced in the output, not in the weights: the gradients of a row that attends nowhere are NaN."
)
class RotaryMultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, base=10000.0, bias=True):
        super().__init__()
        if d_model % num_heads or d_model // num_heads % 2:
            raise ValueError(f"d_model={d_model}, num_heads={num_heads}: heads must be whole and even")
        self.num_heads, self.base = num_heads, base
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))

    def forward(self, x, mask=None, offset=0):
        q, k, v = (w(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for w in (self.W_q, self.W_k, self.W_v))
        scores = apply_rotary(q, base=self.base) @ apply_rotary(k, base=self.base).mT / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        output = torch.nan_to_num(scores.softmax(-1) @ v)
        return self.W_o(output.transpose(1, 2).flatten(2))


edit(
    "RA-19",
    "A causal mask is applied although none was asked for: every token may attend to every other.",
    ("attn_mask=keep)", "attn_mask=keep, is_causal=keep is None)"),
)
edit(
    "RA-20",
    "The positions run along the heads: axes are swapped after the rotation, not before it.",
    (
        "        q = apply_rotary(heads(self.W_q), positions, self.base)\n",
        "        at = torch.arange(self.num_heads, device=x.device) + offset\n"
        "        q = apply_rotary(heads(self.W_q).transpose(1, 2), at, self.base).transpose(1, 2)\n",
    ),
    (
        "k = apply_rotary(heads(self.W_k), positions, self.base)",
        "k = apply_rotary(heads(self.W_k).transpose(1, 2), at, self.base).transpose(1, 2)",
    ),
)
edit(
    "RA-21",
    "x itself is rotated before the projections. Rotate the queries and keys that come out of them.",
    (
        "        batch, length, d_model = x.shape\n        positions = torch.arange(length, device=x.device) + offset\n",
        "        batch, length, d_model = x.shape\n        positions = torch.arange(length, device=x.device) + offset\n"
        "        x = apply_rotary(x, positions, self.base)\n",
    ),
    ("q = apply_rotary(heads(self.W_q), positions, self.base)", "q = heads(self.W_q)"),
    ("k = apply_rotary(heads(self.W_k), positions, self.base)", "k = heads(self.W_k)"),
)
edit(
    "RA-22",
    "A tensor that is made inside (positions, frequencies, a table or a mask) stays on the CPU: pass the device of x.",
    ("positions = torch.arange(length, device=x.device) + offset", "positions = torch.arange(length) + offset"),
)
edit(
    "RA-23",
    "The keys come from the query projection. W_k is there for them.",
    ("heads(self.W_k)", "heads(self.W_q)"),
)
edit(
    "RA-24",
    "A gradient is cut: the queries or keys are detached.",
    ("k = apply_rotary(heads(self.W_k), positions", "k = apply_rotary(heads(self.W_k).detach(), positions"),
)
edit(
    "RA-25",
    "An odd size of the heads is accepted. Rotary embedding turns pairs: raise a ValueError that names the sizes.",
    (
        '        if d_model // num_heads % 2:\n            raise ValueError(f"d_model={d_model} with num_heads={num_heads} '
        'gives heads of an odd size")\n',
        "",
    ),
    (
        "q = apply_rotary(heads(self.W_q), positions, self.base)",
        "even = d_model // self.num_heads // 2 * 2\n"
        "        q, k = heads(self.W_q), heads(self.W_k)\n"
        "        q = torch.cat((apply_rotary(q[..., :even], positions, self.base), q[..., even:]), dim=-1)",
    ),
    (
        "k = apply_rotary(heads(self.W_k), positions, self.base)",
        "k = torch.cat((apply_rotary(k[..., :even], positions, self.base), k[..., even:]), dim=-1)",
    ),
)
edit(
    "RA-26",
    "Queries and keys are made from a rotated x. Rotate what comes out of their projections.",
    (
        "        def heads(projection):\n            return projection(x)",
        "        turned = apply_rotary(x, positions, self.base)\n\n"
        "        def heads(projection):\n            return projection(x if projection is self.W_v else turned)",
    ),
    ("q = apply_rotary(heads(self.W_q), positions, self.base)", "q = heads(self.W_q)"),
    ("k = apply_rotary(heads(self.W_k), positions, self.base)", "k = heads(self.W_k)"),
)
edit("RA-27", "The scores are not divided by the square root of the head's size.", ("attn_mask=keep", "attn_mask=keep, scale=1.0"))
edit(
    "RA-28",
    "The softmax runs over the queries. A query's weights over the keys have to add up to 1.",
    (
        "output = F.scaled_dot_product_attention(q, k, heads(self.W_v), attn_mask=keep)",
        "gone = torch.zeros((), dtype=torch.bool, device=x.device) if keep is None else ~keep\n"
        "        scores = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(gone, float('-inf'))\n"
        "        output = scores.softmax(-2).masked_fill(gone, 0.0) @ heads(self.W_v)",
    ),
)
edit(
    "RA-29",
    "The mask is added to the scores as numbers, so that it blocks nothing.",
    ("attn_mask=keep", "attn_mask=None if mask is None else mask.to(q.dtype)"),
)
edit(
    "RA-30",
    "A row that may attend nowhere is NaN: the softmax of nothing but -inf. Its weights have to be zeros.",
    (
        "output = F.scaled_dot_product_attention(q, k, heads(self.W_v), attn_mask=keep)",
        "scores = q @ k.mT / math.sqrt(q.size(-1))\n"
        "        if keep is not None:\n            scores = scores.masked_fill(~keep, float('-inf'))\n"
        "        output = scores.softmax(-1) @ heads(self.W_v)",
    ),
)

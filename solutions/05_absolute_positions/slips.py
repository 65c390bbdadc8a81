"""Known mistakes of topic 05. Read as text by `autograder.slips`; ids are those of the catalogue of mistakes."""

from autograder.slips import edit, slip

# -- the table -------------------------------------------------------------------------------------------------------

edit(
    "PE-01",
    "The exponent counts columns twice: the columns go 0, 2, 4, ... already, so they are not doubled again.",
    ("(columns / d_model)", "(2 * columns / d_model)"),
)
edit(
    "PE-02",
    "Each cosine has a frequency of its own, from its own column. Sine and cosine of a pair share one frequency.",
    (
        "angles[:, : d_model // 2].cos()",
        "(positions / base ** ((columns[: d_model // 2] + 1) / d_model)).cos()",
    ),
)
edit(
    "PE-01b",
    "The exponent is i/d_model. It is 2i/d_model, the number of the even column over d_model.",
    ("base ** (columns / d_model)", "base ** (columns / 2 / d_model)"),
)
edit(
    "PE-04",
    "All frequencies are the same and far too high: in the exponent, a division was rounded down to a whole number.",
    ("base ** (columns / d_model)", "torch.exp(columns * (-math.log(base) / d_model // 2)).reciprocal()"),
)
edit(
    "PE-05",
    "All frequencies are 1: the exponent is rounded down to 0. Divide with /, not with //.",
    ("(columns / d_model)", "(columns // d_model)"),
)
edit(
    "PE-06",
    "Base and exponent are swapped: the base is raised to the column, not the other way round.",
    ("base ** (columns / d_model)", "(columns / d_model) ** (1 / base)"),
)
edit(
    "PE-08",
    "Sines and cosines stand in each other's columns: the even columns are sines.",
    ("table[:, 0::2] = angles.sin()", "table[:, 1::2] = angles[:, : d_model // 2].sin()"),
    ("table[:, 1::2] = angles[:, : d_model // 2].cos()", "table[:, 0::2] = angles.cos()"),
)
edit(
    "PE-09",
    "The exponents run to exactly 1: they are divided by d_model/2 - 1. Here they are 2i/d_model.",
    ("(columns / d_model)", "(columns / max(d_model - 2, 1))"),
    same_as=("PE-10",),
)
edit(
    "PE-10",
    "The exponents come from linspace(0, 1), which includes the 1. Here they are 2i/d_model, which stays below 1.",
    (
        "columns = torch.arange(0, d_model, 2, dtype=torch.float64)",
        "columns = torch.linspace(0, 1, (d_model + 1) // 2, dtype=torch.float64) * d_model",
    ),
    same_as=("PE-09",),
)
edit(
    "PE-12",
    "The positions are multiplied by base**(2i/d_model), not divided by it: the frequencies grow instead of falling.",
    ("positions / base **", "positions * base **"),
)
edit(
    "PE-12b",
    "The positions are divided by the length. A position must not depend on how long the sequence is.",
    (".unsqueeze(1)\n    columns", ".unsqueeze(1) / length\n    columns"),
)
edit(
    "PE-13",
    "With an odd width there are more cosines than columns for them. The last sine has no cosine.",
    ("angles[:, : d_model // 2].cos()", "angles.cos()"),
)
edit(
    "PE-14",
    "With an odd width the last column stays 0. It is a sine, too.",
    (
        "columns = torch.arange(0, d_model, 2, dtype=torch.float64)",
        "columns = torch.arange(0, d_model - 1, 2, dtype=torch.float64)",
    ),
    ("table[:, 0::2] = angles.sin()", "table[:, 0 : 2 * (d_model // 2) : 2] = angles.sin()"),
)
edit(
    "PE-15",
    "Sines fill the first half and cosines the second. Here they alternate: sine, cosine, sine, cosine.",
    (
        "    table = torch.zeros(length, d_model, dtype=torch.float64)\n    table[:, 0::2] = angles.sin()\n"
        "    table[:, 1::2] = angles[:, : d_model // 2].cos()\n",
        "    table = torch.cat([angles.sin(), angles[:, : d_model // 2].cos()], dim=1)\n",
    ),
)
edit(
    "PE-27",
    "Positions are counted from 1. The first row belongs to the position `offset`, which is 0 unless it is given.",
    ("torch.arange(offset, offset + length", "torch.arange(offset + 1, offset + length + 1"),
)
edit(
    "PE-28",
    "The argument `base` is ignored: 10000 stands in the code.",
    ("positions / base **", "positions / 10000.0 **"),
)
edit(
    "PE-29",
    "The argument `offset` is ignored: the table always starts at position 0.",
    ("torch.arange(offset, offset + length", "torch.arange(0, length"),
)
edit(
    "PE-29b",
    "The offset is subtracted from the positions. It is added.",
    ("torch.arange(offset, offset + length", "torch.arange(-offset, length - offset"),
)


@slip(
    "PE-38",
    "The rows are cut out of a table of fixed length, so that far positions are missing. The offset may be any number.",
)
def sinusoidal_encoding(length, d_model, base=10000.0, offset=0):
    positions = torch.arange(5000, dtype=torch.float64).unsqueeze(1)
    angles = positions / base ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)[offset : offset + length, :d_model].float()


@slip("PE-40", "With an odd width the exponents are divided by d_model + 1. They are 2i/d_model for every width.")
def sinusoidal_encoding(length, d_model, base=10000.0, offset=0):
    positions = torch.arange(offset, offset + length, dtype=torch.float64).unsqueeze(1)
    even = d_model + d_model % 2
    angles = positions / base ** (torch.arange(0, even, 2, dtype=torch.float64) / even)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)[:, :d_model].float()


@slip("PE-32b", "The positions are made in half precision, where 2049 does not exist. Far rows fall together.")
def sinusoidal_encoding(length, d_model, base=10000.0, offset=0):
    positions = torch.arange(offset, offset + length).half().double().unsqueeze(1)
    angles = positions / base ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)[:, :d_model].float()


edit(
    "PE-30",
    "The table comes back in float64. float32 is asked for.",
    ("    return table.float()", "    return table"),
)
edit(
    "PE-31",
    "The cosine is missing: odd columns are sines, too.",
    ("angles[:, : d_model // 2].cos()", "angles[:, : d_model // 2].sin()"),
)
edit(
    "PE-32",
    "Positions or angles are kept in half precision. They are rounded, and far positions fall together.",
    (
        "angles = positions / base ** (columns / d_model)",
        "angles = (positions / base ** (columns / d_model)).half().double()",
    ),
)
edit(
    "PE-33",
    "Angles are counted in degrees or in whole turns (2 pi). Here they are radians as they stand.",
    ("angles = positions /", "angles = 2 * math.pi * positions /"),
)
edit(
    "DV-12",
    "The function sets the global random seed. Leave global state alone.",
    ("    positions = torch.arange(offset", "    torch.manual_seed(0)\n    positions = torch.arange(offset"),
)

# -- the module ------------------------------------------------------------------------------------------------------


def table(length, width):
    return sinusoidal_encoding(length, width)


@slip("PE-16", "The table is cut to the size of the batch, x.size(0). In (B, L, D) the length is x.size(1).")
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.max_len = max_len
        self.register_buffer("pe", table(max_len, d_model))

    def forward(self, x):
        if x.size(1) > self.max_len:
            raise ValueError(f"{x.size(1)} tokens, max_len {self.max_len}")
        return x + self.pe[: x.size(0)].unsqueeze(1)


@slip(
    "PE-17", "One row of the table, that of the last position, is added to every token. Each token needs its own row."
)
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.max_len = max_len
        self.register_buffer("pe", table(max_len, d_model))

    def forward(self, x):
        if x.size(1) > self.max_len:
            raise ValueError(f"{x.size(1)} tokens, max_len {self.max_len}")
        return x + self.pe[x.size(1) - 1]


edit(
    "PE-16b",
    "The table is cut to the size of the batch, x.size(0). In (B, L, D) the length is x.size(1).",
    ("return x + self.pe[: x.size(1)]", "return x + self.pe[: x.size(0)]"),
)
edit(
    "PE-16c",
    "The table gets an axis of size 1 behind the length, as for an input of (L, B, D). In (B, L, D) each sample then gets "
    "one row for all of its tokens.",
    ("return x + self.pe[: x.size(1)]", "return x + self.pe[: x.size(1)].unsqueeze(1)"),
)
edit(
    "PE-18",
    "The whole table is added, not its first L rows.",
    ("return x + self.pe[: x.size(1)]", "return x + self.pe"),
)


@slip("PE-20", "The table is a parameter. An optimizer would change it: register it as a buffer.")
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.pe = nn.Parameter(table(max_len, d_model))

    def forward(self, x):
        if x.size(1) > self.pe.size(0):
            raise ValueError(f"{x.size(1)} tokens, max_len {self.pe.size(0)}")
        return x + self.pe[: x.size(1)]


@slip(
    "PE-34",
    "The table is a plain attribute. It does not move with .to() and is not converted with the module: "
    "register it as a buffer.",
)
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.pe = table(max_len, d_model)

    def forward(self, x):
        if x.size(1) > self.pe.size(0):
            raise ValueError(f"{x.size(1)} tokens, max_len {self.pe.size(0)}")
        return x + self.pe[: x.size(1)]


edit(
    "PE-22",
    "x is changed in place by x += ... The caller's tensor is no longer what it was: return x + ...",
    ("        return x + self.pe[: x.size(1)]", "        x.data += self.pe[: x.size(1)]\n        return x"),
)
edit(
    "PE-24",
    "x is multiplied by sqrt(d_model) before the table is added. Here nothing but the table is added.",
    ("return x + self.pe[: x.size(1)]", "return x * math.sqrt(x.size(2)) + self.pe[: x.size(1)]"),
)
edit(
    "PE-25",
    "The table is concatenated to x. It is added, so that the width stays D.",
    (
        "return x + self.pe[: x.size(1)]",
        "return torch.cat([x, self.pe[: x.size(1)].expand(x.size(0), -1, -1)], dim=-1)",
    ),
)
edit(
    "PE-26",
    "More tokens than max_len are not refused with a ValueError: torch complains about sizes, or nobody does. Compare "
    "x.size(1) with the table first.",
    (
        '        if x.size(1) > self.pe.size(0):\n            raise ValueError(f"the sequence has {x.size(1)} tokens, but '
        'the table ends at max_len={self.pe.size(0)}")\n',
        "",
    ),
)
edit(
    "PE-26b",
    "The error for too many tokens does not name the two lengths, so its reader can't see what was wrong.",
    (
        'f"the sequence has {x.size(1)} tokens, but the table ends at max_len={self.pe.size(0)}"',
        '"the sequence is too long"',
    ),
)
edit(
    "PE-26e",
    "Too many tokens are noticed by torch's own error alone. A table with max_len=1 broadcasts and raises none: compare "
    "x.size(1) with the table.",
    (
        '        if x.size(1) > self.pe.size(0):\n            raise ValueError(f"the sequence has {x.size(1)} tokens, but '
        'the table ends at max_len={self.pe.size(0)}")\n        return x + self.pe[: x.size(1)]\n',
        "        try:\n            return x + self.pe[: x.size(1)]\n        except RuntimeError as error:\n"
        '            raise ValueError(f"{x.size(1)} tokens, max_len={self.pe.size(0)}") from error\n',
    ),
)
edit(
    "PE-26c",
    "Exactly max_len tokens are refused. They still fit: only more than max_len do not.",
    ("if x.size(1) > self.pe.size(0)", "if x.size(1) >= self.pe.size(0)"),
)


@slip("PE-26d", "Dropout acts on the sum although the exercise does not ask for it: two calls differ.")
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.register_buffer("pe", table(max_len, d_model))

    def forward(self, x):
        if x.size(1) > self.pe.size(0):
            raise ValueError(f"{x.size(1)} tokens, max_len {self.pe.size(0)}")
        return nn.functional.dropout(x + self.pe[: x.size(1)], 0.1)


@slip("PE-35", "The gradient is cut on its way to x: a detach, .data or numpy call stands in the way.")
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.register_buffer("pe", table(max_len, d_model))

    def forward(self, x):
        if x.size(1) > self.pe.size(0):
            raise ValueError(f"{x.size(1)} tokens, max_len {self.pe.size(0)}")
        return x.detach() + self.pe[: x.size(1)]


@slip("PE-36", "The result is always float32: the table is not converted along with the module, or x is cast.")
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.register_buffer("pe", table(max_len, d_model))

    def forward(self, x):
        if x.size(1) > self.pe.size(0):
            raise ValueError(f"{x.size(1)} tokens, max_len {self.pe.size(0)}")
        return x.float() + self.pe[: x.size(1)].float()


@slip(
    "PE-13b",
    "An odd d_model breaks the constructor: there are more cosines than columns for them. The last sine has no cosine.",
)
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, d_model)
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        if x.size(1) > self.pe.size(0):
            raise ValueError(f"{x.size(1)} tokens, max_len {self.pe.size(0)}")
        return x + self.pe[: x.size(1)]


edit(
    "PE-39",
    "Without an argument the table has another length than 5000 rows.",
    ("max_len=5000", "max_len=512"),
)


@slip(
    "PE-41",
    "A sequence longer than max_len gets a longer table made on the way. It has to be a ValueError that names both.",
)
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.register_buffer("pe", table(max_len, d_model))

    def forward(self, x):
        if x.size(1) > self.pe.size(0):
            self.pe = table(x.size(1), x.size(2)).to(self.pe)
        return x + self.pe[: x.size(1)]


@slip("PE-42", "The last L rows of the table are added, not the first.")
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.register_buffer("pe", table(max_len, d_model))

    def forward(self, x):
        if x.size(1) > self.pe.size(0):
            raise ValueError(f"{x.size(1)} tokens, max_len {self.pe.size(0)}")
        return x + self.pe[self.pe.size(0) - x.size(1) :]


@slip("PE-43", "The buffer is kept in half precision. A float32 input needs the table in float32.")
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.register_buffer("pe", table(max_len, d_model).bfloat16())

    def forward(self, x):
        if x.size(1) > self.pe.size(0):
            raise ValueError(f"{x.size(1)} tokens, max_len {self.pe.size(0)}")
        return x + self.pe[: x.size(1)].to(x.dtype)


@slip("PE-37", "The module adds positions that start at 1. The first token has position 0.")
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.max_len = max_len
        self.register_buffer("pe", table(max_len + 1, d_model))

    def forward(self, x):
        if x.size(1) > self.max_len:
            raise ValueError(f"{x.size(1)} tokens, max_len {self.max_len}")
        return x + self.pe[1 : x.size(1) + 1]


# -- the learned table -----------------------------------------------------------------------------------------------

edit(
    "LP-01",
    "The positions are made on the CPU. Make them with device=x.device.",
    ("torch.arange(length, device=x.device)", "torch.arange(length)"),
)
edit(
    "LP-02",
    "The positions count the batch, x.size(0). In (B, L, D) the length is x.size(1).",
    ("return x + self.embedding(positions)", "return x + self.embedding(positions[: x.size(0)]).unsqueeze(1)"),
)
edit(
    "LP-02b",
    "The positions count the batch, x.size(0). In (B, L, D) the length is x.size(1).",
    ("positions = torch.arange(length, device", "positions = torch.arange(x.size(0), device"),
)
edit(
    "LP-04",
    "More tokens than max_len are not refused. torch raises IndexError here and kills the device on a GPU: compare first.",
    (
        '        if length > max_len:\n            raise ValueError(f"the sequence has {length} tokens, but there are vectors '
        'for max_len={max_len} only")\n',
        "",
    ),
)
edit(
    "LP-04b",
    "Positions past the end are cut to the last vector. More tokens than max_len have to be a ValueError.",
    (
        '        if length > max_len:\n            raise ValueError(f"the sequence has {length} tokens, but there are vectors '
        'for max_len={max_len} only")\n',
        "",
    ),
    ("torch.arange(length, device=x.device)", "torch.arange(length, device=x.device).clamp(max=max_len - 1)"),
)
edit(
    "LP-05",
    "padding_idx is set on the position table, so that the vector of position 0 never learns.",
    ("nn.Embedding(max_len, d_model)", "nn.Embedding(max_len, d_model, padding_idx=0)"),
)
edit(
    "LP-06",
    "Positions start at 1 or later. The first token has position 0.",
    ("torch.arange(length, device=x.device)", "torch.arange(1, length + 1, device=x.device) % max_len"),
)
edit(
    "LP-04c",
    "The error for too many tokens does not name the two lengths, so its reader can't see what was wrong.",
    (
        'f"the sequence has {length} tokens, but there are vectors for max_len={max_len} only"',
        '"the sequence is too long"',
    ),
)
edit(
    "LP-14",
    "max_norm is set on the table: its vectors are shortened as they are read, and the weights change.",
    ("nn.Embedding(max_len, d_model)", "nn.Embedding(max_len, d_model, max_norm=1.0)"),
)


@slip(
    "LP-01b",
    "The positions are a plain attribute and stay on the CPU: make them on the device of x, or register a buffer.",
    same_as=("LP-01",),
)
class LearnedPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.embedding = nn.Embedding(max_len, d_model)
        self.positions = torch.arange(max_len)

    def forward(self, x):
        if x.size(1) > len(self.positions):
            raise ValueError(f"{x.size(1)} tokens, max_len {len(self.positions)}")
        return x + self.embedding(self.positions[: x.size(1)])


edit(
    "LP-07",
    "The table is frozen: it has to be trainable.",
    (
        "self.embedding = nn.Embedding(max_len, d_model)",
        "self.embedding = nn.Embedding(max_len, d_model).requires_grad_(False)",
    ),
)
edit(
    "LP-09",
    "The table has another size than (max_len, d_model).",
    ("nn.Embedding(max_len, d_model)", "nn.Embedding(max_len + 2, d_model)"),
    ("self.embedding.num_embeddings", "self.embedding.num_embeddings - 2"),
)
edit(
    "LP-10",
    "The whole table is added, not the vectors of the first L positions.",
    ("return x + self.embedding(positions)", "return x + self.embedding.weight"),
)
edit(
    "LP-11",
    "The learned vectors replace x. They are added to it.",
    ("return x + self.embedding(positions)", "return self.embedding(positions).expand_as(x)"),
)
edit(
    "LP-12",
    "The gradient does not reach the table: its values are taken with .data or detach.",
    ("return x + self.embedding(positions)", "return x + self.embedding(positions).detach()"),
)
edit(
    "LP-13",
    "x is changed in place. Return a new tensor: x + ...",
    ("        return x + self.embedding(positions)", "        x.data += self.embedding(positions)\n        return x"),
)

# -- the shift matrix ------------------------------------------------------------------------------------------------

edit(
    "SF-01",
    "The matrix turns the wrong way: the two sines have each other's sign, so it moves back instead of on.",
    ("math.cos(turn), math.sin(turn)\n", "math.cos(turn), -math.sin(turn)\n"),
    ("-math.sin(turn), math.cos(turn)", "math.sin(turn), math.cos(turn)"),
)
edit(
    "SF-02",
    "Both sines have the same sign, so the block is no rotation.",
    ("-math.sin(turn), math.cos(turn)", "math.sin(turn), math.cos(turn)"),
)
edit(
    "SF-03",
    "Every pair turns by the same angle. Each pair has its own frequency.",
    ("offset / base ** (column / d_model)", "offset"),
)
edit(
    "SF-04",
    "The argument `base` is ignored: 10000 stands in the code.",
    ("offset / base ** (column", "offset / 10000.0 ** (column"),
)
edit(
    "SF-05",
    "The exponent counts pairs twice: the columns go 0, 2, 4, ... already.",
    ("(column / d_model)\n", "(2 * column / d_model)\n"),
)
edit(
    "SF-06",
    "Sine and cosine are swapped: no shift has to give the identity.",
    ("math.cos(turn), math.sin(turn)\n", "math.sin(turn), math.cos(turn)\n"),
    ("-math.sin(turn), math.cos(turn)", "math.cos(turn), -math.sin(turn)"),
)
edit(
    "SF-06b",
    "Sine and cosine are swapped: no shift has to give the identity.",
    ("math.cos(turn), math.sin(turn)\n", "math.sin(turn), math.cos(turn)\n"),
    ("-math.sin(turn), math.cos(turn)", "-math.cos(turn), math.sin(turn)"),
)
edit(
    "SF-07",
    "An odd d_model is accepted. Its last sine has no cosine to turn with: raise a ValueError that names d_model.",
    (
        '    if d_model % 2:\n        raise ValueError(f"d_model={d_model} is odd: its last sine has no cosine to turn with")\n',
        "    half = d_model // 2 * 2\n",
    ),
    ("range(0, d_model, 2):\n        turn", "range(0, half, 2):\n        turn"),
)
edit(
    "SF-08",
    "The matrix belongs to a table with all sines first and all cosines after. Here they alternate.",
    (
        "        matrix[column, column], matrix[column, column + 1] = math.cos(turn), math.sin(turn)\n"
        "        matrix[column + 1, column], matrix[column + 1, column + 1] = -math.sin(turn), math.cos(turn)\n",
        "        a, b = column // 2, column // 2 + d_model // 2\n"
        "        matrix[a, a], matrix[a, b], matrix[b, a], matrix[b, b] = (\n"
        "            math.cos(turn), math.sin(turn), -math.sin(turn), math.cos(turn))\n",
    ),
)
edit(
    "SF-09",
    "The negative offset is taken as a positive one: steps back turn the other way.",
    ("turn = offset / base", "turn = abs(offset) / base"),
)
edit(
    "SF-10",
    "The exponent is i/d_model. It is 2i/d_model, the number of the even column over d_model.",
    ("base ** (column / d_model)", "base ** (column / 2 / d_model)"),
)

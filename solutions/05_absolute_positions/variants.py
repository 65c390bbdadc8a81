"""Right answers to topic 05, written differently. Each must earn full marks."""

from autograder.slips import edit, variant


@variant("V31", "frequencies by exp and log, all in float32")
def sinusoidal_encoding(length, d_model, base=10000.0, offset=0):
    position = torch.arange(offset, offset + length).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(base) / d_model))
    pe = torch.zeros(length, d_model)
    pe[:, 0::2] = torch.sin(position * div_term)
    pe[:, 1::2] = torch.cos(position * div_term)[:, : d_model // 2]
    return pe


@variant("V31b", "frequencies by a negative power, all in float32")
def sinusoidal_encoding(length, d_model, base=10000.0, offset=0):
    p = torch.arange(length, dtype=torch.float32)[:, None] + offset
    w = base ** -(torch.arange(0, d_model, 2).float() / d_model)
    a = p * w
    return torch.stack([a.sin(), a.cos()], dim=-1).flatten(1)[:, :d_model]


@variant("V31c", "division by a float32 power")
def sinusoidal_encoding(length, d_model, base=10000.0, offset=0):
    p = torch.arange(offset, offset + length, dtype=torch.float32).reshape(-1, 1)
    a = p / torch.pow(torch.tensor(base), torch.arange(0, d_model, 2, dtype=torch.float32) / d_model)
    pe = torch.empty(length, d_model)
    pe[:, ::2], pe[:, 1::2] = torch.sin(a), torch.cos(a[:, : d_model // 2])
    return pe


@variant("V31d", "loops over positions and columns")
def sinusoidal_encoding(length, d_model, base=10000.0, offset=0):
    rows = []
    for p in range(offset, offset + length):
        row = []
        for c in range(d_model):
            angle = p / base ** ((c - c % 2) / d_model)
            row.append(math.cos(angle) if c % 2 else math.sin(angle))
        rows.append(row)
    return torch.tensor(rows)


@variant("V31e", "the cosine as a sine a quarter turn on, by numpy")
def sinusoidal_encoding(length, d_model, base=10000.0, offset=0):
    import numpy as np

    c = np.arange(d_model)
    a = (offset + np.arange(length))[:, None] / base ** ((c - c % 2) / d_model)
    return torch.from_numpy(np.sin(a + (c % 2) * np.pi / 2)).float()


@variant("V31f", "one step of rotation after another, by complex numbers")
def sinusoidal_encoding(length, d_model, base=10000.0, offset=0):
    w = base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    now, step = torch.polar(torch.ones_like(w), w * offset), torch.polar(torch.ones_like(w), w)
    rows = []
    for _ in range(length):
        rows.append(torch.stack((now.imag, now.real), dim=-1).flatten()[:d_model])
        now = now * step
    return torch.stack(rows).float()


@variant("V31g", "one float32 formula for all columns: the cosine is a sine a quarter turn on")
def sinusoidal_encoding(length, d_model, base=10000.0, offset=0):
    c = torch.arange(d_model)
    w = torch.pow(torch.tensor(float(base)), -(c - c % 2).float() / d_model)
    p = torch.arange(length).float() + offset
    return torch.sin(torch.einsum("i,j->ij", p, w) + (c % 2) * (math.pi / 2))


@variant("V33", "the buffer has a batch axis and is not persistent")
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.register_buffer("pe", sinusoidal_encoding(max_len, d_model).unsqueeze(0), persistent=False)

    def forward(self, x):
        assert x.size(1) <= self.pe.size(1), f"{x.size(1)} > {self.pe.size(1)}"
        return x + self.pe[:, : x.size(1)]


@variant("V33b", "the buffer is cast to the input, and does not ask for gradients")
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.d_model, self.max_len = d_model, max_len
        pe = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("pe", pe)
        self.dropout = nn.Dropout(0.0)

    def forward(self, x):
        length = x.shape[1]
        if length > self.max_len:
            raise ValueError(f"length {length} is larger than max_len {self.max_len}")
        return self.dropout(x + self.pe[:length, :].to(x.dtype).requires_grad_(False))


@variant("V33c", "the rows are picked by index_select on the device of the buffer")
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.register_buffer("pe", sinusoidal_encoding(max_len, d_model))

    def forward(self, x):
        n = x.size(-2)
        if n > len(self.pe):
            raise ValueError(f"got {n} tokens, at most {len(self.pe)} fit")
        return torch.add(x, self.pe.index_select(0, torch.arange(n, device=self.pe.device)))


@variant("V51", "one sample after another; a further buffer; float32 added, then cast")
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.register_buffer("pe", sinusoidal_encoding(max_len, d_model).view(1, max_len, d_model))
        self.register_buffer("longest", torch.tensor(max_len), persistent=False)
        self.max_len = max_len

    def forward(self, x):
        length = x.shape[1]
        if length > self.max_len:
            raise ValueError(f"{length=} is larger than {self.max_len=}")
        return torch.stack([(sample + self.pe[0].narrow(0, 0, length)).to(x.dtype) for sample in x])


@variant("LP-V4", "a product with one-hot rows")
class LearnedPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.embedding = nn.Embedding(max_len, d_model)

    def forward(self, x):
        length, most = x.shape[1], self.embedding.weight.shape[0]
        if length > most:
            raise ValueError(f"{length} positions are asked for, the table has {most}")
        return x + torch.eye(length, most, device=x.device, dtype=x.dtype) @ self.embedding.weight


@variant("LP-V1", "the rows of the table by slicing its weight")
class LearnedPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.max_len = max_len
        self.embedding = nn.Embedding(max_len, d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, x):
        if x.size(1) > self.max_len:
            raise ValueError(f"sequence length {x.size(1)} exceeds max_len {self.max_len}")
        return x + self.embedding.weight[: x.size(1)]


@variant("LP-V2", "positions as a buffer")
class LearnedPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.embedding = nn.Embedding(max_len, d_model)
        self.register_buffer("positions", torch.arange(max_len).unsqueeze(0), persistent=False)

    def forward(self, x):
        n, most = x.size(1), self.positions.size(1)
        assert n <= most, f"{n} tokens, but only {most} positions"
        return x + self.embedding(self.positions[:, :n])


@variant("LP-V3", "the table starts at zero")
class LearnedPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.embedding = nn.Embedding(max_len, d_model)
        nn.init.zeros_(self.embedding.weight)

    def forward(self, x):
        if x.size(1) > self.embedding.num_embeddings:
            raise ValueError(f"{x.size(1)} > {self.embedding.num_embeddings}")
        return self.embedding(torch.arange(x.size(1), device=x.device)).add(x)


@variant("SF-V1", "the blocks by block_diag, in float64")
def shift_matrix(offset, d_model, base=10000.0):
    assert d_model % 2 == 0, f"d_model must be even, got {d_model}"
    angles = offset * base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    blocks = [torch.tensor([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]) for a in angles.tolist()]
    return torch.block_diag(*blocks)


@variant("SF-V2", "diagonals and off-diagonals, in float32")
def shift_matrix(offset, d_model, base=10000.0):
    if d_model % 2 != 0:
        raise ValueError(f"expected an even d_model, got {d_model}")
    w = torch.exp(-math.log(base) * torch.arange(0, d_model, 2).float() / d_model)
    c = torch.cos(offset * w).repeat_interleave(2)
    s = torch.zeros(d_model - 1)
    s[0::2] = torch.sin(offset * w)
    return torch.diag(c) + torch.diag(s, 1) - torch.diag(s, -1)


@variant("SF-V4", "the exponential of a skew matrix")
def shift_matrix(offset, d_model, base=10000.0):
    if d_model % 2:
        raise ValueError(f"d_model has to be even, and is {d_model}")
    turns = offset * base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    skew, i = torch.zeros(d_model, d_model, dtype=torch.float64), torch.arange(0, d_model, 2)
    skew[i, i + 1], skew[i + 1, i] = turns, -turns
    return torch.linalg.matrix_exp(skew).float()


edit("SF-V3", "the matrix in float64", ("torch.zeros(d_model, d_model)\n", "torch.zeros(d_model, d_model).double()\n"))

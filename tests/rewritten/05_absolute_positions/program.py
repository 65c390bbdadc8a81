def sinusoidal_encoding(length, d_model, base=10000.0, offset=0):
    rows = []
    pairs = (d_model + 1) // 2
    speeds = torch.exp(-math.log(base) * 2 * torch.arange(pairs, dtype=torch.float64) / d_model)
    where = torch.arange(length, dtype=torch.float64) + offset
    theta = torch.outer(where, speeds)
    both = torch.stack([torch.sin(theta), torch.cos(theta)], dim=2)
    return both.reshape(length, 2 * pairs)[:, :d_model].to(torch.float32)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        pe = sinusoidal_encoding(max_len, d_model)
        self.register_buffer("pe", pe)

    def forward(self, x):
        _, L, _ = x.shape
        top = self.pe.shape[0]
        if L > top:
            raise ValueError(f"the sequence has {L} tokens; the table has {top}")
        return torch.add(x, self.pe[None, :L, :])


class LearnedPositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len):
        super().__init__()
        self.limit = max_len
        self.embedding = nn.Embedding(num_embeddings=max_len, embedding_dim=d_model)

    def forward(self, x):
        L = x.shape[1]
        if L > self.limit:
            raise ValueError(f"{L} tokens > {self.limit}")
        ids = torch.arange(0, L, device=x.device)
        return x + self.embedding(ids).unsqueeze(0)


def shift_matrix(offset, d_model, base=10000.0):
    if d_model % 2 == 1:
        raise ValueError(f"an even width is needed, not {d_model}")
    speeds = torch.tensor([base ** (-2 * i / d_model) for i in range(d_model // 2)], dtype=torch.float64)
    a = speeds * offset
    c, s = torch.cos(a), torch.sin(a)
    blocks = torch.stack([torch.stack([c, s], -1), torch.stack([-s, c], -1)], -2)
    return torch.block_diag(*blocks).float()

class Lookback(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0, (d_model, num_heads)
        self.h = num_heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x):
        B, L, D = x.shape
        q, k, v = self.qkv(x).view(B, L, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-2, -1) / math.sqrt(D // self.h)
        where = torch.arange(L, device=x.device)
        keep = where[:, None] >= where[None, :]
        s = s.masked_fill(~keep, float("-inf"))
        y = torch.softmax(s, dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(B, L, D))


class TransformerBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.attention = Lookback(d_model, num_heads)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model, bias=False))

    def forward(self, x):
        a = self.attention(self.norm1(x))
        y = a + x
        f = self.feed_forward(self.norm2(y))
        return f + y


class TinyTransformer(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.max_len = max_len
        self.words = nn.Embedding(vocab_size, d_model)
        self.places = nn.Parameter(torch.randn(max_len, d_model) * 0.5)
        self.layers = nn.Sequential(*[TransformerBlock(d_model, num_heads, 3 * d_model) for _ in range(num_layers)])
        self.last = nn.LayerNorm(d_model)
        self.to_words = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, tokens):
        B, L = tokens.shape
        if L > self.max_len:
            raise ValueError(f"the window has {L} tokens, the model takes {self.max_len}")
        h = self.words(tokens) + self.places[:L]
        h = self.layers(h)
        return self.to_words(self.last(h))


def train(model, tokens, steps, batch_size, learning_rate, seed=0):
    rng = torch.Generator()
    rng.manual_seed(seed)
    adam = torch.optim.Adam(model.parameters(), lr=learning_rate)
    history = []
    n = model.max_len
    model.train()
    for _ in range(steps):
        picks = torch.randint(0, tokens.numel() - n, (batch_size,), generator=rng).tolist()
        x = torch.stack([tokens[i : i + n] for i in picks])
        y = torch.stack([tokens[i + 1 : i + 1 + n] for i in picks])
        scores = model(x)
        loss = F.cross_entropy(scores.transpose(1, 2), y)
        adam.zero_grad()
        loss.backward()
        adam.step()
        history.append(float(loss.detach()))
    return history


@torch.no_grad()
def generate(model, prompt, length, temperature=1.0, seed=0):
    rng = torch.Generator()
    rng.manual_seed(seed)
    text = prompt.clone()
    for _ in range(length):
        seen = text[:, -model.max_len :]
        scores = model(seen)[0, -1]
        if temperature == 0:
            new = torch.argmax(scores)
        else:
            p = F.softmax(scores / temperature, dim=0)
            new = torch.multinomial(p, num_samples=1, generator=rng)[0]
        text = torch.cat([text, new.view(1, 1)], dim=1)
    return text

"""Right answers to topic 11, written differently. Each must earn full marks."""

from autograder.slips import edit, variant


class TorchAttention(nn.Module):
    """nn.MultiheadAttention with a blocked mask of its own convention."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.inner = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(self, x):
        ahead = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).triu(1)
        return self.inner(x, x, x, attn_mask=ahead, need_weights=False)[0]


class HandAttention(nn.Module):
    """One projection for q, k and v, no biases, and the softmax by hand under a buffer of -inf."""

    def __init__(self, d_model, num_heads, longest=64):
        super().__init__()
        assert d_model % num_heads == 0, f"{d_model} features, {num_heads} heads"
        self.h = num_heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)
        self.register_buffer("ahead", torch.full((longest, longest), -torch.inf).triu(1), persistent=False)

    def forward(self, x, mask=None):
        B, L, D = x.shape
        q, k, v = self.qkv(x).view(B, L, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4)
        scores = torch.einsum("bhld,bhsd->bhls", q, k) / math.sqrt(D // self.h) + self.ahead[:L, :L]
        return self.out(torch.einsum("bhls,bhsd->blhd", scores.softmax(-1), v).reshape(B, L, D))


class RotaryAttention(nn.Module):
    """Rotary positions by complex numbers, grouped keys and values, and query norms."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} % {num_heads}")
        self.h, self.d = num_heads, d_model // num_heads
        self.q = nn.Linear(d_model, d_model, bias=False)
        self.kv = nn.Linear(d_model, 2 * self.d, bias=False)
        self.o = nn.Linear(d_model, d_model, bias=False)

    def rotate(self, x):
        half = self.d // 2
        angle = torch.arange(x.size(-2), device=x.device).double()[:, None]
        angle = angle * 100.0 ** (-torch.arange(half, device=x.device).double() / half)
        a, b = x[..., :half].double(), x[..., half : 2 * half].double()
        turned = torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)
        return torch.cat([turned.to(x.dtype), x[..., 2 * half :]], -1)

    def forward(self, x):
        B, L, _ = x.shape
        q = self.rotate(self.q(x).view(B, L, self.h, self.d).transpose(1, 2))
        k, v = self.kv(x).chunk(2, -1)
        k, v = self.rotate(k[:, None]), v[:, None]
        scores = q @ k.mT * self.d**-0.5
        i = torch.arange(L, device=x.device)
        scores = torch.where(i[:, None] >= i, scores, -torch.inf)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, L, -1))


class RMS(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.gain


class BesselNorm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.a_2, self.b_2 = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return self.a_2 * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + self.b_2


class Gated(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w1, self.w2, self.w3 = (
            nn.Linear(d_model, d_ff, bias=False),
            nn.Linear(d_ff, d_model, bias=False),
            nn.Linear(d_model, d_ff, bias=False),
        )

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


# -- blocks ----------------------------------------------------------------------------------------------------------


@variant("V60", "torch's own attention inside, ReLU in feed_forward")
class TransformerBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.attention = TorchAttention(d_model, num_heads)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        y = self.attention(self.norm1(x)) + x
        return self.feed_forward(self.norm2(y)) + y


@variant("V60b", "nn.MultiheadAttention is itself the part `attention`, with a float mask")
class TransformerBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model, eps=1e-6)
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.SiLU(), nn.Linear(d_ff, d_model))

    def forward(self, x):
        n = x.size(1)
        h = self.norm1(x)
        mask = torch.full((n, n), float("-inf"), device=x.device, dtype=x.dtype).triu(diagonal=1)
        x = x + self.attention(h, h, h, attn_mask=mask, is_causal=True, need_weights=False)[0]
        return x + self.feed_forward(self.norm2(x))


@variant("V61", "RMS norms, a gated feed_forward, rotary positions inside the attention")
class TransformerBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.norm1, self.norm2 = RMS(d_model), RMS(d_model)
        self.attention = RotaryAttention(d_model, num_heads)
        self.feed_forward = Gated(d_model, d_ff)

    def forward(self, x):
        x = torch.add(x, self.attention(self.norm1(x)))
        return torch.add(x, self.feed_forward(self.norm2(x)))


@variant("BL-08", "a norm with the unbiased deviation and the eps outside the root")
class TransformerBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.norm1, self.norm2 = BesselNorm(d_model), BesselNorm(d_model)
        self.attention = CausalAttention(d_model, num_heads)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.Tanh(), nn.Linear(d_ff, d_model))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        x = x + self.feed_forward(self.norm2(x))
        return x


edit(
    "BL-13",
    "GELU by the tanh formula",
    ("nn.GELU(), nn.Linear(d_ff, d_model)", "nn.GELU(approximate='tanh'), nn.Linear(d_ff, d_model)"),
)


@variant("V62", "hand-made attention with one fused projection and a buffer, norms without gains")
class TransformerBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(d_model, elementwise_affine=False)
        self.attention = HandAttention(d_model, num_heads)
        self.feed_forward = nn.ModuleDict({"up": nn.Linear(d_model, d_ff), "down": nn.Linear(d_ff, d_model)})

    def forward(self, x):
        x = x + self.attention(self.norm1(x), mask=None)
        hidden = F.relu(self.feed_forward["up"](self.norm2(x))).square()
        return x + self.feed_forward["down"](hidden)


@variant("BL-16", "dropout in both branches, silent in eval mode")
class TransformerBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attention = CausalAttention(d_model, num_heads)
        self.feed_forward = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model), nn.Dropout(0.1)
        )
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        x = x + self.drop(self.attention(self.norm1(x)))
        return x + self.feed_forward(self.norm2(x))


@variant("V63", "branches whose last layers start at zero")
class TransformerBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attention = CausalAttention(d_model, num_heads)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.ELU(), nn.Linear(d_ff, d_model))
        for last in (self.attention.W_o, self.feed_forward[2]):
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

    def forward(self, x):
        for norm, branch in ((self.norm1, self.attention), (self.norm2, self.feed_forward)):
            x = x + branch(norm(x))
        return x


# -- models ----------------------------------------------------------------------------------------------------------


@variant("V64", "sinusoidal positions in a buffer, no last norm, torch's own blocks")
class TinyTransformer(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.max_len = max_len
        self.embed = nn.Embedding(vocab_size, d_model)
        angle = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("pe", torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[None])
        self.blocks = nn.Sequential(*[StandInBlock(d_model, num_heads, 2 * d_model) for _ in range(num_layers)])
        self.out = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, tokens):
        if tokens.shape[-1] > self.max_len:
            raise ValueError(f"got {tokens.shape[-1]} tokens, but max_len is {self.max_len}")
        return self.out(self.blocks(self.embed(tokens) + self.pe[:, : tokens.shape[1]]))


@variant("V65", "shared input and output weights of small variance, max_len as a property")
class TinyTransformer(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.token = nn.Embedding(vocab_size, d_model)
        self.place = nn.Parameter(torch.empty(max_len, d_model))
        self.layers = nn.ModuleList()
        for _ in range(num_layers):
            self.layers.append(TransformerBlock(d_model, num_heads, d_ff=3 * d_model))
        self.final = nn.LayerNorm(d_model)
        self.unembed = nn.Linear(d_model, vocab_size, bias=False)
        self.unembed.weight = self.token.weight
        for weight in (self.token.weight, self.place):
            nn.init.normal_(weight, std=0.02)

    @property
    def max_len(self):
        return len(self.place)

    def forward(self, tokens):
        L = tokens.shape[1]
        assert self.max_len >= L, f"L={L} > max_len={self.max_len}"
        x = self.token(tokens) + self.place[:L]
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.final(x), self.token.weight)


@variant("V66", "positions by ALiBi, the model returns log-probabilities, which are logits, too")
class TinyTransformer(nn.Module):
    class Block(nn.Module):
        def __init__(self, D, H, F_):
            super().__init__()
            self.H = H
            self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
            self.qkv, self.o = nn.Linear(D, 3 * D), nn.Linear(D, D)
            self.ff = nn.Sequential(nn.Linear(D, F_), nn.GELU(), nn.Linear(F_, D))

        def forward(self, x):
            B, L, D = x.shape
            q, k, v = (t.view(B, L, self.H, -1).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, -1))
            i = torch.arange(L, device=x.device)
            slope = 2.0 ** (-8 * torch.arange(1, self.H + 1, device=x.device) / self.H)
            bias = (-slope[:, None, None] * (i[:, None] - i).abs()).to(x.dtype)
            bias = bias.masked_fill(i[:, None] < i, -torch.inf)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(B, -1, -1, -1))
            x = x + self.o(y.transpose(1, 2).reshape(B, L, D))
            return x + self.ff(self.n2(x))

    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.max_len = max_len
        self.e = nn.Embedding(vocab_size, d_model)
        self.b = nn.ModuleList([self.Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers)])
        self.f = nn.LayerNorm(d_model)
        self.h = nn.Linear(d_model, vocab_size)

    def forward(self, tokens):
        if tokens.size(1) > self.max_len:
            raise ValueError(f"sequence of {tokens.size(1)} tokens, context of {self.max_len}")
        x = self.e(tokens) * math.sqrt(self.e.embedding_dim)
        for b in self.b:
            x = b(x)
        return F.log_softmax(self.h(self.f(x)), dim=-1)


edit(
    "BL-18",
    "no norm after the last block: the exercise does not ask for one",
    ("        self.norm = nn.LayerNorm(d_model)\n", ""),
    ("return self.head(self.norm(x))", "return self.head(x)"),
)
edit(
    "V67",
    "the output layer starts at zero",
    (
        "        self.head = nn.Linear(d_model, vocab_size)\n        ### END SOLUTION\n\n    def forward(self, tokens):\n        ### BEGIN SOLUTION\n        length",
        "        self.head = nn.Linear(d_model, vocab_size)\n        nn.init.zeros_(self.head.weight)\n\n"
        "    def forward(self, tokens):\n        length",
    ),
)

# -- training --------------------------------------------------------------------------------------------------------


@variant("V70", "plain Adam, windows stacked in a loop, the global seed, logits with the classes in axis 1")
def train(model, tokens, steps, batch_size, learning_rate, seed=0):
    torch.manual_seed(seed)
    device = next(model.parameters()).device
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    losses = []
    for _ in range(steps):
        at = torch.randint(0, tokens.numel() - model.max_len, (batch_size,)).tolist()
        x = torch.stack([tokens[i : i + model.max_len] for i in at]).to(device)
        y = torch.stack([tokens[i + 1 : i + 1 + model.max_len] for i in at]).to(device)
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x).transpose(1, 2), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss))
    return losses


@variant("V71", "gradient descent with momentum, gradients cleared after the step")
def train(model, tokens, steps, batch_size, learning_rate, seed=0):
    model.train()
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    pieces = tokens.unfold(0, model.max_len + 1, 1)
    losses = []
    for _ in range(steps):
        batch = pieces[torch.randint(len(pieces), (batch_size,), generator=generator)]
        logits = model(batch[:, :-1].contiguous())
        loss = -logits.log_softmax(-1).gather(-1, batch[:, 1:, None]).mean()
        loss.backward()
        optimizer.step()
        for parameter in model.parameters():
            parameter.grad = None
        losses.append(loss.detach().item())
    model.eval()
    return losses


@variant("V72", "plain gradient descent by hand")
def train(model, tokens, steps, batch_size, learning_rate, seed=0):
    g = torch.Generator()
    g.manual_seed(seed)
    losses = []
    parameters = [p for p in model.parameters() if p.requires_grad]
    for _ in range(steps):
        starts = torch.randint(0, len(tokens) - model.max_len, (batch_size,), generator=g)
        rows = torch.stack([tokens[s : s + model.max_len + 1] for s in starts])
        logits = model(rows[:, :-1])
        loss = nn.CrossEntropyLoss()(logits.reshape(-1, logits.size(-1)), rows[:, 1:].reshape(-1))
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= learning_rate * gradient
        losses.append(loss.item())
    return losses


@variant("V73", "one window after the other, gradients gathered, warm-up and cosine of the learning rate")
def train(model, tokens, steps, batch_size, learning_rate, seed=0):
    generator = torch.Generator().manual_seed(1000 + seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.98))
    plan = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min(1.0, (s + 1) / 10) * (0.55 + 0.45 * math.cos(math.pi * s / max(1, steps)))
    )
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for _ in range(batch_size):
            i = int(torch.randint(len(tokens) - model.max_len, (1,), generator=generator))
            x, y = tokens[i : i + model.max_len], tokens[i + 1 : i + model.max_len + 1]
            loss = F.cross_entropy(model(x[None])[0], y) / batch_size
            loss.backward()
            total += loss.item()
        optimizer.step()
        plan.step()
        losses.append(total)
    return losses


@variant("V74", "the windows of an epoch in a shuffled order, RMSprop")
def train(model, tokens, steps, batch_size, learning_rate, seed=0):
    import random

    dice = random.Random(seed)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=learning_rate / 2)
    last = len(tokens) - model.max_len - 1
    order, losses = [], []
    while len(losses) < steps:
        if len(order) < batch_size:
            order = list(range(last + 1))
            dice.shuffle(order)
        picked, order = order[:batch_size], order[batch_size:]
        index = torch.tensor(picked)[:, None] + torch.arange(model.max_len + 1)[None]
        window = torch.take(tokens, index.to(tokens.device))
        loss = F.cross_entropy(model(window[:, :-1]).movedim(-1, 1), window[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@variant("V75", "numpy draws the starts, Adagrad steps, the last window of the stream is never drawn")
def train(model, tokens, steps, batch_size, learning_rate, seed=0):
    import numpy as np

    draws = np.random.default_rng(seed)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=learning_rate)
    losses = [0.0] * steps
    for step in range(steps):
        starts = draws.integers(0, len(tokens) - model.max_len - 1, size=batch_size)
        x = torch.stack([tokens[s : s + model.max_len] for s in starts])
        y = torch.stack([tokens[s + 1 : s + model.max_len + 1] for s in starts])
        logits = model(x)
        loss = F.nll_loss(F.log_softmax(logits, -1).view(-1, logits.shape[-1]), y.view(-1))
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
        loss.backward()
        optimizer.step()
        losses[step] = loss.item()
    return losses


# -- generation ------------------------------------------------------------------------------------------------------


@variant("V80", "Gumbel noise and argmax, under the global seed, into a tensor made beforehand")
def generate(model, prompt, length, temperature=1.0, seed=0):
    torch.manual_seed(seed)
    start = prompt.size(1)
    text = torch.cat([prompt, prompt.new_zeros(1, length)], dim=1)
    for i in range(start, start + length):
        logits = model(text[:, max(0, i - model.max_len) : i])[0, -1].detach()
        if temperature > 0:
            noise = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-20, 1 - 1e-7)))
            logits = logits / temperature + noise
        text[0, i] = logits.argmax()
    return text


@variant("V81", "the inverse of the cumulative sum, a list of Python numbers, inference mode")
@torch.inference_mode()
def generate(model, prompt, length, temperature=1.0, seed=0):
    import random

    dice = random.Random(seed)
    text = prompt[0].tolist()
    for _ in range(length):
        window = torch.tensor([text[-model.max_len :]], device=prompt.device)
        logits = model(window)[0, -1]
        if not temperature:
            text.append(int(logits.argmax()))
            continue
        heights = ((logits - logits.max()) / temperature).double().exp().cumsum(0)
        text.append(int(torch.searchsorted(heights, dice.random() * heights[-1].item()).clamp(max=len(logits) - 1)))
    return torch.tensor([text], device=prompt.device)


@variant("V82", "torch.distributions, the model put back into its mode afterwards")
def generate(model, prompt, length, temperature=1.0, seed=0):
    was = model.training
    model.eval()
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    text = prompt.clone()
    with torch.no_grad():
        for _ in range(length):
            logits = model(text[:, -model.max_len :])[:, -1, :]
            if temperature == 0:
                following = logits.topk(1).indices
            else:
                following = torch.distributions.Categorical(logits=logits / temperature).sample()[:, None]
            text = torch.hstack([text, following])
    torch.set_rng_state(state)
    model.train(was)
    return text


@variant("V83", "recursion, and a generator that is handed on")
def generate(model, prompt, length, temperature=1.0, seed=0, generator=None):
    generator = generator or torch.Generator().manual_seed(seed)
    for _ in range(length):
        with torch.no_grad():
            scores = model(prompt[:, -model.max_len :])[:, -1]
        p = (
            F.one_hot(scores.argmax(-1), scores.size(-1)).float()
            if temperature == 0
            else F.softmax(scores / temperature, dim=-1)
        )
        drawn = torch.multinomial(p.cpu(), 1, generator=generator).to(prompt.device)
        prompt = torch.cat((prompt, drawn), dim=-1)
    return prompt


@variant("V76", "one sweep over the text after another, without chance")
def train(model, tokens, steps, batch_size, learning_rate, seed=0):
    optimizer = torch.optim.NAdam(model.parameters(), lr=learning_rate)
    n = model.max_len
    starts = torch.arange(0, len(tokens) - n, n)
    losses, at = [], 0
    for _ in range(steps):
        picked = starts[torch.arange(at, at + batch_size) % len(starts)]
        at += batch_size
        x, y = (torch.stack([tokens[i + o : i + o + n] for i in picked]) for o in (0, 1))
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses += [loss.item()]
    return losses


@variant("V77", "torch's DataLoader draws the windows")
def train(model, tokens, steps, batch_size, learning_rate, seed=0):
    from torch.utils.data import DataLoader, RandomSampler, TensorDataset

    windows = TensorDataset(tokens.unfold(0, model.max_len + 1, 1))
    generator = torch.Generator().manual_seed(seed)
    draws = RandomSampler(windows, replacement=True, num_samples=steps * batch_size, generator=generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    losses = []
    for (batch,) in DataLoader(windows, batch_size=batch_size, sampler=draws):
        optimizer.zero_grad()
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), batch[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


edit(
    "V84",
    "generate makes its generator on the CPU and draws there",
    ("torch.Generator(device=prompt.device).manual_seed(seed)", "torch.Generator().manual_seed(seed)"),
    (
        "torch.multinomial(probabilities, 1, generator=generator)",
        "torch.multinomial(probabilities.cpu(), 1, generator=generator).to(prompt.device)",
    ),
)

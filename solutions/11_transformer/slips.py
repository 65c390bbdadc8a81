"""Known mistakes of topic 11. Read as text by `autograder.slips`; ids are those of the catalogue of mistakes."""

from autograder.slips import edit

# -- the block: residuals and norms ----------------------------------------------------------------------------------

edit(
    "BL-01",
    "The residual takes the normalised input: h = norm(x), then h + f(h). "
    "Add the branch to x itself, and norm only what "
    "enters the branch.",
    (
        "        x = x + self.attention(self.norm1(x))\n        return x + self.feed_forward(self.norm2(x))",
        "        h = self.norm1(x)\n        h = h + self.attention(h)\n        g = self.norm2(h)\n"
        "        return g + self.feed_forward(g)",
    ),
)
edit(
    "BL-01b",
    "The first residual takes the normalised input: h = norm1(x), then h + attention(h). Add the attention to x itself.",
    ("        x = x + self.attention(self.norm1(x))\n", "        x = self.norm1(x)\n        x = x + self.attention(x)\n"),
)
edit(
    "BL-01c",
    "The second residual takes the normalised input: g = norm2(y), then g + feed_forward(g). Add feed_forward to y itself.",
    (
        "        return x + self.feed_forward(self.norm2(x))",
        "        x = self.norm2(x)\n        return x + self.feed_forward(x)",
    ),
)
edit(
    "BL-02",
    "This is the post-norm form: the norm stands after each addition. In pre-norm it stands inside the branch.",
    ("x = x + self.attention(self.norm1(x))", "x = self.norm1(x + self.attention(x))"),
    ("return x + self.feed_forward(self.norm2(x))", "return self.norm2(x + self.feed_forward(x))"),
)
edit(
    "BL-02b",
    "The first branch is pre-norm and the second post-norm. Both norms belong inside their branches.",
    ("return x + self.feed_forward(self.norm2(x))", "return self.norm2(x + self.feed_forward(x))"),
)
edit(
    "BL-03",
    "The residual of the attention is missing: x is replaced by what the attention returns. Add it to x.",
    ("x = x + self.attention(self.norm1(x))", "x = self.attention(self.norm1(x))"),
)
edit(
    "BL-03b",
    "The residual of feed_forward is missing: its output replaces y. Add it to y.",
    ("return x + self.feed_forward(self.norm2(x))", "return self.feed_forward(self.norm2(x))"),
)
edit(
    "BL-04",
    "The second residual starts from the input of the block, so the result "
    "of the attention is lost from the sum. Start "
    "from y.",
    (
        "        x = x + self.attention(self.norm1(x))\n        return x + self.feed_forward(self.norm2(x))",
        "        y = x + self.attention(self.norm1(x))\n        return x + self.feed_forward(self.norm2(y))",
    ),
)
edit(
    "BL-04b",
    "feed_forward gets y as it is. It has to get norm2(y).",
    ("self.feed_forward(self.norm2(x))", "self.feed_forward(x)"),
)
edit(
    "BL-04c",
    "The attention gets x as it is. It has to get norm1(x).",
    ("self.attention(self.norm1(x))", "self.attention(x)"),
)
edit(
    "BL-04d",
    "The norms stand behind the branches: x + norm(f(x)). They belong in front: x + f(norm(x)).",
    ("x + self.attention(self.norm1(x))", "x + self.norm1(self.attention(x))"),
    ("x + self.feed_forward(self.norm2(x))", "x + self.norm2(self.feed_forward(x))"),
)
edit(
    "BL-05",
    "Attention and feed_forward both read x, side by side. feed_forward has to read the result of the attention.",
    (
        "        x = x + self.attention(self.norm1(x))\n        return x + self.feed_forward(self.norm2(x))",
        "        return x + self.attention(self.norm1(x)) + self.feed_forward(self.norm2(x))",
    ),
)
edit(
    "BL-06",
    "norm1 and norm2 are one and the same module. Each branch needs a norm with gains of its own.",
    ("self.norm2 = nn.LayerNorm(d_model)", "self.norm2 = self.norm1"),
)
edit(
    "BL-06b",
    "norm1 is used in both branches, and norm2 never.",
    ("self.feed_forward(self.norm2(x))", "self.feed_forward(self.norm1(x))"),
)
edit(
    "BL-06c",
    "norm1 and norm2 are swapped: the attention has to read norm1(x), and feed_forward norm2(y).",
    ("self.attention(self.norm1(x))", "self.attention(self.norm2(x))"),
    ("self.feed_forward(self.norm2(x))", "self.feed_forward(self.norm1(x))"),
)
edit(
    "BL-07",
    "The two branches come in the wrong order: first attention, then feed_forward.",
    (
        "        x = x + self.attention(self.norm1(x))\n        return x + self.feed_forward(self.norm2(x))",
        "        x = x + self.feed_forward(self.norm2(x))\n        return x + self.attention(self.norm1(x))",
    ),
)
edit(
    "BL-23",
    "A third norm stands on the way out of the block. A pre-norm block has additions only on its main path.",
    (
        "        return x + self.feed_forward(self.norm2(x))",
        "        return F.layer_norm(x + self.feed_forward(self.norm2(x)), x.shape[-1:])",
    ),
)
edit(
    "BL-24",
    "The sum is halved, so the block is not the identity when its branches are silent. Just add.",
    ("return x + self.feed_forward(self.norm2(x))", "return (x + self.feed_forward(self.norm2(x))) / 2"),
)
edit(
    "MH-21",
    "There is one residual too many: the attention branch adds its own input once more.",
    ("x = x + self.attention(self.norm1(x))", "h = self.norm1(x)\n        x = x + h + self.attention(h)"),
)
edit(
    "MH-22",
    "The result of the attention is computed and then not used.",
    ("        x = x + self.attention(self.norm1(x))\n", "        attended = self.attention(self.norm1(x))\n"),
)
edit(
    "BL-25",
    "The result of feed_forward is never added: the block ends after its attention.",
    ("return x + self.feed_forward(self.norm2(x))", "return x"),
)
edit(
    "BL-09",
    "The norm divides by the variance, not by its square root, so that large inputs stay large or vanish.",
    ("self.norm1 = nn.LayerNorm(d_model)", "self.norm1 = VarianceNorm(d_model)"),
    ("self.norm2 = nn.LayerNorm(d_model)", "self.norm2 = VarianceNorm(d_model)"),
    (
        "class TransformerBlock(nn.Module):",
        """class VarianceNorm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return self.weight * centred / (x.var(-1, keepdim=True, unbiased=False) + 1e-5) + self.bias


class TransformerBlock(nn.Module):""",
    ),
)
edit(
    "BL-10",
    "The norm runs over the tokens, not over the features of one token. So a token's value depends on later ones.",
    ("self.norm1 = nn.LayerNorm(d_model)", "self.norm1 = TokenNorm(d_model)"),
    ("self.norm2 = nn.LayerNorm(d_model)", "self.norm2 = TokenNorm(d_model)"),
    (
        "class TransformerBlock(nn.Module):",
        """class TokenNorm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        centred = x - x.mean(1, keepdim=True)
        return self.weight * centred / (x.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt() + self.bias


class TransformerBlock(nn.Module):""",
    ),
)
edit(
    "BL-10b",
    "The norm runs over tokens and features together. So a token's value depends on later ones: norm each token alone.",
    ("self.norm1 = nn.LayerNorm(d_model)", "self.norm1 = WindowNorm(d_model)"),
    ("self.norm2 = nn.LayerNorm(d_model)", "self.norm2 = WindowNorm(d_model)"),
    (
        "class TransformerBlock(nn.Module):",
        """class WindowNorm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return self.weight * F.layer_norm(x, x.shape[1:]) + self.bias


class TransformerBlock(nn.Module):""",
    ),
)
edit(
    "BL-10c",
    "The norm's mean and standard deviation run over the tokens, not over the features of one token. So a token's value "
    "depends on later ones, and a window of a single token gives NaN.",
    ("self.norm1 = nn.LayerNorm(d_model)", "self.norm1 = TokenDeviationNorm(d_model)"),
    ("self.norm2 = nn.LayerNorm(d_model)", "self.norm2 = TokenDeviationNorm(d_model)"),
    (
        "class TransformerBlock(nn.Module):",
        """class TokenDeviationNorm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return self.weight * (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-6) + self.bias


class TransformerBlock(nn.Module):""",
    ),
)
edit(
    "BL-11",
    "norm1 and norm2 are placeholders that do not normalise. Each has to bring a token to unit size.",
    ("self.norm1 = nn.LayerNorm(d_model)", "self.norm1 = nn.Identity()"),
    ("self.norm2 = nn.LayerNorm(d_model)", "self.norm2 = nn.Identity()"),
)
edit(
    "BL-11b",
    "The norms are made and never used.",
    ("self.attention(self.norm1(x))", "self.attention(x)"),
    ("self.feed_forward(self.norm2(x))", "self.feed_forward(x)"),
)

# -- the block: feed_forward -----------------------------------------------------------------------------------------

edit(
    "BL-12",
    "No activation stands between the two layers of feed_forward. Two linear layers in a row are one linear layer.",
    (
        "nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model)",
        "nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)",
    ),
)
edit(
    "BL-12b",
    "The activation stands behind the second layer of feed_forward, so that it can add hardly anything negative.",
    (
        "nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model)",
        "nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model), nn.ReLU()",
    ),
    same_as=("BL-12c",),
)
edit(
    "BL-12c",
    "A second activation stands at the end of feed_forward, so that it can add hardly anything negative.",
    ("nn.GELU(), nn.Linear(d_ff, d_model))", "nn.GELU(), nn.Linear(d_ff, d_model), nn.ReLU())"),
    same_as=("BL-12b",),
)
edit(
    "BL-26",
    "The argument d_ff is ignored: the width of feed_forward comes from d_model.",
    (
        "nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model)",
        "nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model)",
    ),
)
edit(
    "BL-27",
    "feed_forward mixes the tokens. It has to work on each token alone.",
    (
        "self.feed_forward(self.norm2(x))",
        "self.feed_forward(self.norm2(x) + self.norm2(x).mean(1, keepdim=True))",
    ),
)

# -- the block: attention --------------------------------------------------------------------------------------------

edit(
    "BL-22",
    "The attention has no causal mask: a token sees the tokens after it, which are the answers.",
    ("scaled_dot_product_attention(q, k, v, is_causal=True)", "scaled_dot_product_attention(q, k, v)"),
)
edit(
    "MK-24",
    "The mask is turned round: a token sees itself and later tokens, not the earlier ones. tril, not triu.",
    (
        "scaled_dot_product_attention(q, k, v, is_causal=True)",
        "scaled_dot_product_attention(q, k, v, attn_mask=q.new_ones(q.size(-2), q.size(-2)).triu().bool())",
    ),
)
edit(
    "MK-22",
    "The mask is off by one: a token does not see itself, and the first one sees nothing.",
    (
        "scaled_dot_product_attention(q, k, v, is_causal=True)",
        "scaled_dot_product_attention(q, k, v, attn_mask=q.new_ones(q.size(-2), q.size(-2)).tril(-1).bool())",
    ),
)
edit(
    "MK-22b",
    "The mask is off by one: a token sees the one that follows it, which is the answer.",
    (
        "scaled_dot_product_attention(q, k, v, is_causal=True)",
        "scaled_dot_product_attention(q, k, v, attn_mask=q.new_ones(q.size(-2), q.size(-2)).tril(1).bool())",
    ),
)
edit(
    "MK-01",
    "The mask is inverted: True means may attend here, and it stands where attention is forbidden.",
    (
        "scaled_dot_product_attention(q, k, v, is_causal=True)",
        "scaled_dot_product_attention(q, k, v, attn_mask=q.new_ones(q.size(-2), q.size(-2)).triu(1).bool())",
    ),
)
edit(
    "MK-09",
    "Blocked scores are set to a number such as -1e4. Where the other "
    "scores are lower still, later tokens win: use -inf.",
    (
        "heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        """ahead = q.new_ones(q.size(-2), q.size(-2)).triu(1).bool()
        scores = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(ahead, -1e4)
        heads = scores.softmax(-1) @ v""",
    ),
)
edit(
    "MK-14",
    "Blocked scores are filled with -1e9, which float16 can't hold. Fill with -inf.",
    (
        "heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        """ahead = q.new_ones(q.size(-2), q.size(-2)).triu(1).bool()
        scores = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(ahead, -1e9)
        heads = scores.softmax(-1) @ v""",
    ),
)
edit(
    "MK-04",
    "The scores are multiplied by the mask. A score of 0 still gets weight, so later tokens are seen: fill with -inf.",
    (
        "heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        """keep = q.new_ones(q.size(-2), q.size(-2)).tril()
        heads = (q @ k.mT / math.sqrt(q.size(-1)) * keep).softmax(-1) @ v""",
    ),
)
edit(
    "MK-08",
    "The upper triangle of a matrix of ones is multiplied by -inf. Elsewhere this is 0 times infinity, which is NaN.",
    (
        "heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        """ahead = q.new_ones(q.size(-2), q.size(-2)).triu(1)
        heads = (q @ k.mT / math.sqrt(q.size(-1)) + ahead * float("-inf")).softmax(-1) @ v""",
    ),
)
edit(
    "SD-08",
    "The softmax of the attention runs over the queries. A token's weights then depend on later tokens.",
    (
        "heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        """ahead = q.new_ones(q.size(-2), q.size(-2)).triu(1).bool()
        scores = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(ahead, float("-inf"))
        heads = scores.softmax(-2) @ v""",
    ),
)
edit(
    "SP-09",
    "The heads are put together without turning the axes back, which mixes the tokens up.",
    ("heads.transpose(1, 2).flatten(2)", "heads.reshape(x.shape)"),
)
edit(
    "SP-01",
    "The heads are split by a view without a transpose, which mixes the tokens up.",
    (
        "(W(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))",
        "(W(x).view(x.size(0), self.num_heads, x.size(1), -1) for W in (self.W_q, self.W_k, self.W_v))",
    ),
)
edit(
    "SP-08",
    "d_model is divided by num_heads with a floor, and the features that remain are dropped. Refuse such sizes.",
    (
        "        if d_model % num_heads:\n"
        '            raise ValueError(f"d_model={d_model} can\'t be shared among {num_heads} heads")\n',
        "",
    ),
    (
        "(W(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))",
        "(W(x)[..., : self.W_q.out_features // self.num_heads * self.num_heads].unflatten(-1, (self.num_heads, -1))"
        ".transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))",
    ),
    ("heads.transpose(1, 2).flatten(2))", "F.pad(heads.transpose(1, 2).flatten(2), (0, x.size(-1) % self.num_heads)))"),
)
edit(
    "MH-24",
    "The attention runs along the batch: the first axis is taken for the tokens. Windows of a batch must not meet.",
    ("self.attention(self.norm1(x))", "self.attention(self.norm1(x).transpose(0, 1)).transpose(0, 1)"),
)
edit(
    "MH-17b",
    "Layers of the attention stand in a plain list, where parameters(), .to() and .double() do not find them. "
    "Use nn.ModuleList.",
    (
        "        self.W_q = nn.Linear(d_model, d_model)\n        self.W_k = nn.Linear(d_model, d_model)\n"
        "        self.W_v = nn.Linear(d_model, d_model)\n",
        "        self.projections = [nn.Linear(d_model, d_model) for _ in range(3)]\n",
    ),
    ("for W in (self.W_q, self.W_k, self.W_v))", "for W in self.projections)"),
)
edit(
    "BL-28",
    "The parts have other names. They have to be norm1, attention, norm2 and feed_forward.",
    ("self.norm1 = nn.LayerNorm(d_model)", "self.ln1 = nn.LayerNorm(d_model)"),
    ("self.norm2 = nn.LayerNorm(d_model)", "self.ln2 = nn.LayerNorm(d_model)"),
    ("self.attention(self.norm1(x))", "self.attention(self.ln1(x))"),
    ("self.feed_forward(self.norm2(x))", "self.feed_forward(self.ln2(x))"),
)
edit(
    "BL-29",
    "The block changes its input in place, and with it the caller's tensor.",
    (
        "        x = x + self.attention(self.norm1(x))\n",
        "        with torch.no_grad():\n            x += self.attention(self.norm1(x))\n",
    ),
)
edit(
    "LP-01",
    "The positions are made on the CPU. On a GPU they would meet weights of another device: pass device=tokens.device.",
    ("torch.arange(length, device=tokens.device)", "torch.arange(length)"),
)
edit(
    "DV-10",
    "The gradient is cut inside the block: a detach, .data or no_grad stands in the way.",
    ("self.attention(self.norm1(x))", "self.attention(self.norm1(x)).detach()"),
)
edit(
    "DV-01",
    "A mask is made on the CPU inside the attention. On a GPU it would meet tensors of another device.",
    (
        "heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        """ahead = torch.ones(q.size(-2), q.size(-2)).triu(1).bool()
        scores = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(ahead, float("-inf"))
        heads = scores.softmax(-1) @ v""",
    ),
)
edit(
    "DV-04",
    "An additive mask is made in float32. In float64 or half precision it meets numbers of another dtype.",
    (
        "heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        """ahead = torch.full((q.size(-2), q.size(-2)), float("-inf"), device=q.device).triu(1)
        heads = (q @ k.mT / math.sqrt(q.size(-1)) + ahead).softmax(-1) @ v""",
    ),
)

# -- the model -------------------------------------------------------------------------------------------------------

edit(
    "LP-07",
    "No positions reach the model: with one layer it can't tell the order of earlier tokens.",
    ("x = self.token_embedding(tokens) + self.position_embedding(positions)", "x = self.token_embedding(tokens)"),
)
edit(
    "LP-02",
    "The positions are counted along the batch axis. Count the tokens of a window: tokens.size(1).",
    ("torch.arange(length, device=tokens.device)", "torch.arange(tokens.size(0), device=tokens.device)"),
)
edit(
    "LP-02b",
    "The positions are counted along the batch axis: each window gets the vector of its place in the batch, and all its "
    "tokens the same. Count the tokens of a window: tokens.size(1).",
    (
        "self.position_embedding(positions)",
        "self.position_embedding(torch.arange(tokens.size(0), device=tokens.device))[:, None]",
    ),
)
edit(
    "LP-03",
    "Each window gets one position vector for all its tokens, so their order is lost.",
    ("self.position_embedding(positions)", "self.position_embedding(positions[-1:])"),
)
edit(
    "LP-04",
    "A window longer than max_len is not refused in words: compare first, and name both lengths in a ValueError.",
    (
        "        if length > self.max_len:\n"
        '            raise ValueError(f"{length} tokens are more than max_len={self.max_len}")\n',
        "",
    ),
)
edit(
    "LP-04b",
    "A window longer than max_len is cut without a word. Raise a ValueError.",
    (
        '            raise ValueError(f"{length} tokens are more than max_len={self.max_len}")\n        positions',
        "            tokens, length = tokens[:, -self.max_len :], self.max_len\n        positions",
    ),
)
edit(
    "LP-04c",
    "The comparison with max_len is off by one: a window of exactly max_len tokens is refused.",
    (
        'if length > self.max_len:\n            raise ValueError(f"{length} tokens '
        'are more than max_len={self.max_len}")\n        positions',
        'if length >= self.max_len:\n            raise ValueError(f"{length} tokens '
        'are more than max_len={self.max_len}")\n        positions',
    ),
)
edit(
    "LP-04d",
    "The error about a window that is too long does not name the lengths.",
    (
        'raise ValueError(f"{length} tokens are more than max_len={self.max_len}")\n        positions',
        'raise ValueError("too long")\n        positions',
    ),
)
edit(
    "BL-21",
    "All layers are one and the same block. Make a new block for each layer.",
    (
        "nn.ModuleList(TransformerBlock(d_model, num_heads, 4 * d_model) for _ in range(num_layers))",
        "nn.ModuleList([TransformerBlock(d_model, num_heads, 4 * d_model)] * num_layers)",
    ),
)
edit(
    "MH-17",
    "The blocks stand in a plain list, where parameters() and .to() do not find them. Use nn.ModuleList.",
    (
        "nn.ModuleList(TransformerBlock(d_model, num_heads, 4 * d_model) for _ in range(num_layers))",
        "[TransformerBlock(d_model, num_heads, 4 * d_model) for _ in range(num_layers)]",
    ),
)
edit(
    "BL-30",
    "Only the last block's result counts: each block reads the embeddings and not the block before it.",
    ("            x = block(x)\n", "            y = block(x)\n        x = y\n"),
)
edit(
    "BL-31",
    "num_layers is ignored: the model has always the same number of blocks.",
    ("for _ in range(num_layers))", "for _ in range(2))"),
)
edit(
    "TR-01",
    "The model returns probabilities. cross_entropy and generate want logits: leave the softmax out.",
    ("return self.head(self.norm(x))", "return self.head(self.norm(x)).softmax(dim=-1)"),
)
edit(
    "TR-02",
    "The model returns logits for the last token only. It has to return them for every token.",
    ("return self.head(self.norm(x))", "return self.head(self.norm(x))[:, -1]"),
)
edit(
    "TR-02b",
    "The logits have their axes swapped: (B, L, V) is asked for.",
    ("return self.head(self.norm(x))", "return self.head(self.norm(x)).transpose(1, 2)"),
)
edit(
    "TR-03",
    "The weights of embedding and output are shared, and the embedding starts with unit variance. The first logits are "
    "then far too large: the first loss should be near ln V.",
    (
        "        self.head = nn.Linear(d_model, vocab_size)\n        ### END SOLUTION\n\n    def forward(self, tokens):\n        ### BEGIN SOLUTION\n        length",
        "        self.head = nn.Linear(d_model, vocab_size)\n        self.head.weight = self.token_embedding.weight\n\n"
        "    def forward(self, tokens):\n        length",
    ),
)
edit(
    "TR-03b",
    "The output layer starts with weights of unit variance. The first logits are then far too large.",
    (
        "        self.head = nn.Linear(d_model, vocab_size)\n        ### END SOLUTION\n\n    def forward(self, tokens):\n        ### BEGIN SOLUTION\n        length",
        "        self.head = nn.Linear(d_model, vocab_size)\n        nn.init.normal_(self.head.weight)\n\n"
        "    def forward(self, tokens):\n        length",
    ),
)
edit(
    "TR-04",
    "The attribute max_len is missing. train and generate read it.",
    (
        "        self.max_len = max_len\n        self.token_embedding",
        "        self.longest = max_len\n        self.token_embedding",
    ),
    (
        '        if length > self.max_len:\n            raise ValueError(f"{length} tokens '
        'are more than max_len={self.max_len}")\n        positions',
        '        if length > self.longest:\n            raise ValueError(f"{length} tokens '
        'are more than max_len={self.longest}")\n        positions',
    ),
)
edit(
    "DV-12",
    "The global random seed is set inside forward. Leave global state alone there.",
    ("        length = tokens.size(1)\n", "        torch.manual_seed(0)\n        length = tokens.size(1)\n"),
)
edit(
    "SD-22",
    "Dropout acts in eval mode, too: two calls with the same tokens differ. Give it training=self.training.",
    ("return self.head(self.norm(x))", "return self.head(F.dropout(self.norm(x), 0.1))"),
)
edit(
    "DV-08",
    "The batch size of the first call is kept for later ones. Read the sizes anew in each call.",
    (
        "        positions = torch.arange(length, device=tokens.device)\n        x = "
        "self.token_embedding(tokens) + self.position_embedding(positions)",
        "        if not hasattr(self, 'shape'):\n            self.shape = tokens.shape\n"
        "        positions = torch.arange(length, device=tokens.device)\n"
        "        x = self.token_embedding(tokens).view(*self.shape, -1) + self.position_embedding(positions)",
    ),
)

# -- training --------------------------------------------------------------------------------------------------------

edit(
    "MK-45",
    "The targets are the inputs themselves. The loss falls to 0 and the "
    "model learns to repeat: shift the targets by one.",
    ("inputs, targets = windows[:, :-1], windows[:, 1:]", "inputs, targets = windows[:, :-1], windows[:, :-1]"),
)
edit(
    "MK-45b",
    "The targets come before the inputs: the model learns to go back in the text. The target is the next token.",
    ("inputs, targets = windows[:, :-1], windows[:, 1:]", "inputs, targets = windows[:, 1:], windows[:, :-1]"),
)
edit(
    "MK-45c",
    "The targets are shifted by two. The target is the next token.",
    ("inputs, targets = windows[:, :-1], windows[:, 1:]", "inputs, targets = windows[:, :-2], windows[:, 2:]"),
)
edit(
    "TR-10",
    "The gradients are never cleared: each step adds those of all earlier ones. zero_grad before backward.",
    ("        optimizer.zero_grad()\n", ""),
)
edit(
    "TR-10b",
    "zero_grad stands between backward and step, so that every step uses gradients of 0.",
    (
        "        optimizer.zero_grad()\n        loss.backward()\n",
        "        loss.backward()\n        optimizer.zero_grad(False)\n",
    ),
)
edit(
    "TR-11",
    "optimizer.step() is missing: gradients are computed, and the weights stay as they were.",
    ("        optimizer.step()\n", ""),
    same_as=("TR-12", "TR-12b"),
)
edit(
    "TR-12",
    "loss.backward() is missing: there are no gradients, and the weights stay as they were.",
    ("        loss.backward()\n", ""),
    same_as=("TR-11", "TR-12b"),
)
edit(
    "TR-12b",
    "A copy of the model is trained. The model that was handed in stays as it was.",
    (
        "    offsets = torch.arange(model.max_len + 1)\n",
        "    offsets = torch.arange(model.max_len + 1)\n    import copy\n"
        "    longest = model.max_len\n    model = copy.deepcopy(model)\n    optimizer "
        "= torch.optim.AdamW(model.parameters(), lr=learning_rate)\n",
    ),
)
edit(
    "TR-13",
    "The losses are tensors, which keep every graph in memory. Append loss.item().",
    ("losses.append(loss.item())", "losses.append(loss)"),
)
edit(
    "TR-13b",
    "Only the last loss is returned. Return the list of all.",
    (
        "        losses.append(loss.item())\n    return losses",
        "        losses.append(loss.item())\n    return losses[-1]",
    ),
)
edit(
    "TR-13c",
    "Nothing is returned. Return the list of losses.",
    ("        losses.append(loss.item())\n    return losses", "        losses.append(loss.item())\n    return None"),
)
edit(
    "TR-14",
    "The loss is a sum over all tokens. Take the mean, so that it can be compared with ln V.",
    (
        "F.cross_entropy(logits.flatten(0, 1), targets.flatten())\n        optimizer",
        "F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction='sum')\n        optimizer",
    ),
)
edit(
    "TR-14b",
    "Softmax is applied before cross_entropy, which applies it itself. The loss can't fall far.",
    (
        "F.cross_entropy(logits.flatten(0, 1), targets.flatten())\n        optimizer",
        "F.cross_entropy(logits.flatten(0, 1).softmax(-1), targets.flatten())\n        optimizer",
    ),
)
edit(
    "TR-14c",
    "The loss is taken of the last token of each window only. Every token of a window has a target.",
    (
        "F.cross_entropy(logits.flatten(0, 1), targets.flatten())\n        optimizer",
        "F.cross_entropy(logits[:, -1], targets[:, -1])\n        optimizer",
    ),
)
edit(
    "TR-15",
    "The windows depend on the global random state, and the seed is ignored. Draw them from a generator with the seed.",
    (
        "torch.randint(len(tokens) - model.max_len, (batch_size, 1), generator=generator)",
        "torch.randint(len(tokens) - model.max_len, (batch_size, 1))",
    ),
)
edit(
    "TR-16",
    "Each step sees the first windows of the text. Draw the windows from all of it.",
    (
        "torch.randint(len(tokens) - model.max_len, (batch_size, 1), generator=generator)",
        "torch.arange(batch_size)[:, None]",
    ),
)
edit(
    "TR-16b",
    "The generator is made anew in each step, so that every batch is the same.",
    (
        "torch.randint(len(tokens) - model.max_len, (batch_size, 1), generator=generator)",
        "torch.randint(len(tokens) - model.max_len, (batch_size, 1), generator=torch.Generator().manual_seed(seed))",
    ),
)
edit(
    "TR-16c",
    "The windows come from the beginning of the text only: the largest start is too small.",
    (
        "torch.randint(len(tokens) - model.max_len, (batch_size, 1), generator=generator)",
        "torch.randint(model.max_len, (batch_size, 1), generator=generator)",
    ),
)
edit(
    "TR-16d",
    "Some windows run over the end of the text. The last start is N - max_len - 1.",
    (
        "torch.randint(len(tokens) - model.max_len, (batch_size, 1), generator=generator)",
        "torch.randint(len(tokens), (batch_size, 1), generator=generator)",
    ),
)
edit(
    "TR-16e",
    "The tokens of a window are drawn one by one from the whole text. A window is a piece of the text.",
    (
        "windows = tokens[(starts + offsets).to(tokens.device)]",
        "windows = tokens[torch.randint(len(tokens), (batch_size, model.max_len + 1), generator=generator)]",
    ),
)
edit(
    "TR-17",
    "batch_size is ignored: each step sees one window.",
    ("(batch_size, 1), generator=generator)", "(1, 1), generator=generator)"),
)
edit(
    "TR-17b",
    "All windows of a batch are one and the same: a single start is drawn and repeated. Draw batch_size starts.",
    (
        "torch.randint(len(tokens) - model.max_len, (batch_size, 1), generator=generator)",
        "torch.randint(len(tokens) - model.max_len, (1, 1), generator=generator).expand(batch_size, 1)",
    ),
)
edit(
    "TR-18",
    "learning_rate is ignored: the optimizer keeps a rate of its own.",
    ("torch.optim.AdamW(model.parameters(), lr=learning_rate)", "torch.optim.AdamW(model.parameters(), lr=3e-2)"),
)
edit(
    "TR-19",
    "The model gets max_len + 1 tokens: inputs are one token shorter than the window.",
    ("logits = model(inputs)\n", "logits = model(windows)[:, :-1]\n"),
)
edit(
    "TR-20",
    "There is one step too few, or one too many. The list holds one loss for each of `steps` steps.",
    ("for _ in range(steps):", "for _ in range(steps - 1):"),
)
edit(
    "TR-21",
    "Only a part of the weights is given to the optimizer. The others stay as they were.",
    (
        "torch.optim.AdamW(model.parameters(), lr=learning_rate)",
        "torch.optim.AdamW(list(model.parameters())[1:], lr=learning_rate)",
    ),
)
edit(
    "TR-22",
    "The step goes uphill: the loss grows. Subtract the gradient.",
    ("        loss.backward()\n", "        (-loss).backward()\n"),
)
edit(
    "TR-23",
    "The stream of tokens is shuffled, and in place. The order of the text is what the model has to learn.",
    (
        "    offsets = torch.arange(model.max_len + 1)\n",
        "    offsets = torch.arange(model.max_len + 1)\n    "
        "tokens.copy_(tokens[torch.randperm(len(tokens), generator=generator)])\n",
    ),
)
edit(
    "TR-24",
    "The learning of gradients is switched off or on for the whole program. Use `with torch.no_grad():` where needed.",
    ("    tokens = prompt\n", "    tokens = prompt\n    torch.set_grad_enabled(False)\n"),
)

# -- generation ------------------------------------------------------------------------------------------------------

edit(
    "GE-01",
    "Temperature 0 divides by 0. It needs a branch of its own, which takes the largest logit.",
    ("            if temperature == 0:\n", "            if temperature < 0:\n"),
)
edit(
    "GE-02",
    "The temperature is ignored.",
    ("torch.softmax(logits / temperature, dim=-1)", "torch.softmax(logits, dim=-1)"),
    same_as=("GE-02c",),
)
edit(
    "GE-02b",
    "The logits are multiplied by the temperature. Dividing by a small one has to sharpen the distribution.",
    ("torch.softmax(logits / temperature, dim=-1)", "torch.softmax(logits * temperature, dim=-1)"),
)
edit(
    "GE-02c",
    "The temperature divides the probabilities, where it has no effect on the draw. Divide the logits.",
    ("torch.softmax(logits / temperature, dim=-1)", "torch.softmax(logits, dim=-1) / temperature"),
    same_as=("GE-02",),
)
edit(
    "GE-03",
    "The most probable token is taken at every temperature. Above 0 the next token is drawn.",
    (
        "following = torch.multinomial(probabilities, 1, generator=generator)",
        "following = probabilities.argmax(-1, keepdim=True)",
    ),
)
edit(
    "GE-04",
    "At temperature 0 a token is drawn. Greedy means the largest logit, with no chance in it.",
    (
        "following = logits.argmax(dim=-1, keepdim=True)",
        "following = torch.multinomial(torch.softmax(logits, dim=-1), 1, generator=generator)",
    ),
)
edit(
    "GE-05",
    "The seed is ignored: the draws depend on the global random state.",
    ("torch.multinomial(probabilities, 1, generator=generator)", "torch.multinomial(probabilities, 1)"),
)
edit(
    "GE-05b",
    "Every call uses the same seed. The argument `seed` has to decide.",
    ("torch.Generator(device=prompt.device).manual_seed(seed)", "torch.Generator(device=prompt.device).manual_seed(0)"),
)
edit(
    "GE-05c",
    "The generator is made anew for each token, so that all draws are the same. Make it once per call.",
    (
        "torch.multinomial(probabilities, 1, generator=generator)",
        "torch.multinomial(probabilities, 1, generator=torch.Generator(device=prompt.device).manual_seed(seed))",
    ),
)
edit(
    "GE-06",
    "The context is not cropped: the model gets more than max_len tokens.",
    ("context = tokens[:, -model.max_len :]", "context = tokens"),
)
edit(
    "GE-06b",
    "The context is cropped to the first max_len tokens. Take the last ones.",
    ("context = tokens[:, -model.max_len :]", "context = tokens[:, : model.max_len]"),
)
edit(
    "GE-06c",
    "The context is one token shorter than it may be. Take max_len tokens.",
    ("context = tokens[:, -model.max_len :]", "context = tokens[:, -model.max_len + 1 :]"),
)
edit(
    "GE-06d",
    "Only the last token is given to the model. It has to see the last max_len tokens.",
    ("context = tokens[:, -model.max_len :]", "context = tokens[:, -1:]"),
)
edit(
    "GE-06e",
    "The result is cropped together with the context, so that the beginning of the text is lost.",
    ("tokens = torch.cat([tokens, following], dim=1)", "tokens = torch.cat([context, following], dim=1)"),
)
edit(
    "GE-06f",
    "The context stays the prompt: new tokens are appended and never read.",
    ("context = tokens[:, -model.max_len :]", "context = prompt[:, -model.max_len :]"),
)
edit(
    "GE-07",
    "The logits of the first token are used. Those of the last one score the next token.",
    ("logits = model(context)[:, -1]\n            if", "logits = model(context)[:, 0]\n            if"),
)
edit(
    "GE-07b",
    "The logits are averaged over the context. Those of the last token score the next one.",
    ("logits = model(context)[:, -1]\n            if", "logits = model(context).mean(1)\n            if"),
)
edit(
    "GE-08",
    "Only the new tokens are returned. The result begins with the prompt.",
    (
        "tokens = torch.cat([tokens, following], dim=1)\n    return tokens",
        "tokens = torch.cat([tokens, following], dim=1)\n    return tokens[:, prompt.size(1) :]",
    ),
)
edit(
    "GE-08b",
    "`length` is taken for the length of the whole text. It is the number of tokens to append.",
    ("for _ in range(length):", "for _ in range(length - prompt.size(1)):"),
)
edit(
    "GE-08c",
    "The prompt is changed in place.",
    ("    tokens = prompt\n", "    tokens = prompt\n    prompt[:, 0] = 0\n"),
)
edit(
    "GE-09",
    "Tokens are drawn from a few candidates only (top-k). The exercise asks for the whole distribution.",
    (
        "probabilities = torch.softmax(logits / temperature, dim=-1)",
        "least = logits.topk(min(3, logits.size(-1))).values[:, -1:]\n"
        "                probabilities = torch.softmax((logits / "
        "temperature).masked_fill(logits < least, float('-inf')), dim=-1)",
    ),
)
edit(
    "GE-10",
    "exp of logits / temperature overflows for a low temperature. Use a stable softmax.",
    ("torch.softmax(logits / temperature, dim=-1)", "(logits / temperature).exp()"),
)
edit(
    "GE-11",
    "The model is trained or changed while it writes. generate leaves the weights alone.",
    (
        "            tokens = torch.cat([tokens, following], dim=1)\n",
        "            tokens = torch.cat([tokens, following], dim=1)\n        "
        "    [p.mul_(1.001) for p in model.parameters()]\n",
    ),
)

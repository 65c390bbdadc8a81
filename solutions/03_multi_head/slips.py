"""Known mistakes of topic 03. Read as text by `autograder.slips`; ids are those of the catalogue of mistakes."""

from autograder.slips import edit, slip

# -- split_heads -----------------------------------------------------------------------------------------------------


@slip("SP-01", "The input is only viewed as (B, H, L, d). That keeps the numbers in their order, so that a head mixes "
    "features of several tokens. The head axis has to be moved there.")
def split_heads(x, num_heads):
    return x.reshape(x.size(0), num_heads, x.size(1), x.size(2) // num_heads)


@slip("SP-02", "Batch and heads are viewed as one axis straight from (B, L, D). That mixes the features of several tokens "
    "within a head.", same_as=("SP-01",))
def split_heads(x, num_heads):
    B, L, D = x.shape
    return x.reshape(B * num_heads, -1, D // num_heads).reshape(B, num_heads, L, D // num_heads)


@slip("SP-02b", "Batch and heads are left in one axis, so that the result has three dimensions instead of four.")
def split_heads(x, num_heads):
    B, L, D = x.shape
    return x.view(B, L, num_heads, D // num_heads).transpose(1, 2).reshape(B * num_heads, L, D // num_heads)


@slip("SP-03", "The features are cut into heads, but the head axis stays behind the length.")
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, x.size(-1) // num_heads))


@slip("SP-04", "The number of heads and the size of a head have changed places.")
def split_heads(x, num_heads):
    return x.unflatten(-1, (x.size(-1) // num_heads, num_heads)).transpose(1, 2)


@slip("SP-04b", "The features are chunked into d pieces of H features. They should be H pieces of d features.",
    same_as=("SP-04",))
def split_heads(x, num_heads):
    d = x.size(-1) // num_heads
    return torch.stack(x.chunk(d, dim=-1), dim=1)


@slip("SP-05", "The input is read as (L, B, D). It is batch first: batch and length are mixed up here.")
def split_heads(x, num_heads):
    B, L, D = x.shape
    return x.reshape(L, B, num_heads, D // num_heads).permute(1, 2, 0, 3)


@slip("SP-06", "The heads come first and the batch second. The result is (B, H, L, d).")
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, x.size(-1) // num_heads)).permute(2, 0, 1, 3)


@slip("SP-07", "Neighbouring features are dealt out to the heads in turn. Head h should hold the d features from h*d on.")
def split_heads(x, num_heads):
    return x.unflatten(-1, (x.size(-1) // num_heads, num_heads)).permute(0, 3, 1, 2)


@slip("SP-08", "Where num_heads does not divide D, the last features are dropped in silence. That should be an error.")
def split_heads(x, num_heads):
    d = x.size(-1) // num_heads
    return torch.stack([x[..., h * d : (h + 1) * d] for h in range(num_heads)], dim=1)


@slip("SP-11", "The axes of the heads are in the wrong order: (B, H, d, L) instead of (B, H, L, d).")
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, x.size(-1) // num_heads)).permute(0, 2, 3, 1)


@slip("SP-12", "view is used in a way that needs the input to lie in one piece. A transposed input raises an error: "
    "reshape works for both.")
def split_heads(x, num_heads):
    B, L, D = x.shape
    return x.view(B * L, D).view(B, L, num_heads, D // num_heads).transpose(1, 2)


@slip("SP-15", "The heads lie in reverse order.")
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, x.size(-1) // num_heads)).transpose(1, 2).flip(1)


@slip("SP-16", "The gradient is cut in split_heads: a detach, .data or numpy call stands in the way.")
def split_heads(x, num_heads):
    return x.detach().unflatten(-1, (num_heads, x.size(-1) // num_heads)).transpose(1, 2)


@slip("SP-17", "split_heads makes a new tensor of float32 on the CPU. Keep dtype and device of x: x.new_empty, or no new "
    "tensor at all.")
def split_heads(x, num_heads):
    d = x.size(-1) // num_heads
    out = torch.zeros(x.size(0), num_heads, x.size(1), d)
    for h in range(num_heads):
        out[:, h] = x[:, :, h * d : h * d + d]
    return out


@slip("SP-17b", "split_heads makes a new tensor on the CPU, which fails on a GPU. Hand on the device of x.")
def split_heads(x, num_heads):
    d = x.size(-1) // num_heads
    if d * num_heads != x.size(-1):
        raise ValueError(f"{x.size(-1)} features, {num_heads} heads")
    out = torch.zeros(x.size(0), num_heads, x.size(1), d, dtype=x.dtype)
    for h in range(num_heads):
        out[:, h] = x[:, :, h * d : h * d + d]
    return out


@slip("SP-18", "split_heads always cuts into the same number of heads. Use the argument num_heads.")
def split_heads(x, num_heads):
    return x.unflatten(-1, (8, x.size(-1) // 8)).transpose(1, 2)


# -- merge_heads -----------------------------------------------------------------------------------------------------


@slip("SP-09", "The heads are merged by a reshape alone. The tokens have to come in front of the heads first, or a row "
    "of the result mixes several tokens.")
def merge_heads(x):
    B, H, L, d = x.shape
    return x.reshape(B, L, H * d)


@slip("SP-10", "The heads are interleaved: feature 0 of every head, then feature 1. They belong side by side, head by "
    "head.")
def merge_heads(x):
    return x.permute(0, 2, 3, 1).flatten(2)


@slip("SP-13", "The heads are averaged. Concatenate them, so that each keeps its own d features.")
def merge_heads(x):
    return x.mean(dim=1)


@slip("SP-13b", "The heads are added up. Concatenate them, so that each keeps its own d features.")
def merge_heads(x):
    return x.sum(dim=1)


@slip("SP-13c", "The largest value of all heads is taken. Concatenate the heads, so that each keeps its own d features.")
def merge_heads(x):
    return x.amax(dim=1)


@slip("SP-14", "The heads are concatenated along the length. They belong side by side in the features.")
def merge_heads(x):
    return torch.cat(x.unbind(1), dim=1)


@slip("SP-19", "After transpose the numbers do not lie in order, and view refuses. Use reshape or flatten, or call "
    "contiguous first.")
def merge_heads(x):
    B, H, L, d = x.shape
    return x.transpose(1, 2).view(B, L, H * d)


@slip("SP-19b", "merge_heads undoes the cut, but leaves heads and features as two axes.")
def merge_heads(x):
    return x.transpose(1, 2)


@slip("SP-20", "The heads are merged in reverse order.")
def merge_heads(x):
    return x.flip(1).transpose(1, 2).flatten(2)


@slip("SP-21", "The merge swaps tokens and features within a head: (B, H, d, L) is not what comes in.")
def merge_heads(x):
    B, H, L, d = x.shape
    return x.transpose(2, 3).reshape(B, H * d, L).reshape(B, L, H * d)


@slip("SP-22", "The gradient is cut in merge_heads: a detach, .data or numpy call stands in the way.")
def merge_heads(x):
    return x.detach().transpose(1, 2).flatten(2)


@slip("SP-23", "merge_heads makes a new tensor of float32 on the CPU. Keep dtype and device of x: x.new_empty, or no new "
    "tensor at all.")
def merge_heads(x):
    B, H, L, d = x.shape
    out = torch.zeros(B, L, H * d)
    for h in range(H):
        out[:, :, h * d : h * d + d] = x[:, h]
    return out


@slip("SP-23b", "merge_heads makes a new tensor on the CPU, which fails on a GPU. Hand on the device of x.")
def merge_heads(x):
    B, H, L, d = x.shape
    out = torch.zeros(B, L, H * d, dtype=x.dtype)
    for h in range(H):
        out[:, :, h * d : h * d + d] = x[:, h]
    return out


edit(
    "SP-24",
    "Features are dealt out to the heads in turn, and merged so. The two undo each other, but head h should hold the d "
    "features from h*d on.",
    (
        "x.unflatten(-1, (num_heads, x.size(-1) // num_heads)).transpose(1, 2)",
        "x.unflatten(-1, (x.size(-1) // num_heads, num_heads)).permute(0, 3, 1, 2)",
    ),
    ("x.transpose(1, 2).flatten(2)", "x.permute(0, 2, 3, 1).flatten(2)"),
    same_as=("SP-07", "SP-10"),
)

# -- parameter_count -------------------------------------------------------------------------------------------------

edit(
    "PC-01",
    "The count leaves out the biases: each of the four layers has one unless bias is False.",
    ("(d_model if bias else 0)", "0"),
)
edit(
    "PC-02",
    "The count ignores `bias`: without biases there are fewer parameters.",
    ("(d_model if bias else 0)", "d_model"),
)
edit(
    "PC-03",
    "The count has three layers. The output projection W_o is the fourth.",
    ("return 4 * per_layer", "return 3 * per_layer"),
)
edit(
    "PC-04",
    "The count multiplies by the number of heads. The heads share out the D features, so their number does not matter.",
    ("return 4 * per_layer", "return 4 * per_layer * num_heads"),
)
edit(
    "PC-05",
    "The count takes each head's layers as (d, d). A head's projection reads all D features of a token.",
    (
        "per_layer = d_model * d_model + (d_model if bias else 0)",
        "head = d_model // num_heads\n    per_layer = num_heads * (head * head + (head if bias else 0))",
    ),
)
edit(
    "PC-05b",
    "The count has one (d, d) layer for all heads. A head's projection reads all D features of a token, and every head "
    "has its own.",
    (
        "per_layer = d_model * d_model + (d_model if bias else 0)",
        "head = d_model // num_heads\n    per_layer = head * head + (head if bias else 0)",
    ),
)
edit(
    "PC-06",
    "The count has a single bias in all, or one for each head. Each layer has a bias of D numbers.",
    ("(d_model if bias else 0)", "(1 if bias else 0)"),
)
edit(
    "PC-07",
    "The count is a float. Division with / gives one even where nothing is left over: use whole numbers throughout.",
    ("return 4 * per_layer", "return 4 * num_heads * (per_layer / num_heads)"),
)
edit(
    "PC-08",
    "The count leaves out the bias of W_o.",
    ("return 4 * per_layer", "return 4 * per_layer - (d_model if bias else 0)"),
)


@slip("PC-09", "The count builds a layer, which takes its memory and draws from the global random state. A formula "
    "needs neither.")
def parameter_count(d_model, num_heads, bias=True):
    return sum(p.numel() for p in MultiHeadAttention(d_model, num_heads, bias).parameters())


# -- sizes and layers ------------------------------------------------------------------------------------------------

edit(
    "MH-30",
    "The constructor accepts sizes that do not fit. d_model // num_heads drops what is left over: raise a ValueError.",
    ("if d_model % num_heads != 0:", "if False:"),
)
edit(
    "MH-30b",
    "The constructor compares d_model and num_heads the wrong way round.",
    ("d_model % num_heads != 0", "num_heads % d_model != 0"),
)
edit(
    "MH-31",
    "The error for sizes that do not fit has no message, or one without the numbers. Whoever reads it wants to know "
    "d_model and num_heads.",
    (
        'raise ValueError(f"d_model={d_model} can\'t be cut into num_heads={num_heads} heads of equal size")',
        'raise ValueError("d_model must be divisible by num_heads")',
    ),
)
edit(
    "MH-31b",
    "The assert about the sizes has no message. Add one that names d_model and num_heads.",
    (
        'raise ValueError(f"d_model={d_model} can\'t be cut into num_heads={num_heads} heads of equal size")',
        "assert d_model % num_heads == 0",
    ),
)
edit(
    "MH-32",
    "The constructor has no argument `bias`.",
    ("def __init__(self, d_model, num_heads, bias=True):\n        super().__init__()",
     "def __init__(self, d_model, num_heads):\n        super().__init__()\n        bias = True"),
)
edit(
    "MH-33",
    "The argument `bias` is ignored: the layers always have one.",
    ("self.W_q = nn.Linear(d_model, d_model, bias=bias)", "bias = True\n        self.W_q = nn.Linear(d_model, d_model, bias=bias)"),
)
edit(
    "MH-33b",
    "`bias` reaches W_q, W_k and W_v, but not W_o.",
    ("self.W_o = nn.Linear(d_model, d_model, bias=bias)", "self.W_o = nn.Linear(d_model, d_model)"),
)
edit(
    "MH-34",
    "The layers have no bias unless asked. The default is bias=True.",
    ("def __init__(self, d_model, num_heads, bias=True)", "def __init__(self, d_model, num_heads, bias=False)"),
)
edit(
    "MH-34b",
    "The layers never have a bias. The argument `bias` says whether they have, and its default is True.",
    ("self.W_q = nn.Linear(d_model, d_model, bias=bias)", "bias = False\n        self.W_q = nn.Linear(d_model, d_model, bias=bias)"),
)


@slip("MH-17", "The layers stand in a plain Python list, so that the module does not know them: they have no names, and "
    ".to() and the optimizer miss them.")
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model={d_model}, num_heads={num_heads}")
        self.num_heads = num_heads
        self.layers = [nn.Linear(d_model, d_model, bias=bias) for _ in range(4)]

    def forward(self, q, k, v, mask=None):
        W_q, W_k, W_v, W_o = self.layers
        q, k, v = (split_heads(t, self.num_heads) for t in (W_q(q), W_k(k), W_v(v)))
        return W_o(merge_heads(ready_attention(q, k, v, mask)))


@slip("MH-18", "One linear layer serves for several projections. W_q, W_k, W_v and W_o need weights of their own.")
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model={d_model}, num_heads={num_heads}")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = [nn.Linear(d_model, d_model, bias=bias)] * 4

    def forward(self, q, k, v, mask=None):
        q, k, v = (split_heads(t, self.num_heads) for t in (self.W_q(q), self.W_k(k), self.W_v(v)))
        return self.W_o(merge_heads(ready_attention(q, k, v, mask)))


@slip("MH-04", "The features are split before they are projected, and one (d, d) layer serves all heads. Project the D "
    "features first, then split.")
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model={d_model}, num_heads={num_heads}")
        self.num_heads = num_heads
        d = d_model // num_heads
        self.W_q, self.W_k, self.W_v = (nn.Linear(d, d, bias=bias) for _ in range(3))
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, q, k, v, mask=None):
        q, k, v = (split_heads(t, self.num_heads) for t in (q, k, v))
        return self.W_o(merge_heads(ready_attention(self.W_q(q), self.W_k(k), self.W_v(v), mask)))


@slip("MH-35", "The projections have the size of one head, (d, D), so that there is only one head. Each maps D features "
    "to D.")
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model={d_model}, num_heads={num_heads}")
        d = d_model // num_heads
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, d, bias=bias) for _ in range(3))
        self.W_o = nn.Linear(d, d_model, bias=bias)

    def forward(self, q, k, v, mask=None):
        return self.W_o(ready_attention(self.W_q(q), self.W_k(k), self.W_v(v), mask))


@slip("MH-36", "One fused layer makes queries, keys and values. The exercise asks for W_q, W_k and W_v by name.")
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model={d_model}, num_heads={num_heads}")
        self.num_heads = num_heads
        self.W_qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, q, k, v, mask=None):
        W, b = self.W_qkv.weight.chunk(3), self.W_qkv.bias
        b = (None,) * 3 if b is None else b.chunk(3)
        q, k, v = (split_heads(F.linear(t, w, c), self.num_heads) for t, w, c in zip((q, k, v), W, b, strict=True))
        return self.W_o(merge_heads(ready_attention(q, k, v, mask)))


edit(
    "MH-37",
    "The weights are frozen (requires_grad=False), so that training can't change them.",
    (
        "self.W_o = nn.Linear(d_model, d_model, bias=bias)",
        "self.W_o = nn.Linear(d_model, d_model, bias=bias)\n        self.requires_grad_(False)",
    ),
)

# -- projections and wiring ------------------------------------------------------------------------------------------

edit(
    "MH-05",
    "The values are projected with W_k. They have a layer of their own, W_v.",
    ("self.W_v(v)", "self.W_k(v)"),
)
edit(
    "MH-06",
    "The keys are projected with W_q. They have a layer of their own, W_k.",
    ("self.W_k(k)", "self.W_q(k)"),
)
edit(
    "MH-08",
    "The projections multiply by the weights alone and leave out the biases. Call the layers.",
    ("self.W_q(q)", "F.linear(q, self.W_q.weight)"),
    ("self.W_k(k)", "F.linear(k, self.W_k.weight)"),
    ("self.W_v(v)", "F.linear(v, self.W_v.weight)"),
)
edit(
    "MH-08b",
    "The values are projected without the bias of W_v.",
    ("self.W_v(v)", "F.linear(v, self.W_v.weight)"),
)
edit(
    "MH-08c",
    "The queries are projected without the bias of W_q.",
    ("self.W_q(q)", "F.linear(q, self.W_q.weight)"),
)
edit(
    "MH-09",
    "The output projection leaves out the bias of W_o.",
    ("self.W_o(merge_heads(weights @ values))", "F.linear(merge_heads(weights @ values), self.W_o.weight)"),
)
edit(
    "MH-07",
    "x @ W is not what a linear layer does: it multiplies by the transposed weight. Call the layers.",
    ("self.W_q(q)", "F.linear(q, self.W_q.weight.T, self.W_q.bias)"),
    ("self.W_k(k)", "F.linear(k, self.W_k.weight.T, self.W_k.bias)"),
    ("self.W_v(v)", "F.linear(v, self.W_v.weight.T, self.W_v.bias)"),
)
edit(
    "MH-10",
    "Keys and values are made from q, so that the memory of cross-attention is ignored. Keys come from k, values from v.",
    ("self.W_k(k)", "self.W_k(q)"),
    ("self.W_v(v)", "self.W_v(q)"),
)
edit(
    "MH-12",
    "The values are made from k, and v is ignored. Keys and values may come from different tensors.",
    ("self.W_v(v)", "self.W_v(k)"),
)
edit(
    "MH-12b",
    "The keys are made from v, and k is ignored. Keys and values may come from different tensors.",
    ("self.W_k(k)", "self.W_k(v)"),
)
edit(
    "SD-17",
    "Keys and values have changed places: the scores are made with the values, and the keys are averaged.",
    (
        "scores = (queries / math.sqrt(queries.size(-1)))",
        "keys, values = values, keys\n        scores = (queries / math.sqrt(queries.size(-1)))",
    ),
)
edit(
    "MH-13",
    "The keys are viewed with the length of the queries. L and S differ in cross-attention: take the length of k.",
    (
        "keys = split_heads(self.W_k(k), self.num_heads)",
        "keys = self.W_k(k).view(-1, q.size(1), self.num_heads, q.size(2) // self.num_heads).transpose(1, 2)",
    ),
    (
        "values = split_heads(self.W_v(v), self.num_heads)",
        "values = self.W_v(v).view(-1, q.size(1), self.num_heads, q.size(2) // self.num_heads).transpose(1, 2)",
    ),
)
edit(
    "MH-13b",
    "The keys are viewed with the length of the queries. L and S differ in cross-attention: take the length of k.",
    (
        "keys = split_heads(self.W_k(k), self.num_heads)",
        "n = (q.size(0), q.size(1), self.num_heads, q.size(2) // self.num_heads)\n"
        "        keys = self.W_k(k).view(n).transpose(1, 2)",
    ),
    (
        "values = split_heads(self.W_v(v), self.num_heads)",
        "values = self.W_v(v).view(n).transpose(1, 2)",
    ),
)
edit(
    "MH-20",
    "A ReLU acts on the projections. They are linear: no activation belongs there.",
    ("self.W_q(q)", "self.W_q(q).relu()"),
    ("self.W_k(k)", "self.W_k(k).relu()"),
    ("self.W_v(v)", "self.W_v(v).relu()"),
)
edit(
    "MH-20b",
    "A ReLU acts on the output. The output projection is linear: no activation belongs there.",
    ("self.W_o(merge_heads(weights @ values))", "self.W_o(merge_heads(weights @ values)).relu()"),
)
edit(
    "MH-21",
    "The input is added to the output. The residual connection belongs to the Transformer block, not to this layer.",
    ("return self.W_o(merge_heads(weights @ values))", "return q + self.W_o(merge_heads(weights @ values))"),
)
edit(
    "MH-21b",
    "The output is normalised. The layer norm belongs to the Transformer block, not to this layer.",
    (
        "return self.W_o(merge_heads(weights @ values))",
        "out = self.W_o(merge_heads(weights @ values))\n        return F.layer_norm(out, out.shape[-1:])",
    ),
)
edit(
    "MH-22",
    "The attention is computed, but not used: the output does not depend on it. Look at what W_o gets.",
    ("self.W_o(merge_heads(weights @ values))", "self.W_o(q)"),
)
edit(
    "MH-22b",
    "The merged heads are returned as they are. The output projection W_o is missing.",
    ("self.W_o(merge_heads(weights @ values))", "merge_heads(weights @ values)"),
)
edit(
    "MH-23",
    "W_o is applied to the queries' projection of v before the attention. It belongs after the merge.",
    ("self.W_v(v)", "self.W_o(self.W_v(v))"),
    ("return self.W_o(merge_heads(weights @ values))", "return merge_heads(weights @ values)"),
)
edit(
    "MH-23b",
    "The heads are not merged by merge_heads but reshaped, so that a row of the result mixes several tokens.",
    ("merge_heads(weights @ values)", "(weights @ values).reshape(q.shape)"),
    same_as=("SP-09",),
)
edit(
    "MH-24",
    "The attention runs over the batch: tokens of one sample see those of another. The length is axis 1 of the inputs.",
    ("        queries = split_heads", "        q, k, v = q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)\n        queries = split_heads"),
    (
        "return self.W_o(merge_heads(weights @ values))",
        "return self.W_o(merge_heads(weights @ values)).transpose(0, 1)",
    ),
)
edit(
    "MH-26",
    "Keys and values of an earlier call are kept and used again. Each call has to make its own.",
    (
        "        scores = (queries",
        "        if not hasattr(self, 'kept') or self.kept[0].shape != keys.shape:\n"
        "            self.kept = keys, values\n        keys, values = self.kept\n        scores = (queries",
    ),
)
edit(
    "MH-27",
    "The layer returns a pair. The exercise asks for the output alone.",
    ("return self.W_o(merge_heads(weights @ values))", "return self.W_o(merge_heads(weights @ values)), weights"),
)
edit(
    "DV-08",
    "The batch size and the length of the first call are kept. A later call may have other sizes.",
    (
        "        queries = split_heads",
        "        self.sizes = getattr(self, 'sizes', q.shape)\n        queries = split_heads",
    ),
    ("merge_heads(weights @ values)", "merge_heads(weights @ values).reshape(self.sizes)"),
)
edit(
    "SD-22",
    "Dropout acts although nobody asked for it: two calls with the same inputs differ. Leave it out here.",
    ("merge_heads(weights @ values)", "merge_heads(F.dropout(weights, 0.5) @ values)"),
)
edit(
    "SD-22b",
    "Dropout with a fixed rate acts in training mode. The exercise has no dropout: leave it out.",
    ("merge_heads(weights @ values)", "merge_heads(F.dropout(weights, 0.1, self.training) @ values)"),
    same_as=("SD-22",),
)

# -- scale, softmax, products ----------------------------------------------------------------------------------------

edit(
    "MH-01",
    "The scale is 1/sqrt(d_model). It has to be 1/sqrt(d), with d the size of one head.",
    ("math.sqrt(queries.size(-1))", "math.sqrt(q.size(-1))"),
)
edit(
    "MH-02",
    "The scale is made from the number of heads. It has to be 1/sqrt(d), with d the size of one head.",
    ("math.sqrt(queries.size(-1))", "math.sqrt(self.num_heads)"),
)
edit(
    "SD-01",
    "The scores are not scaled: the factor 1/sqrt(d) is missing.",
    ("(queries / math.sqrt(queries.size(-1)))", "queries"),
)
edit(
    "SD-02",
    "The scores are divided by d, not by its square root.",
    ("math.sqrt(queries.size(-1))", "queries.size(-1)"),
)
edit(
    "SD-04",
    "The scale is applied to the weights, after the softmax. It belongs to the scores, before it.",
    ("(queries / math.sqrt(queries.size(-1)))", "queries"),
    ("merge_heads(weights @ values)", "merge_heads(weights / math.sqrt(queries.size(-1)) @ values)"),
)
edit(
    "SD-05",
    "The scale comes from the number of keys, not from the size of a head.",
    ("math.sqrt(queries.size(-1))", "math.sqrt(keys.size(-2))"),
)
edit(
    "SD-05b",
    "The scale comes from the number of queries, not from the size of a head.",
    ("math.sqrt(queries.size(-1))", "math.sqrt(queries.size(-2))"),
)
edit(
    "SD-07",
    "The scores are multiplied by sqrt(d); they have to be divided by it.",
    ("queries / math.sqrt(queries.size(-1))", "queries * math.sqrt(queries.size(-1))"),
)
edit(
    "SD-08",
    "The softmax runs over the queries. Each query's weights over the keys have to sum to 1: use the last axis.",
    ("weights = torch.softmax(scores, dim=-1)\n", "weights = torch.softmax(scores, dim=-2)\n"),
    ("torch.softmax(scores, dim=-1).masked", "torch.softmax(scores, dim=-2).masked"),
)
edit(
    "SD-09",
    "The softmax runs over the heads. Each query's weights over the keys have to sum to 1: use the last axis.",
    ("weights = torch.softmax(scores, dim=-1)\n", "weights = torch.softmax(scores, dim=1)\n"),
    ("torch.softmax(scores, dim=-1).masked", "torch.softmax(scores, dim=1).masked"),
)
edit(
    "SD-11",
    "The softmax runs over the batch. Each query's weights over the keys have to sum to 1: use the last axis.",
    ("weights = torch.softmax(scores, dim=-1)\n", "weights = torch.softmax(scores, dim=0)\n"),
    ("torch.softmax(scores, dim=-1).masked", "torch.softmax(scores, dim=0).masked"),
)
edit(
    "SD-19",
    "There is no softmax: the scores themselves weigh the values.",
    ("weights = torch.softmax(scores, dim=-1)\n", "weights = scores\n"),
    ("torch.softmax(scores, dim=-1).masked", "scores.masked"),
)
edit(
    "SD-12",
    "keys.transpose(1, 2) swaps heads and tokens. The last two axes have to be swapped.",
    ("keys.transpose(-2, -1)", "keys.transpose(1, 2)"),
)
edit(
    "SD-14",
    "The keys are reshaped to (d, S), which mixes their entries up. Swap the two axes instead.",
    ("keys.transpose(-2, -1)", "keys.reshape(*keys.shape[:-2], keys.size(-1), keys.size(-2))"),
)
edit(
    "SD-16",
    "The weights are transposed before the product with the values.",
    ("weights @ values", "weights.transpose(-2, -1) @ values"),
)
edit(
    "SD-18",
    "Keys and values are cut to the number of queries. L and S may differ.",
    ("self.W_k(k)", "self.W_k(k[:, : q.size(1)])"),
    ("self.W_v(v)", "self.W_v(v[:, : q.size(1)])"),
)
edit(
    "MH-28",
    "The scores are made without splitting the projections: one head of D features attends, and the split of the values "
    "changes nothing.",
    (
        "scores = (queries / math.sqrt(queries.size(-1))) @ keys.transpose(-2, -1)",
        "queries, keys = (merge_heads(t).unsqueeze(1) for t in (queries, keys))\n"
        "        scores = (queries / math.sqrt(queries.size(-1))) @ keys.transpose(-2, -1)",
    ),
)

# -- masks -----------------------------------------------------------------------------------------------------------

edit(
    "MK-01",
    "The mask is inverted: True means may attend, and here it blocks.",
    ("keep = mask.to(torch.bool)", "keep = ~mask.to(torch.bool)"),
)
edit(
    "MK-02",
    "The mask has no effect. masked_fill returns a new tensor: is its result assigned, and is the mask used as it came?",
    ("scores = scores.masked_fill(", "scores.masked_fill("),
    (".masked_fill(~keep, 0.0)", ""),
)
edit(
    "MK-51",
    "The argument `mask` is never used.",
    ("if mask is None:", "if True:"),
    same_as=("MK-02",),
)
edit(
    "MK-04",
    "The scores are multiplied by the mask. A score of 0 is not a weight of 0: exp(0) is 1. Fill with -inf.",
    ('scores.masked_fill(~keep & ~nowhere, float("-inf"))', "scores * keep"),
    (".masked_fill(~keep, 0.0)", ""),
    same_as=("MK-05",),
)
edit(
    "MK-05",
    "Blocked scores are set to 0 or to a small positive number. exp of that is about 1: fill with -inf.",
    ('~keep & ~nowhere, float("-inf")', "~keep, 1e-9"),
    (".masked_fill(~keep, 0.0)", ""),
    same_as=("MK-04",),
)
edit(
    "MK-05b",
    "Blocked scores are filled with a large positive number. They then take all the weight: fill with -inf.",
    ('~keep & ~nowhere, float("-inf")', "~keep, 1e9"),
    (".masked_fill(~keep, 0.0)", ""),
)
edit(
    "MK-06",
    "The mask is added to the scores as 0 and 1. That shifts them by 1 and blocks nothing.",
    ('scores.masked_fill(~keep & ~nowhere, float("-inf"))', "scores + keep.to(scores.dtype)"),
    (".masked_fill(~keep, 0.0)", ""),
)
edit(
    "MK-08",
    "(1 - mask) is multiplied by -inf. Where a key is kept this is 0 times infinity, which is NaN.",
    ('scores.masked_fill(~keep & ~nowhere, float("-inf"))', 'scores + (~keep).to(scores.dtype) * float("-inf")'),
    (".masked_fill(~keep, 0.0)", ""),
)
edit(
    "MK-09",
    "Blocked scores are filled with a number such as -1e4. Where the kept scores are lower still, blocked keys win: "
    "use -inf.",
    ('~keep & ~nowhere, float("-inf")', "~keep, -1e4"),
    (".masked_fill(~keep, 0.0)", ""),
)
edit(
    "MK-09b",
    "Blocked scores are filled with a number such as -1e4. Where the kept scores are lower still, blocked keys take "
    "their weight: use -inf.",
    ('~keep & ~nowhere, float("-inf")', "~keep, -1e4"),
)
edit(
    "MK-10",
    "Blocked scores are lowered by 1e9. In a row that may attend nowhere all keys are lowered alike and still share the "
    "weight: those rows have to be zeros.",
    ('scores.masked_fill(~keep & ~nowhere, float("-inf"))', "scores + (~keep).to(scores.dtype) * -1e9"),
    (".masked_fill(~keep, 0.0)", ""),
    same_as=("MK-10b", "MK-14"),
)
edit(
    "MK-10b",
    "Blocked scores are lowered by a number such as 1e4. Where a blocked key's score is far above the others it still "
    "gets weight, and a row that may attend nowhere is not zeros: use -inf.",
    ('scores.masked_fill(~keep & ~nowhere, float("-inf"))', "scores + (~keep).to(scores.dtype) * -1e4"),
    (".masked_fill(~keep, 0.0)", ""),
    same_as=("MK-10",),
)
edit(
    "MK-13",
    "A row that may attend nowhere is -inf throughout, and its softmax is NaN. Those rows of the weights have to be "
    "zeros.",
    ("~keep & ~nowhere", "~keep"),
    (".masked_fill(~keep, 0.0)", ""),
)
edit(
    "MK-14",
    "Blocked scores are filled with the lowest finite number. A row that may attend nowhere then gets equal weights; "
    "those rows have to be zeros.",
    ('~keep & ~nowhere, float("-inf")', "~keep, torch.finfo(scores.dtype).min"),
    (".masked_fill(~keep, 0.0)", ""),
    same_as=("MK-10", "MK-14b"),
)
edit(
    "MK-14b",
    "Blocked scores are filled with -1e9. float16 can't hold that number, and a row that may attend nowhere gets equal "
    "weights. Fill with -inf, and put zeros into those rows of the weights.",
    ('~keep & ~nowhere, float("-inf")', "~keep, -1e9"),
    (".masked_fill(~keep, 0.0)", ""),
    same_as=("MK-14",),
)
edit(
    "MK-14e",
    "A row that may attend nowhere is left as it was, and attends to all keys. Those rows of the weights have to be zeros.",
    (".masked_fill(~keep, 0.0)", ""),
)
edit(
    "MK-14c",
    "Blocked scores are filled with -1e9, which float16 can't hold. -inf fits every dtype.",
    ('~keep & ~nowhere, float("-inf")', "~keep, -1e9"),
)
edit(
    "MK-15",
    "NaN is replaced after the attention, in the output. The gradients still hold NaN: replace it in the weights, or "
    "keep those rows finite.",
    ("~keep & ~nowhere", "~keep"),
    (".masked_fill(~keep, 0.0)", ""),
    ("merge_heads(weights @ values)", "merge_heads(torch.nan_to_num(weights @ values))"),
)
edit(
    "MK-15b",
    "-inf is added to the scores, and the NaN of a row that may attend nowhere is replaced in the weights. The gradients "
    "still hold NaN: make that row finite before the softmax.",
    (
        'scores.masked_fill(~keep & ~nowhere, float("-inf"))',
        'scores + torch.zeros_like(scores).masked_fill(~keep, float("-inf"))',
    ),
)
edit(
    "MK-15c",
    "The rows that may attend nowhere are zeroed after the output projection. The zeros belong into it, so that the "
    "bias of W_o still comes out.",
    (
        "return self.W_o(merge_heads(weights @ values))",
        "out = self.W_o(merge_heads(weights @ values))\n"
        "        if mask is None or mask.dim() < 4:\n            return out\n"
        "        return out.masked_fill(~keep.any(-1).all(1).unsqueeze(-1), 0.0)",
    ),
)
edit(
    "MK-17",
    "The mask is transposed: it blocks queries where it should block keys.",
    ("keep = mask.to(torch.bool)", "keep = mask.to(torch.bool).transpose(-2, -1)"),
)
edit(
    "MK-18",
    "The mask gets an axis for the heads, although it is made for (B, H, L, S) already. Its axes then meet the wrong ones.",
    ("keep = mask.to(torch.bool)", "keep = mask.to(torch.bool).unsqueeze(1)"),
)
edit(
    "MK-18b",
    "A mask of three dimensions gets a new axis for the heads. Broadcast it as it is: its first axis already is the "
    "one of the heads.",
    (
        "keep = mask.to(torch.bool)",
        "keep = mask.to(torch.bool)\n            keep = keep.unsqueeze(1) if keep.dim() == 3 else keep",
    ),
)
edit(
    "MK-18c",
    "A mask of two dimensions is read as one line for each sample. It is (L, S): broadcast it as it is.",
    (
        "keep = mask.to(torch.bool)",
        "keep = mask.to(torch.bool)\n            keep = keep[:, None, None] if keep.dim() == 2 else keep",
    ),
)
edit(
    "MK-18d",
    "The mask of each sample meets the axis of the heads: the batch axis of the mask is in the wrong place.",
    (
        "keep = mask.to(torch.bool)",
        "keep = mask.to(torch.bool)\n"
        "            keep = keep.transpose(0, 1) if keep.dim() == 4 and keep.size(1) == 1 else keep",
    ),
)
edit(
    "MK-20",
    "The masks are repeated for the heads in another order than the scores, so that one sample gets another one's mask. "
    "Compare repeat with repeat_interleave.",
    (
        "            nowhere = ~keep",
        "            B, H, L, S = scores.shape\n"
        "            if keep.dim() == 4 and keep.size(1) == 1:\n"
        "                keep = keep.expand(B, 1, L, S).reshape(B, L, S).repeat(H, 1, 1).view(B, H, L, S)\n"
        "            nowhere = ~keep",
    ),
)
edit(
    "MK-21",
    "Only the first head is masked. The mask has to act on all of them.",
    (
        "            nowhere = ~keep",
        "            keep = keep.expand(scores.shape).clone()\n            keep[:, 1:] = True\n            nowhere = ~keep",
    ),
)
edit(
    "MK-21b",
    "The mask of the first head acts on all heads. A mask may differ from head to head.",
    (
        "            nowhere = ~keep",
        "            keep = keep.expand(scores.shape)[:, :1]\n            nowhere = ~keep",
    ),
)
edit(
    "MK-21c",
    "The mask of the first sample acts on all samples. A mask may differ from sample to sample.",
    (
        "            nowhere = ~keep",
        "            keep = keep.expand(scores.shape)[:1]\n            nowhere = ~keep",
    ),
)
edit(
    "MK-34",
    "~mask is taken of an integer mask. That flips bits: ~1 is -2, which still counts as true. Convert to bool first.",
    ("keep = mask.to(torch.bool)", "keep = mask if mask.dtype == torch.bool else ~(~mask).to(torch.bool)"),
)
edit(
    "MK-36",
    "masked_fill takes boolean masks only. An integer mask has to be converted first: mask.bool() or mask == 0.",
    (
        "keep = mask.to(torch.bool)",
        "keep = mask if mask.dtype == torch.bool else scores.masked_fill(mask, 0.0)",
    ),
)
edit(
    "MK-36b",
    "Only a mask entry of exactly 1 lets through. Every integer but 0 has to.",
    ("keep = mask.to(torch.bool)", "keep = mask == 1"),
)
edit(
    "MK-36c",
    "An integer mask is handed to torch's attention as it is, and added to the scores or refused. Convert it to bool.",
    (
        "        scores = (queries",
        "        if mask is not None and mask.dtype != torch.bool:\n"
        "            heads = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)\n"
        "            return self.W_o(merge_heads(heads))\n"
        "        scores = (queries",
    ),
)
edit(
    "MK-41",
    "The caller's mask is changed in place. Work on a new tensor.",
    ("keep = mask.to(torch.bool)", "keep = mask.to(torch.bool).clone()\n            mask.fill_(1)"),
)
edit(
    "MK-50",
    "The mask acts on the weights after the softmax. The rows then no longer sum to 1.",
    ('scores.masked_fill(~keep & ~nowhere, float("-inf"))', "scores"),
)
edit(
    "MK-52",
    "The mask acts on the weights after the softmax, and they are divided by their sum. A row that may attend nowhere "
    "becomes 0/0.",
    ('scores.masked_fill(~keep & ~nowhere, float("-inf"))', "scores"),
    (
        "weights = torch.softmax(scores, dim=-1).masked_fill(~keep, 0.0)",
        "weights = torch.softmax(scores, dim=-1).masked_fill(~keep, 0.0)\n"
        "            weights = weights / weights.sum(dim=-1, keepdim=True)",
    ),
)

# -- dtypes, devices, gradients --------------------------------------------------------------------------------------

edit(
    "SD-20",
    "The layer computes in float32 and does not cast back: W_o then meets another dtype, or the result has one. Cast "
    "to the dtype of the inputs.",
    ("weights @ values", "weights.float() @ values.float()"),
    same_as=('SD-20b',),
)
edit(
    "SD-20b",
    "The inputs are cast to float32, which the weights need not have. Leave the inputs in their dtype.",
    (
        "        queries = split_heads",
        "        q, k, v = q.float(), k.float(), v.float()\n        queries = split_heads",
    ),
    same_as=('SD-20',),
)
edit(
    "DV-05",
    "The result is float32, whatever came in. Return the dtype of the inputs.",
    ("return self.W_o(merge_heads(weights @ values))", "return self.W_o(merge_heads(weights @ values)).float()"),
)
edit(
    "DV-04",
    "A constant of float32 meets tensors of another dtype. Make it with the dtype of the inputs.",
    ("weights @ values", "(weights * torch.ones(1)) @ values"),
    same_as=("DV-01",),
)
edit(
    "DV-01",
    "A tensor is made on the CPU in forward. On a GPU it meets tensors of another device: pass device=q.device.",
    (
        "        scores = (queries",
        "        queries = queries + torch.zeros(queries.shape, dtype=q.dtype)\n        scores = (queries",
    ),
    same_as=('DV-06', 'DV-01b'),
)
edit(
    "DV-01b",
    "A tensor for the mask is made on the CPU. On a GPU it meets tensors of another device: pass device=q.device.",
    ("keep = mask.to(torch.bool)", "keep = mask.to(torch.bool) & torch.ones(k.size(1), dtype=torch.bool)"),
    same_as=('DV-01', 'DV-06'),
)
edit(
    "DV-02",
    ".cuda() stands in the code. It fails where there is no GPU: leave the device to the caller.",
    ("        queries = split_heads", "        q = q.cuda()\n        queries = split_heads"),
)
edit(
    "DV-06",
    "The scale is a tensor that was made in the constructor and is no buffer, so that .to() does not move it. A Python "
    "number will do.",
    (
        "        self.num_heads = num_heads\n",
        "        self.num_heads = num_heads\n        self.scale = torch.tensor([d_model / num_heads]).sqrt()\n",
    ),
    ("math.sqrt(queries.size(-1))", "self.scale.to(q.dtype)"),
    same_as=('DV-01', 'DV-01b'),
)
edit(
    "DV-06b",
    "The scale is a tensor of float32 that .double() and .to() do not reach. A Python number will do.",
    (
        "        self.num_heads = num_heads\n",
        "        self.num_heads = num_heads\n        self.scale = torch.tensor([d_model / num_heads]).sqrt()\n",
    ),
    ("math.sqrt(queries.size(-1))", "self.scale"),
    same_as=('DV-04',),
)
edit(
    "DV-09",
    "The computation goes through numpy, so that no gradient reaches the inputs.",
    (
        "        scores = (queries",
        "        queries, keys, values = (torch.from_numpy(t.detach().float().numpy()).to(t.dtype)\n"
        "            for t in (queries, keys, values))\n        scores = (queries",
    ),
)
edit(
    "DV-10",
    "The gradient is cut on its way to the keys: a detach, .data or no_grad stands in the way.",
    ("keys.transpose(-2, -1)", "keys.detach().transpose(-2, -1)"),
)
edit(
    "DV-10b",
    "The gradient is cut in the weights: a detach, .data or no_grad stands in the way.",
    ("weights @ values", "weights.detach() @ values"),
)
edit(
    "DV-10c",
    "The forward runs under torch.no_grad, so that nothing can be trained.",
    (
        '    def forward(self, q, k, v, mask=None):\n        """q: (B, L, D).',
        '    @torch.no_grad()\n    def forward(self, q, k, v, mask=None):\n        """q: (B, L, D).',
    ),
)
edit(
    "DV-12",
    "The global random seed is set inside forward. Leave global state alone.",
    ("        scores = (queries", "        torch.manual_seed(0)\n        scores = (queries"),
)
edit(
    "DV-13",
    "The caller's tensor is changed in place: q, k and v have to stay as they are.",
    ("        queries = split_heads", "        with torch.no_grad():\n            q /= 2\n            q *= 2\n        queries = split_heads"),
)

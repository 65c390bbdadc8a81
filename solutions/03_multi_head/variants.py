"""Right answers to topic 03, written differently. Each must earn full marks."""

from autograder.slips import edit, variant


class Layers(nn.Module):
    """Constructor shared by variants that differ in forward only."""

    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} features, {num_heads} heads")
        self.h, self.d = num_heads, d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias)
        self.W_k = nn.Linear(d_model, d_model, bias)
        self.W_v = nn.Linear(d_model, d_model, bias)
        self.W_o = nn.Linear(d_model, d_model, bias)


# -- split_heads -----------------------------------------------------------------------------------------------------


@variant("V22", "split by reshape and permute")
def split_heads(x, num_heads):
    B, L, D = x.shape
    return x.reshape(B, L, num_heads, D // num_heads).permute(0, 2, 1, 3)


@variant("V22b", "split by view with -1, made contiguous")
def split_heads(x, num_heads):
    return x.view(x.size(0), x.size(1), num_heads, -1).transpose(1, 2).contiguous()


@variant("V22c", "split by a stack of slices, with a check of its own")
def split_heads(x, num_heads):
    D = x.shape[-1]
    assert D % num_heads == 0, f"{D} features can't be shared by {num_heads} heads"
    d = D // num_heads
    return torch.stack([x[..., h * d : (h + 1) * d] for h in range(num_heads)], 1)


@variant("V22d", "split by chunks that are concatenated along a new axis")
def split_heads(x, num_heads):
    if x.size(2) % num_heads:
        raise ValueError(f"{x.size(2)} is no multiple of {num_heads}")
    return torch.cat([part[:, None] for part in torch.chunk(x, num_heads, dim=2)], dim=1)


@variant("V22e", "split by gathering features into a new tensor of the same kind")
def split_heads(x, num_heads):
    B, L, D = x.shape
    if D % num_heads:
        raise ValueError(f"D={D}, num_heads={num_heads}")
    d = D // num_heads
    out = x.new_empty(B, num_heads, L, d)
    for h in range(num_heads):
        out[:, h] = x[:, :, h * d : h * d + d]
    return out


@variant("V22f", "split by swapping the axes first")
def split_heads(x, num_heads):
    return x.transpose(1, 2).unflatten(1, (num_heads, -1)).transpose(-2, -1)


@variant("V22g", "split by einsum with a table of ones, one for each place of a feature")
def split_heads(x, num_heads):
    d = x.size(-1) // num_heads
    table = torch.eye(num_heads * d, dtype=x.dtype, device=x.device).view(num_heads * d, num_heads, d)
    return torch.einsum("blf,fhd->bhld", x, table)


# -- merge_heads -----------------------------------------------------------------------------------------------------


@variant("V23", "merge by contiguous and view")
def merge_heads(x):
    B, H, L, d = x.shape
    return x.transpose(1, 2).contiguous().view(B, L, H * d)


@variant("V23b", "merge by concatenating the heads")
def merge_heads(x):
    return torch.cat([x[:, h] for h in range(x.shape[1])], dim=-1)


@variant("V23c", "merge by permute and reshape with -1")
def merge_heads(x):
    return x.permute(0, 2, 1, 3).reshape(x.size(0), x.size(2), -1)


@variant("V23d", "merge by swapping the axes of each head first")
def merge_heads(x):
    return x.transpose(-2, -1).flatten(1, 2).transpose(1, 2)


@variant("V23e", "merge into a new tensor of the same kind")
def merge_heads(x):
    B, H, L, d = x.shape
    out = torch.empty(B, L, H, d, dtype=x.dtype, device=x.device)
    for h in range(H):
        out[:, :, h, :] = x[:, h]
    return out.view(B, L, -1)


# -- parameter_count -------------------------------------------------------------------------------------------------


@variant("V90", "the count by layers and rows")
def parameter_count(d_model, num_heads, bias=True):
    inputs = d_model + int(bias)
    return sum(d_model * inputs for _ in ("q", "k", "v", "o"))


@variant("V90b", "the count head by head")
def parameter_count(d_model, num_heads, bias=True):
    d = d_model // num_heads
    one = 3 * (d_model * d + bias * d)
    return num_heads * one + d_model**2 + bias * d_model


# -- the layer -------------------------------------------------------------------------------------------------------


@variant("V01", "torch's fused attention")
class MultiHeadAttention(Layers):
    def forward(self, q, k, v, mask=None):
        q, k, v = (split_heads(w(t), self.h) for w, t in ((self.W_q, q), (self.W_k, k), (self.W_v, v)))
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask.bool())
        return self.W_o(merge_heads(heads))


@variant("V01b", "the stand-ins of the notebook")
class MultiHeadAttention(Layers):
    def forward(self, q, k, v, mask=None):
        q, k, v = (ready_split(w(t), self.h) for w, t in ((self.W_q, q), (self.W_k, k), (self.W_v, v)))
        return self.W_o(ready_merge(ready_attention(q, k, v, mask)))


@variant("V03", "batched products, with batch and heads in one axis")
class MultiHeadAttention(Layers):
    def forward(self, q, k, v, mask=None):
        B, L, D = q.shape
        S = k.shape[1]

        def flat(t):
            return t.reshape(B, -1, self.h, self.d).transpose(1, 2).reshape(B * self.h, -1, self.d)

        q, k, v = flat(self.W_q(q)), flat(self.W_k(k)), flat(self.W_v(v))
        scores = torch.bmm(q, k.transpose(1, 2)) / self.d**0.5
        if mask is None:
            weights = scores.softmax(-1)
        else:
            keep = (mask != 0).expand(B, self.h, L, S).reshape(B * self.h, L, S)
            weights = scores.masked_fill(~keep, -torch.inf).softmax(-1).nan_to_num(0.0)
        return self.W_o(torch.bmm(weights, v).view(B, self.h, L, self.d).transpose(1, 2).reshape(B, L, D))


@variant("V04", "baddbmm with the scale as its factor")
class MultiHeadAttention(Layers):
    def forward(self, q, k, v, mask=None):
        B, L, D = q.shape
        S = k.size(1)
        q, k, v = (split_heads(t, self.h).flatten(0, 1) for t in (self.W_q(q), self.W_k(k), self.W_v(v)))
        bias = q.new_zeros(1, L, S)
        if mask is not None:
            bias = q.new_zeros(B, self.h, L, S).masked_fill(mask == 0, -math.inf).flatten(0, 1)
        weights = torch.baddbmm(bias.nan_to_num(neginf=0.0), q, k.mT, alpha=self.d**-0.5)
        weights = (weights.masked_fill(bias == -math.inf, -math.inf)).softmax(-1).nan_to_num()
        return self.W_o(merge_heads((weights @ v).unflatten(0, (B, self.h))))


@variant("V06", "queries and keys are each scaled by the fourth root, and the scale is a buffer")
class MultiHeadAttention(Layers):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__(d_model, num_heads, bias)
        self.register_buffer("root", torch.tensor(self.d**-0.25, dtype=torch.float64), persistent=False)

    def forward(self, q, k, v, mask=None):
        q, k, v = (split_heads(t, self.h) for t in (self.W_q(q), self.W_k(k), self.W_v(v)))
        scores = (q * self.root) @ (k * self.root).mT
        if mask is None:
            return self.W_o(merge_heads(scores.softmax(-1) @ v))
        scores = torch.where(mask != 0, scores, -torch.inf)
        weights = scores.softmax(-1)
        return self.W_o(merge_heads(torch.where(weights.isnan(), torch.zeros_like(weights), weights) @ v))


@variant("V09", "products by broadcasting and summing")
class MultiHeadAttention(Layers):
    def forward(self, q, k, v, mask=None):
        q, k, v = (split_heads(t, self.h) for t in (self.W_q(q), self.W_k(k), self.W_v(v)))
        scores = (q.unsqueeze(3) * k.unsqueeze(2)).sum(-1) / math.sqrt(self.d)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -torch.inf)
        weights = scores.softmax(-1)
        if mask is not None:
            weights = weights.masked_fill(mask == 0, 0)
        return self.W_o(merge_heads((weights.unsqueeze(-1) * v.unsqueeze(2)).sum(3)))


@variant("V10", "exponentials times values, divided by their sum at the end")
class MultiHeadAttention(Layers):
    def forward(self, q, k, v, mask=None):
        q, k, v = (split_heads(t, self.h) for t in (self.W_q(q), self.W_k(k), self.W_v(v)))
        scores = q @ k.mT / math.sqrt(self.d)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -torch.inf)
        top = scores.detach().amax(-1, keepdim=True)
        e = (scores - top.masked_fill(top.isinf(), 0.0)).exp()
        total = e.sum(-1, keepdim=True)
        return self.W_o(merge_heads(e @ v / total.masked_fill(total == 0, 1.0)))


@variant("V12", "softmax in float32 for half precision, then cast back")
class MultiHeadAttention(Layers):
    def forward(self, q, k, v, mask=None):
        q, k, v = (split_heads(t, self.h) for t in (self.W_q(q), self.W_k(k), self.W_v(v)))
        scores = (q @ k.transpose(2, 3)) * (1 / math.sqrt(self.d))
        if scores.dtype != torch.float64:
            scores = scores.float()
        if mask is not None:
            keep = mask.bool()
            scores = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1).type_as(v)
        if mask is not None:
            weights = weights * keep
        return self.W_o(merge_heads(weights @ v))


@variant("V15", "the attention in float64, cast back before the output projection")
class MultiHeadAttention(Layers):
    def forward(self, q, k, v, mask=None):
        kind = q.dtype
        q, k, v = (split_heads(t, self.h).double() for t in (self.W_q(q), self.W_k(k), self.W_v(v)))
        scores = q @ k.mT / math.sqrt(self.d)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -math.inf)
        weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
        if mask is not None:
            weights = weights.masked_fill(mask == 0, 0.0)
        return self.W_o(merge_heads(weights @ v).to(kind))


@variant("V20", "one product with the three weights side by side")
class MultiHeadAttention(Layers):
    def forward(self, q, k, v, mask=None):
        weight = torch.cat([self.W_q.weight, self.W_k.weight, self.W_v.weight])
        bias = None
        if self.W_q.bias is not None:
            bias = torch.cat([self.W_q.bias, self.W_k.bias, self.W_v.bias])
        n = weight.size(1)
        q = F.linear(q, weight, bias)[..., :n]
        k = F.linear(k, weight, bias)[..., n : 2 * n]
        v = F.linear(v, weight, bias)[..., 2 * n :]
        heads = ready_attention(*(t.unflatten(-1, (self.h, self.d)).transpose(1, 2) for t in (q, k, v)), mask)
        return self.W_o(heads.transpose(1, 2).flatten(2))


@variant("V21", "torch's own function, with separate weights and its opposite mask")
class MultiHeadAttention(Layers):
    def forward(self, q, k, v, mask=None):
        B, L, D = q.shape
        S = k.size(1)
        blocked = None
        if mask is not None:
            blocked = (mask == 0).expand(B, self.h, L, S).reshape(B * self.h, L, S)
        bias = self.W_q.bias
        if bias is not None:
            bias = torch.cat([self.W_q.bias, self.W_k.bias, self.W_v.bias])
        out, _ = F.multi_head_attention_forward(
            q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1), D, self.h, None, bias, None, None, False, 0.0,
            self.W_o.weight, self.W_o.bias, training=self.training, need_weights=False, attn_mask=blocked,
            use_separate_proj_weight=True, q_proj_weight=self.W_q.weight, k_proj_weight=self.W_k.weight,
            v_proj_weight=self.W_v.weight,
        )
        return out.transpose(0, 1)


@variant("V24", "heads stay behind the length, and einsum finds them")
class MultiHeadAttention(Layers):
    def forward(self, q, k, v, mask=None):
        q, k, v = (t.unflatten(-1, (self.h, self.d)) for t in (self.W_q(q), self.W_k(k), self.W_v(v)))
        scores = torch.einsum("blhd,bshd->bhls", q, k) / math.sqrt(self.d)
        if mask is not None:
            scores = scores.masked_fill(mask.logical_not(), float("-inf"))
        weights = torch.nan_to_num(torch.softmax(scores, -1), nan=0.0)
        return self.W_o(torch.einsum("bhls,bshd->blhd", weights, v).flatten(2))


@variant("V26", "a loop over heads, each with its rows of the weights; the outputs are added through columns of W_o")
class MultiHeadAttention(Layers):
    def forward(self, q, k, v, mask=None):
        out = 0
        for h in range(self.h):
            rows = slice(h * self.d, (h + 1) * self.d)

            def project(layer, t, rows=rows):
                return F.linear(t, layer.weight[rows], None if layer.bias is None else layer.bias[rows])

            scores = project(self.W_q, q) @ project(self.W_k, k).mT / math.sqrt(self.d)
            if mask is not None:
                keep = mask.bool().expand(q.size(0), self.h, q.size(1), k.size(1))[:, h]
                scores = scores.masked_fill(~keep, -torch.inf)
            weights = scores.softmax(-1).nan_to_num(0.0)
            out = out + F.linear(weights @ project(self.W_v, v), self.W_o.weight[:, rows])
        return out if self.W_o.bias is None else out + self.W_o.bias


@variant("V27", "the weights are kept as an attribute for a plot")
class MultiHeadAttention(Layers):
    def forward(self, q, k, v, mask=None):
        q, k, v = (split_heads(t, self.h) for t in (self.W_q(q), self.W_k(k), self.W_v(v)))
        scores = q @ k.mT / math.sqrt(self.d)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        self.attn = scores.softmax(-1).nan_to_num(0.0)
        return self.W_o(merge_heads(self.attn @ v))


@variant("V30", "layers that take their size from the first input")
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        assert d_model % num_heads == 0, f"d_model {d_model} is no multiple of num_heads {num_heads}"
        self.h = num_heads
        for name in ("W_q", "W_k", "W_v", "W_o"):
            setattr(self, name, nn.LazyLinear(d_model, bias=bias))

    def forward(self, q, k, v, mask=None):
        q, k, v = (split_heads(t, self.h) for t in (self.W_q(q), self.W_k(k), self.W_v(v)))
        return self.W_o(merge_heads(ready_attention(q, k, v, mask)))


class Affine(nn.Module):
    """A linear layer made by hand."""

    def __init__(self, size, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size, size))
        nn.init.xavier_uniform_(self.weight)
        self.bias = nn.Parameter(torch.zeros(size)) if bias else None

    def forward(self, x):
        y = torch.einsum("...i,oi->...o", x, self.weight)
        return y if self.bias is None else y + self.bias


@variant("V32", "linear layers made by hand, with another initial state, and a dropout of 0")
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        d, rest = divmod(d_model, num_heads)
        if rest:
            raise ValueError("can't share %d features among %d heads" % (d_model, num_heads))
        self.num_heads, self.scale = num_heads, 1 / math.sqrt(d)
        self.W_o, self.W_v, self.W_k, self.W_q = (Affine(d_model, bias) for _ in range(4))
        self.dropout = nn.Dropout(0.0)

    def forward(self, q, k, v, mask=None):
        q = split_heads(self.W_q(q), self.num_heads) * self.scale
        k, v = split_heads(self.W_k(k), self.num_heads), split_heads(self.W_v(v), self.num_heads)
        scores = torch.matmul(q, k.transpose(-1, -2))
        if mask is not None:
            keep = mask.to(dtype=torch.bool, device=scores.device)
            bias = torch.zeros_like(scores).masked_fill(~keep, float("-inf"))
            scores = scores + torch.where(keep.any(-1, keepdim=True), bias, 0.0)
        weights = self.dropout(torch.softmax(scores, dim=-1))
        if mask is not None:
            weights = weights * keep.any(-1, keepdim=True)
        return self.W_o(merge_heads(weights @ v))


@variant("V51", "a loop over the samples")
class MultiHeadAttention(Layers):
    def forward(self, q, k, v, mask=None):
        rows = []
        keep = None if mask is None else mask.bool().expand(q.size(0), self.h, q.size(1), k.size(1))
        for b in range(q.size(0)):
            a, c, e = (t.view(-1, self.h, self.d).transpose(0, 1) for t in (
                self.W_q(q[b]), self.W_k(k[b]), self.W_v(v[b])))
            scores = a @ c.transpose(1, 2) / math.sqrt(self.d)
            if keep is not None:
                scores = scores.masked_fill(~keep[b], -torch.inf)
            heads = scores.softmax(-1).nan_to_num(0.0) @ e
            rows.append(self.W_o(heads.transpose(0, 1).reshape(q.size(1), -1)))
        return torch.stack(rows)


@variant("V57", "temporaries changed in place after their last use")
class MultiHeadAttention(Layers):
    def forward(self, q, k, v, mask=None):
        q, k, v = (split_heads(t, self.h) for t in (self.W_q(q), self.W_k(k), self.W_v(v)))
        scores = (q @ k.transpose(-2, -1)).div_(math.sqrt(self.d))
        if mask is not None:
            scores.masked_fill_(mask == 0, float("-inf"))
        weights = scores.softmax(-1)
        if mask is not None:
            weights = weights.masked_fill(mask == 0, 0)
        return self.W_o(merge_heads(weights @ v))


edit(
    "V52",
    "positions of the mask as an additive bias that is made once more for each call",
    (
        'scores.masked_fill(~keep & ~nowhere, float("-inf"))',
        "scores + torch.zeros(keep.shape, dtype=scores.dtype, device=scores.device)"
        '.masked_fill(~keep & ~nowhere, float("-inf"))',
    ),
)

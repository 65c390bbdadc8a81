"""Topics 02, 03, 04 and 09 against torch's attention, x-transformers, and torch's counter of operations."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.bias import causal_lower_right
from torch.utils.flop_counter import FlopCounterMode

SDPA, MHA = "torch F.sdpa", "torch nn.MultiheadAttention"
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
SIZES = ((5, 7), (7, 5), (1, 6), (6, 1))


def inputs(length, source, dtype=torch.float64, d=8, d_v=8):
    shapes = ((2, 3, length, d), (2, 3, source, d), (2, 3, source, d_v))
    return [torch.randn(shape, dtype=torch.float64).to(dtype) for shape in shapes]


def random_mask(*shape):
    """Keeps about two thirds, and at least one key in each row."""
    mask = torch.rand(shape) < 0.66
    return mask.scatter(-1, torch.randint(shape[-1], (*shape[:-1], 1)), True)


@pytest.mark.parametrize("length, source", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_scaled_dot_product(topic, agree, length, source, dtype):
    ours = topic("02_scaled_dot_product").scaled_dot_product_attention
    q, k, v = inputs(length, source, dtype, d_v=4)
    agree(SDPA, "02 attention, no mask", ours(q, k, v)[0], F.scaled_dot_product_attention(q, k, v))
    mask = random_mask(2, 1, length, source)
    theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    agree(SDPA, "02 attention, boolean mask", ours(q, k, v, mask)[0], theirs)
    mask[0, 0, 0] = False  # both sides give zeros in a row that may attend nowhere (torch from 2.5 on)
    theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    agree(SDPA, "02 attention, a row that may attend nowhere", ours(q, k, v, mask)[0], theirs)


@pytest.mark.parametrize("dim", (-1, 0, 1))
def test_softmax(topic, agree, dim):
    x = torch.randn(4, 5, 6, dtype=torch.float64) * 50
    agree("torch F.softmax", "02 softmax", topic("02_scaled_dot_product").softmax(x, dim=dim), F.softmax(x, dim=dim))


def torch_mha(ours, d_model, num_heads, bias):
    """nn.MultiheadAttention with our weights; it keeps W_q, W_k and W_v in one matrix, one below the other."""
    theirs = nn.MultiheadAttention(d_model, num_heads, bias=bias, batch_first=True).double().eval()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.W_q.weight, ours.W_k.weight, ours.W_v.weight]))
        theirs.out_proj.weight.copy_(ours.W_o.weight)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([ours.W_q.bias, ours.W_k.bias, ours.W_v.bias]))
            theirs.out_proj.bias.copy_(ours.W_o.bias)
    return theirs


def randomised(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64) * 0.3)
    return module


@pytest.mark.parametrize("bias", (True, False))
@pytest.mark.parametrize("length, source", SIZES)
def test_multi_head(topic, agree, bias, length, source):
    ours = randomised(topic("03_multi_head").MultiHeadAttention(12, 3, bias=bias).double().eval())
    theirs = torch_mha(ours, 12, 3, bias)
    q, k, v = (torch.randn(2, n, 12, dtype=torch.float64) for n in (length, source, source))
    agree(MHA, "03 MultiHeadAttention", ours(q, k, v), theirs(q, k, v)[0])
    mask = random_mask(2, 3, length, source)
    # Their mask says what is blocked, and has one axis for batch and heads.
    blocked = ~mask.flatten(0, 1)
    agree(MHA, "03 MultiHeadAttention, masked", ours(q, k, v, mask), theirs(q, k, v, attn_mask=blocked)[0])
    count = topic("03_multi_head").parameter_count(12, 3, bias=bias)
    assert count == sum(p.numel() for p in theirs.parameters())


def test_multi_head_gradients(topic, agree):
    ours = randomised(topic("03_multi_head").MultiHeadAttention(12, 3).double().eval())
    theirs = torch_mha(ours, 12, 3, True)
    q, k = (torch.randn(2, n, 12, dtype=torch.float64, requires_grad=True) for n in (5, 7))
    for module, call in ((ours, lambda: ours(q, k, k)), (theirs, lambda: theirs(q, k, k)[0])):
        q.grad = k.grad = None
        call().sin().sum().backward()
        module.kept = [q.grad, k.grad]
    agree(MHA, "03 gradient of the queries", ours.kept[0], theirs.kept[0])
    agree(MHA, "03 gradient of the keys", ours.kept[1], theirs.kept[1])
    agree(MHA, "03 gradient of W_o", ours.W_o.weight.grad, theirs.out_proj.weight.grad)


@pytest.mark.parametrize("kv_heads", (1, 3))
def test_x_transformers_attention(topic, agree, kv_heads):
    library = pytest.importorskip("x_transformers.x_transformers")
    # In float32: their softmax runs in float32 whatever the input.
    theirs = library.Attention(12, dim_head=4, heads=3, kv_heads=kv_heads).eval()
    ours = topic("03_multi_head").MultiHeadAttention(12, 3, bias=False).eval()
    with torch.no_grad():
        for mine, other in (("W_q", theirs.to_q), ("W_k", theirs.to_k), ("W_v", theirs.to_v), ("W_o", theirs.to_out)):
            weight = other.weight
            if weight.size(0) != 12:  # with one head of keys and values, ours has its rows three times
                weight = weight.repeat(3, 1)
            getattr(ours, mine).weight.copy_(weight)
    x, context = torch.randn(2, 5, 12), torch.randn(2, 7, 12)
    # They take a boolean mask as we do: True may attend.
    keep = torch.arange(7) < torch.tensor([[7], [4]])
    got = theirs(x, context=context, context_mask=keep)
    agree("x-transformers", "03 MultiHeadAttention, padding mask", ours(x, context, context, keep[:, None, None]), got)


@pytest.mark.parametrize("length, source", SIZES)
def test_masks(topic, agree, length, source):
    ours = topic("04_masking")
    q, k, v = inputs(length, source)
    mask = random_mask(2, 1, length, source)
    mask[1, 0, -1] = False
    theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    agree(SDPA, "04 masked_attention, a row that may attend nowhere", ours.masked_attention(q, k, v, mask)[0], theirs)
    if length <= source:
        # Aligned to the end, which F.sdpa(is_causal=True) is not: it aligns to the start.
        theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(length, source))
        causal = ours.causal_mask(length, source)
        agree(SDPA + " lower right", "04 causal_mask", ours.masked_attention(q, k, v, causal)[0], theirs)


def test_mha_masks(topic, agree):
    """nn.MultiheadAttention takes boolean masks with True = blocked, and additive ones; keep_from_mha reads both."""
    masks = topic("04_masking")
    attention = randomised(topic("03_multi_head").MultiHeadAttention(12, 3).double().eval())
    theirs = torch_mha(attention, 12, 3, True)
    x = torch.randn(2, 6, 12, dtype=torch.float64)
    blocked = ~random_mask(6, 6)
    additive = torch.zeros(6, 6, dtype=torch.float64).masked_fill(blocked, float("-inf"))
    for name, mask in (("boolean", blocked), ("additive", additive)):
        keep = masks.keep_from_mha(mask)
        agree(MHA, f"04 keep_from_mha, {name}", attention(x, x, x, keep), theirs(x, x, x, attn_mask=mask)[0])
    lengths = torch.tensor([6, 4])
    padding = masks.padding_mask(lengths)
    got = theirs(x, x, x, key_padding_mask=~padding[:, 0, 0], attn_mask=~masks.causal_mask(6))[0]
    both = masks.combine_masks(padding, masks.causal_mask(6))
    agree(MHA, "04 padding and causal masks combined", attention(x, x, x, both), got)
    bias = masks.additive_mask(both, dtype=torch.float64)
    q, k, v = inputs(6, 6)
    agree(
        SDPA,
        "04 additive_mask",
        F.scaled_dot_product_attention(q, k, v, attn_mask=bias),
        F.scaled_dot_product_attention(q, k, v, attn_mask=both),
    )


@pytest.mark.parametrize("length, source", (*SIZES, (130, 200)))
def test_gpu_topic(topic, agree, length, source):
    ours = topic("09_gpu")
    q, k, v = inputs(length, source, torch.float32)
    mask = random_mask(2, 1, length, source)
    mask[0, 0, 0] = False
    theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    agree(SDPA, "09 blockwise_attention", ours.blockwise_attention(q, k, v, mask, block_size=32), theirs)
    agree(SDPA, "09 fast_attention", ours.fast_attention(q, k, v, mask), theirs)
    if length <= source:
        theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(length, source))
        agree(SDPA + " lower right", "09 fast_attention, causal", ours.fast_attention(q, k, v, causal=True), theirs)


def test_flops(topic, agree):
    q, k, v = torch.randn(2, 3, 50, 16), torch.randn(2, 3, 70, 16), torch.randn(2, 3, 70, 24)
    with FlopCounterMode(display=False) as counter:
        (q @ k.mT).softmax(-1) @ v
    flops = topic("09_gpu").attention_cost(2, 3, 50, 70, 16, 24, 4)[0]
    agree(
        "torch FlopCounterMode",
        "09 attention_cost, operations",
        torch.tensor(float(flops)),
        torch.tensor(float(counter.get_total_flops())),
        atol=0,
    )

"""Topics 07, 10 and 11 against attention layers and blocks of transformers and of torch, weights converted."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

HF = pytest.importorskip("transformers")

from transformers.models.bloom import modeling_bloom  # noqa: E402
from transformers.models.gpt2 import modeling_gpt2  # noqa: E402
from transformers.models.llama import modeling_llama  # noqa: E402
from transformers.models.mpt import modeling_mpt  # noqa: E402

FLOAT64 = torch.float64


def randomised(module, std=0.3):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=FLOAT64) * std)
    return module


def blocked(keep, dtype):
    """0 where kept, the lowest number where blocked: the additive mask of transformers."""
    return torch.zeros(keep.shape, dtype=dtype).masked_fill(~keep, torch.finfo(dtype).min)


def causal(length, source=None):
    source = length if source is None else source
    return torch.ones(length, source, dtype=torch.bool).tril(source - length)


# -- topics 07 and 10: Llama's attention -----------------------------------------------------------------------------


def llama_attention(d_model, heads, kv_heads, bias, base=10000.0):
    config = HF.LlamaConfig(
        hidden_size=d_model, num_attention_heads=heads, num_key_value_heads=kv_heads, intermediate_size=8,
        num_hidden_layers=1, vocab_size=11, attention_bias=bias, attn_implementation="eager",
        rope_parameters={"rope_type": "default", "rope_theta": base},
    )  # fmt: skip
    attention = randomised(modeling_llama.LlamaAttention(config, layer_idx=0).eval())
    return attention, modeling_llama.LlamaRotaryEmbedding(config)


def copy_llama(ours, theirs):
    state = theirs.state_dict()
    names = {"W_q": "q_proj", "W_k": "k_proj", "W_v": "v_proj", "W_o": "o_proj"}
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            mine, kind = name.split(".")
            parameter.copy_(state[f"{names[mine]}.{kind}"])
    return ours.eval()


# float32 on both sides: Llama's angles are float32 whatever the input. Sums of 24 products of numbers near 1.
LLAMA_ATOL = 64 * torch.finfo(torch.float32).eps * 4


@pytest.mark.parametrize("bias", (True, False))
@pytest.mark.parametrize("base", (10000.0, 500.0))
def test_rotary_attention(topic, agree, bias, base):
    theirs, rotary = llama_attention(24, 3, 3, bias, base)
    ours = copy_llama(topic("07_rotary").RotaryMultiHeadAttention(24, 3, base=base, bias=bias), theirs)
    x = torch.randn(2, 7, 24)
    for offset in (0, 40):
        where = rotary(x, (torch.arange(7) + offset)[None])
        got, _ = theirs(x, where, attention_mask=None)
        agree("transformers Llama", "07 RotaryMultiHeadAttention", ours(x, offset=offset), got, atol=LLAMA_ATOL)
        got, _ = theirs(x, where, attention_mask=blocked(causal(7), torch.float32))
        mine = ours(x, mask=causal(7), offset=offset)
        agree("transformers Llama", "07 RotaryMultiHeadAttention, causal", mine, got, atol=LLAMA_ATOL)


@pytest.mark.parametrize("kv_heads", (1, 2, 4))
@pytest.mark.parametrize("chunks", ((9,), (3, 1, 5), (2, 7), (1,) * 9))
def test_grouped_query_attention(topic, agree, kv_heads, chunks):
    """The same chunks through Llama's attention with its DynamicCache and through ours with a KVCache."""
    theirs, rotary = llama_attention(24, 4, kv_heads, bias=True)
    ours = copy_llama(topic("10_decoding").GroupedQueryAttention(24, 4, kv_heads), theirs)
    x, cache, other, start = torch.randn(2, 9, 24), topic("10_decoding").KVCache(), HF.DynamicCache(), 0
    mine, got = [], []
    with torch.no_grad():
        for size in chunks:
            chunk, end = x[:, start : start + size], start + size
            mine.append(ours(chunk, cache))
            where = rotary(x, torch.arange(start, end)[None])
            got.append(theirs(chunk, where, attention_mask=blocked(causal(size, end), torch.float32), cache=other)[0])
            start = end
    mine, got = torch.cat(mine, 1), torch.cat(got, 1)
    agree("transformers Llama", "10 GroupedQueryAttention with a cache", mine, got, atol=LLAMA_ATOL)
    agree("transformers Llama", "10 GroupedQueryAttention, whole", ours(x), got, atol=LLAMA_ATOL)
    assert cache.length == other.get_seq_length() == 9


@pytest.mark.parametrize("repeats", (1, 2, 3))
def test_repeat_kv(topic, agree, repeats):
    x = torch.randn(2, 2, 5, 4)
    ours = topic("10_decoding").repeat_kv(x, repeats)
    agree("transformers Llama", "10 repeat_kv", ours, modeling_llama.repeat_kv(x, repeats), atol=0)
    q = torch.randn(2, 2 * repeats, 3, 4)
    theirs = F.scaled_dot_product_attention(q, x, x, enable_gqa=True)
    agree("torch F.sdpa", "10 repeat_kv, enable_gqa", F.scaled_dot_product_attention(q, ours, ours), theirs)


# -- topic 06 in whole layers: BLOOM and MPT -------------------------------------------------------------------------


@pytest.mark.parametrize("heads", (3, 4))
def test_alibi_layers(topic, agree, heads):
    """Their attention with their bias row equals plain attention with our bias, under a causal mask."""
    length, d = 7, 4
    d_model = heads * d
    x = torch.randn(2, length, d_model)
    bias = topic("06_relative_positions").alibi_bias(heads, length).masked_fill(~causal(length), float("-inf"))

    def ours(q, k, v):
        out = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), attn_mask=bias)
        return out.transpose(1, 2).reshape(2, length, d_model)

    bloom = modeling_bloom.BloomAttention(HF.BloomConfig(hidden_size=d_model, n_head=heads, hidden_dropout=0.0), 0)
    bloom = randomised(bloom.eval())
    alibi = modeling_bloom.build_alibi_tensor(torch.ones(2, length), heads, torch.float32)
    mask = blocked(causal(length), torch.float32)[None, None]
    theirs, _ = bloom(x, torch.zeros_like(x), alibi, mask)
    # BLOOM packs q, k and v head by head.
    q, k, v = bloom.query_key_value(x).view(2, length, heads, 3, d).unbind(3)
    agree("transformers BLOOM", "06 attention with alibi_bias", bloom.dense(ours(q, k, v)), theirs)
    mpt = randomised(modeling_mpt.MptAttention(HF.MptConfig(d_model=d_model, n_heads=heads), 0).eval())
    theirs, _ = mpt(x, modeling_mpt.build_mpt_alibi_tensor(heads, length), attention_mask=~causal(length))
    q, k, v = (t.view(2, length, heads, d) for t in mpt.Wqkv(x).chunk(3, dim=-1))
    agree("transformers MPT", "06 attention with alibi_bias", mpt.out_proj(ours(q, k, v)), theirs)


# -- topic 11: GPT-2 -------------------------------------------------------------------------------------------------


def gpt2_config(**extra):
    # GPT-2's own activation is GELU by the tanh formula; ours is the exact one, so theirs is told to use it.
    return HF.GPT2Config(
        vocab_size=13, n_positions=10, n_embd=12, n_layer=2, n_head=3, activation_function="gelu",
        resid_pdrop=0.0, attn_pdrop=0.0, embd_pdrop=0.0, attn_implementation="eager", bos_token_id=0, eos_token_id=None,
    )  # fmt: skip


def copy_gpt2_block(ours, theirs):
    """GPT-2 keeps (in, out) matrices, and q, k and v side by side; ours are (out, in), each on its own."""
    state = theirs.state_dict()
    q, k, v = state["attn.c_attn.weight"].T.chunk(3)
    q_bias, k_bias, v_bias = state["attn.c_attn.bias"].chunk(3)
    converted = {
        "norm1.weight": state["ln_1.weight"], "norm1.bias": state["ln_1.bias"],
        "norm2.weight": state["ln_2.weight"], "norm2.bias": state["ln_2.bias"],
        "attention.W_q.weight": q, "attention.W_q.bias": q_bias,
        "attention.W_k.weight": k, "attention.W_k.bias": k_bias,
        "attention.W_v.weight": v, "attention.W_v.bias": v_bias,
        "attention.W_o.weight": state["attn.c_proj.weight"].T, "attention.W_o.bias": state["attn.c_proj.bias"],
        "feed_forward.0.weight": state["mlp.c_fc.weight"].T, "feed_forward.0.bias": state["mlp.c_fc.bias"],
        "feed_forward.2.weight": state["mlp.c_proj.weight"].T, "feed_forward.2.bias": state["mlp.c_proj.bias"],
    }  # fmt: skip
    ours.load_state_dict(converted)
    return ours.eval()


def test_gpt2_block(topic, agree):
    theirs = randomised(modeling_gpt2.GPT2Block(gpt2_config(), layer_idx=0).double().eval())
    ours = copy_gpt2_block(topic("11_transformer").TransformerBlock(12, 3, 48).double(), theirs)
    x = torch.randn(2, 7, 12, dtype=FLOAT64, requires_grad=True)
    got = theirs(x, attention_mask=blocked(causal(7), FLOAT64)[None, None])
    mine = ours(x)
    agree("transformers GPT-2", "11 TransformerBlock", mine, got)
    weight = torch.randn_like(mine)
    gradients = [torch.autograd.grad((y * weight).sum(), x)[0] for y in (mine, got)]
    agree("transformers GPT-2", "11 TransformerBlock, gradient", *gradients)


def test_torch_block(topic, agree):
    theirs = nn.TransformerEncoderLayer(12, 3, 20, 0.0, "gelu", batch_first=True, norm_first=True).double().eval()
    ours = topic("11_transformer").TransformerBlock(12, 3, 20).double().eval()
    state = randomised(theirs).state_dict()
    converted = {f"norm{i}.{kind}": state[f"norm{i}.{kind}"] for i in (1, 2) for kind in ("weight", "bias")}
    for kind in ("weight", "bias"):
        for name, part in zip("qkv", state[f"self_attn.in_proj_{kind}"].chunk(3), strict=True):
            converted[f"attention.W_{name}.{kind}"] = part
        converted[f"attention.W_o.{kind}"] = state[f"self_attn.out_proj.{kind}"]
        converted[f"feed_forward.0.{kind}"] = state[f"linear1.{kind}"]
        converted[f"feed_forward.2.{kind}"] = state[f"linear2.{kind}"]
    ours.load_state_dict(converted)
    x = torch.randn(2, 7, 12, dtype=FLOAT64)
    # Their mask says what is blocked.
    agree("torch encoder layer", "11 TransformerBlock", ours(x), theirs(x, src_mask=~causal(7)))


def test_gpt2_model(topic, agree):
    """Whole models: GPT-2 shares the weights of embedding and output, and its output has no bias."""
    theirs = randomised(HF.GPT2LMHeadModel(gpt2_config()).double().eval())
    ours = topic("11_transformer").TinyTransformer(13, 12, 3, 2, 10).double().eval()
    body = theirs.transformer
    with torch.no_grad():
        ours.token_embedding.weight.copy_(body.wte.weight)
        ours.position_embedding.weight.copy_(body.wpe.weight)
        ours.norm.load_state_dict(body.ln_f.state_dict())
        ours.head.weight.copy_(theirs.lm_head.weight)
        ours.head.bias.zero_()
        for mine, block in zip(ours.blocks, body.h, strict=True):
            copy_gpt2_block(mine, block)
        tokens = torch.randint(0, 13, (3, 10))
        agree("transformers GPT-2", "11 TinyTransformer, logits", ours(tokens), theirs(tokens).logits)
        prompt = tokens[:1, :3]
        greedy = topic("11_transformer").generate(ours, prompt, 7, temperature=0)
        got = theirs.generate(prompt, max_new_tokens=7, do_sample=False, pad_token_id=0)
    agree("transformers GPT-2", "11 generate, greedy", greedy, got, atol=0)

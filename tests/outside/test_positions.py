"""Topics 05, 06 and 07 against transformers, x-transformers and rotary-embedding-torch."""

import math
from types import SimpleNamespace

import pytest
import torch

HF = pytest.importorskip("transformers")
XT = pytest.importorskip("x_transformers.x_transformers")
ROTARY = pytest.importorskip("rotary_embedding_torch")

from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS  # noqa: E402
from transformers.models.bloom import modeling_bloom  # noqa: E402
from transformers.models.gptj import modeling_gptj  # noqa: E402
from transformers.models.llama import modeling_llama  # noqa: E402
from transformers.models.marian import modeling_marian  # noqa: E402
from transformers.models.mpt import modeling_mpt  # noqa: E402
from transformers.models.roformer import modeling_roformer  # noqa: E402
from transformers.models.t5 import modeling_t5  # noqa: E402
from transformers.models.wav2vec2_bert import modeling_wav2vec2_bert  # noqa: E402
from transformers.models.xlnet import modeling_xlnet  # noqa: E402

FLOAT64 = torch.float64


def drift(positions: int) -> float:
    """How far two right float32 angles may lie apart: rounded to eps / 2 of their size, a frequency to two eps."""
    return 3 * torch.finfo(torch.float32).eps * max(8, positions)


def halves_to_pairs(table):
    """(sines, cosines) side by side -> sine, cosine, sine, cosine, ... as in our topic 05."""
    sines, cosines = table[:, : (table.size(1) + 1) // 2], table[:, (table.size(1) + 1) // 2 :]
    pairs = torch.empty_like(table)
    pairs[:, 0::2], pairs[:, 1::2] = sines, cosines
    return pairs


# -- topic 05 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d_model", (8, 9))
def test_marian_sinusoid(topic, agree, d_model):
    # Marian's columns: all sines, then all cosines; odd sizes end on a sine, as ours do.
    theirs = modeling_marian.MarianSinusoidalPositionalEmbedding(300, d_model).create_weight()
    ours = topic("05_absolute_positions").sinusoidal_encoding(300, d_model)
    agree("transformers Marian", "05 sinusoidal_encoding", ours, halves_to_pairs(theirs), atol=drift(300))


def test_wav2vec2_sinusoid(topic, agree):
    # Columns as ours. The table runs over distances from 49 to -49; its first half, turned round, is positions 0 to 49.
    module = modeling_wav2vec2_bert.Wav2Vec2BertRelPositionalEmbedding(
        SimpleNamespace(max_source_positions=50, hidden_size=12)
    )
    theirs = module.pe[0, :50].flip(0)
    ours = topic("05_absolute_positions").sinusoidal_encoding(50, 12)
    agree("transformers Wav2Vec2-BERT", "05 sinusoidal_encoding", ours, theirs, atol=drift(50))


def test_gptj_sinusoid(topic, agree):
    theirs = halves_to_pairs(modeling_gptj.create_sinusoidal_positions(100, 16))
    ours = topic("05_absolute_positions").sinusoidal_encoding(100, 16)
    agree("transformers GPT-J", "05 sinusoidal_encoding", ours, theirs, atol=drift(100))


def test_x_transformers_sinusoid(topic, agree):
    module = XT.ScaledSinusoidalEmbedding(16, theta=500)
    # They multiply the table by a learnt scale, and put sines before cosines.
    theirs = halves_to_pairs((module(torch.zeros(1, 20, 16), offset=37) / module.scale).detach())
    ours = topic("05_absolute_positions").sinusoidal_encoding(20, 16, base=500.0, offset=37)
    agree("x-transformers", "05 sinusoidal_encoding, base and offset", ours, theirs, atol=drift(57))


# -- topic 06: T5 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bidirectional", (True, False))
@pytest.mark.parametrize("num_buckets, max_distance", ((32, 128), (16, 64), (8, 20)))
def test_t5_buckets(topic, agree, bidirectional, num_buckets, max_distance):
    distance = torch.arange(-300, 301)
    ours = topic("06_relative_positions").t5_bucket(distance, bidirectional, num_buckets, max_distance)
    theirs = modeling_t5.T5Attention._relative_position_bucket(distance, bidirectional, num_buckets, max_distance)
    agree("transformers T5", "06 t5_bucket", ours, theirs, atol=0)
    theirs = XT.RelativePositionBias._relative_position_bucket(distance, not bidirectional, num_buckets, max_distance)
    agree("x-transformers", "06 t5_bucket", ours, theirs, atol=0)


@pytest.mark.parametrize("bidirectional", (True, False))
@pytest.mark.parametrize("length, source", ((5, 5), (3, 9), (40, 200)))
def test_t5_bias(topic, agree, bidirectional, length, source):
    config = HF.T5Config(d_model=12, d_kv=4, num_heads=3, is_decoder=not bidirectional)
    theirs = modeling_t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    ours = topic("06_relative_positions").T5RelativeBias(3, bidirectional=bidirectional)
    other = XT.RelativePositionBias(scale=1.0, causal=not bidirectional, heads=3)
    table = torch.randn(32, 3)
    with torch.no_grad():
        for embedding in (theirs.relative_attention_bias, ours.embedding, other.relative_attention_bias):
            embedding.weight.copy_(table)
    # T5 counts queries from 0; handing it the number of earlier tokens aligns them to the end, as ours are.
    got = theirs.compute_bias(length, source, past_seen_tokens=source - length)
    agree("transformers T5", "06 T5RelativeBias", ours(length, source), got)
    agree("x-transformers", "06 T5RelativeBias", ours(length, source), other(length, source)[None])


# -- topic 06: ALiBi -------------------------------------------------------------------------------------------------

HEADS = (1, 2, 3, 5, 6, 8, 12, 16, 20, 31)


@pytest.mark.parametrize("heads", HEADS)
def test_alibi_slopes(topic, agree, heads):
    ours = topic("06_relative_positions").alibi_slopes(heads)
    agree("transformers BLOOM", "06 alibi_slopes", ours, modeling_bloom._get_alibi_slopes(heads, torch.device("cpu")))
    agree("x-transformers", "06 alibi_slopes", ours, torch.tensor(XT.AlibiPositionalBias._get_slopes(heads)))
    # MPT gives -slope * distance of the last query, the key just before it at distance 1.
    agree("transformers MPT", "06 alibi_slopes", ours, -modeling_mpt.build_mpt_alibi_tensor(heads, 2)[:, 0, 0])


@pytest.mark.parametrize("heads", (3, 8))
@pytest.mark.parametrize("length, source", ((6, 6), (2, 9)))
def test_alibi_bias(topic, agree, heads, length, source):
    ours = topic("06_relative_positions").alibi_bias(heads, length, source)
    agree("x-transformers", "06 alibi_bias", ours, XT.AlibiPositionalBias(heads)(length, source))
    # BLOOM and MPT give one row for all queries. It differs from ours by a constant of each query, which the softmax of
    # a causal row does not see: so the weights are compared.
    causal = torch.ones(length, source, dtype=torch.bool).tril(source - length)
    scores = torch.randn(heads, length, source)
    rows = {
        "transformers BLOOM": modeling_bloom.build_alibi_tensor(torch.ones(1, source), heads, torch.float32),
        "transformers MPT": modeling_mpt.build_mpt_alibi_tensor(heads, source),
    }
    mine = (scores + ours).masked_fill(~causal, -math.inf).softmax(-1)
    for library, row in rows.items():
        theirs = (scores + row).masked_fill(~causal, -math.inf).softmax(-1)
        agree(library, "06 alibi_bias, weights under a causal mask", mine, theirs)


# -- topic 06: Shaw and Transformer-XL -------------------------------------------------------------------------------


def test_shaw_keys(topic, agree):
    """Wav2Vec2-BERT's "relative_key" has the key table only, and counts queries and keys from the same start."""
    length, d, clip = 9, 6, 3
    q, k, v = (torch.randn(2, 4, length, d, dtype=FLOAT64) for _ in range(3))
    table = torch.nn.Embedding(2 * clip + 1, d).double()
    module = SimpleNamespace(
        left_max_position_embeddings=clip, right_max_position_embeddings=clip, distance_embedding=table, scaling=d**-0.5
    )
    _, bias = modeling_wav2vec2_bert._apply_relative_key_position_encoding(module, q, k)
    theirs = (q @ k.mT * d**-0.5 + bias).softmax(-1).detach()
    shaw = topic("06_relative_positions").shaw_attention
    ours = shaw(q, k, v, table.weight.detach())[1]
    agree("transformers Wav2Vec2-BERT", "06 shaw_attention, weights", ours, theirs)
    # Fewer queries than keys: ours are the last ones, so they equal the last rows of the square.
    ours = shaw(q[:, :, -2:], k, v, table.weight.detach())[1]
    agree("transformers Wav2Vec2-BERT", "06 shaw_attention, last queries", ours, theirs[:, :, -2:])


def test_wav2vec2_relative(topic, agree):
    """Its "relative" scores are Transformer-XL's without memory; its distances ascend, as ours do."""
    length, heads, d = 7, 3, 4
    q, k = (torch.randn(2, heads, length, d, dtype=FLOAT64) for _ in range(2))
    u, v = (torch.randn(heads, d, dtype=FLOAT64) for _ in range(2))
    r = torch.randn(heads, 2 * length - 1, d, dtype=FLOAT64)
    module = SimpleNamespace(linear_pos=lambda x: x, head_size=d, pos_bias_u=u, pos_bias_v=v, scaling=d**-0.5)
    flat = r.permute(1, 0, 2).reshape(1, 2 * length - 1, heads * d)
    shifted, bias = modeling_wav2vec2_bert._apply_relative_position_encoding(module, q, k, flat)
    theirs = shifted @ k.mT * d**-0.5 + bias
    ours = topic("06_relative_positions").transformer_xl_scores(q, k, r, u, v)
    agree("transformers Wav2Vec2-BERT", "06 transformer_xl_scores", ours, theirs)


@pytest.mark.parametrize("length, source", ((5, 5), (3, 8)))
def test_xlnet(topic, agree, length, source):
    """XLNet: sequence first, distances query minus key that fall, one more row in front; u and v by other names."""
    heads, d = 3, 4
    theirs = modeling_xlnet.XLNetRelativeAttention(HF.XLNetConfig(d_model=12, n_head=heads, n_layer=1)).double().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=FLOAT64))
    q, k, v = (torch.randn(2, heads, n, d, dtype=FLOAT64) for n in (length, source, source))
    r = torch.randn(heads, source + length - 1, d, dtype=FLOAT64)
    # Their row p belongs to query minus key = S - p, ours to key minus query = column - (S - 1): p = column + 1.
    rows = (
        torch.cat([torch.zeros(heads, 1, d, dtype=FLOAT64), r], dim=1).permute(1, 0, 2)[:, None].expand(-1, 2, -1, -1)
    )
    q_, k_, v_ = (t.permute(2, 0, 1, 3) for t in (q, k, v))
    _, weights = theirs.rel_attn_core(q_, k_, v_, rows, output_attentions=True)
    ours = topic("06_relative_positions").transformer_xl_scores(q, k, r, theirs.r_w_bias, theirs.r_r_bias)
    agree("transformers XLNet", "06 transformer_xl_scores, weights", ours.softmax(-1), weights.permute(2, 3, 0, 1))


def test_xlnet_shift(topic, agree):
    x = torch.randn(2, 3, 6, 11)
    theirs = modeling_xlnet.XLNetRelativeAttention.rel_shift_bnij(torch.nn.functional.pad(x, (1, 0)), klen=6)
    agree("transformers XLNet", "06 relative_shift", topic("06_relative_positions").relative_shift(x), theirs)


# -- topic 07 --------------------------------------------------------------------------------------------------------


def llama_config(base=10000.0, heads=3, kv_heads=3, d_model=24, **extra):
    return HF.LlamaConfig(
        hidden_size=d_model, num_attention_heads=heads, num_key_value_heads=kv_heads, intermediate_size=8,
        num_hidden_layers=1, vocab_size=11, attn_implementation="eager",
        rope_parameters={"rope_type": "default", "rope_theta": base} | extra,
    )  # fmt: skip


@pytest.mark.parametrize("base", (10000.0, 500.0))
@pytest.mark.parametrize("offset", (0, 7, 900))
def test_llama_rotary(topic, agree, base, offset):
    """Llama: half-split pairs, as our default."""
    x = torch.randn(2, 3, 6, 8)
    positions = torch.arange(6) + offset
    cos, sin = modeling_llama.LlamaRotaryEmbedding(llama_config(base))(x, positions[None])
    theirs, _ = modeling_llama.apply_rotary_pos_emb(x, x, cos, sin)
    ours = topic("07_rotary").apply_rotary(x, positions, base=base)
    agree("transformers Llama", "07 apply_rotary, half-split", ours, theirs, atol=drift(offset + 6) * 4)


@pytest.mark.parametrize("offset", (0, 900))
def test_interleaved_rotary(topic, agree, offset):
    """GPT-J, RoFormer, x-transformers and rotary-embedding-torch rotate the pairs (2i, 2i+1)."""
    x = torch.randn(2, 3, 6, 8)
    positions = torch.arange(6) + offset
    ours = topic("07_rotary").apply_rotary(x, positions, interleaved=True)
    atol = drift(offset + 6) * 4  # values of up to 4 times a sine
    what = "07 apply_rotary, interleaved"
    table = modeling_gptj.create_sinusoidal_positions(1000, 8)[positions][None]
    sin, cos = table.split(4, dim=-1)
    # GPT-J keeps (B, L, H, d).
    theirs = modeling_gptj.apply_rotary_pos_emb(x.transpose(1, 2), sin, cos).transpose(1, 2)
    agree("transformers GPT-J", what, ours, theirs, atol=atol)
    table = modeling_roformer.RoFormerSinusoidalPositionalEmbedding(1000, 8).create_weight()[positions][None, None]
    theirs, _ = modeling_roformer.RoFormerSelfAttention.apply_rotary_position_embeddings(table, x, x)
    agree("transformers RoFormer", what, ours, theirs, atol=atol)
    freqs, _ = XT.RotaryEmbedding(8)(positions)
    agree("x-transformers", what, ours, XT.apply_rotary_pos_emb(x, freqs), atol=atol)
    theirs = ROTARY.RotaryEmbedding(8).rotate_queries_or_keys(x, offset=offset)
    agree("rotary-embedding-torch", what, ours, theirs, atol=atol)


def test_to_interleaved(topic, agree):
    """Llama's scores from half-split weights equal GPT-J's from the reordered ones."""
    heads, d, d_in = 3, 8, 10
    weights = [torch.randn(heads * d, d_in) * 0.3 for _ in range(2)]
    x, positions = torch.randn(2, 6, d_in), torch.arange(6)
    cos, sin = modeling_llama.LlamaRotaryEmbedding(llama_config())(x, positions[None])
    q, k = ((x @ w.T).view(2, 6, heads, d).transpose(1, 2) for w in weights)
    q, k = modeling_llama.apply_rotary_pos_emb(q, k, cos, sin)
    sin, cos = modeling_gptj.create_sinusoidal_positions(6, d)[None].split(d // 2, dim=-1)
    q_, k_ = (
        modeling_gptj.apply_rotary_pos_emb(
            (x @ topic("07_rotary").to_interleaved(w, heads).T).view(2, 6, heads, d), sin, cos
        )
        for w in weights
    )
    agree(
        "transformers GPT-J",
        "07 to_interleaved, scores of Llama",
        torch.einsum("blhd,bshd->bhls", q_, k_),
        q @ k.mT,
        atol=drift(6) * 64,
    )  # sums of 8 products of values up to 4


@pytest.mark.parametrize("factor", (2.0, 4.0, 8.0))
def test_ntk(topic, agree, factor):
    d, base = 8, 10000.0
    ours = topic("07_rotary").rotary_frequencies(d, topic("07_rotary").ntk_base(base, d, factor))
    theirs = ROTARY.RotaryEmbedding(d, theta=base, theta_rescale_factor=factor).freqs.detach()
    agree("rotary-embedding-torch", "07 ntk_base", ours.float(), theirs)
    config = llama_config(rope_type="dynamic", factor=1.0)
    config.max_position_embeddings = 100
    # With factor 1 their dynamic form stretches by the length over max_position_embeddings.
    theirs, _ = ROPE_INIT_FUNCTIONS["dynamic"](config, torch.device("cpu"), seq_len=int(100 * factor))
    agree("transformers Llama", "07 ntk_base", ours.float(), theirs)

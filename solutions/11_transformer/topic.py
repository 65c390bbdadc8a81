# ---
# jupyter:
#   course:
#     title: A small transformer
#     minutes: 75
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # 11 · A small transformer
#
# **You will** put the parts of this course together: a block, a model of characters, its training, and the generation
# of text. At the end your model writes lines of its own after ten sonnets.
#
# **You need** attention from topics 02 to 04, some idea of positions from topics 05 to 07, and chapter 11 of the book.
#
# **Time** about 75 minutes. The longest cell trains for less than a minute on one CPU core.
# **Points** are written above each check.
#
# ## How this notebook works
#
# - Write your code where a cell says `raise NotImplementedError`.
# - After each step comes a check. Run it as often as you like. It shows what was expected, what came, and a hint.
# - The score comes from more tests than the ones you see. They look at properties, because two right models have
#   different weights.
# - If one step does not work yet, go on: each step has a stand-in for the earlier ones.
#
# | letter | meaning |
# |---|---|
# | `B` | batch size |
# | `L` | length of a window of tokens |
# | `D` | `d_model` |
# | `V` | `vocab_size`, the number of different characters |
# | `N` | number of tokens in the text |
# | `T` | number of tokens in a prompt |

# %% setup="imports"
import math
import time

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

# %% given="show_check"
def show_check(what, expected, got, hint, atol=1e-5):
    """Compare and explain; used by the checks of this notebook."""
    expected, got = torch.as_tensor(expected), torch.as_tensor(got)
    same = expected.shape == got.shape and torch.allclose(got.double(), expected.double(), atol=atol)
    if same:
        print(f"ok    {what}")
        return
    raise AssertionError(f"{what}\nexpected: {expected}\ngot:      {got}\nhint:     {hint}")

# %% [markdown]
# ## The text
#
# Ten sonnets by William Shakespeare, first printed as *Shake-speares Sonnets* by Thomas Thorpe, London 1609, here in
# modern spelling. They are in the public domain. Each character is a token.

# %% given="text"
TEXT = """\
XVIII

Shall I compare thee to a summer's day?
Thou art more lovely and more temperate:
Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date:
Sometime too hot the eye of heaven shines,
And often is his gold complexion dimm'd;
And every fair from fair sometime declines,
By chance, or nature's changing course, untrimm'd;
But thy eternal summer shall not fade,
Nor lose possession of that fair thou ow'st;
Nor shall death brag thou wander'st in his shade,
When in eternal lines to time thou grow'st:
So long as men can breathe, or eyes can see,
So long lives this, and this gives life to thee.

XXIX

When, in disgrace with fortune and men's eyes,
I all alone beweep my outcast state,
And trouble deaf heaven with my bootless cries,
And look upon myself, and curse my fate,
Wishing me like to one more rich in hope,
Featur'd like him, like him with friends possess'd,
Desiring this man's art, and that man's scope,
With what I most enjoy contented least;
Yet in these thoughts myself almost despising,
Haply I think on thee, and then my state,
Like to the lark at break of day arising
From sullen earth, sings hymns at heaven's gate;
For thy sweet love remember'd such wealth brings
That then I scorn to change my state with kings.

XXX

When to the sessions of sweet silent thought
I summon up remembrance of things past,
I sigh the lack of many a thing I sought,
And with old woes new wail my dear time's waste:
Then can I drown an eye, unus'd to flow,
For precious friends hid in death's dateless night,
And weep afresh love's long since cancell'd woe,
And moan the expense of many a vanish'd sight:
Then can I grieve at grievances foregone,
And heavily from woe to woe tell o'er
The sad account of fore-bemoaned moan,
Which I new pay as if not paid before.
But if the while I think on thee, dear friend,
All losses are restor'd and sorrows end.

LV

Not marble, nor the gilded monuments
Of princes, shall outlive this powerful rhyme;
But you shall shine more bright in these contents
Than unswept stone, besmear'd with sluttish time.
When wasteful war shall statues overturn,
And broils root out the work of masonry,
Nor Mars his sword nor war's quick fire shall burn
The living record of your memory.
'Gainst death and all-oblivious enmity
Shall you pace forth; your praise shall still find room
Even in the eyes of all posterity
That wear this world out to the ending doom.
So, till the judgment that yourself arise,
You live in this, and dwell in lovers' eyes.

LX

Like as the waves make towards the pebbled shore,
So do our minutes hasten to their end;
Each changing place with that which goes before,
In sequent toil all forwards do contend.
Nativity, once in the main of light,
Crawls to maturity, wherewith being crown'd,
Crooked eclipses 'gainst his glory fight,
And Time that gave doth now his gift confound.
Time doth transfix the flourish set on youth
And delves the parallels in beauty's brow,
Feeds on the rarities of nature's truth,
And nothing stands but for his scythe to mow:
And yet to times in hope my verse shall stand,
Praising thy worth, despite his cruel hand.

LXV

Since brass, nor stone, nor earth, nor boundless sea,
But sad mortality o'ersways their power,
How with this rage shall beauty hold a plea,
Whose action is no stronger than a flower?
O, how shall summer's honey breath hold out
Against the wreckful siege of battering days,
When rocks impregnable are not so stout,
Nor gates of steel so strong, but Time decays?
O fearful meditation! where, alack,
Shall Time's best jewel from Time's chest lie hid?
Or what strong hand can hold his swift foot back?
Or who his spoil of beauty can forbid?
O, none, unless this miracle have might,
That in black ink my love may still shine bright.

LXXIII

That time of year thou mayst in me behold
When yellow leaves, or none, or few, do hang
Upon those boughs which shake against the cold,
Bare ruin'd choirs, where late the sweet birds sang.
In me thou see'st the twilight of such day
As after sunset fadeth in the west;
Which by and by black night doth take away,
Death's second self, that seals up all in rest.
In me thou see'st the glowing of such fire,
That on the ashes of his youth doth lie,
As the death-bed, whereon it must expire,
Consum'd with that which it was nourish'd by.
This thou perceiv'st, which makes thy love more strong,
To love that well, which thou must leave ere long.

CXVI

Let me not to the marriage of true minds
Admit impediments. Love is not love
Which alters when it alteration finds,
Or bends with the remover to remove:
O no! it is an ever-fixed mark
That looks on tempests and is never shaken;
It is the star to every wandering bark,
Whose worth's unknown, although his height be taken.
Love's not Time's fool, though rosy lips and cheeks
Within his bending sickle's compass come;
Love alters not with his brief hours and weeks,
But bears it out even to the edge of doom.
If this be error and upon me prov'd,
I never writ, nor no man ever lov'd.

CXXX

My mistress' eyes are nothing like the sun;
Coral is far more red than her lips' red;
If snow be white, why then her breasts are dun;
If hairs be wires, black wires grow on her head.
I have seen roses damask'd, red and white,
But no such roses see I in her cheeks;
And in some perfumes is there more delight
Than in the breath that from my mistress reeks.
I love to hear her speak, yet well I know
That music hath a far more pleasing sound;
I grant I never saw a goddess go;
My mistress, when she walks, treads on the ground:
And yet, by heaven, I think my love as rare
As any she belied with false compare.

CXXXVIII

When my love swears that she is made of truth,
I do believe her, though I know she lies,
That she might think me some untutor'd youth,
Unlearned in the world's false subtleties.
Thus vainly thinking that she thinks me young,
Although she knows my days are past the best,
Simply I credit her false-speaking tongue:
On both sides thus is simple truth suppress'd.
But wherefore says she not she is unjust?
And wherefore say not I that I am old?
O, love's best habit is in seeming trust,
And age in love loves not to have years told:
Therefore I lie with her and she with me,
And in our faults by lies we flatter'd be.
"""
CHARACTERS = sorted(set(TEXT))


def encode(text):
    """The ids of the characters of `text`, as a tensor (N,)."""
    return torch.tensor([CHARACTERS.index(character) for character in text])


def decode(tokens):
    """The text that belongs to a tensor of ids."""
    return "".join(CHARACTERS[i] for i in tokens.flatten().tolist())

# %%
tokens = encode(TEXT)
print(f"N = {len(tokens)} tokens, V = {len(CHARACTERS)} different ones, ln V = {math.log(len(CHARACTERS)):.2f}")

# %% [markdown]
# ## Step 1 · The block
#
# A block changes its input in two steps. Each step adds something to `x` and leaves the rest as it was:
#
# $$y = x + \mathrm{Attention}(\mathrm{Norm}_1(x)) \qquad z = y + \mathrm{FeedForward}(\mathrm{Norm}_2(y))$$
#
# Both norms stand *inside* the branches: this is the **pre-norm** form. The path from `x` to `z` holds additions only,
# so a gradient reaches the first block of a deep stack as well as the last.
#
# Write `TransformerBlock(d_model, num_heads, d_ff)`, an `nn.Module` with `forward(x)`, `(B, L, D) -> (B, L, D)`:
#
# - its four parts are attributes with the names `norm1`, `attention`, `norm2` and `feed_forward`;
# - the attention is causal: a token sees itself and what comes before it;
# - `feed_forward` works on each token alone: to `d_ff` features, an activation, back to `d_model`;
# - `d_model` that `num_heads` does not divide is an error;
# - no dropout is needed, and no device is named in the code.
#
# What is inside the parts is your choice: any norm, any activation, any causal attention, with or without positions.
# Take your own attention from topics 03, 04, 07 or 10, or the one below.

# %% given="CausalAttention"
class CausalAttention(nn.Module):
    """Multi-head self-attention in which a token sees itself and earlier tokens; (B, L, D) -> (B, L, D)."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model={d_model} can't be shared among {num_heads} heads")
        self.num_heads = num_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def forward(self, x):
        q, k, v = (W(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.W_o(heads.transpose(1, 2).flatten(2))

# %% [markdown]
# <details><summary>Hint 1</summary><code>nn.LayerNorm(d_model)</code> twice: two norms, each with its own
# gains.</details>
# <details><summary>Hint 2</summary><code>nn.Sequential(nn.Linear(...), nn.GELU(), nn.Linear(...))</code> makes a
# feed-forward part.</details>
# <details><summary>Hint 3</summary>The second branch starts from <code>y</code>, the result of the first, and not from
# <code>x</code>.</details>

# %% answer="block"
class TransformerBlock(nn.Module):
    """A causal pre-norm block (Xiong et al. 2020); (B, L, d_model) -> (B, L, d_model).

    Parts: norm1, attention, norm2, feed_forward (through d_ff features).
    """

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        ### BEGIN SOLUTION
        self.norm1 = nn.LayerNorm(d_model)
        self.attention = CausalAttention(d_model, num_heads)
        self.norm2 = nn.LayerNorm(d_model)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))
        ### END SOLUTION

# %% check="block"
torch.manual_seed(0)
block = TransformerBlock(12, 3, 20).eval()
x = torch.randn(2, 6, 12)
with torch.no_grad():
    output = block(x)
    show_check("the shape", (2, 6, 12), tuple(output.shape), "a block keeps the shape of its input")
    later = x.clone()
    later[:, 4:] = torch.randn(2, 2, 12)
    show_check("earlier tokens do not see later ones", output[:, :4], block(later)[:, :4], "the attention is causal")
    for name, parameter in block.named_parameters():
        if name.startswith(("attention.", "feed_forward.")):
            parameter.zero_()
    show_check("without its two branches a block does nothing", x, block(x), "add branch to input; norm inside")

# %% [markdown]
# ## Step 2 · The model
#
# Write `TinyTransformer(vocab_size, d_model, num_heads, num_layers, max_len)`, an `nn.Module`:
#
# - the attribute `max_len` holds the longest window that the model takes;
# - `forward(tokens)` takes ids `(B, L)` and returns logits `(B, L, V)`, no probabilities: `logits[:, i]` are the scores
#   for the token that follows token `i`;
# - a window longer than `max_len` is a `ValueError` whose message names both lengths;
# - the order of the tokens has to matter to the model, already with one layer. Any scheme of positions will do;
# - each of the `num_layers` blocks has weights of its own, and every weight takes part;
# - a fresh model is nearly indifferent: its mean loss lies within 0.7 of $\ln V$, the loss of a model that gives every
#   token the probability $1/V$.
#
# `StandInBlock` is a block of torch's own, in case that yours does not work yet.
#
# <details><summary>Hint 1</summary>An embedding of tokens plus one of positions, the blocks, a last norm, and a linear
# layer to <code>vocab_size</code>.</details>
# <details><summary>Hint 2</summary>Blocks in a plain Python list are not found by <code>parameters()</code>.
# <code>nn.ModuleList</code> keeps them.</details>
# <details><summary>Hint 3</summary>If the first loss is far above ln V, the logits are too large. How large are the
# numbers that enter the last linear layer, and its weights?</details>

# %% given="StandInBlock"
class StandInBlock(nn.Module):
    """torch's own block, causal and pre-norm, to be used in place of your TransformerBlock."""

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(
            d_model, num_heads, d_ff, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )

    def forward(self, x):
        ahead = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).triu(1)
        return self.layer(x, src_mask=ahead)

# %% answer="model"
class TinyTransformer(nn.Module):
    """A causal language model: tokens (B, L) -> logits (B, L, vocab_size), for L up to max_len."""

    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        ### BEGIN SOLUTION
        self.max_len = max_len
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.position_embedding = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(TransformerBlock(d_model, num_heads, 4 * d_model) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size)
        ### END SOLUTION

    def forward(self, tokens):
        ### BEGIN SOLUTION
        length = tokens.size(1)
        if length > self.max_len:
            raise ValueError(f"{length} tokens are more than max_len={self.max_len}")
        positions = torch.arange(length, device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
        ### END SOLUTION

# %% check="model"
torch.manual_seed(0)
vocab_size = len(CHARACTERS)
model = TinyTransformer(vocab_size, 48, 4, 2, 32)
window = tokens[:96].view(3, 32)
with torch.no_grad():
    logits = model(window)
    show_check("the shape of the logits", (3, 32, vocab_size), tuple(logits.shape), "V logits for each token")
    changed = window.clone()
    changed[:, 20:] = 0
    show_check("logits do not depend on later tokens", logits[:, :20], model(changed)[:, :20], "every block is causal")
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), window[:, 1:].flatten())
    show_check("the first loss is near ln V", math.log(vocab_size), loss, "the logits of a fresh model are small", 0.7)
try:
    model(tokens[:33].view(1, 33))
except ValueError as error:
    print(f"ok    33 tokens with max_len=32: {error}")
else:
    raise AssertionError("33 tokens with max_len=32\nexpected: a ValueError\ngot:      logits\nhint:     compare first")

# %% [markdown]
# ## Step 3 · Training
#
# The text itself holds the answers: the target of each token is the token after it. One window of `max_len + 1` tokens
# gives `max_len` inputs and `max_len` targets:
#
# ```
# window   S h a l l _ I
# input    S h a l l _
# target   h a l l _ I
# ```
#
# Write `train(model, tokens, steps, batch_size, learning_rate, seed=0)`:
#
# - `tokens` `(N,)` is one long stream of ids. Each step draws `batch_size` windows from anywhere in it, computes the
#   mean cross-entropy of all their predictions, and changes the model;
# - it returns a list of `steps` Python floats: the loss of each batch, taken before the step;
# - no input is longer than `model.max_len`;
# - the same seed, the same model and the same text give the same losses. `train` may set the global seed;
# - the optimizer is your choice. It has to learn with the `learning_rate` that it is given.
#
# `PairModel` is a model to try it with: it looks at one token only, so it needs no attention.
#
# <details><summary>Hint 1</summary><code>torch.Generator().manual_seed(seed)</code> gives random numbers that nothing
# else disturbs; <code>torch.randint</code> takes it as <code>generator</code>.</details>
# <details><summary>Hint 2</summary><code>tokens[starts[:, None] + torch.arange(n)]</code> cuts a window of n tokens at
# each start.</details>
# <details><summary>Hint 3</summary><code>F.cross_entropy</code> wants <code>(rows, V)</code> and <code>(rows,)</code>:
# flatten the first two axes.</details>

# %% given="PairModel"
class PairModel(nn.Module):
    """Predicts the next token from the present one alone; an example for `train` and `generate`."""

    def __init__(self, vocab_size, d_model, max_len):
        super().__init__()
        self.max_len = max_len
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, tokens):
        if tokens.size(1) > self.max_len:
            raise ValueError(f"{tokens.size(1)} tokens are more than max_len={self.max_len}")
        return self.head(self.embedding(tokens))

# %% answer="train"
def train(model, tokens, steps, batch_size, learning_rate, seed=0):
    """Train a language model to predict the next token of the stream `tokens` (N,).

    Returns the mean cross-entropy of each of the `steps` batches, as floats.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    offsets = torch.arange(model.max_len + 1)
    losses = []
    model.train()
    for _ in range(steps):
        starts = torch.randint(len(tokens) - model.max_len, (batch_size, 1), generator=generator)
        windows = tokens[(starts + offsets).to(tokens.device)]
        inputs, targets = windows[:, :-1], windows[:, 1:]
        logits = model(inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
    ### END SOLUTION

# %% check="train"
circle = torch.tensor([0, 3, 1, 4, 2]).repeat(40)
torch.manual_seed(0)
pair_model = PairModel(5, 16, 8)
losses = train(pair_model, circle, steps=200, batch_size=8, learning_rate=0.1)
show_check("one loss for each step", 200, len(losses), "append once a step, and return the list")
assert all(type(loss) is float for loss in losses), "expected: floats\ngot: something else\nhint: loss.item()"
following = pair_model(circle[None, :5]).argmax(-1)
show_check("what follows 0, 3, 1, 4, 2", [[3, 1, 4, 2, 0]], following, "is the target one step later than the input?")
torch.manual_seed(1)
again = PairModel(5, 16, 8)
again.load_state_dict(pair_model.state_dict())
first = train(again, circle, steps=5, batch_size=2, learning_rate=0.1, seed=7)
again.load_state_dict(pair_model.state_dict())
second = train(again, circle, steps=5, batch_size=2, learning_rate=0.1, seed=7)
show_check("the same seed, the same losses", first, second, "draw the windows from a generator with this seed")

# %% [markdown]
# ## Step 4 · Generation
#
# Write `generate(model, prompt, length, temperature=1.0, seed=0)`. It appends one token after another:
#
# 1. take the last `model.max_len` tokens (all, when there are fewer);
# 2. the model's logits at the last of them score the next token;
# 3. draw it from $\mathrm{softmax}(\text{logits} / \text{temperature})$, and append it.
#
# - `prompt` is `(1, T)`; the result is `(1, T + length)` and begins with the prompt;
# - `temperature=0` is greedy: the most probable token, with no chance in it. Values below 1 sharpen the distribution,
#   values above 1 flatten it;
# - the same seed gives the same text, another seed another one. `generate` may set the global seed; apart from that it
#   changes nothing: not the prompt, not the weights.
#
# <details><summary>Hint 1</summary>Dividing by 0 gives no probabilities: temperature 0 needs a branch of its
# own.</details>
# <details><summary>Hint 2</summary><code>torch.multinomial(probabilities, 1, generator=...)</code> draws from each row
# of probabilities.</details>

# %% answer="generate"
def generate(model, prompt, length, temperature=1.0, seed=0):
    """Append `length` tokens to prompt (1, T), each drawn from the model's next-token distribution.

    temperature divides the logits; 0 takes the largest. Returns (1, T + length).
    """
    ### BEGIN SOLUTION
    generator = torch.Generator(device=prompt.device).manual_seed(seed)
    tokens = prompt
    model.eval()
    with torch.no_grad():
        for _ in range(length):
            context = tokens[:, -model.max_len :]
            logits = model(context)[:, -1]
            if temperature == 0:
                following = logits.argmax(dim=-1, keepdim=True)
            else:
                probabilities = torch.softmax(logits / temperature, dim=-1)
                following = torch.multinomial(probabilities, 1, generator=generator)
            tokens = torch.cat([tokens, following], dim=1)
    return tokens
    ### END SOLUTION

# %% check="generate"
round_model = PairModel(5, 5, 3)
with torch.no_grad():
    round_model.embedding.weight.copy_(torch.eye(5))
    round_model.head.weight.copy_(4 * torch.eye(5).roll(1, dims=0))
    round_model.head.bias.zero_()
start = torch.tensor([[2, 3]])
greedy = generate(round_model, start, 6, temperature=0)
show_check("greedy: 4 follows 3, and 0 follows 4", [[2, 3, 4, 0, 1, 2, 3, 4]], greedy, "argmax of the last logits")
hot = generate(round_model, start, 40, temperature=3.0, seed=1)
show_check("the prompt is kept", start, hot[:, :2], "append to the prompt")
again = generate(round_model, start, 40, temperature=3.0, seed=1)
show_check("the same seed, the same text", hot, again, "use a generator with the seed")
other = generate(round_model, start, 40, temperature=3.0, seed=2)
assert not torch.equal(hot, other), "seeds 1 and 2\nexpected: different texts\ngot: the same\nhint: is the seed used?"
cool = generate(round_model, start, 40, temperature=0.2, seed=1)
greedy = generate(round_model, start, 40, temperature=0)
show_check("a low temperature comes close to greedy", greedy, cool, "divide the logits by it")

# %% [markdown]
# ## Step 5 · Learn from the sonnets
#
# Now all parts work together. 400 steps take a few seconds to a minute on one CPU core. A model that knows only how
# often each character occurs has a loss of about 3.1; one that knows how often each follows each, about 2.3. Your last
# losses have to lie below 2.4. The hidden test trains on another stream, with `learning_rate=0.02`, and asks for a loss
# below three quarters of $\ln V$.

# %% check="learn"
torch.manual_seed(0)
model = TinyTransformer(len(CHARACTERS), d_model=48, num_heads=4, num_layers=2, max_len=48)
began = time.perf_counter()
losses = train(model, tokens, steps=400, batch_size=12, learning_rate=3e-3)
print(f"{time.perf_counter() - began:.0f} s; first loss {losses[0]:.2f}, ln V {math.log(len(CHARACTERS)):.2f}")
last = sum(losses[-20:]) / 20
hint = "which of the earlier checks fails?"
assert last < 2.4, f"the mean of the last 20 losses\nexpected: below 2.4\ngot:      {last:.2f}\nhint:     {hint}"
print(f"ok    the last 20 losses: {last:.2f} on average")

# %% [markdown]
# ## Look at your losses, and at what your model writes
#
# The dashed line is ln V. With a low temperature the model repeats what is frequent; with a high one it invents words.

# %%
try:
    smooth = [sum(losses[max(0, i - 9) : i + 1]) / len(losses[max(0, i - 9) : i + 1]) for i in range(len(losses))]
    figure, axis = plt.subplots(figsize=(6, 3))
    axis.plot(losses, alpha=0.3)
    axis.plot(smooth)
    axis.axhline(math.log(len(CHARACTERS)), linestyle="--", color="grey")
    axis.set(xlabel="step", ylabel="loss")
    plt.show()
    for temperature in (0, 0.5, 1.0):
        print(f"--- temperature {temperature}")
        print(decode(generate(model, encode("Shall I ")[None], 160, temperature=temperature)))
except (NameError, NotImplementedError):
    print("This picture needs steps 2 to 4.")

# %% [markdown]
# ## Time it
#
# One step of training, on the GPU where there is one. A model this small can't keep a GPU busy: most of the time goes
# into starting its kernels. Make `d_model` and the batch larger to see the GPU win.

# %%
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
try:
    timed = TinyTransformer(len(CHARACTERS), 48, 4, 2, 48).to(device)
    train(timed, tokens.to(device), steps=3, batch_size=12, learning_rate=1e-3)
    began = time.perf_counter()
    train(timed, tokens.to(device), steps=10, batch_size=12, learning_rate=1e-3)
    print(f"on {device}: {(time.perf_counter() - began) / 10 * 1e3:.1f} ms for a step of 12 windows of 48 tokens")
except NotImplementedError:
    print("The time needs steps 2 and 3.")

# %% [markdown]
# ## What you can now do
#
# - build a pre-norm block, and say why the norms stand inside the branches;
# - build a causal language model whose first loss you can predict;
# - train it on any text, with targets that are the inputs shifted by one;
# - generate text, and say what the temperature and the length of the context do.
#
# Ways to go on: a longer text, the rotary positions of topic 07, the cache of topic 10. Chapter 11 tells more.

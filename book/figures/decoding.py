"""A small causal stack for chapter 10, its store of keys and values, and counts of operations and bytes.

No batch axis: arrays are `(L, D)` or `(H, L, d)`, with the letters of book/notation.md.
"""

import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode


class Layer:
    """Attention and feed-forward with random weights. Keys and values may go to a store made beforehand."""

    def __init__(self, size, num_heads, *, generator=None, device="cpu"):
        self.heads, self.d = num_heads, size // num_heads
        shapes = {"q": (size, size), "k": (size, size), "v": (size, size), "o": (size, size)}
        shapes |= {"up": (size, 4 * size), "down": (4 * size, size)}
        self.w = {
            name: torch.randn(shape, generator=generator, device=device) * shape[0] ** -0.5
            for name, shape in shapes.items()
        }

    def new_store(self, rows):
        """Room for the keys and the values of `rows` positions, `(2, H, rows, d)`."""
        return self.w["q"].new_full((2, self.heads, rows, self.d), torch.nan)

    def __call__(self, x, *, store=None, start=0, mask="end"):
        """New rows x `(L, D)` at positions `start ...`; `mask` is "end", "start" (a mistake) or "none"."""
        normed = F.layer_norm(x, x.shape[-1:])
        q, k, v = (
            (normed @ self.w[name]).unflatten(-1, (self.heads, self.d)).transpose(0, 1) for name in ("q", "k", "v")
        )
        if store is not None:
            store[:, :, start : start + len(x)] = torch.stack((k, v))
            k, v = store[:, :, : start + len(x)]
        scores = q @ k.mT * self.d**-0.5
        if mask != "none":
            first = start if mask == "end" else 0
            own = torch.arange(first, first + len(x), device=x.device)
            later = torch.arange(k.shape[1], device=x.device) > own[:, None]
            scores = scores.masked_fill(later, -torch.inf)
        mixed = (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)
        x = x + mixed @ self.w["o"]
        return x + F.gelu(F.layer_norm(x, x.shape[-1:]) @ self.w["up"]) @ self.w["down"]

    def keys(self, x):
        """Keys of all heads side by side, `(L, D)`."""
        return F.layer_norm(x, x.shape[-1:]) @ self.w["k"]


def operations(new, total, *, size=256, num_heads=4):
    """Operations of one layer for `new` positions when `total` are seen: `(all, attention alone)`, counted by torch."""
    layer = Layer(size, num_heads, device="meta")
    store = layer.new_store(total) if new < total else None
    x = torch.empty(new, size, device="meta")
    with FlopCounterMode(display=False) as counter:
        layer(x, store=store, start=total - new, mask="none")
    counts = counter.get_flop_counts()["Global"]
    attention = sum(count for name, count in counts.items() if "bmm" in str(name))
    return counter.get_total_flops(), attention


def per_byte(call, *tensors, bytes_per_element=2):
    """Operations that torch counts in `call(*tensors)`, for each byte of its inputs and its result."""
    with FlopCounterMode(display=False) as counter:
        result = call(*tensors)
    moved = sum(t.numel() for t in (*tensors, result)) * bytes_per_element
    return counter.get_total_flops() / moved

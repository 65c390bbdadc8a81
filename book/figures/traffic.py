"""Counting for chapter 9: bytes that operators read and write, their dtypes, and the state of an online softmax.

Counts come from the operators that torch really starts, seen below autograd; on the device "meta" no data exists.
"""

import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

VIEWS = {"t", "transpose", "permute", "view", "_unsafe_view", "unsqueeze", "expand", "detach", "alias", "reshape"}


class Log(TorchDispatchMode):
    """Records each operator with its name, its input and output shapes, dtypes and bytes; views move nothing."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name not in VIEWS:
            read = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
            made = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
            self.steps.append((name, read, made))
        return result

    def bytes(self):
        return sum(t.numel() * t.element_size() for _, read, made in self.steps for t in (*read, *made))

    def largest(self):
        return max(t.numel() * t.element_size() for _, _, made in self.steps for t in made)


def plain(q, k, v):
    """The formula as it is written: product, scale, softmax, product."""
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v


def plain_bytes(L, S, d, *, dtype=torch.bfloat16):
    """Bytes that the operators of `plain` read and write for one head, counted on tensors without data."""
    q, k, v = (torch.empty(n, d, dtype=dtype, device="meta") for n in (L, S, S))
    with Log() as log:
        plain(q, k, v)
    return log.bytes()


def running(scores, values):
    """State after each key of one query: lists of maximum, sum and output so far; `scores`, `values` `(S,)`."""
    top = scores.cummax(0).values
    weights = (scores[None, :] - top[:, None]).exp().tril()
    return top.tolist(), weights.sum(1).tolist(), (weights @ values / weights.sum(1)).tolist()


def slow_sum(count, dtype):
    """Sum of `count` ones, one addition after the other, all in `dtype`."""
    total, one, sums = torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype), []
    for _ in range(count):
        total = total + one
        sums.append(total)
    return torch.stack(sums).double()

import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    """As many tutorials write it: four linear maps with bias, a large negative fill, no `bias` option."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.heads, self.width = num_heads, d_model // num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def _heads(self, x):
        return x.view(x.size(0), -1, self.heads, self.width).transpose(1, 2)

    def forward(self, q, k, v, mask=None):
        q, k, v = self._heads(self.W_q(q)), self._heads(self.W_k(k)), self._heads(self.W_v(v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.width)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        joined = (torch.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous()
        return self.W_o(joined.view(q.size(0), -1, self.heads * self.width))

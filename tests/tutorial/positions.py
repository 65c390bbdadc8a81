import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    """As many tutorials write it: an even width and a length up to max_len, the table in a buffer."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        angle = torch.arange(max_len).unsqueeze(1) * rate
        table = torch.zeros(max_len, d_model)
        table[:, 0::2] = torch.sin(angle)
        table[:, 1::2] = torch.cos(angle)
        self.register_buffer("pe", table)

    def forward(self, x):
        return x + self.pe[: x.size(1)]

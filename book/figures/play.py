"""Data for the figures to play with: torch computes here, a small script in book/interactive/ shows.

Every function returns an object that a cell displays. `checks` are states with the values that
torch gives for them; the browser tests set each state and compare what the figure then shows.
"""

import html
import json
import math

import torch


class Play:
    """One figure to play with, ready for display."""

    def __init__(self, name, title, data, checks):
        self.name, self.title = name, title
        self.data = {**data, "checks": checks}

    def _repr_html_(self):
        # "</" would end the script element early; "<\/" is the same JSON.
        data = json.dumps(_plain(self.data), separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
        title = html.escape(self.title, quote=True)
        return (
            f'<div class="play" data-figure="{self.name}" role="group" aria-label="{title}">'
            f'<p class="play-title">{title}</p>'
            f'<p class="play-fallback">This figure needs JavaScript; its data is in the page.</p>'
            f'<script type="application/json">{data}</script></div>'
        )


def _plain(value):
    """Tensors and floats to short JSON; -inf becomes null, which the scripts show as −∞."""
    if isinstance(value, torch.Tensor):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        if value == -math.inf:
            return None
        return float(f"{value:.6g}")
    return value


def attention_steps(tokens, q, k, v, *, mask=None, title, start=3):
    """Step through Q Kᵀ, scale, mask, softmax, V. q, k `(L, d)`, v `(L, d_v)`, mask `(L, L)` with True = keep."""
    d = q.shape[-1]
    scores = q @ k.T
    scaled = scores / math.sqrt(d)
    masked = scaled if mask is None else scaled.masked_fill(~mask, -math.inf)
    weights = torch.softmax(masked, dim=-1)
    keys, size = list(tokens), len(tokens)

    def stage(name, values, note, cols=keys, rows=keys):
        shape = f"({values.shape[0]}, {values.shape[1]})"
        return {"name": name, "rows": rows, "cols": cols, "values": values, "note": note, "shape": shape}

    stages = [
        stage("Q Kᵀ", scores, "Each cell is the dot product of one query (row) and one key (column)."),
        stage("divide by √d", scaled, f"Every score is divided by √{d} = {math.sqrt(d):.2f}."),
        stage("mask", masked, "Blocked pairs become −∞." if mask is not None else "No pair is blocked here."),
        stage("softmax", weights, "Each row becomes positive and sums to 1."),
        stage(
            "weights · V",
            weights @ v,
            "Each row is the weighted mean of the value rows.",
            cols=[f"v{i + 1}" for i in range(v.shape[-1])],
        ),
    ]
    checks = [{"set": {"step": i}, "read": s["values"].flatten(), "digits": 2} for i, s in enumerate(stages)]
    if len(tokens) != size or q.shape[0] != size:
        raise ValueError(f"one query per token expected, got {q.shape[0]} queries and {size} tokens")
    return Play("attention-steps", title, {"stages": stages, "start": start}, checks)


def softmax_slider(q, k, *, sizes, keys, title, size=4, scaled=False):
    """Weights of one query for growing head sizes. q `(d_max,)`, k `(S, d_max)`; size n uses the first n features."""
    scores = [k[:, :n] @ q[:n] for n in sizes]
    states = [
        {"size": i, "scaled": s, "log_temperature": t}
        for i in (0, len(sizes) - 1)
        for s in (True, False)
        for t in (0, 2)
    ]
    checks = []
    for state in states:
        divide = 2.0 ** state["log_temperature"] * (math.sqrt(sizes[state["size"]]) if state["scaled"] else 1)
        checks.append({"set": state, "read": torch.softmax(scores[state["size"]] / divide, -1), "digits": 3})
    data = {"sizes": list(sizes), "scores": scores, "keys": list(keys), "start": {"size": size, "scaled": scaled}}
    return Play("softmax-slider", title, data, checks)


def heat_map(rows, cols, weights, *, title, label="Query", start=0):
    """A matrix `(L, S)` of weights linked to its tokens."""
    data = {"rows": list(rows), "cols": list(cols), "values": weights, "label": label, "start": start}
    checks = [{"set": {"row": i}, "read": weights[i], "digits": 2} for i in range(len(rows))]
    return Play("heat-map", title, data, checks)


def attention_heads(tokens, weights, *, title, names=None, keys=None, start=0):
    """Lines between queries (left) and keys (right); weights `(H, L, S)`."""
    data = {"queries": list(tokens), "keys": list(keys or tokens), "weights": weights, "names": names, "start": start}
    checks = [
        {"set": {"head": h, "query": i}, "read": weights[h, i], "digits": 2}
        for h in range(len(weights))
        for i in range(len(tokens))
    ]
    return Play("attention-heads", title, data, checks)


def series(x, curves, *, title, x_label, y_label, log_x=False, log_y=False, start=None):
    """Measured curves with a cursor. x: list of numbers; curves: name -> list of values (None where missing)."""
    data = {
        "x": list(x),
        "series": {n: list(v) for n, v in curves.items()},
        "x_label": x_label,
        "y_label": y_label,
        "log_x": log_x,
        "log_y": log_y,
        "label": title,
        "start": start,
    }
    places = (0, len(data["x"]) // 2, len(data["x"]) - 1)
    checks = [{"set": {"index": i}, "read": [v[i] for v in data["series"].values()], "digits": "short"} for i in places]
    return Play("series", title, data, checks)


def permutation(tokens, orders, layers, *, title):
    """What happens to the output rows when the input is reordered.

    orders: name -> list of L places, the first one the identity; layers: name -> function from an
    order to the `(L, n)` output of the layer on the tokens in that order.
    """
    names = list(orders)
    identity = orders[names[0]]
    if list(identity) != list(range(len(tokens))):
        raise ValueError(f"the first order must be the identity 0..{len(tokens) - 1}, got {identity}")
    panels = []
    for layer, run in layers.items():
        base = run(identity)
        outputs = [run(order) for order in orders.values()]
        # Where a token's row went, against its row in the first order.
        gaps = [
            (out - base[torch.tensor(order)]).abs().max().item()
            for out, order in zip(outputs, orders.values(), strict=True)
        ]
        panels.append({"name": layer, "outputs": outputs, "gaps": gaps})
    data = {"tokens": list(tokens), "orders": [list(o) for o in orders.values()], "names": names, "layers": panels}
    checks = [
        {"set": {"layer": p, "order": o}, "read": panel["outputs"][o].flatten(), "digits": 2}
        for p, panel in enumerate(panels)
        for o in range(len(names))
    ]
    return Play("permutation", title, data, checks)


def mask_composer(lengths, L, *, title, S=None, start=None):
    """Compose causal, padding and window masks for one query length L and key length S (aligned to the end)."""
    S = L if S is None else S
    i, j = torch.arange(L)[:, None] + S - L, torch.arange(S)[None, :]
    start = {"causal": True, "row": 0, "window": 0, **(start or {})}
    checks = []
    for causal in (False, True):
        for row, length in enumerate(lengths):
            for window in (0, 2):
                keep = (j < length).expand(L, S)
                keep = keep & (j <= i) if causal else keep
                keep = keep & ((i - j).abs() < window) if window else keep
                checks.append(
                    {"set": {"causal": causal, "row": row, "window": window}, "read": keep.int().flatten(), "digits": 0}
                )
    data = {"L": L, "S": S, "lengths": list(lengths), "start": start}
    return Play("mask-composer", title, data, checks)


def sinusoid_clock(d_model, length, *, title, base=10000.0, start=1):
    """Each pair of columns of the sinusoidal table as the hand of a clock; one turn per wavelength."""
    pairs = torch.arange(0, d_model, 2, dtype=torch.float64)
    rates = base ** (-pairs / d_model)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    data = {"sin": angles.sin(), "cos": angles.cos(), "wavelengths": 2 * math.pi / rates, "start": start}
    checks = [
        {"set": {"position": p}, "read": torch.stack((angles[p].sin(), angles[p].cos()), -1).flatten(), "digits": 2}
        for p in (0, 1, length // 2, length - 1)
    ]
    return Play("sinusoid-clock", title, data, checks)


def rotary_arrows(q, k, *, title, theta=0.5, positions=13, start=(2, 5)):
    """A query and a key in the plane, each turned by position times `theta`; their dot product. q, k `(2,)`."""
    turn = torch.arange(positions, dtype=torch.float64) * theta

    def turned(x):
        a, b = x.double()
        return torch.stack((a * turn.cos() - b * turn.sin(), a * turn.sin() + b * turn.cos()), -1)

    queries, keys = turned(q), turned(k)
    dots = queries @ keys.T
    data = {"q": queries, "k": keys, "dots": dots, "theta": theta, "start": list(start)}
    places = [(0, 0), (start[0], start[1]), (positions - 1, 0), (start[0] + 1, start[1] + 1)]
    checks = [{"set": {"m": m, "n": n}, "read": [dots[m, n].item()], "digits": 3} for m, n in places]
    return Play("rotary-arrows", title, data, checks)


def alibi_slopes(num_heads, length, *, title, slopes=None):
    """Bias `-slope * distance` and the weights it leaves when all contents score the same.

    `slopes` (H,) may be handed over; the default is the geometric sequence for a power of two.
    """
    if slopes is None:
        slopes = torch.tensor([2.0 ** (-8.0 * (h + 1) / num_heads) for h in range(num_heads)])
    distance = torch.arange(length, dtype=torch.float32)
    bias = -slopes[:, None] * distance
    weights = torch.softmax(bias, -1)
    data = {"slopes": slopes, "bias": bias, "weights": weights, "start": num_heads // 2}
    checks = [{"set": {"head": h}, "read": weights[h], "digits": 3} for h in range(num_heads)]
    return Play("alibi-slopes", title, data, checks)


def head_split(length, d_model, heads, *, title, start=1):
    """How the cells of one `(L, D)` matrix move when it is split into heads; `heads` are the counts to choose from."""
    x = torch.arange(length * d_model).view(length, d_model)
    splits = [x.view(length, h, d_model // h).transpose(0, 1) for h in heads]
    data = {
        "length": length,
        "d_model": d_model,
        "heads": list(heads),
        "start": start,
        "cells": [s.flatten() for s in splits],
    }
    checks = [{"set": {"heads": i, "split": True}, "read": s.flatten(), "digits": 0} for i, s in enumerate(splits)]
    checks.append({"set": {"heads": 0, "split": False}, "read": x.flatten(), "digits": 0})
    return Play("head-split", title, data, checks)


def kv_cache(tokens, *, d, title, bytes_per_element=2, start=2):
    """Rows projected and scores computed at each decoding step, without and with a cache, for one head of size d."""
    steps, naive_rows, cached_rows, naive_scores, cached_scores = [], 0, 0, 0, 0
    cache = torch.empty(0, d)
    for t in range(1, len(tokens) + 1):
        cache = torch.cat((cache, torch.zeros(1, d)))
        naive_rows, naive_scores = naive_rows + t, naive_scores + t * t
        cached_rows, cached_scores = cached_rows + 1, cached_scores + t
        steps.append(
            {
                "projected": [t, 1],
                "scores": [t * t, cache.shape[0]],
                "rows_total": [naive_rows, cached_rows],
                "scores_total": [naive_scores, cached_scores],
                "bytes": 2 * cache.numel() * bytes_per_element,
            }
        )
    data = {"tokens": list(tokens), "steps": steps, "start": start}
    checks = [
        {
            "set": {"step": i},
            "read": [*s["projected"], *s["scores"], *s["rows_total"], *s["scores_total"], s["bytes"]],
            "digits": 0,
        }
        for i, s in enumerate(steps)
    ]
    return Play("kv-cache", title, data, checks)

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
        return (f'<div class="play" data-figure="{self.name}" role="group" aria-label="{title}"><p class="play-title">{title}</p>'
                f'<p class="play-fallback">This figure needs JavaScript; its data is in the page.</p>'
                f'<script type="application/json">{data}</script></div>')


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
        stage("weights · V", weights @ v, "Each row is the weighted mean of the value rows.", cols=[f"v{i + 1}" for i in range(v.shape[-1])]),
    ]
    checks = [{"set": {"step": i}, "read": s["values"].flatten(), "digits": 2} for i, s in enumerate(stages)]
    if len(tokens) != size or q.shape[0] != size:
        raise ValueError(f"one query per token expected, got {q.shape[0]} queries and {size} tokens")
    return Play("attention-steps", title, {"stages": stages, "start": start}, checks)


def softmax_slider(q, k, *, sizes, keys, title, size=4, scaled=False):
    """Weights of one query for growing head sizes. q `(d_max,)`, k `(S, d_max)`; size n uses the first n features."""
    scores = [k[:, :n] @ q[:n] for n in sizes]
    states = [{"size": i, "scaled": s, "log_temperature": t} for i in (0, len(sizes) - 1) for s in (True, False) for t in (0, 2)]
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
    checks = [{"set": {"head": h, "query": i}, "read": weights[h, i], "digits": 2} for h in range(len(weights)) for i in range(len(tokens))]
    return Play("attention-heads", title, data, checks)


def series(x, curves, *, title, x_label, y_label, log_x=False, log_y=False, start=None):
    """Measured curves with a cursor. x: list of numbers; curves: name -> list of values (None where missing)."""
    data = {"x": list(x), "series": {n: list(v) for n, v in curves.items()}, "x_label": x_label, "y_label": y_label,
            "log_x": log_x, "log_y": log_y, "label": title, "start": start}
    places = (0, len(data["x"]) // 2, len(data["x"]) - 1)
    checks = [{"set": {"index": i}, "read": [v[i] for v in data["series"].values()], "digits": "short"} for i in places]
    return Play("series", title, data, checks)

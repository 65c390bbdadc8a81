"""Plots as inline SVG whose colours follow the light or dark theme of the page.

A figure is drawn with the colour names below; `show` swaps them for the page's CSS variables,
so one drawing is right in both themes. Nothing random or dated is left in the output.
"""

import html
import io
import re

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter

# Stand-ins that `show` replaces: colour in the drawing -> CSS variable in the page.
INK, SOFT, GRID = "#010203", "#040506", "#070809"
SERIES = ("#11aa01", "#11aa02", "#11aa03", "#11aa04", "#11aa05", "#11aa06")
HEAT = "#11aa07"
_VARIABLES = {
    INK: "--fig-ink",
    SOFT: "--fig-soft",
    GRID: "--fig-grid",
    HEAT: "--heat",
    **{color: f"--fig-c{i}" for i, color in enumerate(SERIES)},
}
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "book",
    "font.family": "sans-serif",
    "font.size": 10.5,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "axes.titlesize": 11,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "axes.prop_cycle": matplotlib.cycler(color=SERIES)
    + matplotlib.cycler(linestyle=["-", "--", ":", "-.", (0, (5, 1)), (0, (1, 1))]),
    "axes.labelsize": 10.5,
    "legend.labelcolor": INK,
    "legend.fontsize": 9.5,
    "lines.linewidth": 2,
    "axes.unicode_minus": True,
    "axes.formatter.use_mathtext": False,
}

# For the whole process: legends and texts are made after `axes` has returned.
plt.rcParams.update(_STYLE)


class Figure:
    """Finished SVG; notebooks show it through `_repr_html_`."""

    def __init__(self, markup):
        self._markup = markup

    def _repr_html_(self):
        return self._markup


def axes(rows=1, cols=1, *, size=(5.4, 3.3), **kwargs):
    """`(figure, axes)` in the book's style; `size` in inches, 5.4 wide suits a telephone too."""
    return plt.subplots(rows, cols, figsize=size, layout="constrained", **kwargs)


def show(figure, *, alt):
    """The figure as inline SVG with the text alternative `alt` (what a reader who cannot see it needs)."""
    if len(alt) < 20:
        raise ValueError(f"alt text of at least one sentence expected, got {alt!r}")
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return Figure(_themed(buffer.getvalue(), alt))


def _themed(svg, alt):
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    # matplotlib numbers its groups from 1 in every figure: the ids would repeat within a page.
    svg = re.sub(r'<g id="[a-z0-9A-Z]+_\d+(_\d+)?">', "<g>", svg)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    for color, variable in _VARIABLES.items():
        svg = re.sub(color, f"var({variable})", svg, flags=re.I)
    svg = re.sub(r"\s*\n\s*", " ", svg)
    return svg.replace("<svg", f'<svg class="fig" role="img" aria-label="{html.escape(alt, quote=True)}"', 1)


def heat(ax, matrix, *, rows, cols, digits=2, low=0.0, high=1.0):
    """Draw a small matrix (at most about 16 x 16) as shaded cells with row and column names."""
    for i, row in enumerate(matrix.tolist()):
        for j, value in enumerate(row):
            shade = min(max((value - low) / (high - low), 0.0), 1.0)
            ax.add_patch(plt.Rectangle((j, i), 0.96, 0.96, facecolor=HEAT, alpha=shade, linewidth=0))
            if digits is not None:
                ax.text(j + 0.48, i + 0.5, f"{value:.{digits}f}", ha="center", va="center", color=INK, fontsize=9)
    ax.set(
        xlim=(0, len(cols)),
        ylim=(len(rows), 0),
        xticks=[j + 0.48 for j in range(len(cols))],
        yticks=[i + 0.5 for i in range(len(rows))],
    )
    ax.set_xticklabels(cols)
    ax.set_yticklabels(rows)
    ax.grid(False)
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)


def powers(axis, base=10):
    """Write the ticks of a logarithmic axis as plain text, such as 10⁻³."""
    digits = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

    def write(value, _):
        import math

        power = math.log(value, base) if value > 0 else 0.5
        return f"{base}{str(round(power)).translate(digits)}" if abs(power - round(power)) < 1e-6 else ""

    axis.set_major_formatter(FuncFormatter(write))
    axis.set_minor_formatter(FuncFormatter(lambda value, _: ""))

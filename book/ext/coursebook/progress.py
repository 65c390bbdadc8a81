"""Progress without an account: tell progress.js which chapters and quizzes exist, and show the summary."""

import json

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class progress(nodes.General, nodes.Element):
    pass


class ProgressDirective(SphinxDirective):
    def run(self):
        return [progress()]


def chapters_of(env):
    """Names of the numbered chapters and how many quizzes each carries."""
    names = sorted(name for name in env.found_docs if name[:2].isdigit())
    return {name: len(env.metadata[name].get("quizzes", [])) for name in names}


def visit_progress(self, node):
    chapters = json.dumps(chapters_of(self.builder.env), sort_keys=True)
    self.body.append(
        f'<section class="progress-summary" aria-label="Your progress" data-chapters=\'{chapters}\'>'
        '<p class="progress-text">Progress is remembered in this browser.</p></section>'
    )
    raise nodes.SkipNode


def mark_page(app, pagename, templatename, context, doctree):
    # docutils still writes a role that the standard has withdrawn, inside a list that wants items.
    if "doc-biblioentry" in (context.get("body") or ""):
        context["body"] = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')
    app.add_js_file("progress.js", loading_method="defer")
    app.add_js_file("site.js", loading_method="defer")


def setup(app):
    app.add_node(progress, html=(visit_progress, None), epub=(visit_progress, None))
    app.add_directive("progress", ProgressDirective)
    app.connect("html-page-context", mark_page)

"""Directive `exercise-card`: time, points, Colab link and download of one topic's exercise.

Time, points and title come from the notebook's metadata (`metadata.course`), so no number
stands twice. While a notebook is not released yet, the card says so.
"""

import json
import shutil
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class exercise_card(nodes.General, nodes.Element):
    pass


def notebook_of(topic, root):
    """Path of the exercise notebook of `topic` ("02_scaled_dot_product") below `root`."""
    return root / "exercises" / topic / f"{topic.split('_', 1)[1]}.ipynb"


def facts_of(path):
    """`metadata.course` of the notebook at `path`; empty when the notebook is not released."""
    if not path.exists():
        return {}
    return json.loads(path.read_text("utf-8"))["metadata"].get("course", {})


def colab_address(config, topic):
    """Colab opens a notebook by its place in a public GitHub repository."""
    options = config.html_theme_options
    repository = options["repository_url"].removeprefix("https://github.com/").strip("/")
    branch = options.get("repository_branch", "main")
    notebook = f"exercises/{topic}/{topic.split('_', 1)[1]}.ipynb"
    return f"https://colab.research.google.com/github/{repository}/blob/{branch}/{notebook}"


class CardDirective(SphinxDirective):
    required_arguments = 1

    def run(self):
        topic = self.arguments[0]
        path = notebook_of(topic, Path(self.env.srcdir).parent)
        self.env.note_dependency(str(path))
        return [
            exercise_card(
                "", topic=topic, released=path.exists(), facts=facts_of(path), colab=colab_address(self.config, topic)
            )
        ]


def visit_card(self, node):
    topic, facts = node["topic"], node["facts"]
    title = escape(str(facts.get("title", topic.split("_", 1)[1].replace("_", " "))))
    self.body.append(
        f'<aside class="exercise-card" aria-label="Exercise: {title}">'
        f'<p class="exercise-title"><span class="quiz-kicker">Exercise</span> {title}</p>'
    )
    if not node["released"]:
        self.body.append("<p>This build of the site came before the exercise was released.</p>")
    details = [f"{facts[key]} {key}" for key in ("minutes", "points") if key in facts]
    if details:
        self.body.append(f'<p class="exercise-facts">{" · ".join(details)}</p>')
    if node["released"]:
        name = f"{topic.split('_', 1)[1]}.ipynb"
        up = self.builder.get_relative_uri(self.builder.current_docname, "index").rsplit("/", 1)
        prefix = up[0] + "/" if len(up) > 1 else ""
        self.body.append(
            f'<p class="exercise-links"><a href="{escape(node["colab"])}" rel="noopener">Open in Colab</a> '
            f'<a href="{prefix}exercises/{topic}/{name}" download="{name}">Download the notebook</a></p>'
        )
    self.body.append("</aside>")
    raise nodes.SkipNode


def copy_notebooks(app, exception):
    if exception or app.builder.format != "html":
        return
    root = Path(app.srcdir).parent
    for path in sorted((root / "exercises").glob("[0-9][0-9]_*/*.ipynb")):
        target = Path(app.outdir) / "exercises" / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def keep_repository(app, config):
    """`html_theme_options` replaces what Jupyter Book derived from `repository:`; put that back."""
    import yaml

    conf = yaml.safe_load((Path(app.srcdir).parent / "_config.yml").read_text("utf-8"))
    config.html_theme_options.setdefault("repository_url", conf["repository"]["url"])
    config.html_theme_options.setdefault("repository_branch", conf["repository"]["branch"])


def setup(app):
    app.add_node(exercise_card, html=(visit_card, None), epub=(visit_card, None))
    app.add_directive("exercise-card", CardDirective)
    app.connect("config-inited", keep_repository, priority=100)
    app.connect("build-finished", copy_notebooks)

r"""Directive `quiz`: one question, options with feedback on each, checked in the page.

:::{quiz} What does the scale keep fixed?
- [x] The variance of the scores.
  > Yes: each score then has variance 1.
- [ ] The mean of the scores.
  > The mean is 0 with and without the scale.
:::
"""

from html import escape

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

FORMAT = "a quiz is a question and a list of '- [x] option' or '- [ ] option', each with a '> feedback' below it"


class quiz(nodes.General, nodes.Element):
    """One question; children are a title part and the options."""


class quiz_question(nodes.General, nodes.Element):
    pass


class quiz_option(nodes.General, nodes.Element):
    pass


class quiz_feedback(nodes.General, nodes.Element):
    pass


class QuizDirective(SphinxDirective):
    has_content = True
    required_arguments = 0
    optional_arguments = 1
    final_argument_whitespace = True
    option_spec = {"name": directives.unchanged}

    def run(self):
        name = f"quiz-{self.env.docname}-{self.env.new_serialno('quiz') + 1}"
        node = quiz("", ids=[name])
        self.set_source_info(node)
        question = quiz_question()
        for part in self.arguments:
            question += self.parse_text(part)
        node += question
        holder = nodes.Element()
        self.state.nested_parse(self.content, self.content_offset, holder)
        for child in holder.children:
            if isinstance(child, nodes.bullet_list):
                node.extend(self.option(item, name, i) for i, item in enumerate(child.children))
            else:
                question += child
        self.demand(node)
        self.env.metadata[self.env.docname].setdefault("quizzes", []).append(name)
        return [node]

    def parse_text(self, text):
        inline, messages = self.state.inline_text(text, self.lineno)
        return [nodes.paragraph("", "", *inline), *messages]

    def option(self, item, name, index):
        label, *rest = item.children
        right, found = strip_box(label)
        quotes = [child for child in rest if isinstance(child, nodes.block_quote)]
        if not found or len(quotes) != 1:
            raise self.error(FORMAT)
        feedback = quiz_feedback("", *quotes[0].children)
        return quiz_option("", label, feedback, right=right, quiz=name, index=index, spoken=spoken(label))

    def demand(self, node):
        options = list(node.findall(quiz_option))
        if len(options) < 2 or sum(o["right"] for o in options) != 1:
            raise self.error(FORMAT + "; exactly one option is right")


def spoken(paragraph):
    """A name for an option that is one formula: its source, since MathML does not count as a label."""
    plain = [t for t in paragraph.findall(nodes.Text) if not isinstance(t.parent, nodes.math) and t.astext().strip()]
    return "" if plain else paragraph.astext().strip()


def strip_box(paragraph):
    """Remove the `[x]` in front of an option; (is it right, was there a box)."""
    for text in paragraph.findall(nodes.Text):
        mark = text.astext().lstrip()[:3].lower()
        if mark in ("[x]", "[ ]"):
            text.parent.replace(text, nodes.Text(text.astext().lstrip()[3:].lstrip()))
            return mark == "[x]", True
        break
    return False, False


def visit_quiz(self, node):
    self.body.append(f'<form class="quiz" id="{node["ids"][0]}" data-quiz><fieldset>')


def depart_quiz(self, node):
    self.body.append(
        '<button type="submit" class="quiz-check">Check</button>'
        '<div class="quiz-result" role="status" aria-live="polite"></div></fieldset></form>'
    )


def visit_question(self, node):
    self.body.append('<legend><span class="quiz-kicker">Quiz</span> ')


def depart_question(self, node):
    self.body.append("</legend>")


def visit_option(self, node):
    name, index = node["quiz"], node["index"]
    right = "true" if node["right"] else "false"
    label = f' aria-label="{escape(node["spoken"])}"' if node["spoken"] else ""
    self.body.append(
        f'<div class="quiz-option" data-right="{right}"><input type="radio" name="{name}" '
        f'id="{name}-{index}" value="{index}"{label}/><label for="{name}-{index}">'
    )


def depart_option(self, node):
    self.body.append("</div>")


def visit_feedback(self, node):
    self.body.append('</label><div class="quiz-feedback">')


def depart_feedback(self, node):
    self.body.append("</div>")


def unwrap_paragraphs(app, doctree):
    """Legends and labels hold phrases only, so their paragraphs become plain inline nodes."""
    for holder in [*doctree.findall(quiz_question), *doctree.findall(quiz_option)]:
        for paragraph in [c for c in holder.children if isinstance(c, nodes.paragraph)]:
            holder.replace(paragraph, nodes.inline("", "", *paragraph.children, classes=["quiz-text"]))


def add_script(app, pagename, templatename, context, doctree):
    if "data-quiz" in (context.get("body") or ""):
        app.add_js_file("quiz.js", loading_method="defer")


def setup(app):
    pairs = {
        quiz: (visit_quiz, depart_quiz),
        quiz_question: (visit_question, depart_question),
        quiz_option: (visit_option, depart_option),
        quiz_feedback: (visit_feedback, depart_feedback),
    }
    for node, visitors in pairs.items():
        app.add_node(node, html=visitors, epub=visitors)
    app.add_directive("quiz", QuizDirective)
    app.connect("doctree-read", unwrap_paragraphs)
    app.connect("html-page-context", add_script)

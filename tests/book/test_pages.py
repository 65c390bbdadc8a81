"""Every page in a real browser: quiet console, no other host, formulas in place, accessible."""

from pathlib import Path

import axe_playwright_python
import pytest
from booksite import SITE, page_names

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
# Thousands of spans that draw formulas take most of axe's time. They are hidden from assistive
# technology (the MathML beside them speaks) and have the colour of the text around them.
SCOPE = '{exclude: [[".katex-html"]]}'
RULES = '{runOnly: {type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}, resultTypes: ["violations"]}'


@pytest.mark.parametrize("name", [*page_names(), "search", "genindex"])
def test_page_opens_quietly_and_alone(name, visit, address):
    seen = visit()
    page = seen.open(f"{address}/{name}.html")
    page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
    page.wait_for_timeout(100)
    assert seen.faults == []
    assert seen.outside(address) == []
    assert len(seen.requests) > 3, "the protocol reported no requests: the count above would prove nothing"
    raw = page.evaluate("""() => [...document.querySelectorAll('.math')]
        .filter(m => !m.querySelector('.katex math')).length
        + document.querySelectorAll('.katex-error').length""")
    assert raw == 0, f"{raw} formulas are not rendered"


@pytest.mark.parametrize("name", page_names())
def test_page_opens_from_a_folder(name, visit, site):
    seen = visit(width=390)
    page = seen.open((site / f"{name}.html").as_uri())
    assert seen.faults == []
    assert seen.outside("file:") == []
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"the page is {wide} px wider than a telephone"


@pytest.mark.parametrize("name", [*page_names(), "search"])
def test_accessible(name, visit, address):
    found = []
    page = visit().open(f"{address}/{name}.html")
    page.evaluate(AXE)
    for theme in ("light", "dark"):
        page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            # Two frames: the page has its new layout, and what watches the layout has run.
            page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            page.wait_for_timeout(60)
            for fault in page.evaluate(f"axe.run({SCOPE}, {RULES})")["violations"]:
                places = [f"{n['target']} {n['any'][0]['message'] if n['any'] else ''}" for n in fault["nodes"][:4]]
                found.append(f"{theme} {width}: {fault['id']} x{len(fault['nodes'])}: {places}")
    assert not found, "\n".join(found)


def test_theme_is_really_dark(visit, address):
    colors = set()
    for theme in ("light", "dark"):
        page = visit(theme=theme).open(f"{address}/index.html")
        colors.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(colors) == 2


def test_every_figure_has_a_text_and_a_caption(visit, address, site):
    faults = []
    page = visit().page
    for name in page_names():
        page.goto(f"{address}/{name}.html")
        faults += [
            f"{name}: {text}"
            for text in page.evaluate("""() => [...document.querySelectorAll('svg.fig, .bd-article img')].flatMap(f => {
            const text = f.getAttribute('aria-label') || f.getAttribute('alt') || '';
            const caption = f.closest('figure')?.querySelector('figcaption');
            return text.length < 20 || !caption ? ['no alt text or caption: ' + text] : [];
        })""")
        ]
    assert faults == []


def test_chapters_carry_what_every_chapter_has(visit, address):
    faults = []
    page = visit().page
    for name in page_names():
        if not name[:2].isdigit():
            continue
        page.goto(f"{address}/{name}.html")
        if "This page is not written yet" in page.inner_text("article"):
            continue
        count = lambda selector: page.locator(selector).count()  # noqa: E731
        if count("svg.fig") < 3 or count(".play") < 1 or count("form.quiz") < 2:
            faults.append(
                f"{name}: {count('svg.fig')} figures, {count('.play')} to play with, {count('form.quiz')} quizzes"
            )
        if name[:2] != "01" and count(".exercise-card") != 1:
            faults.append(f"{name}: no exercise card")
    assert faults == []


def test_search_finds_from_a_folder(visit, site):
    seen = visit()
    page = seen.open((site / "search.html").as_uri() + "?q=softmax")
    page.wait_for_selector("ul.search li a", timeout=5000)
    links = page.evaluate("[...document.querySelectorAll('ul.search li a')].map(a => a.getAttribute('href'))")
    assert any("02_scaled_dot_product" in link for link in links), links
    assert seen.faults == []


def test_interactive_scripts_are_small():
    for path in (SITE.parents[1] / "book" / "interactive").glob("*.js"):
        assert path.stat().st_size < 12_000, f"{path.name} has {path.stat().st_size} bytes"
    assert (SITE.parents[1] / "book" / "assets" / "quiz.js").stat().st_size < 6_000

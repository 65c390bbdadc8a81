"""Figures to play with, quizzes and progress, used as a reader uses them."""

import math

import pytest
from booksite import page_names

FIGURES = "[...document.querySelectorAll('.play')]"


@pytest.mark.parametrize("name", [n for n in page_names() if n[:2].isdigit()])
def test_figures_agree_with_torch(name, visit, address):
    """Each figure is set to the states that Python recorded, and must show the values that torch gave."""
    page = visit().open(f"{address}/{name}.html")
    for figure in range(page.evaluate(f"{FIGURES}.length")):
        title = page.evaluate(f"{FIGURES}[{figure}].getAttribute('aria-label')")
        results = page.evaluate(
            """i => { const root = [...document.querySelectorAll('.play')][i];
            if (!root.play) return null;
            const {checks} = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
            return checks.map(c => { root.play.set(c.set);
                return {want: c.read, got: root.play.read().map(String), digits: c.digits, set: c.set}; }) }""",
            figure,
        )
        assert results, f"{title}: the figure did not start or has no checks"
        for r in results:
            assert len(r["got"]) == len(r["want"]), f"{title} {r['set']}: {r['got']} against {r['want']}"
            for got, want in zip(r["got"], r["want"], strict=True):
                assert same(got, want, r["digits"]), f"{title} {r['set']}: shows {got}, torch says {want}"


def same(got, want, digits):
    """Is the text `got` the number `want` (null is -inf), up to the rounding of the display?"""
    if want is None:
        return got in ("-inf", "NaN")
    got = float(got)
    if digits == "short":
        return math.isclose(got, want, rel_tol=0.06, abs_tol=0.006 if abs(want) >= 0.01 or want == 0 else 0)
    return abs(got - want) <= 0.51 * 10.0**-digits


@pytest.mark.parametrize("name", [n for n in page_names() if n[:2].isdigit()])
def test_figures_answer_to_the_keyboard(name, visit, address):
    page = visit().open(f"{address}/{name}.html")
    for figure in range(page.evaluate(f"{FIGURES}.length")):
        root = page.locator(".play").nth(figure)
        controls = root.locator("input, button")
        assert controls.count() > 0
        moved = False
        for index in range(controls.count()):
            before = state(root)
            control = controls.nth(index)
            control.focus()
            assert page.evaluate("document.activeElement !== document.body"), "a control cannot take the focus"
            page.keyboard.press(
                {"range": "ArrowRight", "radio": "ArrowRight", "checkbox": "Space"}.get(
                    control.get_attribute("type"), "Enter"
                )
            )
            moved = moved or state(root) != before
        assert moved, f"no control of figure {figure} on {name} changes it"


def state(root):
    return root.evaluate("r => [...r.children].filter(c => !c.matches('script')).map(c => c.outerHTML).join('')")


@pytest.mark.parametrize("name", [n for n in page_names() if n[:2].isdigit()])
def test_quizzes_answer_every_option(name, visit, address):
    page = visit().open(f"{address}/{name}.html")
    for form in page.locator("form.quiz").all():
        assert form.locator("fieldset > legend").count() == 1
        form.locator("button").click()
        assert "Choose" in form.locator("[role=status]").inner_text()
        rights = 0
        for option in form.locator(".quiz-option").all():
            option.locator("input").focus()
            page.keyboard.press("Space")
            form.locator("button").press("Enter")
            answer = form.locator("[role=status]").inner_text()
            rights += answer.startswith("Right.")
            assert len(answer) > 25, f"no feedback: {answer!r}"
        assert rights == 1


def test_progress_is_remembered(visit, address):
    seen = visit()
    page = seen.open(f"{address}/02_scaled_dot_product.html")
    form = page.locator("form.quiz").first
    form.locator(".quiz-option[data-right=true] input").check()
    form.locator("button").click()
    page.locator(".prev-next-footer").scroll_into_view_if_needed()
    page.wait_for_selector(".progress-tick", state="attached")
    page = seen.open(f"{address}/index.html")
    text = page.locator(".progress-text").inner_text()
    assert "Chapters read: 1 of 11" in text and "Quizzes answered: 1 of" in text
    page.locator(".progress-summary button").click()
    page.wait_for_function("document.querySelector('.progress-text').textContent.includes('read: 0 of')")

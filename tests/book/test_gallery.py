"""Every component of book/figures/play.py on one page: right values, keyboard, accessible in both themes."""

import sys

import pytest
import torch
from booksite import ROOT
from test_interaction import FIGURES, same, state
from test_pages import AXE, RULES

sys.path.insert(0, str(ROOT / "book"))
from figures import play

WORDS = ["we", "saw", "the", "cat"]


def examples():
    g = torch.Generator().manual_seed(3)

    def randn(*shape):
        return torch.randn(*shape, generator=g)

    x, w = randn(4, 8), randn(8, 3)
    place = 0.8 * randn(4, 8)
    mix = lambda y: torch.softmax(y @ y.T / 8**0.5, -1) @ y @ w  # noqa: E731
    return [
        play.attention_steps(
            WORDS, randn(4, 8), randn(4, 8), randn(4, 3), mask=torch.ones(4, 4).bool().tril(), title="Steps"
        ),
        play.softmax_slider(randn(256), randn(5, 256), sizes=[1, 16, 256], keys=list("abcde"), title="Softmax", size=2),
        play.heat_map(WORDS, WORDS, torch.softmax(randn(4, 4), -1), title="Heat map"),
        play.attention_heads(WORDS, torch.softmax(3 * randn(3, 4, 4), -1), title="Heads"),
        play.series(
            [1, 10, 100],
            {"up": [0.5, 20.0, 3e4], "down": [1.0, 1e-3, None]},
            title="Series",
            x_label="n",
            y_label="y",
            log_x=True,
            log_y=True,
        ),
        play.permutation(
            WORDS,
            {"as written": [0, 1, 2, 3], "reversed": [3, 2, 1, 0], "first two swapped": [1, 0, 2, 3]},
            {"no positions": lambda o: mix(x[o]), "with positions": lambda o: mix(x[o] + place)},
            title="Permutation",
        ),
        play.mask_composer([5, 3, 0], 4, S=5, title="Masks"),
        play.sinusoid_clock(12, 50, title="Clocks"),
        play.rotary_arrows(torch.tensor([1.0, 0.2]), torch.tensor([0.7, 0.6]), title="Arrows"),
        play.alibi_slopes(8, 12, title="Slopes"),
        play.head_split(3, 8, [1, 2, 4], title="Split"),
        play.kv_cache(WORDS, d=16, title="Cache"),
    ]


@pytest.fixture(scope="module")
def gallery(site, tmp_path_factory):
    static = (site / "_static").as_uri()
    figures = examples()
    styles = ["styles/theme.css", "styles/bootstrap.css", "styles/pydata-sphinx-theme.css", "site.css", "play.css"]
    scripts = ["common.js", "site.js", *(f"{f.name}.js" for f in figures)]
    html = [
        '<!DOCTYPE html><html lang="en" data-theme="light"><head><meta charset="utf-8"><title>Gallery</title>',
        *(f'<link rel="stylesheet" href="{static}/{s}">' for s in styles),
        *(f'<script defer src="{static}/{s}"></script>' for s in scripts),
        '</head><body><main style="padding:1rem"><h1>Gallery</h1>',
        *(f._repr_html_() for f in figures),
        "</main></body></html>",
    ]
    path = tmp_path_factory.mktemp("gallery") / "gallery.html"
    path.write_text("".join(html), "utf-8")
    return path.as_uri()


def test_every_script_is_in_the_gallery():
    names = {p.stem for p in (ROOT / "book" / "interactive").glob("*.js")} - {"common"}
    assert names - {f.name for f in examples()} == set(), "add the new component to examples()"


def test_values_agree_with_torch(gallery, visit):
    seen = visit()
    page = seen.open(gallery)
    assert seen.faults == []
    for i, figure in enumerate(examples()):
        for check in page.evaluate(
            """i => { const root = [...document.querySelectorAll('.play')][i];
            const {checks} = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
            return checks.map(c => { root.play.set(c.set); return {...c, got: root.play.read().map(String)}; }) }""",
            i,
        ):
            assert len(check["got"]) == len(check["read"]), (figure.name, check)
            for got, want in zip(check["got"], check["read"], strict=True):
                assert same(got, want, check["digits"]), (figure.name, check["set"], got, want)


def test_a_wrong_value_is_noticed(gallery, visit):
    """The check itself must be able to fail: one digit changed in what the figure shows is seen."""
    page = visit().open(gallery)
    page.evaluate(f"{FIGURES}[0].querySelector('tbody td').textContent = '9.99'")
    got = page.evaluate(f"{FIGURES}[0].play.read()[0]")
    assert not same(str(got), examples()[0].data["checks"][3]["read"].tolist()[0], 2)


def test_keyboard_reaches_every_control(gallery, visit):
    page = visit().open(gallery)
    for i in range(page.evaluate(f"{FIGURES}.length")):
        root = page.locator(".play").nth(i)
        for control in root.locator("input, button").all():
            before = state(root)
            control.focus()
            kind = control.get_attribute("type")
            page.keyboard.press({"range": "ArrowRight", "radio": "ArrowRight", "checkbox": "Space"}.get(kind, "Enter"))
            if kind == "range":
                if state(root) == before:  # it stood at its right end
                    page.keyboard.press("ArrowLeft")
                assert state(root) != before, f"figure {i}: a slider changes nothing"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_gallery_accessible(gallery, visit, theme, width):
    page = visit(width=width).open(gallery)
    page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    page.wait_for_timeout(600)  # cells of the head split slide for half a second
    page.evaluate(AXE)
    found = [
        f"{v['id']}: {[n['target'] for n in v['nodes']][:4]}"
        for v in page.evaluate(f"axe.run(document, {RULES})")["violations"]
    ]
    assert not found, "\n".join(found)
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")

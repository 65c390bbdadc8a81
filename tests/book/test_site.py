"""The built files without a browser: links resolve, notebooks are there, nothing loads from outside."""

import re
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest
from booksite import ROOT, page_names

sys.path.insert(0, str(ROOT / "book" / "ext"))


class _Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.ids = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.update(attrs[key] for key in ("id", "name") if attrs.get(key))
        self.links += [attrs[key] for key in ("href", "src") if attrs.get(key)]


@pytest.fixture(scope="session")
def pages(site):
    return {path: _Page(path.read_text("utf-8")) for path in sorted(site.glob("*.html"))}


def test_links_inside_the_site_resolve(pages, site):
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                broken.append(f"{path.name}: {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                broken.append(f"{path.name}: {link} (no such place)")
    assert broken == []


def test_cards_agree_with_the_notebooks(pages, site):
    import json

    for notebook in sorted((ROOT / "exercises").glob("[0-9][0-9]_*/*.ipynb")):
        topic = notebook.parent.name
        assert (site / "exercises" / topic / notebook.name).read_bytes() == notebook.read_bytes()
        text = (site / f"{topic}.html").read_text("utf-8")
        if "exercise-card" not in text:
            continue
        facts = json.loads(notebook.read_text("utf-8"))["metadata"].get("course", {})
        for key in ("minutes", "points"):
            assert f"{facts[key]} {key}" in text
        assert re.search(
            rf"https://colab\.research\.google\.com/github/[^/\"]+/[^/\"]+/blob/[^/\"]+/exercises/{topic}/{notebook.name}",
            text,
        )


def test_every_page_has_card_icon_and_canonical_address(pages, site):
    for name in page_names():
        text = (site / f"{name}.html").read_text("utf-8")
        for wanted in ('property="og:title"', 'property="og:image"', 'rel="canonical"', 'rel="icon"'):
            assert wanted in text, f"{name}: {wanted}"
        assert f"{name}.html" in (site / "sitemap.xml").read_text("utf-8")


def test_no_heavy_leftovers(site):
    names = [p.name for p in site.rglob("*") if p.is_file()]
    assert not [n for n in names if n.endswith(".map") or "require" in n or "thebe" in n or n == "all.min.js"]


@pytest.mark.parametrize(
    "html, count",
    [
        ('<script src="https://cdn.example/x.js"></script>', 1),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', 1),
        ('<img src="http://a.example/x.png" srcset="https://b.example/y.png 2x">', 2),
        ('<iframe src="https://a.example"></iframe>', 1),
        ('<p style="background:url(https://a.example/x.png)">', 2),
        ('<style>@import "https://a.example/x.css";</style>', 1),
        ('<a href="https://a.example">a link to follow</a><link rel="canonical" href="https://a.example/x.html">', 0),
        ('<img src="_images/x.png"><script src="_static/x.js"></script>', 0),
    ],
)
def test_the_rule_against_other_hosts_sees(html, count):
    from coursebook.offline import outside_loads

    assert len(outside_loads(html)) == count


def test_deterministic_figures_carry_no_date(site):
    for name in page_names():
        text = (site / f"{name}.html").read_text("utf-8")
        assert "Matplotlib v" not in text and "<dc:date>" not in text

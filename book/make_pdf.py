"""Print the whole book to one PDF: `python book/make_pdf.py [OUTPUT]`, after `jupyter-book build book/`.

All pages of the built site are joined into one HTML file, with their links turned into links
inside it, and printed by Chromium. Figures to play with appear in their first state.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "_build" / "html"
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-pdf-header-footer",
    "--generate-pdf-document-outline",
    "--virtual-time-budget=10000",
]
PRINT = """
@page { size: A4; margin: 18mm 16mm 20mm; @bottom-center { content: counter(page); font: 9pt sans-serif; } }
body { font-size: 10.5pt; padding: 0; }
article.page { break-before: page; display: block; }
article.page .headerlink, .progress-summary, #index--your-progress, article.page .copybtn { display: none; }
article.page p, article.page li, article.page figcaption { max-width: none; }
details { display: none; } .cell_input { break-inside: avoid; } .toc-print li { margin: .2rem 0; }
h1, h2, h3 { break-after: avoid; }
"""


def page_names():
    toc = yaml.safe_load((ROOT / "book" / "_toc.yml").read_text("utf-8"))
    return [toc["root"], *(chapter["file"] for part in toc["parts"] for chapter in part["chapters"])]


def article_of(html):
    body = html[html.index("<article") : html.index("</article>")]
    return body[body.index(">") + 1 :]


def rename(article, name, names):
    """Make ids unique over all pages and point links between pages at them."""
    article = re.sub(r'\b(id|for|name|aria-labelledby|aria-describedby)="([^"]+)"', rf'\1="{name}--\2"', article)
    article = re.sub(r'(xlink:href|href)="#([^"]*)"', rf'\1="#{name}--\2"', article)
    article = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}--\1)", article)

    def to_page(match):
        page, place = match.group(1), match.group(2)
        if page not in names:
            return match.group(0)
        return f'href="#{page}--{place[1:]}"' if place else f'href="#{page}"'

    return re.sub(r'href="([\w]+)\.html(#[^"]*)?"', to_page, article)


def joined(names):
    """One HTML page with all articles, using the styles and scripts that the pages themselves use."""
    pages = {name: (SITE / f"{name}.html").read_text("utf-8") for name in names}
    heads = [page[: page.index("</head>")] for page in pages.values()]
    styles = list(dict.fromkeys(s for head in heads for s in re.findall(r'<link[^>]+rel="stylesheet"[^>]*>', head)))
    figures = list(
        dict.fromkeys(
            s
            for head in heads
            for s in re.findall(r'<script defer="defer" src="_static/(?!progress|quiz)[^>]*></script>', head)
        )
    )
    figures.sort(key=lambda tag: "common.js" not in tag)
    titles = {
        name: re.sub(r"<[^>]+>", "", re.search(r"<h1>(.*?)<a class=\"headerlink", article_of(page), re.S).group(1))
        for name, page in pages.items()
    }
    toc = "".join(f'<li><a href="#{name}">{titles[name]}</a></li>' for name in names[1:])
    articles = [
        f'<article class="bd-article page" id="{name}">{rename(article_of(page), name, names)}</article>'
        for name, page in pages.items()
    ]
    articles.insert(
        1, f'<article class="page"><h1>Contents</h1><ol class="toc-print" style="list-style:none">{toc}</ol></article>'
    )
    return (
        f'<!DOCTYPE html><html lang="en" data-theme="light"><head><meta charset="utf-8">'
        f"<title>{titles[names[0]]}</title>"
        f"{''.join(styles)}<style>{PRINT}</style>{''.join(figures)}</head><body>{''.join(articles)}</body></html>"
    )


def chromium():
    found = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
    if found is None:
        raise SystemExit("no Chromium found: install the package chromium, or print the pages from any browser")
    return found


def main(output):
    names = page_names()
    missing = [name for name in names if not (SITE / f"{name}.html").exists()]
    if missing:
        raise SystemExit(f"build the site first (jupyter-book build book/): {missing[0]}.html is not there")
    source = SITE / "print-all.html"  # beside the pages, so that their relative addresses hold
    source.write_text(joined(names), "utf-8")
    output.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory() as profile:
            subprocess.run(
                [chromium(), *ARGUMENTS, f"--user-data-dir={profile}", f"--print-to-pdf={output}", source.as_uri()],
                check=True,
                capture_output=True,
                timeout=300,
            )
    finally:
        source.unlink()
    print(f"{output}: {output.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "_build" / "pdf" / "book.pdf")

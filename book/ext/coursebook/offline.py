"""The site stands alone: remove what the theme would load, and fail on anything from another host."""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

from sphinx.errors import ExtensionError

LOADS = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "image": ("href", "xlink:href"),
}
LINK_KINDS = {
    "stylesheet",
    "preload",
    "icon",
    "shortcut",
    "modulepreload",
    "manifest",
    "prefetch",
    "dns-prefetch",
    "preconnect",
}
OUTSIDE = re.compile(r"^\s*(https?:)?//", re.I)
CSS_LOADS = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])\s*((?:https?:)?//[^'\")\s]+)", re.I)


class _Loads(HTMLParser):
    """Collects the address of everything a page would fetch by itself."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        wanted = LOADS.get(tag, ())
        if tag == "link" and LINK_KINDS & set((attrs.get("rel") or "").lower().split()):
            wanted = ("href",)
        self.found += [attrs[name] for name in wanted if attrs.get(name)]
        self.found += CSS_LOADS.findall(attrs.get("style") or "")


def outside_loads(html):
    """Addresses on other hosts that the page `html` would load; links to follow do not count."""
    parser = _Loads()
    parser.feed(html)
    return [url for url in parser.found if OUTSIDE.match(url)] + CSS_LOADS.findall(html)


def remove_unused(outdir):
    shutil.rmtree(outdir / "_static" / "vendor", ignore_errors=True)  # Font Awesome, see templates/
    for path in (outdir / "_static").rglob("*.map"):
        path.unlink()
    # Source maps are gone, and a browser with open tools would report each missing one.
    for path in (outdir / "_static").rglob("*.js"):
        text = path.read_text("utf-8", errors="replace")
        if "sourceMappingURL" in text:
            path.write_text(re.sub(r"\n?//# sourceMappingURL=\S+", "", text), "utf-8")


def check(app, exception):
    if exception or app.builder.format != "html":
        return
    outdir = Path(app.outdir)
    remove_unused(outdir)
    faults = []
    for path in sorted(outdir.rglob("*.html")):
        faults += [f"{path.relative_to(outdir)}: {url}" for url in outside_loads(path.read_text("utf-8"))]
    for path in sorted(outdir.rglob("*.css")):
        faults += [f"{path.relative_to(outdir)}: {url}" for url in CSS_LOADS.findall(path.read_text("utf-8"))]
    stamp = outdir.parent / ".built"
    stamp.unlink(missing_ok=True)
    if faults:
        raise ExtensionError("the site loads from other hosts:\n  " + "\n  ".join(faults))
    stamp.touch()  # the tests compare its time with the sources


def write_sitemap(app, exception):
    """List every page. (sphinx-sitemap lists only the pages that this build wrote anew.)"""
    if exception or app.builder.name != "html":
        return
    base = app.config.html_baseurl.rstrip("/")
    pages = "".join(
        f"<url><loc>{base}/{app.builder.get_target_uri(name)}</loc></url>\n" for name in sorted(app.env.found_docs)
    )
    head = '<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
    (Path(app.outdir) / "sitemap.xml").write_text(head + pages + "</urlset>\n", "utf-8")


def site_address(app, config):
    config.ogp_site_url = config.html_baseurl


def setup(app):
    # Jupyter Book always sets this value; its extension calls other hosts and is not loaded.
    app.add_config_value("comments_config", {}, "html")
    app.connect("config-inited", site_address)
    app.connect("build-finished", write_sitemap)
    app.connect("build-finished", check, priority=900)

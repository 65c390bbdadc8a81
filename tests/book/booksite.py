"""Where the built book is, which pages it has, and one visit to a page with all that the page said and asked for."""

import shutil
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
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
]


def sources():
    kept = [
        p
        for p in (ROOT / "book").rglob("*")
        if p.is_file() and not {"_build", "__pycache__", "jupyter_execute"} & set(p.parts)
    ]
    return [ROOT / "_config.yml", *kept, *(ROOT / "exercises").rglob("*.ipynb")]


def fresh():
    mark = SITE.parent / ".built"  # written at the end of a successful build
    return mark.exists() and mark.stat().st_mtime >= max(p.stat().st_mtime for p in sources())


def page_names():
    """Every page that the table of contents names."""
    toc = yaml.safe_load((ROOT / "book" / "_toc.yml").read_text("utf-8"))
    return [toc["root"], *(chapter["file"] for part in toc["parts"] for chapter in part["chapters"])]


def chromium():
    return next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)


class Visit:
    """One open page with everything it said and asked for."""

    def __init__(self, browser, theme="light", width=1280):
        self.context = browser.new_context(viewport={"width": width, "height": 900})
        self.context.add_init_script(f"localStorage.setItem('mode','{theme}');localStorage.setItem('theme','{theme}')")
        self.page = self.context.new_page()
        self.requests, self.faults = [], []
        protocol = self.context.new_cdp_session(self.page)
        protocol.send("Network.enable")
        protocol.on("Network.requestWillBeSent", lambda event: self.requests.append(event["request"]["url"]))
        self.page.on(
            "console", lambda message: message.type in ("error", "warning") and self.faults.append(message.text)
        )
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("requestfailed", lambda request: self.faults.append(f"failed: {request.url}"))

    def open(self, url):
        self.page.goto(url, wait_until="load")
        self.page.evaluate("document.fonts.ready")
        return self.page

    def outside(self, address):
        return [url for url in self.requests if not url.startswith((address, "data:", "blob:", "file:"))]

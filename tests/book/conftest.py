"""A built site and a real browser for the tests of the book.

The site is built once, unless a build newer than every source of the book exists. The browser is
the system's Chromium, driven over its debugging protocol; none is downloaded.
"""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
ARGUMENTS = ("--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
             "--disable-component-update --disable-sync --disable-quic").split()


def sources():
    kept = [p for p in (ROOT / "book").rglob("*") if p.is_file() and not {"_build", "__pycache__", "jupyter_execute"} & set(p.parts)]
    return [ROOT / "_config.yml", *kept, *(ROOT / "exercises").rglob("*.ipynb")]


def fresh():
    mark = SITE.parent / ".built"  # written at the end of a successful build
    return mark.exists() and mark.stat().st_mtime >= max(p.stat().st_mtime for p in sources())


@pytest.fixture(scope="session")
def site():
    """Folder of the built site."""
    if not fresh():
        command = [Path(sys.executable).with_name("jupyter-book"), "build", "book/", "-W", "--keep-going"]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    return SITE


def page_names():
    """Every page that the table of contents names."""
    import yaml

    toc = yaml.safe_load((ROOT / "book" / "_toc.yml").read_text("utf-8"))
    return [toc["root"], *(chapter["file"] for part in toc["parts"] for chapter in part["chapters"])]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="session")
def address(site):
    """Address of a local server for the site."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def chromium():
    return next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)


@pytest.fixture(scope="session")
def browser():
    if chromium() is None:
        reason = "no Chromium on this machine: the browser tests of the book did not run"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        running = play.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        yield running
        running.close()


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
        self.page.on("console", lambda message: message.type in ("error", "warning") and self.faults.append(message.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("requestfailed", lambda request: self.faults.append(f"failed: {request.url}"))

    def open(self, url):
        self.page.goto(url, wait_until="load")
        self.page.evaluate("document.fonts.ready")
        return self.page

    def outside(self, address):
        return [url for url in self.requests if not url.startswith((address, "data:", "blob:", "file:"))]


@pytest.fixture
def visit(browser):
    opened = []

    def make(**kwargs):
        opened.append(Visit(browser, **kwargs))
        return opened[-1]

    yield make
    for one in opened:
        one.context.close()

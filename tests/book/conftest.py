"""A built site and a real browser for the tests of the book.

The site is built once, unless a build newer than every source of the book exists. The browser is
the system's Chromium, driven over its debugging protocol; none is downloaded.
"""

import functools
import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from booksite import ARGUMENTS, ROOT, SITE, Visit, chromium, fresh


@pytest.fixture(scope="session")
def site():
    """Folder of the built site."""
    if not fresh():
        command = [Path(sys.executable).with_name("jupyter-book"), "build", "book/", "-W", "--keep-going"]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    return SITE


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


@pytest.fixture
def visit(browser):
    opened = []

    def make(**kwargs):
        opened.append(Visit(browser, **kwargs))
        return opened[-1]

    yield make
    for one in opened:
        one.context.close()

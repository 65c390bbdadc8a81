"""Figures: load each small script only where it is used, and keep outputs fresh.

The cache of executed pages looks at the cells alone. A change in book/figures would leave old
outputs, so the fingerprint of that folder is kept beside the cache and a new one empties it.
"""

import hashlib
import os
import re
import shutil
from pathlib import Path

USED = re.compile(r'data-figure="([a-z-]+)"')


def fingerprint(folder):
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def drop_stale_outputs(app, config):
    cache = Path(app.outdir).parent / ".jupyter_cache"
    mark = Path(app.outdir).parent / ".figures.sha256"
    now = fingerprint(Path(app.srcdir) / "figures")
    app.coursebook_figures_changed = not (mark.exists() and mark.read_text() == now)
    if app.coursebook_figures_changed:
        shutil.rmtree(cache, ignore_errors=True)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_text(now)


def pages_to_reread(app, env, added, changed, removed):
    if not app.coursebook_figures_changed:
        return []
    return [name for name in env.found_docs if "import" in Path(env.doc2path(name)).read_text("utf-8")]


def add_scripts(app, pagename, templatename, context, doctree):
    names = sorted(set(USED.findall(context.get("body") or "")))
    for name in ["common", *names] if names else []:
        app.add_js_file(f"{name}.js", loading_method="defer")


def setup(app):
    # One thread: the sums of a page come out the same on every machine with any number of cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    app.connect("config-inited", drop_stale_outputs)
    app.connect("env-get-outdated", pages_to_reread)
    app.connect("html-page-context", add_scripts)

"""Figures: load each small script only where it is used, and keep outputs fresh.

The cache of executed pages looks at the cells alone. A change in what they import or read would leave
old outputs, so a fingerprint of that is kept beside the cache, and a new one empties it.
"""

import hashlib
import os
import re
import shutil
from pathlib import Path

RUN = ("figures/*.py", "*.json", "../exercises/11_transformer/*.ipynb")  # what the cells of pages import and read
USED = re.compile(r'data-figure="([a-z-]+)"')


def fingerprint(paths):
    digest = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def changed(app, name, paths):
    """Whether these files differ from those of the build before; remembers them."""
    mark = Path(app.outdir).parent / f".{name}.sha256"
    now = fingerprint(paths)
    if mark.exists() and mark.read_text() == now:
        return False
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(now)
    return True


def drop_stale_outputs(app, config):
    book = Path(app.srcdir)
    app.coursebook_figures_changed = changed(app, "figures", [path for glob in RUN for path in book.glob(glob)])
    static = [path for folder in ("assets", "interactive", "templates") for path in book.glob(f"{folder}/**/*")]
    app.coursebook_static_changed = changed(app, "static", static)
    if app.coursebook_figures_changed:
        shutil.rmtree(Path(app.outdir).parent / ".jupyter_cache", ignore_errors=True)


def pages_to_reread(app, env, added, changed, removed):
    if app.coursebook_static_changed:
        return env.found_docs  # Sphinx copies styles and scripts only when it writes pages
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

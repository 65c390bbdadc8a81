"""What a build before left is used again only while everything that it was made from is the same."""

from types import SimpleNamespace

import pytest
from booksite import ROOT

TEXT = "../exercises/11_transformer/transformer.ipynb"  # chapter 11 takes its text from there


@pytest.fixture
def build(tmp_path, monkeypatch):
    """`build()` says which pages are read again, and whether the outputs of cells were kept."""
    monkeypatch.syspath_prepend(str(ROOT / "book/ext"))
    from coursebook import figures

    book, cache = tmp_path / "book", tmp_path / "_build" / ".jupyter_cache"
    names = ("figures/a.py", TEXT, "assets/site.js", "interactive/b.js", "proof.json", "with.md", "without.md")
    for name in names:
        (book / name).parent.mkdir(parents=True, exist_ok=True)
        (book / name).write_text("import torch" if name == "with.md" else "x")
    env = SimpleNamespace(found_docs={"with", "without"}, doc2path=lambda name: book / f"{name}.md")

    def run():
        cache.mkdir(exist_ok=True, parents=True)
        app = SimpleNamespace(outdir=tmp_path / "_build" / "html", srcdir=book)
        figures.drop_stale_outputs(app, None)
        return sorted(figures.pages_to_reread(app, env, None, None, None)), cache.exists()

    run.book = book
    run()
    return run


def test_nothing_is_read_again_when_nothing_changed(build):
    assert build() == ([], True)


@pytest.mark.parametrize("name", ["assets/site.js", "interactive/b.js"])
def test_a_changed_style_or_script_reaches_every_page(build, name):
    (build.book / name).write_text("y")
    assert build() == (["with", "without"], True)
    assert build() == ([], True)


@pytest.mark.parametrize("name", ["figures/a.py", "proof.json", TEXT])
def test_changed_code_or_data_runs_the_cells_again(build, name):
    (build.book / name).write_text("y")
    assert build() == (["with"], False)

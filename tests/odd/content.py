"""Odd contents of a notebook."""

import json

from tests.odd.rows import FULL, NOTHING, changed, code, copy_of, entries, named


@changed("untouched")
def _(notebook):
    pass


@changed("test cells tagged skip-execution, wrong answer", score=NOTHING, wrong=True)
def _(notebook):
    for cell in notebook["cells"]:
        cell["metadata"]["tags"] = ["skip-execution", "hide-cell", "remove-cell", "raises-exception"]


@changed("test cells tagged skip-execution, right answer")
def _(notebook):
    for cell in notebook["cells"]:
        cell["metadata"]["tags"] = ["skip-execution"]


@changed("every answer cell's nbgrader metadata removed", "accepted")
def _(notebook):
    for cell in notebook["cells"]:
        cell["metadata"].pop("nbgrader", None)


@changed("nbgrader metadata and ids removed", "repaired", says="cell ids")
def _(notebook):
    for cell in notebook["cells"]:
        cell["metadata"].pop("nbgrader", None)
        cell.pop("id")


@changed("a duplicated grade cell")
def _(notebook):
    notebook["cells"].append(copy_of(named(notebook, "attention")) | {"id": "copy"})


@changed("a duplicated answer cell: the second definition is wrong, and is the one that counts", score=4.0 - 1.0)
def _(notebook):
    wrong = copy_of(named(notebook, "answer-attention")) | {"id": "copy"}
    wrong["source"] = "def scaled_dot_product_attention(q, k, v, mask=None):\n    return None\n"
    notebook["cells"].append(wrong)


@changed("an old schema version")
def _(notebook):
    for entry in entries(notebook):
        entry["schema_version"] = 1
        entry.pop("cell_type", None)


@changed("a schema version from the future, and of odd types")
def _(notebook):
    for entry in entries(notebook):
        entry.update(schema_version="99", points="many", locked="no", grade=[1])


@changed("grade and solution flags swapped")
def _(notebook):
    for entry in entries(notebook):
        entry["grade"], entry["solution"], entry["locked"] = entry["solution"], entry["grade"], False


@changed("a grade id changed")
def _(notebook):
    named(notebook, "attention")["metadata"]["nbgrader"]["grade_id"] = "another"


@changed("all grade ids the same")
def _(notebook):
    for entry in entries(notebook):
        entry["grade_id"] = "softmax"


@changed("all grade ids the same, and no cell ids", "repaired", says="cell ids")
def _(notebook):
    for cell in notebook["cells"]:
        cell.pop("id")
    for entry in entries(notebook):
        entry["grade_id"] = "softmax"


@changed("points changed, right answer")
def _(notebook):
    for entry in entries(notebook):
        entry["points"] = 1000


@changed("points changed, wrong answer", score=NOTHING, wrong=True)
def _(notebook):
    for entry in entries(notebook):
        entry["points"] = 1000


@changed("locked cells rewritten, wrong answer", score=NOTHING, wrong=True)
def _(notebook):
    for name in ("softmax", "attention", "mask"):
        named(notebook, name)["source"] = "9.0"


@changed("the setup cell emptied")
def _(notebook):
    for cell in notebook["cells"]:
        if str(cell["metadata"].get("nbgrader", {}).get("grade_id", "")).startswith("setup"):
            cell["source"] = ""


@changed("test cells deleted")
def _(notebook):
    notebook["cells"] = [c for c in notebook["cells"] if not c["metadata"].get("nbgrader", {}).get("grade")]


@changed("every cell but the answers deleted")
def _(notebook):
    notebook["cells"] = [named(notebook, "answer-softmax"), named(notebook, "answer-attention")]


@changed("one answer cell deleted", score=3.0)
def _(notebook):
    notebook["cells"].remove(named(notebook, "answer-attention"))


@changed("every cell deleted", score=NOTHING)
def _(notebook):
    notebook["cells"] = []


@changed("cells in reverse order, answers still code")
def _(notebook):
    notebook["cells"].reverse()


@changed("an answer turned into Markdown")
def _(notebook):
    cell = named(notebook, "answer-softmax")
    cell["cell_type"] = "markdown"
    cell.pop("outputs", None)
    cell.pop("execution_count", None)


@changed("a check turned into Markdown")
def _(notebook):
    cell = named(notebook, "softmax")
    cell["cell_type"] = "raw"
    cell.pop("outputs", None)
    cell.pop("execution_count", None)


@changed("the answers in cells of the learner's own")
def _(notebook):
    for name in ("answer-softmax", "answer-attention"):
        cell = named(notebook, name)
        notebook["cells"].insert(notebook["cells"].index(cell), code(cell["source"]))
        notebook["cells"].remove(cell)


@changed("a helper in a cell of the learner's own")
def _(notebook):
    cell = named(notebook, "answer-softmax")
    notebook["cells"].insert(0, code("def my_helper(x):\n    return x.exp()\n"))
    cell["source"] = (
        "def softmax(x, dim=-1):\n    e = my_helper(x - x.amax(dim=dim, keepdim=True))\n"
        "    return e / e.sum(dim=dim, keepdim=True)\n"
    )


@changed("an error in a cell of the learner's own")
def _(notebook):
    notebook["cells"].insert(0, code("1 / 0"))
    notebook["cells"].append(code("this is no Python ::"))


@changed("a cell that never ends")
def _(notebook):
    notebook["cells"].insert(0, code("while True: pass"))


@changed("a cell that ends the kernel")
def _(notebook):
    notebook["cells"].append(code("import os\nos._exit(1)"))


@changed("a cell that ends the kernel, before the answers")
def _(notebook):
    notebook["cells"].insert(0, code("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"))


@changed("an answer cell that defines, then raises", score=FULL)
def _(notebook):
    named(notebook, "answer-softmax")["source"] += "\nraise RuntimeError('after the definition')\n"


@changed("a syntax error in one answer", score=6.0)
def _(notebook):
    named(notebook, "answer-softmax")["source"] = "def softmax(x dim):\n    pass\n"
    named(notebook, "answer-attention")["source"] = (
        "def scaled_dot_product_attention(q, k, v, mask=None):\n"
        "    s = (q / math.sqrt(q.size(-1))) @ k.mT\n"
        "    s = s if mask is None else s.masked_fill(mask == 0, float('-inf'))\n"
        "    w = torch.nan_to_num(torch.softmax(s, -1))\n"
        "    return w @ v, w\n"
    )


@changed("a warning on stderr, and logging")
def _(notebook):
    notebook["cells"].insert(0, code("import sys, warnings, logging\nwarnings.warn('careful')\n"
                                     "print('oh', file=sys.stderr)\nlogging.error('no')"))  # fmt: skip


@changed("20 MB printed in one line")
def _(notebook):
    notebook["cells"].append(code("print('x' * 20_000_000)"))


@changed("20 MB of saved output", "refused", None, says="MiB")
def _(notebook):
    notebook["cells"][-1] = code("1")
    notebook["cells"][-1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * 21_000_000}]


@changed("saved outputs with script", says="Outputs were dropped")
def _(notebook):
    data = {"text/html": "<script>alert(1)</script>", "application/javascript": "alert(1)"}
    shown = code("1")
    shown["outputs"] = [{"output_type": "display_data", "data": data, "metadata": {}}]
    notebook["cells"].append(shown)


@changed("script in a Markdown cell")
def _(notebook):
    notebook["cells"].append(
        {"cell_type": "markdown", "id": "md", "metadata": {}, "source": "<script>alert(1)</script>"}
    )


@changed("magics, shell commands and top-level await")
def _(notebook):
    notebook["cells"].insert(0, code("%matplotlib inline\n!ls /\n%time 1 + 1\nimport asyncio\nawait asyncio.sleep(0)"))


@changed("plots, input() and exit()")
def _(notebook):
    notebook["cells"].insert(0, code("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"))
    notebook["cells"].insert(1, code("input('name? ')"))
    notebook["cells"].insert(2, code("exit()"))


@changed("files that the notebook writes beside itself")
def _(notebook):
    lines = [f"open('{n}.py', 'w').write('raise SystemExit')" for n in ("torch", "conftest", "sitecustomize", "numpy")]
    notebook["cells"].insert(0, code("\n".join([*lines, "open('x.pth', 'w').write('import os; os._exit(1)')"])))


@changed("attachments and odd metadata", "repaired", says="widget")
def _(notebook):
    notebook["metadata"].update(
        widgets={"application/vnd.jupyter.widget-state+json": {"state": {}}}, extra=[1, {"a": 2}]
    )
    notebook["cells"][0]["attachments"] = {"a.png": {"image/png": "AAAA"}}


@changed("a cell's text as a list of lines, and as a number", "accepted")
def _(notebook):
    for cell in notebook["cells"]:
        cell["source"] = cell["source"].splitlines(keepends=True)
    notebook["cells"].append(code("1") | {"source": 7})


@changed("invalid surrogates in the text")
def _(notebook):
    notebook["cells"].append(code("x = '\ud800'"))
    json.dumps(notebook)


@changed("a locked cell full of what takes Python's parser hours")
def _(notebook):
    named(notebook, "softmax")["source"] = 'f"' + "{a}" * 10**6 + '"'


@changed("a locked cell of a million lines")
def _(notebook):
    named(notebook, "softmax")["source"] = "a\n" * 10**6

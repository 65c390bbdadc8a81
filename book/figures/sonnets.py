"""The text of exercise 11, taken from its notebook: ten sonnets by William Shakespeare, London 1609. Public domain."""

import ast
import json
from pathlib import Path

NOTEBOOK = Path(__file__).resolve().parents[2] / "exercises" / "11_transformer" / "transformer.ipynb"


def text():
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    (cell,) = (cell for cell in cells if cell["id"] == "given-text")
    assignment, *_ = (node for node in ast.parse("".join(cell["source"])).body if isinstance(node, ast.Assign))
    assert [name.id for name in assignment.targets] == ["TEXT"], "the cell of the text begins with TEXT = ..."
    return ast.literal_eval(assignment.value)


TEXT = text()

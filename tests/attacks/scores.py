"""Attacks that want points: forged verdicts, objects that lie, the interpreter bent."""

from tests.attacks.attacks import attack, both, both_do


@attack("a tensor equal to everything", "fail", "error")
def _():
    return """
class Equal(torch.Tensor):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
""" + both("torch.zeros_like(x).as_subclass(Equal)")


@attack("an object that lies about shape, dtype and class", "fail", "error")
def _():
    return """
class Liar:
    shape = property(lambda self: torch.Size([3, 4, 5, 2]))
    dtype = torch.float32
    __class__ = property(lambda self: torch.Tensor)
    def __eq__(self, other): return True
    def __iter__(self): return iter([self, self])
    def __len__(self): return 2
""" + both("Liar()")


@attack("allclose and equal always true")
def _():
    return "torch.allclose = torch.equal = torch.isclose = lambda *a, **k: True\n"


@attack("AssertionError is no error any more")
def _():
    return "import builtins\nbuiltins.AssertionError = type('A', (Exception,), {})\n"


@attack("printed scores")
def _():
    return "print('9.0')\nprint({'score': 9, 'outcome': 'pass'})\n9.0\n"


@attack("an input transformer that makes every cell 9.0")
def _():
    return "get_ipython().input_transformers_cleanup.append(lambda lines: ['9.0\\n'])\n"


@attack("an AST transformer that makes every cell 9.0")
def _():
    return """
import ast
class T(ast.NodeTransformer):
    def visit_Module(self, node): return ast.parse('9.0')
get_ipython().ast_transformers.append(T())
"""


@attack("hooks after each cell")
def _():
    return "get_ipython().events.register('post_run_cell', lambda result: print('9.0'))\n"


@attack("the shell's own run_cell replaced")
def _():
    return """
shell = get_ipython()
class Fine: error_before_exec = error_in_exec = None; success = True; result = 9.0
type(shell).run_cell = lambda self, *a, **k: Fine()
"""


@attack("an error that calls itself a pass", "error")
def _():
    return both_do("raise type('CheckPassed', (Exception,), {})('pass')")


@attack("an error named like the grader's own", "error", "not_answered")
def _():
    return both_do("raise type('NotVerified', (Exception,), {})('can not be decided here')")


@attack("the device test made undecided", "fail", "error")
def _():
    return """
from torch._subclasses.fake_tensor import DataDependentOutputException
""" + both_do("if 'Fake' in type(x).__name__: raise DataDependentOutputException('x')", "return x * 0.1")


@attack("pytest, numpy and unittest bent")
def _():
    return """
import unittest, numpy
unittest.TestCase.assertEqual = lambda *a: None
numpy.allclose = lambda *a, **k: True
sys.modules['pytest'] = type(sys)('pytest')
"""


@attack("a gradebook written beside the notebook")
def _():
    return """
import sqlite3
for folder in ('.', '/tmp', '/sandbox/work'):
    db = sqlite3.connect(os.path.join(folder, 'gradebook.db'))
    db.execute('create table grade (auto_score real)')
    db.execute('insert into grade values (9)')
    db.commit()
open('verdict.json', 'w').write('{"outcome": "pass", "score": 9}')
"""


@attack("a notebook that rewrites itself")
def _():
    return "open('scaled_dot_product.ipynb', 'w').write('{}')\nopen('timestamp.txt', 'w').write('1970-01-01')\n"


@attack("files named like modules", "fail", "error")
def _():
    return """
for name in ('torch', 'conftest', 'sitecustomize', 'numpy', 'usercustomize', 'pytest'):
    open(f'/sandbox/work/{name}.py', 'w').write('raise SystemExit')
open('/sandbox/work/x.pth', 'w').write('import os; os._exit(0)')
"""


@attack("a search for the reference in memory and frames")
def _():
    return """
found = [o for o in gc.get_objects() if isinstance(o, dict) and 'reference' in o and 'hidden' in o]
frame_ = sys._getframe()
while frame_:
    for value in frame_.f_locals.values():
        if callable(getattr(value, 'reference', None)): softmax = value.reference
    frame_ = frame_.f_back
"""


@attack("a search for solutions in the file system")
def _():
    return """
for folder, _, names in os.walk('/'):
    if folder.startswith(('/proc', '/usr', sys.prefix)): continue
    for name in names:
        if name in ('hidden.py', 'topic.py', 'gradebook.db', 'secret'):
            exec(open(os.path.join(folder, name)).read())
"""

"""Attacks on the grading: each turns a wrong answer into a program that tries to be scored as right, or to do harm.

Each attack is the source of a cell that runs after the wrong answer, beside it or in its place. What must hold for every one of them stands in `test_attacks`.
"""

WRONG = """
import torch
def softmax(x, dim=-1):
    return x * 0.1 + torch.zeros(x.shape)
def scaled_dot_product_attention(q, k, v, mask=None):
    return q * 0.1 + torch.zeros(q.shape), k * 0.1
"""

ATTACKS: dict[str, str] = {
    # -- forged verdicts
    "an object equal to everything": """
class Equal(torch.Tensor):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
softmax = lambda x, dim=-1: torch.zeros_like(x).as_subclass(Equal)
""",
    "an object that lies about its shape": """
class Liar:
    shape = property(lambda self: torch.Size([3, 4, 5, 2])); dtype = torch.float32
    def __eq__(self, other): return True
softmax = lambda x, dim=-1: Liar()
""",
    "allclose always true": "torch.allclose = lambda *a, **k: True\ntorch.equal = lambda *a, **k: True",
    "assert that never fails": "import builtins\nbuiltins.AssertionError = type('A', (Exception,), {})",
    "printed scores": "print('9.0')\nprint({'score': 9, 'outcome': 'pass'})\n9.0",
    "an input transformer": "get_ipython().input_transformers_cleanup.append(lambda lines: ['9.0\\n'])",
    "an AST transformer": """
import ast
class T(ast.NodeTransformer):
    def visit_Module(self, node): return ast.parse('9.0')
get_ipython().ast_transformers.append(T())
""",
    "a post-run hook": "get_ipython().events.register('post_run_cell', lambda result: print('9.0'))",
    "a forged execute_result": """
shell = get_ipython()
shell.kernel.session.send(shell.kernel.iopub_socket, 'execute_result',
    {'data': {'text/plain': '9.0'}, 'metadata': {}, 'execution_count': 1}, ident=b'x')
""",
    # -- the channel
    "frames sent before they are asked for": """
import json, struct
sock = get_ipython().course_serve.args[1]
head = json.dumps({'d': [['id', '0'], ['value', {'d': []}]]}).encode()
for _ in range(50): sock.sendall(struct.pack('!IQ', len(head), 0) + head)
""",
    "garbage on the channel": "import os\nget_ipython().course_serve.args[1].sendall(os.urandom(4096))",
    "a frame of 2**60 bytes": """
import struct
get_ipython().course_serve.args[1].sendall(struct.pack('!IQ', 100, 2**60))
""",
    "the channel closed": "get_ipython().course_serve.args[1].close()",
    "the server replaced by silence": "get_ipython().course_serve = lambda: __import__('time').sleep(10**6)",
    "a stub that always says the expected": """
from autograder.sandbox import stub
stub.Stub.answer = lambda self, header, body: (b'{"d": [["id", "x"], ["value", true]]}', b'')
""",
    "an error forged as a pass": "def softmax(x, dim=-1): raise type('CheckPassed', (Exception,), {})('pass')",
    "deeply nested answer": """
def softmax(x, dim=-1):
    value = []
    for _ in range(100000): value = [value]
    return value
""",
    "endless callbacks": """
import struct
def softmax(x, dim=-1):
    sock = get_ipython().course_serve.args[1]
    head = b'{"d": [["callback", 0], ["args", {"l": []}], ["kwargs", {"d": []}]]}'
    while True: sock.sendall(struct.pack('!IQ', len(head), 0) + head)
""",
    # -- odd answers
    "a 0-stride giant": "softmax = lambda x, dim=-1: torch.zeros(1).expand(2**40)",
    "a sparse tensor": "softmax = lambda x, dim=-1: x.to_sparse()",
    "a meta tensor": "softmax = lambda x, dim=-1: torch.empty(x.shape, device='meta')",
    "a quantised tensor": "softmax = lambda x, dim=-1: torch.quantize_per_tensor(x.float(), 0.1, 0, torch.quint8)",
    "a complex tensor": "softmax = lambda x, dim=-1: torch.complex(x.float(), x.float())",
    "NaN everywhere": "softmax = lambda x, dim=-1: x * float('nan')",
    "an infinite generator": "softmax = lambda x, dim=-1: iter(int, 1)",
    "an endless error text": "def softmax(x, dim=-1): raise ValueError('x' * 10**8)",
    "an error whose text raises": """
class Bad(Exception):
    def __str__(self): raise RuntimeError('no')
def softmax(x, dim=-1): raise Bad()
""",
    "invalid surrogates": "softmax = lambda x, dim=-1: '\\ud800' * 10",
    "script in an error": "def softmax(x, dim=-1): raise ValueError('<script>alert(1)</script>\\x1b[31m=cmd()')",
    "an int of a million digits": "softmax = lambda x, dim=-1: 10 ** 10**6",
    "keyboard interrupt": "def softmax(x, dim=-1): raise KeyboardInterrupt",
    "system exit": "def softmax(x, dim=-1): raise SystemExit(0)",
    # -- harm
    "the kernel killed by a signal": "import os, signal\ndef softmax(x, dim=-1): os.kill(os.getpid(), signal.SIGKILL)",
    "the first process killed": "import os\nos.kill(1, 9)",
    "a segmentation fault": "import ctypes\ndef softmax(x, dim=-1): ctypes.string_at(0)",
    "a fork bomb": "import os\nfor _ in range(9): os.fork()",
    "memory filled": "hold = []\nfor _ in range(10000): hold.append(bytearray(10**7))",
    "memory filled by children": """
import os, time
for _ in range(8):
    if os.fork() == 0:
        hold = bytearray(b'x') * (800 * 2**20)
        time.sleep(60)
time.sleep(5)
""",
    "anonymous files": """
import os
for n in range(1000): os.write(os.memfd_create(str(n)), b'x' * 2**26)
""",
    "the disk filled": """
for n in range(10000): open(f'/sandbox/work/{n}', 'wb').write(b'x' * 2**24)
""",
    "20 MB in one line": "print('x' * 20_000_000)",
    "output without end": "import time\nt = time.time()\nwhile time.time() - t < 5: print('y' * 1000)",
    "a thread that never ends": """
import threading
threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()
""",
    "ptrace and /proc of others": """
import os
for pid in os.listdir('/proc'):
    if pid.isdigit():
        try: print(open(f'/proc/{pid}/mem', 'rb').read(1))
        except OSError: pass
""",
    "a new user namespace": "import ctypes\nassert ctypes.CDLL(None).unshare(0x10000000) != 0",
    "a link in the socket folder": "import os\nos.symlink('/etc', '/ipc/link')",
    "files named like modules": """
for name in ('torch', 'conftest', 'sitecustomize', 'numpy'):
    open(f'/sandbox/work/{name}.py', 'w').write('raise SystemExit')
""",
    "torch broken for everybody": "torch.Tensor.__matmul__ = None\ntorch.zeros = None",
}

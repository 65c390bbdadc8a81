"""Attacks on the channel and on whoever reads it."""

from tests.attacks.attacks import attack, both, both_do


@attack("frames sent before they are asked for")
def _():
    return 'for _ in range(50): channel().sendall(frame(b\'{"d": [["id", "0"], ["value", {"d": []}]]}\'))\n'


@attack("garbage on the channel")
def _():
    return "channel().sendall(os.urandom(4096))\n"


@attack("a frame of 2**60 bytes")
def _():
    return "channel().sendall(struct.pack('!IQ', 100, 2**60))\n"


@attack("a header of 4 GiB")
def _():
    return "channel().sendall(struct.pack('!IQ', 2**32 - 1, 0))\n"


@attack("a frame that never ends", "timeout", "crash")
def _():
    return both_do("channel().sendall(struct.pack('!IQ', 1000, 0) + b'{')", "time.sleep(10**6)")


@attack("a flood of bytes")
def _():
    return both_do("while True: channel().sendall(b'\\0' * 2**20)")


@attack("the channel closed")
def _():
    return "channel().close()\n"


@attack("the channel shut for writing")
def _():
    return "channel().shutdown(socket.SHUT_WR)\n"


@attack("the channel given to a child that answers", "crash", "timeout", "error")
def _():
    return """
if os.fork() == 0:
    while True:
        try: channel().recv(1000); channel().sendall(frame(b'{"d": [["id", "x"], ["value", true]]}'))
        except OSError: os._exit(0)
"""


@attack("a thread that answers in place of the stub")
def _():
    return """
def answer():
    sock = channel()
    while True:
        try: sock.recv(10**6); sock.sendall(frame(b'{"d": [["id", "x"], ["value", {"t": "0"}]]}'))
        except BlockingIOError: pass
        except OSError: return
threading.Thread(target=answer, daemon=True).start()
"""


@attack("a stub whose every answer is true")
def _():
    return """
from autograder.sandbox import stub
stub.Stub.answer = lambda self, header, body: (b'{"d": [["id", "x"], ["value", true]]}', b'')
"""


@attack("a stub with the right id and a true value", "fail", "error")
def _():
    return """
from autograder.sandbox import stub
from autograder.codec import decode, Encoder
def answer(self, header, body):
    request = decode(header, body, resolve=lambda ref: None)
    return Encoder().frame({'id': request['id'], 'value': True})
stub.Stub.answer = answer
"""


@attack("replies that hold unknown and doubled parts", "fail", "error")
def _():
    return """
from autograder.sandbox import stub
from autograder.codec import decode
def answer(self, header, body):
    name = decode(header, body, resolve=lambda ref: None)['id']
    return json.dumps({'d': [['id', name], ['value', {'u': [{'h': 1, 'type': 'x' * 10**6}, {'cb': 3}]}]],
                       'evil': 1}).encode(), b''
stub.Stub.answer = answer
"""


@attack("endless callbacks")
def _():
    call = '{"d": [["callback", 0], ["args", {"l": []}], ["kwargs", {"d": []}]]}'
    return f"call = frame(b'{call}')\n" + both_do("while True: channel().sendall(call)")


@attack("a callback of numbers that nobody gave")
def _():
    call = '{"d": [["callback", -1], ["args", {"h": 5}], ["kwargs", 7]]}'
    return f"call = frame(b'{call}')\n" + both_do("channel().sendall(call)", "channel().recv(10**6)", "return None")


@attack("a callback that is no dictionary")
def _():
    call = '{"d": [["callback", 0]], "l": [1, 2]}'
    return f"call = frame(b'{call}')\n" + both_do("channel().sendall(call)", "channel().recv(10**6)", "return None")


@attack("JSON a hundred thousand deep", "fail", "error")
def _():
    return both_do("channel().sendall(frame(b'{\"l\": [' * 100000))", "time.sleep(1)", "return x")


@attack("a tensor block with a table of a million entries", "fail", "error")
def _():
    return (
        "table = json.dumps({str(i): {'dtype': 'U8', 'shape': [0], 'data_offsets': [0, 0]} for i in range(10**5)})\n"
        "block = struct.pack('<Q', len(table)) + table.encode()\n"
    ) + both_do('channel().sendall(frame(b\'{"t": "0"}\', block))', "time.sleep(1)", "return x")


@attack("an order of axes a million long", "fail", "error")
def _():
    return (
        "from autograder.codec import Encoder\n"
        "body = Encoder().frame([torch.zeros(2, 2)])[1]\n"
        "head = json.dumps({'t': '0', 'order': list(range(10**6 // 3))}).encode()\n"
    ) + both_do("channel().sendall(frame(head, body))", "time.sleep(1)", "return x")


@attack("a deeply nested answer", "fail", "error")
def _():
    return both_do("value = []", "for _ in range(100000): value = [value]", "return value")


@attack("a list that holds itself", "fail", "error")
def _():
    return both_do("value = []", "value.append(value)", "return value, value")


@attack("ten million parts", "fail", "error", "memory", "timeout")
def _():
    return both("[0] * 10**7")


@attack("a 0-stride giant", "fail", "error", "memory")
def _():
    return both("torch.zeros(1).expand(2**40)")


@attack("many middling 0-stride tensors", "fail", "error")
def _():
    return both("[torch.zeros(1).expand(2**24) for _ in range(1000)]")


@attack("a sparse tensor", "fail", "error")
def _():
    return both("x.float().to_sparse()")


@attack("a meta tensor", "fail", "error")
def _():
    return both("torch.empty(x.shape, device='meta')")


@attack("a quantised tensor", "fail", "error")
def _():
    return both("torch.quantize_per_tensor(x.detach().float() + torch.zeros(x.shape), 0.1, 0, torch.quint8)")


@attack("a complex tensor", "fail", "error")
def _():
    return both("torch.complex(x.float(), torch.zeros(x.shape))")


@attack("NaN everywhere", "fail", "error")
def _():
    return both("x * float('nan') + torch.zeros(x.shape)")


@attack("infinity everywhere", "fail", "error")
def _():
    return both("x.abs() * float('inf') + torch.zeros(x.shape)")


@attack("an infinite generator", "fail", "error")
def _():
    return both("iter(int, 1)")


@attack("an int of a million digits", "fail", "error", "timeout")
def _():
    return both("10 ** 10**6")


@attack("invalid surrogates", "fail", "error")
def _():
    return both("'\\ud800' * 10")


@attack("invalid surrogates in an error", "error")
def _():
    return both_do("raise ValueError('\\ud800\\udfff')")


@attack("an endless error text", "error", "memory", "timeout")
def _():
    return both_do("raise ValueError('x' * 10**8)")


@attack("an error whose text raises", "error")
def _():
    return """
class Bad(Exception):
    def __str__(self): raise RuntimeError('no')
    __repr__ = __str__
""" + both_do("raise Bad()")


@attack("an error whose text never ends", "timeout")
def _():
    return """
class Slow(Exception):
    def __str__(self):
        while True: pass
""" + both_do("raise Slow()")


@attack("script, style, ANSI and a formula in an error", "error")
def _():
    return both_do(
        "raise ValueError('<script>alert(1)</script><style>*{}</style><svg onload=alert(1)>\\x1b[31m=cmd()|!A1\\u202e')"
    )


def answers(*lines: str) -> str:
    """A stub that answers each request, of the name `name`, by these lines."""
    head = (
        "from autograder.sandbox import stub\nfrom autograder.codec import Encoder, decode\nreal = stub.Stub.answer\n"
    )
    head += "def answer(self, header, body):\n    name = decode(header, body, resolve=lambda ref: None)['id']\n"
    return head + "".join(f"    {line}\n" for line in lines) + "stub.Stub.answer = answer\n"


@attack("every answer sent twice", "error")
def _():
    return answers("twice = real(self, header, body)", "channel().sendall(frame(*twice))", "return twice")


@attack("an answer that comes byte by byte", "timeout")
def _():
    return both_do(
        "for byte in struct.pack('!IQ', 100, 0) + b' ' * 100: channel().send(bytes([byte])); time.sleep(0.1)"
    )


@attack("errors whose parts are of odd types", "error")
def _():
    return answers("return Encoder().frame({'id': name, 'error': {'kinds': [torch.ones(3), None], 'text': [1]}})")


@attack("errors without a kind, of a kind that is a number", "error")
def _():
    return answers("return Encoder().frame({'id': name, 'error': {'kinds': 5}})")


@attack("script and ANSI in the kind, the place and the keys of an answer", "error")
def _():
    return answers(
        "bad = '<script>alert(1)</script><svg onload=x>\\x1b[31m\\u202e=cmd()'",
        "if os.urandom(1)[0] % 2: return json.dumps({bad * 1000: 1}).encode(), b''",
        "error = {'kinds': [bad] * 99, 'text': bad, 'function': bad, 'line': bad}",
        "return Encoder().frame({'id': name, 'error': error})",
    )

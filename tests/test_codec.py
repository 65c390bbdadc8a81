"""The channel's decoder, given whatever the far side may send: an answer or BadFrame, and soon."""

import enum
import json
import os
import string
import struct
import time

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograder.codec import DTYPES, MAX_EXPANDED, BadFrame, Encoder, Handle, Odd, decode, readable

FULL = bool(os.environ.get("COURSE_FULL"))
GENERATED = settings(
    max_examples=3_000 if FULL else 150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=not FULL
)
SLOWEST_S = 5.0


def decoded(header: bytes, body: bytes = b""):
    began = time.monotonic()
    try:
        value = decode(header, body)
    except BadFrame as error:
        value = error
    assert time.monotonic() - began < SLOWEST_S
    return value


# -- what the encoder sends, the decoder reads -------------------------------------------------------------------------

tensors = st.builds(
    lambda shape, dtype, seed: torch.rand(shape, generator=torch.Generator().manual_seed(seed)).mul(9).to(dtype),
    st.lists(st.integers(0, 4), max_size=4),
    st.sampled_from(list(DTYPES.values())),
    st.integers(0, 99),
)
plain = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats() | st.text(max_size=30)
values = st.recursive(
    plain | tensors,
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def same(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, str):
        return a.encode("utf-8", "replace").decode() == b
    return a == b or (a != a and b != b)


@GENERATED
@given(values)
def test_what_is_sent_arrives(value):
    assert same(value, decode(*Encoder().frame(value)))


@pytest.mark.parametrize("change", [lambda x: x.mT, lambda x: x[:, :1].expand(3, 5), lambda x: x[0, 0]])
def test_layouts_arrive(change):
    x = change(torch.arange(15.0).view(3, 5))
    got = decode(*Encoder().frame(x))
    assert torch.equal(got, x) and got.is_contiguous() == x.is_contiguous()


# -- what nobody should send -------------------------------------------------------------------------------------------

keys = st.sampled_from(
    ["t", "l", "u", "d", "f", "dtype", "device", "odd", "h", "cb", "type", "order", "expand", "grad"]
)
junk = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8) | keys
tree = st.recursive(
    junk, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys | st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip
BODY = Encoder().frame([torch.rand(2, 3), torch.arange(4), torch.tensor(True)])[1]


@GENERATED
@given(tree)
def test_any_json_is_read_or_refused(value):
    decoded(json.dumps(value).encode(), BODY)


@GENERATED
@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(header, body):
    decoded(header, body)
    decoded(b"null", body)
    decoded(b"null", struct.pack("<Q", len(body)) + body)


@GENERATED
@given(st.integers(0, len(BODY) - 1), st.binary(min_size=1, max_size=8), st.integers(0, len(BODY)))
def test_a_damaged_block_of_tensors_is_read_or_refused(place, bytes_, cut):
    damaged = bytearray(BODY)
    damaged[place : place + len(bytes_)] = bytes_
    decoded(b'{"t": "0"}', bytes(damaged))
    decoded(b'{"t": "0"}', BODY[:cut])


sizes = st.integers() | st.integers(0, 4) | st.text(max_size=3) | st.none() | st.floats()


@GENERATED
@given(st.lists(sizes, max_size=20), st.lists(sizes, max_size=20), st.booleans())
def test_any_axes_are_read_or_refused(order, shape, grad):
    decoded(json.dumps({"t": "0", "order": order, "expand": shape, "grad": grad}).encode(), BODY)


table = st.dictionaries(
    st.text(string.ascii_letters, max_size=3),
    st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(["F32", "F64", "F8_E4M3", "BOOL", "I64", "C64", "X", "BF16"]),
            "shape": st.lists(st.integers(-1, 2**40), max_size=4),
            "data_offsets": st.lists(st.integers(0, 2**33), min_size=2, max_size=2),
        }
    ),
    max_size=3,
)


@GENERATED
@given(table, st.binary(max_size=64))
def test_any_table_of_tensors_is_read_or_refused(entries, data):
    text = json.dumps(entries).encode()
    decoded(b'{"t": "a"}', struct.pack("<Q", len(text)) + text + data)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"NaN", "bare number"),
        (b'{"l": [-Infinity]}', "bare number"),
        (b'{"l": [' * 50_000, "nested"),
        (b'{"l": [' * 60 + b"1" + b"]}" * 60, "nested"),
        (b'{"t": "9"}', "was not sent"),
        (b"[1]", "bare list"),
        (b'{"d": [[1]]}', "pairs"),
        (b'{"x": 1}', "unknown node"),
        (b'{"t": "0", "order": [' + b"0," * 99_999 + b"0]}", "short list"),
        (b'{"l": [' + b"1," * 99_999 + b"1]}", "too many parts"),
    ],
)
def test_refused_with_a_reason(header, words):
    assert words in str(decoded(header, BODY))


def test_a_giant_that_costs_nothing_to_send_is_not_built():
    body = Encoder().frame(torch.zeros(1))[1]
    for shape in ([2**40], [MAX_EXPANDED + 1], [2**62, 2**62]):
        assert isinstance(decoded(json.dumps({"t": "0", "expand": shape}).encode(), body), Odd)
    many = [{"t": "0", "expand": [n, 2**10]} for n in range(2**13, 2**13 + 100)]
    assert sum(isinstance(v, Odd) for v in decoded(json.dumps({"l": many}).encode(), body)) > 80


def test_a_long_table_is_refused_before_it_is_read():
    text = json.dumps({str(i): {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(50_000)}).encode()
    assert "too large a table" in str(decoded(b"null", struct.pack("<Q", len(text)) + text))


def test_text_that_no_file_can_hold_is_made_whole():
    value = decoded(b'{"l": ["\\ud800x", {"odd": "\\ud800\\u001b[31m"}, {"h": 1, "type": "\\u202e"}]}')
    assert value[0] == "?x" and value[1] == Odd("\ufffd\ufffd[31m") and value[2] == Handle(1, "\ufffd")
    assert readable("a\x1b\u202eb\n" + "c" * 99, 6) == "a\ufffd\ufffdb\nc" and readable(7, 5) == ""


class Side(enum.IntEnum):
    LEFT = 3


@pytest.mark.parametrize(("value", "plain"), [(np.float64(0.5), 0.5), (Side.LEFT, 3), (np.str_("x"), "x")])
def test_a_subclass_of_a_plain_type_crosses_as_that_type(value, plain):
    crossed = decode(*Encoder().frame(value))
    assert type(crossed) is type(plain) and crossed == plain


@pytest.mark.parametrize("claimed", [torch.Tensor, float, str, int, bool, dict])
def test_an_object_that_lies_about_its_class_is_an_object(claimed):
    liar = type("Liar", (), {"__class__": property(lambda self: claimed)})()
    assert decode(*Encoder().frame(liar)) == Odd("an object of type Liar")


def test_a_tensor_inside_torch_func_grad_crosses_with_its_values():
    crossed = []

    def loss(weight, x):
        crossed.extend(decode(*Encoder().frame([weight, x])))
        return (weight * x).sum()

    weight, x = torch.tensor([2.0, 3.0]), torch.tensor([1, 2])
    torch.func.grad(torch.func.grad(lambda w, t: loss(w, t)))(weight.sum(), x.sum())
    torch.func.grad(loss)(weight, x)
    assert [t.tolist() for t in crossed] == [5.0, 3, [2.0, 3.0], [1, 2]]


def test_an_integer_of_more_than_64_bits_is_odd():
    assert isinstance(decoded(str(2**70).encode()), Odd)

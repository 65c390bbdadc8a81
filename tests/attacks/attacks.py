"""Attacks on the grading: each turns a wrong answer into a program that tries to be scored as right, or to do harm.

Each attack is the source of a cell that runs after the wrong answer, beside it or in its place. What must hold for every
one of them stands in `test_attacks`. The outcome beside it is that of the worst item, and belongs to the assertion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

WRONG = """
import torch
def softmax(x, dim=-1):
    return x * 0.1 + torch.zeros(x.shape)
def scaled_dot_product_attention(q, k, v, mask=None):
    return q * 0.1 + torch.zeros(q.shape), k * 0.1
"""
# What every attack may use: the way from learner code to the channel's socket and to the stub.
TOOLS = """
import ctypes, gc, json, os, signal, socket, struct, sys, threading, time
import torch
def channel():
    return next(o for o in gc.get_objects() if isinstance(o, socket.socket) and o.fileno() > 2)
def won():  # what the attack was after is in reach: then it shall score
    globals()['softmax'] = torch.softmax
def frame(header, body=b''):
    return struct.pack('!IQ', len(header), len(body)) + header + body
"""


@dataclass(frozen=True)
class Attack:
    """outcomes: those that the submission may end with, by name; any but a grader fault where none is given."""

    name: str
    source: str
    outcomes: tuple[str, ...] = ()


ATTACKS: list[Attack] = []


def attack(name: str, *outcomes: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    def add(function: Callable[[], str]) -> Callable[[], str]:
        ATTACKS.append(Attack(name, TOOLS + function(), outcomes))
        return function

    return add


def both(expression: str) -> str:
    """Both functions of the exercise give the same odd answer."""
    return (
        f"def softmax(x, dim=-1):\n    return {expression}\n"
        f"def scaled_dot_product_attention(q, k, v, mask=None):\n    x = q\n    return {expression}\n"
    )


def both_do(*lines: str) -> str:
    body = "\n".join(f"    {line}" for line in lines)
    return (
        f"def softmax(x, dim=-1):\n{body}\ndef scaled_dot_product_attention(q, k, v, mask=None):\n    x = q\n{body}\n"
    )

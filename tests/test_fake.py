"""The imaginary device: code that is right on a GPU passes, a tensor left on the CPU is seen."""

import functools
import warnings

import numpy as np
import pytest
import torch

from autograder.probe import Learner, LocalChannel
from autograder.sandbox import fake

# x is (2, 3) on the imaginary device.
RIGHT = {
    "a literal of one entry, moved": lambda x: x / torch.FloatTensor([4.0]).to(x.device),
    "moved to another tensor": lambda x: x / torch.tensor([4.0]).to(x),
    "moved by keyword": lambda x: x * torch.tensor([2]).to(device=x.device, dtype=x.dtype),
    "moved with a dtype": lambda x: x * torch.tensor([2]).to(x.device, x.dtype),
    "moved by number": lambda x: x + torch.zeros(3).to(x.get_device()),
    "type_as": lambda x: x + torch.tensor([4.0]).type_as(x),
    "the name of a type": lambda x: x + torch.zeros(3).type(x.type()),
    "as_tensor of a tensor": lambda x: torch.as_tensor(x) + x,
    "tensor of a tensor": lambda x: torch.tensor(x) + x,
    "tensor on the device": lambda x: x + torch.tensor(data=[1.0], device=x.device),
    "asarray": lambda x: x + torch.asarray([1.0, 2, 3], device=x.device),
    "new": lambda x: x + x.new(3).fill_(0.0) + x.new([0.0, 1, 2]),
    "new_tensor": lambda x: x + x.new_tensor([1.0, 2, 3]),
    "made like x": lambda x: x + x.new_zeros(3) + torch.ones_like(x),
    "the number of the device": lambda x: x + torch.zeros(3, device=x.get_device()),
    "numpy, moved": lambda x: x + torch.from_numpy(np.ones(1, "float32")).to(x.device),
    "a scalar of the CPU": lambda x: x / torch.tensor(4.0).sqrt(),
    "a scalar's item": lambda x: x / torch.tensor(4.0).sqrt().item(),
    "vmap": lambda x: torch.vmap(lambda row: row + torch.tensor([1.0], device=row.device))(x),
}
WRONG = {
    "zeros": lambda x: x + torch.zeros(3),
    "one entry": lambda x: x + torch.tensor([1.0]),
    "arange": lambda x: x + torch.arange(3),
    "asarray": lambda x: x + torch.asarray([1.0, 2, 3]),
    "cat": lambda x: torch.cat([x, torch.tensor([[1.0, 2, 3]])]),
    "a tensor's type, not its device": lambda x: x + torch.zeros(3).to(x.dtype),
}


def outcome(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fake.run(function, [torch.ones(2, 3)], {})


@pytest.mark.parametrize("form", RIGHT)
def test_right_code_stays_on_the_device(form):
    result = outcome(RIGHT[form])
    assert (result["outcome"], result.get("devices")) == ("ok", ["cpu:1"]), result["message"]


@pytest.mark.parametrize("form", WRONG)
def test_a_tensor_left_on_the_cpu_is_a_mismatch(form):
    assert outcome(WRONG[form])["outcome"] == "mismatch"


def test_a_result_on_the_cpu_is_seen():
    assert outcome(lambda x: x.to("cpu"))["devices"] == ["cpu"]


def test_a_branch_on_values_is_undecided():
    assert outcome(lambda x: x if x.sum() > 0 else -x)["outcome"] == "undecided"


def test_what_was_kept_of_one_world_is_not_used_in_the_other():
    @functools.lru_cache
    def kept(size):
        return torch.zeros(size)

    def add(x):
        return x + kept(x.size(-1)).to(x.device)

    learner = Learner(LocalChannel({"kept": kept, "add": add}), ["add"])
    assert torch.equal(learner.add(torch.ones(2, 3)), torch.ones(2, 3))
    assert learner.on_fake_device("add", torch.ones(2, 3)).outcome == "ok"
    assert torch.equal(learner.add(torch.ones(2, 3)), torch.ones(2, 3))

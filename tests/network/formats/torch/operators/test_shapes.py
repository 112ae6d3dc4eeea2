"""Choosing, moving and reshaping: what keeps the rows is read, what mixes them is refused."""

import numpy as np
import pytest
import torch
from torch import nn

from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from support.torch_graphs import Model, pair

X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
KEPT = {
    "ellipsis": lambda h: h[..., 1:5],
    "new axis": lambda h: h[:, None, :4][:, 0],
    "negative": lambda h: h[:, -4:],
    "steps": lambda h: torch.cat([h[:, ::2], h[:, :1]], 1),
    "narrow": lambda h: h.narrow(1, 2, 4),
    "select": lambda h: torch.stack([h.select(1, i) for i in (3, 1, 0, 0)], -1),
    "unbind": lambda h: torch.stack(torch.unbind(h, 1)[1:5], dim=1),
    "hstack": lambda h: torch.hstack([h[:, 1:4], h[:, 0:1]]),
    "transposed": lambda h: h.t().t()[:, :4],
    "squeezed": lambda h: h.unsqueeze(1).squeeze(1)[:, :4],
    "reshaped": lambda h: h.reshape(h.shape[0], 3, 2)[:, :2].reshape(-1, 4),
    "copied": lambda h: h.clone().detach().contiguous().to(torch.float32).float()[:, :4],
}


@pytest.mark.parametrize("case", KEPT)
def test_rows_that_stay_rows(case):
    torch.manual_seed(0)
    module = pair(lambda m, x: m.b(KEPT[case](m.a(x))), 4).eval()
    with torch.no_grad():
        expected = module(torch.tensor(X)).numpy()[:, 0]
    assert np.allclose(load_network(module).logits(X), expected, atol=1e-5)


MIXED = {
    "rows chosen": (lambda h: h[:3], "chooses among the rows"),
    "rows stacked": (lambda h: torch.cat([h, h], 0), "mixes rows"),
    "rows in columns": (lambda h: h.view(-1, 3), "mix the 6 outputs of different rows|takes"),
    "fixed rows": (lambda h: h.view(50, 6), "makes 50 rows"),
    "mean of rows": (lambda h: h.mean(0, keepdim=True), "mixes rows"),
    "mean of all": (lambda h: h.mean(), "mixes rows"),
    "half": (lambda h: h.half().float(), "casts to float16"),
    "whole numbers": (lambda h: h.long() + 1, "whole numbers"),
    "random": (lambda h: torch.nn.functional.dropout(h), "stays random"),
    "set": (lambda h: h.index_fill(1, torch.tensor([0]), 0.0), r"index_fill\(\)"),
    "beyond": (lambda h: h[:, 9], "chooses 9 of an axis of 6"),
}


@pytest.mark.parametrize("case", MIXED)
def test_what_mixes_rows_is_refused(case):
    change, words = MIXED[case]
    with pytest.raises(FairmendError, match=words):
        load_network(pair(lambda m, x: m.b(change(m.a(x)))))


def test_the_device_and_the_dtype_of_a_tensor_may_be_named():
    module = Model(lambda m, x: m.a(x.to(x.device).type_as(x)).squeeze(-1), a=nn.Linear(4, 1))
    assert load_network(module).inputs == 4


@pytest.mark.parametrize(
    "forward",
    [
        lambda m, x: m.b(m.a(x).type_as(m.whole).float()),
        lambda m, x: m.b(m.a(x).to(m.whole).float()),
        lambda m, x: m.b((h := m.a(x)) + torch.positive(h).mul_(2.0)),
    ],
)
def test_a_cast_to_the_type_of_whole_numbers_and_another_name_for_a_tensor_are_seen(forward):
    """torch.positive returns the tensor itself, so that what changes the one changes the other."""
    with pytest.raises(FairmendError, match=r"whole numbers|changed in place"):
        load_network(pair(forward, whole=torch.arange(6)))


@pytest.mark.parametrize("cast", ["long", "int"])
def test_a_constant_is_cut_to_whole_numbers(cast):
    torch.manual_seed(0)
    module = pair(lambda m, x: m.b(m.a(x) * getattr(m.factor, cast)()), factor=torch.linspace(-2.5, 2.5, 6)).eval()
    with torch.no_grad():
        expected = module(torch.tensor(X)).numpy()[:, 0]
    assert np.allclose(load_network(module).logits(X), expected, atol=1e-5)

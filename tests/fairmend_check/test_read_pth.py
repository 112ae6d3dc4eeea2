"""The .pth reader: views, parameters and other types."""

import numpy as np
import pytest

from fairmend_check.errors import CheckError
from fairmend_check.read_model import read_model


def test_parameters_views_and_other_types(tmp_path):
    import torch

    weight = torch.arange(12.0).reshape(3, 4)
    torch.save({"a.weight": torch.nn.Parameter(weight.T), "a.bias": torch.zeros(4)}, tmp_path / "view.pth")
    model, _ = read_model(tmp_path / "view.pth")
    assert np.array_equal(model.weights[0], weight.numpy().T)
    assert model.activations is None
    torch.save({"a.weight": torch.zeros(1).expand(1000, 1000)}, tmp_path / "expanded.pth")
    torch.save({"a.weight": weight.half()}, tmp_path / "half.pth")
    torch.save({"a.weight": weight, "epoch": 3}, tmp_path / "more.pth")
    for name, reason in (("expanded", "repeats its storage"), ("half", "only float32"), ("more", "not a tensor")):
        with pytest.raises(CheckError, match=reason):
            read_model(tmp_path / f"{name}.pth")


def test_weights_that_are_not_finite(tmp_path):
    import torch

    torch.save({"a.weight": torch.tensor([[1.0, float("nan")]])}, tmp_path / "nan.pth")
    with pytest.raises(CheckError, match="not finite"):
        read_model(tmp_path / "nan.pth")

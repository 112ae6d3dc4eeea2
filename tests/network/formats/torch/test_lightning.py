"""Modules of Lightning in memory are saved as checkpoints that load_from_checkpoint reads."""

import sys
import types

import pytest
import torch
from torch import nn

from fairmend.network import load_network
from fairmend.network.formats.torch.lightning import new_checkpoint


class LightningModule(nn.Module):
    """What fairmend reads of it."""

    hparams = types.MappingProxyType({"width": 3, "sizes": [1, 2], "layer": nn.ReLU})

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))

    def forward(self, x):
        return self.net(x)


LightningModule.__module__ = "lightning.pytorch.core.module"


@pytest.fixture
def lightning(monkeypatch):
    package = types.ModuleType("lightning")
    package.__version__ = "2.6.6"
    monkeypatch.setitem(sys.modules, "lightning", package)


@pytest.mark.usefixtures("lightning")
def test_a_checkpoint_has_the_version_and_the_plain_hyperparameters(tmp_path):
    network = load_network(LightningModule())
    network.save(tmp_path / "m.ckpt")
    found = torch.load(tmp_path / "m.ckpt", weights_only=True)
    assert found["pytorch-lightning_version"] == "2.6.6"
    assert found["hyper_parameters"] == {"width": 3, "sizes": [1, 2]}
    LightningModule().load_state_dict(found["state_dict"], strict=True)
    assert load_network(tmp_path / "m.ckpt") == network


def test_a_plain_module_has_a_state_dict_alone():
    assert new_checkpoint(nn.Linear(2, 1)) == {"state_dict": None}
    assert new_checkpoint(None) == {"state_dict": None}

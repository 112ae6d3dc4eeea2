"""The condition of a verdict on a state dict reads as the one that `fairmend check` prints for the same file."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from fairmend.network import load_network
from fairmend.prove.certificate import identify
from fairmend.prove.fit import model_condition
from fairmend_check.readers.read_model import read_model
from support.torch_graphs import GRAPHS
from support.torch_modules import trained_norm

CHAINS = {
    "relu": lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1)),
    "slope": lambda: nn.Sequential(nn.Linear(4, 3), nn.LeakyReLU(0.1), nn.Linear(3, 2)),
    "no bias": lambda: nn.Sequential(nn.Linear(4, 3, bias=False), nn.Tanh(), nn.Linear(3, 3), nn.Linear(3, 1)),
    "norms": lambda: nn.Sequential(trained_norm(4), nn.Linear(4, 3), trained_norm(3), nn.ReLU(), nn.Linear(3, 1)),
    "double": lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1)).double(),
}
ACTIVATIONS = {"slope": "leaky_relu(0.1)", "no bias": "tanh"}


def condition_of_the_checker(network, path):
    """Read the file as the checker does with the steps that a certificate names."""
    return read_model(path, json.loads(json.dumps(identify(network)["network"])))[0].condition


@pytest.mark.parametrize("suffix", [".pth", ".safetensors", ".ckpt"])
@pytest.mark.parametrize("chain", CHAINS)
def test_a_chain_without_a_note(chain, suffix, tmp_path):
    torch.manual_seed(0)
    path, tensors = tmp_path / f"m{suffix}", CHAINS[chain]().eval().state_dict()
    if suffix == ".safetensors":
        save_file(tensors, path)
    else:
        torch.save({"epoch": None, "state_dict": tensors} if suffix == ".ckpt" else tensors, path)
    network = load_network(path, ACTIVATIONS.get(chain, "relu"))
    condition = model_condition(network)
    assert "The claim is about a module that computes in" in condition
    assert condition == condition_of_the_checker(network, path)
    assert ("epoch" in condition, '"state_dict" of the checkpoint' in condition) == (False, suffix == ".ckpt")


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_graph_that_fairmend_saved(graph, tmp_path):
    torch.manual_seed(0)
    module = load_network(GRAPHS[graph]())
    assert model_condition(module) == ""
    module.save(tmp_path / "m.pth")
    network = load_network(tmp_path / "m.pth")
    assert model_condition(network) == condition_of_the_checker(network, tmp_path / "m.pth")


@pytest.mark.parametrize("graph", ["skip, LeakyReLU(0.1)", "relu", "norms"])
def test_the_program_of_an_exported_one_is_read_here_and_not_by_the_checker(graph, tmp_path):
    torch.manual_seed(0)
    program = torch.export.export({**CHAINS, **GRAPHS}[graph]().eval(), (torch.zeros(2, 4),))
    torch.export.save(program, tmp_path / "m.pt2")
    network = load_network(tmp_path / "m.pt2")
    assert model_condition(network) == ""
    words = condition_of_the_checker(network, tmp_path / "m.pt2")
    assert words.startswith("the program in the file is not checked, only its weights: ")


NNET = ["2,2,1,2,", "2,2,1,", "0,", "{low}", "{high}", "{mean}", "{reach}", "1,2,", "3,4,", "0,", "0,", "1,1,", "0,"]
MOST = repr(float(np.finfo(np.float32).max))


@pytest.mark.parametrize(
    ("low", "high", "mean", "reach", "words"),
    [
        (f"-{MOST},-{MOST},", f"{MOST},{MOST},", "0,0,0,", "1,1,1,", "computes in float32."),
        ("0,0,", "4,4,", "0,0,0,", "4,4,1,", "does not apply the means and ranges"),
        ("0,0,", "4,4,", "1,2,3,", "4,4,2,", "It subtracts the means"),
        ("0,0,", "4,4,", "0,0,0,", "1,1,1,", "It does not clip inputs"),
    ],
)
def test_a_nnet_file(low, high, mean, reach, words, tmp_path):
    text = "\n".join(NNET).format(low=low, high=high, mean=mean, reach=reach) + "\n"
    path = Path(tmp_path / "m.nnet")
    path.write_text(text)
    condition = model_condition(load_network(path))
    assert words in condition
    assert condition == read_model(path)[0].condition


def test_a_file_that_describes_the_whole_network_has_none(tmp_path):
    module = load_network(CHAINS["relu"]())
    module.save(tmp_path / "m.onnx")
    assert model_condition(load_network(tmp_path / "m.onnx")) == model_condition(module) == ""

"""nn.Module in: what it computes comes out, whatever cannot be said as a chain is refused by name."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fairmend.errors import FairmendError
from fairmend.network import load_network

X = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)


def norm(width: int) -> nn.BatchNorm1d:
    layer = nn.BatchNorm1d(width, eps=1e-3)
    with torch.no_grad():
        for tensor in (layer.running_mean, layer.weight, layer.bias):
            tensor.normal_()
        layer.running_var.uniform_(0.2, 2)
    return layer


class Custom(nn.Module):
    """A forward() given as a function of the module and x."""

    def __init__(self, forward, outputs=1):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 6), nn.Linear(6, outputs)
        self.relu, self.drop, self.bn = nn.ReLU(), nn.Dropout(), norm(6)
        self.act = forward

    def forward(self, x):
        return self.act(self, x)


CHAINS = {
    "sequential": lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1)),
    "single": lambda: nn.Linear(4, 3),
    "nested": lambda: nn.Sequential(
        nn.Flatten(),
        nn.Sequential(nn.Linear(4, 6), nn.Sigmoid()),
        nn.Identity(),
        nn.Linear(6, 2),
        nn.Softmax(1),
    ),
    "leaky": lambda: nn.Sequential(nn.Linear(4, 6), nn.LeakyReLU(0.3), nn.Linear(6, 1), nn.Sigmoid()),
    "norms": lambda: nn.Sequential(
        norm(4), nn.Linear(4, 6), norm(6), nn.ReLU(), nn.Dropout(0.9), norm(6), nn.Linear(6, 2), norm(2)
    ),
    "two affine": lambda: nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2, bias=False)),
    "double": lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1)).double(),
    "F.relu": lambda: Custom(lambda m, x: m.fc2(F.relu(m.fc1(x), inplace=True))),
    "torch.relu": lambda: Custom(lambda m, x: m.fc2(torch.relu(m.fc1(x)))),
    "x.relu": lambda: Custom(lambda m, x: m.fc2(m.fc1(x).relu())),
    "torch.tanh": lambda: Custom(lambda m, x: m.fc2(torch.tanh(m.fc1(x)))),
    "x.tanh": lambda: Custom(lambda m, x: m.fc2(m.fc1(x).tanh())),
    "F.leaky_relu": lambda: Custom(lambda m, x: m.fc2(F.leaky_relu(m.fc1(x)))),
    "leaky keyword": lambda: Custom(lambda m, x: m.fc2(F.leaky_relu(m.fc1(x), negative_slope=0.2))),
    "torch.sigmoid": lambda: Custom(lambda m, x: torch.sigmoid(m.fc2(torch.sigmoid(m.fc1(x))))),
    "x.sigmoid": lambda: Custom(lambda m, x: m.fc2(m.fc1(x).sigmoid()).sigmoid().squeeze(-1)),
    "squeeze": lambda: Custom(lambda m, x: torch.sigmoid(m.fc2(m.relu(m.fc1(x))).squeeze(1))),
    "squeeze all": lambda: Custom(lambda m, x: torch.squeeze(m.fc2(m.relu(m.fc1(x))))),
    "squeeze of several": lambda: Custom(lambda m, x: m.fc2(m.relu(m.fc1(x))).squeeze(-1), 3),
    "flatten": lambda: Custom(lambda m, x: m.fc2(m.relu(m.fc1(torch.flatten(x, 1)))).flatten()),
    "F.softmax": lambda: Custom(lambda m, x: F.softmax(m.fc2(m.relu(m.fc1(x))), dim=1), 3),
    "torch.softmax": lambda: Custom(lambda m, x: torch.softmax(m.fc2(m.relu(m.fc1(x))), -1), 3),
    "x.softmax": lambda: Custom(lambda m, x: m.fc2(m.relu(m.fc1(x))).softmax(dim=-1), 2),
    "dropout": lambda: Custom(lambda m, x: m.fc2(m.drop(m.relu(m.bn(m.fc1(x)))))),
    "F.dropout": lambda: Custom(lambda m, x: m.fc2(F.dropout(F.relu(m.fc1(x)), 0.5, m.training))),
    "eval branch": lambda: Custom(lambda m, x: m.fc2(m.fc1(x) if m.training else m.relu(m.fc1(x)))),
    "unused": lambda: Custom(lambda m, x: (m.fc2(x.new_zeros(6)), m.fc2(m.relu(m.fc1(x))))[1]),
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("training", [True, False])
def test_a_chain_computes_what_torch_computes_in_eval_mode(chain, training):
    torch.manual_seed(0)
    module = CHAINS[chain]().train(training)
    before = copy.deepcopy(module.state_dict())
    network = load_network(module)
    assert all(m.training == training for m in module.modules())
    assert all(torch.equal(before[key], value) for key, value in module.state_dict().items())
    with torch.no_grad():
        expected = module.eval()(torch.tensor(X).to(next(module.parameters()).dtype)).numpy()
    got = network.logits(X) if network.closing == "none" else network.probabilities(X)
    assert np.allclose(got.reshape(expected.shape), expected, atol=1e-5)
    assert network.dtype == expected.dtype
    assert load_network(module) == network


def test_names_are_the_modules_own_keys():
    network = load_network(CHAINS["nested"]())
    assert network.names == ("1.0", "3")
    assert repr(network) == "Network(4 → 6 sigmoid → 2 logits + softmax, float32)"
    assert load_network(CHAINS["two affine"]()).activations[0].name == "identity"


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def hooked() -> nn.Module:
    module = nn.Sequential(nn.Linear(4, 1))
    module[0].register_forward_hook(lambda *_: None)
    return module


REFUSED = {
    "conv": (lambda: nn.Sequential(nn.Conv1d(1, 1, 1), nn.Linear(4, 1)), r"layer '0' \(Conv1d\)"),
    "elu": (lambda: nn.Sequential(nn.Linear(4, 4), nn.ELU(), nn.Linear(4, 1)), r"layer '1' \(ELU\)"),
    "gelu": (lambda: Custom(lambda m, x: m.fc2(F.gelu(m.fc1(x)))), r"gelu\(\)"),
    "residual": (lambda: Custom(lambda m, x: m.fc2(m.fc1(x) + m.relu(m.fc1(x)))), r"add\(\)"),
    "constant": (lambda: Custom(lambda m, x: m.fc2(m.fc1(x) * 2)), r"mul\(\)"),
    "cat": (lambda: Custom(lambda m, x: m.fc2(torch.cat([m.fc1(x), x], 1))), r"cat\(\)"),
    "method": (lambda: Custom(lambda m, x: m.fc2(m.fc1(x).exp())), r"exp\(\)"),
    "two activations": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Tanh(), nn.Linear(4, 1)),
        r"layer '2' \(Tanh\) directly follows",
    ),
    "opening": (lambda: nn.Sequential(nn.ReLU(), nn.Linear(4, 1)), r"layer '0' \(ReLU\).*before the first"),
    "closing relu": (lambda: nn.Sequential(nn.Linear(4, 1), nn.ReLU()), r"layer '1' \(ReLU\) closes"),
    "closing tanh": (lambda: nn.Sequential(nn.Linear(4, 1), nn.Tanh()), r"layer '1' \(Tanh\) closes"),
    "sigmoid of several": (lambda: nn.Sequential(nn.Linear(4, 2), nn.Sigmoid()), r"\(Sigmoid\).*2 outputs"),
    "softmax of one": (lambda: nn.Sequential(nn.Linear(4, 1), nn.Softmax(1)), r"\(Softmax\).*1 output"),
    "softmax inside": (
        lambda: nn.Sequential(nn.Linear(4, 3), nn.Softmax(1), nn.Linear(3, 2)),
        r"\(Softmax\).*only after the last",
    ),
    "softmax over rows": (lambda: nn.Sequential(nn.Linear(4, 3), nn.Softmax(0)), "dim=0"),
    "two closings": (
        lambda: nn.Sequential(nn.Linear(4, 2), nn.Softmax(1), nn.Softmax(1)),
        "follows the closing",
    ),
    "squeeze inside": (lambda: Custom(lambda m, x: m.fc2(m.fc1(x).squeeze(1))), "only after the last"),
    "flatten of several": (lambda: Custom(lambda m, x: m.fc2(m.fc1(x)).flatten(), 2), "mix the 2 outputs"),
    "squeeze rows": (lambda: Custom(lambda m, x: m.fc2(m.fc1(x)).squeeze(0)), "axis 0"),
    "stray norm": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), norm(4), nn.Tanh(), nn.Linear(4, 1)),
        r"layer '2' \(BatchNorm1d\) is followed by an activation",
    ),
    "closing norm": (lambda: nn.Sequential(nn.Linear(4, 1), nn.Sigmoid(), norm(1)), "BatchNorm1d"),
    "batch statistics": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 1)),
        "running statistics",
    ),
    "random": (lambda: Custom(lambda m, x: m.fc2(F.dropout(m.fc1(x)))), "stays random"),
    "slope": (lambda: nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU(-1.5), nn.Linear(4, 1)), "slope -1.5"),
    "subclass": (lambda: nn.Sequential(Doubled(4, 1)), "mul|linear"),
    "half": (lambda: nn.Sequential(nn.Linear(4, 1)).half(), r"layer '0' \(Linear\) is float16"),
    "bfloat16": (lambda: nn.Sequential(nn.Linear(4, 1)).bfloat16(), r"bfloat16; .*model\.float\(\)"),
    "hook": (hooked, r"layer '0' \(Linear\) has forward hooks"),
    "control flow": (
        lambda: Custom(lambda m, x: m.fc2(m.fc1(x)) if x.sum() > 0 else x),
        "could not be traced",
    ),
    "tuple": (lambda: Custom(lambda m, x: (m.fc1(x), x)), "returns tuple"),
    "nothing": (lambda: nn.Sequential(nn.ReLU()), "no affine layer"),
    "empty": (lambda: nn.Sequential(), "no affine layer"),
    "meta": (lambda: nn.Sequential(nn.Linear(4, 1, device="meta")), "on meta"),
    "twice": (
        lambda: Custom(lambda m, x: m.fc2(m.relu(m.fc1(m.relu(m.fc1(x)[:, :4]))))),
        r"getitem\(\)",
    ),
    "dtype": (
        lambda: Custom(lambda m, x: m.fc2(m.fc1(x)).softmax(1, dtype=torch.float64), 2),
        r"softmax\(\)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_chain_is_refused_by_name(case):
    make, words = REFUSED[case]
    with pytest.raises(FairmendError, match=words):
        load_network(make())


def test_a_layer_used_twice_is_refused():
    module = nn.Sequential()
    layer = nn.Linear(4, 4)
    module.append(layer).append(nn.ReLU()).append(layer)
    with pytest.raises(FairmendError, match=r"\(Linear\) is used twice"):
        load_network(module)

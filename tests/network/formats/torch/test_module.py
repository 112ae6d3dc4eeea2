"""nn.Module in: what it computes comes out, whatever fairmend has no bounds for is refused by name."""

import copy
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import prune

from fairmend.base.errors import FairmendError
from fairmend.network import Affine, load_network
from fairmend.network.formats.torch.module import example_rows, interpreted, module_arguments
from fairmend.network.input_columns import fix_columns
from support.torch_graphs import GRAPHS, Model, heads, pair

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


def hooked(hook) -> nn.Module:
    module = nn.Sequential(nn.Linear(4, 1))
    hook(module[0])
    return module


def bag(offsets=None, **options) -> nn.Module:
    return Model(
        lambda m, x: m.b(m.a(x[:, :2].long(), offsets=offsets)), a=nn.EmbeddingBag(4, 3, **options), b=nn.Linear(3, 1)
    )


def view_of_changed(h):
    view = h.view(-1, 6)
    h.relu_()
    return view


def step_of(module) -> int:
    """Return another number with each call, which no trace can see."""
    module.calls = getattr(module, "calls", 1) + 1
    return module.calls


REFUSED = {
    "conv": (lambda: nn.Sequential(nn.Conv1d(1, 1, 1), nn.Linear(4, 1)), r"layer '0' \(Conv1d\)"),
    "method": (lambda: Custom(lambda m, x: m.fc2(m.fc1(x).sinh())), r"sinh\(\)"),
    "closing relu": (lambda: nn.Sequential(nn.Linear(4, 1), nn.ReLU()), r"layer '1' \(ReLU\) closes"),
    "closing tanh": (lambda: nn.Sequential(nn.Linear(4, 1), nn.Tanh()), r"layer '1' \(Tanh\) closes"),
    "closing log": (lambda: Custom(lambda m, x: m.fc2(m.fc1(x)).sigmoid().log()), r"log\(\)"),
    "sigmoid of several": (lambda: nn.Sequential(nn.Linear(4, 2), nn.Sigmoid()), r"\(Sigmoid\).*2 outputs"),
    "softmax of one": (lambda: nn.Sequential(nn.Linear(4, 1), nn.Softmax(1)), r"\(Softmax\).*1 output"),
    "log-softmax inside": (
        lambda: nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(1), nn.Linear(3, 2)),
        r"\(LogSoftmax\).*only after the last",
    ),
    "softmax over rows": (lambda: nn.Sequential(nn.Linear(4, 3), nn.Softmax(0)), "dim=0"),
    "two closings": (
        lambda: nn.Sequential(nn.Linear(4, 2), nn.Softmax(1), nn.Softmax(1)),
        "follows the closing",
    ),
    "flatten of several": (lambda: Custom(lambda m, x: m.fc2(m.fc1(x)).flatten(), 2), "mix the 2 outputs"),
    "squeeze rows": (lambda: Custom(lambda m, x: m.fc2(m.fc1(x)).squeeze(0)), "axis 0"),
    "closing norm": (lambda: nn.Sequential(nn.Linear(4, 1), nn.Sigmoid(), norm(1)), r"\(Sigmoid\) closes"),
    "batch statistics": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 1)),
        "running statistics",
    ),
    "random": (lambda: Custom(lambda m, x: m.fc2(F.dropout(m.fc1(x)))), "stays random"),
    "half": (lambda: nn.Sequential(nn.Linear(4, 1)).half(), "0.weight is float16"),
    "quantised": (
        lambda: torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 1)), {nn.Linear}),
        r"layer '0' \(Linear\) is quantised; give the model as it was before",
    ),
    "bfloat16": (lambda: nn.Sequential(nn.Linear(4, 1)).bfloat16(), r"bfloat16; .*model\.float\(\)"),
    "hook": (
        lambda: hooked(lambda layer: layer.register_forward_hook(lambda *_: None)),
        r"layer '0' \(Linear\) has forward hooks, which may change what it computes; remove them first$",
    ),
    "weight norm as a hook": (lambda: hooked(nn.utils.weight_norm), r"with torch\.nn\.utils\.remove_weight_norm$"),
    "spectral norm as a hook": (
        lambda: hooked(nn.utils.spectral_norm),
        r"with torch\.nn\.utils\.remove_spectral_norm$",
    ),
    "pruned": (
        lambda: hooked(lambda layer: prune.l1_unstructured(layer, "weight", 1)),
        r"with torch\.nn\.utils\.prune\.remove$",
    ),
    "control flow": (
        lambda: Custom(lambda m, x: m.fc2(m.fc1(x)) if x.sum() > 0 else x),
        "could not be traced",
    ),
    "tuple": (
        lambda: Custom(lambda m, x: (m.fc1(x), x)),
        r"forward\(\) returns 2 outputs; .*wrap the module .*self\.model\(x\)\[0\]$",
    ),
    "dict": (
        lambda: Custom(lambda m, x: {"score": m.fc1(x), "hidden": x}),
        r"forward\(\) returns 2 outputs \(score and hidden\); .*wrap the module",
    ),
    "nothing returned": (lambda: Custom(lambda m, x: None), "returns NoneType; it must return one tensor"),
    "nothing": (lambda: nn.Sequential(nn.ReLU()), "no affine layer"),
    "empty": (lambda: nn.Sequential(), "no affine layer"),
    "attention over rows": (
        lambda: Model(lambda m, x: m.b(m.a(x, x, x)[0]), a=nn.MultiheadAttention(4, 1), b=nn.Linear(4, 1)),
        r"\(MultiheadAttention\) reads a tensor of shape \(rows, .*\); it must be \(tokens, rows, width\)",
    ),
    "normalised rows": (
        lambda: Custom(lambda m, x: m.fc2(F.normalize(m.fc1(x), dim=0))),
        r"normalize\(\).*over axis 0",
    ),
    "lstm": (lambda: nn.Sequential(nn.LSTM(4, 4), nn.Linear(4, 1)), r"\(LSTM\) is recurrent"),
    "bag of unknown size": (lambda: nn.Sequential(nn.EmbeddingBag(4, 3), nn.Linear(3, 1)), "how many columns"),
    "largest of a bag": (lambda: bag(mode="max"), r"\(EmbeddingBag\) has the mode 'max'; sum and mean are read"),
    "bags of different sizes": (lambda: bag(padding_idx=0), r"\(EmbeddingBag\) has bags of different sizes or weights"),
    "bags with offsets": (lambda: bag(torch.arange(2)), r"\(EmbeddingBag\) has bags of different sizes or weights"),
    "mean of probabilities": (
        lambda: Model(lambda m, x: torch.stack([torch.sigmoid(h(x)) for h in m.heads]).mean(0), heads=heads()),
        r"sigmoid\(\).*is added to the output.*average the logits",
    ),
    "mean over members": (
        lambda: Custom(lambda m, x: torch.sigmoid(m.fc1(x)[:, None].expand(-1, 2, -1) @ m.fc2.weight.T).mean(1)),
        r"mean\(\).*average the logits, not the probabilities",
    ),
    "mean of softmax": (
        lambda: Custom(lambda m, x: m.fc2(m.fc1(x)[:, None].expand(-1, 3, -1)).softmax(-1).mean(1), 2),
        r"mean\(\).*average the logits, not the probabilities",
    ),
    "running statistics of channels": (
        lambda: nn.Sequential(
            nn.Linear(4, 4),
            nn.Unflatten(1, (2, 2)),
            nn.InstanceNorm1d(2, track_running_stats=True),
            nn.Flatten(),
            nn.Linear(4, 1),
        ),
        r"\(InstanceNorm1d\) has running statistics",
    ),
    "product of many": (lambda: Custom(lambda m, x: m.fc2(m.fc1(x).repeat(1, 9).prod(1, keepdim=True))), "multiplies"),
    "logsigmoid": (lambda: Custom(lambda m, x: F.logsigmoid(m.fc2(m.fc1(x)))), "logarithm of a probability"),
    "broadcast over rows": (
        lambda: Model(lambda m, x: m.a(x) + m.b(x).squeeze(1), a=nn.Linear(4, 1), b=nn.Linear(4, 1)),
        r"shapes \(rows, 1\) and \(rows,\)",
    ),
    "changed in place": (lambda: Custom(lambda m, x: m.fc2(view_of_changed(m.fc1(x)))), "has changed in place"),
    "unknown width": (lambda: Model(lambda m, x: m.b(x.mean(1, keepdim=True)), b=nn.Linear(1, 1)), "how many columns"),
    "another path": (lambda: Custom(lambda m, x: m.fc2(m.fc1(x) * step_of(m))), "other outputs than forward"),
    "meta": (lambda: nn.Sequential(nn.Linear(4, 1, device="meta")), "on meta"),
    "dtype": (
        lambda: Custom(lambda m, x: m.fc2(m.fc1(x)).softmax(1, dtype=torch.float64), 2),
        r"softmax\(\)",
    ),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_bounds_is_refused_by_name(case):
    make, words = REFUSED[case]
    with pytest.raises(FairmendError, match=words):
        load_network(make())


@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm", "orthogonal"])
def test_weights_that_a_norm_computes_are_weights_of_the_copy(kind):
    torch.manual_seed(0)
    computed = getattr(nn.utils.parametrizations, kind)
    module = nn.Sequential(computed(nn.Linear(4, 4)), nn.ReLU(), computed(nn.Linear(4, 1))).eval()
    network = load_network(module)
    X = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    for each in (module, network.to_module()):
        with torch.no_grad():
            assert np.allclose(network.logits(X), each(torch.tensor(X))[:, 0].numpy(), atol=1e-5)
    assert set(network.to_module().state_dict()) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert hasattr(module[0], "parametrizations")
    assert module[0].weight.shape == (4, 4)


def test_a_last_layer_that_is_used_elsewhere_is_no_head():
    torch.manual_seed(0)
    layer = nn.Linear(4, 4)
    module, X = nn.Sequential(layer, nn.ReLU(), layer), torch.randn(9, 4)
    network = load_network(module)
    assert network.head.is_fixed
    assert np.allclose(network.logits(X), module(X).detach().numpy(), atol=1e-6)


@pytest.mark.parametrize(
    "score",
    [
        lambda p, q: p * (1 - q),
        lambda p, q: p + q - p * q,
        lambda p, q: torch.lerp(p, q, p),
        lambda p, q: torch.minimum(p, q),
        lambda p, q: p.log() + q.log(),
        lambda p, q: (p - q) * (p - q) * torch.maximum(p, q),
    ],
)
def test_what_is_computed_of_probabilities_is_no_logit(score):
    module = Model(lambda m, x: score(m.a(x).sigmoid(), m.b(x).sigmoid()), a=nn.Linear(4, 1), b=nn.Linear(4, 1))
    with pytest.raises(FairmendError, match="probabilities"):
        load_network(module)


def outputs(module, network, X):
    """What the module gives for the rows of the network, as the network gives it."""
    reading = interpreted(module, "m")
    with torch.no_grad():
        given = module(*module_arguments(module, X, reading, network.dtype))
    given = (given["logits"] if isinstance(given, dict) else given).numpy()
    if network.closing == "softmax" and given.ndim == 1:
        given = np.stack([1 - given, given], 1)
    return np.exp(given) if network.closing == "softmax" and (given < 0).all() else given


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_graph_computes_what_torch_computes_and_goes_back_into_its_module(graph, tmp_path):
    torch.manual_seed(1)
    module = GRAPHS[graph]().eval()
    network = load_network(module)
    X = example_rows(network, 1000)
    got = network.logits(X) if network.closing == "none" else network.probabilities(X)
    expected = outputs(module, network, X)
    assert np.allclose(got.reshape(expected.shape), expected, atol=1e-5)

    changed = network.with_affines([Affine(a.weight * 1.25, a.bias + 0.1) for a in network.affines])
    repaired = changed.to_module()
    assert type(repaired) is type(module)
    assert load_network(repaired).nodes == changed.nodes
    for suffix in ("pth", "safetensors"):
        changed.save(tmp_path / f"m.{suffix}")
        assert load_network(tmp_path / f"m.{suffix}").nodes == changed.nodes
    module.load_state_dict(torch.load(tmp_path / "m.pth", weights_only=True), strict=True)
    assert np.array_equal(outputs(module, changed, X), outputs(repaired, changed, X))
    assert pickle.loads(pickle.dumps(changed)).nodes == changed.nodes


def test_several_inputs_are_one_row_in_the_order_of_forward():
    assert load_network(GRAPHS["two inputs"]()).nodes[0].operation.names == (("x_cat", 2), ("x_cont", 4))
    assert load_network(GRAPHS["dict"]()).nodes[0].operation.names == (("categorical", 2), ("continuous", 4))


def test_an_argument_with_the_default_none_is_an_input_where_forward_needs_it():
    assert load_network(GRAPHS["optional input"]()).nodes[0].operation.names == (("x_cat", 2), ("x_cont", 4))
    assert load_network(GRAPHS["optional input without numbers"]()).inputs == 2
    alone = GRAPHS["optional input alone"]()
    assert load_network(alone).inputs == 4
    assert load_network(alone, example=(None, torch.zeros(2, 4))) == load_network(alone)
    assert load_network(GRAPHS["control flow on shapes"]()).inputs == 4  # mask=None stays None


class One(nn.Module):
    """A module of several outputs that returns one of them, as the message says."""

    def __init__(self, model, which):
        super().__init__()
        self.model, self.which = model, which

    def forward(self, x):
        return self.model(x)[self.which]


@pytest.mark.parametrize("which", ["score", "risk", "logits"])
def test_one_of_several_outputs_is_read_from_a_module_that_returns_it(which):
    torch.manual_seed(0)
    several = pair(
        lambda m, x: {
            "score": m.b(h := m.a(x).relu()),
            "risk": m.c(h),
            "logits": m.b(h) + m.c(x[:, [0, 1, 2, 3, 3, 3]]),
        },
        c=nn.Linear(6, 1),
    ).eval()
    network = load_network(One(several, which))
    assert np.allclose(network.logits(X), several(torch.tensor(X))[which].detach().numpy()[:, 0], atol=1e-6)
    assert load_network(One(several, "logits")).nodes == load_network(several).nodes or which != "logits"


def test_an_example_says_how_large_bags_are():
    module = nn.Sequential(nn.EmbeddingBag(4, 3), nn.Linear(3, 1)).eval()
    network = load_network(module, example=torch.zeros(1, 5, dtype=torch.long))
    X = np.random.default_rng(0).integers(0, 4, (50, 5))
    assert np.allclose(network.logits(X.astype(np.float32)), module(torch.tensor(X)).detach().numpy()[:, 0], atol=1e-6)


class Net:
    """As skorch keeps a trained module."""

    def __init__(self, module):
        self.module_ = module


class OptimizedModule(nn.Module):
    """What torch.compile returns; to import it takes seconds."""

    def __init__(self, module):
        super().__init__()
        self._orig_mod = module


OptimizedModule.__module__ = "torch._dynamo.eval_frame"


@pytest.mark.parametrize("wrap", [OptimizedModule, nn.DataParallel, Net])
def test_wrapped_modules_are_unwrapped(wrap):
    module = CHAINS["sequential"]()
    network = load_network(wrap(module))
    assert network == load_network(module)
    assert type(network.to_module()) is nn.Sequential


def test_tied_tensors_change_together():
    module = Model(lambda m, x: m.net(x), net=CHAINS["sequential"]())
    module.head = module.net[-1]
    network = load_network(module)
    changed = network.with_affines([Affine(a.weight * 2, a.bias) for a in network.affines])
    assert np.allclose(outputs(changed.to_module(), changed, X), changed.logits(X)[:, None], atol=1e-5)


def test_a_module_without_a_bias_stays_without():
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1, bias=False))
    network = load_network(module)
    changed = network.with_affines([Affine(a.weight * 2, a.bias + 1) for a in network.affines])
    module.load_state_dict(changed.to_module().state_dict(), strict=True)
    assert np.allclose(outputs(module, changed, X), changed.logits(X)[:, None], atol=1e-5)


def test_a_network_from_elsewhere_has_no_module(tmp_path):
    network = load_network(CHAINS["sequential"]())
    network.save(tmp_path / "m.pth")
    with pytest.raises(FairmendError, match="not read from a module"):
        load_network(tmp_path / "m.pth").to_module()
    network.save(tmp_path / "m.onnx")
    with pytest.raises(FairmendError, match="not read from a module or model in memory"):
        load_network(tmp_path / "m.onnx").to_module()


def test_a_one_hot_code_is_cut_where_it_is_read_because_no_file_has_its_table():
    torch.manual_seed(0)
    network = load_network(GRAPHS["one-hot"]())
    blind = fix_columns(network, [0], [2])
    assert not blind.read_columns[0]
    X = example_rows(network, 50)
    expected = outputs(network.to_module(), network, np.column_stack([np.full(50, 2.0), X[:, 1:]]))
    assert np.allclose(outputs(blind.to_module(), blind, X), expected, atol=1e-5)


@pytest.mark.parametrize("outputs", [2, 3])
def test_a_confident_classifier_that_ends_with_log_softmax_is_read(outputs):
    """The logarithm of a probability that rounds to 1 is 0, and no other path through forward()."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, outputs), nn.LogSoftmax(dim=1)).eval()
    with torch.no_grad():
        module[2].weight *= 1000
    network = load_network(module)
    X = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    with torch.no_grad():
        assert (network.predict(X) == module(torch.from_numpy(X)).argmax(1).numpy()).all()

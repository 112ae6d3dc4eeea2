"""Elementary functions in ONNX files: written, read by both readers, and within the bounds in ONNX Runtime."""

import numpy as np
import pytest

from fairmend import FairmendError, load_network
from fairmend.network import Activation, Affine, Network
from fairmend.prove.kernel_bounds import kernel_model
from fairmend_check.readers.read_model import read_model
from fairmend_check.run.enclosure import enclose_outputs
from support.onnx_files import A, X, node, runtime, save

REST = {"v": np.float32([[1, -2, 0.5]]).T, "c": np.float32([0.25])}
NAMES = ("abs", "square", "exp", "log", "reciprocal", "sqrt", "rsqrt", "sin", "cos")
ROOT = [node("Gemm", "x w b", "g"), node("Abs", "g", "a"), node("Add", "a one", "h")]
QUOTIENTS = {
    "reciprocal": ([*ROOT, node("Reciprocal", "h", "q")], ["abs", "reciprocal"]),
    "one over": ([*ROOT, node("Div", "one h", "q")], ["abs", "reciprocal"]),
    "three over": ([*ROOT, node("Div", "three h", "q")], ["abs", "reciprocal"]),
    "a value over": ([*ROOT, node("Div", "a h", "q")], ["abs", "reciprocal"]),
    "a row over": ([*ROOT, node("Div", "row h", "q")], ["abs", "reciprocal"]),
    "log": ([*ROOT, node("Log", "h", "q")], ["abs", "log"]),
    "root": ([*ROOT, node("Pow", "h half", "q")], ["abs", "sqrt"]),
    "rsqrt": ([*ROOT, node("Pow", "h minus", "q")], ["abs", "rsqrt"]),
    "two nodes": ([*ROOT, node("Sqrt", "h", "s"), node("Reciprocal", "s", "q")], ["abs", "sqrt", "reciprocal"]),
}
CONSTANTS = {
    "one": np.float32(1), "three": np.float32(3), "half": np.float32(0.5), "minus": np.float32(-0.5),
    "row": np.float32([1, -2, 0.5]),
}  # fmt: skip


def network_of(name: str, dtype: type = np.float32) -> Network:
    """Two layers around a function, whose arguments are from 0.5 to 3.5."""
    rng = np.random.default_rng(0)
    first = Affine(rng.uniform(-0.2, 0.2, (6, 4)).astype(dtype), np.full(6, 2, dtype))
    return Network([first, Affine(rng.normal(size=(1, 6)).astype(dtype), np.zeros(1, dtype))], [Activation(name)])


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_read_back_and_programs_stay_within_the_bounds(name, tmp_path):
    network, path = network_of(name), tmp_path / "m.onnx"
    network.save(path)
    assert load_network(path).activations == network.activations
    rows = np.random.default_rng(1).uniform(-1, 1, (200, 4)).astype(np.float32)
    for model in (read_model(path)[0], kernel_model(network)):
        low, high = enclose_outputs(model, rows.astype(np.float64))
        for computed in (runtime(path, rows)[:, 0], network.logits(rows)):
            assert ((low[:, 0] <= computed) & (computed <= high[:, 0])).all()
        assert (high - low < 1e-3).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_state_dict_is_read_back(name, tmp_path):
    network = network_of(name)
    network.save(tmp_path / "m.pth")
    assert load_network(tmp_path / "m.pth", name).activations == network.activations


@pytest.mark.parametrize("name", QUOTIENTS)
def test_both_readers_take_quotients_and_powers(name, tmp_path):
    nodes, functions = QUOTIENTS[name]
    path = save(tmp_path / "m.onnx", [*nodes, node("Gemm", "q v c")], outputs=1, **A, **REST, **CONSTANTS)
    network = load_network(path)
    assert [activation.name for activation in network.activations] == functions
    computed = runtime(path, X)[:, 0]
    np.testing.assert_allclose(network.logits(X), computed, rtol=1e-5, atol=1e-5)
    low, high = enclose_outputs(read_model(path)[0], X.astype(np.float64))
    assert ((low[:, 0] <= computed) & (computed <= high[:, 0])).all()


@pytest.mark.parametrize(
    ("exponent", "words"),
    [(np.float32(4), "is a power other than 3, 2, 1, 0.5, -0.5 and -1"), (np.float32([2, 3, 2]), "several exponents")],
)
def test_another_power_is_refused_by_both(exponent, words, tmp_path):
    nodes = [*ROOT, node("Pow", "h other", "q"), node("Gemm", "q v c")]
    path = save(tmp_path / "m.onnx", nodes, outputs=1, **A, **REST, **CONSTANTS, other=exponent)
    with pytest.raises(FairmendError, match=rf"\(Pow\).* {words}"):
        load_network(path)
    with pytest.raises(Exception, match="node Pow has another exponent"):
        read_model(path)[0]

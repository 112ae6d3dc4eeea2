"""Network: what it computes, what it refuses, and that nothing can change it."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairmend.network
from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Affine, Network, load_network, predicted_classes
from support.strategies import networks, random_network

FORMULAS = {
    "relu": lambda x, slope: np.where(x > 0, x, 0),
    "leaky_relu": lambda x, slope: np.where(x > 0, x, slope * x),
    "tanh": lambda x, slope: np.tanh(x),
    "sigmoid": lambda x, slope: 1 / (1 + np.exp(-x)),
    "identity": lambda x, slope: x,
}


def affine(out: int, width: int, dtype: type = np.float32) -> Affine:
    return Affine(np.ones((out, width), dtype), np.zeros(out, dtype))


@given(networks(), st.integers(0, 7))
def test_logits_follow_the_definition_row_by_row(network, rows):
    X = np.random.default_rng(rows).normal(size=(rows, network.inputs))
    expected = X.astype(network.dtype).astype(np.float64)
    for i, layer in enumerate(network.affines):
        if i == network.depth - 1:
            assert np.allclose(network.features(X), expected, atol=1e-4)
            assert network.features(X).dtype == network.dtype
        expected = expected @ layer.weight.T.astype(np.float64) + layer.bias
        if i < len(network.activations):
            act = network.activations[i]
            expected = FORMULAS[act.name](expected, act.slope)
    logits = network.logits(X)
    assert logits.dtype == network.dtype
    assert logits.shape == ((rows,) if network.outputs == 1 else (rows, network.outputs))
    assert np.allclose(logits, expected.reshape(logits.shape), atol=1e-4)


def test_blocks_of_rows_do_not_change_the_result(monkeypatch):
    network = random_network(np.random.default_rng(0), 5, [9, 4], 3, "tanh", np.float64)
    X = np.random.default_rng(1).normal(size=(2000, 5))
    whole = network.logits(X)
    monkeypatch.setattr(fairmend.network.network, "_BLOCK", 1)
    assert np.allclose(network.logits(X), whole, rtol=0, atol=1e-12)
    assert np.allclose(network.logits(X[257:]), whole[257:], rtol=0, atol=1e-12)


def test_evaluation_leaves_the_input_untouched():
    network = random_network(np.random.default_rng(0), 3, [4])
    X = np.random.default_rng(1).normal(size=(10, 3)).astype(np.float32)
    before = X.copy()
    network.probabilities(X)
    shallow = Network(network.affines[-1:], [])
    H = network.features(X)
    assert not np.shares_memory(shallow.features(H), H)
    assert np.array_equal(X, before)


def test_a_logit_of_zero_is_positive_and_ties_go_to_the_lowest_class():
    zero = Network([Affine(np.zeros((1, 2)), np.zeros(1))], [])
    assert zero.predict([[1, 2]]).tolist() == [1]
    assert zero.predict([[1, 2]]).dtype == np.int64
    three = Network([Affine(np.array([[1.0], [2.0], [2.0]]), np.zeros(3))], [])
    assert three.predict([[1], [0], [-1]]).tolist() == [1, 0, 0]
    assert three.predict([[1]]).dtype == np.int64


@pytest.mark.parametrize("dtype", [np.float32, object])
def test_one_rule_decides_logits_of_any_shape(dtype):
    one, two = np.array([-1, 0, 2], dtype), np.array([[0, 0], [0, 1]], dtype)
    assert predicted_classes(one).tolist() == predicted_classes(one[:, None]).tolist() == [0, 1, 1]
    assert predicted_classes(one[:, None, None]).tolist() == [[0], [1], [1]]
    assert predicted_classes(two).tolist() == predicted_classes(two[None]).tolist()[0] == [0, 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_stay_finite_for_extreme_logits(dtype):
    one = Network([Affine(np.ones((1, 1), dtype), np.zeros(1, dtype))], [])
    assert one.probabilities([[-1e6], [0], [1e6]]).tolist() == [0, 0.5, 1]
    assert one.probabilities([[-5.0]])[0] == pytest.approx(1 / (1 + np.exp(5)))
    two = Network([Affine(np.array([[1], [-1]], dtype), np.zeros(2, dtype))], [])
    assert two.probabilities([[1e6], [0]]).tolist() == [[1, 0], [0.5, 0.5]]
    assert two.probabilities([[0]]).dtype == dtype


def test_repr_shows_the_chain():
    rng = np.random.default_rng(0)
    assert repr(random_network(rng, 13, [16, 8])) == "Network(13 → 16 relu → 8 relu → 1 logit, float32)"
    leaky = random_network(rng, 2, [3], 4, "leaky_relu", np.float64, "softmax")
    assert repr(leaky) == "Network(2 → 3 leaky_relu(0.01) → 4 logits + softmax, float64)"


def test_nothing_can_change_a_network():
    weight = np.ones((1, 2))
    network = Network([Affine(weight, np.zeros(1))], [])
    weight[0, 0] = 7
    assert network.head.weight[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        network.head.weight[0, 0] = 2
    with pytest.raises(AttributeError):
        network.closing = "sigmoid"
    with pytest.raises(AttributeError):
        network.head.bias = np.ones(1)


def test_equality_is_bit_equality():
    def make(zero: float, slope: float = 0.1, closing: str = "none") -> Network:
        layers = [Affine(np.full((1, 1), zero), np.zeros(1)), affine(1, 1, np.float64)]
        return Network(layers, [Activation("leaky_relu", slope)], closing)

    assert make(0.0) == make(0.0)
    assert hash(make(0.0)) == hash(make(0.0))
    assert make(0.0) != make(-0.0)
    assert make(0.0) != make(0.0, slope=0.2)
    assert make(0.0) != make(0.0, closing="sigmoid")
    assert make(0.0) != make(0.0).astype(np.float32)
    assert make(0.0) != "a network"
    assert make(0.0).head != "a layer"


@given(networks())
def test_float32_in_float64_and_back_is_the_same_network(network):
    narrow = network.astype(np.float32)
    assert narrow.astype(np.float64).astype(np.float32) == narrow
    assert narrow.astype(np.float64).dtype == np.float64


def test_slopes_are_those_the_dtype_computes_with():
    network = random_network(np.random.default_rng(0), 1, [1], activation="leaky_relu")
    assert network.activations[0].slope == float(np.float32(0.01))
    assert network.astype(np.float64).activations[0].slope == float(np.float32(0.01))


def test_with_affines_casts_and_keeps_the_rest():
    network = Network([affine(3, 2), affine(1, 3)], [Activation("tanh")], "sigmoid", ["a", "b"])
    changed = network.with_affines([affine(3, 2, np.float64), Affine(np.full((1, 3), 0.1), np.ones(1))])
    assert changed.dtype == np.float32
    assert changed.head.weight[0, 0] == np.float32(0.1)
    assert (changed.activations, changed.closing, changed.names) == (
        network.activations,
        "sigmoid",
        ("a", "b"),
    )
    with pytest.raises(FairmendError, match=r"layer 'b'.*not finite"):
        network.with_affines([affine(3, 2), Affine(np.full((1, 3), 1e300), np.ones(1))])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Network([], []), "at least one affine"),
        (lambda: Network([affine(1, 1)], [Activation("relu")]), "0 activations"),
        (lambda: Network([affine(3, 2), affine(1, 4)], [Activation("relu")]), "'layers.1' takes 4.*gives 3"),
        (lambda: Network([affine(1, 2)], [], "relu"), "unknown closing 'relu'"),
        (lambda: Network([affine(2, 2)], [], "sigmoid"), "sigmoid needs 1 output, not 2"),
        (lambda: Network([affine(1, 2)], [], "softmax"), "softmax over 1 output"),
        (lambda: Network([affine(1, 2)], [], names=["a", "b"]), "one per affine layer"),
        (
            lambda: Network([affine(1, 1), affine(1, 1)], [Activation("relu")], names=["a", "a"]),
            "different ones",
        ),
        (
            lambda: Network([affine(1, 1), affine(1, 1, np.float64)], [Activation("relu")]),
            "'layers.1' is float64",
        ),
        (lambda: Affine(np.ones((1, 1), np.float16), np.ones(1)), "weight is float16.*float32 or float64"),
        (lambda: Affine(np.ones((1, 1), int), np.ones(1)), "weight is int64"),
        (lambda: Affine(np.ones((1, 1), np.float32), np.ones(1)), "use one dtype"),
        (lambda: Affine(np.ones(3), np.ones(1)), r"shape \(3,\)"),
        (lambda: Affine(np.ones((0, 3)), np.ones(0)), "with neither 0"),
        (lambda: Affine(np.ones((2, 3)), np.ones(3)), r"must be \(2,\)"),
        (lambda: Activation("glu"), "unknown activation 'glu'.*leaky_relu"),
        (lambda: Activation("relu", 0.1), "takes no slope"),
    ],
)
def test_what_is_not_a_network_is_refused(make, words):
    with pytest.raises(FairmendError, match=words):
        make()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused_by_layer(bad):
    with pytest.raises(FairmendError, match=r"layer 'out' .*not finite"):
        Network(
            [affine(1, 1), Affine(np.full((1, 1), bad, np.float32), np.zeros(1, np.float32))],
            [Activation("relu")],
            names=["in", "out"],
        )


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ([1, 2], r"shape \(2,\).*X\[None, :\]"),
        ([1, 2, 3], r"shape \(3,\)"),
        ([[1, 2, 3]], "3 columns, the network takes 2"),
        ([["a", "b"]], "not numbers"),
        ([[1, 2], [3]], "not an array of numbers"),
        (np.array([[None, "x"]], object), "not an array of numbers"),
        ([[1, 2], [3, np.nan]], "row 1, column 1 is nan"),
        ([[1e60, 0]], "not a finite float32 number: row 0, column 0"),
        (np.ones((1, 2), complex), "complex128"),
        ([[3e38, 3e38]], "overflows float32"),
    ],
)
def test_inputs_that_cannot_be_evaluated_are_refused(X, words):
    with pytest.raises(FairmendError, match=words):
        Network([affine(1, 2)], []).logits(X)


def test_integers_booleans_and_objects_that_are_numbers_are_evaluated():
    network = Network([affine(1, 2)], [])
    for X in ([[1, 0]], [[True, False]], np.array([[1, 0.0]], object), np.array([[1, 0]], np.uint8)):
        assert network.logits(X).tolist() == [1.0]
    assert network.logits(np.empty((0, 2))).shape == (0,)


def test_a_network_is_its_own_source():
    network = Network([affine(1, 2)], [])
    assert load_network(network) is network


def test_evaluation_needs_no_torch():
    code = (
        "import sys; from fairmend.network import *; import numpy as np; "
        "Network([Affine(np.ones((1, 1)), np.ones(1))], []).predict([[1]]); "
        "assert not {'torch', 'onnx', 'safetensors'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

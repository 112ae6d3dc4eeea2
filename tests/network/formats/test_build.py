"""The graph builder: what is folded, joined and closed, whatever format the steps come from."""

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.network import Activation, Affine, Concatenate, Lookup, Product, Scale, Sum
from fairmend.network.folding import Norm
from fairmend.network.formats.build import GraphBuilder, scaling

RNG = np.random.default_rng(0)
W = {shape: RNG.normal(size=shape).astype(np.float32) for shape in [(4, 3), (4, 4), (1, 4), (1, 3), (2, 4)]}
B = {n: RNG.normal(size=n).astype(np.float32) for n in (1, 2, 4)}
X = RNG.normal(size=(7, 3)).astype(np.float32)
NORM = Norm("bn", np.arange(4.0), np.ones(4), np.ones(4), np.zeros(4), 1e-5, "bn")
RELU, SIGMOID = Activation("relu"), Activation("sigmoid")


def relu(values):
    return np.maximum(values, 0)


def batch_norm(units):
    mean, variance, gain, shift = RNG.normal(size=units), RNG.uniform(0.5, 2, units), np.ones(units), np.zeros(units)
    return Norm("bn", mean, variance, gain, shift, 1e-5, "bn")


def chain(*steps, columns=3):
    """Return the network of steps that follow each other: a layer (weight, bias, name), a norm or a function."""
    build = GraphBuilder("m")
    value = build.input(columns)
    for step in steps:
        if isinstance(step, tuple):
            value = build.linear(value, "layer", *step)
        elif isinstance(step, Norm):
            value = build.norm(value, step)
        elif isinstance(step, Activation):
            value = build.function(value, step.name, step)
        else:
            value = step(build, value)
    return build.network(value)


def softmax(build, value):
    return build.softmax(value, "softmax")


def squeeze(build, value):
    return build.collapse(value, "squeeze", single=True)


A, V = (W[4, 3], B[4], "a"), (W[1, 4], None, None)


def test_norms_and_scales_are_folded_on_either_side():
    mean, variance, gain, shift = RNG.normal(size=3), RNG.uniform(0.5, 2, 3), RNG.normal(size=3), RNG.normal(size=3)
    scale = scaling("scale", 2.0, np.array([1.0, -1.0, 0.5, 2.0]))
    network = chain(Norm("norm", mean, variance, gain, shift, 1e-3), A, scale, RELU, scale, V)
    assert network.depth == 2
    normed = (X - mean) / np.sqrt(variance + 1e-3) * gain + shift
    hidden = relu((normed @ W[4, 3].T + B[4]) * 2 + scale.shift) * 2 + scale.shift
    np.testing.assert_allclose(network.logits(X), (hidden @ W[1, 4].T)[:, 0], rtol=1e-5)


def test_a_chain_has_names_of_its_own_and_the_identity_between_layers_and_its_closing_is_kept_aside():
    assert chain(A, V).activations == (Activation("identity"),)
    assert chain(A, RELU, (*V[:2], "b")).names == ("a", "b")
    assert chain(A, RELU, (*V[:2], "a")).names == ("layers.0", "layers.1")
    assert chain(A, softmax).closing == "softmax"
    assert chain(A, RELU, V, squeeze, Activation("sigmoid")).closing == "sigmoid"


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([RELU], "m: holds no affine layer"),
        ([A, scaling("s", np.ones(3), np.zeros(3))], "s is 3 wide, and the affine layer beside it 4"),
        ([A, softmax, softmax], "softmax follows the closing softmax"),
        ([A, squeeze], "would mix the 4 outputs"),
        ([A, V, V], "m: .* takes 4 values, but the layer before it gives 1"),
    ],
)
def test_what_is_no_chain_is_refused_where_it_stands(steps, words):
    with pytest.raises(FairmendError, match=words):
        chain(*steps)


def test_a_skip_stays_a_skip():
    build = GraphBuilder("m")
    first = build.linear(build.input(3), "a", W[4, 3], B[4], "a")
    inner = build.linear(build.function(first, "relu", RELU), "b", W[4, 4], None, "b")
    net = build.network(build.linear(build.apply("+", Sum(), [first, inner]), "head", W[1, 4], B[1], "head"))
    z = X @ W[4, 3].T + B[4]
    np.testing.assert_allclose(net.logits(X), ((z + relu(z) @ W[4, 4].T) @ W[1, 4].T + B[1])[:, 0], rtol=1e-5)
    assert not net.is_chain
    assert net.names == ("a", "b", "head")


def test_a_norm_is_folded_only_where_nothing_else_reads_between():
    def network(read_twice):
        build = GraphBuilder("m")
        first = build.linear(build.input(3), "a", W[4, 3], B[4], "a")
        normed = build.norm(first, batch_norm(4))
        value = build.apply("+", Sum(), [normed, first]) if read_twice else normed
        return build.network(build.linear(build.function(value, "relu", RELU), "head", W[1, 4], B[1], "head"))

    assert [type(node.operation) for node in network(True).nodes].count(Scale) == 1
    assert network(False).is_chain
    assert network(False).affines[0].fold is not None


def test_the_mean_of_an_ensemble_is_one_head_whose_parts_are_stored_apart():
    build = GraphBuilder("m")
    x = build.input(3)
    hidden = [build.function(build.linear(x, n, W[4, 3] * k, B[4], n), "r", RELU) for k, n in ((1, "a"), (2, "b"))]
    heads = [build.linear(h, f"h{n}", W[1, 4] + n, B[1] * n, f"h{n}") for n, h in enumerate(hidden)]
    net = build.network(build.norm(build.apply("+", Sum(), heads), scaling("mean", 0.5, 0.0)))
    parts = [relu(X @ (W[4, 3] * k).T + B[4]) @ (W[1, 4] + k - 1).T + B[1] * (k - 1) for k in (1, 2)]
    np.testing.assert_allclose(net.logits(X), (sum(parts) / 2)[:, 0], rtol=1e-5)
    assert [layer.name for layer in net.stored_layers] == ["a", "b", "h0", "h1"]
    assert isinstance(net.nodes[-2].operation, Concatenate)

    head = Affine(net.head.weight * 3, net.head.bias + 1)
    changed = net.with_affines([*net.affines[:-1], head])
    np.testing.assert_allclose(changed.head.weight, head.weight, rtol=1e-6)
    np.testing.assert_allclose(changed.head.bias, head.bias, rtol=1e-6)
    assert changed.stored_layers[-1].bias.tobytes() == (B[1] * 1).tobytes()  # only one part takes the change


def test_wide_and_deep_reads_the_inputs_beside_the_hidden_units():
    build = GraphBuilder("m")
    x = build.input(3)
    deep = build.linear(build.function(build.linear(x, "a", W[4, 3], B[4], "a"), "r", RELU), "d", W[1, 4], B[1], "d")
    net = build.network(build.apply("+", Sum(), [build.linear(x, "w", W[1, 3], None, "w"), deep]))
    assert net.features(X).shape == (7, 7)
    np.testing.assert_allclose(
        net.logits(X), (X @ W[1, 3].T + relu(X @ W[4, 3].T + B[4]) @ W[1, 4].T + B[1])[:, 0], rtol=1e-5
    )


def test_an_embedding_is_a_lookup_for_each_column():
    table = RNG.normal(size=(5, 2)).astype(np.float32)
    build = GraphBuilder("m")
    x = build.input(3)
    found = build.lookup(build.columns(x, "cat", (0, 2)), "emb", table, "emb")
    net = build.network(build.linear(found, "head", W[1, 4], B[1], "head"))
    rows = np.array([[1, 0.5, 4], [0, 0.5, 0]], np.float32)
    expected = np.hstack([table[[1, 0]], table[[4, 0]]]) @ W[1, 4].T + B[1]
    np.testing.assert_allclose(net.logits(rows), expected[:, 0], rtol=1e-5)
    assert sum(isinstance(node.operation, Lookup) for node in net.nodes) == 2
    assert net.read_columns.tolist() == [True, False, True]
    for wrong in (5, -1, 0.5):
        with pytest.raises(FairmendError, match="a whole number from 0 to 4"):
            net.logits([[wrong, 0, 0]])


def test_softmax_of_two_may_give_the_probability_of_class_1():
    build = GraphBuilder("m")
    logits = build.linear(build.function(build.linear(build.input(3), "a", W[4, 3], B[4], "a"), "r", RELU), "h",
                          W[2, 4], B[2], "h")  # fmt: skip
    closed = build.softmax(logits, "softmax")
    net = build.network(build.collapse(build.columns(closed, "[:, 1]", (1,)), "squeeze", single=True))
    assert net.closing == "softmax"
    assert net.outputs == 2
    with pytest.raises(FairmendError, match="chooses among the outputs"):
        build.network(build.columns(closed, "[:, 0]", (0,)))


def test_functions_may_come_first_or_follow_each_other():
    build = GraphBuilder("m")
    value = build.function(build.function(build.input(3), "t", Activation("tanh")), "r", RELU)
    net = build.network(build.linear(value, "h", W[1, 3], None, "h"))
    np.testing.assert_allclose(net.logits(X), (relu(np.tanh(X)) @ W[1, 3].T)[:, 0], rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda b, x, h: b.apply("+", Sum(), [b.function(b.linear(h, "l", W[4, 4], None, "l"), "p", SIGMOID), h]),
            "is added to the output, and is not",
        ),
        (lambda b, x, h: b.apply("*", Product(4), [h, b.function(h, "e", Activation("exp"))]), "numbers of one sign"),
        (lambda b, x, h: b.function(h, "tanh at the end", Activation("tanh")), "tanh at the end closes the network"),
        (lambda b, x, h: b.apply("sum of two", Sum(), [x, h]), r"sum of two: a sum of 3, 4 numbers"),
        (lambda b, x, h: b.linear(x, "l", W[1, 4], None, "l"), "l takes 4 values, but the layer before it gives 3"),
        (lambda b, x, h: b.columns(x, "slice", (3,)), r"slice: columns \[3\] of a node that has 3"),
    ],
)  # fmt: skip
def test_what_has_no_linear_head_or_does_not_fit_is_refused(make, words):
    build = GraphBuilder("m")
    x = build.input(3)
    h = build.function(build.linear(x, "a", W[4, 3], B[4], "a"), "r", RELU)
    with pytest.raises(FairmendError, match=words):
        build.network(make(build, x, h))


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda b, x, h, z: b.apply("+", Sum(), [z, h]), lambda h, z: z + h),
        (lambda b, x, h, z: b.apply("*", Product(4), [z, h]), lambda h, z: z * h),
        (lambda b, x, h, z: b.apply("*", Product(1, 1, 1, 4), [z, h]), lambda h, z: (z * h).sum(1, keepdims=True)),
        (lambda b, x, h, z: b.columns(z, "c", (2, 0)), lambda h, z: z[:, [2, 0]]),
        (lambda b, x, h, z: b.norm(b.apply("+", Sum(), [z, b.linear(h, "k", W[4, 4], None, "k")]), NORM),
         lambda h, z: (z + h @ W[4, 4].T - NORM.mean) / np.sqrt(NORM.variance + 1e-5)),
    ],
)  # fmt: skip
def test_an_output_that_is_no_affine_layer_is_passed_on_by_a_fixed_one(make, values):
    build = GraphBuilder("m")
    x = build.input(3)
    h = build.function(build.linear(x, "a", W[4, 3], B[4], "a"), "r", RELU)
    net = build.network(make(build, x, h, build.linear(h, "l", W[4, 4], B[4], "l")))
    hidden = relu(X @ W[4, 3].T + B[4])
    wanted = values(hidden, hidden @ W[4, 4].T + B[4])
    np.testing.assert_allclose(net.logits(X).reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-5)
    assert net.head.is_fixed
    assert net.head.size == 0
    changed = net.with_affines([Affine(2 * affine.weight, affine.bias) for affine in net.affines])
    assert changed.head == net.head

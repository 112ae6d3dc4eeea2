"""Models from the steps of files: what is folded, what stays by itself, and what may close it."""

import numpy as np
import pytest

from fairmend_check.errors import CheckError
from fairmend_check.kernel.assemble import Affine, Graph, assemble
from fairmend_check.kernel.model import Activation, network_digest
from fairmend_check.kernel.operations.affine import scaling

RELU, SIGMOID = Activation("relu"), Activation("sigmoid")
WIDE, LAST = Affine(np.ones((2, 3), np.float32), None), Affine(np.ones((1, 2), np.float32), None)
DOUBLED = scaling(0.0, 2.0, None)


def test_norms_belong_to_the_layer_before_or_after_them():
    model = assemble([DOUBLED, WIDE, DOUBLED, DOUBLED, RELU, DOUBLED, LAST, DOUBLED, SIGMOID])
    assert np.array_equal(model.layers[0].weight, np.full((2, 3), 8.0))
    assert np.array_equal(model.layers[1].weight, np.full((1, 2), 4.0))
    assert model.activations == (RELU,)
    assert model.closed
    assert all(layer.fold is not None for layer in model.layers)


def test_the_numbers_of_a_function_are_rounded_to_the_type_of_the_model():
    """Frameworks compute with them in that type: torch.nn.LeakyReLU(0.1) multiplies by the float32 next to 0.1."""
    functions = [Activation("leaky_relu", 0.1), Activation("clip", 0.0, (-0.3, 0.7))]
    for function in functions:
        (read,) = assemble([WIDE, function, LAST]).activations
        numbers = np.float32([function.slope, *function.parameters])
        assert [read.slope, *read.parameters] == numbers.astype(float).tolist()
        (exact,) = assemble([Affine(np.ones((2, 3)), None), function, Affine(np.ones((1, 2)), None)]).activations
        assert exact == function


def test_without_norms_nothing_is_folded():
    model = assemble([WIDE, LAST])
    assert [layer.fold for layer in model.layers] == [None, None]
    assert model.activations == (Activation("identity"),)
    assert not model.closed


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([WIDE, RELU], "ends with relu"),
        ([WIDE, SIGMOID], "ends with sigmoid"),
        ([WIDE, RELU, LAST, Activation("softmax")], "ends with softmax"),
        ([WIDE, Activation("log_softmax"), LAST], "activation log_softmax with slope 0.0 is unknown"),
        ([WIDE, LAST, LAST], r"weights of shape \(1, 2\) reads 1 values"),
        ([DOUBLED], "no layers"),
        ([], "no layers"),
    ],
)
def test_other_orders_are_refused(steps, reason):
    with pytest.raises(CheckError, match=reason):
        assemble(steps)


def kinds(model):
    return [type(node.operation).__name__ for node in model.nodes]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([WIDE, RELU, RELU, LAST], ["Dense", "Activation", "Activation", "Dense"]),
        ([RELU, WIDE], ["Activation", "Dense"]),
        ([WIDE, RELU, DOUBLED, DOUBLED, RELU, LAST], ["Dense", "Activation", "Scale", "Activation", "Dense"]),
        ([WIDE, RELU, DOUBLED], ["Dense", "Activation", "Scale"]),
    ],
)
def test_steps_that_are_no_chain_are_a_graph(steps, expected):
    model = assemble(steps)
    assert kinds(model) == ["Input", *expected]
    assert not model.is_chain


def test_a_norm_is_folded_where_nothing_else_reads_the_layer():
    """After the layer that it reads; else before the layer that reads it; else it stays by itself."""
    for others, expected in (
        ([], ["Input", "Dense", "Activation", "Dense"]),
        (["layer"], ["Input", "Dense", "Scale", "Sum", "Dense"]),
        (["norm"], ["Input", "Dense", "Activation", "Concatenate", "Dense"]),
    ):
        graph = Graph(3)
        layer = graph.affine(graph.input, WIDE.weight)
        norm = graph.norm(layer, DOUBLED)
        if others == ["layer"]:
            value = graph.sum(layer, norm)
        else:
            value = graph.function(norm, RELU)
            value = graph.concatenate(value, norm) if others else value
        model = graph.finish(graph.affine(value, np.ones((1, graph.width(value)), np.float32)))
        assert kinds(model) == expected
        assert (model.layers[0].fold is None) == (others == ["layer"])
    graph = Graph(2)
    both = graph.sum(graph.input, graph.function(graph.input, RELU))
    model = graph.finish(graph.affine(graph.norm(both, DOUBLED), LAST.weight))
    assert kinds(model) == ["Input", "Activation", "Sum", "Dense"]
    assert np.array_equal(model.layers[0].weight, [[2.0, 2.0]])


def test_what_the_output_does_not_need_is_left_out():
    graph = Graph(3)
    graph.affine(graph.input, np.full((5, 3), np.nan, np.float64))
    hidden = graph.function(graph.affine(graph.input, WIDE.weight), Activation("identity"))
    model = graph.finish(graph.affine(hidden, LAST.weight))
    assert kinds(model) == ["Input", "Dense", "Activation", "Dense"]
    assert model.is_chain


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("chosen", [False, True])
def test_a_closing_softmax_and_the_choice_of_one_of_two_are_left_out(name, chosen):
    graph = Graph(3)
    value = graph.function(graph.affine(graph.input, WIDE.weight), Activation(name))
    model = graph.finish(graph.columns(value, [1]) if chosen else value)
    assert kinds(model) == ["Input", "Dense"]
    assert model.outputs == 2
    assert model.closed == (name == "softmax")


def test_columns_of_columns_are_those_of_the_one_value_that_they_come_from():
    """A choice with repetitions is several choices side by side, and a choice of that one of the value again."""
    graph = Graph(3)
    repeated = graph.columns(graph.input, [2, 0, 2, 1, 1])
    assert graph.columns(repeated, [1, 3, 0]) == graph.input
    weight = np.ones((1, 2), np.float32)
    direct = graph.affine(graph.columns(graph.input, [2, 1]), weight)
    around = graph.affine(graph.columns(graph.columns(repeated, [4, 2, 0]), [1, 0]), weight)
    assert network_digest(graph.finish(direct)) == network_digest(graph.finish(around))
    both = graph.concatenate(graph.input, direct)  # of two values, the choice stays one of both
    two = graph.columns(graph.columns(both, [3, 0, 1]), [1, 0])
    (chosen, sources) = graph._steps[two]
    assert (chosen.indices, sources) == ((0, 3), (both,))


def test_columns_may_be_chosen_twice_and_all_columns_in_order_are_no_choice():
    graph = Graph(3)
    assert graph.columns(graph.input, [0, 1, 2]) == graph.concatenate(graph.input) == graph.input
    value = graph.columns(graph.input, [2, 0, 2, 2])
    assert graph.width(value) == 4
    model = graph.finish(graph.affine(value, np.ones((1, 4), np.float32)))
    assert kinds(model) == ["Input", "Columns", "Columns", "Columns", "Concatenate", "Dense"]


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda g: g.sum(g.input, g.columns(g.input, [0])), "parts of 3, 1 numbers"),
        (lambda g: g.sum(g.input), "parts of 3 numbers"),
        (lambda g: g.columns(g.input, [3]), "columns are chosen"),
        (lambda g: g.columns(g.input, []), "columns are chosen"),
        (lambda g: g.lookup(g.input, np.ones((2, 2), np.float32)), "looked up by 3 columns"),
        (lambda g: g.lookup(g.columns(g.input, [0]), np.ones((2, 2))), "got float32, float64"),
        (lambda g: g.lookup(g.columns(g.input, [0]), np.full((2, 2), np.inf, np.float32)), "not finite"),
        (lambda g: g.lookup(g.affine(g.input, LAST.weight @ WIDE.weight), np.ones((2, 2), np.float32)), "unchanged"),
        (lambda g: g.function(g.input, Activation("prelu", 0.0, (0.5, 0.5))), "reads 2 of 3 values"),
    ],
)
def test_what_does_not_fit_is_refused(build, reason):
    def finished(graph):
        value = build(graph)
        return graph.finish(graph.affine(value, np.ones((1, graph.width(value)), np.float32)))

    with pytest.raises(CheckError, match=reason):
        finished(Graph(3))


def test_columns_side_by_side_are_one_choice_unless_one_is_there_twice():
    """Files put parts side by side and take them apart again in other orders: the network is the same."""
    digests = []
    for parts in ([[2, 0], [1]], [[2], [0, 1]], [[2, 0, 1]]):
        graph = Graph(3)
        hidden = graph.function(graph.affine(graph.input, np.eye(3, dtype=np.float32)), RELU)
        joined = graph.concatenate(*(graph.columns(hidden, part) for part in parts))
        digests.append(network_digest(graph.finish(graph.affine(joined, np.ones((1, 3), np.float32)))))
    assert len(set(digests)) == 1
    graph = Graph(2)
    twice = graph.concatenate(*(graph.columns(graph.input, part) for part in ([1, 0], [0])))
    assert graph.width(twice) == 3
    whole = graph.concatenate(*(graph.columns(graph.input, part) for part in ([0], [1])))
    assert whole == graph.input

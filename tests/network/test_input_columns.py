"""Where input columns go in a graph, and how they are cut off."""

import numpy as np
import pytest

from fairmend import FairmendError
from fairmend.network import Activation, Affine, Columns, Concatenate, Input, Lookup, Network, Node, Scale, Sum
from fairmend.network.folding import Fold, Norm
from fairmend.network.input_columns import fix_columns, followed_columns, in_raw_units, in_units, training_units

RNG = np.random.default_rng(3)


def affine(out, width):
    return Affine(RNG.normal(size=(out, width)), RNG.normal(size=out))


def tabular():
    """Return a network that looks up column 0, scales column 1, takes a function of column 2 and reads 3 twice."""
    norm = Norm("bn", np.ones(1), np.full(1, 2.0), None, np.ones(1), 0.0)
    return Network.from_nodes(
        [
            Node(Input(4)),
            Node(Columns((0,)), (0,)),
            Node(Lookup(RNG.normal(size=(3, 2))), (1,), "emb"),
            Node(Columns((1,)), (0,)),
            Node(Scale((norm,), 1, np.dtype(np.float64)), (3,)),
            Node(Columns((2,)), (0,)),
            Node(Activation("tanh"), (5,)),
            Node(Columns((3,)), (0,)),
            Node(Concatenate(), (2, 4, 6, 7)),
            Node(affine(5, 5), (8,), "a"),
            Node(Activation("relu"), (9,)),
            Node(Concatenate(), (10, 7)),
            Node(affine(1, 6), (11,), "head"),
        ]
    )


def rows(count):
    return np.column_stack([RNG.integers(0, 3, count), RNG.normal(size=(count, 3))])


def test_numbers_follow_the_column_that_they_depend_on():
    network = tabular()
    assert followed_columns(network)[8].tolist() == [0, 0, 1, 2, 3]
    assert followed_columns(network)[11].tolist() == [-1] * 5 + [3]


@pytest.mark.parametrize("columns", [[0], [1], [2], [3], [0, 3], [0, 1, 2, 3]])
def test_a_fixed_column_is_ignored_and_the_rest_computes_as_if_it_held_the_reference(columns):
    network, X = tabular(), rows(20)
    reference = X[0, columns]
    fixed = fix_columns(network, columns, reference)
    replaced = X.copy()
    replaced[:, columns] = reference
    np.testing.assert_allclose(fixed.logits(X), network.logits(replaced), rtol=1e-9)
    assert fixed.read_columns.tolist() == [column not in columns for column in range(4)]


def test_a_mean_between_two_codes_is_the_mean_of_their_rows():
    network = tabular()
    table = network.tables["emb"]
    np.testing.assert_allclose(
        fix_columns(network, [0], [0.25]).tables["emb"], np.tile(0.75 * table[0] + 0.25 * table[1], (3, 1))
    )


def test_a_table_that_other_columns_look_up_is_not_changed():
    table = Lookup(RNG.normal(size=(3, 2)))
    nodes = [Node(Input(2)), Node(Columns((0,)), (0,)), Node(table, (1,), "emb"), Node(Columns((1,)), (0,)),
             Node(table, (3,), "emb"), Node(Concatenate(), (2, 4)), Node(affine(1, 4), (5,), "head")]  # fmt: skip
    with pytest.raises(FairmendError, match="the table 'emb' is looked up by several columns"):
        fix_columns(Network.from_nodes(nodes), [0], [0])
    fix_columns(Network.from_nodes(nodes), [0, 1], [0, 0])


def test_a_column_that_enters_a_sum_without_a_weight_cannot_be_cut_off():
    nodes = [Node(Input(2)), Node(affine(2, 2), (0,), "a"), Node(Sum(), (0, 1)), Node(affine(1, 2), (2,), "head")]
    with pytest.raises(FairmendError, match=r"before any weight reads it \(node 2 \(sum\)\)"):
        fix_columns(Network.from_nodes(nodes), [0], [0])


def test_units_change_what_affine_layers_read_and_back():
    network, X = tabular(), rows(20)
    mean, deviation = np.array([0, 0, 0, 2.0]), np.array([1, 1, 1, 3.0])
    scaled = network.with_affines(in_units(network, network.affines, mean, deviation))
    np.testing.assert_allclose(scaled.logits((X - mean) / deviation), network.logits(X), rtol=1e-9)
    back = in_raw_units(network, scaled.affines, mean, deviation)
    for old, new in zip(network.affines, back, strict=True):
        np.testing.assert_allclose(new.weight, old.weight, rtol=1e-12)
        np.testing.assert_allclose(new.bias, old.bias, atol=1e-12)


def test_only_columns_that_affine_layers_read_are_standardised():
    X = rows(50)
    mean, deviation = training_units(tabular(), X)
    np.testing.assert_allclose(mean, [0, 0, 0, X[:, 3].mean()])
    np.testing.assert_allclose(deviation, [1, 1, 1, X[:, 3].std()])


def test_columns_that_a_layer_without_a_bias_reads_are_scaled_but_not_shifted():
    X = RNG.normal(3, 1, size=(50, 2))
    X[:, 1] = 0
    chain = Network([Affine.without_bias(RNG.normal(size=(3, 2))), affine(1, 3)], [Activation("relu")])
    mean, deviation = training_units(chain, X)
    assert mean.tolist() == [0, 0]
    np.testing.assert_allclose(deviation, [np.sqrt((X[:, 0] ** 2).mean()), 1])
    scaled = chain.with_affines(in_units(chain, chain.affines, mean, deviation))
    np.testing.assert_allclose(scaled.logits(X / deviation), chain.logits(X), rtol=1e-9)


def test_columns_stay_as_they_are_where_a_norm_makes_the_bias_follow_from_the_weights():
    norm = Norm("bn", np.ones(2), np.full(2, 2.0), None, np.ones(2), 0.0)
    fold = Fold(RNG.normal(size=(1, 2)), None, (norm,), (), "here")
    mean, deviation = training_units(Network([Affine.from_fold(fold)], []), RNG.normal(3, 1, size=(50, 2)))
    assert (mean.tolist(), deviation.tolist()) == ([0, 0], [1, 1])


def test_a_layer_without_a_bias_computes_as_if_a_fixed_column_held_0():
    chain = Network([Affine.without_bias(RNG.normal(size=(3, 2))), affine(1, 3)], [Activation("relu")])
    X = RNG.normal(size=(20, 2))
    fixed = fix_columns(chain, [0], [5.0])
    np.testing.assert_allclose(fixed.logits(X), chain.logits(X * [0, 1]), rtol=1e-9)
    assert not fixed.affines[0].stores_bias


def test_a_layer_without_a_bias_keeps_the_weights_of_a_table_whose_rows_become_equal():
    nodes = [Node(Input(2)), Node(Columns((0,)), (0,)), Node(Lookup(RNG.normal(size=(3, 2))), (1,), "emb"),
             Node(Columns((1,)), (0,)), Node(Concatenate(), (2, 3)),
             Node(Affine.without_bias(RNG.normal(size=(1, 3))), (4,), "head")]  # fmt: skip
    network, X = Network.from_nodes(nodes), rows(20)[:, :2]
    fixed = fix_columns(network, [0], [2])
    np.testing.assert_allclose(fixed.logits(X), network.logits(np.column_stack([np.full(20, 2), X[:, 1]])), rtol=1e-9)
    assert fixed.read_columns.tolist() == [False, True]

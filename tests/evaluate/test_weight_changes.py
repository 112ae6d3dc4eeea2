"""Which weights changed: counted by layer, and the ones shown are those that matter."""

import numpy as np
import pytest

from fairmend.evaluate import weight_changes as module
from fairmend.evaluate.weight_changes import compare_weights
from fairmend.network import Affine, Network
from support.cli_case import small_network, small_spec


def changed(net, layer, row, column, by):
    affines = list(net.affines)
    weight = affines[layer].weight.copy()
    weight[row, column] += by
    affines[layer] = Affine(weight, affines[layer].bias)
    return Network(affines, net.activations)


def test_only_what_changed_is_counted():
    spec, before = small_spec(), small_network()
    found = compare_weights(before, changed(before, 0, 2, 1, 0.5), spec)
    assert [layer.changed for layer in found.layers] == [1, 0, 0]
    assert found.layers[0].l1 == found.layers[0].largest == pytest.approx(0.5, abs=1e-6)
    assert found.layers[0].total == before.affines[0].weight.size + before.affines[0].bias.size
    assert all(change.before == change.after for change in found.head)
    assert len(found.head) == before.head.weight.size + 1


def test_protected_columns_are_marked_and_stay_when_others_are_left_out(monkeypatch):
    monkeypatch.setattr(module, "_MOST_COLUMNS", 4)
    spec, before = small_spec(), small_network()
    found = compare_weights(before, changed(before, 0, 0, spec.columns("credits").start, 9.0), spec)
    protected = sum(len(before.affines[0].weight[0, spec.columns(f.name)]) for f in spec.protected)
    assert sum(change.marked for change in found.columns) == protected == 3
    assert [change.name for change in found.columns if not change.marked] == ["credits"]
    assert found.columns_left_out == spec.width - 4
    norm = np.abs(before.affines[0].weight[:, 0]).sum()
    assert found.columns[0].before == pytest.approx(norm)


def test_several_outputs_are_shown_class_by_class():
    net = small_network(3)
    names = [change.name for change in compare_weights(net, net, small_spec()).head]
    assert names[0] == "class 0, unit 1"
    assert names[-1] == "class 2, bias"


def test_a_bias_that_the_head_does_not_store_is_not_shown():
    net = small_network()
    bare = Network([*net.affines[:-1], Affine.without_bias(net.head.weight)], net.activations)
    found = compare_weights(bare, bare, small_spec())
    assert len(found.head) == found.layers[-1].total == net.head.weight.size

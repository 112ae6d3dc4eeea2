"""The report on a repair: its figures are those of the result and of brute force."""

from dataclasses import replace

import numpy as np
import pytest

from fairmend import repair
from fairmend.auditing.neighbours import find_unequal
from fairmend.evaluate import repair_document as module
from fairmend.evaluate.repair_document import compare_weights
from fairmend.evaluate.utility import utility
from fairmend.network import Affine, Columns, Concatenate, Input, Lookup, Network, Node
from fairmend.report import repair_report
from fairmend.spec import Spec
from support.cli_case import small_network, small_spec
from support.graph_cases import SPEC, residual_network
from support.group_metrics import group_metrics
from support.html_page import Page
from support.report_cases import repair_of, repaired

# Which weights changed: counted by layer, and the ones shown are those that matter.


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


def test_the_numbers_of_tables_are_counted_as_weights():
    before = residual_network(np.random.default_rng(0))
    spec = Spec([*(replace(f, protected=f.name == "job") for f in SPEC.features)])
    X = spec.sample_inputs(40, np.random.default_rng(1), np.float32)
    y = before.predict(X)
    result = repair(before, spec, X_repair=X, X_cal=X, y_cal=y, method="blind")
    table = result.network.tables["jobs"]
    assert (table == table[0]).all(), "a blind repair makes the rows of the protected table equal"
    brute = sum(
        int((old != new).sum())
        for was, now in zip(before.nodes, result.network.nodes, strict=True)
        if isinstance(was.operation, Affine | Lookup)
        for old, new in zip(was.operation.arrays, now.operation.arrays, strict=True)
    )
    assert result.changed_weights == brute > 0
    document = repair_report(result, spec, before, X, X, y).document
    assert (document.changed_weights, document.total_weights) == (brute, before.weights)
    assert [(layer.name, layer.table) for layer in document.weights.layers][:2] == [("jobs", True), ("first", False)]
    assert sum(layer.changed for layer in document.weights.layers) == brute
    assert sum(layer.total for layer in document.weights.layers) == before.weights


def test_a_table_of_several_columns_is_counted_once():
    table, head = Lookup(np.ones((3, 2), np.float32)), Affine(np.ones((1, 4), np.float32), np.zeros(1, np.float32))
    nodes = [Node(Input(2)), Node(Columns((0,)), (0,)), Node(table, (1,), "places"), Node(Columns((1,)), (0,))]
    nodes += [Node(table, (3,), "places"), Node(Concatenate(), (2, 4)), Node(head, (5,), "head")]
    assert Network.from_nodes(nodes).weights == 6 + 5


@pytest.mark.parametrize("method", ["auto", "prof", "flip"])
def test_the_figures_of_a_repair_are_those_of_its_networks(method):
    result, spec, net, frame, y = repaired(method)
    document = repair_of(method).document
    said = document
    X = spec.encode(frame)
    for figures, network in ((said.before, net), (said.after, result.network)):
        assert figures.data.count == find_unequal(network, spec, X).count
        assert figures.repair_inputs.count == find_unequal(network, spec, X[:30]).count
        good_for = utility(network, X, y)
        assert (figures.utility.accuracy, figures.utility.auc) == (good_for.accuracy, good_for.auc)
        assert (figures.utility.balanced_accuracy, figures.utility.positive_rate) == (
            good_for.balanced_accuracy,
            good_for.positive_rate,
        )
    assert said.changed_predictions == pytest.approx((net.predict(X) != result.network.predict(X)).mean())
    assert (said.proven_repair_inputs, said.repair_inputs, said.blind) == (result.proven, result.regions, result.blind)
    assert (said.changed_weights, said.total_weights) == (result.changed_weights, result.total_weights)
    assert sum(layer.changed for layer in said.weights.layers) == result.changed_weights
    assert sum(layer.total for layer in said.weights.layers) == result.total_weights
    assert said.history.task == list(result.history.task)
    assert document.warnings == list(result.warnings)
    assert [c.name for c in said.candidates if c.chosen] == [c.recipe.name for c in result.candidates if c.chosen]
    assert all(candidate.why for candidate in said.candidates)
    for figures, network in ((said.before, net), (said.after, result.network)):
        for feature, expected in zip(figures.groups, group_metrics(network, spec, X, y), strict=True):
            assert feature.demographic_parity_difference == expected.demographic_parity_difference
            assert feature.equalized_odds_difference == expected.equalized_odds_difference
            rates = [group.selection_rate for group in feature.groups]
            assert max(rates) - min(rates) == pytest.approx(expected.demographic_parity_difference)
            assert sum(group.rows for group in feature.groups) == len(X)


def test_the_page_shows_them():
    text = Page(repair_of("prof").html).text
    said = repair_of("prof").document
    assert f"before {said.before.repair_inputs.count} → after 0" in text
    assert f"{100 * said.after.utility.accuracy:.1f} %" in text
    assert f"{said.changed_weights:,} of {said.total_weights:,} weights" in text
    assert "fairmend check out/certificate.json out/model.onnx" in text
    assert "Each of the 30 repair inputs keeps its prediction whatever its age or gender." in text
    assert f"none of {said.repair_inputs} cross the line" in text


def test_many_inputs_are_thinned_evenly(monkeypatch):
    monkeypatch.setattr("fairmend.evaluate.score_ranges.MOST_RANGES", 7)
    result, spec, net, frame, y = repaired("prof")
    report = repair_report(result, spec, net, frame[:30], frame, y)
    assert (len(report.document.page.ranges.before), report.document.page.ranges.total) == (7, 30)
    assert "The charts show 7 of 30 repair inputs" in report.html

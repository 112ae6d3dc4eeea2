"""What the report carries so that its page can compute scores: networks, features, links and some people."""

import base64
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fairmend
from fairmend.auditing import slices
from fairmend.evaluate.people import RowNumbers
from fairmend.evaluate.what_if import MOST_CATEGORIES, MOST_FEATURES, MOST_WEIGHTS, add_what_if
from fairmend.network import Affine, Concatenate, Input, Network, Node, Scale
from fairmend.network.folding import Fold, Norm, Part
from fairmend.prove.kernel_bounds import KernelBounds
from fairmend.report import audit_report
from fairmend.spec import Feature, Label, Spec
from support.report_cases import audit_of, repair_of, repaired
from support.what_if_cases import asked_audit, asked_network, every_kind, graph_for, network_for, people_of_every_kind

NO_PAIRS = replace(audit_of().document.page.pairs, rows=[])
BARE = replace(audit_of().document, page=replace(audit_of().document.page, what_if=None, pairs=NO_PAIRS))


def numbers(tensor, precision):
    """The numbers of a tensor that is carried."""
    raw = np.frombuffer(base64.b64decode(tensor.values), np.dtype(precision).newbyteorder("<"))
    assert tensor.dtype == precision
    return raw.reshape(tensor.shape)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_network_is_carried_bit_for_bit(dtype):
    report, net, _ = asked_audit(activation="tanh", dtype=dtype)
    carried = report.document.page.what_if.before
    assert carried.precision == dtype
    assert [step.get("name", step["kind"]) for step in carried.steps] == [
        *("input", "affine", "tanh", "affine", "tanh", "affine")
    ]
    assert [step["sources"] for step in carried.steps] == [[], [0], [1], [2], [3], [4]]
    assert carried.steps[0]["columns"] == net.inputs
    for step, affine in zip(carried.steps[1::2], net.affines, strict=True):
        assert np.array_equal(numbers(carried.tensors[step["weight"]], dtype), affine.weight)
        assert np.array_equal(numbers(carried.tensors[step["bias"]], dtype), affine.bias)


def test_a_graph_is_carried_with_all_its_operations():
    spec = every_kind()
    net = graph_for(spec)
    carried = add_what_if(BARE, spec, spec.encode(people_of_every_kind(5)), net).page.what_if.before
    nodes = [node for node in net.nodes if node.operation.kind != "identity"]  # which is no step
    assert [step.get("name", step["kind"]) for step in carried.steps] == [node.operation.kind for node in nodes]
    for step, own in zip(carried.steps, nodes, strict=True):
        if step["kind"] == "lookup":
            assert np.array_equal(numbers(carried.tensors[step["table"]], "float32"), own.operation.table)
        if step["kind"] == "scale":
            assert np.array_equal(np.float32(step["gain"]), own.operation.factor)
            assert np.array_equal(np.float32(step["shift"]), own.operation.shift)


def margin_error(net, spec, X):
    return add_what_if(BARE, spec, X, net).page.what_if.before.margin_error


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_bound_of_a_margin_is_that_of_the_kernel_over_all_ranges(dtype):
    """It is no less than the kernel's for any person and their neighbourhood, and small beside typical margins."""
    net, spec = asked_network(dtype=dtype)
    X = spec.encode(people_of_every_kind(50), net.dtype)
    bound, kernel = margin_error(net, spec, X), KernelBounds(net)
    for classes in (np.zeros(50, int), np.ones(50, int)):
        own = kernel.margin_error(*spec.hull(X, net.dtype), classes) + kernel.closing_error(classes)
        assert (own < bound).all()
    assert bound < 1e-3 * np.median(np.abs(net.logits(X)))


def test_a_head_of_several_layers_rounds_with_all_their_biases():
    """Large biases that cancel in the sum round as they are, one by one."""
    weight = np.ones((1, 2), np.float32)
    spec = Spec([Feature(name, "integer", range=(0, 1), protected=name == "a") for name in "ab"], Label("good", "yes"))
    bounds = []
    for size in (0, 3000):
        parts = tuple(Part(name, weight, np.float32([bias]), 1.0) for name, bias in (("a", size), ("b", -size)))
        head = Affine.from_fold(Fold.join(parts, "a test"))
        nodes = [Node(Input(2)), Node(Concatenate(), (0, 0)), Node(head, (1,), "head")]
        bounds.append(margin_error(Network.from_nodes(nodes), spec, np.ones((1, 2), np.float32)))
    assert bounds[0] < 1e-5
    assert bounds[1] > 6000 * 2.0**-24


def test_a_bound_of_no_use_is_left_out():
    """Of a network whose margins are as small as its rounding, of one that may overflow, and of regression."""
    spec, X = every_kind(), every_kind().encode(people_of_every_kind(5))
    net = network_for(spec)
    tiny = Network([*net.affines[:-1], Affine(net.head.weight * np.float32(1e-9), net.head.bias * 0)], net.activations)
    huge = Network([Affine(affine.weight * np.float32(1e14), affine.bias) for affine in net.affines], net.activations)
    assert margin_error(net, spec, X) is not None
    assert margin_error(tiny, spec, X) is None
    assert margin_error(huge, spec, X) is None
    assert margin_error(net, every_kind(regression=True), X) is None


def test_a_repair_carries_both_networks_and_an_audit_one():
    result, *_ = repaired()
    what_if = repair_of().document.page.what_if
    last = result.network.head.weight
    tensor = what_if.after.tensors[what_if.after.steps[-1]["weight"]]
    assert np.array_equal(numbers(tensor, "float32"), last)
    assert what_if.before != what_if.after
    assert audit_of().document.page.what_if.after is None


def test_slopes_and_scores_are_named():
    leaky = asked_audit(outputs=2, activation="leaky_relu")[0].document.page.what_if
    slope = float(np.float32(0.01))
    assert [step.get("slope") for step in leaky.before.steps] == [None, None, slope, None, slope, None]
    assert (leaky.scores, leaky.threshold) == (["Probability of “yes”"], 0.3)
    several = asked_audit(outputs=3, activation="tanh")[0].document.page.what_if
    assert (several.scores, several.threshold) == (["class 0", "class 1", "class 2"], None)
    number = asked_audit(activation="sigmoid", regression=True)[0].document.page.what_if
    assert (number.scores, number.threshold, number.regression) == (["price"], None, True)


def test_a_network_of_more_than_a_hundred_thousand_weights_is_not_carried_and_the_report_says_so():
    spec, frame = every_kind(), people_of_every_kind(5)
    X = spec.encode(frame)
    hidden = (MOST_WEIGHTS - 1) // (spec.width + 2)
    largest = network_for(spec, hidden=[hidden])
    assert add_what_if(BARE, spec, X, largest).page.what_if is not None
    left_out = add_what_if(BARE, spec, X, network_for(spec, hidden=[hidden + 1]))
    assert left_out.page.what_if is None
    assert "weights, and a page carries at most 100,000" in left_out.page.what_if_left_out
    assert add_what_if(BARE, spec, X, network_for(spec), network_for(spec, hidden=[hidden + 1])).page.what_if is None


def test_a_network_that_scales_further_than_float32_holds_has_no_bound():
    spec, frame = every_kind(), people_of_every_kind(5)
    small = Scale((Norm("a scale", np.zeros(()), None, np.array(2.0**-50), None),), spec.width, np.dtype(np.float32))
    head = Affine(np.ones((1, 4 * spec.width), np.float32), np.zeros(1, np.float32))
    nodes = [Node(Input(spec.width)), *(Node(small, (i,)) for i in range(3)), Node(Concatenate(), (0, 1, 2, 3))]
    assert margin_error(Network.from_nodes([*nodes, Node(head, (4,), "head")]), spec, spec.encode(frame)) is None


def test_too_many_features_are_left_out():
    features = [Feature("sex", "categorical", categories=("f", "m"), protected=True)]
    features += [Feature(f"f{i}", "integer", range=(0, 1)) for i in range(MOST_FEATURES)]
    spec = Spec(features, Label("good", "yes"))
    left_out = add_what_if(BARE, spec, spec.sample_inputs(3, np.random.default_rng(0)), network_for(spec))
    assert left_out.page.what_if_left_out == "there are 201 features, and a page has controls for at most 200"


def test_too_many_categories_are_left_out():
    names = tuple(f"c{i}" for i in range(MOST_CATEGORIES + 1))
    spec = Spec([Feature("place", "categorical", categories=names, protected=True)], Label("good", "yes"))
    left_out = add_what_if(BARE, spec, spec.sample_inputs(3, np.random.default_rng(0)), network_for(spec))
    assert left_out.page.what_if is None
    assert left_out.page.what_if_left_out == "the features have 5,001 categories, and a page has room for at most 5,000"


def test_people_are_those_of_the_pairs_and_a_seeded_sample():
    document = audit_of().document
    unequal = [person for person in document.page.what_if.people if person.unequal]
    others = [person for person in document.page.what_if.people if not person.unequal]
    assert [person.name for person in unequal] == [f"Row {pair.row}" for pair in document.page.pairs.rows[:20]]
    assert len(others) == 20
    spec, X = every_kind(), every_kind().encode(people_of_every_kind(200))
    first, again, other, none = (
        add_what_if(BARE, spec, X, network_for(spec), seed=seed, rows=rows).page.what_if.people
        for seed, rows in ((0, 20), (0, 20), (1, 20), (0, 0))
    )
    assert first == again
    assert [person.name for person in first] != [person.name for person in other]
    assert none == []


def test_people_are_called_by_their_row_in_the_file_and_their_id():
    spec, frame = every_kind(), people_of_every_kind(6).assign(customer=[f"C{i}" for i in range(6)])
    numbers = RowNumbers(2, "customer")
    numbers.add(frame, np.array([True, False, True, True, True, True]))
    pair = replace(audit_of().document.page.pairs.rows[0], row=4)
    document = replace(BARE, page=replace(BARE.page, pairs=replace(NO_PAIRS, rows=[pair])))
    X = spec.encode(frame)[[2, 5]]
    people = add_what_if(
        document, spec, X, network_for(spec), people=np.array([1, 4]), numbers=numbers
    ).page.what_if.people
    assert [(person.name, person.unequal) for person in people] == [("Row 4, C2", True), ("Row 7, C5", False)]
    assert people[0].values[5] == frame["income"][2]


def test_values_are_as_the_user_wrote_them():
    spec, frame = every_kind(), people_of_every_kind(40)
    what_if = add_what_if(BARE, spec, spec.encode(frame), network_for(spec), rows=40).page.what_if
    listed = {int(person.name.removeprefix("Row ")): person.values for person in what_if.people}
    assert [listed[row][5] for row in range(40)] == frame["income"].tolist()
    assert [listed[row][0] for row in range(40)] == frame["age"].tolist()
    again = pd.DataFrame([listed[row] for row in range(40)], columns=[f.name for f in spec.features])
    for f in spec.features:
        if f.categories:
            again[f.name] = [f.categories[int(code)] for code in again[f.name]]
    assert np.array_equal(spec.encode(again), spec.encode(frame))


def test_codes_have_the_names_that_people_call_them():
    features = [
        Feature("sex", "integer", range=(1, 2), protected=True, names={1: "male", 2: "female"}),
        Feature("home", "categorical", categories=("1", "2"), names={"1": "own"}),
        Feature("year", "integer", range=(0, 900), names={0: "never"}),
    ]
    spec = Spec(features, Label("good", "yes"))
    sex, home, year = add_what_if(BARE, spec, np.ones((1, 3), np.float32), network_for(spec)).page.what_if.features
    assert (sex.names, sex.categories) == ({"1": "male", "2": "female"}, [])
    assert (home.names, home.categories) == ({}, ["own", "2"])
    assert year.names == {}


def test_samples_are_called_samples():
    names = {person.name.split()[0] for person in audit_of(sampled=True).document.page.what_if.people}
    assert names == {"Sample"}


def test_it_can_be_switched_off():
    found = fairmend.audit(*asked_audit()[1:], people_of_every_kind(40))
    report = audit_report(found, *asked_audit()[1:], people_of_every_kind(40), what_if=False)
    assert report.document.page.what_if is None
    assert 'id="what-if"' not in report.html
    assert audit_of().without_what_if().document.page.what_if is None


def test_people_of_an_audit_that_kept_a_sample_are_those_of_their_rows(monkeypatch):
    monkeypatch.setattr(slices, "_EXAMINED_ROWS", 30)
    spec, frame = every_kind(), people_of_every_kind(200)
    net = network_for(spec)
    people = audit_report(
        fairmend.audit(net, spec, frame), net, spec, frame, what_if_rows=5
    ).document.page.what_if.people
    assert {person.unequal for person in people} == {True, False}
    rows = [int(person.name.removeprefix("Row ")) for person in people]
    assert max(rows) > 30
    for row, person in zip(rows, people, strict=True):
        assert (person.values[0], person.values[5]) == (frame["age"][row], frame["income"][row])

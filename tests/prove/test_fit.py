"""Specs that do not describe what a network reads."""

import numpy as np
import pytest

from fairmend import FairmendError, Feature, Spec, audit, certify, quantify, repair
from fairmend.network import Activation, Affine, Columns, Concatenate, Input, Lookup, Network, Node
from fairmend.prove.fit import require_fit
from fairmend_check import check
from support.checker_cases import content_of, write


def network(names=(("cat", 1), ("cont", 1))):
    head = Affine(np.ones((1, 3)), np.zeros(1))
    nodes = [Node(Input(2, names)), Node(Columns((0,)), (0,)), Node(Lookup(np.eye(2)), (1,), "emb"),
             Node(Columns((1,)), (0,)), Node(Concatenate(), (2, 3)), Node(head, (4,), "head")]  # fmt: skip
    return Network.from_nodes(nodes)


SEX = Feature("sex", "categorical", categories=("f", "m"), protected=True, input="cat")
AGE = Feature("age", "integer", range=(18, 70), input="cont")


def test_features_in_the_order_of_the_inputs_fit():
    require_fit(network(), Spec([SEX, AGE]))


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ([SEX], "reads 2 columns, but the spec describes 1"),
        ([AGE, SEX], "feature 'age' has input = 'cont', but the network reads it elsewhere.*cat \\(1 columns\\), cont"),
        ([Feature("sex", "integer", range=(0, 2), protected=True), AGE], "table of 2 rows.*whole numbers from 0 to 1"),
        ([Feature("sex", "continuous", range=(0, 1), protected=True), AGE], "it has continuous values from 0 to 1"),
        ([Feature("sex", "integer", range=(0, 1), scale={"mean": 0, "std": 2}, protected=True), AGE], "scaled"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(features, words):
    with pytest.raises(FairmendError, match=words) as caught:
        require_fit(network(), Spec(features))
    assert "\n" not in str(caught.value)


def test_an_input_of_a_model_that_has_one_only_is_refused():
    with pytest.raises(FairmendError, match="one input without a name"):
        require_fit(network(names=()), Spec([SEX, AGE]))


# Tables with a row for unknown values before the others: the codes are shifted by one.

JOBS = ("clerk", "cook", "smith")


def shifted_spec(scale=None):
    """Sex is protected and has a row for unknown values in its table, as the job has."""
    return Spec(
        [
            Feature("sex", "categorical", categories=("f", "m"), protected=True, scale=scale),
            Feature("job", "categorical", categories=JOBS, scale=scale),
            Feature("age", "integer", range=(18, 40), scale={"mean": 30, "std": 10}),
        ]
    )


def looking_up(sexes, jobs):
    rng = np.random.default_rng(5)
    nodes = [Node(Input(3)), Node(Columns((0,)), (0,)), Node(Lookup(sexes), (1,), "sexes"), Node(Columns((1,)), (0,))]
    nodes += [Node(Lookup(jobs), (3,), "jobs"), Node(Columns((2,)), (0,)), Node(Concatenate(), (2, 4, 5))]
    weights = rng.normal(size=(6, 5)).astype(np.float32), rng.normal(size=(1, 6)).astype(np.float32)
    first, head = (Affine(weight, np.zeros(len(weight), np.float32)) for weight in weights)
    return Network.from_nodes(
        [*nodes, Node(first, (6,), "first"), Node(Activation("relu"), (7,)), Node(head, (8,), "head")]
    )


def tables():
    rng = np.random.default_rng(2)
    return rng.normal(size=(3, 2)).astype(np.float32), rng.normal(size=(4, 2)).astype(np.float32)


@pytest.mark.parametrize("scale", [{"mean": -1, "std": 1}, {"min": -1, "max": 0}])
def test_a_shift_of_codes_is_the_network_without_the_first_rows(tmp_path, scale):
    sexes, jobs = tables()
    plain, shifted = shifted_spec(), shifted_spec(scale)
    cut, whole = looking_up(sexes[1:], jobs[1:]), looking_up(sexes, jobs)
    X = plain.sample_inputs(60, np.random.default_rng(0), np.float32)
    moved = X + np.float32([1, 1, 0])
    frame = plain.decode(X)
    assert np.array_equal(shifted.encode(frame, np.float32), moved)
    assert np.array_equal(cut.logits(X), whole.logits(moved))
    found = audit(whole, shifted, moved)
    assert found.count == audit(cut, plain, X).count > 0
    assert [*certify(whole, shifted, moved).verdicts] == [*certify(cut, plain, X).verdicts]
    shares, of_cut = quantify(whole, shifted), quantify(cut, plain)
    assert (shares.fair, shares.unfair) == (of_cut.fair, of_cut.unfair)
    assert shares.unfair > 0
    result = repair(whole, shifted, X_repair=moved[:20], X_cal=moved, y_cal=whole.predict(moved), method="blind")
    assert audit(result.network, shifted, moved).count == 0
    result.network.save(tmp_path / "repaired.onnx")
    result.certificate.save(tmp_path / "certificate.json")
    assert check(tmp_path / "certificate.json", tmp_path / "repaired.onnx").valid


@pytest.mark.parametrize("scale", [{"mean": -2, "std": 1}, {"mean": -0.5, "std": 1}, {"mean": 1, "std": 1}])
def test_a_shift_out_of_the_table_is_refused(scale):
    with pytest.raises(FairmendError, match=r"A scale may only shift them: scale = \{ mean = -1, std = 1 \} adds 1"):
        require_fit(looking_up(*tables()), shifted_spec(scale))


def test_a_table_with_more_rows_than_categories_is_refused_until_the_spec_says_which_are_theirs():
    with pytest.raises(
        FairmendError, match=r"'sex' in a table of 3 rows, but the spec gives it 2 categories.*mean = -1"
    ):
        require_fit(looking_up(*tables()), shifted_spec())
    require_fit(looking_up(*tables()), shifted_spec({"mean": 0, "std": 1}))


def test_the_checker_refuses_a_shift_out_of_the_table(tmp_path):
    sexes, jobs = tables()
    spec = shifted_spec({"mean": -1, "std": 1})
    network = looking_up(sexes, jobs)
    X = spec.sample_inputs(30, np.random.default_rng(0), np.float32)
    result = repair(network, spec, X_repair=X, X_cal=X, y_cal=network.predict(X), method="blind")
    result.network.save(tmp_path / "repaired.onnx")
    for wrong in ({"mean": -2, "std": 1}, {"mean": -1, "std": 2}, {"mean": -1.5, "std": 1}):
        content = content_of(result.certificate)
        for feature in content["spec"]["feature"][:2]:
            feature["scale"] = wrong
        answer = check(write(tmp_path, content), tmp_path / "repaired.onnx")
        assert not answer.valid
        assert any("must be encoded as whole numbers" in reason for reason in answer.reasons), answer.reasons

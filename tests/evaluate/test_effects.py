"""Mean effects of protected values, against scores that are computed one by one."""

import numpy as np
import pytest

import fairmend
from fairmend.auditing.neighbours import draw_with_value
from fairmend.evaluate.effects import mean_effects
from fairmend.network import Affine, Network
from fairmend.network.model import scores_of
from fairmend.spec import Feature, Label, Spec
from support.cli_case import small_network, small_people, small_spec
from support.link_cases import family_spec

NAMES = ["no", "yes"]
SEX = Feature("sex", "categorical", categories=("f", "m"), protected=True)
RANK = Feature("rank", "categorical", categories=("a", "b", "c", "d"))
AGE = Feature("age", "integer", range=(18, 90), protected=True)


def linear(*weights, bias=0.0):
    return Network([Affine(np.array([weights], np.float32), np.array([bias], np.float32))], [])


def test_effects_are_those_of_scores_with_each_value():
    spec, net = small_spec(), small_network()
    X = spec.encode(small_people())
    age, gender = mean_effects([net], spec, X, NAMES)[0]
    assert (age.feature, gender.feature, gender.rows, gender.answer) == ("age", "gender", 200, "yes")
    assert [value.value for value in gender.values] == ["f", "m"]
    assert len(age.values) == 5
    columns = spec.columns("gender")
    logits = []
    for code in (0, 1):
        changed = X.copy()
        changed[:, columns] = np.eye(2, dtype=X.dtype)[code]
        logits.append(net.logits(changed))
    scores = np.stack([scores_of(each, "probability")[:, 0] for each in logits])
    expected = (scores[1] - scores[0]).mean() / 2
    assert gender.values[1].score.mean == pytest.approx(expected)
    assert gender.values[0].score.mean == pytest.approx(-expected)
    got = (net.decide(logits[1]) == 1).mean() - (net.decide(logits[0]) == 1).mean()
    assert gender.values[1].decision.mean == pytest.approx(got / 2)
    assert sum(value.rows for value in gender.values) == 200


def test_an_interval_says_who_gains_and_who_loses():
    spec = Spec([SEX, Feature("income", "continuous", range=(0, 1))], Label("y", "yes"))
    X = np.random.default_rng(0).random((300, 2)).astype(np.float32)
    X[:, 0] = X[:, 0] > 0.7
    (found,) = mean_effects([linear(2.0, 1.0, bias=-1.0)], spec, X, NAMES)[0]
    assert [value.direction for value in found.values] == ["loses", "gains"]
    for value in found.values:
        assert value.score.low < value.score.mean < value.score.high
    (blind,) = mean_effects([linear(0.0, 1.0)], spec, X, NAMES)[0]
    assert [(value.score.mean, value.direction) for value in blind.values] == [(0.0, "neither")] * 2


def test_effects_are_about_the_favourable_class():
    plain = Spec([SEX], Label("y", "default"))
    lender = Spec([SEX], Label("y", "default", favourable="repaid"))
    X = np.array([[0.0], [1.0]], np.float32)
    (one,), (other,) = (mean_effects([linear(2.0)], spec, X, ["repaid", "default"])[0] for spec in (plain, lender))
    assert (one.answer, other.answer) == ("default", "repaid")
    assert other.values[0].score.mean == pytest.approx(-one.values[0].score.mean)
    assert other.values[0].direction == "gains"


def test_where_nothing_says_what_is_good_for_a_person_a_value_is_higher_or_lower():
    price = Spec([SEX], Label("y"), claim=fairmend.Claim("score", 1.0, "output"))
    X = np.array([[0.0], [1.0]] * 20, np.float32)
    (found,) = mean_effects([linear(2.0)], price, X, [])[0]
    assert [value.direction for value in found.values] == ["lower", "higher"]


def test_linked_features_change_along_and_nothing_else():
    link = {"when": {"sex": "m"}, "then": {"rank": {"a": ["c", "d"]}}}
    spec = Spec([SEX, AGE, RANK], Label("y", "yes"), links=[link])
    X = np.array([[0, 30, 0], [0, 40, 1], [1, 50, 0]] * 50, np.float32)
    found = draw_with_value(spec, X, SEX, 1.0, np.random.default_rng(0))
    assert (found[:, 0] == 1).all()
    assert (found[:, 1] == X[:, 1]).all()
    assert set(found[0::3, 2]) == {2.0, 3.0}
    assert (found[1::3, 2] == 1).all()
    assert (found[2::3, 2] == 0).all()
    assert spec.are_similar(X, found).all()
    sex, age = mean_effects([linear(0.0, 0.0, 1.0)], spec, X, NAMES)[0]
    assert (sex.linked, age.linked) == (["rank"], [])
    assert sex.values[1].direction == "gains"


def test_every_drawn_person_is_similar_and_has_the_value():
    spec = family_spec()
    rng = np.random.default_rng(1)
    X = spec.sample_inputs(500, rng)
    for feature in spec.protected:
        for value in (feature.bounds[0], feature.bounds[1]):
            found = draw_with_value(spec, X, feature, float(value), rng)
            assert spec.are_similar(X, found).all()
            columns = found[:, spec.columns(feature.name)]
            codes = feature.category_of(columns) if feature.one_hot else feature.nearest(columns[:, 0])
            assert (codes == value).all()
            for other in spec.protected:
                if other is not feature:
                    assert (found[:, spec.columns(other.name)] == X[:, spec.columns(other.name)]).all()


def test_a_regression_network_has_effects_on_its_output_only():
    spec = Spec([SEX], Label("pay"), claim={"kind": "score", "delta": 1.0, "on": "output"})
    (found,) = mean_effects([linear(3.0)], spec, np.array([[0.0], [1.0]], np.float32), NAMES)[0]
    assert (found.answer, found.values[0].decision) == (None, None)
    assert found.values[1].score.mean == pytest.approx(1.5)


def test_of_several_classes_the_widest_effect_is_shown():
    spec = Spec([SEX], Label("y", classes=("A", "B", "C")))
    net = Network([Affine(np.array([[0.0], [0.1], [4.0]], np.float32), np.zeros(3, np.float32))], [])
    (found,) = mean_effects([net], spec, np.array([[0.0], [1.0]], np.float32), ["A", "B", "C"])[0]
    assert found.answer == "C"
    assert found.values[1].decision.mean == pytest.approx(0.5)


def test_a_model_that_is_only_run_has_the_same_effects():
    spec, net = small_spec(), small_network()
    X = spec.encode(small_people())
    run = fairmend.load_model(lambda rows: scores_of(net.logits(rows), "probability")[:, 0], spec=spec)
    for ours, theirs in zip(
        mean_effects([net], spec, X, NAMES)[0], mean_effects([run], spec, X, NAMES)[0], strict=True
    ):
        assert [value.direction for value in ours.values] == [value.direction for value in theirs.values]
        for one, other in zip(ours.values, theirs.values, strict=True):
            assert one.score.mean == pytest.approx(other.score.mean, abs=1e-6)
            assert one.decision == other.decision


def test_the_effects_of_two_models_are_about_the_same_class():
    spec, X = Spec([SEX], Label("y", classes=("A", "B", "C"))), np.array([[0.0], [1.0]], np.float32)
    first, second = (
        Network([Affine(np.array([[weight], [0.1], [4.0]], np.float32), np.zeros(3, np.float32))], [])
        for weight in (0.0, 8.0)
    )
    (before,), (after,) = mean_effects([first, second], spec, X, ["A", "B", "C"])
    assert before.answer == after.answer == "C"
    assert before.values[1].score.mean > 0
    assert after.values[1].score.mean < 0


def test_an_effect_of_rounding_has_no_direction():
    (found,) = mean_effects([linear(1e-7)], Spec([SEX], Label("paid", "yes")), np.zeros((50, 1), np.float32), NAMES)[0]
    assert found.values[0].score.mean != 0
    assert {value.direction for value in found.values} == {"neither"}

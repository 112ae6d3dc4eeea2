"""The result of a repair says what is proven."""

import math
from types import SimpleNamespace

import numpy as np

from fairmend import Spec
from fairmend.auditing.neighbours import find_unequal
from fairmend.base.text import percent
from fairmend.network import Affine, Network
from fairmend.repairing.options import HeadOptions
from fairmend.repairing.result import lost_features
from fairmend.repairing.run import _more_unequal
from fairmend.repairing.task import prepare_task
from fairmend.spec import Claim, Feature, Label
from support.prof_cases import AGE, SPECS, case, check, repair


def test_one_class_of_labels_is_warned_about():
    network, spec, X, X_cal, _ = case(SPECS["ordinal"], seed=13)
    result = repair(network, spec, X, X_cal, np.ones(len(X_cal)), steps=1)
    assert any("every calibration row has the label 1" in warning for warning in result.warnings)


def test_equal_rows_are_warned_about():
    network, spec, X, _, _ = case(SPECS["ordinal"], seed=14)
    result = repair(network, spec, X, np.repeat(X[:1], 4, axis=0), [0, 1, 0, 1], steps=1)
    assert any("all 4 calibration rows are equal" in warning for warning in result.warnings)


def test_a_collapse_is_warned_about():
    """Only the protected feature decides: whatever is fair is constant."""
    spec = Spec([AGE])
    network = Network([Affine(np.ones((1, 1), np.float32), np.array([-0.5], np.float32))], [])
    X = np.linspace(0, 1, 6, dtype=np.float32)[:, None]
    result = repair(network, spec, X, X, network.predict(X))
    assert len(set(result.classes)) == 1
    assert any("collapsed to a constant" in warning for warning in result.warnings)
    assert any(
        "balanced accuracy on the calibration rows fell by 50.0 points" in warning for warning in result.warnings
    )


def test_a_regression_is_warned_about_in_its_own_terms():
    spec = Spec([AGE], Label("price"), Claim("score", 0.1, "output"))
    network = Network([Affine(np.ones((1, 1), np.float32), np.zeros(1, np.float32))], [])
    X = np.linspace(0, 1, 6, dtype=np.float32)[:, None]
    result = repair(network, spec, X, X, network.logits(X), method="blind")
    assert any("for every calibration row: it has collapsed to a constant" in warning for warning in result.warnings)
    assert any(
        "R² on the calibration rows fell by 1.000, from 1.000 to 0.000" in warning for warning in result.warnings
    )
    assert not any("accuracy" in warning or "class" in warning for warning in result.warnings)
    result = repair(network, spec, X, X, np.full(6, 2.5), method="prof")
    assert any("every calibration row has the value 2.5" in warning for warning in result.warnings)


def test_a_repair_that_ran_out_of_time_says_so_and_is_proven(monkeypatch):
    from fairmend.milp import LinearProgram, Status
    from fairmend.milp.highs import LpSolution

    monkeypatch.setattr(LinearProgram, "solve", lambda self, limit: LpSolution(Status.LIMIT, math.inf, None))
    network, spec, X, X_cal, y_cal = case(SPECS["several"], seed=15)
    result = repair(network, spec, X, X_cal, y_cal, steps=0, time_limit=0.01)
    check(network, result, spec, X)
    assert result.gap == 1
    assert any("stopped before it proved its optimum: the gap is unknown" in warning for warning in result.warnings)


def test_the_repr_says_what_was_proven():
    network, spec, X, X_cal, y_cal = case(SPECS["ordinal"], seed=9)
    result = repair(network, spec, X, X_cal, y_cal, steps=2)
    assert repr(result).startswith("RepairResult(prof: 10 neighbourhoods proven")
    assert "inference" in repr(result)
    assert len(repr(result)) < 250
    assert "array" not in repr(result)


def test_a_feature_that_is_no_longer_read_is_named_unless_it_is_protected():
    features = [
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
        Feature("seniority", "integer", range=(0, 40), tolerance=2),
        Feature("income", "continuous", range=(0, 1)),
    ]
    spec = Spec(features, Label("y", "yes"))

    def reading(*weights):
        return Network([Affine(np.array([weights], np.float32), np.zeros(1, np.float32))], [])

    (warning,) = lost_features(reading(1, 1, 1), reading(0, 0, 1), spec, ())
    assert warning.startswith("the repaired network no longer reads seniority, which the original reads")
    assert lost_features(reading(1, 1, 1), reading(0, 1, 1), spec, ("sex",)) == []
    assert lost_features(reading(1, 0, 1), reading(0, 0, 1), spec, ("sex", "seniority")) == []


def test_a_repair_that_ignores_a_tolerant_feature_says_so():
    X = np.random.default_rng(0).random((80, 3)).astype(np.float32)
    X[:, 0], X[:, 1] = X[:, 0] > 0.5, np.round(40 * X[:, 1])
    features = [
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
        Feature("seniority", "integer", range=(0, 40), tolerance=2),
        Feature("income", "continuous", range=(0, 1)),
    ]
    net = Network([Affine(np.array([[1, 0.1, 3]], np.float32), np.array([-3], np.float32))], [])
    result = repair(net, Spec(features), X[:10], X, net.predict(X), method="auto", guarantee="everyone")
    assert any("no longer reads seniority" in warning for warning in result.warnings)
    table = result.to_frame()
    assert table["fall"].notna().sum() == sum(one.proven for one in result.candidates)
    assert set(table["fall_of"].dropna()) <= {"accuracy", "balanced accuracy"}


def test_more_people_unequal_than_before_is_a_warning():
    worse, spec, X_repair, X, y = case(SPECS["ordinal"])
    constant = Network([Affine(np.zeros((1, spec.width), np.float32), np.ones(1, np.float32))], [])
    task = prepare_task(constant, spec, X_repair, X, y, HeadOptions(), 0)
    rate = find_unequal(worse, spec, X).rate
    assert rate > 0
    (warning,) = _more_unequal(task, SimpleNamespace(everyone=False, network=worse))
    assert f"{percent(rate)} of the calibration rows instead of 0 %".replace(" %", "\xa0%") in warning
    assert _more_unequal(task, SimpleNamespace(everyone=False, network=constant)) == []
    assert _more_unequal(task, SimpleNamespace(everyone=True, network=worse)) == []

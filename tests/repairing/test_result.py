"""The result of a repair says what is proven."""

import math

import numpy as np

from fairmend import Spec
from fairmend.network import Affine, Network
from fairmend.spec import Claim, Label
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
    assert result.gap > 0
    assert any("stopped before it proved its optimum" in warning for warning in result.warnings)


def test_the_repr_says_what_was_proven():
    network, spec, X, X_cal, y_cal = case(SPECS["ordinal"], seed=9)
    result = repair(network, spec, X, X_cal, y_cal, steps=2)
    assert repr(result).startswith("RepairResult(prof: 10 neighbourhoods proven")
    assert "inference" in repr(result)
    assert len(repr(result)) < 250
    assert "array" not in repr(result)

"""Repairs of claims about scores: proven, checked, and never exceeded by any member of a neighbourhood."""

from dataclasses import replace

import numpy as np
import pytest

import fairmend
from fairmend import FairmendError, Spec
from fairmend.network.model import compute_scores
from fairmend.spec import Claim, Label
from support.prof_cases import SPECS, case, repair


def score_spec(name, delta, on):
    label = Label("price") if on == "output" else None
    return Spec(SPECS[name].features, label, Claim("score", delta, on))


def spreads(network, spec, X):
    """The largest difference of scores in each neighbourhood, as inference computes them."""
    rows, points = next(spec.points(X, dtype=network.dtype))
    scores = compute_scores(network, points, spec.claim.on).reshape(len(points), -1).astype(np.float64)
    return np.array([np.ptp(scores[rows == row], axis=0).max() for row in range(len(X))])


def checked(result, folder, **options):
    model, certificate = folder / "model.onnx", folder / "certificate.json"
    result.network.save(model)
    result.certificate.save(certificate, model)
    return fairmend.check(certificate, model, **options)


@pytest.mark.parametrize("on", ["logit", "probability"])
@pytest.mark.parametrize("features", ["linear", "box", "points"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_scores_differ_by_no_more_than_delta_and_the_checker_agrees(on, features, outputs, tmp_path):
    network, _, X, X_cal, y_cal = case(SPECS["several"], seed=outputs, outputs=outputs)
    delta = float(spreads(network, score_spec("several", 0.5, on), X).max()) / 2
    spec = score_spec("several", delta, on)
    result = repair(network, spec, X, X_cal, y_cal, steps=5, features=features)
    assert result.proof.classes is None
    assert result.proof.covers_inference.all()
    assert result.classes is None
    assert (spreads(result.network, spec, X) <= delta).all()
    assert result.certificate.content["arithmetic"] == "float32"
    assert checked(result, tmp_path).valid
    assert f"differ by at most {delta}, whatever their age or race" in result.certificate.claim


@pytest.mark.parametrize("method", ["prof", "blind", "prof-concrete"])
def test_a_regression_keeps_its_numbers_where_it_can(method, tmp_path):
    spec = score_spec("tolerance", 0.1, "output")
    network, _, X, X_cal, _ = case(spec, seed=3)
    y = network.logits(X_cal)
    result = repair(network, spec, X, X_cal, y, method=method, steps=20)
    assert (spreads(result.network, spec, X) <= 0.1).all()
    assert checked(result, tmp_path).valid
    assert result.original_accuracy is None
    assert "neighbourhoods proven in float32 inference" in repr(result)


def test_blindness_proves_a_score_claim_for_everyone(tmp_path):
    spec = score_spec("one-hot", 0.01, "probability")
    network, _, X, X_cal, y_cal = case(spec, seed=4)
    result = repair(network, spec, X, X_cal, y_cal, method="blind", steps=2)
    assert result.everyone
    assert not spreads(result.network, spec, X).any()
    assert result.certificate.count == 0
    assert checked(result, tmp_path).valid


def test_room_is_left_for_the_errors_of_inference(tmp_path):
    spec = score_spec("tolerance", 0.1, "logit")
    network, _, X, X_cal, y_cal = case(spec, seed=5)
    covered = repair(network, spec, X, X_cal, y_cal, steps=0, features="points", margin=1e-9)
    real = repair(network, spec, X, X_cal, y_cal, steps=0, features="points", margin=1e-9, cover_inference=False)
    assert 0 <= real.proof.margin.min() < 1e-6
    assert (covered.proof.margin >= covered.proof.error).all()
    assert covered.objective >= real.objective - 1e-6
    assert checked(covered, tmp_path).valid
    assert real.certificate.real_only
    assert any("proven in real arithmetic only" in warning for warning in real.warnings)
    assert not checked(real, tmp_path).valid
    assert checked(real, tmp_path, real=True).valid


def test_step_2_repeats_with_less_where_the_proof_fails():
    spec = score_spec("tolerance", 0.1, "logit")
    network, _, X, X_cal, y_cal = case(spec, seed=6)
    deep = network.with_affines(
        [replace(affine, weight=affine.weight * np.float32(40)) for affine in network.affines[:-1]] + [network.head]
    )
    result = repair(deep, spec, X, X_cal, y_cal, steps=0)
    assert result.proof.covers_inference.all()
    assert (spreads(result.network, spec, X) <= 0.1).all()


def test_bounds_of_step_2_that_are_looser_than_the_proof_cost_nothing():
    spec = score_spec("tolerance", 0.1, "logit")
    network, _, X, X_cal, y_cal = case(spec, seed=5)
    result = repair(network, spec, X, X_cal, y_cal, steps=0)
    assert result.attempts > 1
    assert 0 <= result.proof.margin.min() < 0.005
    assert result.proof.covers_inference.all()
    assert result.margin >= 0


def test_options_that_make_no_sense_for_scores_are_refused():
    spec = score_spec("tolerance", 0.1, "logit")
    network, _, X, X_cal, y_cal = case(spec, seed=7)
    for options, message in (
        ({"margin": 0.1}, "give a smaller margin"),
        ({"search": "milp"}, "linear program"),
        ({"method": "care"}, "method care counts unequal predictions"),
    ):
        with pytest.raises(FairmendError, match=message):
            repair(network, spec, X, X_cal, y_cal, **options)
    spec = score_spec("tolerance", 0.1, "output")
    with pytest.raises(FairmendError, match="method grft needs classes"):
        repair(network, spec, X, X_cal, y_cal, method="grft")
    with pytest.raises(FairmendError, match="row 0: nan"):
        repair(network, spec, X, X_cal, y_cal * np.nan)


@pytest.mark.parametrize("on", ["logit", "output"])
def test_flip_fine_tunes_and_claims_only_what_is_proven(on):
    spec = score_spec("tolerance", 0.1, on)
    network, _, X, X_cal, y_cal = case(spec, seed=8)
    result = repair(network, spec, X, X_cal, y_cal, method="flip", steps=5)
    assert result.proven < result.regions
    assert (spreads(result.network, spec, X)[result.proof.holds] <= 0.1).all()

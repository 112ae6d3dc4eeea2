"""flip, grft and care make networks fairer, prove nothing by themselves, and claim nothing that is not proven."""

import json
from functools import cache

import numpy as np
import pytest
import torch

import fairmend
from fairmend import FairmendError, Feature, Spec
from fairmend.audit.unequal import find_unequal, sample_unequal
from fairmend.network import Affine, Network
from fairmend.repair.baselines.finetune import compute_logits, cross_entropy, fine_tune
from fairmend.repair.baselines.neighbours import draw_neighbours, find_different_pairs, flip_protected
from fairmend.repair.baselines.run import BASELINES
from support.blind_cases import SPEC, TOLERANT, case
from support.cli_case import Case
from support.strategies import random_network

ONE = Spec(
    features=[
        Feature(name="gender", kind="categorical", categories=("f", "m"), protected=True),
        Feature(name="income", kind="continuous", range=(-3, 3)),
        Feature(name="amount", kind="integer", range=(0, 20), scale={"min": 0, "max": 20}),
    ]
)
SPECS = {"one": ONE, "several and one-hot": SPEC, "tolerance": TOLERANT}


@cache
def trained(which, outputs):
    """A network that learnt from people who looked at protected features, and 200 of those decisions."""
    spec, rng = SPECS[which], np.random.default_rng(5)
    X = spec.sample_inputs(600, rng)
    first = spec.protected[0]
    bias = spec.decode(X)[first.name].rank(method="dense").to_numpy()
    score = X[:, spec.columns("income")].ravel() + 2 * (bias / bias.max() - 0.5)
    y = np.digitize(score, [0.0] if outputs == 1 else [-1.0, 1.0])
    start = random_network(rng, spec.width, (8, 6), outputs, "relu", np.float32)
    rows, labels = torch.tensor(X), torch.tensor(y)

    def losses(layers, step):
        return None, cross_entropy(compute_logits(layers, start, rows), labels)

    network, _ = fine_tune(start, losses, len(X), steps=400, learning_rate=0.01)
    return network, X[:40], X[40:240], y[40:240]


def arguments(which, outputs=1):
    network, X_repair, X_cal, y_cal = trained(which, outputs)
    return network, SPECS[which], X_repair, X_cal, y_cal


def unequal(network, spec, X):
    return (find_unequal if spec.finite else sample_unequal)(network, spec, X)


@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.parametrize("which", SPECS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_fewer_strangers_are_treated_unequally(method, which, outputs):
    given = arguments(which, outputs)
    network, spec = given[:2]
    copy = Network(network.affines, network.activations, network.closing, network.names)
    result = fairmend.repair(*given, method=method)
    fresh = spec.sample_inputs(500, np.random.default_rng(99))
    before, after = (unequal(net, spec, fresh).count for net in (network, result.network))
    assert after < before
    assert network == copy
    assert result.method == method


@pytest.mark.parametrize("method", BASELINES)
def test_the_same_seed_gives_the_same_network(method):
    first, second = (
        fairmend.repair(*arguments("several and one-hot"), method=method, seed=4, steps=12) for _ in range(2)
    )
    assert first.network == second.network
    assert first.history == second.history


@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.parametrize("which", SPECS)
@pytest.mark.parametrize("features", ["linear", "points"])
def test_only_what_is_proven_is_claimed_and_the_checker_agrees(method, which, features, tmp_path):
    spec = SPECS[which]
    if features == "points" and not spec.finite:
        pytest.skip("points need finite neighbourhoods")
    given = arguments(which)
    result = fairmend.repair(*given, method=method, steps=20, features=features)
    assert result.regions == len(given[2])
    assert result.proven == int(result.proof.holds.sum())
    assert result.classes.count(None) == result.regions - result.proven
    unfair = unequal(result.network, spec, given[2]).rows
    assert not (unfair & result.proof.covers_inference).any()
    if result.certificate is None:
        assert result.proven == 0
        return
    assert len(result.certificate.content["regions"]) == result.proven
    result.network.save(tmp_path / "model.onnx")
    result.certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    assert fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx").valid


def test_a_network_of_which_nothing_is_proven_has_no_certificate():
    """The answer is the gender, and no step is taken: everybody is treated unequally."""
    weight = np.array([[8.0, 0.01, 0.0], [0.0, 0.01, 0.0]], np.float32)
    first = Affine(weight, np.zeros(2, np.float32))
    head = Affine(np.array([[1.0, 0.0]], np.float32), np.array([-4.0], np.float32))
    network = Network([first, head], case(ONE)[0].activations[:1])
    _, spec, X_repair, X_cal, y_cal = arguments("one")
    result = fairmend.repair(network, spec, X_repair, X_cal, y_cal, method="flip", steps=0)
    assert (result.proven, result.certificate) == (0, None)
    assert f"0 of {len(X_repair)} neighbourhoods" in repr(result)
    assert any("gives no guarantee" in warning for warning in result.warnings)


def test_a_network_that_is_blind_already_stays_proven_under_care():
    network, *rest = arguments("one")
    first = network.affines[0]
    weight = first.weight.copy()
    weight[:, 0] = 0
    result = fairmend.repair(
        network.with_affines([Affine(weight, first.bias), *network.affines[1:]]), *rest, method="care"
    )
    assert result.blind
    assert result.proven == result.regions
    assert result.certificate.content["global"] == {"columns": [0]}


def test_grft_takes_pairs_that_are_given_and_closes_them():
    network, spec, X_repair, X_cal, y_cal = arguments("several and one-hot")
    rows, others, _ = find_different_pairs(network, spec, X_cal, np.random.default_rng(0), per_row=1)
    pairs = X_cal[rows], others
    result = fairmend.repair(network, spec, X_repair, X_cal, y_cal, method="grft", pairs=pairs)
    before, after = (np.abs(net.logits(pairs[0]) - net.logits(pairs[1])).mean() for net in (network, result.network))
    assert after < before / 2
    with pytest.raises(FairmendError, match="pairs: method flip does not use it; use method grft"):
        fairmend.repair(network, spec, X_repair, X_cal, y_cal, method="flip", pairs=pairs)
    with pytest.raises(FairmendError, match="two arrays of one shape"):
        fairmend.repair(network, spec, X_repair, X_cal, y_cal, method="grft", pairs=(others, others[:-1]))


@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.parametrize(
    "options", [{"steps": -1}, {"fairness_weight": -1.0}, {"learning_rate": 0.0}, {"batch_size": 0}]
)
def test_options_that_make_no_sense_are_refused_by_those_who_use_them(method, options):
    used = {"flip": "steps learning_rate batch_size", "care": "steps fairness_weight"}
    if next(iter(options)) not in used.get(method, next(iter(options))):
        pytest.skip("not an option of this method")
    with pytest.raises(FairmendError, match=next(iter(options))):
        fairmend.repair(*arguments("one"), method=method, **options)


@pytest.mark.parametrize("method", ["flip", "grft"])
def test_mini_batches_and_linear_models_are_trained_too(method):
    network, *rest = arguments("one")
    linear = Network([Affine(np.array([[2.0, 1.0, 0.0]], np.float32), np.zeros(1, np.float32))], [])
    assert fairmend.repair(linear, *rest, method=method).network != linear
    first, second = (fairmend.repair(network, *rest, method=method, batch_size=32, seed=seed) for seed in (0, 1))
    assert first.network != second.network


def test_care_needs_hidden_neurons():
    linear = Network([Affine(np.ones((1, 3), np.float32), np.zeros(1, np.float32))], [])
    with pytest.raises(FairmendError, match="hidden neurons"):
        fairmend.repair(linear, *arguments("one")[1:], method="care")


@pytest.mark.parametrize("which", SPECS)
def test_neighbours_lie_in_the_neighbourhood(which):
    spec = SPECS[which]
    X, rng = spec.sample_inputs(300, np.random.default_rng(0)), np.random.default_rng(1)
    lower, upper = spec.regions(X).hull()
    for points in (draw_neighbours(spec, X, rng), flip_protected(spec, X, rng)):
        assert (lower <= points).all()
        assert (points <= upper).all()
        assert (spec.as_inputs(points) == points).all()  # one-hot groups are one-hot


@pytest.mark.parametrize("which", SPECS)
def test_flipped_copies_differ_in_protected_features_and_in_nothing_else(which):
    spec = SPECS[which]
    X = spec.sample_inputs(300, np.random.default_rng(0))
    protected = np.zeros(spec.width, dtype=bool)
    for feature in spec.protected:
        protected[spec.columns(feature.name)] = True
    copies = flip_protected(spec, X, np.random.default_rng(1))
    assert (copies[:, ~protected] == X[:, ~protected]).all()
    assert (copies[:, protected] != X[:, protected]).any(axis=1).all()


@pytest.mark.parametrize("spec", [SPEC, TOLERANT])
def test_idi_pairs_are_idi_pairs_and_come_first(spec):
    network, X, *_ = case(spec, 1)
    rows, others, idi = find_different_pairs(network, spec, X, np.random.default_rng(0))
    assert ((network.predict(X)[rows] != network.predict(others)) == idi).all()
    assert set(rows[idi]).isdisjoint(rows[~idi])
    assert set(rows[idi]) <= set(np.flatnonzero(unequal(network, spec, X).rows)) or not spec.finite


def test_auto_does_not_try_them():
    result = fairmend.repair(*arguments("one"))
    assert not {candidate.recipe.name for candidate in result.candidates} & set(BASELINES)


def test_the_command_says_what_is_not_proven_and_exits_with_1(tmp_path):
    made = Case(tmp_path)
    result = made.repair("--method", "flip", "--steps", "1", "--json")
    assert result.exit_code == 1, result.stderr
    document = json.loads(result.stdout)
    assert document["after"]["unfair_repair_inputs"] > 0
    assert document["proven"] is False
    assert document["proven_repair_inputs"] < document["repair_inputs"]
    assert document["guarantee"].startswith("Not proven: flip gives no guarantee")
    claimed = made.out / "certificate.json"
    assert claimed.exists() == (document["certificate"] is not None) == ("certificate.json" in document["files"])
    if claimed.exists():
        assert fairmend.check(claimed, made.out / "model.onnx").valid
    words = made.repair("--method", "flip", "--steps", "1")
    assert words.exit_code == 1
    assert "Not proven:" in words.stdout


def test_where_nothing_is_proven_no_certificate_is_left_in_the_folder(tmp_path):
    made = Case(tmp_path)
    made.out.mkdir()
    (made.out / "certificate.json").write_text("of an earlier repair")
    first = Affine(np.array([[0, 8, 0, 0, 0], [0, 0, 8, 0, 0]], np.float32), np.zeros(2, np.float32))
    head = Affine(np.array([[1.0, -1.0]], np.float32), np.zeros(1, np.float32))
    Network([first, head], case(ONE)[0].activations[:1]).save(made.model)
    result = made.repair("--method", "flip", "--steps", "0")
    assert result.exit_code == 1, result.stderr
    assert "0 of 20 repair inputs happen to be proven" in " ".join(result.stdout.split())
    assert "certificate" not in result.stdout
    assert not (made.out / "certificate.json").exists()

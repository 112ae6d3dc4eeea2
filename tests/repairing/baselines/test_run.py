"""flip, grft and care make networks fairer, prove nothing by themselves, and claim nothing that is not proven."""

import json

import numpy as np
import pytest

import fairmend
from fairmend import FairmendError
from fairmend.network import Affine, Network
from fairmend.repairing.baselines.run import BASELINES
from fairmend.repairing.options import group_options
from support.baseline_cases import ONE, SPECS, arguments, unequal
from support.blind_cases import case
from support.cli_case import Case


@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.parametrize("which", SPECS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_fewer_strangers_are_treated_unequally(method, which, outputs):
    given = arguments(which, outputs)
    network, spec = given[:2]
    copy = Network(network.affines, network.activations, network.closing, network.names)
    result = fairmend.repair(*given, method=method, training=fairmend.TrainingOptions(steps=60))
    fresh = spec.sample_inputs(500, np.random.default_rng(99))
    before, after = (unequal(net, spec, fresh).count for net in (network, result.network))
    assert after < before
    assert network == copy
    assert result.method == method


@pytest.mark.parametrize("method", BASELINES)
def test_the_same_seed_gives_the_same_network(method):
    first, second = (
        fairmend.repair(
            *arguments("several and one-hot"), method=method, seed=4, training=fairmend.TrainingOptions(steps=12)
        )
        for _ in range(2)
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
    result = fairmend.repair(
        *given, method=method, training=fairmend.TrainingOptions(steps=20), head=fairmend.HeadOptions(features=features)
    )
    assert result.regions == len(given[2])
    assert result.proven == int(result.proof.holds.sum())
    assert result.classes.count(None) == result.regions - result.proven
    unfair = unequal(result.network, spec, given[2]).rows
    assert not (unfair & result.proof.covers_inference).any()
    if result.certificate is None:
        assert result.proven == 0
        return
    assert result.certificate.count == result.proven
    result.network.save(tmp_path / "model.onnx")
    result.certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    assert fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx").valid


def test_a_network_of_which_nothing_is_proven_has_no_certificate():
    """The prediction is the gender, and no step is taken: everyone is treated unequally."""
    weight = np.array([[8.0, 0.01, 0.0], [0.0, 0.01, 0.0]], np.float32)
    first = Affine(weight, np.zeros(2, np.float32))
    head = Affine(np.array([[1.0, 0.0]], np.float32), np.array([-4.0], np.float32))
    network = Network([first, head], case(ONE)[0].activations[:1])
    _, spec, X_repair, X_cal, y_cal = arguments("one")
    result = fairmend.repair(
        network, spec, X_repair, X_cal, y_cal, method="flip", training=fairmend.TrainingOptions(steps=0)
    )
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


@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.parametrize(
    "options", [{"steps": -1}, {"fairness_weight": -1.0}, {"learning_rate": 0.0}, {"batch_size": 0}]
)
def test_options_that_make_no_sense_or_are_not_used_are_refused(method, options):
    with pytest.raises(FairmendError, match=next(iter(options))):
        fairmend.repair(*arguments("one"), **group_options({"method": method, **options}))


def test_auto_does_not_try_them():
    result = fairmend.repair(*arguments("one"))
    assert not {candidate.recipe.name for candidate in result.candidates} & set(BASELINES)


def test_the_command_says_what_is_not_proven_and_exits_with_1(tmp_path):
    made = Case(tmp_path)
    result = made.repair("--method", "flip", "--steps", "1", "--json")
    assert result.exit_code == 1, result.stderr
    document = json.loads(result.stdout)
    assert document["after"]["repair_inputs"]["count"] > 0
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
    assert "0 of the 20 repair inputs are proven" in " ".join(result.stdout.split())
    assert "certificate" not in result.stdout
    assert not (made.out / "certificate.json").exists()

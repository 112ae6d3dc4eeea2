"""A method refuses the options that it does not use and the values that they do not accept."""

import inspect
import json
import math

import numpy as np
import pytest

import fairmend
from fairmend import FairmendError
from fairmend.bounds.linear import METHODS as BOUND_METHODS
from fairmend.repairing.options import (
    BOUNDS,
    KEEP,
    METHODS,
    HeadOptions,
    Policy,
    TrainingOptions,
    check_applicable,
    check_values,
    group_options,
    methods_with,
)
from fairmend.sklearn import FairRepairClassifier
from support.blind_cases import SPEC, TOLERANT, case
from support.cli_case import Case


def test_the_default_policy_prefers_the_strongest_guarantee_that_keeps_the_accuracy():
    assert Policy.from_options() == Policy() == Policy(KEEP, "any", "accuracy", keep_required=False)


def test_a_keep_that_was_given_is_required_even_if_it_is_the_default_or_zero():
    assert Policy.from_options(keep=KEEP).keep_required
    assert Policy.from_options(keep=0.0) == Policy(0.0, keep_required=True)
    assert not Policy.from_options(guarantee="everyone", prefer="decisions").keep_required


VALUES = {
    "features": "linear",
    "steps": 1,
    "learning_rate": 0.01,
    "fairness_weight": 0.5,
    "label_weight": 0.5,
    "reference": "best",
    "bounds": "interval",
    "device": "cpu",
    "batch_size": 8,
    "patience": 3,
    "margin": 1e-4,
    "delta_limit": 100.0,
    "solver": "highs",
    "search": "milp",
    "time_limit": 60.0,
    "gap": 0.1,
    "cover_inference": False,
    "pairs": (np.zeros((0, 3)), np.zeros((0, 3))),
    "keep": 0.05,
    "guarantee": "everyone",
    "keep_form": True,
    "candidate": 1,
    "keep_candidates": True,
    "prefer": "decisions",
    "X_unlabelled": np.zeros((4, 3), np.float32),
}
REFUSED = [(method, name) for method in METHODS for name in VALUES if name not in METHODS[method].options]


def repair(spec, **options):
    network, X_repair, X_cal, y_cal = case(spec, 1, rows=40)
    return fairmend.repair(network, spec, X_repair, X_cal, y_cal, **group_options(options))


def test_every_option_of_the_public_function_belongs_to_a_method():
    parameters = inspect.signature(fairmend.repair).parameters.values()
    plain = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    groups = {**inspect.signature(TrainingOptions).parameters, **inspect.signature(HeadOptions).parameters}
    assert {*plain, *groups} == {*VALUES, "training", "head", "progress"}
    assert {name for method in METHODS.values() for name in method.options} == set(VALUES)
    assert set(plain.values()) == {p.default for p in groups.values()} == {None}


def test_an_option_that_was_left_out_has_its_default_and_is_not_given():
    assert HeadOptions(margin=1e-6) == HeadOptions()
    assert HeadOptions().given == TrainingOptions().given == {}
    assert HeadOptions(margin=1e-6).given == {"margin": 1e-6}
    assert TrainingOptions(steps=0).given == {"steps": 0}


def test_options_by_name_are_grouped_and_bounds_have_the_names_of_the_prover():
    grouped = group_options({"method": "prof", "steps": 3, "margin": 0.1, "time_limit": 5.0})
    assert grouped == {
        "method": "prof",
        "time_limit": 5.0,
        "training": TrainingOptions(steps=3),
        "head": HeadOptions(margin=0.1),
    }
    assert BOUNDS == BOUND_METHODS


@pytest.mark.parametrize(("method", "name"), REFUSED)
def test_an_option_that_a_method_does_not_use_is_refused_with_the_methods_that_use_it(method, name):
    with pytest.raises(FairmendError) as error:
        repair(TOLERANT, method=method, **{name: VALUES[name]})
    assert str(error.value).startswith(f"{name}: method {method} ")
    for other in methods_with(name):
        assert other in str(error.value).partition("use method")[2]


@pytest.mark.parametrize("method", METHODS)
def test_an_option_that_a_method_uses_is_accepted(method):
    taken = {name: VALUES[name] for name in METHODS[method].options}
    check_applicable(method, taken, tolerances=True)
    check_values(**taken)


def test_the_message_names_option_method_and_alternatives():
    with pytest.raises(FairmendError) as error:
        repair(SPEC, steps=500)
    assert str(error.value) == (
        "steps: method auto chooses its own; use method prof, prof-concrete, blind, flip, grft or care"
    )


@pytest.mark.parametrize(
    "options", [{"steps": -5}, {"learning_rate": -1}, {"bounds": "nonsense"}, {"reference": "moon"}]
)
def test_auto_ignores_none_of_the_options_that_it_does_not_use(options):
    with pytest.raises(FairmendError, match=f"^{next(iter(options))}: method auto"):
        repair(SPEC, **options)


@pytest.mark.parametrize("name", ["margin", "time_limit", "fairness_weight", "bounds", "features"])
def test_blind_takes_the_options_of_the_proof_with_tolerances_only(name):
    with pytest.raises(FairmendError, match=f"^{name}: method blind uses it only where a feature .* has a tolerance"):
        repair(SPEC, method="blind", **{name: VALUES[name]})
    options = {"steps": 2, **({} if name == "features" else {"features": "linear"}), name: VALUES[name]}
    assert repair(TOLERANT, method="blind", **options).proof.holds.all()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("steps", [-1, 1.5, "5", True, math.nan]),
        ("batch_size", [0, -3, 2.0]),
        ("patience", [-1, 0.5]),
        ("learning_rate", [0, -1, math.inf, math.nan, "0.1"]),
        ("fairness_weight", [-0.1, math.inf, math.nan]),
        ("label_weight", [-0.1, 1.1, math.nan]),
        ("reference", ["moon", 3]),
        ("bounds", ["nonsense", None.__class__]),
        ("features", ["cones"]),
        ("margin", [0, -1e-6, math.inf, math.nan]),
        ("delta_limit", [0, -1, math.nan]),
        ("time_limit", [-1, math.nan, "5"]),
        ("gap", [-0.1, math.inf]),
        ("cover_inference", [1, "yes"]),
        ("keep", [-0.01, 1.5, math.nan, "all", True]),
        ("guarantee", ["nobody", 2]),
        ("prefer", ["profit", 0]),
    ],
)
def test_values_that_an_option_does_not_accept_are_refused(name, values):
    method = {"reference": "blind", "keep": "auto", "guarantee": "auto", "prefer": "auto"}.get(name, "prof")
    for value in values:
        with pytest.raises(FairmendError, match=f"^{name} is .*; give "):
            repair(TOLERANT, method=method, **{name: value})


@pytest.mark.parametrize(
    "options",
    [{"steps": np.int64(2)}, {"margin": np.float32(1e-3), "steps": 0}, {"learning_rate": 1, "steps": 1}],
    ids=str,
)
def test_numpy_numbers_and_whole_numbers_are_accepted(options):
    assert repair(TOLERANT, method="prof", **options).proof.holds.all()


def test_an_unknown_method_is_refused_before_its_options():
    with pytest.raises(FairmendError, match="unknown method 'magic'; use one of auto, prof"):
        repair(SPEC, method="magic", steps=-1)


@pytest.mark.parametrize(("options", "message"), [({"margin": 0.0}, "margin is 0.0"), ({"solver": "x"}, "solver 'x'")])
def test_head_options_check_themselves(options, message):
    with pytest.raises(FairmendError, match=message):
        HeadOptions(**options).check()


@pytest.mark.parametrize("option", ["--steps", "--learning-rate"])
def test_the_command_refuses_what_auto_does_not_use(tmp_path, option):
    files = Case(tmp_path)
    value = {"--steps": "500", "--learning-rate": "0.1"}[option]
    result = files.repair(option, value, method="auto")
    assert result.exit_code == 2
    assert f"{option[2:].replace('-', '_')}: method auto chooses its own" in " ".join(result.stderr.split())
    assert not files.out.exists()


def test_the_command_passes_only_what_was_typed(tmp_path):
    """Defaults that click shows are not options that the user gave."""
    files = Case(tmp_path)
    assert files.repair(method="flip", steps=1).exit_code in (0, 1)
    result = files.repair("--margin", "0.01", method="flip", steps=1)
    assert result.exit_code == 2
    assert "margin: method flip does not use it" in result.stderr


def test_a_default_in_fairmend_toml_is_refused_like_an_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = Case(tmp_path)
    (tmp_path / "fairmend.toml").write_text("[repair]\nmargin = 0.01\n")
    assert files.repair("--json", method="prof").exit_code == 0
    assert json.loads((files.out / "result.json").read_text())["margin"] >= 0.01
    result = files.repair(method="flip", steps=1)
    assert result.exit_code == 2
    assert "margin: method flip does not use it; use method auto, prof, prof-concrete or blind" in result.stderr


def test_repair_options_of_the_classifier_are_refused_too():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, (60, 2)).astype(float), np.arange(60) % 2
    model = FairRepairClassifier(protected=[0], repair_options={"training": TrainingOptions(steps=3)}, random_state=0)
    with pytest.raises(ValueError, match="steps: method auto chooses its own"):
        model.fit(X, y)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "prof", "steps": np.int64(1), "batch_size": np.int64(8)},
        {"method": "flip", "steps": np.int64(1), "batch_size": np.int32(8)},
        {"method": "prof", "steps": 1, "cover_inference": np.True_, "margin": np.float32(1e-4)},
    ],
)
def test_numbers_of_numpy_are_taken_like_those_of_python(options):
    plain = {
        name: value if isinstance(value, str) else value.item() for name, value in options.items() if name != "steps"
    }
    assert repair(TOLERANT, **options).network == repair(TOLERANT, **plain, steps=1).network


@pytest.mark.parametrize("method", [None, 3, ["auto"]])
def test_a_method_that_is_no_name_is_refused(method):
    with pytest.raises(FairmendError, match=r"unknown method .*; use one of auto, prof"):
        repair(SPEC, method=method)

"""FairRepairClassifier: scikit-learn's own checks, its tools around it, and that what it predicts is what is proven."""

import pickle
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fairlearn.metrics import MetricFrame, selection_rate
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.sklearn import FairRepairClassifier, RepairWarning
from fairmend.spec import Feature, Spec

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.{ConvergenceWarning.__name__}"),
    pytest.mark.filterwarnings(f"ignore::{RepairWarning.__module__}.{RepairWarning.__name__}"),
]

NETWORK = MLPClassifier((6,), max_iter=40, learning_rate_init=0.02)
TEN_STEPS = fairmend.TrainingOptions(steps=10)
QUICK = {
    "method": "blind",
    "repair_options": {"training": TEN_STEPS},
    "repair_rows": 20,
    "calibration_rows": 80,
}


@parametrize_with_checks(
    [
        FairRepairClassifier(
            MLPClassifier((4,), max_iter=30),
            protected=(0,),
            method="blind",
            repair_options={"training": fairmend.TrainingOptions(steps=5)},
            repair_rows=10,
            calibration_rows=50,
        )
    ],
    expected_failed_checks=lambda estimator: {},  # none; scores are left out by the tag poor_score
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def people(rows=240, seed=0):
    """Applicants whose approval depends on income, and unfairly on sex."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], rows),
            "race": rng.choice(["a", "b", "c"], rows),
            "age": rng.integers(18, 70, rows),
            "income": rng.lognormal(3, 0.5, rows),
        }
    )
    score = np.log(frame["income"]) - 3 + 0.5 * (frame["sex"] == "m") - 0.3 * (frame["race"] == "c")
    return frame, np.where(score + rng.normal(0, 0.1, rows) > 0, "yes", "no")


def pipeline():
    prepare = ColumnTransformer(
        [("numbers", StandardScaler(), ["age", "income"]), ("texts", OneHotEncoder(drop="if_binary"), ["sex", "race"])]
    )
    return Pipeline([("prepare", prepare), ("net", clone(NETWORK))])


def swapped(frame):
    """Return the frame once for every combination of sex and race."""
    return [frame.assign(sex=sex, race=race) for sex in ("f", "m") for race in ("a", "b", "c")]


def assert_fair(model, frame):
    answers = [model.predict(other) for other in swapped(frame)]
    scores = [model.predict_proba(other) for other in swapped(frame)]
    for answer, score in zip(answers, scores, strict=True):
        assert answer.tolist() == answers[0].tolist()
        np.testing.assert_array_equal(score, scores[0])


@pytest.mark.parametrize("estimator", [None, NETWORK, pipeline()], ids=["none", "network", "pipeline"])
def test_from_a_frame_to_a_proven_classifier(estimator, tmp_path):
    frame, y = people()
    model = FairRepairClassifier(estimator, protected=["sex", "race"], random_state=1, **QUICK).fit(frame, y)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.score(frame, y) > 0.6
    assert model.result_.blind
    assert_fair(model, frame)
    assert fairmend.audit(model.original_network_, model.spec_, frame).count > 0
    assert fairmend.audit(model.network_, model.spec_, frame).count == 0
    model.network_.save(tmp_path / "model.onnx")
    model.certificate_.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    assert fairmend.check(tmp_path / "certificate.json", tmp_path / "model.onnx").valid
    again = pickle.loads(pickle.dumps(model))
    assert again.predict(frame).tolist() == model.predict(frame).tolist()


def test_the_report_is_made_when_it_is_asked_for(tmp_path):
    frame, y = people()
    model = FairRepairClassifier(pipeline(), protected=["sex", "race"], random_state=0, **QUICK)
    with pytest.raises(NotFittedError):
        _ = model.report_
    model.fit(frame, y).report_.save(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "sex and race" in page
    assert "<h1" in page


def test_the_estimator_inside_is_the_repaired_one():
    frame, y = people()
    model = FairRepairClassifier(pipeline(), protected=["sex"], random_state=1, **QUICK).fit(frame, y)
    np.testing.assert_allclose(model.estimator_.predict_proba(frame), model.predict_proba(frame), atol=1e-12)
    assert model.estimator_.predict(frame).tolist() == model.predict(frame).tolist()
    assert model.estimator.steps[-1][1].random_state is None
    assert not hasattr(model.estimator.steps[-1][1], "coefs_")


def test_the_spec_of_the_pipeline_is_what_the_pipeline_does():
    frame, y = people()
    model = FairRepairClassifier(pipeline(), protected=["sex", "race"], random_state=1, **QUICK).fit(frame, y)
    np.testing.assert_array_equal(
        model.spec_.encode(frame, np.float64), model.estimator_[:-1].transform(frame).astype(np.float64)
    )
    wrong = Spec.from_data(frame, ["sex", "race"], scale="standard")
    with pytest.raises(ValueError, match="encode X differently"):
        FairRepairClassifier(pipeline(), spec=wrong, **QUICK).fit(frame, y)
    right = FairRepairClassifier(pipeline(), spec=model.spec_, random_state=1, **QUICK).fit(frame, y)
    assert right.network_ == model.network_


def test_auto_is_proven_for_everyone():
    frame, y = people(160)
    model = FairRepairClassifier(NETWORK, protected=["sex", "race"], random_state=0, calibration_rows=60).fit(frame, y)
    assert model.method == "auto"
    assert model.result_.blind
    assert_fair(model, frame)


def test_tolerances_are_those_of_the_spec():
    frame, y = people(160)
    base = Spec.from_data(frame, ["sex"], scale="standard")
    near = Spec([Feature(**{**vars(f), "tolerance": 1.0 if f.name == "age" else 0.0}) for f in base.features])
    few = {
        "method": "prof",
        "repair_options": {"training": TEN_STEPS},
        "repair_rows": 10,
        "calibration_rows": 60,
    }
    model = FairRepairClassifier(NETWORK, spec=near, random_state=0, **few).fit(frame, y)
    assert model.result_.proven == 10
    assert fairmend.audit(model.network_, model.spec_, model.repair_inputs_).count == 0


def test_arrays_by_place_and_encoded_arrays():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    y = (X @ [1, 1, 0, 0.5] > 0).astype(int)
    model = FairRepairClassifier(NETWORK, protected=0, random_state=0, **QUICK).fit(X, y)
    moved = X.copy()
    moved[:, 0] = 17.0
    np.testing.assert_array_equal(model.decision_function(moved), model.decision_function(X))
    assert model.predict(X * 100).shape == (150,)  # beyond the ranges: predicted, not proven
    spec = model.spec_
    encoded = spec.encode(pd.DataFrame(X, columns=["x0", "x1", "x2", "x3"]), np.float64)
    given = FairRepairClassifier(NETWORK, spec=spec, random_state=0, **QUICK).fit(encoded, y)
    assert given.predict(encoded).tolist() == model.predict(X).tolist()
    with pytest.raises(ValueError, match=r"(above|below) the range"):
        FairRepairClassifier(NETWORK, spec=spec, **QUICK).fit(encoded * 100, y)


@pytest.mark.parametrize("bare", [True, False])
def test_a_frozen_network_is_repaired_as_it_is(bare):
    frame, y = people()
    if bare:
        frame = frame.assign(sex=(frame["sex"] == "m").astype(int)).drop(columns="race")
        fitted = clone(NETWORK).set_params(random_state=0).fit(frame.to_numpy(float), y)
    else:
        fitted = pipeline().set_params(net__random_state=0).fit(frame, y)
    mlp = fitted if bare else fitted[-1]
    weights = [weight.copy() for weight in mlp.coefs_]
    model = FairRepairClassifier(FrozenEstimator(fitted), protected="sex", random_state=0, **QUICK).fit(frame, y)
    rows = frame.to_numpy(float) if bare else fitted[:-1].transform(frame)
    np.testing.assert_allclose(model.original_network_.probabilities(rows), mlp.predict_proba(rows)[:, 1], atol=1e-9)
    np.testing.assert_allclose(model.spec_.encode(frame, np.float64), rows, atol=1e-9)
    np.testing.assert_allclose(model.network_.probabilities(rows), model.predict_proba(frame)[:, 1], atol=1e-9)
    for before, after in zip(weights, mlp.coefs_, strict=True):
        np.testing.assert_array_equal(before, after)
    assert clone(model).fit(frame, y).network_ == model.network_
    with pytest.raises(ValueError, match="was trained on the classes"):
        clone(model).fit(frame, np.where(y == "yes", 1, 0))


def test_a_frozen_network_without_a_spec_cannot_read_text():
    frame, y = people()
    fitted = clone(NETWORK).fit(np.zeros((len(y), 5)), y)
    with pytest.raises(ValueError, match='unknown how the frozen network reads "sex"'):
        FairRepairClassifier(FrozenEstimator(fitted), protected="sex", **QUICK).fit(frame, y)
    with pytest.raises(NotFittedError):
        FairRepairClassifier(FrozenEstimator(clone(NETWORK)), protected="sex", **QUICK).fit(frame, y)


def test_it_works_in_the_tools_of_scikit_learn():
    frame, y = people()
    model = FairRepairClassifier(pipeline(), protected=["sex"], random_state=0, **QUICK)
    found = cross_validate(model, frame, y, cv=3, return_estimator=True, error_score="raise")
    assert all(fitted.result_.blind for fitted in found["estimator"])
    grid = GridSearchCV(
        model, {"estimator__net__hidden_layer_sizes": [(4,), (5,)], "method": ["blind"]}, cv=2, error_score="raise"
    ).fit(frame, y)
    assert grid.best_estimator_.network_.affines[0].weight.shape[0] in (4, 5)
    X = frame[["age", "income"]].to_numpy(float)
    outer = make_pipeline(MinMaxScaler(), FairRepairClassifier(NETWORK, protected=[0], random_state=0, **QUICK)).fit(
        X, y
    )
    assert outer.predict(X).shape == y.shape


def test_with_fairlearns_metric_frame():
    frame, y = people()
    fair = FairRepairClassifier(pipeline(), protected=["sex", "race"], random_state=0, **QUICK).fit(frame, y)
    unfair = clone(pipeline()).set_params(net__random_state=0).fit(frame, y)
    gaps = [
        MetricFrame(
            metrics=lambda t, p: selection_rate(t, p, pos_label="yes"),
            y_true=y,
            y_pred=model.predict(frame),
            sensitive_features=frame["sex"],
        ).difference()
        for model in (unfair, fair)
    ]
    assert gaps[1] < gaps[0]


def test_several_classes():
    frame, _ = people()
    y = np.digitize(np.log(frame["income"]), [2.7, 3.3]) * 10
    model = FairRepairClassifier(pipeline(), protected=["sex", "race"], random_state=0, **QUICK).fit(frame, y)
    assert model.classes_.tolist() == [0, 10, 20]
    assert model.predict_proba(frame).shape == (len(y), 3)
    assert model.decision_function(frame).shape == (len(y), 3)
    assert_fair(model, frame)


def test_bad_input_is_a_value_error_and_a_fairmend_error():
    frame, y = people(60)
    cases = [
        (FairRepairClassifier(), "Pass spec or protected"),
        (FairRepairClassifier(protected="sx"), 'did you mean "sex"'),
        (FairRepairClassifier(protected=[7]), "only the columns 0 to 3"),
        (FairRepairClassifier(LogisticRegression(), protected="sex"), "LogisticRegression is not a network"),
        (FairRepairClassifier(protected="sex", method="magic"), "unknown method"),
        (FairRepairClassifier(protected="sex", spec=Spec.from_data(frame, "sex")), "not both"),
        (FairRepairClassifier(make_pipeline(PCA(1), NETWORK), protected="age"), "PCA"),
    ]
    for model, reason in cases:
        X = frame[["age", "income"]] if reason == "PCA" else frame
        with pytest.raises(ValueError, match=re.escape(reason)) as caught:
            model.fit(X, y)
        assert isinstance(caught.value, FairmendError)
    model = FairRepairClassifier(NETWORK, protected="sex", **QUICK).fit(frame, y)
    with pytest.raises(ValueError, match='"x" is not one of its categories'):
        model.predict(frame.assign(race="x"))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"age": "years"}))


def test_the_policy_and_the_rows_that_are_left_over_reach_the_repair(monkeypatch):
    frame, y = people()
    seen = []

    def recorded(*arguments, **options):
        seen.append(options)
        raise FairmendError("no candidate meets the policy")

    monkeypatch.setattr("fairmend.sklearn._classifier.repair", recorded)
    rows = {"repair_rows": 20, "calibration_rows": 80, "random_state": 0}
    policy = {"keep": 0.01, "guarantee": "everyone", "prefer": "decisions"}
    model = FairRepairClassifier(NETWORK, protected="sex", **policy, **rows)
    assert {name: clone(model).get_params()[name] for name in policy} == policy
    with pytest.raises(ValueError, match="no candidate meets the policy"):
        model.fit(frame, y)
    unlabelled = seen[0].pop("X_unlabelled")
    assert seen == [{**policy, "keep_form": True}]
    assert len(unlabelled) == 140
    used = np.concatenate([model.repair_inputs_, model.calibration_inputs_, unlabelled])
    assert sorted(map(tuple, used)) == sorted(map(tuple, model._encode(frame, used.dtype)))
    with pytest.raises(ValueError, match="no candidate"):
        FairRepairClassifier(NETWORK, protected="sex", method="prof", **rows).fit(frame, y)
    assert seen[1] == {"keep_form": None}
    with pytest.raises(ValueError, match="keep is given twice"):
        FairRepairClassifier(NETWORK, protected="sex", keep=0.1, repair_options={"keep": 0.2}, **rows).fit(frame, y)


def test_an_encoded_array_of_another_width_is_refused():
    frame, y = people(60)
    spec = Spec.from_data(frame, "sex")
    with pytest.raises(ValueError, match="X has 2 columns, but the spec describes 6"):
        FairRepairClassifier(NETWORK, spec=spec, **QUICK).fit(frame[["age", "income"]].to_numpy(float), y)


def test_a_spec_that_replaces_missing_values_otherwise_than_the_pipeline_is_refused():
    """The data at hand has no missing value, so only the spec and the pipeline can tell."""
    frame, y = people(60)
    prepare = ColumnTransformer(
        [("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["income"]), ("texts", OneHotEncoder(), ["sex"])]
    )
    fitted = clone(prepare).fit(frame)
    right = Spec.from_sklearn(fitted, "sex", data=frame)
    assert right.features[0].missing is not None
    wrong = Spec([replace(feature, missing=None) for feature in right.features])
    with pytest.raises(ValueError, match="replace missing values differently"):
        FairRepairClassifier(make_pipeline(prepare, NETWORK), spec=wrong, **QUICK).fit(frame, y)


def test_without_scikit_learn_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "try:\n    import fairmend.sklearn\n"
        "except Exception as error:\n    print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("FairmendError fairmend.sklearn needs scikit-learn")
    assert "fairmend[sklearn]" in done.stdout


def test_warnings_of_the_repair_are_warnings():
    frame, y = people(60)
    options = {"training": fairmend.TrainingOptions(steps=0), "head": fairmend.HeadOptions(delta_limit=np.inf)}
    worthless = {"method": "prof", "repair_options": options, "repair_rows": 40}
    model = FairRepairClassifier(NETWORK, protected=["sex", "race", "age", "income"], random_state=0, **worthless)
    with pytest.warns(RepairWarning):
        model.fit(frame, y)


def test_a_spec_that_predicts_a_number_is_refused():
    claim = {"kind": "score", "delta": 1, "on": "output"}
    spec = Spec([Feature("a", "integer", range=(0, 1), protected=True)], None, claim)
    with pytest.raises(ValueError, match="repairs classifiers, but the spec predicts a number"):
        FairRepairClassifier(MLPClassifier(), spec=spec).fit(np.array([[0.0], [1.0]]), [0, 1])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pipeline", [False, True])
def test_the_calibration_rows_are_not_trained_on(pipeline, monkeypatch):
    X, y = people_of_two_kinds(300)
    seen = []
    fit = MLPClassifier.fit
    monkeypatch.setattr(MLPClassifier, "fit", lambda self, X, y: seen.append(len(y)) or fit(self, X, y))
    network = MLPClassifier((4,), max_iter=30, random_state=0)
    estimator = make_pipeline(ColumnTransformer([("x", StandardScaler(), ["income", "sex"])]), network)
    model = FairRepairClassifier(
        estimator if pipeline else network, protected=["sex"], method="blind", repair_rows=20, random_state=0
    )
    model.fit(X, y)
    assert seen == [240]
    assert model.calibration_held_out_
    assert len(model.calibration_inputs_) == 60
    trained = {tuple(row) for row in model.repair_inputs_.tolist()}
    assert not trained & {tuple(row) for row in model.calibration_inputs_.tolist()}


@pytest.mark.filterwarnings("ignore")
def test_few_rows_and_frozen_networks_are_calibrated_on_what_there_is():
    X, y = people_of_two_kinds(120)
    network = MLPClassifier((4,), max_iter=30, random_state=0)
    small = FairRepairClassifier(network, protected=["sex"], method="blind", repair_rows=20).fit(X, y)
    X, y = people_of_two_kinds(300)
    trained = FrozenEstimator(network.fit(X.to_numpy(), y))
    frozen = FairRepairClassifier(trained, protected=[1], method="blind", repair_rows=20).fit(X.to_numpy(), y)
    assert not small.calibration_held_out_
    assert not frozen.calibration_held_out_


def people_of_two_kinds(rows):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"income": rng.normal(size=rows), "sex": rng.integers(0, 2, rows)})
    return X, (X["income"] + 0.5 * X["sex"] + rng.normal(size=rows) > 0).to_numpy(int)

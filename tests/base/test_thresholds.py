"""Classifiers of scikit-learn with a threshold: loaded as networks, read into specs, and repaired."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fairmend
from fairmend import FairmendError, Label, Spec
from fairmend.base.thresholds import open_threshold_classifier
from fairmend.sklearn import FairRepairClassifier, RepairWarning
from fairmend.spec import Feature
from support.sklearn_models import LABELS, X, fitted

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.{ConvergenceWarning.__name__}"),
    pytest.mark.filterwarnings(f"ignore::{RepairWarning.__module__}.{RepairWarning.__name__}"),
]

STEPS = fairmend.TrainingOptions(steps=5)
QUICK = {
    "method": "blind",
    "repair_options": {"training": STEPS},
    "repair_rows": 10,
    "calibration_rows": 60,
}


def fixed(threshold=0.3, model=None, **options):
    return FixedThresholdClassifier(FrozenEstimator(model or fitted()), threshold=threshold, **options).fit(
        X, LABELS["binary"]
    )


def tuned():
    return TunedThresholdClassifierCV(fitted(), scoring="balanced_accuracy", cv="prefit", refit=False).fit(
        X, LABELS["binary"]
    )


def people(rows=120):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], rows), "income": rng.normal(50, 20, rows).round(1)})
    return frame, np.where(frame["income"] + 10 * (frame["sex"] == "m") + rng.normal(0, 5, rows) > 55, "yes", "no")


def pipeline():
    prepare = ColumnTransformer([("n", StandardScaler(), ["income"]), ("t", OneHotEncoder(), ["sex"])])
    return Pipeline([("prepare", prepare), ("net", MLPClassifier((4,), max_iter=30, random_state=0))])


@pytest.mark.parametrize("model", [fixed(), fixed("auto"), tuned()], ids=["fixed", "auto", "tuned"])
def test_a_network_decides_as_the_classifier_does(model):
    network = fairmend.load_network(model)
    decided = open_threshold_classifier(model)
    assert network.threshold == decided.threshold
    assert network.at_threshold(0.5) == fairmend.load_network(decided.estimator)
    clear = np.abs(model.predict_proba(X)[:, 1] - network.threshold) > 1e-9
    assert clear.sum() > 70
    assert (network.predict(X) == model.predict(X))[clear].all()


def test_other_objects_have_no_threshold():
    assert open_threshold_classifier(fitted()) is None
    assert open_threshold_classifier("FixedThresholdClassifier") is None


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (fixed(pos_label=0), "of the probability of 0, the first class"),
        (fixed(0.0), "gives everyone the same answer"),
        (TunedThresholdClassifierCV(fitted()), "is not fitted"),
        (
            FixedThresholdClassifier(
                LogisticRegression().fit(X, LABELS["binary"]), threshold=0.3, response_method="decision_function"
            ),
            "its threshold is of decision_function",
        ),
    ],
)
def test_a_decision_that_is_not_a_probability_of_the_second_class_is_refused(model, words):
    with pytest.raises(FairmendError, match=words):
        fairmend.load_network(model)


def test_a_network_with_a_threshold_needs_a_spec_with_it():
    spec = Spec(
        [Feature(f"x{i}", "continuous", range=(-5, 5), protected=i == 0) for i in range(4)],
        Label("good", "1", threshold=0.3),
    )
    found = fairmend.audit(fixed(), spec, X)
    assert found.count == fairmend.audit(fitted(), spec, X).count
    with pytest.raises(FairmendError, match=r"decides at the threshold 0.3, but the spec at 0.4"):
        fairmend.audit(fixed(), spec.at_threshold(0.4), X)


def test_a_spec_gets_the_threshold_of_the_pipeline():
    frame, y = people()
    label = Label("good", "yes")
    around = FixedThresholdClassifier(pipeline(), threshold=0.3).fit(frame, y)
    inner = pipeline().fit(frame, y)
    ends_in = Pipeline([*inner.steps[:-1], ("net", FixedThresholdClassifier(inner[-1], threshold=0.3))])
    plain = Spec.from_sklearn(inner, "sex", label, frame)
    for model in (around, ends_in):
        spec = Spec.from_sklearn(model, "sex", label, frame)
        assert spec == plain.at_threshold(0.3)
        with pytest.raises(FairmendError, match=r"FixedThresholdClassifier decides at the threshold 0.3.*label at 0.4"):
            Spec.from_sklearn(model, "sex", Label("good", "yes", 0.4), frame)
        with pytest.raises(FairmendError, match="which a spec says in its label"):
            Spec.from_sklearn(model, "sex", None, frame)
    nested = Pipeline([("first", StandardScaler()), ("net", around)])
    with pytest.raises(FairmendError, match="around another pipeline"):
        Spec.from_sklearn(nested, "sex", label, frame)


@pytest.mark.parametrize("kind", ["parameter", "estimator", "tuned", "frozen", "spec"])
def test_a_repaired_classifier_decides_at_its_threshold(kind):
    frame, y = people()
    options = {"protected": "sex", "random_state": 0, **QUICK}
    threshold = 0.3
    if kind == "parameter":
        model = FairRepairClassifier(pipeline(), threshold=0.3, **options)
    elif kind == "estimator":
        model = FairRepairClassifier(FixedThresholdClassifier(pipeline(), threshold=0.3), **options)
    elif kind == "tuned":
        model = FairRepairClassifier(TunedThresholdClassifierCV(pipeline(), cv=2), **options)
    elif kind == "frozen":
        trained = FixedThresholdClassifier(pipeline(), threshold=0.3).fit(frame, y)
        model = FairRepairClassifier(FrozenEstimator(trained), **options)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            spec = Spec.from_sklearn(pipeline().fit(frame, y), "sex", Label("good", "yes", 0.3), frame)
        del options["protected"]
        model = FairRepairClassifier(pipeline(), spec=spec, **options)
    model.fit(frame, y)
    threshold = model.estimator_.best_threshold_ if kind == "tuned" else 0.3
    assert model.spec_.threshold == model.network_.threshold == threshold
    probabilities = model.predict_proba(frame)[:, 1]
    clear = np.abs(probabilities - threshold) > 1e-9
    assert (model.predict(frame)[clear] == np.where(probabilities >= threshold, "yes", "no")[clear]).all()
    assert (model.estimator_.predict(frame)[clear] == model.predict(frame)[clear]).all()
    assert model.spec_.label.positive == "yes"


def test_thresholds_that_differ_are_refused_by_name():
    frame, y = people()
    model = FairRepairClassifier(FixedThresholdClassifier(pipeline(), threshold=0.3), threshold=0.4, protected="sex")
    with pytest.raises(ValueError, match=r"the parameter threshold says 0.4, but the FixedThresholdClassifier 0.3"):
        model.fit(frame, y)
    with pytest.raises(ValueError, match="must be a probability above 0 and below 1"):
        FairRepairClassifier(pipeline(), threshold=1.5, protected="sex").fit(frame, y)

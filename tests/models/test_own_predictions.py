"""What an estimator is said to predict is what its predict() gives, ties and thresholds of its own included."""

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.models.run_model import RunModel
from fairmend.prove.result import Verdict
from fairmend.spec import Feature, Label, Spec

FEATURES = [Feature("sex", "integer", range=(0, 1), protected=True), Feature("income", "integer", range=(0, 99))]
PEOPLE = np.array([[sex, income] for sex in range(2) for income in range(100)], dtype=np.float64)
TREES = GradientBoostingClassifier(n_estimators=5, random_state=0)


def data(labels):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 150), rng.integers(0, 100, 150)]).astype(np.float64)
    return X, np.array(labels)[(X[:, 1] / 100 + 0.2 * X[:, 0] + rng.normal(0, 0.3, 150) > 0.6).astype(int)]


def spec_at(threshold=0.5, positive="1"):
    return Spec(FEATURES, Label("good", positive, threshold=threshold))


def unequal(model):
    said = model.predict(PEOPLE)
    return (said[:100] != said[100:]).tolist()


def test_verdicts_are_about_what_predict_gives():
    models = [
        KNeighborsClassifier(4), BaggingClassifier(random_state=0), ExtraTreesClassifier(10, random_state=0),
        RandomForestClassifier(6, class_weight="balanced", random_state=0), DecisionTreeClassifier(max_depth=3),
        GaussianNB(), RidgeClassifier(), LinearSVC(), SVC(), SGDClassifier(random_state=0), TREES,
    ]  # fmt: skip
    ties = 0
    for labels in ([0, 1], ["z", "a"]):
        X, y = data(labels)
        for estimator in models:
            estimator.fit(X, y)
            model = fairmend.load_model(estimator, spec=spec_at(positive=str(labels[1])))
            assert isinstance(model, RunModel)
            assert ((model.predict(PEOPLE) == 1) == (estimator.predict(PEOPLE) == labels[1])).all(), estimator
            found = fairmend.certify(model, model.spec, PEOPLE[:100]).verdicts
            assert [each is Verdict.UNFAIR for each in found] == unequal(estimator), estimator
            if hasattr(estimator, "predict_proba"):
                ties += (estimator.predict_proba(PEOPLE)[:, 1] == 0.5).sum()
    assert ties > 50


def test_a_classifier_with_a_threshold_of_its_own_decides_there():
    X, y = data([0, 1])
    models = [
        FixedThresholdClassifier(TREES, threshold=0.3),
        make_pipeline(FixedThresholdClassifier(TREES, threshold=0.3)),
        GridSearchCV(FixedThresholdClassifier(TREES), {"threshold": [0.3]}),
        TunedThresholdClassifierCV(TREES),
    ]
    for estimator in models:
        estimator.fit(X, y)
        threshold = getattr(estimator, "best_threshold_", 0.3)
        with pytest.raises(FairmendError, match="decides at the threshold"):
            fairmend.load_model(estimator, spec=spec_at(0.4))
        found = fairmend.certify(estimator, spec_at(threshold), PEOPLE[:100]).verdicts
        assert [each is Verdict.UNFAIR for each in found] == unequal(estimator), estimator


def test_an_estimator_that_predicts_otherwise_than_by_its_probabilities_is_asked_about():
    class Strict(GaussianNB):
        def predict(self, rows):
            return (self.predict_proba(rows)[:, 1] > 0.7).astype(int)

    estimator = Strict().fit(*data([0, 1]))
    with pytest.raises(FairmendError, match=r'predicts another class .* outputs="probability"'):
        fairmend.load_model(estimator, spec=spec_at())
    assert fairmend.load_model(estimator, spec=spec_at(), outputs="probability").kind == "probability"


def test_a_label_of_an_onnx_file_that_is_another_class_is_asked_about(tmp_path):
    onnx = pytest.importorskip("onnx")
    to_onnx = pytest.importorskip("skl2onnx").to_onnx
    X, y = data([0, 1])
    forest = ExtraTreesClassifier(10, random_state=0).fit(X, y)
    made = to_onnx(forest, X[:1].astype(np.float32), options={id(forest): {"zipmap": False}})
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    model = fairmend.load_model(path, spec=spec_at())
    np.testing.assert_array_equal(model.predict(PEOPLE), forest.predict(PEOPLE))
    for node in made.graph.node:
        if node.output[0] == made.graph.output[0].name:
            node.output[0] = "own_label"
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.array(1), "one"))
    made.graph.node.append(onnx.helper.make_node("Sub", ["one", "own_label"], [made.graph.output[0].name]))
    path.write_bytes(made.SerializeToString())
    with pytest.raises(FairmendError, match="predicts another class"):
        fairmend.load_model(path, spec=spec_at())


CLASSES = [("no", "yes"), (0, 1), (False, True), (2, 10)]


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("threshold", [0.2, 0.8])
def test_a_threshold_is_about_the_positive_class_wherever_the_model_has_it(classes, threshold, tmp_path):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 300), rng.normal(0, 1, 300).round(2)])
    y = np.where(X.sum(axis=1) + rng.normal(0, 0.7, 300) > 0.7, classes[1], classes[0])
    other = X.copy()
    other[:, 0] = 1 - X[:, 0]
    features = [Feature("sex", "integer", range=(0, 1), protected=True), Feature("x", "continuous", range=(-5, 5))]
    forest = RandomForestClassifier(9, max_depth=4, random_state=0).fit(X, y)
    to_onnx = pytest.importorskip("skl2onnx").to_onnx
    made = to_onnx(forest, X[:1].astype(np.float32), options={id(forest): {"zipmap": False}})
    (tmp_path / "forest.onnx").write_bytes(made.SerializeToString())
    for number, positive in enumerate(classes):
        spec = Spec(features, Label("y", str(positive), threshold=threshold))
        sides = [forest.predict_proba(rows)[:, number] >= threshold for rows in (X, other)]
        for model in (forest, tmp_path / "forest.onnx"):
            assert fairmend.audit(model, spec, X).count == (sides[0] != sides[1]).sum() > 0
    regression = LogisticRegression().fit(X, y)
    assert fairmend.audit(regression, spec, X).count > 0
    with pytest.raises(FairmendError, match="in this order, and the spec has another: set positive"):
        fairmend.audit(regression, Spec(features, Label("y", str(classes[0]), threshold=threshold)), X)


def test_a_support_vector_machine_of_three_classes_is_taken_at_its_word_where_votes_are_tied():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 400), rng.normal(0, 1, (400, 2)).round(1)])
    y = np.array(["a", "b", "c"])[np.digitize(X.sum(axis=1) + rng.normal(0, 1, 400), [-0.3, 0.8])]
    model = SVC(C=0.1).fit(X, y)
    scores = model.decision_function(X)
    assert (model.classes_[scores.argmax(axis=1)] != model.predict(X)).any()
    sex = Feature("sex", "integer", range=(0, 1), protected=True)
    others = [Feature(name, "continuous", range=(-5, 5)) for name in ("x", "z")]
    spec = Spec([sex, *others], Label("y", classes=("a", "b", "c")))
    other = np.column_stack([1 - X[:, 0], X[:, 1:]])
    assert fairmend.audit(model, spec, X).count == (model.predict(X) != model.predict(other)).sum() > 0


def test_a_file_with_the_classes_in_another_order_is_refused(tmp_path):
    X, y = data(("bad", "good"))
    network = MLPClassifier((3,), max_iter=2000, random_state=0).fit(X, y)
    made = pytest.importorskip("skl2onnx").to_onnx(network, X[:1].astype(np.float32), options={"zipmap": False})
    (tmp_path / "network.onnx").write_bytes(made.SerializeToString())
    assert fairmend.audit(tmp_path / "network.onnx", spec_at(0.7, "good"), X).exact
    for source in (network, tmp_path / "network.onnx"):
        with pytest.raises(FairmendError, match=r'has the classes bad and good.*set positive = "good"'):
            fairmend.audit(source, spec_at(0.7, "bad"), X)

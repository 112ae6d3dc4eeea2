"""Models that are only run: what loads them, which features their inputs read, and that scores are their own."""

import pickle
import sys

import numpy as np
import onnx
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC
from torch import nn

import fairmend
from fairmend import FairmendError, Feature, Network, Spec, load_model
from fairmend.models import InputSignature, Port, RunModel, ports_of
from fairmend.spec import Label
from support import people_models
from support.keras_files import import_keras, quiet

FRAME = people_models.people()
SPEC = people_models.people_spec()
X = SPEC.encode(FRAME, np.float64)
POSITIVE = (FRAME.good == "yes").to_numpy()


@pytest.fixture(scope="module")
def pipeline():
    return people_models.tree_pipeline(FRAME)


def test_what_can_be_read_is_a_network(tmp_path):
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
    network = load_model(module)
    assert isinstance(network, Network)
    network.save(tmp_path / "net.onnx")
    assert load_model(tmp_path / "net.onnx") == network == load_model(network)


def test_an_estimator_reads_the_matrix_it_was_fitted_on():
    forest = RandomForestClassifier(10, random_state=0).fit(X, FRAME.good)
    model = load_model(forest)
    assert isinstance(model, RunModel)
    assert "RandomForestClassifier" in model.why_only_run
    assert model.runtime.startswith("scikit-learn ")
    bound = model.bind(SPEC)
    p = forest.predict_proba(X)[:, 1]
    np.testing.assert_allclose(bound.probabilities(X), p, atol=1e-15)
    np.testing.assert_array_equal(bound.predict(X), forest.predict(X) == "yes")
    assert (p == 0.5).sum() > 5  # where predict() gives the first class


def test_a_pipeline_gets_the_users_own_values(pipeline, tmp_path):
    p = pipeline.predict_proba(FRAME[["age", "sex", "job", "hours"]])[:, 1]
    np.testing.assert_allclose(load_model(pipeline, spec=SPEC).probabilities(X), p, atol=1e-15)
    file = load_model(people_models.save_tree_pipeline(pipeline, tmp_path / "trees.onnx"), spec=SPEC)
    assert file.runtime.startswith("ONNX Runtime ")
    assert [(port.name, port.type, port.rank) for port in file.ports] == [
        ("age", "int64", 2),
        ("sex", "string", 2),
        ("job", "string", 2),
        ("hours", "int64", 2),
    ]
    np.testing.assert_allclose(file.probabilities(X), p, atol=1e-6)


def test_the_positive_class_of_the_spec_counts_whatever_the_model_calls_first(pipeline, tmp_path):
    other = Spec.from_dict({**SPEC.to_dict(), "label": {"column": "good", "positive": "no"}})
    p = pipeline.predict_proba(FRAME[["age", "sex", "job", "hours"]])[:, 0]
    np.testing.assert_allclose(load_model(pipeline, spec=other).probabilities(X), p, atol=1e-15)
    file = people_models.save_tree_pipeline(pipeline, tmp_path / "trees.onnx")
    np.testing.assert_allclose(load_model(file, spec=other).probabilities(X), p, atol=1e-6)
    svm = LinearSVC(random_state=0).fit(X, FRAME.good)
    np.testing.assert_array_equal(load_model(svm, spec=other).logits(X), -svm.decision_function(X))


def test_a_module_reads_tensors_by_the_names_of_its_arguments():
    module = people_models.attention()
    model = load_model(module, spec=people_models.attention_spec())
    assert model.ports == (
        Port("x_num", "float32", 2, ("age", "hours")),
        Port("x_cat", "int64", 2, ("sex", "job")),
    )
    found = model.logits(X)
    assert module.training  # it is left as it was
    assert module.drop.training
    module.eval()
    with torch.no_grad():
        expected = module(torch.tensor(X[:, [0, 3]], dtype=torch.float32), torch.tensor(X[:, [1, 2]]).long())[:, 0]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert "median" in model.why_only_run


def test_a_module_with_several_arguments_needs_the_inputs_of_features():
    with pytest.raises(FairmendError, match=r"forward takes 2 arguments \(x_num, x_cat\).*input"):
        load_model(people_models.attention(), spec=SPEC)


def test_a_closing_sigmoid_gives_probabilities_and_none_gives_logits(tmp_path):
    closed = load_model(people_models.save_one_node(tmp_path / "p.onnx"), spec=SPEC)
    raw = load_model(people_models.save_one_node(tmp_path / "f.onnx", "Identity"), spec=SPEC)
    assert (closed.kind, closed.closing, raw.kind, raw.closing) == ("probability", "sigmoid", "logit", "none")
    np.testing.assert_allclose(closed.logits(X), raw.logits(X), atol=1e-5)
    again = pickle.loads(pickle.dumps(raw))
    np.testing.assert_array_equal(again.logits(X), raw.logits(X))


def test_equal_rows_are_run_once():
    seen = []

    def score(rows):
        seen.append(len(rows))
        return rows[:, 0] / 100

    model = load_model(score, spec=SPEC)
    seen.clear()
    found = model.logits(np.repeat(X[:5], 100, axis=0))
    assert seen == [9]  # with the four that run with every batch
    np.testing.assert_array_equal(found, np.repeat(model.logits(X[:5]), 100))


def test_a_function_takes_rows_or_people():
    def rows(x):
        return 1 / (1 + np.exp(1 - x[:, 0] / 50 - x[:, 1]))

    def persons(frame):
        return 1 / (1 + np.exp(1 - frame.age / 50 - (frame.sex == "male")))

    first, second = load_model(rows, spec=SPEC), load_model(persons, takes="people", spec=SPEC)
    np.testing.assert_array_equal(first.logits(X), second.logits(X))
    with pytest.raises(FairmendError, match="takes="):
        load_model(rows, takes="frames")


@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.5, 0.7, 0.9, 1 / 3])
def test_the_decision_is_that_of_probabilities_ties_included(threshold):
    steps = np.nextafter(threshold, [0.0, 1.0])
    values = np.array([0.0, steps[0], threshold, steps[1], 1.0, 0.25, 0.75])

    def score(x):
        return values[x[:, 0].astype(int) % len(values)]

    model = load_model(score, spec=SPEC.at_threshold(threshold))
    rows = np.repeat(X[:1], len(values), axis=0)
    rows[:, 0] = 21 + np.arange(len(values))
    np.testing.assert_array_equal(model.predict(rows), values >= threshold)
    assert np.isfinite(model.logits(rows)).all()


def test_of_several_classes_the_most_probable_one_is_predicted():
    third = np.array([[1 / 3, np.nextafter(1 / 3, 1), 1 / 3 - 1e-16], [0, 0, 1], [0.5, 0.5, 0]])
    model = load_model(lambda x: third[x[:, 0].astype(int) % 3], spec=SPEC)
    rows = np.repeat(X[:1], 3, axis=0)
    rows[:, 0] = 21 + np.arange(3)
    assert model.outputs == 3
    np.testing.assert_array_equal(model.predict(rows), [1, 2, 0])


def test_of_two_logits_the_second_minus_the_first_decides_ties_included():
    pairs = torch.tensor([[0.0, 0.0], [1.0, 0.5], [-2.0, 3.0]])

    class Pairs(nn.Module):
        def forward(self, x):
            return pairs[x[:, 0].long() % 3]

    model = load_model(Pairs(), spec=SPEC)
    rows = np.repeat(X[:1], 3, axis=0)
    rows[:, 0] = 21 + np.arange(3)
    np.testing.assert_array_equal(model.logits(rows), [0.0, -0.5, 5.0])
    np.testing.assert_array_equal(model.predict(rows), [1, 0, 1])


@pytest.mark.parametrize("columns", [1, 2])
def test_probabilities_of_a_module_are_known_or_asked_for(columns):
    class Squashed(nn.Module):
        def __init__(self, mean):
            super().__init__()
            self.mean, self.layer = mean, nn.Linear(4, columns)

        def forward(self, x):
            score = self.layer(torch.sinh(x / 50))  # which is not read
            p = torch.sigmoid(score) if columns == 1 else score.softmax(dim=1)
            return (0.5 * p + 0.5 * p**1.0 if self.mean else p).reshape(len(x), -1)

    torch.manual_seed(0)
    assert load_model(Squashed(mean=False), spec=SPEC).kind == "probability"
    if columns == 2:
        assert load_model(Squashed(mean=True), spec=SPEC).kind == "probability"  # they add up to 1
        return
    with pytest.raises(FairmendError, match=r'scores from 0\.\d+ to 0\.\d+ .*outputs="probability"'):
        load_model(Squashed(mean=True), spec=SPEC)
    assert load_model(Squashed(mean=True), outputs="probability", spec=SPEC).kind == "probability"


def test_the_scores_among_several_tensors_are_those_of_rows():
    class Several(nn.Module):
        def __init__(self, more):
            super().__init__()
            self.more, self.layer = more, nn.Linear(4, 1)

        def forward(self, x):
            score = self.layer(x)
            return (score[:, 0] > 0).long(), score, *([score] if self.more else [score.mean()])

    torch.manual_seed(0)
    model = load_model(Several(more=False), spec=SPEC)
    assert len(np.unique(model.logits(X))) > 100
    with pytest.raises(FairmendError, match="2 tensors that may hold scores"):
        load_model(Several(more=True), spec=SPEC)


def test_a_classifier_without_scores_gives_its_decisions():
    ridge = RidgeClassifier().fit(X, FRAME.good)

    class Decides:
        classes_ = ridge.classes_

        def predict(self, rows):
            return ridge.predict(rows)

    model = load_model(Decides(), spec=SPEC)
    np.testing.assert_array_equal(model.predict(X), ridge.predict(X) == "yes")


def test_a_regressor_needs_a_claim_about_its_output():
    forest = RandomForestRegressor(5, random_state=0).fit(X, POSITIVE.astype(float))
    with pytest.raises(FairmendError, match=r'predicts a number.*on = "output"'):
        load_model(forest, spec=SPEC)
    assert load_model(forest, outputs="probability", spec=SPEC).predict(X).mean() > 0


@pytest.mark.parametrize(
    ("score", "said"),
    [
        (lambda x: x[:, 0] > 40, "whole numbers such as classes, not scores"),
        (lambda x: np.array(["yes"] * len(x)), 'classes such as "yes", not scores'),
        (lambda x: np.where(x[:, 0] > 40, np.nan, 0.5), "not finite, for {'age'"),
        (lambda x: np.random.default_rng().random(len(x)), "not deterministic"),
        (lambda x: np.ones(3), r"ndarray of shape \(3,\) for 128 rows"),
        (lambda x: None, "NoneType of shape"),
        (lambda x: 1 / 0, "fails on 128 rows: ZeroDivisionError"),
        (lambda x: x[:, 0], 'no probability.*outputs="logit"'),
        (lambda x: (x[:, 0] - x[:, 0].mean()) / 1000 + 0.5, "who else is in the batch"),
        (lambda x: x.__imul__(0)[:, 0] + 0.5, "changes the rows that it is given"),
    ],
)
def test_a_function_that_is_no_model_is_refused_in_a_line(score, said):
    with pytest.raises(FairmendError, match=said) as caught:
        load_model(score, spec=SPEC)
    assert "\n" not in str(caught.value)


def test_a_model_without_its_spec_says_what_to_do():
    with pytest.raises(FairmendError, match=r"model\.bind\(spec\)"):
        load_model(lambda x: x[:, 0]).logits(X)


def test_a_file_without_onnx_runtime_names_the_extra(tmp_path, monkeypatch):
    path = people_models.save_one_node(tmp_path / "p.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(FairmendError, match=r"fairmend\[onnxruntime\]"):
        load_model(path)


@quiet
def test_a_file_of_keras_that_is_not_read_says_how_to_run_it(tmp_path):
    keras = import_keras()
    layers = keras.layers
    model = keras.Sequential([keras.Input((4,)), layers.Reshape((4, 1)), layers.GRU(2), layers.Dense(1)])
    model.save(tmp_path / "recurrent.keras")
    with pytest.raises(FairmendError, match=r"GRU.*open it with Keras and give the model.*export it to ONNX"):
        load_model(tmp_path / "recurrent.keras")


@quiet
def test_a_model_of_keras_that_is_not_read_is_run():
    keras = import_keras()
    layers = keras.layers
    keras.utils.set_random_seed(0)
    recurrent = [layers.Normalization(mean=X.mean(axis=0), variance=X.var(axis=0)), layers.Reshape((4, 1))]
    head = keras.Sequential([layers.Dense(4), layers.Dense(1, activation="sigmoid")])
    model = keras.Sequential([keras.Input((4,)), *recurrent, layers.GRU(8, unroll=True), head])
    loaded = load_model(model, spec=SPEC)
    assert isinstance(loaded, RunModel)
    assert (loaded.kind, "GRU" in loaded.why_only_run, loaded.dtype) == ("probability", True, np.float32)
    assert loaded.runtime == f"Keras {keras.__version__} with {keras.backend.backend()}"
    own = model.predict(X.astype(np.float32), verbose=0)[:, 0]
    np.testing.assert_allclose(loaded.probabilities_of(loaded.logits(X)), own, rtol=1e-5)
    sexes = [np.where(np.arange(4) == 1, sex, X).astype(np.float32) for sex in (0, 1)]
    accepted = [model.predict(rows, verbose=0)[:, 0] >= 0.5 for rows in sexes]
    assert fairmend.audit(loaded, SPEC, FRAME).count == (accepted[0] != accepted[1]).sum()
    below = keras.initializers.Constant(-3)
    other = keras.Sequential([keras.Input((4,)), layers.UnitNormalization(), layers.Dense(1, bias_initializer=below)])
    assert load_model(other, spec=SPEC).kind == "logit"
    with pytest.raises(FairmendError, match="leave out resume"):
        loaded.digest()


@quiet
def test_a_model_of_keras_that_cannot_be_run_is_refused_in_a_line():
    keras = import_keras()
    layers = keras.layers

    class Own(keras.Model):
        def call(self, x):
            return x

    x, image = keras.Input((4,)), keras.Input((4, 4, 1))
    half = keras.Input((4,), dtype="float16")
    cases = {
        r"declares no inputs; begin it with keras\.Input.*give a function": Own(),
        "has 2 outputs; make a model of the one that decides": keras.Model(x, [layers.Dense(1)(x), layers.Dense(1)(x)]),
        r"has the shape \(None, 4, 4, 1\)": keras.Model(image, layers.Flatten()(layers.Conv2D(1, 2)(image))),
        "is no model of Keras 3.*give a function": layers.GRU(2),
        "is float16; fairmend fills inputs of": keras.Model(half, layers.UnitNormalization()(half)),
    }
    for said, model in cases.items():
        with pytest.raises(FairmendError, match=said) as caught:
            load_model(model, spec=SPEC)
        assert "\n" not in str(caught.value)


def test_what_is_no_model_keeps_the_reason_of_load_network(tmp_path):
    for name in ("none.onnx", "model.pkl"):
        with pytest.raises(FairmendError, match=name):
            load_model(tmp_path / name)
    (tmp_path / "broken.onnx").write_bytes(b"nothing")
    with pytest.raises(FairmendError, match=r"broken\.onnx"):
        load_model(tmp_path / "broken.onnx")


@pytest.mark.parametrize(
    ("signature", "changed", "said"),
    [
        ([InputSignature("x", "float16")], {}, "float16"),
        ([InputSignature("x", "float32", width=5)], {}, "5 columns"),
        ([InputSignature("x", "string")], {}, '"age" holds numbers'),
        ([InputSignature("x", "int64")], {"age": {"scale": {"min": 0, "max": 10}}}, '"age" has a scale'),
        ([InputSignature("a", "float32"), InputSignature("b", "float32")], {}, "2 inputs"),
        ([InputSignature("x", "float32")], {"age": {"input": "y"}}, 'input = "y"'),
        ([InputSignature("x", "bool")], {}, "values from 18"),
    ],
)
def test_inputs_that_the_spec_does_not_fill_are_refused(signature, changed, said):
    with pytest.raises(FairmendError, match=said):
        ports_of(signature, people_models.people_spec(**changed))


def test_features_belong_to_inputs_of_their_names_or_in_order():
    named = [InputSignature(name, "float32", 1) for name in ("hours", "job", "sex", "age")]
    assert [port.features for port in ports_of(named, SPEC)] == [("hours",), ("job",), ("sex",), ("age",)]
    ordered = [InputSignature("a", "float32", width=1), InputSignature("b", "float32", width=3)]
    assert [port.features for port in ports_of(ordered, SPEC)] == [("age",), ("sex", "job", "hours")]


@pytest.mark.parametrize("scaled", [True, False])
def test_a_pipeline_with_a_network_inside_is_what_the_spec_describes(scaled):
    """Read without its scaler, the network would give other scores for raw values."""
    frame = FRAME[["age", "hours"]].astype(float)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, FRAME.good)
    scaler = pipeline.steps[0][1]
    scales = [{"mean": m, "std": s} if scaled else None for m, s in zip(scaler.mean_, scaler.scale_, strict=True)]
    ranges = {"age": (18.0, 70.0), "hours": (1.0, 60.0)}
    spec = Spec(
        [
            Feature(name, "continuous", range=ends, scale=scale, protected=name == "age")
            for (name, ends), scale in zip(ranges.items(), scales, strict=True)
        ],
        label={"column": "good", "positive": "yes"},
    )
    model = load_model(pipeline, spec=spec)
    assert isinstance(model, Network if scaled else RunModel)
    given = pipeline.predict_proba(frame)[:, 1]
    np.testing.assert_allclose(model.probabilities(spec.encode(frame, np.float64)), given, atol=1e-6)


def test_linear_models_stay_networks():
    assert isinstance(load_model(LogisticRegression().fit(X, POSITIVE)), Network)


def test_probabilities_that_float32_rounds_below_0_are_probabilities():
    old = np.median(X[:, 0])

    def forest(rows):
        p = (rows[:, 0] > old) - 1e-7
        return np.stack([1 - p, p], axis=1)

    model = load_model(forest, spec=SPEC)
    assert np.isfinite(model.logits(X)).all()
    np.testing.assert_array_equal(model.predict(X), X[:, 0] > old)


class Bump(BaseEstimator, TransformerMixin):
    """Lets all pass as they are but men with 77,777: no sample of people shows it."""

    def fit(self, rows, y=None):
        self.n_features_in_, self.feature_names_in_ = 2, np.array(["sex", "income"], dtype=object)
        return self

    def transform(self, rows):
        rows = np.array(rows, dtype=np.float64)
        rows[(rows[:, 0] == 1) & (rows[:, 1] == 77777), 1] = -1e6
        return rows


def test_a_pipeline_is_its_network_only_where_every_step_is_known():
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"sex": rng.integers(0, 2, 300), "income": rng.integers(0, 100_000, 300)})
    given = people.iloc[:2].assign(sex=[0, 1], income=77_777)
    for step, known in ((FunctionTransformer(), True), (Bump(), False)):
        model = make_pipeline(step, StandardScaler(), LogisticRegression()).fit(people, people.income > 50_000)
        model[-1].coef_[0, 0] = 0  # sex
        (sex, income) = (
            {"mean": float(mean), "std": float(std)} for mean, std in zip(model[1].mean_, model[1].scale_, strict=True)
        )
        assert isinstance(load_model(model, spec=_two(sex, income)), Network) == known
        assert (fairmend.certify(model, _two(sex, income), given).unfair_rate == 0) == known
        assert not isinstance(load_model(model, spec=_two(sex, {"mean": 0, "std": 1e5})), Network)
    del model[0].feature_names_in_  # then it is given rows as the spec has them, and scales them twice
    with pytest.raises(FairmendError, match="not all of these are known"):
        load_model(model, spec=_two(sex, income))


def _two(sex, income):
    return Spec(
        [
            Feature("sex", "integer", range=(0, 1), protected=True, scale=sex),
            Feature("income", "integer", range=(0, 100_000), scale=income),
        ]
    )


def test_a_function_that_exits_is_refused_in_one_line():
    def leave(X):
        raise SystemExit(0)

    with pytest.raises(FairmendError, match="fails on 128 rows: SystemExit: 0"):
        load_model(leave, spec=Spec([Feature("sex", "integer", range=(0, 1), protected=True)]))


@pytest.mark.parametrize("labels", [["no", "yes"], ["yes", "no"]])
@pytest.mark.parametrize("with_label", [True, False])
def test_maps_are_read_in_the_order_of_the_labels(labels, with_label, tmp_path):
    pytest.importorskip("onnxruntime")
    nodes = [
        onnx.helper.make_node(
            "LinearClassifier", ["X"], ["label", "shares"], domain="ai.onnx.ml", classlabels_strings=labels,
            coefficients=[0.0, 0.0, 1.0, 2.0], intercepts=[0.0, 0.0], post_transform="SOFTMAX",
        ),
        onnx.helper.make_node("ZipMap", ["shares"], ["maps"], domain="ai.onnx.ml", classlabels_strings=labels),
    ]  # fmt: skip
    number, text = onnx.TensorProto.FLOAT, onnx.TensorProto.STRING
    maps = onnx.helper.make_map_type_proto(text, onnx.helper.make_tensor_type_proto(number, []))
    outputs = [onnx.helper.make_tensor_value_info("label", text, [None])] if with_label else []
    outputs.append(onnx.helper.make_value_info("maps", onnx.helper.make_sequence_type_proto(maps)))
    graph = onnx.helper.make_graph(nodes, "g", [onnx.helper.make_tensor_value_info("X", number, [None, 2])], outputs)
    versions = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=versions, ir_version=9), tmp_path / "maps.onnx")
    sex, age = Feature("sex", "integer", range=(0, 1), protected=True), Feature("age", "continuous", range=(-3, 3))
    spec = Spec([sex, age], Label("y", labels[1], threshold=0.9))
    X = np.column_stack([np.zeros(61), np.linspace(-3, 3, 61)])
    unequal = (score(X) >= 0.9) != (score(np.add(X, [1, 0])) >= 0.9)
    assert fairmend.audit(tmp_path / "maps.onnx", spec, X).unequal.tolist() == unequal.tolist()
    assert 0 < unequal.sum() < 61


def score(X):
    return 1 / (1 + np.exp(-X @ [1.0, 2.0]))


def test_what_is_between_the_fields_of_records_does_not_change_a_model():
    kind, found = np.dtype([("left", np.int8), ("share", np.float64)], align=True), []  # like a tree of scikit-learn
    for between in (b"\0", b"\1"):
        records = np.frombuffer(bytearray(b"\1" + 7 * between + 8 * b"\2"), kind)
        model = RidgeClassifier().fit([[0.0], [1.0]], [0, 1])
        model.records = records
        found.append(fairmend.load_model(model).digest())
    assert found[0] == found[1]

"""Repaired models become files: whatever the exporter of a library leaves out, several ways are tried."""

from dataclasses import replace

import numpy as np
import onnx
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import AdaBoostClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, PolynomialFeatures, QuantileTransformer, StandardScaler
from torch import nn

import fairmend
from fairmend.models import RunModel, load_model
from fairmend.models.estimator import EstimatorRunner
from fairmend.models.export_estimator import _plain_attributes
from fairmend.models.export_module import export_module
from fairmend.models.keras_model import _require_known_operators
from fairmend.spec import Feature, Label, Spec
from support.keras_files import import_keras, quiet

skl2onnx = pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")

FEATURES = (
    Feature("sex", "categorical", categories=("man", "woman"), protected=True),
    Feature("job", "categorical", categories=("none", "nurse", "builder")),
    Feature("age", "integer", range=(18, 70)),
    Feature("income", "continuous", range=(0, 10)),
)
SPEC = Spec(list(FEATURES))


def rows():
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [rng.integers(0, 2, 400), rng.integers(0, 3, 400), rng.integers(18, 71, 400), rng.uniform(0, 10, 400).round(3)]
    ).astype(np.float32)
    return X, (X[:, 3] + 4 * X[:, 0] + rng.normal(0, 1, 400) > 7).astype(np.int64)


def repaired_and_checked(model, folder, spec=SPEC):
    X, y = rows()
    result = fairmend.repair(model, spec, X[:20], X[20:200], y[20:200], method="average")
    assert result.certificate is not None, result.warnings
    result.network.save(folder / "fair.onnx")
    result.certificate.save(folder / "fair.json", folder / "fair.onnx")
    checked = fairmend.check(folder / "fair.json", folder / "fair.onnx")
    assert checked.valid, checked.reasons
    kind = getattr(result.network.base, "kind", "logit")
    return result, load_model(folder / "fair.onnx", outputs=kind, spec=spec)


class Attention(nn.Module):
    """Tokens that attend to each other, with as many columns as an exporter may take rows for an example."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(4, 8))
        self.attention, self.head = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 1)

    def forward(self, x):
        tokens = (x / 10)[:, :, None] * self.weight
        return self.head(self.attention(tokens, tokens, tokens, need_weights=False)[0].mean(dim=1))


class Encoder(nn.Module):
    """Tokens of codes and of numbers, in two inputs, PyTorch's own encoder, and running sums, which are only run."""

    def __init__(self):
        super().__init__()
        self.codes = nn.ModuleList([nn.Embedding(2, 8), nn.Embedding(3, 8)])
        self.numbers = nn.Parameter(torch.randn(2, 8))
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, 0.0, batch_first=True), 1)
        self.head = nn.Linear(8, 1)

    def forward(self, codes, numbers):
        tokens = [table(codes[:, i])[:, None] for i, table in enumerate(self.codes)]
        tokens = torch.cat([*tokens, numbers[:, :, None] * (self.numbers / 50)], dim=1)
        return 4 * self.head(self.encoder(tokens).cumsum(dim=1)[:, -1]) - 2


class Joined(nn.Module):
    """Embeddings of codes beside numbers, in two inputs, and layers that fairmend reads."""

    def __init__(self):
        super().__init__()
        self.codes = nn.ModuleList([nn.Embedding(2, 8), nn.Embedding(3, 8)])
        self.first, self.last = nn.Linear(18, 8), nn.Linear(8, 1)

    def forward(self, codes, numbers):
        tables = [table(codes[:, i]) for i, table in enumerate(self.codes)]
        return self.last(torch.relu(self.first(torch.cat([*tables, numbers], dim=1))))


class LabelsFirst(nn.Module):
    """A module that takes its tensors as they come, and gives labels before probabilities."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inside = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2), nn.Softmax(dim=1))

    def forward(self, *tensors):
        shares = self.inside(tensors[0] / 10)
        return shares.argmax(dim=1), shares


@pytest.mark.parametrize(("module", "outputs"), [(Attention(), "logit"), (LabelsFirst(), "probability")])
def test_a_module_becomes_a_file_for_any_number_of_rows(module, outputs, tmp_path):
    result, file = repaired_and_checked(load_model(module, outputs=outputs, spec=SPEC), tmp_path)
    X, _ = rows()
    with torch.no_grad():
        given = result.module(torch.from_numpy(X))
    expected = file.runner.run(SPEC, file.ports, X)
    np.testing.assert_allclose(given.numpy(), expected, atol=1e-5)
    for size in (1, 7):
        found = np.concatenate([file.runner.run(SPEC, file.ports, X[k : k + size]) for k in range(0, 28, size)])
        np.testing.assert_allclose(found, expected[:28], atol=1e-5)


@pytest.mark.parametrize(("make", "read"), [(Encoder, False), (Joined, True)])
def test_a_module_of_several_inputs_is_averaged_with_its_inputs_whether_it_is_read_or_run(make, read, tmp_path):
    torch.manual_seed(0)
    inputs = ["codes", "codes", "numbers", "numbers"]
    spec = Spec([replace(f, encoding="ordinal" if f.categories else f.encoding, input=name)
                 for f, name in zip(FEATURES, inputs, strict=True)])  # fmt: skip
    module = make().eval()
    assert isinstance(load_model(module, spec=spec), fairmend.Network) == read
    result, file = repaired_and_checked(module, tmp_path, spec)
    assert [(port.name, port.type) for port in file.ports] == [("codes", "int64"), ("numbers", "float32")]
    X, _ = rows()
    X = X.astype(np.float32)
    with torch.no_grad():
        expected = result.module(torch.from_numpy(X[:, :2]).long(), torch.from_numpy(X[:, 2:]))
    np.testing.assert_allclose(file.runner.run(spec, file.ports, X), expected.numpy(), atol=1e-3)


class Columns(nn.Module):
    """Stacks tensors of two types, which PyTorch writes as ONNX only when it is decomposed."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inside = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 1))

    def forward(self, codes, numbers):
        return self.inside(torch.column_stack([numbers / 10, codes]))


def test_a_module_that_one_exporter_writes_wrongly_is_written_by_another(tmp_path):
    inputs = {"sex": "codes", "job": "codes", "age": "numbers", "income": "numbers"}
    spec = Spec([replace(feature, input=inputs[feature.name]) for feature in FEATURES])
    repaired_and_checked(load_model(Columns(), outputs="logit", spec=spec), tmp_path, spec)


def test_torchscript_writes_columns_of_two_types_for_any_number_of_rows(tmp_path):
    X, _ = rows()
    module = Columns().eval()
    given = {"codes": torch.from_numpy(X[:, :2]).long(), "numbers": torch.from_numpy(X[:, 2:])}
    some = {name: tensor[:5] for name, tensor in given.items()}
    export_module(module, some, lambda tensors: module(**tensors), "TorchScript", tmp_path / "columns.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "columns.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {name: tensor.numpy() for name, tensor in given.items()})
    with torch.no_grad():
        np.testing.assert_allclose(found, module(**given).numpy(), atol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: AdaBoostClassifier(n_estimators=5, random_state=0),
        lambda: KNeighborsClassifier(5),
        GaussianNB,
        lambda: HistGradientBoostingClassifier(max_iter=5, random_state=0),
    ],
)
def test_estimators_whose_graph_names_no_labels_become_files(make, tmp_path):
    X, y = rows()
    result, file = repaired_and_checked(make().fit(X, y), tmp_path)
    expected = result.estimator.predict_proba(X)
    np.testing.assert_allclose(file.runner.run(SPEC, file.ports, X), expected, atol=1e-3)
    labels = [each.name for each in onnx.load(tmp_path / "fair.onnx").graph.output]
    assert len(labels) == 2


def test_a_file_that_looks_its_labels_up_is_averaged(tmp_path):
    X, y = rows()
    path = tmp_path / "model.onnx"
    converted = skl2onnx.to_onnx(GaussianNB().fit(X, np.where(y, "yes", "no")), X[:1], options={"zipmap": False})
    path.write_bytes(converted.SerializeToString())
    model = load_model(path, spec=SPEC)
    assert isinstance(model, RunModel)
    assert model.runner.labels == ("no", "yes")
    repaired_and_checked(model, tmp_path)


def test_a_pipeline_that_reads_text_becomes_a_file_that_loads(tmp_path):
    X, y = rows()
    frame = SPEC.decode(X)
    pipeline = make_pipeline(
        make_column_transformer((OneHotEncoder(sparse_output=False), ["sex", "job"]), remainder="passthrough"),
        AdaBoostClassifier(n_estimators=5, random_state=0),
    ).fit(frame, y)
    result, file = repaired_and_checked(pipeline, tmp_path)
    assert {port.type for port in file.ports} == {"string", "float32"}
    frame["sex"] = pd.Series([None] * len(frame), dtype=object)
    expected = result.estimator.predict_proba(frame)
    np.testing.assert_allclose(file.runner.run(SPEC, file.ports, X), expected, atol=1e-3)


@pytest.mark.parametrize("values", [(3, 7), (-1, 1), ("1", "2"), (0, 1), ("0", "1"), (2**53, 2**53 + 1)])
@pytest.mark.parametrize("encoder", [OneHotEncoder(handle_unknown="ignore"), OrdinalEncoder()])
def test_a_pipeline_with_numbers_as_categories_becomes_a_file(values, encoder, tmp_path):
    spec = Spec([Feature("sex", "categorical", categories=values, protected=True), *FEATURES[2:]])
    frame, y = numbered_people(values)
    pipeline = make_pipeline(
        make_column_transformer((encoder, ["sex"]), remainder="passthrough"), RandomForestClassifier(5, random_state=0)
    ).fit(frame, y)
    result = fairmend.repair(pipeline, spec, frame[:20], frame[20:200], y[20:200], method="average")
    assert result.certificate is not None, result.warnings
    result.network.save(tmp_path / "fair.onnx")
    result.certificate.save(tmp_path / "fair.json", tmp_path / "fair.onnx")
    assert fairmend.check(tmp_path / "fair.json", tmp_path / "fair.onnx").valid


@pytest.mark.parametrize(
    ("values", "steps", "said"),
    [
        ((1.0, 2.0), [make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")], "such as 1.0"),
        ((3, 7), [], 'Make it kind = "integer"'),
    ],
)
def test_categories_that_no_file_can_read_are_refused_in_one_line(values, steps, said):
    spec = Spec([Feature("sex", "categorical", categories=values, protected=True), *FEATURES[2:]])
    frame, y = numbered_people(values)
    model = make_pipeline(*steps, RandomForestClassifier(5, random_state=0)).fit(frame, y)
    result = fairmend.repair(model, spec, frame[:20], frame[20:200], y[20:200], method="average")
    assert result.certificate is None
    (why,) = (text for text in result.warnings if "certificate" in text)
    assert said in why
    assert "\n" not in why


def numbered_people(values):
    X, y = rows()
    frame = pd.DataFrame(X[:, 2:].astype(np.float64), columns=["age", "income"])
    frame.insert(0, "sex", np.array(values, dtype=object)[X[:, 0].astype(int)])
    return frame.infer_objects(), y


def test_truth_values_are_cut(tmp_path):
    """ONNX Runtime has no Where for truth values."""
    inputs = [onnx.helper.make_tensor_value_info(name, kind, [None, 1]) for name, kind in (("sex", 9), ("age", 1))]
    nodes = [
        onnx.helper.make_node("Cast", ["sex"], ["number"], to=1),
        onnx.helper.make_node("Sub", ["age", "number"], ["both"]),
        onnx.helper.make_node("Sigmoid", ["both"], ["score"]),
    ]
    score = onnx.helper.make_tensor_value_info("score", 1, [None, 1])
    graph = onnx.helper.make_graph(nodes, "g", inputs, [score])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "model.onnx")
    rng = np.random.default_rng(0)
    X, y = np.column_stack([rng.integers(0, 2, 300), rng.normal(0, 2, 300).round(2)]), rng.integers(0, 2, 300)
    for protected in ("integer", "categorical"):
        kind = {"range": (0, 1)} if protected == "integer" else {"categories": ("no", "yes")}
        sex = Feature("sex", protected, protected=True, **kind)
        spec = Spec([sex, Feature("age", "continuous", range=(-9, 9))], Label("y", "1"))
        for method in ("average", "auto"):
            result = fairmend.repair(tmp_path / "model.onnx", spec, X[:20], X[20:200], y[20:200], method=method)
            assert result.certificate is not None, result.warnings
            result.network.save(tmp_path / "fair.onnx")
            result.certificate.save(tmp_path / "fair.json", tmp_path / "fair.onnx")
            checked = fairmend.check(tmp_path / "fair.json", tmp_path / "fair.onnx")
            assert checked.valid, checked.reasons
            session = onnxruntime.InferenceSession(tmp_path / "fair.onnx")
            age = X[:, 1:].astype(np.float32)
            no, yes = (session.run(None, {"sex": np.full((300, 1), each), "age": age})[0] for each in (False, True))
            assert no.tobytes() == yes.tobytes()


def test_an_estimator_fitted_on_a_data_frame_of_numbers_becomes_a_file(tmp_path):
    X, y = rows()
    spec = Spec([Feature("sex", "integer", range=(0, 1), protected=True), *FEATURES[2:]])
    frame = pd.DataFrame(X[:, [0, 2, 3]].astype(np.float64), columns=["sex", "age", "income"])
    result = fairmend.repair(
        RandomForestClassifier(5, random_state=0).fit(frame, y), spec, frame[:20], frame[20:200], y[20:200],
        method="average",
    )  # fmt: skip
    result.network.save(tmp_path / "fair.onnx")
    assert result.certificate is not None, result.warnings
    result.certificate.save(tmp_path / "fair.json", tmp_path / "fair.onnx")
    assert fairmend.check(tmp_path / "fair.json", tmp_path / "fair.onnx").valid


def test_trees_get_the_numbers_that_a_scaler_gives_in_float64(tmp_path):
    """Trees split between 20 and 22 at 21, and people of 21 go the way that the last bit of the scaled number says."""
    X, y = rows()
    even = X[:, 2] % 2 == 0
    frame = SPEC.decode(X)[["age", "income"]].assign(sex=X[:, 0])
    spec = Spec([*FEATURES[2:], Feature("sex", "integer", range=(0, 1), protected=True)])
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(20, max_features=None, random_state=0))
    pipeline.fit(frame[even], y[even])
    float32, _, steps = EstimatorRunner(pipeline).exports(spec, ())
    whole = frame.assign(age=np.arange(len(frame)) % 53 + 18.0, income=5.0)
    probabilities = []
    for name, write in (("float32", float32), ("steps", steps)):
        write(tmp_path / f"{name}.onnx")
        file = load_model(tmp_path / f"{name}.onnx", spec=spec)
        rows_of = spec.encode(whole, dtype=file.dtype)
        probabilities.append(file.runner.run(spec, file.ports, rows_of)[:, 1])
    off = [np.abs(each - pipeline.predict_proba(whole)[:, 1]).max() for each in probabilities]
    assert off[1] < 1e-6 < off[0]


def test_categories_of_pandas_become_codes_of_lightgbm(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    pytest.importorskip("onnxmltools")
    X, y = rows()
    frame = SPEC.decode(X)
    categories = frame.astype({"sex": "category", "job": "category"})
    model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(categories, y)
    result, file = repaired_and_checked(model, tmp_path)
    frame["sex"] = None
    expected = result.estimator.predict_proba(frame)
    np.testing.assert_allclose(file.runner.run(SPEC, file.ports, X), expected, atol=1e-3)


@quiet
def test_a_model_of_keras_that_is_not_read_becomes_a_file(tmp_path):
    """It has several inputs, one of them of whole numbers, and gives each person the scores of the file."""
    keras = import_keras()
    layers = keras.layers
    keras.utils.set_random_seed(0)
    codes, numbers = keras.Input((2,), name="codes", dtype="int64"), keras.Input((2,), name="numbers")
    known = layers.Flatten()(layers.Embedding(3, 4)(codes))
    joined = layers.Concatenate()([known, layers.UnitNormalization()(numbers)])
    model = keras.Model({"numbers": numbers, "codes": codes}, layers.Dense(1, activation="sigmoid")(joined))
    inputs = dict.fromkeys(("sex", "job"), "codes") | dict.fromkeys(("age", "income"), "numbers")
    spec = Spec([replace(feature, input=inputs[feature.name]) for feature in FEATURES])
    result, saved = repaired_and_checked(model, tmp_path, spec)
    X = rows()[0]
    np.testing.assert_allclose(result.network.logits(X), saved.logits(X), rtol=1e-4)
    others = np.where(np.arange(4) == 0, 1 - X, X)
    for each in (result.network, saved):
        assert each.logits(X).tobytes() == each.logits(others).tobytes()


def test_operators_of_tensorflow_that_no_converter_knows_are_refused_by_name():
    made = [onnx.helper.make_node("Bucketize", ["x"], ["b"]), onnx.helper.make_node("Sigmoid", ["b"], ["y"])]
    ends = [onnx.helper.make_tensor_value_info(name, 1, [None, 4]) for name in ("x", "y")]
    model = onnx.helper.make_model(onnx.helper.make_graph(made, "g", ends[:1], ends[1:]))
    with pytest.raises(
        fairmend.FairmendError, match="tf2onnx does not convert Bucketize of TensorFlow, which m computes"
    ):
        _require_known_operators(model, "m")


def test_a_converter_that_writes_no_model_is_named_and_there_is_no_certificate():
    X, y = rows()

    class WrittenWrongly(EstimatorRunner):
        def exports(self, spec, ports):
            return [lambda path: path.write_bytes(b"nothing")]

    model = RunModel(WrittenWrongly(GaussianNB().fit(X, y))).bind(SPEC)
    result = fairmend.repair(model, SPEC, X[:20], X[20:200], y[20:200], method="average")
    assert result.certificate is None
    (said,) = (text for text in result.warnings if "certificate" in text)
    assert "its converter writes a file that cannot be run" in said
    assert "Export it to ONNX yourself, and repair that file" in said


def test_a_file_of_an_old_format_gets_constants_that_nobody_replaces(tmp_path):
    X, y = rows()
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    model = skl2onnx.to_onnx(forest, X[:1], options={"zipmap": False}, target_opset={"": 9, "ai.onnx.ml": 1})
    model.ir_version = 3
    for constant in model.graph.initializer:
        model.graph.input.append(onnx.helper.make_tensor_value_info(constant.name, constant.data_type, constant.dims))
    onnx.save(model, tmp_path / "old.onnx")
    repaired_and_checked(load_model(tmp_path / "old.onnx", spec=SPEC), tmp_path)


@pytest.mark.parametrize("first", [QuantileTransformer(n_quantiles=20), PolynomialFeatures(2)])
def test_a_pipeline_on_a_matrix_is_run_if_its_network_reads_other_columns(first):
    X, y = rows()
    pipeline = make_pipeline(first, LogisticRegression(C=0.01, max_iter=5000)).fit(X, y)
    model = load_model(pipeline, spec=SPEC)
    assert isinstance(model, RunModel)
    np.testing.assert_array_equal(model.predict(X), pipeline.predict(X))


def test_thresholds_of_lightgbm_decide_alike_in_float32():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 2000).round(3).astype(np.float32)
    thresholds = x.astype(np.float64) * rng.choice([1, 1 - 1e-9, 1 + 1e-9], 2000)
    with _plain_attributes(round_down=True):
        written = onnx.helper.make_attribute("nodes_values", thresholds.tolist())
    np.testing.assert_array_equal(x <= np.array(written.floats, np.float32), x <= thresholds)
    nearest = onnx.helper.make_attribute("nodes_values", thresholds.tolist())
    assert (x <= np.array(nearest.floats, np.float32)).sum() > (x <= thresholds).sum()


@pytest.mark.parametrize("classes", [("no", "yes"), (0, 1), (False, True)])
def test_a_repaired_file_names_its_classes_where_the_first_one_is_positive(classes, tmp_path):
    X, y = rows()
    model = GaussianNB().fit(X, np.array(classes)[y])
    spec = Spec(list(FEATURES), Label("y", str(classes[0]), threshold=0.7))
    result = fairmend.repair(model, spec, X[:20], X[20:200], 1 - y[20:200], method="average")
    assert result.certificate is not None, result.warnings
    result.network.save(tmp_path / "fair.onnx")
    again = load_model(tmp_path / "fair.onnx", spec=spec)
    np.testing.assert_array_equal(again.predict(X), result.network.predict(X))
    np.testing.assert_array_equal(again.predict(X), result.estimator.predict_proba(X)[:, 0] >= 0.7)


def test_what_the_checker_refuses_gets_no_certificate_and_an_open_width_is_declared(tmp_path):
    X, y = rows()
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    model = skl2onnx.to_onnx(forest, X[:1], options={"zipmap": False})
    del model.graph.input[0].type.tensor_type.shape.dim[1:]
    model.graph.input[0].type.tensor_type.shape.dim.add().dim_param = "columns"
    onnx.save(model, tmp_path / "open.onnx")
    repaired_and_checked(load_model(tmp_path / "open.onnx", spec=SPEC), tmp_path)
    model.metadata_props.add(key="ort_config", value="{}")
    onnx.save(model, tmp_path / "noted.onnx")
    result = fairmend.repair(tmp_path / "noted.onnx", SPEC, X[:20], X[20:200], y[20:200], method="average")
    assert result.certificate is None
    assert any("fairmend check refuses the repaired file" in text for text in result.warnings)

"""Averaging over the members of a class: who they are, how much they count, and what the file computes."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.models import onnx_average
from fairmend.models.averaging import QUANTILES, fit_average
from fairmend.models.canonical import choose_map
from fairmend.models.load import load_model
from fairmend.models.onnx_entry import NodeWriter, write_entry
from fairmend.models.onnx_weights import write_weights
from fairmend.models.ports import Port
from fairmend.models.repaired import RepairedModel
from fairmend.spec import Feature, Spec
from support.canonical_cases import SPEC, counterparts, forest, people

skl2onnx = pytest.importorskip("skl2onnx")

ELEMENTS = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "int64": TensorProto.INT64,
    "string": TensorProto.STRING,
    "bool": TensorProto.BOOL,
}


@pytest.fixture(scope="module")
def rows():
    return people()


@pytest.fixture(scope="module")
def average(rows):
    return fit_average(choose_map(SPEC, rows[0]), rows[0])


def saved_forest(rows, path, **options):
    """Write a fitted forest as an ONNX file, and return its path."""
    X, y = rows
    path.write_bytes(skl2onnx.to_onnx(forest(X, y), X[:1], target_opset=17, **options).SerializeToString())
    return path


class GatedNet(nn.Module):
    """A network with a function that fairmend does not read."""

    def __init__(self, outputs=1):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.last = nn.Linear(8, 12), nn.LayerNorm(12), nn.Linear(12, outputs)

    def forward(self, x):
        hidden = self.norm(torch.relu(self.first(x)))
        return self.last(torch.asinh(hidden))


def test_members_are_people_of_the_class(average, rows):
    canonical = average.canonical
    X = canonical.apply(rows[0])
    from fairmend.models.canonical import spec_port

    for member in average.entries([spec_port(SPEC, "float32")]):
        (found,) = member.apply([X])
        assert np.array_equal(canonical.apply(found), X)
        men = found[:, 0] == 0
        assert not found[men, 2].any(), "a man as a wife"
        assert not found[~men, 1].any(), "a woman as a husband"


def test_weights_are_those_of_the_population_given_the_rest():
    rng = np.random.default_rng(0)
    spec = Spec(
        [
            Feature("sex", "categorical", categories=("man", "woman"), protected=True),
            Feature("job", "categorical", categories=("nurse", "builder")),
        ]
    )
    job = rng.integers(0, 2, 4000)
    sex = (rng.uniform(size=4000) < np.where(job == 0, 0.9, 0.1)).astype(float)
    X = np.column_stack([sex, job]).astype(np.float32)
    weights = fit_average(choose_map(spec, X), X).weights.compute(spec, np.array([[0, 0], [0, 1]], np.float32))
    assert weights[:, 1] == pytest.approx([0.9, 0.1], abs=0.02)


def test_one_number_is_averaged_over_medians_of_equal_groups():
    spec = Spec([Feature("age", "integer", range=(18, 97), protected=True), Feature("x", "integer", range=(0, 9))])
    X = np.column_stack([np.tile(np.arange(18, 98), 10), np.repeat(np.arange(10), 80)]).astype(np.float32)
    members = fit_average(choose_map(spec, X), X).members
    assert members.count == QUANTILES
    assert np.abs(members.free["age"] - [27.5, 47.5, 67.5, 87.5]).max() <= 1
    assert np.bincount(members.of_rows).tolist() == [200] * 4


@pytest.mark.parametrize("options", [{"options": {"zipmap": False}}, {}], ids=["matrix", "ZipMap"])
@pytest.mark.parametrize("averaged", [True, False])
def test_a_file_computes_what_the_model_in_memory_does(rows, average, tmp_path, options, averaged):
    X, _ = rows
    base = load_model(saved_forest(rows, tmp_path / "forest.onnx", **options), spec=SPEC)
    model = RepairedModel(base, average.canonical, average if averaged else None).bind(SPEC)
    model.save(tmp_path / "fair.onnx")
    onnx.checker.check_model(str(tmp_path / "fair.onnx"))
    loaded = load_model(tmp_path / "fair.onnx", spec=SPEC)
    assert loaded.logits(X) == pytest.approx(model.logits(X), abs=1e-4)
    assert model.logits(X).tolist() == model.logits(counterparts(X)).tolist()


@pytest.mark.parametrize("options", [{"options": {"zipmap": False}}, {}], ids=["matrix", "ZipMap"])
def test_the_outputs_keep_their_form_and_are_equal_for_a_class(rows, average, tmp_path, options):
    X, _ = rows
    path = saved_forest(rows, tmp_path / "forest.onnx", **options)
    model = RepairedModel(load_model(path, spec=SPEC), average.canonical, average).bind(SPEC)
    model.save(tmp_path / "fair.onnx")
    before, after = (onnxruntime.InferenceSession(str(each)) for each in (path, tmp_path / "fair.onnx"))
    name = before.get_inputs()[0].name
    assert [(each.name, each.type) for each in after.get_outputs()] == [
        (each.name, each.type) for each in before.get_outputs()
    ]
    for size in (1, 7, len(X)):
        label, scores = after.run(None, {name: X[:size]})
        other_label, other = after.run(None, {name: counterparts(X)[:size]})
        assert label.shape == before.run(None, {name: X[:size]})[0].shape
        assert label.tolist() == other_label.tolist()
        assert np.array_equal(_matrix(scores), _matrix(other))
        assert label.tolist() == (_matrix(scores)[:, 1] >= _matrix(scores)[:, 0]).astype(int).tolist()


def _matrix(scores):
    return np.array([list(each.values()) for each in scores]) if isinstance(scores, list) else np.asarray(scores)


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_module_around_the_original_computes_the_same(rows, average, outputs):
    X, _ = rows
    original = GatedNet(outputs)
    model = RepairedModel(load_model(original, spec=SPEC), average.canonical, average).bind(SPEC)
    module = model.to_module()
    with torch.no_grad():
        found, other = (module(torch.from_numpy(each)).numpy() for each in (X, counterparts(X)))
    assert found.shape == (len(X), outputs)
    lead = found[:, 0] if outputs == 1 else found[:, 1] - found[:, 0]
    assert lead == pytest.approx(model.logits(X), abs=1e-5)
    assert np.array_equal(found, other)
    assert module.module is original


def test_an_estimator_around_the_original_never_reads_protected_columns(rows):
    X, y = rows
    result = fairmend.repair(forest(X, y), SPEC, X[:50], X[50:350], y[50:350], method="average", X_unlabelled=X[350:])
    strange = counterparts(X)
    strange[:, 5] = np.nan
    found = result.estimator.predict_proba(X)
    assert np.array_equal(found, result.estimator.predict_proba(strange))
    assert found[:, 1] == pytest.approx(result.network.probabilities(X), abs=1e-12)
    assert set(result.estimator.predict(X)) == {0, 1}


def test_an_estimator_becomes_a_file_with_a_certificate(rows, tmp_path):
    X, y = rows
    result = fairmend.repair(forest(X, y), SPEC, X[:50], X[50:350], y[50:350], method="average")
    result.network.save(tmp_path / "fair.onnx")
    result.certificate.save(tmp_path / "fair.json", tmp_path / "fair.onnx")
    checked = fairmend.check(tmp_path / "fair.json", tmp_path / "fair.onnx")
    assert checked.valid, checked.reasons


def test_a_repair_keeps_the_share_of_positive_predictions(rows):
    X, y = rows
    result = fairmend.repair(GatedNet(), SPEC, X[:50], X[50:350], y[50:350], method="average", X_unlabelled=X[350:])
    before = load_model(GatedNet(), spec=SPEC).predict(X[50:]).mean()
    assert result.network.predict(X[50:]).mean() == pytest.approx(before, abs=0.01)
    assert result.by_classes
    assert result.everyone
    assert result.blind_features == ("sex", "age")


def test_an_audit_finds_no_difference_at_all(rows, average):
    X, _ = rows
    model = RepairedModel(load_model(GatedNet(), spec=SPEC), average.canonical, average).bind(SPEC)
    assert model.read_columns.tolist() == [False, *[True] * 4, False, True, True]
    found = fairmend.audit(model, SPEC, X[:60])
    assert found.count == 0
    assert found.disparity.largest == 0


def test_a_function_has_no_file_and_no_certificate(rows):
    X, y = rows
    fitted = forest(X, y)
    result = fairmend.repair(fitted.predict_proba, SPEC, X[:50], X[50:350], y[50:350], method="average")
    assert result.certificate is None
    assert any("no file holds" in warning for warning in result.warnings)
    with pytest.raises(FairmendError, match="no file holds"):
        result.network.save("fair.onnx")


def test_rounding_errors_of_small_probabilities_are_no_dependence_on_the_batch(rows):
    def score(X):  # the last bit in single precision differs with the batch, and is 1 % of the log-odds of the least
        shares = 1 / (1 + np.exp(12 - 4 * X.sum(axis=1)))
        return (shares + len(X) % 2 * 6e-8).astype(np.float32)

    X, y = rows
    result = fairmend.repair(score, SPEC, X[:50], X[50:350], y[50:350], method="average")
    assert fairmend.audit(result.network, SPEC, X).count == 0


@pytest.mark.parametrize("method", ["prof", "blind", "flip"])
def test_methods_that_need_a_network_are_refused_by_name(rows, method):
    X, y = rows
    with pytest.raises(FairmendError, match=f"method {method} needs a network .* use method auto or average"):
        fairmend.repair(forest(X, y), SPEC, X[:50], X[50:350], y[50:350], method=method)


def test_a_spec_in_which_nothing_counts_is_refused(rows):
    X, y = rows
    spec = Spec([Feature(f.name, f.kind, f.range, f.categories, f.encoding, f.scale, True) for f in SPEC.features])
    with pytest.raises(FairmendError, match="no feature counts"):
        fairmend.repair(forest(X, y), spec, X[:50], X[50:350], y[50:350], method="average")


def test_a_graph_with_batches_of_one_is_not_averaged(rows, average, tmp_path):
    path = saved_forest(rows, tmp_path / "forest.onnx")
    model = onnx.load(str(path))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    onnx.save(model, str(tmp_path / "one.onnx"))
    base = load_model(tmp_path / "one.onnx", spec=SPEC)
    with pytest.raises(FairmendError, match="batches of 1 rows only"):
        RepairedModel(base, average.canonical, average).bind(SPEC).save(tmp_path / "fair.onnx")
    RepairedModel(base, average.canonical).bind(SPEC).save(tmp_path / "fair.onnx")
    X, y = rows
    with pytest.raises(FairmendError, match="takes batches of 1 rows only"):
        fairmend.repair(tmp_path / "one.onnx", SPEC, X[:20], X[20:120], y[20:120], method="average")
    result = fairmend.repair(tmp_path / "one.onnx", SPEC, X[:20], X[20:120], y[20:120])
    assert result.network.members == 1
    assert result.certificate is not None


def test_a_graph_weighs_members_as_the_average_does_whatever_its_inputs_hold():
    """Codes in one column, one-hot columns, texts, whole numbers and truth values, in inputs of both ranks."""
    of = {"a": "float32", "b": "int64", "c": "string", "d": "bool", "e": "float64"}
    jobs = {"kind": "categorical", "categories": ["cook", "driver", "nurse", "teacher"]}
    features = [
        {"name": "sex", "kind": "categorical", "categories": ["f", "m"], "protected": True, "input": "a"},
        {"name": "job_a", **jobs, "encoding": "ordinal", "scale": {"mean": 1.3, "std": 0.7}, "input": "a"},
        {"name": "one_hot", **jobs, "encoding": "one-hot", "dropped": "driver", "input": "a"},
        {"name": "pay", "kind": "continuous", "range": [0, 9], "scale": {"mean": 3, "std": 2}, "input": "a"},
        {"name": "job_b", **jobs, "encoding": "ordinal", "input": "b"},
        {"name": "years", "kind": "integer", "range": [0, 40], "input": "b"},
        {"name": "job_c", **jobs, "encoding": "ordinal", "input": "c"},
        {"name": "owner", "kind": "categorical", "categories": ["no", "yes"], "encoding": "ordinal", "input": "d"},
        {"name": "job_e", **jobs, "encoding": "ordinal", "input": "e"},
    ]
    spec = Spec.from_dict({"feature": features})
    names = {name: tuple(f.name for f in spec.features if f.input == name) for name in of}
    ports = [Port(name, kind, 1 if name in "cd" else 2, names[name]) for name, kind in of.items()]
    X = spec.sample_inputs(300, np.random.default_rng(0), np.float64)
    X[:, 0] = X[:, 1] + X[:, -1] > 2  # the sex follows the jobs
    average = fit_average(choose_map(spec, X), X)
    to = NodeWriter()
    found = write_weights(to, average, ports, list(of), "weights")
    inputs = [helper.make_tensor_value_info(p.name, ELEMENTS[p.type], [None] * p.rank) for p in ports]
    output = helper.make_tensor_value_info(found, TensorProto.DOUBLE, None)
    graph = helper.make_graph(to.nodes, "weights", inputs, [output], to.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (weights,) = session.run(None, {port.name: port.values(spec, X) for port in ports})
    expected = average.weights.compute(spec, X)
    assert np.ptp(expected, axis=0).min() > 0.3
    np.testing.assert_allclose(weights.T, expected, atol=1e-6)


@pytest.mark.parametrize("linked", [False, True])
def test_a_graph_makes_the_rows_of_all_members_whatever_its_inputs_hold(linked):
    """Inputs of both ranks, of numbers and texts; some that no member changes, and one with a look-up."""
    categories = {"kind": "categorical", "encoding": "ordinal"}
    features = [
        {"name": "sex", **categories, "categories": ["f", "m"], "protected": True, "input": "text"},
        {"name": "home", **categories, "categories": ["wife", "husband", "alone"], "input": "text_2"},
        {"name": "owner", **categories, "categories": ["no", "yes"], "protected": True, "input": "codes"},
        {"name": "age", "kind": "integer", "range": [18, 80], "protected": True, "input": "numbers"},
        {"name": "years", "kind": "integer", "range": [0, 40], "input": "numbers"},
        {"name": "pay", "kind": "continuous", "range": [0, 9], "input": "kept"},
        {"name": "member", **categories, "categories": ["no", "yes"], "input": "truth"},
    ]
    moves = {"f": {"husband": "wife"}, "m": {"wife": "husband"}}
    links = [{"when": {"sex": sex}, "then": {"home": home}} for sex, home in moves.items()] if linked else []
    spec = Spec.from_dict({"feature": features, "link": links})
    of = {"text": ("string", 1), "text_2": ("string", 2), "codes": ("int64", 1), "numbers": ("float32", 2)}
    of |= {"kept": ("float64", 2), "truth": ("bool", 1)}
    ports = [
        Port(n, kind, rank, tuple(f.name for f in spec.features if f.input == n)) for n, (kind, rank) in of.items()
    ]
    X = spec.sample_inputs(200, np.random.default_rng(0), np.float64)
    average = fit_average(choose_map(spec, X), X)
    entry, members, to = average.canonical.entry(ports), average.entries(ports), NodeWriter()
    found = onnx_average._write_members(to, entry, members, write_entry(to, entry))
    inputs = [helper.make_tensor_value_info(p.name, ELEMENTS[p.type], [None] * p.rank) for p in ports]
    outputs = [
        helper.make_tensor_value_info(name, ELEMENTS[p.type], None) for name, p in zip(found, ports, strict=True)
    ]
    graph = helper.make_graph(to.nodes, "members", inputs, outputs, to.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    assert len(members) > 2
    for rows in (X[:0], X[:1], X):
        held = [port.values(spec, rows) for port in ports]
        given = session.run(None, {port.name: values for port, values in zip(ports, held, strict=True)})
        canonical = entry.apply([v.reshape(len(rows), p.width(spec)) for v, p in zip(held, ports, strict=True)])
        each = [member.apply(canonical) for member in members]
        for number, (port, values) in enumerate(zip(ports, given, strict=True)):
            expected = np.concatenate([one[number] for one in each])
            assert values.shape == (expected.shape if port.rank == 2 else (len(expected),))
            np.testing.assert_array_equal(values.reshape(expected.shape), expected)


def test_nodes_of_the_original_may_have_the_names_of_its_outputs(rows, tmp_path):
    path = saved_forest(rows, tmp_path / "forest.onnx", options={"zipmap": False})
    model = onnx.load(path)
    for node in model.graph.node:
        node.name = node.output[0]
    onnx.save(model, path)
    X, y = rows
    result = fairmend.repair(path, SPEC, X[:20], X[20:120], y[20:120], method="average")
    result.network.save(tmp_path / "fair.onnx")
    result.certificate.save(tmp_path / "fair.json", tmp_path / "fair.onnx")
    assert fairmend.check(tmp_path / "fair.json", tmp_path / "fair.onnx").valid

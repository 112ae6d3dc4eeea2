"""Keras layers over tokens: what is refused, by the loader and by the checker, and what is proven of attention."""

import numpy as np
import pytest

import fairmend
from fairmend import Feature, Spec
from fairmend.base.errors import FairmendError
from fairmend.network import Affine, load_network
from fairmend.prove.kernel_bounds import kernel_model
from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import network_digest
from fairmend_check.readers.read_model import read_model
from fairmend_check.run.enclosure import enclose_outputs
from support.keras_files import edit_archive, import_keras, quiet

SPEC = Spec(
    features=[
        Feature(name="sex", kind="categorical", categories=["a", "b"], encoding="ordinal", protected=True),
        *(Feature(name=f"x{i}", kind="continuous", range=(-2, 2)) for i in (1, 2)),
    ]
)


def small(keras, seed=0, use_gate=False, **called):
    """Attention of two heads over three columns, normalised."""
    layers = keras.layers
    keras.utils.set_random_seed(seed)
    start = keras.Input((3,))
    tokens = layers.Dense(4, name="tokens")(layers.Reshape((3, 1))(start))
    gate = {"use_gate": True} if use_gate else {}  # older releases of Keras have none
    seen = layers.MultiHeadAttention(2, 2, name="attention", **gate)(tokens, tokens, **called)
    value = layers.LayerNormalization(name="norm")(layers.Add()([tokens, seen]))
    return keras.Model(start, layers.Dense(1, name="head")(layers.Flatten()(value)))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("keras") / "m.keras"
    small(import_keras()).save(path)
    return path.read_bytes()


@quiet
def test_one_of_several_outputs_is_read_from_the_model_that_ends_in_it(tmp_path):
    keras = import_keras()
    start = keras.Input((3,))
    hidden = keras.layers.Dense(4, "relu")(start)
    several = keras.Model(start, [keras.layers.Dense(1, name=name)(hidden) for name in ("score", "risk")])
    with pytest.raises(FairmendError, match=r"2 outputs \(score, risk\).*get_layer"):
        load_network(several)
    rows = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    for place, name in enumerate(("score", "risk")):
        one = keras.Model(several.inputs, several.get_layer(name).output)
        given = several.predict(rows, verbose=0)[place][:, 0]
        assert np.allclose(load_network(one).logits(rows), given, atol=1e-6)


def option(name, **values):
    return lambda layers: layers[name]["config"].update(values)


def called(**values):
    return lambda layers: layers["attention"]["inbound_nodes"][0]["kwargs"].update(values)


def constant(rows, dtype="bool"):
    return {"class_name": "__numpy__", "config": {"value": rows, "dtype": dtype}}


DATA = {"class_name": "__keras_tensor__", "config": {"shape": [None, 3, 4], "keras_history": ["tokens", 0, 0]}}
LAST = [[True, True, True], [False, False, False], [True, False, False]]
REFUSED = {  # what the loader says, and the checker
    "a mask of data": (called(attention_mask=DATA), "attention_mask, which depends on", "depends on the input"),
    "a masked row": (called(attention_mask=constant(LAST)), "token 1 attends to", "attends to nothing"),
    "a mask of another size": (called(attention_mask=constant([[True]])), "3 by 3 booleans", "3 by 3 booleans"),
    "a mask of numbers": (called(attention_mask=constant([[1] * 3] * 3, "int32")), "3 by 3", "3 by 3"),
    "scores": (called(return_attention_scores=True), "return_attention_scores", "unknown key"),
    "training": (called(training=True), "options .training", "options that cannot be checked"),
    "a gate without weights": (option("attention", use_gate=True), "8 arrays|10 arrays", "arrays in _gate_dense"),
    "other axes": (option("attention", attention_axes=[2]), "other axes", "other axes"),
    "other heads": (option("attention", num_heads=4), "kernel of shape", "other shapes"),
    "rms_scaling": (option("norm", rms_scaling=True), "rms_scaling", "rms_scaling"),
    "the first axis": (option("norm", axis=[1]), "not the last ones", "not over the last axes"),
    "the rows": (option("norm", axis=[0]), "not the last ones", "not over the last axes"),
    "epsilon": (option("norm", epsilon=0.0), "epsilon", "epsilon"),
    "a custom layer": (
        lambda layers: layers["norm"].update(registered_name="X>Y"),
        "not one of Keras",
        "part of Keras",
    ),
}


@quiet
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_supported_is_refused_by_both(case, saved, tmp_path):
    edit, words, of_checker = REFUSED[case]
    path = tmp_path / "m.keras"
    path.write_bytes(saved)
    edit_archive(path, edit)
    with pytest.raises(FairmendError, match=words):
        load_network(path)
    with pytest.raises(CheckError, match=of_checker):
        read_model(path)


LAYERS = {
    "Masking": lambda layers, x: layers.Masking()(x),
    "Dot": lambda layers, x: layers.Dot(axes=2, normalize=True)([x, x]),
    "EinsumDense": lambda layers, x: layers.EinsumDense("abc,bd->adc", output_shape=(3, 4))(x),
    "UnitNormalization": lambda layers, x: layers.UnitNormalization()(x),
    "Lambda": lambda layers, x: layers.Lambda(lambda x: x)(x),
    "BatchNormalization": lambda layers, x: layers.BatchNormalization()(x),
}


@quiet
@pytest.mark.parametrize("kind", LAYERS)
def test_other_layers_are_refused_by_name(kind, tmp_path):
    keras = import_keras()
    start = keras.Input((3,))
    value = LAYERS[kind](keras.layers, keras.layers.Dense(4)(keras.layers.Reshape((3, 1))(start)))
    keras.Model(start, keras.layers.Dense(1)(keras.layers.Flatten()(value))).save(tmp_path / "m.keras")
    with pytest.raises(FairmendError, match=kind):
        load_network(tmp_path / "m.keras")
    with pytest.raises(CheckError, match=f"{kind}|layer"):
        read_model(tmp_path / "m.keras")


@quiet
def test_several_axes_are_refused_in_h5_files_where_keras_ignores_them(tmp_path):
    keras = import_keras()
    start = keras.Input((4,))
    value = keras.layers.LayerNormalization(axis=[1, 2], scale=False, center=False)(keras.layers.Reshape((2, 2))(start))
    model = keras.Model(start, keras.layers.Dense(1)(keras.layers.Flatten()(value)))
    model.save(tmp_path / "m.h5")
    with pytest.raises(FairmendError, match=r"ignores when it loads an \.h5 file"):
        load_network(tmp_path / "m.h5")
    with pytest.raises(CheckError, match="several axes, which Keras ignores"):
        read_model(tmp_path / "m.h5")
    model.save(tmp_path / "m.keras")
    assert read_model(tmp_path / "m.keras")[0].inputs == load_network(tmp_path / "m.keras").inputs


@quiet
@pytest.mark.parametrize("masked", [False, True])
def test_a_mask_is_a_condition_on_the_version_of_keras(masked, tmp_path):
    """Keras 3.0 to 3.12 subtract 1e9 from what a mask hides, which is not enough for scores above that."""
    path = tmp_path / "m.keras"
    small(import_keras(), use_causal_mask=masked).save(path)
    assert ("Keras 3.13 or later" in read_model(path, {})[0].condition) == masked


def people(count, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, 2, count), rng.uniform(-2, 2, (count, 2))]).astype(np.float32)


@quiet
@pytest.mark.parametrize("gated", [False, True])
def test_a_repair_of_attention_is_proven_and_a_changed_file_is_not(gated, tmp_path):
    keras = import_keras()
    path, X = tmp_path / "m.keras", people(60)
    small(keras, use_gate=gated).save(path)
    y = (X[:, 1] + X[:, 2] > 0).astype(int)
    result = fairmend.repair(load_network(path), SPEC, X[:4], X, y, method="prof", seed=0)
    result.network.save(path)
    result.certificate.save(tmp_path / "certificate.json")
    assert fairmend.check(tmp_path / "certificate.json", path).valid
    loaded = keras.models.load_model(path)
    assert np.allclose(loaded.predict(X, verbose=0)[:, 0], result.network.logits(X), atol=1e-5)
    for edit, weights in CHANGES + GATE_CHANGES * gated:
        changed = tmp_path / "changed.keras"
        changed.write_bytes(path.read_bytes())
        edit_archive(changed, edit, weights)
        assert not fairmend.check(tmp_path / "certificate.json", changed).valid


@quiet
def test_a_model_in_memory_gets_other_weights(tmp_path):
    keras, X = import_keras(), people(50)
    network = load_network(small(keras, 1))
    changed = network.with_affines([Affine(a.weight * 0.5, a.bias) for a in network.affines])
    found = changed.to_module().predict(X, verbose=0)[:, 0]
    assert np.allclose(found, changed.logits(X), atol=1e-5)
    assert not np.allclose(found, network.logits(X), atol=1e-2)


def swap_heads(file):
    """Exchange the heads of the keys alone."""
    kernel = file["layers/multi_head_attention/key_dense/vars/0"]
    kernel[...] = kernel[...][:, ::-1]


def open_gates(file):
    file["layers/multi_head_attention/_gate_dense/vars/1"][...] += 1


def swap_gate_and_value(file):
    gate, value = (file[f"layers/multi_head_attention/{name}/vars/0"] for name in ("_gate_dense", "value_dense"))
    gate[...], value[...] = value[...], gate[...]


def swap_layers(file):
    query, key = (file[f"layers/multi_head_attention/{name}_dense/vars/0"] for name in ("query", "key"))
    query[...], key[...] = key[...], query[...]


def nothing(of):
    return None


CHANGES = [
    (nothing, swap_heads),
    (nothing, swap_layers),
    (option("norm", epsilon=0.01), nothing),
    (option("attention", key_dim=1, value_dim=4), nothing),
    (called(use_causal_mask=True), nothing),
    (option("attention", sliding_window=1), nothing),
    (called(key=DATA | {"config": DATA["config"] | {"keras_history": ["norm", 0, 0]}}), nothing),
]
GATE_CHANGES = [(nothing, open_gates), (nothing, swap_gate_and_value), (option("attention", use_gate=False), nothing)]


@quiet
def test_operations_on_tensors_are_functions_and_sums_along_axes(tmp_path):
    """As factorisation machines, periodic embeddings and pooling by attention are written with keras.ops."""
    keras = import_keras()
    keras.utils.set_random_seed(0)
    ops, start = keras.ops, keras.Input((3,))
    row = keras.layers.Dense(12)(start)
    tokens = keras.layers.Reshape((4, 3))(row)
    rise = ops.exp(row)
    found = [
        ops.square(ops.sum(tokens, axis=1)) - ops.sum(ops.square(tokens), axis=1),
        *(getattr(ops, name)(row) for name in ("abs", "cos", "sin", "relu", "sigmoid", "silu", "tanh")),
        *(getattr(ops, name)(rise) for name in ("log", "sqrt", "rsqrt", "reciprocal")),
        keras.layers.Flatten()(ops.mean(tokens, axis=(1, 2), keepdims=True)),
        ops.logsumexp(tokens, axis=-1),
        ops.max(tokens, axis=1),
        ops.prod(ops.tanh(tokens), axis=1),
        keras.layers.Flatten()(ops.min(tokens, axis=2, keepdims=True)),
    ]
    model = keras.Model(start, keras.layers.Dense(1)(keras.layers.Concatenate()(found)))
    model.save(tmp_path / "m.keras")
    network, checked = load_network(tmp_path / "m.keras"), read_model(tmp_path / "m.keras")[0]
    assert network_digest(kernel_model(network)) == network_digest(checked)
    rows = np.random.default_rng(0).uniform(-1, 1, size=(20, 3)).astype(np.float32)
    low, high = enclose_outputs(checked, rows.astype(np.float64))
    given = model.predict(rows, verbose=0)
    assert ((low <= given) & (given <= high)).all()
    assert (high - low).max() < 0.01
    np.testing.assert_allclose(network.logits(rows), given[:, 0], atol=1e-4)


@quiet
@pytest.mark.parametrize(("axis", "more"), [(0, {}), (None, {}), (1, {"initial": 0.0})])
def test_sums_over_rows_or_everything_are_refused_by_both(axis, more, tmp_path):
    keras = import_keras()
    start = keras.Input((4,))
    tokens = keras.layers.Reshape((2, 2))(keras.layers.Dense(4)(start))
    called = keras.ops.max(tokens, axis=axis, keepdims=True, **more) * tokens
    keras.Model(start, keras.layers.Dense(1)(keras.layers.Flatten()(called))).save(tmp_path / "m.keras")
    with pytest.raises(FairmendError, match=r"layer 'max.*' \(ops.Max\) is over"):
        load_network(tmp_path / "m.keras")
    with pytest.raises(CheckError, match=r'layer "max.*" is not over axes of a row'):
        read_model(tmp_path / "m.keras")


def channels(keras, **options):
    """Groups of channels of two tokens, and the mean of one head times a gate for each."""
    layers, start = keras.layers, keras.Input((4,))
    normed = layers.GroupNormalization(2, name="norm", **options)(layers.Dense(6)(layers.Reshape((2, 2))(start)))
    gates = layers.Reshape((2, 1))(layers.Dense(2, activation="sigmoid")(start))
    return keras.Model(start, layers.GlobalAveragePooling1D()(layers.Multiply()([layers.Dense(1)(normed), gates])))


@quiet
@pytest.mark.parametrize("options", [{}, {"axis": 2, "scale": False}, {"center": False}])
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_groups_of_channels_and_a_shared_head_are_read_by_both(options, suffix, tmp_path):
    keras = import_keras()
    model, path = channels(keras, **options), tmp_path / f"m{suffix}"
    rng = np.random.default_rng(0)
    for variable in model.trainable_weights:
        variable.assign(rng.normal(size=variable.shape))
    model.save(path)
    network, checked = load_network(path), read_model(path)[0]
    assert network_digest(kernel_model(network)) == network_digest(checked)
    rows = rng.normal(size=(20, 4)).astype(np.float32)
    given = model.predict(rows, verbose=0)
    np.testing.assert_allclose(network.logits(rows), given[:, 0], atol=1e-4)
    low, high = enclose_outputs(checked, rows.astype(np.float64))
    assert ((low <= given) & (given <= high)).all()


@quiet
@pytest.mark.parametrize("edit", [option("norm", groups=4), option("norm", axis=1)])
def test_groups_that_do_not_fit_are_refused_by_both(edit, tmp_path):
    channels(import_keras()).save(tmp_path / "m.keras")
    edit_archive(tmp_path / "m.keras", edit)
    with pytest.raises(FairmendError, match=r"GroupNormalization\) has . groups along axis"):
        load_network(tmp_path / "m.keras")
    with pytest.raises(CheckError, match="not over groups of the last axis"):
        read_model(tmp_path / "m.keras")

"""Write the ONNX files of tests/corpus/onnx with the packages that are installed: one command for each environment.

    python tests/corpus/make_onnx.py torch        # both exporters of PyTorch, and onnxscript's optimiser
    python tests/corpus/make_onnx.py keras        # Keras on PyTorch
    python tests/corpus/make_onnx.py skl2onnx
    python tests/corpus/make_onnx.py tf2onnx
    python tests/corpus/make_onnx.py helper       # onnx.helper
    python tests/corpus/make_onnx.py fairmend     # fairmend's own writer

The name of a file says what wrote it: package, version, what is in it. tests/corpus/onnx/README.md lists the
environments. The script runs on Python 3.8 and later, because old releases need it.
"""

import inspect
import os
import re
import sys
import warnings
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "onnx"


def write(name, content):
    (FOLDER / f"{name}.onnx").write_bytes(content)


def make_torch():
    import torch

    version = f"torch-{torch.__version__.split('+')[0]}"
    torch.manual_seed(0)

    def chain(*layers, dtype=torch.float32):
        return torch.nn.Sequential(*layers).to(dtype).eval()

    def linear(*widths, **options):
        return torch.nn.Linear(*widths, **options)

    first, second, nn = (4, 5), (5, 3), torch.nn
    modules = {
        "relu": chain(linear(*first), nn.ReLU(), linear(*second)),
        "leaky": chain(linear(*first), nn.LeakyReLU(0.2), linear(*second)),
        "leaky-default": chain(linear(*first), nn.LeakyReLU(), linear(*second)),
        "tanh": chain(linear(*first), nn.Tanh(), linear(*second)),
        "sigmoid": chain(linear(*first), nn.Sigmoid(), linear(5, 1)),
        "sigmoid-head": chain(linear(*first), nn.ReLU(), linear(5, 1), nn.Sigmoid()),
        "softmax-head": chain(linear(*first), nn.ReLU(), linear(*second), nn.Softmax(dim=1)),
        "softmax-last-axis": chain(linear(*first), nn.ReLU(), linear(*second), nn.Softmax(dim=-1)),
        "prelu": chain(linear(*first), nn.PReLU(), linear(*second)),
        "no-bias": chain(linear(*first, bias=False), nn.ReLU(), linear(*second, bias=False)),
        "float64": chain(linear(*first), nn.ReLU(), linear(*second), dtype=torch.float64),
        "leaky-float64": chain(linear(*first), nn.LeakyReLU(0.2), linear(*second), dtype=torch.float64),
        "dropout": chain(linear(*first), nn.ReLU(), nn.Dropout(0.5), linear(*second)),
        "batch-norm": chain(linear(*first), nn.BatchNorm1d(5), nn.ReLU(), linear(*second)),
        "flatten": chain(nn.Flatten(), linear(*first), nn.ReLU(), linear(*second)),
        "one-layer": chain(linear(4, 1)),
    }
    dynamo = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 6)
    for name, module in modules.items():
        rows = torch.zeros(2, 4, dtype=next(module.parameters()).dtype)
        export_torch(module, rows, f"{version}-torchscript-{name}", {"dynamo": False} if dynamo else {})
        if dynamo:
            export_torch(module, rows, f"{version}-dynamo-{name}", {"dynamo": True, "external_data": False})
    module, rows = modules["relu"], torch.zeros(2, 4)
    named = {"input_names": ["people"], "output_names": ["scores"]}
    old = {"dynamo": False} if dynamo else {}
    for opset in (9, 11, 13):
        export_torch(module, rows, f"{version}-torchscript-opset{opset}", {"opset_version": opset, **old})
    axes = {"dynamic_axes": {"people": {0: "batch"}, "scores": {0: "batch"}}}
    export_torch(module, rows, f"{version}-torchscript-dynamic", {**named, **axes, **old})
    export_torch(module, rows, f"{version}-torchscript-training-names", {"do_constant_folding": False, **named, **old})
    export_torch(module, rows, f"{version}-torchscript-inputs", {"keep_initializers_as_inputs": True, **old})
    if dynamo:
        batch = {"dynamic_shapes": [{0: torch.export.Dim("batch")}], "dynamo": True, "external_data": False}
        export_torch(module, rows, f"{version}-dynamo-dynamic", {**named, **batch})
        plain = {"dynamo": True, "external_data": False, "optimize": False}
        export_torch(module, rows, f"{version}-dynamo-not-optimised", plain)
        wide = chain(linear(4, 80), nn.ReLU(), linear(80, 3))  # small tensors stay in the model
        export_torch(wide, rows, f"{version}-dynamo-external", {"dynamo": True, "external_data": True})
        make_onnxscript(FOLDER / f"{version}-torchscript-training-names.onnx")


def export_torch(module, rows, name, options):
    import torch

    path = FOLDER / f"{name}.onnx"
    if options.get("dynamo"):
        options = {**options, "verbose": False}
    torch.onnx.export(module, (rows,), str(path), **options)
    remove_paths(path)


def remove_paths(path):
    """Take the folders of this machine out of the stack traces that PyTorch stores; all else stays as written."""
    import onnx

    content = path.read_bytes()
    model = onnx.ModelProto.FromString(content)
    assert model.SerializeToString() == content
    parts = [model.graph, *model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info]
    for part in parts:
        for entry in getattr(part, "metadata_props", ()):
            entry.value = re.sub(r'File "[^"]*/(site-packages/)?', 'File "', entry.value)
        part.doc_string = ""
        part.ClearField("doc_string")
    write(path.stem, model.SerializeToString())


def make_onnxscript(path):
    import onnx
    import onnxscript
    import onnxscript.optimizer

    model = onnxscript.optimizer.optimize(onnx.load(path))
    write(f"onnxscript-{onnxscript.__version__}-optimised", model.SerializeToString())


def make_keras():
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    keras.utils.set_random_seed(0)
    for name, last in (("relu", None), ("sigmoid-head", "sigmoid"), ("softmax-head", "softmax")):
        outputs = 1 if last == "sigmoid" else 3
        layers = [keras.Input((4,)), keras.layers.Dense(5, "relu"), keras.layers.Dense(outputs, last)]
        path = FOLDER / f"keras-{keras.__version__}-on-torch-{name}.onnx"
        model = keras.Sequential(layers)
        model(np.zeros((2, 4), np.float32))
        model.export(str(path), format="onnx", verbose=False)
        remove_paths(path)


def people():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 4)).astype(np.float32), rng


def make_skl2onnx():
    import skl2onnx
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    X, _ = people()
    version = f"skl2onnx-{skl2onnx.__version__}"
    small = {"hidden_layer_sizes": (5,), "max_iter": 5, "random_state": 0}
    y = X[:, 0] + X[:, 1] > 0
    three = np.digitize(X[:, 0], [-0.5, 0.5])
    models = {
        "regressor": MLPRegressor(**small).fit(X, X[:, 0]),
        "regressor-tanh": MLPRegressor(activation="tanh", **small).fit(X, X[:, :3]),
        "regressor-logistic": MLPRegressor(activation="logistic", **small).fit(X, X[:, 0]),
        "binary": MLPClassifier(**small).fit(X, y.astype(int)),
        "classes": MLPClassifier(**small).fit(X, three),
        "names": MLPClassifier(**small).fit(X, np.where(y, "yes", "no")),
        "numbers": MLPClassifier(**small).fit(X, 1 - 3 * y.astype(int)),
        "class-names": MLPClassifier(**small).fit(X, np.array(["low", "medium", "high"])[three]),
    }
    for name, model in models.items():
        options = {id(model): {"zipmap": False}} if name in ("binary", "classes") else None
        types = [("X", FloatTensorType([None, 4]))]
        content = skl2onnx.convert_sklearn(model, initial_types=types, options=options).SerializeToString()
        write(f"{version}-{name}", content)
    types = [("X", DoubleTensorType([None, 4]))]
    double = skl2onnx.convert_sklearn(models["regressor"], initial_types=types)
    write(f"{version}-float64", double.SerializeToString())
    options = {id(models["binary"]): {"zipmap": False}}
    double = skl2onnx.convert_sklearn(models["binary"], initial_types=types, options=options)
    write(f"{version}-binary-float64", double.SerializeToString())


def make_tf2onnx():
    import tensorflow as tf
    import tf2onnx

    tf.keras.utils.set_random_seed(0)
    for name, last in (("relu", None), ("sigmoid-head", "sigmoid"), ("softmax-head", "softmax")):
        outputs = 1 if last == "sigmoid" else 3
        layers = [tf.keras.layers.Dense(5, "relu", input_shape=(4,)), tf.keras.layers.Dense(outputs, last)]
        model, _ = tf2onnx.convert.from_keras(tf.keras.Sequential(layers))
        write(f"tf2onnx-{tf2onnx.__version__}-{name}", model.SerializeToString())


def make_helper():
    """Graphs as people write them by hand: typed and raw data, Gemm and MatMul, Constant nodes, attributes."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnx.external_data_helper import convert_model_to_external_data

    parameters = inspect.signature(convert_model_to_external_data).parameters
    everything = {"size_threshold": 0} if "size_threshold" in parameters else {}
    _, rng = people()
    version = f"onnx-{onnx.__version__}"
    arrays = {"W1": rng.normal(size=(4, 5)), "b1": rng.normal(size=5), "W2": rng.normal(size=(5, 3))}
    kinds = {"float32": (np.float32, TensorProto.FLOAT), "float64": (np.float64, TensorProto.DOUBLE)}
    for name, (kind, element) in kinds.items():
        for stored in ("raw", "typed", "constants", "external"):
            tensors = [
                helper.make_tensor(key, element, array.shape, array.astype(kind).flatten().tolist())
                if stored == "typed"
                else numpy_helper.from_array(array.astype(kind), key)
                for key, array in arrays.items()
            ]
            nodes = [
                helper.make_node("MatMul", ["X", "W1"], ["a"]),
                helper.make_node("Add", ["a", "b1"], ["b"]),
                helper.make_node("Relu", ["b"], ["c"]),
                helper.make_node("Gemm", ["c", "W2"], ["Y"], alpha=1.0, transB=0),
            ]
            if stored == "constants":
                nodes = [helper.make_node("Constant", [], [one.name], value=one) for one in tensors] + nodes
            graph = helper.make_graph(
                nodes,
                "by hand",
                [helper.make_tensor_value_info("X", element, [None, 4])],
                [helper.make_tensor_value_info("Y", element, ["batch", 3])],
                [] if stored == "constants" else tensors,
            )
            model = helper.make_model(graph, producer_name="by hand", opset_imports=[helper.make_opsetid("", 13)])
            onnx.checker.check_model(model)
            if stored == "external":
                path = f"{version}-external-{name}.onnx"
                (FOLDER / f"{path}.data").unlink(missing_ok=True)  # onnx appends to a file that exists
                convert_model_to_external_data(model, location=f"{path}.data", **everything)
                onnx.save(model, str(FOLDER / path))
            else:
                write(f"{version}-{stored}-{name}", model.SerializeToString())


def make_fairmend():
    import fairmend
    from fairmend.network import Activation, Affine, Network

    _, rng = people()
    activations = [Activation(name) for name in ("relu", "tanh", "sigmoid", "identity")]
    activations += [Activation("leaky_relu", 0.5), Activation("leaky_relu", 0.01)]
    for activation in activations:
        for dtype in ("float32", "float64"):
            for closing in ("none", "softmax"):
                layers = [
                    Affine(*(rng.normal(size=size).astype(dtype) for size in ((out, width), out)))
                    for width, out in ((4, 5), (5, 3))
                ]
                what = f"{activation.name}-{activation.slope}" if activation.slope else activation.name
                path = FOLDER / f"fairmend-{fairmend.__version__}-{what}-{dtype}-{closing}.onnx"
                Network(layers, [activation], closing=closing).save(path)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations of the exporters
        globals()[f"make_{sys.argv[1]}"]()

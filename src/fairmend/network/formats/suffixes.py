"""Which module reads and writes the files of a suffix or a model in memory, and what to do with all others."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.base.thresholds import open_threshold_classifier
from fairmend.network import Network
from fairmend.network.formats.sklearn import is_estimator, is_net, read_model

# Models in memory: of PyTorch, Keras and scikit-learn; for others, how to get a network.


_KERAS = ("keras", "tf_keras", "tensorflow")
_LINEAR = ("RidgeClassifier", "RidgeClassifierCV", "Perceptron", "LinearSVC")


def read_object(source: Any, example: Any = None) -> Network:
    """Return the network in a PyTorch module, a Keras model or a fitted model of scikit-learn."""
    torch = sys.modules.get("torch")
    module = getattr(source, "module_", source)  # as wrappers in the manner of skorch keep it
    if example is not None and (torch is None or not isinstance(module, torch.nn.Module)):
        raise FairmendError(f"example= is for a PyTorch module, not for {type(source).__name__}")
    # An object of a library can only exist once the library is imported, so none is imported here to find out.
    if any(base.__module__.partition(".")[0] in _KERAS for base in type(source).__mro__):
        from fairmend.network.formats.keras.archive import read_model as read_keras_model

        return read_keras_model(source)
    if torch is not None:
        if is_net(source):
            return read_model(source)
        if isinstance(module, torch.nn.Module):
            from fairmend.network.formats.torch.module import read_module

            return read_module(module, example)
        if type(source).__name__ == "ExportedProgram" and type(source).__module__.startswith("torch."):
            from fairmend.network.formats.torch.module import read_export

            return read_export(source)
    decided = open_threshold_classifier(source)
    if decided is not None:
        return read_object(decided.estimator).at_threshold(decided.threshold)
    if is_estimator(source):
        return read_model(source)
    raise FairmendError(f"cannot read a network from {type(source).__name__}; {_way_out(source)}")


def _way_out(source: Any) -> str:
    """Say what to give instead of an object that holds no network."""
    kinds = {base.__name__ for base in type(source).__mro__ if base.__module__.partition(".")[0] == "sklearn"}
    if kinds & set(_LINEAR):
        return (
            "it gives no probabilities. For its decisions alone, it is a network of one layer: "
            "fairmend.network.Network([fairmend.network.Affine(numpy.atleast_2d(model.coef_), "
            "numpy.atleast_1d(model.intercept_))], [])"
        )
    return (
        f"give the path of a file ({', '.join(MODULES)}), a PyTorch nn.Module, a Keras model, a fitted MLPClassifier, "
        "MLPRegressor or LogisticRegression of scikit-learn, a Pipeline or search with one of these, or a fairmend "
        "Network"
    )


# To support a new suffix, add a line here. The module has `read(path, activation)` and `to_bytes(network)`.
MODULES = {
    ".ckpt": "torch.pth",
    ".h5": "keras.h5",
    ".hdf5": "keras.h5",
    ".keras": "keras.archive",
    ".nnet": "nnet",
    ".onnx": "onnx.file",
    ".pt": "torch.pth",
    ".pt2": "torch.pt2",
    ".pth": "torch.pth",
    ".safetensors": "torch.safetensors",
}

_PICKLE = (
    "Pickles can run any code, so fairmend does not load them. If you made the file yourself, in Python: "
    'fairmend.load_network(joblib.load("FILE")).save("model.onnx")'
)
_SKOPS = (
    "It holds a model of scikit-learn, which is no file that can be checked. In Python: fairmend.load_network("
    'skops.io.load("FILE", trusted=skops.io.get_untrusted_types(file="FILE"))).save("model.onnx")'
)
_SAVED_MODEL = (
    "is a TensorFlow SavedModel, a folder that holds a program. Load it with the code that built it and call "
    'model.save("model.keras"), or convert it to ONNX: '
    "python -m tf2onnx.convert --saved-model FOLDER --output model.onnx"
)
_HINTS = {
    ".pkl": _PICKLE,
    ".pickle": _PICKLE,
    ".joblib": _PICKLE,
    ".skops": _SKOPS,
    ".pb": 'Load the TensorFlow model with the code that built it and call model.save("model.keras")',
    ".tflite": "Give the model from which it was converted",
}


def format_module(path: Path, verb: str) -> Any:
    """Return the module for the suffix of `path`; `verb` (read, write) is for the message where there is none."""
    if verb == "read" and path.is_dir():
        raise FairmendError(f"{path}: {_describe_folder(path)}")
    name = MODULES.get(path.suffix.lower())
    if name is None:
        what = f"files with the suffix {path.suffix!r}" if path.suffix else "a file without a suffix"
        known = _HINTS.get(path.suffix.lower(), "").replace("FILE", path.name)
        hint = f". {known}" if known else ""
        raise FairmendError(f"{path}: cannot {verb} {what}; supported: {', '.join(MODULES)}{hint}")
    return importlib.import_module(f"fairmend.network.formats.{name}")


def check_file(path: Path) -> None:
    """Raise an error that says what is wrong with the file itself, before a parser says it less well."""
    if not path.exists():
        raise FairmendError(f"{path}: no such file")
    if path.is_file() and path.stat().st_size == 0:
        raise FairmendError(f"{path}: the file is empty; save or download it again")
    if not os.access(path, os.R_OK):
        raise FairmendError(f"{path}: no permission to read the file")


def _describe_folder(folder: Path) -> str:
    """Say what a folder is and how to get one file from it."""
    if any((folder / name).is_file() for name in ("saved_model.pb", "saved_model.pbtxt", "keras_metadata.pb")):
        return _SAVED_MODEL.replace("FOLDER", str(folder))
    try:
        models = sorted(file.name for file in folder.iterdir() if file.suffix.lower() in MODULES)
    except OSError:
        models = []
    return f"this is a folder; give the model file in it{f', for example {models[0]}' if models else ''}"

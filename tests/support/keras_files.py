"""Keras itself, where it is installed, and Keras files made by hand as older releases wrote them."""

import io
import json
import os
import warnings
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")  # read when Keras is first imported
# Keras's own: NumPy 2's protocol, deprecated arguments in old files.
quiet = pytest.mark.filterwarnings("ignore")


def import_keras():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("keras", reason="Keras is not installed (extra: dev)")


def predictions(model, X: np.ndarray) -> np.ndarray:
    found = np.asarray(model.predict(X, verbose=0))
    return found[:, 0] if found.shape[1] == 1 else found


def write_h5(path: Path, model: dict | str, weights: dict[str, dict[str, np.ndarray]]) -> Path:
    """A whole-model file: the config, and the arrays of each layer by their names, in order."""
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = model if isinstance(model, str) else json.dumps(model)
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = np.array([name.encode() for name in weights])
        for layer, arrays in weights.items():
            below = group.create_group(layer)
            below.attrs["weight_names"] = np.array([name.encode() for name in arrays], dtype="S")
            for name, array in arrays.items():
                below.create_dataset(name, data=array)
    return path


def dense(name: str, units: int, activation="linear", **options) -> dict:
    config = {"name": name, "units": units, "activation": activation, "use_bias": True, "dtype": "float32"}
    return {"class_name": "Dense", "config": config | options}


def sequential(*layers: dict) -> dict:
    return {"class_name": "Sequential", "config": {"name": "s", "layers": list(layers)}}


def kernel_and_bias(name: str, inputs: int, units: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        f"{name}/kernel:0": rng.normal(size=(inputs, units)).astype(np.float32),
        f"{name}/bias:0": rng.normal(size=units).astype(np.float32),
    }


def functional(**changed) -> dict:
    """A functional model as Keras 2 describes it."""
    layers = [
        {"class_name": "InputLayer", "config": {"name": "in", "batch_input_shape": [None, 4]}, "inbound_nodes": []},
        dense("a", 3, "relu") | {"inbound_nodes": [[["in", 0, 0, {}]]]},
        dense("aside", 7) | {"inbound_nodes": [[["in", 0, 0, {}]]]},
        dense("b", 1) | {"inbound_nodes": changed.pop("b", [[["a", 0, 0, {}]]])},
    ]
    for layer in layers:
        layer["name"] = layer["config"]["name"]
    content = {"name": "m", "layers": layers, "input_layers": [["in", 0, 0]], "output_layers": [["b", 0, 0]]}
    return {"class_name": "Model", "config": content | changed}


FUNCTIONAL_WEIGHTS = {"a": kernel_and_bias("a", 4, 3), "b": kernel_and_bias("b", 3, 1), "aside": {}, "in": {}}


def edit_archive(path: Path, edit=lambda layers: None, edit_weights=lambda file: None) -> Path:
    """Change the layers, by their names, in the config of a .keras file, and its weights, an open HDF5 file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(members["config.json"])
    edit({layer["name"]: layer for layer in config["config"]["layers"]})
    weights = io.BytesIO(members["model.weights.h5"])
    with h5py.File(weights, "r+") as file:
        edit_weights(file)
    members |= {"config.json": json.dumps(config).encode(), "model.weights.h5": weights.getvalue()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path

"""Model formats: one file each, imported when a source of that format turns up.

A format module has `read(path, activation) -> Network` and, if it can be written, `to_bytes(network)`.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from os import PathLike
from pathlib import Path
from typing import Any

from fairmend.atomic import write_atomically
from fairmend.errors import FairmendError
from fairmend.network import Activation, Network, NetworkSource

__all__ = ["read_network", "write_network"]

READERS = {
    ".h5": "keras.h5",
    ".hdf5": "keras.h5",
    ".keras": "keras.archive",
    ".nnet": "nnet",
    ".onnx": "onnx.file",
    ".pt": "torch.pth",
    ".pth": "torch.pth",
    ".safetensors": "torch.safetensors",
}
WRITERS = READERS

_PICKLES = (".pkl", ".pickle", ".joblib")

# torch.nn.LeakyReLU's own default.
_LEAKY_SLOPE = 0.01


def read_network(source: NetworkSource, activation: str | Activation = "relu") -> Network:
    """The network in a file, torch module or estimator; see `fairmend.load_network`."""
    between = parse_activation(activation)
    if isinstance(source, Network):
        return source
    if isinstance(source, (str, PathLike)):
        path = Path(source)
        module = _format_module(path, READERS, "read")
        _check_file(path)
        network: Network = module.read(path, between)
        return network
    # An nn.Module can only exist once torch is imported, so torch is not imported to find out.
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(source, torch.nn.Module):
        from fairmend.network.formats.torch.module import read_module

        return read_module(source)
    sklearn = sys.modules.get("sklearn.neural_network")
    if sklearn is not None and type(source) is sklearn.MLPClassifier:  # a subclass may compute something else
        from fairmend.network.formats.sklearn import read_estimator

        return read_estimator(source)
    raise FairmendError(
        f"cannot read a network from {type(source).__name__}; give the path of a file "
        f"({', '.join(READERS)}), a torch nn.Module, a fitted MLPClassifier of scikit-learn or a fairmend Network"
    )


def write_network(network: Network, path: str | PathLike[str]) -> None:
    """Write `network` in the format that the suffix names, replacing `path` whole or not at all."""
    path = Path(path)
    module = _format_module(path, WRITERS, "write")
    write_atomically(path, module.to_bytes(network))


def parse_activation(activation: str | Activation) -> Activation:
    """'relu', 'leaky_relu' (PyTorch's slope) or 'leaky_relu(0.2)' as an Activation."""
    if isinstance(activation, Activation):
        return activation
    leaky = re.fullmatch(r"leaky_relu(?:\(([^()]*)\))?", activation)
    if leaky is None:
        return Activation(activation)
    try:
        return Activation("leaky_relu", float(leaky[1]) if leaky[1] is not None else _LEAKY_SLOPE)
    except ValueError as error:
        raise FairmendError(f"{activation!r} has no number in its brackets; write leaky_relu(0.01)") from error


def _format_module(path: Path, table: dict[str, str], verb: str) -> Any:
    name = table.get(path.suffix.lower())
    if name is None:
        suffix = f"the suffix {path.suffix!r}" if path.suffix else "a file without a suffix"
        hint = ""
        if path.suffix.lower() in _PICKLES:
            hint = '. Pickles can run any code. In Python: fairmend.load_network(estimator).save("model.onnx")'
        raise FairmendError(f"{path}: cannot {verb} {suffix}; supported: {', '.join(table)}{hint}")
    return importlib.import_module(f"fairmend.network.formats.{name}")


def _check_file(path: Path) -> None:
    """Say what is wrong with the file itself before a format's parser says it less well."""
    if path.is_dir():
        raise FairmendError(f"{path}: is a directory; give the model file in it")
    if not path.exists():
        raise FairmendError(f"{path}: no such file")
    if path.is_file() and path.stat().st_size == 0:
        raise FairmendError(f"{path}: the file is empty; save or download it again")
    if not os.access(path, os.R_OK):
        raise FairmendError(f"{path}: no permission to read the file")

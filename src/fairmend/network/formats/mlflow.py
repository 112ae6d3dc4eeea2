"""Models of MLflow: the file in a model folder, and folders that a URI of MLflow names.

A model folder holds a file MLmodel, which names a file for each flavor. It is read without MLflow, if that file is of a
format that fairmend reads: an ONNX file, a Keras file, an exported program or a pipeline of scikit-learn. Pickles,
which could run any code, are refused by name, or opened by commands with --trust-pickle. A URI (models:/name/1,
runs:/id/path) needs the extra mlflow, which downloads the folder.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from os import PathLike
from pathlib import Path
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.base.paths import MODEL_DESCRIPTION, is_model_folder, is_model_uri, require_inside
from fairmend.base.text import first_line

_LONGEST = 1_000_000  # bytes of an MLmodel file
_FILES = {  # by flavor, the best first: the key that names a file or a folder, its default, and what is read there
    "onnx": ("data", "model.onnx", (".onnx",)),
    "keras": ("data", "data", (".keras", ".h5")),
    "tensorflow": ("data", "data", (".keras", ".h5")),
    "pytorch": ("model_data", "data", (".pt2",)),
    "sklearn": ("pickled_model", "model.pkl", (".skops", ".pkl")),
}
_WAYS = {  # for files that are not read, by flavor
    "tensorflow": 'In Python: mlflow.tensorflow.load_model(FOLDER).save("model.keras")',
    "pytorch": 'In Python: fairmend.load_network(mlflow.pytorch.load_model(FOLDER)).save("model.onnx")',
}
_OTHER = 'Load the model with mlflow and save it as one file, for example model.save("model.keras")'


def model_file(source: str | PathLike[str]) -> Path:
    """Return the model file that a URI or a model folder of MLflow holds; any other path as it is."""
    path = _download(source) if isinstance(source, str) and is_model_uri(source) else Path(source)
    return _file_in(path, source) if is_model_folder(path) else path


def _download(uri: str) -> Path:
    """Return the folder that a URI names, downloaded into a folder that is deleted at the end of the program."""
    mlflow = require_mlflow(f"{uri}: reading a model from MLflow")
    target = tempfile.mkdtemp(prefix="fairmend-mlflow-")
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    try:
        found = Path(mlflow.artifacts.download_artifacts(artifact_uri=uri, dst_path=target))
    except Exception as error:  # MLflow raises errors of its stores, of HTTP and of databases
        raise FairmendError(f"{uri}: MLflow cannot download the model ({first_line(error)})") from error
    if found.is_dir() and not is_model_folder(found):
        raise FairmendError(f"{uri}: the folder holds no file {MODEL_DESCRIPTION}; give the URI of a model")
    return found


def require_mlflow(what: str) -> Any:
    """Return the module mlflow; refuse `what` if it is not installed."""
    try:
        import mlflow
    except ImportError as error:
        raise FairmendError(f"{what} needs mlflow: pip install 'fairmend[mlflow]'") from error
    return mlflow


def _file_in(folder: Path, source: object) -> Path:
    """Return the file of the first flavor that can be read."""
    flavors = _flavors(folder / MODEL_DESCRIPTION)
    missing = ""
    for flavor, (key, default, suffixes) in _FILES.items():
        if flavor not in flavors:
            continue
        named = flavors[flavor].get(key, default)
        path = folder / named
        require_inside(path, folder)
        if not path.exists():
            missing = missing or named
        found = [path] if path.is_file() else sorted(path.iterdir()) if path.is_dir() else []
        readable = [each for each in found if each.suffix.lower() in suffixes and each.is_file()]
        if len(readable) == 1:
            return readable[0]
    if missing:
        raise FairmendError(
            f"{source}: the MLflow model folder names {missing!r:.80}, which is not there; log it again"
        )
    way = next((way for flavor, way in _WAYS.items() if flavor in flavors), _OTHER)
    kinds = ", ".join(name for name in flavors if name != "python_function") or "none"
    raise FairmendError(
        f"{source}: is an MLflow model folder without a file that fairmend reads (its flavors: {kinds:.200}). "
        f"{way.replace('FOLDER', repr(str(source)))}"
    )


def _flavors(path: Path) -> dict[str, dict[str, str]]:
    """Return the texts under each flavor: MLflow writes a line for each, indented by two blanks for each level."""
    try:
        text = path.read_bytes()[:_LONGEST].decode("utf-8", errors="replace")
    except OSError as error:
        raise FairmendError(f"{path}: cannot be read ({error.strerror or error})") from error
    flavors: dict[str, dict[str, str]] = {}
    inside, flavor = False, ""
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip(" "))
        key, colon, value = line.strip().partition(":")
        if depth == 0:
            inside = line.rstrip() == "flavors:"
        elif inside and depth == 2 and colon and not value:
            flavor = key
            flavors[flavor] = {}
        elif inside and depth == 4 and colon and flavor and value.strip() not in ("", "null"):
            flavors[flavor][key] = value.strip().strip("'\"")
    return flavors

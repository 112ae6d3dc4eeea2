"""Keras models in memory, read through the file that Keras saves for them: what is proven is what Keras can load."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.network import Network
from fairmend.network.form import Form
from fairmend.network.formats.keras import archive, h5
from fairmend.network.formats.keras.functions import major_version

_LIBRARIES = ("keras", "tf_keras", "tensorflow")


def read_model(model: Any) -> Network:
    """Return the network in a Keras model; it is not changed."""
    what = f"the Keras model {str(getattr(model, 'name', type(model).__name__))[:80]!r}"
    if not hasattr(model, "save") or not hasattr(model, "layers"):
        raise FairmendError(f"{type(model).__name__} is a part of Keras, not a model: give a keras.Model")
    if not getattr(model, "built", True):
        raise FairmendError(f"{what} has no weights yet: begin it with keras.Input((columns,)), or call it once")
    suffix = ".keras" if _keras_version(model) == 3 else ".h5"  # Keras 2 may not know .keras
    content = _saved(model, suffix, what)
    network = (archive if suffix == ".keras" else h5).read_content(content, what)
    assert network.form is not None
    form = KerasModelForm((".keras", ".h5", ".hdf5"), suffix, network.form, model)
    return Network.from_nodes(network.nodes, network.closing, network.threshold, form)


@dataclass(frozen=True, eq=False)
class KerasModelForm:
    """The file that Keras saved for a model, and the model, whose library loads and saves others."""

    suffixes: tuple[str, ...]
    own: str
    file: Form
    model: Any

    def to_bytes(self, network: Network, suffix: str) -> bytes:
        """Return the file with the weights of `network`."""
        if suffix == self.own:
            return self.file.to_bytes(network, suffix)
        return _saved(self.to_module(network), suffix, "the repaired model")

    def to_module(self, network: Network) -> Any:
        """Return a copy of the model, of its own class and with its compile settings, with the weights of `network`."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"model{self.own}")
            path.write_bytes(self.file.to_bytes(network, self.own))
            try:
                return _library(self.model).models.load_model(path)
            except (TypeError, ValueError) as error:
                raise FairmendError(
                    f"Keras cannot load the repaired model ({str(error).splitlines()[0][:200]}). Save it with "
                    'network.save("model.keras") and load it with your custom_objects'
                ) from error


def _saved(model: Any, suffix: str, what: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"model{suffix}")
        try:
            model.save(path)
        except (NotImplementedError, TypeError, ValueError) as error:
            raise FairmendError(f"{what} cannot be saved by Keras ({str(error).splitlines()[0][:200]})") from error
        return path.read_bytes()


def _library_name(source: Any) -> str | None:
    roots = (base.__module__.partition(".")[0] for base in type(source).__mro__)
    return next((root for root in roots if root in _LIBRARIES), None)


def _library(model: Any) -> Any:
    """Return the Keras that a model belongs to, which is imported, as the model exists."""
    name = _library_name(model)
    library = sys.modules[name or "keras"]
    return library.keras if name == "tensorflow" else library


def _keras_version(model: Any) -> int | None:
    return major_version(getattr(_library(model), "__version__", None))

"""Model formats: how networks are read from files and objects, and written to files.

`suffixes` maps the suffix of a file to the module that reads and writes it: add a suffix there. `objects` reads models
in memory. `mlflow` finds the file in a model folder of MLflow. A format module has `read(path, activation) -> Network`
and `to_bytes(network) -> bytes`, and is imported when a file with its suffix is read or written. `chain` turns the
layers that a format found into a Network.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.base.files import write_atomically
from fairmend.network import Activation, Affine, Network, NetworkSource
from fairmend.network.form import Form, FormError
from fairmend.network.formats.mlflow import model_file
from fairmend.network.formats.suffixes import check_file, format_module, read_object
from fairmend.network.operations.elementwise import parse_activation

__all__ = ["form_changes", "read_network", "require_room", "without_folds", "write_network"]

# The formats that fairmend writes any network to.
_GRAPHS = (".onnx", ".pth", ".pt", ".ckpt", ".safetensors", ".keras", ".h5", ".hdf5")
_logger = logging.getLogger(__name__)


def read_network(source: NetworkSource, activation: str | Activation | None = None, example: Any = None) -> Network:
    """Return the network in a file or object; see `fairmend.load_network`."""
    between = None if activation is None else parse_activation(activation)
    if example is not None and isinstance(source, Network | str | PathLike):
        raise FairmendError("example= is for a PyTorch module, not for a file or a network")
    if isinstance(source, Network):
        return source
    if isinstance(source, (str, PathLike)):
        path = model_file(source)
        module = format_module(path, "read")
        check_file(path)
        network: Network = module.read(path, between)
        return network
    return read_object(source, example)


def write_network(network: Network, path: str | PathLike[str], keep_form: bool = True) -> str:
    """Write `network` in the format that the suffix names, replacing `path` whole or not at all.

    In the format that it was read from, the file keeps its form: only the weights change. A network that does not fit
    into that form is written as fairmend writes others, with a warning; return why, or "".
    """
    path = Path(path)
    module = format_module(path, "write")
    content, why = None, ""
    form = network.form if network.form is not None and path.suffix.lower() in network.form.suffixes else None
    if keep_form and form is not None:
        try:
            content = _in_form(network, form, path.suffix.lower())
        except FormError as error:
            why = str(error)
            _logger.warning("%s: %s; the file keeps the weights, but not the form of the original", path, error)
    if content is None:
        if not network.is_chain and path.suffix.lower() not in _GRAPHS:
            raise FairmendError(
                f"{path}: {network} is not a chain of layers; a {path.suffix} file can hold it only if it came from "
                "one. Save it as .onnx"
            )
        plain_bytes: Callable[[Network], bytes] = getattr(form, "plain_bytes", module.to_bytes)
        content = plain_bytes(without_folds(network))
    write_atomically(path, content)
    return why


def form_changes(form: Form, path: Path) -> str:
    """Say what a program that runs the original must change to run a file in fairmend's own form; "" if unknown."""
    changes_in: Callable[[bytes], str] | None = getattr(form, "changes_in", None)
    return "" if changes_in is None else changes_in(path.read_bytes())


def require_room(network: Network, path: str | PathLike[str]) -> None:
    """Refuse a network whose file cannot hold a repaired one, before the work: a repair may change every layer.

    An exported program cannot, if layers share their numbers.
    """
    suffix = Path(path).suffix.lower()
    if suffix in _GRAPHS or network.form is None or suffix not in network.form.suffixes:
        return
    changed = network.with_affines([Affine(affine.weight, affine.bias + 1) for affine in network.affines])
    try:
        network.form.to_bytes(changed, suffix)
    except FormError as error:
        raise FairmendError(
            f"{path}: {error}, so the file cannot hold a repaired network; export the model with weights of its own "
            "for each layer, or to ONNX"
        ) from error


def without_folds(network: Network) -> Network:
    """Return the network with the norms beside its affine layers folded into them."""
    nodes = [
        replace(node, operation=Affine(node.operation.weight, node.operation.bias))
        if isinstance(node.operation, Affine) and not node.operation.is_fixed  # no file has a place for that one
        else node
        for node in network.nodes
    ]
    return Network.from_nodes(nodes, network.closing, network.threshold, rescaling=network.rescaling)


def _in_form(network: Network, form: Form, suffix: str) -> bytes:
    """Return the file in a form; it is read back, because what is proven must be the network in it."""
    content = form.to_bytes(network, suffix)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, f"model{suffix}")
        copy.write_bytes(content)
        found = read_network(copy)
    scored = None if network.closing == "none" else network.rescaling  # else a program computes scores, not the file
    if (found.nodes, found.closing, found.rescaling) != (network.nodes, network.closing, scored):
        raise FormError(f"{network} does not fit the original")
    return content

"""Any format, with fairmend's own loader in the place of its runtime: the checker must read the network it reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from fairmend.prove import certificate
from fairmend.prove.certificate import identify
from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import Model, weights_digest
from fairmend_check.readers.read_model import read_model
from support.fuzzing import nnet, onnx, pth
from support.fuzzing.file_format import FileFormat, RuntimeRefusal

STATE_DICTS = (".pth", ".safetensors")


def disagreement(model: Model, content: bytes, path: Path) -> str | None:
    """Say whether the loader reads another network."""
    del content
    try:
        network = load_network(path, "relu")
    except FairmendError as error:
        raise RuntimeRefusal(str(error)) from error
    same = weights_digest(model) == certificate.weights_digest(network)
    return None if same else f"the loader reads {[affine.weight.tolist() for affine in network.affines]}"


def read(path: Path) -> Model:
    """Read a file as the checker does; a state dict with the steps in a certificate of the loader."""
    network = None
    if path.suffix in STATE_DICTS:
        try:
            network = identify(load_network(path, "relu"))["network"]
        except FairmendError as error:
            raise CheckError(str(error)) from error
    return read_model(path, network)[0]


def against_loader(form: FileFormat) -> FileFormat:
    """Return the format with the loader as its runtime."""
    return replace(form, name=f"{form.name}-loader", disagreement=disagreement, read=read)


NNET, ONNX, PTH, CHECKPOINT = map(against_loader, (nnet.FORMAT, onnx.FORMAT, pth.FORMAT, pth.FORMAT_CHECKPOINT))

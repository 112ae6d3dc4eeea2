""".pth and .pt files: a state dict, read without running the pickle that holds it."""

from __future__ import annotations

import io
import re
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Network
from fairmend.network.formats.torch.lightning import new_checkpoint
from fairmend.network.formats.torch.pickle_limits import check_pickles
from fairmend.network.formats.torch.state_dict import (
    NESTED,
    NOTE,
    StateDictForm,
    form_of,
    from_tensors,
    to_note,
    to_tensors,
)
from fairmend.network.formats.torch.steps import Tensors

_INSTEAD = "save the weights alone, torch.save(model.state_dict(), path), or export the model to ONNX"


def read(path: Path, activation: Activation | None) -> Network:
    """Return the network in a state dict or checkpoint, with `activation` unless fairmend's note names others."""
    content, checkpoint = _state_dict_in(path)
    tensors = _arrays(content, path)
    form = StateDictForm(tensors, getattr(content, "_metadata", None), checkpoint=checkpoint)
    return from_tensors(tensors, _note(content), activation, str(path), form)


def contents(path: Path) -> tuple[Tensors, str | None]:
    """Return the tensors of a file, and fairmend's note in it."""
    content, _ = _state_dict_in(path)
    return _arrays(content, path), _note(content)


def _state_dict_in(path: Path) -> tuple[Mapping[Any, Any], dict[str, Any] | None]:
    """Return the state dict in a file, and what is beside it in a checkpoint: its own place there is None."""
    check_pickles(path)
    content = _load(path)
    if not _is_archive(path):
        raise FairmendError(
            f"{path}: not a .pth file of PyTorch 1.6 or later, so fairmend check could not read it. Save it again: "
            "torch.save(torch.load(path, weights_only=True), path)"
        )
    checkpoint: dict[str, Any] | None = None
    if isinstance(content, Mapping):
        nested = [key for key in NESTED if isinstance(content.get(key), Mapping)]
        if len(nested) > 1:
            raise FairmendError(f"{path}: holds two state dicts, {nested[0]!r} and {nested[1]!r}; {_INSTEAD}")
        if nested:
            checkpoint = {str(key): None if key == nested[0] else value for key, value in content.items()}
            content = content[nested[0]]
    if not isinstance(content, Mapping) or not content:
        raise FairmendError(f"{path}: holds {type(content).__name__}, not a state dict of tensors; {_INSTEAD}")
    return content, checkpoint


def _arrays(content: Mapping[Any, Any], path: Path) -> dict[str, npt.NDArray[Any]]:
    tensors: dict[str, npt.NDArray[Any]] = {}
    for key, value in content.items():
        if not isinstance(key, str) or not isinstance(value, torch.Tensor):
            raise FairmendError(f"{path}: {str(key)[:80]!r} is {type(value).__name__}, not a tensor; {_INSTEAD}")
        tensors[key] = to_numpy(value, f"{path}: {key}")
    return tensors


def _note(content: Mapping[Any, Any]) -> str | None:
    metadata = getattr(content, "_metadata", None)
    note = metadata.get(NOTE) if isinstance(metadata, Mapping) else None
    return note if isinstance(note, str) else None


def to_bytes(network: Network) -> bytes:
    """Return a state dict with fairmend's note in its metadata.

    It has the keys of the file or module that the network came from, BatchNorm's among them, so that the module loads
    it with strict=True. A network from elsewhere has its affine layers' keys alone.
    """
    return _saved(_state_dict(network))


def to_checkpoint(network: Network) -> bytes:
    """Return a .ckpt file: all that the original held, with the new weights in its state dict."""
    form = form_of(network)
    if form.part is None:
        return _saved({**new_checkpoint(form.module), "state_dict": _state_dict(network)})
    return _saved({**(form.checkpoint or {}), form.part: _state_dict(network)})


def _saved(content: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def _state_dict(network: Network) -> OrderedDict[str, torch.Tensor]:
    """Return all tensors, with fairmend's note in the metadata."""
    versions = form_of(network).versions
    tensors: OrderedDict[str, torch.Tensor] = OrderedDict(
        (key, torch.tensor(array)) for key, array in to_tensors(network).items()
    )
    # Where torch itself keeps what is not a tensor; load_state_dict ignores entries it does not know.
    versions = versions if isinstance(versions, Mapping) else {}
    tensors._metadata = OrderedDict({**versions, NOTE: to_note(network)})  # type: ignore[attr-defined]
    return tensors


def to_numpy(tensor: torch.Tensor, where: str) -> npt.NDArray[Any]:
    """Return a tensor on any device as an array; refuse dtypes other than float32 and float64 by name."""
    name = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64):
        raise FairmendError(f"{where} is {name}; fairmend computes in float32 or float64: call model.float() first")
    if tensor.is_meta or tensor.layout is not torch.strided or tensor.is_quantized:
        raise FairmendError(f"{where} is not a plain dense tensor ({name}, {tensor.layout}, on {tensor.device})")
    return np.asarray(tensor.detach().cpu().resolve_conj().resolve_neg().numpy())


def _is_archive(path: Path) -> bool:
    """Return whether torch reads the file as a zip archive, as it writes them since 1.6."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\3\4"


def _load(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a TorchScript archive warns before it fails; the error says it all
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged file makes the unpickler raise, it is the file's fault
        text = str(error)
        if "TorchScript" in text:
            raise FairmendError(f"{path}: this is a TorchScript archive, which is a program; {_INSTEAD}") from error
        culprit = re.search(r"GLOBAL ([\w.]+)|[Uu]nsupported (?:class|operand)\W+(\S+)", text)
        if culprit and not _is_damage(culprit[2]):
            raise FairmendError(
                f"{path}: holds a pickled object ({culprit[1] or culprit[2]}), not only tensors. Loading it would run "
                "code from the file, which fairmend never does. In Python, pass the module itself, "
                f"fairmend.load_network(model), or {_INSTEAD}"
            ) from error
        reason = (text.strip().splitlines() or [type(error).__name__])[-1].strip()
        if culprit or reason.isdigit():  # the number of a byte that is no opcode, or of one out of place
            reason = "its pickle is damaged"
        raise FairmendError(f"{path}: not a readable PyTorch file ({reason}); {_INSTEAD}") from error


def _is_damage(operand: str | None) -> bool:
    """Return whether an operand that the unpickler refuses is not a pickle opcode."""
    import pickletools

    opcodes = {opcode.code for opcode in pickletools.opcodes}
    return operand is not None and operand.isdigit() and chr(int(operand)) not in opcodes

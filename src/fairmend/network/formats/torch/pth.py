""".pth and .pt files: a state dict, read without running the pickle that holds it."""

from __future__ import annotations

import io
import pickletools
import re
import sys
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import torch

from fairmend.base.errors import FairmendError
from fairmend.network import Activation, Network
from fairmend.network.formats.torch.state_dict import (
    NESTED,
    NOTE,
    StateDictForm,
    form_of,
    from_tensors,
    to_note,
    to_tensors,
)

# Refuse a .pth file whose pickle would keep PyTorch busy for ever.
#
# A pickle can name a tuple that it has already built as a part of the next one, twice, and so on. A hundred such steps
# fit into 549 bytes, and the hash of the last tuple, as the key of a dict, takes 2^100 steps in code that no signal
# interrupts.


_MOST = 100_000  # parts of one tuple, counted as often as it contains them
_PICKLES_OF_OLD_FILES = 5  # before the numbers: magic number, protocol, system, state dict, keys
_PUT = ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE")
_GET = ("BINGET", "LONG_BINGET", "GET")
_MARK = -1


def check_pickles(path: Path) -> None:
    """Raise an error if a pickle that `torch.load` reads from the file builds a tuple of too many parts."""
    try:
        with path.open("rb") as file:
            if file.read(4) == b"PK\3\4":  # how PyTorch decides too
                _check_pickle(torch._C.PyTorchFileReader(str(path)).get_record("data.pkl"), path)
                return
            file.seek(0)
            for _ in range(_PICKLES_OF_OLD_FILES):
                _check_pickle(file, path)
    except (OSError, RuntimeError, ValueError, IndexError, KeyError):
        return  # a damaged file: PyTorch stops at the same place and names the damage


def _check_pickle(pickle: bytes | BinaryIO, path: Path) -> None:
    """Follow the sizes of all values on the pickle's stack, without building any."""
    stack: list[int] = []
    memo: dict[Any, int] = {}
    for opcode, argument, _ in pickletools.genops(pickle):
        if opcode.name in _PUT:
            memo[len(memo) if argument is None else argument] = stack[-1]
        elif opcode.name in _GET:
            stack.append(memo[argument])
        elif opcode.name == "MARK":
            stack.append(_MARK)
        elif opcode.name == "DUP":
            stack.append(stack[-1])
        else:
            size = 1 + sum(_popped(opcode, stack))
            keeps = opcode.name.startswith("TUPLE") or opcode.name == "REDUCE"
            if keeps and size > _MOST:
                raise FairmendError(
                    f"{path}: its pickle contains nested tuples of more than {_MOST:,} parts, which no state dict "
                    "needs; save the weights alone: torch.save(model.state_dict(), path)"
                )
            stack += [size if keeps else 1] * len(opcode.stack_after)


def _popped(opcode: pickletools.OpcodeInfo, stack: list[int]) -> list[int]:
    """Take from the stack what an opcode takes, and return the sizes."""
    count = len(opcode.stack_before)
    if pickletools.markobject in opcode.stack_before:
        mark = len(stack) - 1 - stack[::-1].index(_MARK)
        count = opcode.stack_before.index(pickletools.markobject) + len(stack) - mark
    if count > len(stack):
        raise IndexError("the pickle takes more than there is")
    found = stack[len(stack) - count :]
    del stack[len(stack) - count :]
    return [size for size in found if size != _MARK]


# Checkpoints of Lightning for modules in memory: what load_from_checkpoint needs beside the state dict.


_PACKAGES = ("lightning", "pytorch_lightning")


def new_checkpoint(module: Any) -> dict[str, Any]:
    """Return a checkpoint whose state dict is yet to come (None).

    For a LightningModule it names the version of Lightning, and the hyperparameters that are plain values: others
    would make the file run code when it is loaded, and are given to load_from_checkpoint instead.
    """
    checkpoint: dict[str, Any] = {"state_dict": None}
    kinds = {base.__module__.partition(".")[0] for base in type(module).__mro__ if base.__name__ == "LightningModule"}
    package = next((name for name in _PACKAGES if name in kinds), None)
    if package is None:
        return checkpoint
    checkpoint["pytorch-lightning_version"] = str(sys.modules[package].__version__)
    parameters = dict(getattr(module, "hparams", {}))
    plain = {str(key): value for key, value in parameters.items() if _is_plain(value)}
    if plain:
        checkpoint |= {"hparams_name": "kwargs", "hyper_parameters": plain}
    return checkpoint


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(each) for key, each in value.items())
    return value is None or isinstance(value, bool | int | float | str)


_INSTEAD = "save the weights alone, torch.save(model.state_dict(), path), or export the model to ONNX"


def read(path: Path, activation: Activation | None) -> Network:
    """Return the network in a state dict or checkpoint, with `activation` unless fairmend's note names others."""
    content, checkpoint = _state_dict_in(path)
    tensors = _arrays(content, path)
    form = StateDictForm(tensors, getattr(content, "_metadata", None), checkpoint=checkpoint)
    return from_tensors(tensors, _note(content), activation, str(path), form)


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

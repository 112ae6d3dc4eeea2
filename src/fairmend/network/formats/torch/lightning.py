"""Checkpoints of Lightning for modules in memory: what load_from_checkpoint needs beside the state dict."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

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

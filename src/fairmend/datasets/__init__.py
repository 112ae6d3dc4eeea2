"""The four datasets of the paper: raw files to the encoded arrays that its networks read."""

import os

from fairmend.datasets import adult, bank, compas, german
from fairmend.datasets._common import Dataset
from fairmend.errors import FairmendError

__all__ = ["NAMES", "Dataset", "load"]

_LOADERS = {"adult": adult.load, "compas": compas.load, "german": german.load, "bank": bank.load}
NAMES = tuple(_LOADERS)


def load(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Load a dataset by name from the folder that holds its raw files, by default that of FAIRMEND_DATA."""
    if name not in _LOADERS:
        raise FairmendError(f"unknown dataset {name!r}; there are {', '.join(NAMES)}")
    return _LOADERS[name](data_dir)

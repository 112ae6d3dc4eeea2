"""The four datasets of the paper: raw files to the encoded arrays that its networks read, and such networks."""

import os

from fairmend.datasets import adult, bank, compas, german
from fairmend.datasets._common import Dataset
from fairmend.datasets._train import train_biased
from fairmend.errors import FairmendError

__all__ = ["NAMES", "Dataset", "load", "train_biased"]

_LOADERS = {"adult": adult.load, "compas": compas.load, "german": german.load, "bank": bank.load}
NAMES = tuple(_LOADERS)


def load(name: str, data_dir: str | os.PathLike[str] | None = None, download: bool = True) -> Dataset:
    """Load a dataset by name from the folder that holds its raw files, by default that of FAIRMEND_DATA.

    Where no folder is named, the files come from the cache (the system's, or FAIRMEND_CACHE), and what is not there is
    downloaded into it, unless ``download`` is False. Files in the cache must have their published checksums.
    """
    if name not in _LOADERS:
        raise FairmendError(f"unknown dataset {name!r}; there are {', '.join(NAMES)}")
    return _LOADERS[name](data_dir, download)

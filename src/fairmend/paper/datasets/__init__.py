"""The four data sets of the paper, encoded as its networks read them, and networks trained on them."""

import os

from fairmend.base.errors import FairmendError
from fairmend.paper.datasets._raw import Dataset
from fairmend.paper.datasets._sets import load_adult, load_bank, load_compas, load_german, train_biased

__all__ = ["NAMES", "Dataset", "load", "train_biased"]

_LOADERS = {"adult": load_adult, "compas": load_compas, "german": load_german, "bank": load_bank}
NAMES = tuple(_LOADERS)


def load(name: str, data_dir: str | os.PathLike[str] | None = None, download: bool = True) -> Dataset:
    """Load a data set by name from the folder with its raw files, `data_dir` or the environment variable FAIRMEND_DATA.

    Without a folder, the files come from the cache (FAIRMEND_CACHE, or the system's folder for caches). Missing files
    are downloaded into the cache, unless `download` is False; this needs the extra "bench". Files in the cache must
    have their published checksums.
    """
    if name not in _LOADERS:
        raise FairmendError(f"unknown dataset {name!r}; there are {', '.join(NAMES)}")
    return _LOADERS[name](data_dir, download)

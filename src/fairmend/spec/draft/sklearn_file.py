"""A fitted pipeline from a file. Pickles run code when they are read, so they are only read where that is allowed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from fairmend.errors import FairmendError

# Inert types that fitted pipelines hold and skops leaves to its user to trust.
_TRUSTED = {
    "numpy.dtype",
    "numpy.number",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
}
_PICKLES = (".joblib", ".pkl", ".pickle")


def read_pipeline(path: Path, trust_pickle: bool = False) -> tuple[Any, list[str]]:
    """Return the object in a .skops file, or in a pickle that is trusted, and what was warned of on the way."""
    suffix = path.suffix.lower()
    if suffix not in (".skops", *_PICKLES):
        raise FairmendError(f"{path}: a pipeline is read from {', '.join(('.skops', *_PICKLES))} files")
    if path.is_dir():
        raise FairmendError(f"{path}: is a directory; give the file of the pipeline in it")
    if not path.exists():
        raise FairmendError(f"{path}: no such file")
    if suffix in _PICKLES and not trust_pickle:
        raise FairmendError(
            f"{path}: a {suffix} file can run any code when it is read, so fairmend does not open it. Save the "
            'pipeline with skops instead (skops.io.dump(pipeline, "pipeline.skops")), or say --trust-pickle if you '
            "made the file yourself"
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = _read_skops(path) if suffix == ".skops" else _read_pickle(path)
    return found, [str(warning.message) for warning in caught if "ersion" in str(warning.message)]


def _read_skops(path: Path) -> Any:
    try:
        from skops import io
    except ImportError as error:
        raise FairmendError(f'{path}: reading .skops files needs skops; pip install "fairmend[sklearn]"') from error
    try:
        # What skops trusts by itself: types of scikit-learn, NumPy and SciPy, and Python's own plain ones.
        asked = set(io.get_untrusted_types(file=path))
        unknown = sorted(asked - _TRUSTED)
        if unknown:
            raise FairmendError(
                f"{path}: holds {', '.join(unknown)}, which is not scikit-learn's or NumPy's and is not loaded; "
                "save the preprocessing alone, without the model or your own classes"
            )
        return io.load(path, trusted=sorted(asked))
    except FairmendError:
        raise
    except Exception as error:  # whatever a damaged or forged archive leads to
        raise FairmendError(f"{path}: is not a readable .skops file ({_reason(error)}); save it again") from error


def _read_pickle(path: Path) -> Any:
    import joblib

    try:
        return joblib.load(path)
    except Exception as error:  # a pickle can fail in any way
        raise FairmendError(f"{path}: cannot be read ({_reason(error)}); save it again, best with skops") from error


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__

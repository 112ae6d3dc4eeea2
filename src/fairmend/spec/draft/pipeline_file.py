"""Read a fitted pipeline from a file. Reading a pickle can run any code, so it needs the user's permission."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from fairmend.base.errors import FairmendError

# Harmless types in fitted pipelines that skops does not trust by itself.
_TRUSTED = {
    "numpy.dtype",
    "numpy.number",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
}
_PICKLES = (".joblib", ".pkl", ".pickle")


def read_pipeline(path: Path, trust_pickle: bool = False) -> tuple[Any, list[str]]:
    """Return the object in a .skops file or a trusted pickle, and warnings about library versions."""
    suffix = path.suffix.lower()
    if suffix not in (".skops", *_PICKLES):
        raise FairmendError(
            f"{path}: not a pipeline file. Pass a .skops, {', '.join(_PICKLES[:-1])} or {_PICKLES[-1]} file."
        )
    if path.is_dir():
        raise FairmendError(f"{path}: this is a folder. Pass the pipeline file in it.")
    if not path.exists():
        raise FairmendError(f"{path}: no such file")
    if suffix in _PICKLES and not trust_pickle:
        raise FairmendError(
            f"{path}: reading a {suffix} file can run any code, so fairmend does not open it. Save the pipeline with "
            'skops instead: skops.io.dump(pipeline, "pipeline.skops"). Or pass --trust-pickle if you created the file '
            "yourself."
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = _read_skops(path) if suffix == ".skops" else _read_pickle(path)
    return found, [str(warning.message) for warning in caught if "ersion" in str(warning.message)]


def _read_skops(path: Path) -> Any:
    try:
        from skops import io
    except ImportError as error:
        raise FairmendError(f'{path}: reading .skops files needs skops: pip install "fairmend[sklearn]"') from error
    try:
        # skops itself trusts the types of scikit-learn, NumPy and SciPy, and plain Python types.
        asked = set(io.get_untrusted_types(file=path))
        unknown = sorted(asked - _TRUSTED)
        if unknown:
            raise FairmendError(
                f"{path}: contains {', '.join(unknown)}, which is not part of scikit-learn or NumPy and is not loaded. "
                "Save only the preprocessing, without the model or your own classes."
            )
        return io.load(path, trusted=sorted(asked))
    except FairmendError:
        raise
    except Exception as error:  # a damaged or forged archive can cause any error
        raise FairmendError(f"{path}: not a readable .skops file ({_reason(error)}). Save it again.") from error


def _read_pickle(path: Path) -> Any:
    import joblib

    try:
        return joblib.load(path)
    except Exception as error:  # a pickle can fail in any way
        raise FairmendError(
            f"{path}: cannot be read ({_reason(error)}). Save it again, preferably with skops."
        ) from error


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__

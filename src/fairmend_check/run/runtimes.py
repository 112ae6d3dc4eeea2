"""Runs a model file in the program that people run such files with: ONNX Runtime, or Keras on one of its backends.

This is a process of its own, started by `run`. It reads a job (JSON) from the file that it is given, runs the model on
the rows that lie beside it, and writes the outputs there. It is the only part of the checker that imports anything but
NumPy and the standard library, and nothing that it says can make a certificate valid.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

JOB, ROWS, OUTPUTS, ANSWER = "job.json", "rows.npy", "outputs.npz", "answer.json"
MAX_FILE = 2**28  # bytes that this process may write into a file
_FEW_BATCHES = 8

_ELEMENTS = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
}


def main(folder: Path) -> None:
    """Run the job in a folder and leave the answer there: a version and outputs, or an error."""
    _limit()
    job = json.loads((folder / JOB).read_text(encoding="utf-8"))
    try:
        answer = _RUNTIMES[job["runtime"]](job, folder)
    except _RefusedError as error:
        answer = {"refused": str(error)}
    except BaseException as error:
        answer = {"error": _shown(error)}
    written = folder / f"{ANSWER}.part"
    written.write_text(json.dumps(answer), encoding="utf-8")
    written.replace(folder / ANSWER)


class _RefusedError(Exception):
    """The program does not load the file."""


def _shown(error: BaseException) -> str:
    lines = f"{type(error).__name__}: {error}".splitlines()
    return lines[0][:200]


def _loaded(load: Any, program: str) -> Any:
    """Return what a program loads; raise _RefusedError if it does not load the file."""
    try:
        return load()
    except Exception as error:
        raise _RefusedError(f"{program} does not load the file ({_shown(error)})") from error


def _limit() -> None:
    """Leave no room for a core dump or a huge file; where the system has no such limits, the parent's are left."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE, MAX_FILE))


def _session(model: str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = 1, 1, 4
    return _loaded(
        lambda: onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]),
        f"ONNX Runtime {onnxruntime.__version__}",
    )


def _members(session: Any, job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run the same batches with other members of everyone's class; save a digest of the outputs of each person.

    Of an output that is not one thing for each row, all of it belongs to everyone.
    """
    import numpy as np
    import onnxruntime

    ports = [[np.load(folder / file) for file in files] for files in job["ports"]]
    fixed = next((each.shape[0] for each in session.get_inputs() if type(each.shape[0]) is int), None)
    people, found, places = len(ports[0][0]), [], []
    sizes = job["sizes"] if fixed is None else [fixed]
    for size in sizes:
        count = people if size == sizes[-1] else min(people, _FEW_BATCHES * size)
        for start in range(0, count, size):
            numbers = np.arange(start, start + size) % people
            places.append(numbers)
            rows = []
            for variant in range(len(ports[0])):
                fed = {}
                for name, held in zip(job["names"], ports, strict=True):
                    part = held[variant][numbers]
                    fed[name] = part.astype(object) if part.dtype.kind == "U" else part
                rows.append(_digests(session.run(None, fed), size))
            found.append(np.stack(rows))
    np.savez(folder / OUTPUTS, numbers=np.concatenate(places), digests=np.concatenate(found, axis=1))
    return {"version": onnxruntime.__version__}


def _digests(outputs: Any, size: int) -> Any:
    """Return a digest of what each row of a batch gets (size, 16), all bits of it."""
    import hashlib

    import numpy as np

    hashes = [hashlib.blake2b(digest_size=16) for _ in range(size)]
    for output in outputs:
        by_row = len(output) == size if isinstance(output, list) else output.shape[:1] == (size,)
        for row, each in enumerate(hashes):
            each.update(_bits(output[row] if by_row else output))
    return np.array([list(each.digest()) for each in hashes], dtype=np.uint8)


def _bits(value: Any) -> bytes:
    if isinstance(value, dict):
        return b"".join(repr(key).encode() + _bits(each) for key, each in sorted(value.items()))
    if isinstance(value, list):
        return b"".join(_bits(each) for each in value)
    if isinstance(value, float):
        return value.hex().encode()
    dtype = str(getattr(value, "dtype", ""))
    raw = repr(value.tolist() if dtype else value).encode() if dtype in ("", "object") else value.tobytes()
    return f"{dtype} {getattr(value, 'shape', ())} ".encode() + raw


def _onnxruntime(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    import numpy as np
    import onnxruntime

    session = _session(job["model"])
    if "ports" in job:
        return _members(session, job, folder)
    inputs = session.get_inputs()
    fixed = next((value.shape[0] for value in inputs if type(value.shape[0]) is int), None)

    def run(part: Any) -> Any:
        fed, start = {}, 0
        for value in inputs:
            width = value.shape[1] if len(value.shape) > 1 else 1
            columns = part[:, start : start + width].astype(_ELEMENTS[value.type])
            fed[value.name], start = columns.reshape([len(part), *value.shape[1:]]), start + width
        *labels, scores = session.run(None, fed)
        if type(scores) is list:  # for each row a map from labels to probabilities
            scores = [[each[label] for label in sorted(each)] for each in scores]
        return scores, np.asarray(labels[0]).astype(str) if labels else None

    _save(run, folder, job["sizes"] if fixed is None else [fixed])
    return {"version": onnxruntime.__version__}


def _keras(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    import keras
    import numpy as np

    keras.config.disable_interactive_logging()
    model = _loaded(
        lambda: keras.saving.load_model(job["model"], compile=False, safe_mode=True), f"Keras {keras.__version__}"
    )

    named = getattr(model, "input", None)  # which a Sequential may not have
    named = named if isinstance(named, dict) else None
    # Inputs in a dict have the order of the file, which Keras itself sorts.
    names = list(model.get_config()["input_layers"]) if named is not None else []
    inputs = model.inputs if named is None else [named[name] for name in names]

    def run(part: Any) -> Any:
        fed, start = [], 0
        for value in inputs:
            width = int(np.prod(value.shape[1:]))
            columns = part[:, start : start + width].astype(keras.backend.standardize_dtype(value.dtype))
            fed.append(columns.reshape([len(part), *value.shape[1:]]))
            start += width
        if names:
            return model.predict_on_batch(dict(zip(names, fed, strict=True))), None
        return model.predict_on_batch(fed if len(fed) > 1 else fed[0]), None

    _save(run, folder, job["sizes"])
    return {"version": keras.__version__}


def _save(run: Any, folder: Path, sizes: list[int]) -> None:
    """Run all rows in batches of the last size, and the first ones in batches of the others; save what comes out.

    The last batch is filled up with the first rows, so that every size is compiled once.
    """
    import numpy as np

    rows = np.load(folder / ROWS)
    found = []
    for size in sizes:
        count = len(rows) if size == sizes[-1] else min(len(rows), _FEW_BATCHES * size)
        for start in range(0, count, size):
            numbers = np.arange(start, start + size) % len(rows)
            scores, labels = run(rows[numbers])
            outputs = np.asarray(scores, dtype=np.float64).reshape(size, -1)
            found.append((numbers, outputs, np.full(size, "") if labels is None else labels.reshape(size)))
    numbers, outputs, texts = (np.concatenate(each) for each in zip(*found, strict=True))
    codes = np.full(len(texts), -1) if labels is None else np.unique(texts, return_inverse=True)[1]
    np.savez(folder / OUTPUTS, numbers=numbers, outputs=outputs, labels=codes)


_RUNTIMES = {"onnxruntime": _onnxruntime, "keras": _keras}

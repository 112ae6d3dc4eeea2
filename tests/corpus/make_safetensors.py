"""Write the .safetensors files of the corpus with the installed safetensors: python make_safetensors.py FOLDER."""

import sys
from pathlib import Path

import numpy as np
import safetensors
from safetensors.numpy import save_file


def tensors(names, dtype=np.float32, bias=True):
    rng = np.random.default_rng(0)
    first, last = names
    found = {f"{first}.weight": rng.normal(size=(4, 3)).astype(dtype), f"{last}.weight": rng.normal(size=(2, 4))}
    if bias:
        found.update({f"{first}.bias": rng.normal(size=4), f"{last}.bias": rng.normal(size=2)})
    return {name: array.astype(dtype) for name, array in found.items()}


def main(folder):
    contents = {
        "sequential": (tensors(("0", "2")), None),
        "metadata": (tensors(("0", "2")), {"format": "pt", "said": 'a "quoted" text, \\ and é\n'}),
        "double": (tensors(("0", "2"), np.float64), {"format": "np"}),
        "no-bias": (tensors(("0", "2"), bias=False), None),
        "classifier": (tensors(("fc1", "out")), {}),
        "unicode": (tensors(("première", "dernière")), None),
    }
    for name, (content, metadata) in contents.items():
        path = Path(folder) / f"{name}-safetensors-{safetensors.__version__}.safetensors"
        save_file(content, str(path), metadata)


if __name__ == "__main__":
    main(sys.argv[1])

"""Show that four files which once got a false VALID are caught twice: by the reader, and by running them.

    python benchmarks/readers/second_attack.py [--onnxruntime FOLDER] [--keras FOLDER]

Each file is read as it is now, and then with its refusal taken out again and run as `fairmend check` runs a model, on
1,000 random rows. The folders hold packages (pip install --target) that come first on the path of the process that runs
it: ONNX Runtime 1.18 to 1.29, as later ones mend what the third file shows, and Keras with JAX or TensorFlow, as the
second file is loaded rightly on PyTorch. Exits with 1 if a file is read, or if no runtime catches one of them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.kernel.model import Model
from fairmend_check.readers.read_model import read_model
from fairmend_check.run.compare import Runtime, installed_runtimes, run_model

sys.path.append(str(Path(__file__).parents[2] / "tests"))
from support.former_readers import FINDINGS, FORMER, former_reader


def refusal(path: Path) -> str:
    try:
        read_model(path)
    except CheckError as error:
        return str(error).removeprefix(f"model {path.name}: ")
    return ""


def caught_by(path: Path) -> list[str]:
    """Return what each installed runtime says, with the refusal taken out."""
    with former_reader(path.name):
        model, _ = read_model(path)
    rows = np.random.default_rng(0).uniform(-1, 1, (1000, model.inputs)).astype(model.dtype).astype(np.float64)
    return [outcome(path, model, rows, runtime) for runtime in installed_runtimes(path.suffix)]


def outcome(path: Path, model: Model, rows: np.ndarray, runtime: Runtime) -> str:
    try:
        return f"{run_model(path, model, rows, runtime).program}: within bounds"
    except NotConfirmedError as error:
        return f"{str(error).partition(' does not')[0]}: CAUGHT, {str(error).partition(': ')[2]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--onnxruntime", "--keras"):
        parser.add_argument(option, type=Path, metavar="FOLDER")
    given = parser.parse_args()
    path = list(sys.path)
    table = Table("file", "the reader now", "the run, with the reader as it was", show_lines=True)
    fine = True
    for name in FORMER:
        folder = given.onnxruntime if name.endswith(".onnx") else given.keras
        sys.path[:] = [*([] if folder is None else [str(folder.absolute())]), *path]
        refused, runs = refusal(FINDINGS / name), caught_by(FINDINGS / name)
        table.add_row(name, refused or "READ", "\n".join(runs))
        fine = fine and bool(refused) and any("CAUGHT" in run for run in runs)
    Console().print(table)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())

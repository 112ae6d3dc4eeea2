"""Write the fairness of the people in a file as properties that other verifiers read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairmend._version import __version__
from fairmend.base.folders import check_folder, staged_folder
from fairmend.evaluate.document_parts import out_of_range_values
from fairmend.prove.vnnlib import INSTANCES, MANIFEST, MODEL, VnnlibExport, export_vnnlib
from fairmend.spec.out_of_range import OutOfRange
from fairmend.workflows.inputs import DataPath, InputOptions, Inputs, PathLike, save_widened_spec
from fairmend.workflows.outputs import WIDENED


@dataclass(frozen=True, eq=False)
class ExportedFiles:
    """The properties of the people in a file, in a folder.

    Attributes
    ----------
    result : the properties
    document : the result as plain data, as --json prints it
    files : what was written, by what it is: "out", the folder, and "widened_spec", None without one
    out_of_range : what was done about values out of range
    """

    result: VnnlibExport
    document: Mapping[str, Any]
    files: Mapping[str, Path | None]
    out_of_range: OutOfRange


def export_files(
    model: PathLike,
    spec: PathLike,
    data: DataPath,
    out: PathLike,
    *,
    inputs: InputOptions | None = None,
    rows: int | None = None,
    timeout: int = 300,
    most_boxes: int = 1000,
    seed: int = 0,
) -> ExportedFiles:
    """Write one property for each person in the data into the folder `out`, as `fairmend export-vnnlib` does."""
    read, out = Inputs(model, spec, data, inputs), Path(out)
    read.require_every_file("export-vnnlib")
    check_folder(out, [MODEL, INSTANCES, MANIFEST, WIDENED], read.paths)
    used, net = read.load_network("export-vnnlib")
    people = read.people(used, net, rows, seed)
    assert read.data is not None
    with staged_folder(out) as stage:
        export = export_vnnlib(
            net, people.spec, people.X, stage, rows=people.rows.tolist(), timeout=timeout, most_boxes=most_boxes
        )
        wider = save_widened_spec(people.spec, people.out_of_range, stage / WIDENED)
    files = {"out": out, "widened_spec": wider and out / wider.name}
    document = {
        "fairmend": __version__,
        "model": read.model.name,
        "data": read.data.name,
        "seed": seed,
        "threshold": people.spec.threshold,
        "out": out,
        "out_of_range": asdict(out_of_range_values(people.out_of_range)),
        "widened_spec": files["widened_spec"],
        "problems": [problem.as_dict() for problem in export.problems],
    }
    return ExportedFiles(export, document, files, people.out_of_range)

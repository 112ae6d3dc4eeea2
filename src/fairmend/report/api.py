"""Reports from Python: of a repair or an audit, with arrays or data frames."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fairmend.audit.result import AuditResult
from fairmend.errors import FairmendError
from fairmend.evaluate.document import FORMAT, VERSION, Document
from fairmend.evaluate.provenance import origin
from fairmend.network import Network
from fairmend.report.codec import from_plain
from fairmend.report.consistency import check_consistent
from fairmend.spec import Spec
from fairmend.spec.encoding import is_frame
from fairmend.tables import write_json, write_text

if TYPE_CHECKING:
    from fairmend.repair.result import RepairResult

DATA_NAME, PAGE_NAME = "report.json", "report.html"


@dataclass(frozen=True, eq=False)
class Report:
    """A report: `document` is what it says, `html` the page."""

    document: Document

    def __repr__(self) -> str:
        """What it is about."""
        return f"Report({self.document.kind} of {self.document.title}, {self.document.origin.created})"

    @cached_property
    def html(self) -> str:
        """The page: one text, below 5 MB, that loads nothing from anywhere."""
        from fairmend.report.page import render

        return render(self.document)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page; the file is replaced whole or not at all."""
        write_text(path, self.html)

    def save_data(self, path: str | PathLike[str]) -> None:
        """Write the document as JSON, which `load_report` reads."""
        write_json(path, asdict(self.document))


def load_report(path: str | PathLike[str]) -> Report:
    """Read a report.json, or that of a folder which `fairmend repair`, `audit` or `demo` wrote."""
    file = Path(path)
    if file.is_dir():
        file = file / DATA_NAME
        if not file.exists():
            raise FairmendError(
                f"{path}: there is no {DATA_NAME} in it; give a folder that fairmend repair, audit or demo wrote"
            )
    try:
        plain = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise FairmendError(f"{file}: cannot read the report's data ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise FairmendError(f"{file}: is not JSON ({error}); run the command that wrote it again") from error
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise FairmendError(f"{file}: is not the data of a report; run fairmend repair or audit again")
    if plain.get("version") != VERSION:
        raise FairmendError(
            f"{file}: has version {plain.get('version')!r:.20}, this fairmend reads version {VERSION}; "
            "run the command that wrote it again"
        )
    try:
        document = from_plain(Document, plain)
        check_consistent(document)
    except FairmendError as error:
        raise FairmendError(f"{file}: {error}; run the command that wrote it again") from error
    return Report(document)


def repair_report(
    result: RepairResult,
    spec: Spec,
    original: Network,
    X_repair: pd.DataFrame | ArrayLike,
    data: pd.DataFrame | ArrayLike,
    y: ArrayLike | None = None,
    *,
    held_out: bool = False,
    title: str = "the network",
    seed: int | None = None,
    command: str | None = None,
    check: str | None = None,
) -> Report:
    """Report on a repair: what is proven, for whom, and what it cost.

    Parameters
    ----------
    result : what `fairmend.repair` gave for `original`, `spec` and the repair inputs `X_repair`
    data, y : people to measure both networks on, encoded or as a DataFrame, and their classes; without y a
        DataFrame's label column is read
    held_out : whether the data was used neither for repair nor for calibration
    title : what the network is called
    check : the command that checks the saved certificate, where there is one
    """
    from fairmend.evaluate.compare import Comparison, measure
    from fairmend.evaluate.repair_document import repair_document
    from fairmend.evaluate.split import People, classes_of
    from fairmend.metrics import changed_rate

    X, X_inputs = spec.as_inputs(data, original.dtype), spec.as_inputs(X_repair, original.dtype)
    if len(X_inputs) != result.regions:
        raise FairmendError(f"X_repair has {len(X_inputs)} rows, the result is of {result.regions}; give the same rows")
    if y is None:
        if not is_frame(data):
            raise FairmendError("the report measures accuracy; give y, or a DataFrame with the label column")
        y = classes_of(spec, original, data, "the data")
    classes = np.asarray(y)
    if classes.shape != (len(X),):
        raise FairmendError(f"y has shape {classes.shape}; it must be ({len(X)},), one class for each row of the data")
    nobody = np.zeros(0, dtype=np.int64)
    frame = data if is_frame(data) else spec.decode(X)
    inputs = X_repair if is_frame(X_repair) else spec.decode(X_inputs)
    everybody = np.arange(len(X), dtype=np.int64)
    people = People(spec, frame, X, classes, inputs, X_inputs, None, nobody, everybody, held_out, ())
    before, after = (measure(net, people, stage="") for net in (original, result.network))
    changed = changed_rate(original.predict(X), result.network.predict(X))
    comparison = Comparison(people, result, before, after, changed, result.warnings)
    where = origin(command=command, seed=seed, arrays={"data": X, "repair inputs": X_inputs})
    return Report(repair_document(original, comparison, where, title=title, check=check))


def audit_report(
    found: AuditResult,
    network: Network,
    spec: Spec,
    data: pd.DataFrame | ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    title: str = "the network",
    seed: int | None = None,
    command: str | None = None,
) -> Report:
    """Report on an audit: how many are treated unequally, who they are, and what changes their answer.

    Parameters
    ----------
    found : what `fairmend.audit` gave for `network`, `spec` and the data
    data, y : the people that were audited, and their classes where known (a DataFrame's label column is read); None
        for an audit of samples, which are drawn again with `seed`
    """
    from fairmend.evaluate.audit_document import FirstRows, Labels, audit_document
    from fairmend.evaluate.groups import group_metrics
    from fairmend.evaluate.split import classes_of
    from fairmend.evaluate.utility import utility

    frame = data if is_frame(data) else None
    if data is None:
        X, arrays = sampled_inputs(network, spec, found.total, seed or 0, FirstRows(spec).most), {}
    else:
        X = spec.as_inputs(data, network.dtype)
        arrays = {"data": X}
    if y is None and frame is not None and spec.label is not None and spec.label.column in frame.columns:
        y = classes_of(spec, network, frame, "the data")
    labels = Labels()
    if y is not None:
        labels = Labels(len(X), utility(network, X, y), group_metrics(network, spec, X, y))
    where = origin(command=command, seed=seed, arrays=arrays)
    return Report(audit_document(network, spec, found, X, where, title=title, labels=labels, frame=frame))


def sampled_inputs(net: Network, spec: Spec, samples: int, seed: int, most: int) -> np.ndarray:
    """The first of the samples that an audit with this seed looked at."""
    from fairmend.audit.input_blocks import sample_blocks

    kept: list[np.ndarray] = []
    for block in sample_blocks(spec, samples, seed, net.dtype):
        kept.append(block)
        if sum(map(len, kept)) >= most:
            break
    return np.concatenate(kept)[:most]

"""Build a report in Python, from the result of a repair or of an audit and the data it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from fairmend.auditing.result import AuditResult
from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.evaluate.document_parts import Context, describe_origin
from fairmend.evaluate.people import RowNumbers
from fairmend.evaluate.what_if import WHAT_IF_ROWS, add_what_if
from fairmend.models import RunModel
from fairmend.network import Network
from fairmend.prove.fit import model_of_spec
from fairmend.report.report import Report
from fairmend.spec import Spec
from fairmend.spec.read_values import is_frame

if TYPE_CHECKING:
    from fairmend.evaluate.groups import CodedValues
    from fairmend.repairing.result import RepairResult
    from fairmend.spec.features import Feature


def repair_report(
    result: RepairResult,
    spec: Spec,
    original: Network | RunModel,
    X_repair: pd.DataFrame | ArrayLike,
    data: pd.DataFrame | ArrayLike,
    y: ArrayLike | None = None,
    *,
    X_test: pd.DataFrame | ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    held_out: bool = False,
    group: Sequence[str] = (),
    title: str = "the network",
    seed: int | None = None,
    command: str | None = None,
    check: str | None = None,
    what_if: bool = True,
    what_if_rows: int = WHAT_IF_ROWS,
) -> Report:
    """Report on a repair: what is proven, for whom, and what it cost.

    Parameters
    ----------
    result : the result of `fairmend.repair` for `original`, `spec` and the repair inputs `X_repair`
    data, y : rows on which to measure both networks, encoded or as a DataFrame, and their classes; without y, a
        DataFrame must hold the label column
    X_test, y_test : rows that the network was not trained on, in the same forms, from which accuracy and group figures
        come instead; y_test may be left out as y may
    held_out : whether the data was used neither for the repair nor for calibration
    group : columns that the model does not read, such as race, of the rows that accuracy comes from (a DataFrame):
        their groups are compared, and a table says how well the features predict them
    title : the name of the network
    seed, command : the random seed and the command line, to be shown in the report
    check : the command that checks the saved certificate, if there is one
    what_if : whether the page carries both networks, if they are small, and computes the scores of any person
    what_if_rows : how many random rows of the data it then holds, to start from
    """
    from fairmend.evaluate.compare import RepairComparison, measure, training_row_warnings
    from fairmend.evaluate.repair_document import repair_document
    from fairmend.evaluate.split import DataSplit, TestRows

    original = model_of_spec(original, spec, data, X_repair)
    X, X_inputs = spec.as_inputs(data, original.dtype), spec.as_inputs(X_repair, original.dtype)
    if len(X_inputs) != result.regions:
        raise FairmendError(
            f"X_repair has {len(X_inputs)} rows, but the result is for {result.regions}. "
            "Pass the rows that you passed to fairmend.repair"
        )
    labels = _read_labels(spec, original, data, X, y, "the data")
    frame = data if is_frame(data) else spec.decode(X)
    inputs = X_repair if is_frame(X_repair) else spec.decode(X_inputs)
    test = None
    if X_test is not None:
        rows_test = spec.as_inputs(X_test, original.dtype)
        test = TestRows(rows_test, _read_labels(spec, original, X_test, rows_test, y_test, "the test data"))
    columns = _group_columns(group, spec, data if X_test is None else X_test)
    people = DataSplit(
        spec,
        frame,
        X,
        labels,
        inputs,
        X_inputs,
        scored=np.arange(len(X), dtype=np.int64),
        held_out=held_out,
        rows=_row_numbers(spec, frame),
        test=test,
        columns=columns,
    )
    before, after = (measure(net, people, stage="") for net in (original, result.network))
    everyone = before.data.scored(original, X)
    warnings = [] if test is None else training_row_warnings(people, everyone, before.scored)
    comparison = RepairComparison.of(people, result, before, after, (*warnings, *result.warnings))
    where = describe_origin(command=command, seed=seed, arrays={"data": X, "repair inputs": X_inputs})
    document = repair_document(original, comparison, where, title=title, command=check)
    if what_if and isinstance(result.network, Network):  # the page computes scores from weights
        document = add_what_if(
            document, spec, X, original, result.network, numbers=people.rows, rows=what_if_rows, seed=seed or 0
        )
    return Report(document)


def audit_report(
    found: AuditResult,
    network: Network | RunModel,
    spec: Spec,
    data: pd.DataFrame | ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    group: Sequence[str] = (),
    title: str = "the network",
    seed: int | None = None,
    command: str | None = None,
    what_if: bool = True,
    what_if_rows: int = WHAT_IF_ROWS,
) -> Report:
    """Report on an audit: how many people are treated unequally, who they are, and what changes their prediction.

    Parameters
    ----------
    found : the result of `fairmend.audit` for `network`, `spec` and the data
    data, y : the audited people, and their classes if known (a DataFrame's label column is read). Without data, the
        report has no figures of accuracy; leave it out for an audit of samples
    group : columns of the data (a DataFrame) that the model does not read, such as race: their groups are compared, and
        a table says how well the features predict them
    title : the name of the network
    seed, command : the random seed and the command line, to be shown in the report
    what_if : whether the page carries the network, if it is one and small, and computes the scores of any person
    what_if_rows : how many random rows of the data it then holds, to start from
    """
    from fairmend.evaluate.build_document import audit_document, audit_warnings
    from fairmend.evaluate.groups import columns_of_rows
    from fairmend.evaluate.labelled import LabelledFigures, labelled_figures
    from fairmend.evaluate.split import read_labels

    if found.sampled and data is not None:
        raise FairmendError("the audit was of samples, which its result holds, not of data. Leave out data and y")
    network = model_of_spec(network, spec, data)
    frame = data if is_frame(data) else None
    columns = _group_columns(group, spec, data)
    labelled, arrays, labels = LabelledFigures(), {}, []
    has_labels = frame is not None and spec.label is not None and spec.label.column in frame.columns
    if frame is not None and spec.label is not None and has_labels:
        labels = frame[spec.label.column].dropna().unique().tolist()
    if data is not None:
        X = spec.as_inputs(data, network.dtype)
        arrays = {"data": X}
        if len(X) != found.total:
            raise FairmendError(
                f"the data has {len(X)} rows, but the audit was of {found.total}. Pass the data that you audited"
            )
        if y is None and frame is not None and has_labels:
            y = read_labels(spec, network, frame, "the data")
        if y is not None:
            compared = [*columns_of_rows(spec, found.rows), *columns]
            labelled = labelled_figures(spec, network, found.rows.logits, y, compared)
    numbers, examined = _row_numbers(spec, frame), found.examined
    context = Context(
        describe_origin(command=command, seed=seed, arrays=arrays),
        title,
        labels,
        audit_warnings(network, spec, found, labelled),
    )
    document = audit_document(network, spec, found, context, labelled=labelled, rows=numbers, columns=columns)
    if what_if:
        document = add_what_if(
            document,
            spec,
            examined.X,
            network,
            people=examined.rows,
            numbers=numbers,
            rows=what_if_rows,
            seed=seed or 0,
        )
    return Report(document)


def _group_columns(
    group: Sequence[str], spec: Spec, data: pd.DataFrame | ArrayLike | None
) -> tuple[tuple[Feature, CodedValues], ...]:
    """Return columns of the data that the model does not read."""
    from fairmend.evaluate.groups import group_columns, require_group_columns

    if not group:
        return ()
    if not is_frame(data):
        raise FairmendError(
            "group names columns of the data that the model does not read. Pass the data as a DataFrame"
        )
    require_group_columns(group, spec, data.columns)
    return group_columns(group, data)


def _read_labels(
    spec: Spec,
    network: Network | RunModel,
    data: pd.DataFrame | ArrayLike,
    X: FloatArray,
    y: ArrayLike | None,
    source: str,
) -> NDArray[Any]:
    """Return y, or the labels of a data frame; X (rows, width) are its inputs."""
    from fairmend.evaluate.split import read_labels

    if y is None:
        if not is_frame(data):
            raise FairmendError(
                "the report measures accuracy, so it needs labels. Pass y, or data as a DataFrame with the label column"
            )
        return read_labels(spec, network, data, source)
    labels = np.asarray(y)
    if labels.shape != (len(X),):
        raise FairmendError(f"y has shape {labels.shape}. Pass one label for each row of {source}: ({len(X)},)")
    return labels


def _row_numbers(spec: Spec, frame: pd.DataFrame | None) -> RowNumbers:
    """Return the rows of a data frame, counted from 0, with ids if it has them."""
    if frame is None:
        return RowNumbers()
    rows = RowNumbers(0, spec.id_column if spec.id_column in frame.columns else None)
    rows.add(frame)
    rows.read = frame.iloc.__getitem__
    return rows

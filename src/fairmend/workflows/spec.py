"""From data or a pipeline to a spec file, and from a spec file to whether data and a model fit it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairmend._version import __version__
from fairmend.base.arrays import Floats, Ints
from fairmend.base.errors import FairmendError
from fairmend.base.files import write_text
from fairmend.base.paths import DataSource
from fairmend.base.progress import Progress
from fairmend.evaluate.document_parts import out_of_range_values
from fairmend.evaluate.encoding.check import SpecCheck, check_spec
from fairmend.evaluate.encoding.given import (
    MatrixMatch,
    ScoreMatch,
    match_matrix,
    match_scores,
    read_matrix,
    read_matrix_names,
    read_score_column,
    read_scores,
    require_informative,
)
from fairmend.evaluate.encoding.search import draft_from_scores
from fairmend.evaluate.encoding.tables import mark_spare_rows, tables_of
from fairmend.evaluate.people import choose_policy, naming_file
from fairmend.models import ModelSource, RunModel, load_model
from fairmend.network import DEFAULT_THRESHOLD, Model, Network
from fairmend.network.rescaling import PROBABILITY
from fairmend.prove.fit import network_of_spec, require_fit, why_no_codes
from fairmend.spec import Label, Spec
from fairmend.spec.classes import similarity_classes
from fairmend.spec.describe import (
    describe_encoding,
    describe_links,
    describe_neighbourhood,
    describe_role,
    describe_similarity,
    describe_values,
)
from fairmend.spec.draft.draft import Draft
from fairmend.spec.draft.from_data import NOT_IN_ORDER, draft_from_data, guess_claim, label_from_options
from fairmend.spec.draft.from_matrix import draft_from_matrix
from fairmend.spec.draft.from_sklearn import draft_from_sklearn, read_pipeline, read_scales, transformed
from fairmend.spec.out_of_range import OutOfRange
from fairmend.tables import FIRST_ROW, local_files, read_table
from fairmend.tables.csv_files import write_csv
from fairmend.workflows.inputs import (
    DataPath,
    PathLike,
    as_path,
    as_source,
    is_pipeline,
    load_spec,
    read_pipeline_model,
    silent,
)
from fairmend.workflows.model_columns import ReadColumns, columns_of_model, columns_of_network

Warn = Callable[[str], None]

ROWS_NAMED = 5  # of those that differ
_AS_IS = (
    " Or pass --data and --data-out FILE: such columns are then written to a table as the pipeline encodes them, and "
    "read as they are."
)


@dataclass(frozen=True, eq=False)
class DraftedSpec:
    """A spec that was drafted and written.

    Attributes
    ----------
    draft : the spec, with what to review
    file : where it is
    inputs : the number of columns that the model reads; None without a model
    misfit : why a model that is only run does not take people as the spec describes them; empty if it does
    match : how the spec compares with what the model gave, which verified it; None if it is unverified
    warnings : signs that the spec is wrong although the network fits
    next_steps : the commands that come next
    """

    draft: Draft
    file: Path
    inputs: int | None
    match: ScoreMatch | MatrixMatch | None
    warnings: tuple[str, ...]
    next_steps: tuple[str, ...]
    misfit: str = ""

    @property
    def fits(self) -> bool:
        """Whether the spec describes as many columns as the model reads."""
        return not self.misfit and (self.inputs is None or self.inputs == self.draft.spec.width)

    @property
    def document(self) -> dict[str, Any]:
        """The result as plain data, as --json prints it."""
        return {
            "fairmend": __version__,
            "out": self.file,
            "columns": self.draft.spec.width,
            "model_inputs": self.inputs,
            "fits": self.fits,
            "several_fit": self.draft.several,
            "verified": self.match is not None,
            **describe_match(self.match),
            "spec": self.draft.spec.to_dict(),
            "left_out": dict(self.draft.left_out),
            "look_at": self.draft.to_review,
            "next": list(self.next_steps),
            "warnings": (*self.warnings, *filter(None, [self.misfit])),
        }


def draft_spec_file(
    data: DataPath,
    protected: Sequence[str],
    out: PathLike = "spec.toml",
    *,
    label: str | None = None,
    positive: str | None = None,
    delta: float | None = None,
    on: str | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    integer: Sequence[str] = (),
    order: Sequence[str] = (),
    scale: str = "none",
    scaler: PathLike | None = None,
    scores: PathLike | None = None,
    score_column: str | None = None,
    encoded: PathLike | None = None,
    model: PathLike | ModelSource | None = None,
    activation: str | None = None,
    outputs: str | None = None,
    data_out: PathLike | None = None,
    trust_pickle: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    warn: Warn | None = None,
) -> DraftedSpec:
    """Draft a spec from a data file, as `fairmend spec init` does, and write it to `out`.

    `model` is a file, or a model in memory; a pipeline only if it is run as a whole. `scores` or
    `encoded` are files with what the model gave or read; with them the encoding is searched and verified. A model may
    name the columns that it reads: then they are the features. With `encoded`, `data_out` is a file for the data and
    those columns of the matrix that a spec cannot describe, which are then read as they are. `warn` is called with
    warnings about files.
    """
    table, file = as_source(data), Path(out)
    scaler, scores, encoded, data_out = (as_path(path) for path in (scaler, scores, encoded, data_out))
    model_file = Path(model) if isinstance(model, str | os.PathLike) else None
    require_with("--scores", scores, model=model)
    if encoded is not None and (scores is not None or scaler is not None):
        raise FairmendError("--encoded tells the whole encoding; leave out --scores and --scaler")
    require_with("--data-out", data_out, encoded=encoded)
    read_files = [*local_files(table), model_file, scores, encoded, scaler]
    for written in (file, data_out):
        if written is not None:
            _refuse_overwriting(written, force, read_files)
    frame = read_table(table)
    source: Any = model_file or model
    if model_file is not None and is_pipeline(model_file):
        source = _pipeline_run_as_a_whole(model_file, trust_pickle, protected, frame, table)
    net = None if model is None else load_model(source, activation, outputs=outputs)
    others = [*drop, *categorical, label, score_column]
    scales = None if scaler is None else _read_scales(scaler, frame, others, warn)
    inputs, named = net.inputs if isinstance(net, Network) else None, False
    if isinstance(net, RunModel):
        read = columns_of_model(net, frame)
        named = bool(read.order) and not order
        if named:  # the model reads the columns as they are
            order, scales = read.order, scales if scale != "none" or scales is not None else {}
            categorical = [*categorical, *(name for name in read.categorical if name not in (*categorical, *integer))]
            integer = [*integer, *(name for name in read.integer if name not in (*categorical, *integer))]
        inputs = read.inputs
    elif isinstance(net, Network) and not order:
        order = [name for name in columns_of_network(net, frame) if name not in drop]
        named = bool(order)
    try:
        draft = draft_from_data(
            frame,
            protected,
            label,
            positive,
            drop=drop,
            categorical=categorical,
            integer=integer,
            order=order,
            score=score_column,
            scale=scale,
            scales=scales,
            inputs=inputs,
            delta=delta,
            on=on,
            outputs=net.outputs if isinstance(net, Network) else None,
            filled=_filled(source, protected, frame) if named and isinstance(net, RunModel) else None,
        )
    except FairmendError as error:
        raise FairmendError(f"{table}: {error}") from error
    if isinstance(net, Network) and net.rescaling is not None and draft.spec.regression:
        net = load_model(source, activation, outputs="number")  # its scores are no probability here: it is only run
    if named:
        reasons = {NOT_IN_ORDER: "the model does not read it"}
        draft = replace(draft, left_out=tuple((name, reasons.get(why, why)) for name, why in draft.left_out))
    match: ScoreMatch | MatrixMatch | None = None
    if encoded is not None:
        matrix, names = read_matrix(encoded, len(frame)), read_matrix_names(encoded)
        if inputs is not None and inputs != matrix.shape[1]:
            raise FairmendError(f"{encoded}: has {matrix.shape[1]} columns, but the model reads {inputs}")
        draft, match, frame = _draft_from_matrix(draft, frame, matrix, str(encoded), names, data_out, net)
        table = table if data_out is None else as_source(data_out)
    elif isinstance(net, RunModel) and scores is not None:
        match = _match_scores(draft, frame, net.bind(draft.spec, [frame]), scores, table)
    elif isinstance(net, Network) and (scores is not None or score_column is not None):
        given = load_scores(scores, draft.label, frame, net, table)
        assert given is not None
        try:
            draft, match = draft_from_scores(
                draft,
                frame,
                net,
                given,
                progress=progress or silent,
                first_row=FIRST_ROW,
                scales=scales,
                codes=not categorical,
                fixed_order=bool(order),
            )
        except FairmendError as error:
            raise FairmendError(f"{table}: {error}") from error
    draft, title = _in_the_unit_of(net, draft), f"Drafted from {table.name} by fairmend spec init"
    return _write(draft, frame, title, file, table, model_file, net, match, scores)


def _pipeline_run_as_a_whole(
    file: Path, trust_pickle: bool, protected: Sequence[str], frame: pd.DataFrame, table: DataSource
) -> Any:
    """Return the pipeline in a file, which reads the values of the data; refuse one whose encoding a spec describes."""
    if trust_pickle or file.suffix.lower() == ".skops":
        fitted, _ = read_pipeline(file, trust_pickle)
        if hasattr(fitted, "predict"):
            model = load_model(fitted)
            if isinstance(model, RunModel) and model.inside is None:
                return fitted
        try:
            draft_from_sklearn(fitted, list(protected), None, frame)
        except FairmendError as error:
            if "cannot express" not in str(error):
                raise FairmendError(f"{file}: {error}") from error
            return fitted
    trusted = "" if file.suffix.lower() == ".skops" else " --trust-pickle"
    raise FairmendError(
        f"{file}: a pipeline of scikit-learn says how it encodes people, so that nothing needs to be guessed: "
        f"run fairmend spec from-sklearn {shlex.quote(str(file))}{trusted} --data {shlex.quote(str(table))} "
        f"--protected {shlex.quote(','.join(protected))}"
    )


def _filled(fitted: Any, protected: Sequence[str], frame: pd.DataFrame) -> dict[str, float]:
    """Return what a pipeline fills in for missing numbers, if its steps are known."""
    try:
        features = draft_from_sklearn(fitted, list(protected), None, frame).spec.features
    except FairmendError:
        return {}
    return {each.name: float(each.missing) for each in features if each.missing is not None and not each.categories}


def draft_pipeline_spec(
    pipeline: PathLike,
    protected: Sequence[str],
    out: PathLike = "spec.toml",
    *,
    data: DataPath | None = None,
    data_out: PathLike | None = None,
    scores: PathLike | None = None,
    trust_pickle: bool = False,
    label: str | None = None,
    positive: str | None = None,
    delta: float | None = None,
    on: str | None = None,
    model: PathLike | None = None,
    activation: str | None = None,
    outputs: str | None = None,
    force: bool = False,
    warn: Warn | None = None,
) -> DraftedSpec:
    """Derive a spec from a fitted scikit-learn pipeline, as `fairmend spec from-sklearn` does, and write it to `out`.

    A pipeline that is only run reads people as they are in the data, whatever its steps do to them.
    `data_out` is a file for the data and those columns that a spec cannot describe, as the pipeline encodes them: they
    are then read as they are. `warn` is called with warnings about files.
    """
    source, file, table = Path(pipeline), Path(out), None if data is None else as_source(data)
    scores, model, data_out = as_path(scores), as_path(model), as_path(data_out)
    require_with("--scores", scores, data=data, model=model)
    require_with("--data-out", data_out, data=data)
    for written in (file, data_out):
        if written is not None:
            _refuse_overwriting(written, force, [source, *local_files(table), model, scores])
    frame = None if table is None else read_table(table)
    fitted, warnings = read_pipeline(source, trust_pickle)
    _tell(warn, warnings)
    net = None if model is None else load_model(model, activation, outputs=outputs)
    read = ReadColumns((), (), (), None)
    if net is None and data_out is None and hasattr(fitted, "predict"):
        net, read = _run_as_a_whole(fitted, source, frame, outputs)
    match: ScoreMatch | MatrixMatch | None = None
    try:
        known = getattr(fitted, "classes_", None)
        width = net.outputs if isinstance(net, Network) else None
        found = label_from_options(label, positive, frame, on, outputs=width, classes=known)
        claim, review = guess_claim(found, frame, delta, on)
        if frame is not None and read.order:
            raw = draft_from_data(
                frame,
                protected,
                label,
                positive,
                order=read.order,
                categorical=read.categorical,
                inputs=len(read.order),
                scales={},
                delta=delta,
                on=on,
                filled=_filled(fitted, protected, frame),
            )
            draft, review = replace(raw, label=found), ()
        elif frame is None or data_out is None:
            draft = draft_from_sklearn(fitted, list(protected), found, frame, claim)
        else:
            raw = draft_from_data(frame, protected, label, positive, delta=delta, on=on, outputs=width, leave_out=False)
            raw = replace(raw, label=found, claim=claim)
            matrix, names = transformed(fitted, frame)
            draft, match, frame = _draft_from_matrix(raw, frame, matrix, source.name, names, data_out, net)
            table = as_source(data_out)
        draft = replace(draft, review=(*draft.review, *review))
    except FairmendError as error:
        hint = _AS_IS if data_out is None and "cannot express" in str(error) else ""
        if hasattr(fitted, "predict") and ("cannot express" in str(error) or "cannot describe" in str(error)):
            trusted = " --trust-pickle" if trust_pickle else ""
            hint += f" Or have all of the pipeline run: fairmend spec init DATA --model {source}{trusted}."
        raise FairmendError(f"{source}: {error}{hint}") from error
    draft = _in_the_unit_of(net, draft)
    if scores is not None and frame is not None and net is not None and table is not None:
        bound = net.bind(draft.spec, [frame]) if isinstance(net, RunModel) else net
        match = _match_scores(draft, frame, bound, scores, table)
    title = f"Derived from {source.name} by fairmend spec from-sklearn"
    model = source if model is None and hasattr(fitted, "predict") else model
    return _write(draft, frame, title, file, table, model, net, match, scores)


def _run_as_a_whole(
    fitted: Any, source: Path, frame: pd.DataFrame | None, outputs: str | None
) -> tuple[RunModel | None, ReadColumns]:
    """Return a pipeline that is only run, and the columns of the data that it reads; None for one that is read."""
    model, nothing = load_model(fitted, outputs=outputs), ReadColumns((), (), (), None)
    if isinstance(model, Network) or model.inside is not None:
        return None, nothing
    if frame is None:
        raise FairmendError(
            f"{source}: the pipeline is run as a whole, and reads the values of your data. Pass these (--data)."
        )
    read = columns_of_model(model, frame)
    return (model, read) if read.order else (None, nothing)


@dataclass(frozen=True, eq=False)
class CheckedSpec:
    """Whether data and a model fit a spec file.

    Attributes
    ----------
    check : what was found; the rows in it are numbered as in the file
    out_of_range : what was done about values out of range
    spec_file, data : where spec and data are
    """

    check: SpecCheck
    out_of_range: OutOfRange
    spec_file: Path
    data: DataSource | None

    @property
    def document(self) -> dict[str, Any]:
        """The result as plain data, as --json prints it."""
        check, spec, sizes = self.check, self.check.spec, self.check.sizes
        features = [
            {
                "name": feature.name,
                "columns": [spec.columns(feature.name).start, spec.columns(feature.name).stop],
                "values": describe_values(feature),
                "reads": describe_encoding(feature),
                "similar_people": describe_role(feature, feature in spec.linked),
            }
            for feature in spec.features
        ]
        document: dict[str, Any] = {
            "fairmend": __version__,
            "spec": self.spec_file.name,
            "columns": spec.width,
            "features": features,
            "similar": describe_similarity(spec),
            "claim": spec.claim.words().sentence,
            "threshold": spec.threshold,
            "neighbourhood": {"finite": spec.finite, "words": describe_neighbourhood(spec)},
        }
        document["classes"] = similarity_classes(spec).words()
        if spec.links:
            document["links"] = describe_links(spec)
        if sizes is not None:
            document["neighbourhood"] |= {"least": sizes.least, "median": sizes.median, "most": sizes.most}
        if self.data is not None:
            problems = [
                {"column": p.feature, "rows": p.rows.size, "first_rows": p.rows[:ROWS_NAMED], "problem": p.message}
                for p in check.problems
            ]
            document["data"] = {"file": self.data.name, "rows": check.rows, "fits": not problems, "problems": problems}
        if check.inputs is not None:
            document["model"] = {"inputs": check.inputs, "fits": check.inputs == spec.width}
        document["verified"] = check.verified
        document |= {**describe_match(check.scores), **describe_match(check.matrix)}
        return {**document, "out_of_range": asdict(out_of_range_values(self.out_of_range))}


def check_spec_file(
    spec: PathLike,
    data: DataPath | None = None,
    model: PathLike | ModelSource | None = None,
    *,
    out_of_range: str = "refuse",
    threshold: float | None = None,
    scores: PathLike | None = None,
    encoded: PathLike | None = None,
    activation: str | None = None,
    outputs: str | None = None,
    trust_pickle: bool = False,
) -> CheckedSpec:
    """Check that data and a model fit a spec file, as `fairmend spec check` does.

    `model` is a file, or a model in memory; a pickle is opened only with `trust_pickle`. `scores` or
    `encoded` are files with what the model gave or read, which verify the encoding.
    """
    spec_file, table = Path(spec), None if data is None else as_source(data)
    scores, encoded = as_path(scores), as_path(encoded)
    require_with("--scores", scores, data=data, model=model)
    require_with("--encoded", encoded, data=data)
    loaded, done = load_spec(spec_file, threshold), OutOfRange(out_of_range)
    frame = None if table is None else read_table(table)
    rows = np.arange(0 if frame is None else len(frame)) + FIRST_ROW
    policy = choose_policy(out_of_range, loaded, needs_range=True)
    if frame is not None and table is not None and policy != "refuse":
        if out_of_range != "refuse" and (scores is not None or encoded is not None):
            raise FairmendError("--scores and --encoded are of the data as it is; leave out --out-of-range")
        with naming_file(table):
            inside = loaded.bring_into_range(frame, policy, first_row=FIRST_ROW)
        loaded, frame, rows, done = inside.spec, inside.frame, rows[inside.kept], inside.done
    net, misfit = _fitted(model, loaded, activation, outputs, trust_pickle, [] if frame is None else [frame])
    check = check_spec(
        loaded,
        frame,
        net,
        misfit=misfit,
        scores=None if frame is None or net is None else load_scores(scores, loaded.label, frame, net, table),
        matrix=None if frame is None or encoded is None else read_matrix(encoded, len(frame)),
    )
    return CheckedSpec(_with_row_numbers(check, rows), done, spec_file, table)


def _fitted(
    model: PathLike | ModelSource | None,
    spec: Spec,
    activation: str | None = None,
    outputs: str | None = None,
    trust_pickle: bool = False,
    frames: Sequence[pd.DataFrame] = (),
) -> tuple[Network | RunModel | None, str]:
    """Return the model at the threshold of the spec, or None and why it does not take people as the spec says."""
    if model is None:
        return None, ""
    if isinstance(model, str | os.PathLike) and is_pipeline(Path(model)):
        net = read_pipeline_model(Path(model), spec, outputs, trust_pickle, frames)
    else:
        net = load_model(model, activation, outputs=outputs, spec=spec if spec.regression else None)
    if isinstance(net, Network):
        return network_of_spec(net, spec), ""
    try:
        return net.bind(spec, frames), ""
    except FairmendError as error:
        return None, str(error)


def require_with(option: str, given: object, **needed: object) -> None:
    """Refuse an option that needs others which are not given."""
    absent = [f"--{name.replace('_', '-')}" for name, value in needed.items() if value is None]
    if given is not None and absent:
        raise FairmendError(f"{option} needs {' and '.join(absent)}")


def load_scores(
    path: Path | None, label: Label | None, frame: pd.DataFrame, net: Model, data: DataSource | None
) -> Floats | None:
    """Return the scores in a file, or in the column that the label names; refuse scores that verify nothing."""
    if path is not None:
        scores = read_scores(path, len(frame), net.outputs)
        require_informative(scores, str(path))
        return scores
    column = read_score_column(label, frame)
    if column is not None and label is not None:
        require_informative(column, f'{data}, column "{label.score}"')
    return column


def describe_match(match: ScoreMatch | MatrixMatch | None) -> dict[str, Any]:
    """Return a comparison with what the model gave, or read, as plain data; nothing without one."""
    if isinstance(match, ScoreMatch):
        return {
            "scores": {
                "verified": match.verified,
                "rows": match.rows,
                "form": match.form,
                "largest_difference": match.largest,
                "tolerance": match.tolerance,
                "differing_rows": len(match.differing),
                "first_rows": match.differing[:ROWS_NAMED],
            }
        }
    if match is None:
        return {}
    columns = [
        {"column": each.column, "name": each.name, "rows": each.rows, "row": each.row} for each in match.differing
    ]
    return {
        "encoded": {
            "verified": match.verified,
            "rows": match.rows,
            "largest_difference": None if match.problem else match.largest,
            "differing_columns": columns,
            "problem": match.problem,
        }
    }


def _tell(warn: Warn | None, warnings: Sequence[str]) -> None:
    if warn is not None:
        for warning in warnings:
            warn(warning)


def _refuse_overwriting(out: Path, force: bool, inputs: Sequence[Path | None]) -> None:
    """Refuse to write over an input file, or over an existing file without --force."""
    for path in inputs:
        if path is not None and out.resolve() == path.resolve():
            raise FairmendError(f"{out}: this is one of the inputs; choose another --out")
    if out.exists() and not force:
        raise FairmendError(f"{out}: already exists; choose another --out, or replace it with --force")


def _read_scales(
    scaler: Path, frame: pd.DataFrame, others: Sequence[str | None], warn: Warn | None
) -> Mapping[str, Mapping[str, float]]:
    """Return the scales in a file; `others` are columns that are not numbers that the model reads."""
    numbers = [
        str(name)
        for name in frame.columns
        if pd.api.types.is_numeric_dtype(frame[name].dtype) and str(name) not in others
    ]
    scales, warnings = read_scales(scaler, numbers)
    _tell(warn, warnings)
    unknown = [name for name in scales if name not in frame.columns]
    if unknown:
        raise FairmendError(f'{scaler}: scales "{unknown[0]}", which is not a column of the data')
    return scales


def _draft_from_matrix(
    draft: Draft,
    frame: pd.DataFrame,
    matrix: Floats,
    source: str,
    names: Sequence[str] | None,
    data_out: Path | None,
    net: Network | RunModel | None,
) -> tuple[Draft, MatrixMatch, pd.DataFrame]:
    """Return the draft that reproduces the matrix, how it compares, and the data; with `data_out`, it is written."""
    added: dict[str, Floats] | None = None if data_out is None else {}
    made = draft_from_matrix(draft, frame, matrix, Path(source).name, names=names, added=added)
    if isinstance(net, Network):
        made = mark_spare_rows(made, tables_of(net))
    if added:
        frame = pd.concat([frame, pd.DataFrame(added, index=frame.index)], axis=1)
    match = match_matrix(made.spec.encode(frame, np.float64), matrix, made.spec.column_names)
    if not match.verified:
        first = replace(match.differing[0], row=match.differing[0].row + FIRST_ROW)
        raise FairmendError(f"{source}: {match}: {first}. Write the spec by hand.")
    if data_out is not None:
        write_csv(data_out, frame)
    return made, match, frame


def _match_scores(draft: Draft, frame: pd.DataFrame, net: Model, scores: Path, data: DataSource) -> ScoreMatch:
    """Compare the scores of the network with those that the model gave; refuse a spec that does not reproduce them."""
    spec = draft.spec
    require_fit(net, spec)
    given = load_scores(scores, draft.label, frame, net, data)
    assert given is not None
    with naming_file(data):
        X = spec.as_inputs(frame, net.dtype, first_row=FIRST_ROW)
    match = match_scores(net, X, given, regression=spec.regression)
    if not match.verified:
        searched = (
            ""
            if isinstance(net, Network)
            else " fairmend runs this model and cannot search how it reads them: say it with --order, --scale or "
            "--scaler, or pass the matrix that it read (--encoded)."
        )
        raise FairmendError(
            f"{scores}: {match}. The model reads people in another way than this spec; nothing was written.{searched}"
        )
    return match


def _in_the_unit_of(net: Network | RunModel | None, draft: Draft) -> Draft:
    """Return the draft with the range of the scores that the model gives, and the threshold in their unit."""
    rescaling, label = net.rescaling if isinstance(net, Network) else None, draft.label
    if rescaling is None or rescaling.ends == PROBABILITY or label is None or label.positive is None:
        return draft
    low, high = (float(f"{end:.9g}") for end in rescaling.ends)
    note = f"The model gives scores from {low:g} to {high:g}, which stand for the probabilities 0 and 1."
    review: tuple[str, ...] = ()
    if label.threshold == DEFAULT_THRESHOLD:
        middle = low / 2 + high / 2
        note += f" Without threshold, it decides in the middle, at {middle:g}."
        review = (f"label: the model gives scores, and the threshold is guessed: {middle:g}, their middle; set yours",)
    threshold = low + (high - low) * label.threshold
    label = replace(label, score_range=(low, high), threshold=threshold)
    return replace(draft, label=label, label_notes=(*draft.label_notes, note), review=(*draft.review, *review))


def _write(
    draft: Draft,
    frame: pd.DataFrame | None,
    title: str,
    out: Path,
    data: DataSource | None,
    model: Path | None,
    net: Network | RunModel | None,
    match: ScoreMatch | MatrixMatch | None,
    scores: PathLike | None,
) -> DraftedSpec:
    """Write the draft, once it fits the data that it was drafted from."""
    if frame is not None:
        try:
            draft.spec.encode(frame)
        except FairmendError as error:
            raise FairmendError(f"{data}: {error}") from error
    warnings: tuple[str, ...] = ()
    frames = [] if frame is None else [frame]
    fitted, misfit = _fitted(net, draft.spec, frames=frames) if isinstance(net, RunModel) else (net, "")
    misfit = misfit or ("" if fitted is None else why_no_codes(fitted, draft.spec))
    if fitted is not None and not misfit and frame is not None and fitted.inputs == draft.spec.width:
        warnings = check_spec(draft.spec, frame, fitted).warnings
    write_text(out, draft.toml(title))
    inputs = None if fitted is None else fitted.inputs
    return DraftedSpec(draft, out, inputs, match, warnings, _next_steps(out, data, model, scores), misfit)


def _next_steps(out: Path, data: DataSource | None, model: Path | None, scores: PathLike | None) -> tuple[str, ...]:
    spec, people, network = (shlex.quote(str(name)) for name in (out, data or "DATA", model or "MODEL"))
    if model is not None and is_pipeline(model) and model.suffix.lower() != ".skops":
        network += " --trust-pickle"
    verified = "" if scores is None else f" --scores {shlex.quote(str(scores))}"
    return (
        f"fairmend spec check {spec} --data {people} --model {network}{verified}",
        f"fairmend audit {network} --data {people} --spec {spec}",
        f"fairmend repair {network} --data {people} --spec {spec} --out repaired",
    )


def _with_row_numbers(check: SpecCheck, rows: Ints) -> SpecCheck:
    """Return the check with the numbers of the rows in the file."""
    scores, matrix = check.scores, check.matrix
    if scores is not None:
        scores = replace(scores, differing=rows[scores.differing])
    if matrix is not None:
        matrix = replace(matrix, differing=tuple(replace(d, row=int(rows[d.row])) for d in matrix.differing))
    problems = tuple(replace(p, rows=rows[p.rows]) for p in check.problems)
    return replace(check, problems=problems, scores=scores, matrix=matrix)

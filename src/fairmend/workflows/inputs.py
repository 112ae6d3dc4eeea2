"""Read the input files of a command: a spec and a network that fit together, and people who fit the spec."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from fairmend.base.errors import FairmendError
from fairmend.base.paths import DataSource, DataURL, TableSource, data_source, require_inside
from fairmend.models import RunModel, load_model, require_network
from fairmend.network import DEFAULT_THRESHOLD, Model, Network
from fairmend.prove.fit import network_of_spec, require_fit
from fairmend.spec import Spec
from fairmend.spec.label import load_about
from fairmend.tables import BrokenFile, read_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairmend.evaluate.people import People
    from fairmend.spec.out_of_range import OutOfRange


PathLike: TypeAlias = str | os.PathLike[str]
DataPath: TypeAlias = PathLike | DataURL | TableSource  # a file, a folder or a pattern, or a URL


def as_path(path: PathLike | None) -> Path | None:
    """Return a path, or None if there is none."""
    return None if path is None else Path(path)


def as_source(data: DataPath) -> DataSource:
    """Return where a table is."""
    return data if isinstance(data, DataURL | TableSource) else data_source(os.fspath(data))


def silent(stage: str, done: int, total: int) -> None:
    """Report no progress."""


def at_threshold(spec: Spec) -> str:
    """Return what a title says about predictions at a threshold other than 0.5."""
    return "" if spec.threshold == DEFAULT_THRESHOLD else f", at the threshold {spec.threshold_words}"


def load_any_model(
    model: Path,
    spec_file: Path,
    activation: str | None,
    ignore_scores: bool = False,
    threshold: float | None = None,
    outputs: str | None = None,
    *,
    trust_pickle: bool = False,
) -> tuple[Spec, Network | RunModel]:
    """Read the spec and the model, which decides at the threshold; refuse them if their numbers of columns differ.

    A file of scikit-learn is the network at the end of its pipeline, if the spec encodes people as the steps before it
    do; otherwise the pipeline is run as a whole. Pickles are opened only with `trust_pickle`.

    With `ignore_scores`, the spec names no column of scores, so that nothing compares the model with them. A
    `threshold` replaces that of the spec, and `outputs` says what the model gives, if that is not clear.
    """
    spec = load_spec(spec_file, threshold)
    if is_pipeline(model):
        net = read_pipeline_model(model, spec, outputs, trust_pickle)[0]
    else:
        net = load_model(model, activation, outputs=outputs)
    if isinstance(net, RunModel):
        try:
            net = net.bind(spec)
        except FairmendError as error:
            raise FairmendError(f"{model}, {spec_file}: {error}") from error
        return without_scores(spec) if ignore_scores else spec, net
    return _fitted(model, spec_file, spec, net, ignore_scores)


_PIPELINES = (".skops", ".joblib", ".pkl", ".pickle")


def is_pipeline(model: Path) -> bool:
    """Return whether a file holds a model of scikit-learn, by its suffix."""
    return model.suffix.lower() in _PIPELINES


def read_pipeline_model(
    file: Path, spec: Spec, outputs: str | None = None, trust_pickle: bool = False
) -> tuple[Network | RunModel, Any]:
    """Return the model in a file of scikit-learn for rows of a spec, and the fitted pipeline or model itself."""
    from fairmend.spec.draft.from_sklearn import read_pipeline

    fitted, _ = read_pipeline(file, trust_pickle)
    try:
        return load_model(fitted, outputs=outputs, spec=spec), fitted
    except FairmendError as error:
        raise FairmendError(f"{file}: {error}") from error


def load_network_of(
    command: str,
    model: Path,
    spec_file: Path,
    activation: str | None,
    ignore_scores: bool = False,
    threshold: float | None = None,
    *,
    trust_pickle: bool = False,
) -> tuple[Spec, Network]:
    """Read the spec and a network, as `load_any_model` does; refuse a model that is only run, which has no bounds."""
    spec = load_spec(spec_file, threshold)
    if is_pipeline(model):
        net = require_network(read_pipeline_model(model, spec, trust_pickle=trust_pickle)[0], command)
    else:
        net = require_network(model, command, activation=activation)
    return _fitted(model, spec_file, spec, net, ignore_scores)


def _fitted(model: Path, spec_file: Path, spec: Spec, net: Network, ignore_scores: bool) -> tuple[Spec, Network]:
    """Return the spec and a network that fits it, which decides at its threshold."""
    require_fit(net, spec, f"{model}: the network", str(spec_file))
    spec.require_outputs(net.outputs, f"{model}: the network", str(spec_file))
    return without_scores(spec) if ignore_scores else spec, network_of_spec(net, spec)


def add_about(spec: Spec, about: Path | None) -> Spec:
    """Return the spec with what the file of --about says about the model."""
    return spec if about is None else spec.with_about(spec.about.updated(load_about(about)))


def load_spec(spec_file: Path, threshold: float | None = None) -> Spec:
    """Read the spec; a threshold on the command line replaces its own."""
    spec = Spec.load(spec_file)
    if threshold is None:
        return spec
    try:
        return spec.at_threshold(threshold)
    except FairmendError as error:
        raise FairmendError(f"{spec_file}: {error}") from error


def without_scores(spec: Spec) -> Spec:
    """Return the spec without the name of the column with scores: those of one network say nothing about another."""
    if spec.label is None or spec.label.score is None:
        return spec
    plain = spec.to_dict()
    return Spec.from_dict({**plain, "label": {key: plain["label"][key] for key in plain["label"] if key != "score"}})


def load_people(
    data: DataSource,
    spec: Spec,
    net: Model,
    rows: int | None = None,
    seed: int = 0,
    out_of_range: str = "refuse",
    *,
    keep_going: bool = False,
) -> People:
    """Return all people in the data, or `rows` people drawn at random; leave out files that cannot be read if asked to.

    Scores in the data that spec and network do not reproduce are refused.
    """
    from fairmend.auditing.comparisons import reads_what_varies
    from fairmend.evaluate.people import choose_policy, take_people

    policy = choose_policy(out_of_range, spec, reads_what_varies(net, spec))
    broken: list[BrokenFile] = []
    needed, useful = spec.data_columns
    frame = read_table(data, needed=needed, useful=useful, broken=broken if keep_going else None)
    return take_people(frame, data, spec, net, policy, most=rows, seed=seed, broken=broken)


def widened_spec_file(beside: Path, inputs: Sequence[Path]) -> Path:
    """Return where the spec with wider ranges goes, beside an output file; it must not replace an input file."""
    path = beside.with_name(f"{beside.stem}.spec.toml")
    if any(path.exists() and source.exists() and path.samefile(source) for source in inputs):
        raise FairmendError(f"{path}: would overwrite an input file; choose another name for {beside.name}")
    require_inside(path, path.parent, written=True)  # nobody typed this name
    return path


def save_widened_spec(spec: Spec, done: OutOfRange, path: Path | None) -> Path | None:
    """Write the spec if its ranges were widened, and return the file."""
    if path is None or not done.ranges:
        return None
    spec.save(path)
    return path

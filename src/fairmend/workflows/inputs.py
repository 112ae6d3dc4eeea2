"""Read the input files of a command: a spec and a network that fit together, and people who fit the spec."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from fairmend.base.errors import FairmendError
from fairmend.base.paths import DataSource, DataURL, TableSource, data_source, require_inside
from fairmend.models import RunModel, load_model, require_network
from fairmend.models.load import load_with_data, require_order_of_classes
from fairmend.network import DEFAULT_THRESHOLD, Model, Network
from fairmend.prove.fit import network_of_spec, require_fit
from fairmend.spec import Spec
from fairmend.spec.label import load_about
from fairmend.tables import BrokenFile, first_rows, local_files, read_table

if TYPE_CHECKING:
    import pandas as pd

    from fairmend.evaluate.document import Origin
    from fairmend.evaluate.people import People
    from fairmend.spec.out_of_range import OutOfRange
    from fairmend.workers.engine import Engine


PathLike: TypeAlias = str | os.PathLike[str]
DataPath: TypeAlias = PathLike | DataURL | TableSource  # a file, a folder or a pattern, or a URL


@dataclass(frozen=True)
class InputOptions:
    """How model, spec and data are read, where the files leave it open: each is an option of the commands.

    Attributes
    ----------
    threshold : the probability of the positive class from which a prediction is positive; by default that of the spec
    activation : the one between the layers of a model file that holds only weights
    outputs : what a model that is only run gives: "logit", "probability" or "number"; by default what it is taken for
    ignore_scores : whether the scores in the data that [label] names are those of another model
    trust_pickle : whether the model may be read from a pickle, which can run any code
    out_of_range : what is done about values out of range: "refuse", "clip", "skip" or "widen"
    keep_going : whether files of the data that cannot be read are left out
    about : a file with what the report says about the model; it replaces what [about] in the spec says
    """

    threshold: float | None = None
    activation: str | None = None
    outputs: str | None = None
    ignore_scores: bool = False
    trust_pickle: bool = False
    out_of_range: str = "refuse"
    keep_going: bool = False
    about: PathLike | None = None


@dataclass(frozen=True)
class WorkerOptions:
    """Where a command computes: each is an option of the commands.

    Attributes
    ----------
    jobs : the number of processes
    device : "cpu", "cuda" (a GPU; "cuda:1" is the second one) or "auto"
    cluster : the address of a cluster whose workers compute instead of processes of this machine
    """

    jobs: int = 1
    device: str = "cpu"
    cluster: str | None = None

    def open(self) -> Engine:
        """Return what runs the tasks; use it in a ``with`` block."""
        from fairmend.workers.engine import open_engine

        return open_engine(self.cluster, self.jobs)


class Inputs:
    """The files of a command, and how they are read.

    Attributes
    ----------
    model, spec : the files of the model and of the spec
    data : where the data is; None without data
    options : how they are read
    paths : all files of this machine that are read, which no output may replace
    """

    def __init__(
        self, model: PathLike, spec: PathLike, data: DataPath | None, options: InputOptions | None = None
    ) -> None:
        """Name the files; none is read yet."""
        self.model, self.spec = Path(model), Path(spec)
        self.data = None if data is None else as_source(data)
        self.options = options or InputOptions()
        about = as_path(self.options.about)
        self.paths = [self.model, *local_files(self.data), self.spec, *([] if about is None else [about])]

    def require_data(self, in_range: str, no_files: str) -> None:
        """Refuse options that are about data if there is none: for these reasons they would do nothing."""
        if self.data is None and self.options.out_of_range != "refuse":
            raise FairmendError(f"--out-of-range needs --data: {in_range}")
        if self.data is None and self.options.keep_going:
            raise FairmendError(f"--keep-going needs --data: {no_files}")

    def require_every_file(self, command: str) -> None:
        """Refuse to leave out files: this command does not say which it left out."""
        if self.options.keep_going:
            raise FairmendError(f"{command} leaves out no files of the data; leave out keep_going")

    def load(self) -> tuple[Spec, Network | RunModel]:
        """Read the spec and the model, which decides at the threshold; refuse them if they do not fit each other.

        A file of scikit-learn is the network at the end of its pipeline, if the spec encodes people as the steps before
        it do; otherwise the pipeline is run as a whole.
        """
        spec, options = load_spec(self.spec, self.options.threshold), self.options
        if is_pipeline(self.model):
            frames = () if self.data is None else first_rows(self.data)
            net = read_pipeline_model(self.model, spec, options.outputs, options.trust_pickle, frames)
        else:
            numbers = spec if spec.regression else None  # a network with rescaled scores is then only run
            net = load_model(self.model, options.activation, outputs=options.outputs, spec=numbers)
        return self._fitted(spec, net)

    def load_network(self, command: str) -> tuple[Spec, Network]:
        """Read the spec and the model, as `load` does; refuse a model that is only run, which has no bounds."""
        spec, options = load_spec(self.spec, self.options.threshold), self.options
        if is_pipeline(self.model):
            model = read_pipeline_model(self.model, spec, trust_pickle=options.trust_pickle)
            net = require_network(model, command)
        else:
            net = require_network(self.model, command, activation=options.activation)
        spec, fitted = self._fitted(spec, net)
        assert isinstance(fitted, Network)
        return spec, fitted

    def _fitted(self, spec: Spec, net: Network | RunModel) -> tuple[Spec, Network | RunModel]:
        """Return the spec, and the model at its threshold, which takes people as the spec encodes them."""
        if isinstance(net, RunModel):
            try:
                net = net.bind(spec)
            except FairmendError as error:
                raise FairmendError(f"{self.model}, {self.spec}: {error}") from error
        else:
            require_fit(net, spec, f"{self.model}: the network", str(self.spec))
            spec.require_outputs(net.outputs, f"{self.model}: the network", str(self.spec))
            try:
                require_order_of_classes(self.model, spec)
            except FairmendError as error:
                raise FairmendError(f"{self.spec}: {error}") from error
            net = network_of_spec(net, spec)
        spec = without_scores(spec) if self.options.ignore_scores else spec
        if self.options.about is not None:
            spec = spec.with_about(spec.about.updated(load_about(Path(self.options.about))))
        return spec, net

    def people(self, spec: Spec, net: Model, rows: int | None = None, seed: int = 0) -> People:
        """Return all people in the data, or `rows` people drawn at random."""
        assert self.data is not None
        return load_people(self.data, spec, net, rows, seed, self.options.out_of_range, self.options.keep_going)

    def origin(
        self,
        command: str | None,
        seed: int,
        *,
        parts: Mapping[str, Sequence[str]] | None = None,
        digests: bool = False,
    ) -> Origin:
        """Return where the result comes from; only with `digests` the files are read once more."""
        from fairmend.evaluate.document_parts import describe_origin

        sources: dict[str, DataSource] = {"model": self.model, "spec": self.spec}
        sources |= {} if self.data is None else {"data": self.data}
        return describe_origin(sources, parts=parts, command=command, seed=seed, digests=digests)


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


_PIPELINES = (".skops", ".joblib", ".pkl", ".pickle")


def is_pipeline(model: Path) -> bool:
    """Return whether a file holds a model of scikit-learn, by its suffix."""
    return model.suffix.lower() in _PIPELINES


def read_pipeline_model(
    file: Path,
    spec: Spec,
    outputs: str | None = None,
    trust_pickle: bool = False,
    frames: Sequence[pd.DataFrame] = (),
) -> Network | RunModel:
    """Return the model in a file of scikit-learn for rows of a spec; it gets values as they are in data frames."""
    from fairmend.spec.draft.from_sklearn import read_pipeline

    fitted, _ = read_pipeline(file, trust_pickle)
    try:
        return load_with_data(fitted, outputs=outputs, spec=spec, frames=frames)
    except FairmendError as error:
        raise FairmendError(f"{file}: {error}") from error


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

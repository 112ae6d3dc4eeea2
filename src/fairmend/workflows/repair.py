"""Repair the network in a file: from the files of model, spec and data to a folder with everything about the repair."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairmend import CheckResult
from fairmend.base.errors import FairmendError
from fairmend.base.folders import check_folder, staged_folder
from fairmend.base.paths import DataSource
from fairmend.base.progress import Progress, shows_progress
from fairmend.evaluate.compare import RepairComparison, claim_needs_range, measure, repair_and_compare
from fairmend.evaluate.document import RepairDocument
from fairmend.evaluate.document_parts import describe_origin, file_digest
from fairmend.evaluate.people import choose_policy, require_given_scores
from fairmend.evaluate.repair_document import repair_document
from fairmend.evaluate.split import split_data
from fairmend.evaluate.what_if import add_what_if
from fairmend.models import RunModel
from fairmend.models.repaired import RepairedModel
from fairmend.network import Network
from fairmend.network.formats import require_room
from fairmend.prove.certificate import Certificate
from fairmend.repairing.options import check_applicable, has_tolerances
from fairmend.repairing.result import OtherCandidate, RepairResult
from fairmend.repairing.run import require_method
from fairmend.report import Report, load_report
from fairmend.tables import find_files, local_files, read_table, write_csv
from fairmend.workflows.inputs import DataPath, InputOptions, Inputs, PathLike, as_source, is_pipeline, without_scores
from fairmend.workflows.outputs import (
    REPORT_FILES,
    form_warning,
    save_checked,
    save_unchecked,
    write_report,
)

_BY_CLASSES = "model.onnx"  # what a repair by classes of similar people is saved as
_CANDIDATE = re.compile(r"candidate-\d+\.[a-z0-9.]+")
_MOST_CANDIDATES = 20
_TABLES = ("data", "repair data", "test data")  # the roles of sources that may have several files


@dataclass(frozen=True, eq=False)
class RepairedFiles:
    """A repair of a model file, and the folder that was written.

    Attributes
    ----------
    comparison : the network before and after, and in `comparison.result` the repair
    check : the result of checking the certificate; None without one
    document : the result as data, with what only the page of the report needs
    folder, contents : the folder, and what each file in it is
    model : the name of the repaired network in the folder
    replaced : whether the folder held an earlier repair
    removed : files of the earlier repair that were deleted
    """

    comparison: RepairComparison
    check: CheckResult | None
    document: RepairDocument
    folder: Path
    contents: Mapping[str, str]
    model: str
    replaced: bool
    removed: tuple[str, ...]

    @property
    def result(self) -> RepairResult:
        """The repair."""
        return self.comparison.result

    @property
    def files(self) -> dict[str, Path]:
        """The path of each file."""
        return {name: self.folder / name for name in self.contents}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know about data and repair."""
        return self.comparison.warnings

    @property
    def report(self) -> Report:
        """The report, drawn from the document."""
        return Report(self.document)

    def _repr_html_(self) -> str:
        """Show the report in a notebook."""
        return self.report._repr_html_()


@shows_progress
def repair_files(
    model: PathLike,
    spec: PathLike,
    data: DataPath,
    out: PathLike,
    *,
    inputs: InputOptions | None = None,
    method: str = "auto",
    options: Mapping[str, Any] | None = None,
    repair_data: DataPath | None = None,
    test_data: DataPath | None = None,
    repair_rows: int = 100,
    calibration_rows: int = 500,
    group: Sequence[str] = (),
    seed: int = 0,
    what_if_rows: int | None = None,
    command: str | None = None,
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
) -> RepairedFiles:
    """Repair the network in a file and write the folder `out`, as `fairmend repair` does.

    `options` are further ones of the command, such as ``{"steps": 50, "keep": 0.01}``; those that the method does not
    use are refused. The part "What if?" of the report holds `what_if_rows` rows of the data (None leaves it out).
    `command` is what the report says was typed, and `warn` is called with warnings before the long work.
    """
    read, folder = Inputs(model, spec, data, inputs), Path(out)
    read.require_every_file("repair")
    given = {"data": data, "repair data": repair_data, "test data": test_data}
    tables = {role: as_source(source) for role, source in given.items() if source is not None}
    suffix = _suffix_of(read.model)
    contents = {
        f"model{suffix}": "the repaired model",
        "certificate.json": "the certificate, for fairmend check",
        "spec.toml": "the spec",
        "repair_inputs.csv": "the repair inputs",
        **REPORT_FILES,
    }
    if is_pipeline(read.model):
        contents[_pipeline_name(read.model)] = "the pipeline with the repaired network"
    paths = [*read.paths, *(path for source in tables.values() for path in local_files(source))]
    kept = range(1, _MOST_CANDIDATES) if (options or {}).get("keep_candidates") else ()
    further = [f"candidate-{number}{end}" for number in kept for end in (suffix, ".certificate.json")]
    check_folder(folder, [*contents, _BY_CLASSES, *further], paths)
    replaced, removed = (folder / "result.json").exists(), _models_of_earlier_repair(folder, paths)
    used, net = read.load()
    chosen = {"method": method, **(options or {})}
    check_applicable(method, options or {}, has_tolerances(used))  # before the data is read and audited
    if isinstance(net, Network):
        require_room(net, read.model)
        other_form = form_warning(net, suffix)
        if other_form and warn is not None:
            warn(other_form)
    require_method(method, net, used)
    frames = {role: read_table(source) for role, source in tables.items()}
    policy = choose_policy(read.options.out_of_range, used, claim_needs_range(used, chosen))
    require_given_scores(used, net, frames["data"], tables["data"], policy)
    people = split_data(
        without_scores(used),  # they are those of the original network, and this spec goes with the repaired one
        net,
        frames["data"],
        source=tables["data"],
        repair_frame=frames.get("repair data"),
        repair_source=tables.get("repair data", ""),
        test_frame=frames.get("test data"),
        test_source=tables.get("test data", ""),
        repair_rows=repair_rows,
        calibration_rows=calibration_rows,
        seed=seed,
        policy=policy,
        groups=group,
    )
    before = measure(net, people, stage="audit original", seed=seed, progress=progress)
    comparison = repair_and_compare(net, people, before, seed=seed, progress=progress, options=chosen)
    result = comparison.result
    if result.certificate is None:
        del contents["certificate.json"]
    name = _BY_CLASSES if result.by_classes else f"model{suffix}"
    if name not in contents:
        comparison = comparison.with_warning(
            f"the repaired model is {_BY_CLASSES}, as {read.model.suffix} has no place for the nodes in front of the "
            "network that let it read classes of similar people; with --keep-form auto leaves such repairs out"
        )
        contents = {name: contents.pop(f"model{suffix}"), **contents}
    for other in result.others:
        file, proof = _names_of_candidate(other, suffix)
        contents[file] = f"candidate {other.number}, {other.name}"
        contents |= {} if other.certificate is None else {proof: f"the certificate of {file}"}
    # a certificate of an earlier repair is about another network
    outdated = [*removed, *(["certificate.json"] if result.certificate is None else [])]
    with staged_folder(folder, without=outdated) as stage:
        checked, warning = _save(result.network, result.certificate, stage / name, stage / "certificate.json")
        comparison = comparison.with_warning(warning)
        if is_pipeline(read.model):
            why = _write_pipeline(stage, read.model, result.network, read.options.trust_pickle)
            if why:
                del contents[_pipeline_name(read.model)]
                comparison = comparison.with_warning(f"the repaired network is not in a pipeline: {why}")
        for other in result.others:
            _save(other.network, other.certificate, *(stage / file for file in _names_of_candidate(other, suffix)))
        people.spec.save(stage / "spec.toml")
        write_csv(stage / "repair_inputs.csv", people.repair_frame)
        sources = {"model": read.model, "data": tables["data"], "spec": read.spec, **tables}
        written = RepairFolder(folder, sources, command, seed, what_if_rows)
        document = written.describe(stage, name, net, comparison, checked, contents)
        write_report(stage, document)
    covers = comparison.guarantee.partial_coverage()
    if checked is not None and covers:
        contents["certificate.json"] = f"a certificate for {covers}, for fairmend check"
    return RepairedFiles(comparison, checked, document, folder, contents, name, replaced, tuple(removed))


def _save(
    network: Network | RepairedModel, certificate: Certificate | None, model: Path, path: Path
) -> tuple[CheckResult | None, str]:
    """Save a model, and its certificate once it is checked; return the result, and a warning about another form."""
    return (
        (None, save_unchecked(network, model))
        if certificate is None
        else save_checked(network, certificate, path, model)
    )


def _suffix_of(model: Path) -> str:
    """Return the suffix of a repaired model: that of the original, or of a pipeline of scikit-learn .onnx.

    A certificate can be about an ONNX file.
    """
    return ".onnx" if is_pipeline(model) else model.suffix.lower()


def _write_pipeline(stage: Path, model: Path, network: Network | RepairedModel, trust_pickle: bool) -> str:
    """Put the repaired network into a copy of its pipeline, and return why there is none; empty if there is one."""
    from fairmend.network.formats.sklearn import to_estimator
    from fairmend.spec.draft.from_sklearn import read_pipeline

    if not isinstance(network, Network):
        return "the nodes that find the class of similar people are in front of it, and fit into no pipeline"
    try:
        repaired = to_estimator(network, read_pipeline(model, trust_pickle)[0])
    except FairmendError as error:
        return str(error)
    if model.suffix.lower() == ".skops":
        from skops import io

        io.dump(repaired, stage / _pipeline_name(model))
    else:
        import joblib

        joblib.dump(repaired, stage / _pipeline_name(model))
    return ""


def _pipeline_name(model: Path) -> str:
    return f"pipeline{model.suffix.lower()}"


def _models_of_earlier_repair(out: Path, inputs: Sequence[Path]) -> list[str]:
    """Return the names of the networks that an earlier repair wrote into the folder, if the files are still the same.

    Beside a new certificate they would pass for the network that the certificate is about.
    """
    try:
        earlier = load_report(out).document
    except FairmendError:  # no report, or one that cannot be read: then the folder says nothing about its files
        return []
    names = [name for name in earlier.files if _CANDIDATE.fullmatch(name) and (out / name).is_file()]
    for file in earlier.origin.files:
        here = file.role == "repaired model" and Path(file.name).name == file.name and (out / file.name).is_file()
        names += [file.name] if here and file_digest(out / file.name) == file.sha256 else []
    return [name for name in names if not any((out / name).samefile(path) for path in inputs)]


def _names_of_candidate(kept: OtherCandidate, suffix: str) -> tuple[str, str]:
    by_classes = isinstance(kept.network, RepairedModel)
    return f"candidate-{kept.number}{'.onnx' if by_classes else suffix}", f"candidate-{kept.number}.certificate.json"


@dataclass(frozen=True)
class RepairFolder:
    """The folder of a repair, and where the repair comes from.

    Attributes
    ----------
    folder : the folder
    sources : the files that were read, by role
    command, seed : what was typed, and the random seed
    what_if_rows : how many random rows the page holds, which computes the scores of any person; None if it does not
    """

    folder: Path
    sources: Mapping[str, DataSource]
    command: str | None
    seed: int
    what_if_rows: int | None

    def describe(
        self,
        stage: Path,
        repaired: str,
        original: Network | RunModel,
        comparison: RepairComparison,
        check: CheckResult | None,
        written: Iterable[str],
    ) -> RepairDocument:
        """Describe a repair whose files are in `stage` and will move to the folder; `repaired` is that of its model.

        `check` is what the checker says of the certificate, and `written` are the names of all files.
        """
        files: dict[str, DataSource] = {**self.sources, "repaired model": stage / repaired}
        people, result = comparison.split, comparison.result
        how_to_check = None
        if result.certificate is not None:
            files["certificate"] = stage / "certificate.json"
            real = ["--real"] if result.certificate.real_only else []
            both = (str(self.folder / "certificate.json"), str(self.folder / repaired))
            how_to_check = shlex.join(["fairmend", "check", *both, *real])
        parts = {role: [file.name for file in find_files(files[role])] for role in _TABLES if role in files}
        document = repair_document(
            original,
            comparison,
            describe_origin(files, parts=parts, command=self.command, seed=self.seed),
            title=self.sources["model"].name,
            command=how_to_check,
            check=None if check is None else check.as_dict(),
            files={name: self.folder / name for name in written},
        )
        rows, both_read = self.what_if_rows, isinstance(original, Network) and isinstance(result.network, Network)
        if rows is None or not both_read:  # the page computes scores from weights
            return document
        return add_what_if(
            document, people.spec, people.X, original, result.network, numbers=people.rows, rows=rows, seed=self.seed
        )

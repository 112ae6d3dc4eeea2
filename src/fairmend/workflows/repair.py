"""Repair the network in a file: from the files of model, spec and data to a folder with everything about the repair."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairmend import CheckResult
from fairmend.base.errors import FairmendError
from fairmend.base.folders import check_folder, staged_folder
from fairmend.base.paths import DataSource
from fairmend.base.progress import Progress, shows_progress
from fairmend.evaluate.compare import RepairComparison, claim_needs_range, measure, repair_and_compare
from fairmend.evaluate.document import RepairDocument, SourceFile
from fairmend.evaluate.document_parts import describe_origin, file_digest
from fairmend.evaluate.people import choose_policy, require_given_scores
from fairmend.evaluate.repair_document import repair_document
from fairmend.evaluate.split import split_data
from fairmend.evaluate.what_if import add_what_if
from fairmend.models import RunModel
from fairmend.models.repaired import RepairedModel
from fairmend.network import Network
from fairmend.network.formats import require_room
from fairmend.repairing.options import check_applicable, has_tolerances
from fairmend.repairing.result import OtherCandidate, RepairResult
from fairmend.repairing.run import require_method
from fairmend.report import Report, load_report
from fairmend.tables import find_files, local_files, read_table, write_csv
from fairmend.workflows.inputs import (
    DataPath,
    PathLike,
    add_about,
    as_path,
    as_source,
    is_pipeline,
    load_any_model,
    without_scores,
)
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
    method: str = "auto",
    repair_data: DataPath | None = None,
    test_data: DataPath | None = None,
    repair_rows: int = 100,
    calibration_rows: int = 500,
    group: Sequence[str] = (),
    seed: int = 0,
    out_of_range: str = "refuse",
    threshold: float | None = None,
    about: PathLike | None = None,
    activation: str | None = None,
    ignore_scores: bool = False,
    trust_pickle: bool = False,
    outputs: str | None = None,
    what_if_rows: int | None = None,
    options: Mapping[str, Any] | None = None,
    command: str | None = None,
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
) -> RepairedFiles:
    """Repair the network in a file and write the folder `out`, as `fairmend repair` does.

    `options` are further ones of the command, such as ``{"steps": 50, "keep": 0.01}``; those that the method does not
    use are refused. The part "What if?" of the report holds `what_if_rows` rows of the data (None leaves it out).
    `command` is what the report says was typed, and `warn` is called with warnings before the long work.
    """
    model, spec_file, folder, about_file = Path(model), Path(spec), Path(out), as_path(about)
    given = {"data": data, "repair data": repair_data, "test data": test_data}
    tables = {role: as_source(source) for role, source in given.items() if source is not None}
    contents = {
        _name_of(model): "the repaired model",
        "certificate.json": "the certificate, for fairmend check",
        "spec.toml": "the spec",
        "repair_inputs.csv": "the repair inputs",
        **REPORT_FILES,
    }
    if is_pipeline(model):
        contents[_pipeline_name(model)] = "the pipeline with the repaired network"
    local = [path for source in tables.values() for path in local_files(source)]
    inputs = [path for path in (model, *local, spec_file, about_file) if path is not None]
    kept = range(1, _MOST_CANDIDATES) if (options or {}).get("keep_candidates") else ()
    further = [f"candidate-{number}{end}" for number in kept for end in (_suffix_of(model), ".certificate.json")]
    check_folder(folder, [*contents, _BY_CLASSES, *further], inputs)
    replaced, removed = (folder / "result.json").exists(), _model_of_earlier_repair(folder, inputs)
    used, net = load_any_model(
        model, spec_file, activation, ignore_scores, threshold, outputs, trust_pickle=trust_pickle
    )
    chosen = {"method": method, **(options or {})}
    check_applicable(method, options or {}, has_tolerances(used))  # before the data is read and audited
    if isinstance(net, Network):
        require_room(net, model)
        other_form = form_warning(net, _suffix_of(model))
        if other_form and warn is not None:
            warn(other_form)
    require_method(method, net, used)
    used = add_about(used, about_file)
    frames = {role: read_table(source) for role, source in tables.items()}
    policy = choose_policy(out_of_range, used, claim_needs_range(used, chosen))
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
    sources = {"model": model, "data": tables["data"], "spec": spec_file, **tables}
    if comparison.result.certificate is None:
        del contents["certificate.json"]
    name = _BY_CLASSES if comparison.result.by_classes else _name_of(model)
    if name not in contents:
        comparison = replace(comparison, warnings=(*comparison.warnings, _other_file(model)))
        contents = {name: contents.pop(_name_of(model)), **contents}
    contents |= _candidate_files(comparison.result, _suffix_of(model))
    comparison, checked, document = _write(
        folder,
        name,
        net,
        comparison,
        sources,
        contents,
        command,
        seed,
        what_if_rows,
        without=removed,
        trust_pickle=trust_pickle,
    )
    covers = comparison.guarantee.partial_coverage()
    if checked is not None and covers:
        contents["certificate.json"] = f"a certificate for {covers}, for fairmend check"
    return RepairedFiles(comparison, checked, document, folder, contents, name, replaced, tuple(removed))


def _name_of(model: Path) -> str:
    """Return the name of a repaired network in the folder: that of a file in the format of the original.

    That of a pipeline of scikit-learn is an ONNX file, which a certificate can be about.
    """
    return f"model{_suffix_of(model)}"


def _suffix_of(model: Path) -> str:
    return ".onnx" if is_pipeline(model) else model.suffix.lower()


def _write_pipeline(stage: Path, model: Path, network: Network | RepairedModel, trust_pickle: bool) -> str:
    """Put the repaired network into a copy of its pipeline, and return why there is none; empty if there is one."""
    from fairmend.network.formats.sklearn import to_estimator
    from fairmend.spec.draft.from_sklearn import read_pipeline

    if not isinstance(network, Network):
        return "the model was repaired by classes of similar people, in front of it"
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


def _other_file(model: Path) -> str:
    return (
        f"the repaired model is {_BY_CLASSES}, as {model.suffix} has no place for the nodes in front of the network "
        "that let it read classes of similar people; with --keep-form auto leaves such repairs out"
    )


def _model_of_earlier_repair(out: Path, inputs: Sequence[Path]) -> list[str]:
    """Return the name of the network that an earlier repair wrote into the folder, if the file is still the same.

    Beside a new certificate it would pass for the network that the certificate is about. So would its candidates.
    """
    try:
        earlier = load_report(out).document
    except FairmendError:  # no report, or one that cannot be read: then the folder says nothing about its files
        return []
    files = earlier.origin.files
    candidates = [name for name in earlier.files if _CANDIDATE.fullmatch(name) and (out / name).is_file()]
    return [
        *(name for name in candidates if not any((out / name).samefile(path) for path in inputs)),
        *_unchanged_model(out, files, inputs),
    ]


def _unchanged_model(out: Path, files: Sequence[SourceFile], inputs: Sequence[Path]) -> list[str]:
    return [
        file.name
        for file in files
        if file.role == "repaired model"
        and Path(file.name).name == file.name
        and (out / file.name).is_file()
        and file_digest(out / file.name) == file.sha256
        and not any((out / file.name).samefile(path) for path in inputs)
    ]


def _write(
    out: Path,
    name: str,
    original: Network | RunModel,
    comparison: RepairComparison,
    sources: Mapping[str, DataSource],
    files: dict[str, str],
    command: str | None,
    seed: int,
    what_if_rows: int | None,
    *,
    without: Sequence[str],
    trust_pickle: bool,
) -> tuple[RepairComparison, CheckResult | None, RepairDocument]:
    """Write the folder, once the certificate is checked; return the result of that check, or None without one.

    The comparison is returned with a warning if the file has another form than the original. `files` are the names of
    all that is written; those named in `without` are deleted, unless they are written anew.
    """
    certificate, checked = comparison.result.certificate, None
    suffix = _suffix_of(Path(str(sources["model"])))
    # a certificate of an earlier repair is about another network
    outdated = [*without, *(["certificate.json"] if certificate is None else [])]
    with staged_folder(out, without=outdated) as stage:
        model = stage / name
        if certificate is None:
            other = save_unchecked(comparison.result.network, model)
        else:
            checked, other = save_checked(comparison.result.network, certificate, stage / "certificate.json", model)
        if other:
            comparison = replace(comparison, warnings=(*comparison.warnings, other))
        source = Path(str(sources["model"]))
        why = _write_pipeline(stage, source, comparison.result.network, trust_pickle) if is_pipeline(source) else ""
        if why:
            del files[_pipeline_name(source)]
            line = f"the repaired network is not in a pipeline: {why}"
            comparison = replace(comparison, warnings=(*comparison.warnings, line))
        for kept in comparison.result.others:
            _write_candidate(stage, kept, suffix)
        comparison.split.spec.save(stage / "spec.toml")
        write_csv(stage / "repair_inputs.csv", comparison.split.repair_frame)
        document = describe_repair(
            original, comparison, out, stage, model.name, sources, command, seed, what_if_rows, checked, files
        )
        write_report(stage, document)
    return comparison, checked, document


def _candidate_files(result: RepairResult, suffix: str) -> dict[str, str]:
    """Return the files of the candidates that were not selected but kept, and what each is."""
    found = {}
    for kept in result.others:
        model, certificate = _names_of_candidate(kept, suffix)
        found[model] = f"candidate {kept.number}, {kept.name}"
        if kept.certificate is not None:
            found[certificate] = f"the certificate of {model}"
    return found


def _names_of_candidate(kept: OtherCandidate, suffix: str) -> tuple[str, str]:
    by_classes = isinstance(kept.network, RepairedModel)
    return f"candidate-{kept.number}{'.onnx' if by_classes else suffix}", f"candidate-{kept.number}.certificate.json"


def _write_candidate(stage: Path, kept: OtherCandidate, suffix: str) -> None:
    """Write the network of a candidate, and its certificate once it is checked."""
    model, certificate = (stage / name for name in _names_of_candidate(kept, suffix))
    if kept.certificate is None:
        save_unchecked(kept.network, model)
    else:
        save_checked(kept.network, kept.certificate, certificate, model)


def describe_repair(
    original: Network | RunModel,
    comparison: RepairComparison,
    folder: Path,
    stage: Path,
    repaired: str,
    sources: Mapping[str, DataSource],
    command: str | None,
    seed: int,
    what_if_rows: int | None,
    check: CheckResult | None = None,
    written: Iterable[str] = (),
) -> RepairDocument:
    """Describe a repair whose files are in `stage` and will move to `folder`; `repaired` is the name of its model.

    The page computes the scores of any person, and holds so many random rows, unless `what_if_rows` is None. `check` is
    what the checker says of the certificate, and `written` are the names of all files.
    """
    files: dict[str, DataSource] = {**sources, "repaired model": stage / repaired}
    how_to_check = None
    certificate = stage / "certificate.json"
    if certificate.exists():
        files["certificate"] = certificate
        claimed = comparison.result.certificate
        real = ["--real"] if claimed is not None and claimed.real_only else []
        how_to_check = shlex.join(["fairmend", "check", str(folder / certificate.name), str(folder / repaired), *real])
    parts = {role: [file.name for file in find_files(files[role])] for role in _TABLES if role in files}
    document = repair_document(
        original,
        comparison,
        describe_origin(files, parts=parts, command=command, seed=seed),
        title=sources["model"].name,
        command=how_to_check,
        check=None if check is None else check.as_dict(),
        files={name: folder / name for name in written},
    )
    if what_if_rows is None:
        return document
    people, network = comparison.split, comparison.result.network
    if not isinstance(original, Network) or not isinstance(network, Network):
        return document  # the page computes scores from weights
    return add_what_if(
        document, people.spec, people.X, original, network, numbers=people.rows, rows=what_if_rows, seed=seed
    )

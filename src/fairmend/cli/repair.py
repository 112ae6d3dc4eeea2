"""`fairmend repair`: from the files of a network, a spec and data to a folder with the repaired network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from fairmend.atomic import check_folder, staged_folder
from fairmend.cli.console import bars, console, show_check, show_comparison, show_files, show_json
from fairmend.cli.inputs import load_model
from fairmend.cli.report import REPORT_FILES, describe_repair, show_report, write_report
from fairmend.evaluate.compare import RepairComparison, measure, repair_and_compare
from fairmend.evaluate.split import split_data
from fairmend.network import Network
from fairmend.tables import read_table, write_csv, write_json

if TYPE_CHECKING:
    from fairmend.repair.result import RepairResult


def run_repair(
    model: Path,
    data: Path,
    spec_file: Path,
    out: Path,
    *,
    repair_data: Path | None = None,
    repair_rows: int = 100,
    calibration_rows: int = 500,
    seed: int = 0,
    activation: str = "relu",
    json_output: bool = False,
    command: str | None = None,
    options: Mapping[str, Any],
) -> int:
    """Repair the network in `model`, write the folder `out` and say what came of it.

    Returns 1 where repair inputs are still treated unequally, as a baseline may leave them, else 0.
    """
    files = {
        f"model{model.suffix.lower()}": "the repaired network",
        "certificate.json": "the proof, for fairmend check",
        "spec.toml": "who counts as similar",
        "repair_inputs.csv": "the inputs the network was repaired with",
        "result.json": "every figure, with losses and warnings",
        **REPORT_FILES,
    }
    inputs = [path for path in (model, data, spec_file, repair_data) if path is not None]
    check_folder(out, list(files), inputs)
    replaced = (out / "result.json").exists()
    spec, net = load_model(model, spec_file, activation)
    people = split_data(
        spec,
        net,
        read_table(data),
        source=data,
        repair_frame=None if repair_data is None else read_table(repair_data),
        repair_source=repair_data or "",
        repair_rows=repair_rows,
        calibration_rows=calibration_rows,
        seed=seed,
    )
    with bars(quiet=json_output) as report:
        before = measure(net, people, stage="audit original", seed=seed, progress=report)
        comparison = repair_and_compare(net, people, before, seed=seed, progress=report, options=options)
    document = {**comparison.as_dict(), "seed": seed, "model": model.name, "data": data.name}
    sources = {"model": model, "data": data, "spec": spec_file}
    sources |= {} if repair_data is None else {"repair data": repair_data}
    _write(out, net, comparison, document, sources, command, seed)
    certified = comparison.result.certificate is not None
    covers = _covered(comparison.result)
    if not certified:
        del files["certificate.json"]
    elif covers:
        files["certificate.json"] = f"a proof for {covers}, for fairmend check"
    code = 1 if comparison.after.repair.count else 0
    if json_output:
        show_json({**document, "files": {name: out / name for name in files}})
        return code
    screen = console()
    show_comparison(screen, comparison, f"{model.name}, repaired with method {comparison.result.method}")
    show_files(screen, out, files)
    _show_earlier(screen, out, files, replaced)
    if certified:
        show_check(screen, out / "certificate.json", out / f"model{model.suffix.lower()}", covers)
    show_report(screen, out / "report.html")
    return code


def _show_earlier(screen: Console, out: Path, files: Mapping[str, str], replaced: bool) -> None:
    """Say what happened to an earlier repair in the same folder, and what of it still lies there."""
    if not replaced:
        return
    screen.print(Text(f"These replace an earlier repair in {out}.", style="yellow"))
    stale = [path for path in sorted(out.glob("model.*")) if path.name not in files]
    stale += [path for path in (out / "certificate.json",) if path.exists() and path.name not in files]
    if stale:
        names = ", ".join(path.name for path in stale)
        screen.print(Text(f"Still there from before, and not of this repair: {names}.", style="yellow"))


def _covered(result: RepairResult) -> str:
    """Whom the certificate of a baseline is about; empty where it leaves out nobody it should cover."""
    if result.proven == result.regions:
        return ""
    some = f"{result.proven:,} of the {result.regions:,} repair inputs"
    return f"everyone's protected features, and {some} with their tolerance" if result.blind else some


def _write(
    out: Path,
    original: Network,
    comparison: RepairComparison,
    document: Mapping[str, object],
    sources: Mapping[str, Path],
    command: str | None,
    seed: int,
) -> None:
    with staged_folder(out) as stage:
        model = stage / f"model{sources['model'].suffix.lower()}"
        comparison.result.network.save(model)
        if comparison.result.certificate is not None:
            comparison.result.certificate.save(stage / "certificate.json", model)
        else:  # one that an earlier repair left there is about another network
            (out / "certificate.json").unlink(missing_ok=True)
        comparison.split.spec.save(stage / "spec.toml")
        write_csv(stage / "repair_inputs.csv", comparison.split.repair_frame)
        write_json(stage / "result.json", document)
        write_report(stage, describe_repair(original, comparison, out, stage, model.name, sources, command, seed))

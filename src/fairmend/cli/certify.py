"""`fairmend certify`: decide for each person whether they are treated equally, with a proof or a counterfactual."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmend._version import __version__
from fairmend.base.data_source import DataSource
from fairmend.base.errors import FairmendError
from fairmend.cli.group import Command
from fairmend.cli.options import (
    DATA,
    DATA_FORMATS,
    FILE,
    POSITIVE,
    activation_option,
    cluster_option,
    common_options,
    device_option,
    ignore_scores_option,
    insert_formats,
    jobs_option,
    json_option,
    keep_going_option,
    model_argument,
    out_of_range_option,
    refuse_together,
    resume_option,
    seed_option,
    spec_option,
    threshold_option,
)

if TYPE_CHECKING:
    from rich.console import Console

    from fairmend.base.arrays import FloatArray
    from fairmend.base.progress import Progress
    from fairmend.evaluate.people import People
    from fairmend.network import Network
    from fairmend.prove.result import CertifyResult
    from fairmend.spec import Claim, Spec


ALL_FAIR, SOME_UNFAIR, UNDECIDED = 0, 1, 2

_SHOWN = 5
_REAL_ONLY = (
    "It is about exact arithmetic only: every margin is below the rounding errors of inference, which may change a "
    "prediction of the deployed model. Check it with fairmend check --real."
)
_STYLE = {"fair": "green", "unfair": "red", "unknown": "yellow"}
_UNDECIDED = "undecided: neither proven nor refuted"


@click.command("certify", cls=Command)
@model_argument
@click.option("--data", type=DATA, required=True, help=f"People to certify, {DATA_FORMATS}")
@keep_going_option
@spec_option
@click.option(
    "--engine",
    type=click.Choice(["auto", "enumerate", "branch", "milp"]),
    default="auto",
    show_default=True,
    help="enumerate tries every counterfactual, branch uses branch and bound, milp a mixed-integer solver.",
)
@click.option("--rows", type=click.IntRange(min=1), help="Certify only this many rows, drawn at random.")
@click.option("--time-limit", type=POSITIVE, help="Seconds for all inputs; undecided inputs are reported as UNKNOWN.")
@out_of_range_option
@threshold_option
@activation_option
@ignore_scores_option
@jobs_option("certify people. The result is the same.")
@device_option
@cluster_option
@resume_option
@seed_option
@click.option("--certificate", type=FILE, help="Write a certificate for the FAIR inputs to this file.")
@json_option
@common_options
@click.pass_context
@insert_formats
def command(ctx: click.Context, /, model: Path, data: DataSource, spec_file: Path, **options: Any) -> None:
    """Prove for each person whether they are treated equally.

    MODEL is a file: {formats}. The verdict on each person in the data is FAIR (proven), UNFAIR (with a similar person
    who gets a different prediction, or two whose scores differ by more than delta if the spec claims scores) or
    UNKNOWN. Exits with 0 if all are FAIR, 1 if any is UNFAIR, else 2.
    """
    refuse_together(ctx, "jobs", "cluster")
    ctx.exit(run_certify(model, data, spec_file, **options))


def run_certify(
    model: Path,
    data: DataSource,
    spec_file: Path,
    *,
    keep_going: bool = False,
    engine: str = "auto",
    rows: int | None = None,
    time_limit: float | None = None,
    jobs: int = 1,
    device: str = "cpu",
    cluster: str | None = None,
    resume: Path | None = None,
    seed: int = 0,
    threshold: float | None = None,
    activation: str | None = None,
    ignore_scores: bool = False,
    certificate: Path | None = None,
    out_of_range: str = "refuse",
    json_output: bool = False,
) -> int:
    """Certify rows of the data, show the verdicts and return the exit code."""
    from rich.text import Text

    from fairmend.cli.console import (
        at_threshold,
        console,
        progress_bars,
        show_condition,
        show_json,
        show_out_of_range,
        show_warnings,
    )
    from fairmend.prove.certify import certify
    from fairmend.spec.out_of_range import spec_warnings
    from fairmend.tables import describe_broken, local_files
    from fairmend.workers.engine import open_engine
    from fairmend.workflows.inputs import load_model, load_people, save_widened_spec, widened_spec_file

    if certificate is not None and not certificate.absolute().parent.is_dir():
        raise FairmendError(f"{certificate}: no such folder; choose another --certificate")
    spec, net = load_model(model, spec_file, activation, ignore_scores, threshold)
    with open_engine(cluster, jobs) as workers, progress_bars(quiet=json_output) as progress:
        people = load_people(data, spec, net, rows, seed, out_of_range, keep_going=keep_going)
        spec, X = people.spec, people.X
        sources = [model, *local_files(data), spec_file]
        spec_out = None if certificate is None else widened_spec_file(certificate, sources)
        result = certify(
            net,
            spec,
            X,
            engine,
            time_limit=time_limit,
            device=device,
            cluster=workers,
            resume=resume,
            seed=seed,
            progress=lambda _, done, total: progress("certify", done, total),
        )
        written = {} if certificate is None else _write_certificate(certificate, model, net, spec, X, result, progress)
    warnings = describe_broken(people.broken)
    warnings += [] if spec.regression else spec_warnings(net.predict(X), classes=spec.classes)
    wider = save_widened_spec(spec, people.out_of_range, spec_out)
    if json_output:
        names = {"fairmend": __version__, "model": model.name, "data": data.name, "seed": seed, "rows": people.rows}
        names |= {"ids": people.ids, "threshold": spec.threshold}
        done: dict[str, Any] = {"out_of_range": people.out_of_range.as_dict(), "widened_spec": wider}
        done |= {"broken_files": [file.as_dict() for file in people.broken]}
        show_json(
            {
                **names,
                **result.as_dict(spec, people.negative if net.outputs <= 2 else None),
                **written,
                **done,
                "warnings": warnings,
            }
        )
    else:
        screen = console()
        negative = people.negative if net.outputs <= 2 else None
        _show(screen, result, people, negative, f"{model.name} on {data.name}{at_threshold(spec)}")
        show_condition(screen, result.condition)
        show_out_of_range(screen, people.out_of_range, wider)
        show_warnings(screen, warnings)
        if certificate is not None:
            covered, fair = written["certified"], result.counts["fair"]
            inputs = f"{covered:,} of the {fair:,} FAIR inputs"
            if covered == fair:
                inputs = "the FAIR input" if fair == 1 else f"all {fair:,} FAIR inputs"
            screen.print()
            screen.print(Text.assemble(f"Certificate for {inputs}: ", (str(certificate), "bold")), soft_wrap=True)
            if written["arithmetic"] == "real":
                screen.print(Text(_REAL_ONLY, style="yellow"))
    counts = result.counts
    return SOME_UNFAIR if counts["unfair"] else UNDECIDED if counts["unknown"] else ALL_FAIR


def _write_certificate(
    path: Path, model: Path, net: Network, spec: Spec, X: FloatArray, result: CertifyResult, progress: Progress
) -> dict[str, Any]:
    """Write a certificate for the FAIR inputs and return its file, how many it covers, and in which arithmetic."""
    from tempfile import TemporaryDirectory

    import numpy as np

    from fairmend.prove.certificate import certificate_of_fair
    from fairmend.prove.result import Verdict
    from fairmend.workflows.outputs import check_certificate

    fair = np.array([verdict is Verdict.FAIR for verdict in result.verdicts])
    if not fair.any():
        raise FairmendError("no input is FAIR, so there is nothing to certify; repair the network first")
    certificate, covered = certificate_of_fair(net, spec, X[fair], progress)
    if certificate is None:
        raise FairmendError(
            "the proofs split neighbourhoods, and a certificate can hold only whole ones; run without --certificate, "
            "or repair the network, which gives margins that need no splitting"
        )
    with TemporaryDirectory() as folder:  # so that a file at `path` is replaced only by a valid certificate
        certificate.save(Path(folder, "certificate.json"), model)
        check_certificate(Path(folder, "certificate.json"), model, real=certificate.real_only, progress=progress)
    certificate.save(path, model)
    return {"certificate": path, "certified": int(covered.sum()), "arithmetic": certificate.content["arithmetic"]}


def _meanings(claim: Claim) -> dict[str, str]:
    """Return what each verdict means."""
    if claim.is_score:
        what = f"scores of similar people differ by at most {claim.delta:g} ({claim.on})"
        return {
            "fair": f"proven: {what}",
            "unfair": f"the scores of two similar people differ by more than {claim.delta:g}",
            "unknown": _UNDECIDED,
        }
    return {
        "fair": "proven: every similar person gets the same prediction",
        "unfair": "a similar person gets a different prediction",
        "unknown": _UNDECIDED,
    }


def _show(screen: Console, result: CertifyResult, people: People, negative: str | None, title: str) -> None:
    from rich.text import Text

    from fairmend.auditing.result import name_row
    from fairmend.base.text import percent
    from fairmend.cli.console import ROW_NUMBERS, Rows, figures_table

    spec = people.spec
    table = figures_table(title, "verdict", "people", "share", "meaning", right=("people", "share"))
    for verdict, style in _STYLE.items():
        count = result.counts[verdict]
        name = Text(verdict.upper(), style=style if count else "dim")
        table.add_row(name, f"{count:,}", percent(count / len(result)), _meanings(spec.claim)[verdict])
    table.caption = f"{len(result):,} people, engine {result.engine}, {result.seconds:.2f} s"
    screen.print(table)
    names = [name_row(row, person) for row, person in zip(people.rows.tolist(), people.ids, strict=True)]
    pairs = [(name, pair) for name, pair in zip(names, result.witnesses, strict=True) if pair is not None]
    if pairs:
        some = "" if len(pairs) <= _SHOWN else f" ({_SHOWN} of {len(pairs):,})"
        screen.print(f"\nTreated unequally{some}:")
        lines = Rows.grid(padding=(0, 1))
        for person, pair in pairs[:_SHOWN]:
            lines.add_row(Text(f"  {person}:"), Text(pair.describe(spec, negative)))
        screen.print(lines)
        screen.print(Text(f"  {ROW_NUMBERS}", style="dim"))
    for reason in dict.fromkeys(reason for reason in result.reasons if reason):
        screen.print(Text(f"UNKNOWN for {result.reasons.count(reason):,}: {reason}", style="yellow"))

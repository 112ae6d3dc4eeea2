"""`fairmend search`: run a fairness tester that searches for unequal treatment beyond the people in the data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmend._version import __version__
from fairmend.base.data_source import DataSource
from fairmend.cli.group import Command
from fairmend.cli.options import (
    DATA,
    DATA_FORMATS,
    FILE,
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

    from fairmend.auditing.result import AuditPair
    from fairmend.network import Network
    from fairmend.searching.result import SearchResult
    from fairmend.spec import Spec


NONE_FOUND, SOME_FOUND = 0, 1

_SHOWN = 5


@click.command("search", cls=Command)
@model_argument
@spec_option
@click.option("--data", type=DATA, required=True, help=f"People to start from, {DATA_FORMATS}")
@keep_going_option
@click.option(
    "--method",
    type=click.Choice(["adf", "eidig", "neuronfair", "grft"]),
    default="adf",
    show_default=True,
    help="adf follows gradients of the loss, eidig of the output, neuronfair of biased neurons; grft uses a genetic "
    "algorithm.",
)
@click.option(
    "--seeds", type=click.IntRange(min=1), default=1000, show_default=True, help="Number of people to start from."
)
@click.option(
    "--local-steps",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    help="Steps of the local phase around each result of the global phase.",
)
@jobs_option("search from batches of 1,000 seeds, or fewer if the network is wide. The result is the same.")
@device_option
@cluster_option
@resume_option
@seed_option
@click.option(
    "--out", type=FILE, help="CSV file for everyone found to be treated unequally, each with a counterfactual."
)
@out_of_range_option
@threshold_option
@activation_option
@ignore_scores_option
@json_option
@common_options
@click.pass_context
@insert_formats
def command(ctx: click.Context, /, model: Path, spec_file: Path, data: DataSource, **options: Any) -> None:
    """Search the input space for unequal treatment.

    MODEL is a file: {formats}. A fairness tester starts from people in the data and searches for inputs that are
    treated unequally. Exits with 0 if it finds none, 1 if it finds some.
    """
    refuse_together(ctx, "jobs", "cluster")
    ctx.exit(run_search(model, spec_file, data, **options))


def run_search(
    model: Path,
    spec_file: Path,
    data: DataSource,
    *,
    keep_going: bool = False,
    method: str = "adf",
    seeds: int = 1000,
    local_steps: int = 1000,
    jobs: int = 1,
    device: str = "cpu",
    cluster: str | None = None,
    resume: Path | None = None,
    seed: int = 0,
    out: Path | None = None,
    out_of_range: str = "refuse",
    threshold: float | None = None,
    activation: str | None = None,
    ignore_scores: bool = False,
    json_output: bool = False,
) -> int:
    """Search from the people in the file, show the result and return the exit code."""
    import numpy as np
    from rich.text import Text

    from fairmend.cli.console import at_threshold, console, progress_bars, show_json, show_out_of_range, show_warnings
    from fairmend.evaluate.pairs_file import PairsFile
    from fairmend.searching.run import search
    from fairmend.spec.out_of_range import spec_warnings
    from fairmend.tables import describe_broken, local_files
    from fairmend.workers.engine import open_engine
    from fairmend.workflows.inputs import load_model, load_people, save_widened_spec, widened_spec_file

    spec, net = load_model(model, spec_file, activation, ignore_scores, threshold)
    with open_engine(cluster, jobs) as engine, progress_bars(quiet=json_output) as progress:
        people = load_people(data, spec, net, out_of_range=out_of_range, keep_going=keep_going)
        spec, X = people.spec, people.X
        inputs = [model, spec_file, *local_files(data)]
        spec_out = None if out is None else widened_spec_file(out, inputs)
        with PairsFile(out, spec, net, inputs) as file:
            result = search(
                net,
                spec,
                X,
                method,
                seed,
                seeds=seeds,
                local_steps=local_steps,
                device=device,
                cluster=engine,
                resume=resume,
                progress=progress,
            )
            if out is not None and result.count:
                file.write(np.arange(1, result.count + 1), result.idis, result.others)
    wider = save_widened_spec(spec, people.out_of_range, spec_out)
    warnings = [*describe_broken(people.broken), *spec_warnings(net.predict(X), classes=spec.classes)]
    pairs = _some_pairs(net, spec, result)
    if json_output:
        names = {
            "fairmend": __version__,
            "model": model.name,
            "data": data.name,
            "seed": seed,
            "threshold": spec.threshold,
        }
        listed = [pair.as_dict() for pair in pairs]
        done: dict[str, Any] = {"out_of_range": people.out_of_range.as_dict(), "widened_spec": wider}
        done |= {"broken_files": [file.as_dict() for file in people.broken]}
        done |= {"warnings": warnings}
        show_json({**names, "local_steps": local_steps, **result.as_dict(), "pairs": listed, "out": out, **done})
    else:
        screen = console()
        _show(screen, f"{model.name}, searched from {data.name}{at_threshold(spec)}", result, spec, net.outputs, pairs)
        show_out_of_range(screen, people.out_of_range, wider)
        show_warnings(screen, warnings)
        if out is not None:
            screen.print()
            screen.print(Text.assemble("Everyone found to be treated unequally: ", (str(out), "bold")), soft_wrap=True)
    return SOME_FOUND if result.count else NONE_FOUND


def _some_pairs(net: Network, spec: Spec, result: SearchResult) -> list[AuditPair]:
    """Return a few pairs, spread over the results; `row` is their number, counted from 1."""
    import numpy as np

    from fairmend.auditing.result import make_pairs
    from fairmend.network.scores import ScoredRows

    rows = np.unique(np.linspace(0, result.count - 1, min(_SHOWN, result.count)).astype(np.int64)).tolist()
    numbers = [row + 1 for row in rows]
    return make_pairs(spec, numbers, ScoredRows.of(net, result.idis[rows]), result.others[rows]) if rows else []


def _show(screen: Console, title: str, result: SearchResult, spec: Spec, outputs: int, pairs: list[AuditPair]) -> None:
    from rich.text import Text

    from fairmend.cli.console import figures_table, show_pairs

    table = figures_table(title, "", " ", right=(" ",))
    table.add_row("Tester", result.method)
    table.add_row(
        "Found to be treated unequally", Text(f"{result.count:,}", "bold red" if result.count else "bold green")
    )
    table.add_row("Seeds with a result", f"{result.starts:,} of {result.seeds:,}")
    table.add_row("Model calls", f"{result.calls:,}")
    table.add_row("Seconds", f"{result.seconds:.2f}")
    screen.print(table)
    if not result.count:
        screen.print(
            Text("The tester found no unequal treatment. This is not a proof: run fairmend certify.", style="yellow")
        )
        return
    screen.print("\nExamples:")
    show_pairs(screen, spec, outputs, pairs, "result")

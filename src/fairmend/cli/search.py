"""`fairmend search`: a fairness tester looks for people whom a network treats unequally, beyond those in the data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairmend._version import __version__
from fairmend.audit.result import AuditPair, make_pairs
from fairmend.cli.console import bars, console, show_json, show_pairs
from fairmend.cli.inputs import load_model, load_people
from fairmend.evaluate.pairs_file import PairsFile
from fairmend.network import Network
from fairmend.search.result import SearchResult
from fairmend.search.run import search
from fairmend.spec import Spec

NOBODY_FOUND, SOMEBODY_FOUND = 0, 1

_SHOWN = 5
_STAGES = {
    "global": "Looking for somebody from each seed",
    "local": "Looking around those found",
    "confirm": "Confirming everybody found",
}


def run_search(
    model: Path,
    spec_file: Path,
    data: Path,
    *,
    method: str = "adf",
    seeds: int = 1000,
    local_steps: int = 1000,
    seed: int = 0,
    out: Path | None = None,
    activation: str = "relu",
    json_output: bool = False,
) -> int:
    """Search from the people in the file and show what came of it; return the exit code."""
    spec, net = load_model(model, spec_file, activation)
    _, X = load_people(data, spec, net)
    with PairsFile(out, spec, net, [model, spec_file, data]) as file:
        with bars(quiet=json_output) as report:
            result = search(
                net,
                spec,
                X,
                method,
                seed,
                seeds=seeds,
                local_steps=local_steps,
                progress=lambda stage, done, total: report(_STAGES[stage], done, total),
            )
        if out is not None and result.count:
            file.write(np.arange(result.count), result.idis, result.others)
    if json_output:
        names = {"fairmend": __version__, "model": model.name, "data": data.name, "seed": seed}
        pairs = [pair.as_dict() for pair in _pairs(net, spec, result)]
        show_json({**names, "local_steps": local_steps, **result.as_dict(), "pairs": pairs, "out": out})
    else:
        _show(
            console(), f"{model.name}, searched from {data.name}", result, spec, net.outputs, _pairs(net, spec, result)
        )
        if out is not None:
            console().print(Text.assemble("\nEverybody found is in ", (str(out), "bold")))
    return SOMEBODY_FOUND if result.count else NOBODY_FOUND


def _pairs(net: Network, spec: Spec, result: SearchResult) -> list[AuditPair]:
    """Return a few of those found, spread over all of them; `row` counts them from 0."""
    rows = np.unique(np.linspace(0, result.count - 1, min(_SHOWN, result.count)).astype(np.int64)).tolist()
    return make_pairs(net, spec, rows, result.idis[rows], result.others[rows]) if rows else []


def _show(screen: Console, title: str, result: SearchResult, spec: Spec, outputs: int, pairs: list[AuditPair]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_edge=False)
    table.add_column("")
    table.add_column("", justify="right")
    table.add_row("Tester", result.method)
    table.add_row("Treated unequally, found", Text(f"{result.count:,}", "bold red" if result.count else "bold green"))
    table.add_row("Seeds that led to somebody", f"{result.starts:,} of {result.seeds:,}")
    table.add_row("Model calls", f"{result.calls:,}")
    table.add_row("Seconds", f"{result.seconds:.2f}")
    screen.print(table)
    if not result.count:
        screen.print(Text("Nobody was found, which proves nothing: fairmend certify can prove.", style="yellow"))
        return
    screen.print(Text("\nSome of them:"))
    show_pairs(screen, spec, outputs, pairs, "find")

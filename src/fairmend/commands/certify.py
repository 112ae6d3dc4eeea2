"""`fairmend certify`: who is provably treated like everyone similar, who is not, and with which pair to show it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairmend._version import __version__
from fairmend.certify.run import certify
from fairmend.certify.verdict import CertifyReport, Verdict
from fairmend.commands.console import bars, console, show_json
from fairmend.errors import FairmendError
from fairmend.network import load_network
from fairmend.spec import Spec
from fairmend.tables import read_table

ALL_FAIR, SOME_UNFAIR, UNDECIDED = 0, 1, 2

_SHOWN = 5
_MEANING = {
    Verdict.FAIR: ("green", "proven: everyone similar gets the same answer"),
    Verdict.UNFAIR: ("red", "someone similar gets another answer"),
    Verdict.UNKNOWN: ("yellow", "neither could be shown"),
}


def run_certify(
    model: Path,
    data: Path,
    spec_file: Path,
    *,
    engine: str = "auto",
    rows: int | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    activation: str = "relu",
    json_output: bool = False,
) -> int:
    """Certify rows of the data and show what came of it; return the exit code."""
    spec, net = Spec.load(spec_file), load_network(model, activation)
    frame = read_table(data)
    chosen = _choose(len(frame), rows, seed)
    try:
        X = spec.as_inputs(frame.iloc[chosen], net.dtype)
    except FairmendError as error:
        raise FairmendError(f"{data}: {error}") from error
    with bars(quiet=json_output) as report:
        result = certify(
            net,
            spec,
            X,
            engine,
            time_limit=time_limit,
            seed=seed,
            progress=lambda _, done, total: report("Deciding on every person", done, total),
        )
    if json_output:
        names = {"fairmend": __version__, "model": model.name, "data": data.name, "seed": seed, "rows": chosen}
        show_json({**names, **result.as_dict(spec)})
    else:
        _show(console(), result, spec, chosen, f"{model.name} on {data.name}")
    counts = result.counts
    return SOME_UNFAIR if counts["unfair"] else UNDECIDED if counts["unknown"] else ALL_FAIR


def _choose(count: int, rows: int | None, seed: int) -> npt.NDArray[np.int64]:
    """All rows, or so many of them drawn at random, in their order."""
    if rows is None or rows >= count:
        return np.arange(count, dtype=np.int64)
    return np.sort(np.random.default_rng(seed).permutation(count)[:rows]).astype(np.int64)


def _show(screen: Console, result: CertifyReport, spec: Spec, rows: npt.NDArray[np.int64], title: str) -> None:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_edge=False)
    for heading in ("verdict", "people", "share", "what it means"):
        table.add_column(heading, justify="right" if heading in ("people", "share") else "left")
    for verdict, (style, meaning) in _MEANING.items():
        count = result.counts[verdict.value]
        table.add_row(
            Text(verdict.name, style=style if count else "dim"), f"{count:,}", f"{count / len(result):.1%}", meaning
        )
    table.caption = f"{len(result):,} people, engine {result.engine}, {result.seconds:.2f} s"
    table.caption_justify = "left"
    screen.print(table)
    _show_witnesses(screen, result, spec, rows)
    reasons = [reason for reason in dict.fromkeys(result.reasons) if reason]
    for reason in reasons:
        screen.print(Text(f"Unknown for {result.reasons.count(reason):,}: {reason}", style="yellow"))


def _show_witnesses(screen: Console, result: CertifyReport, spec: Spec, rows: npt.NDArray[np.int64]) -> None:
    pairs = [(row, pair) for row, pair in zip(rows.tolist(), result.witnesses, strict=True) if pair is not None]
    if not pairs:
        return
    screen.print()
    screen.print(
        Text("Treated unequally:" if len(pairs) <= _SHOWN else f"Treated unequally, {_SHOWN} of {len(pairs):,}:")
    )
    for row, pair in pairs[:_SHOWN]:
        screen.print(Text(f"  row {row}: {pair.describe(spec)}"))

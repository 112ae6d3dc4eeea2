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
from fairmend.arrays import FloatArray
from fairmend.cli.console import bars, console, show_json, show_warnings
from fairmend.cli.inputs import load_model, load_people
from fairmend.errors import FairmendError
from fairmend.network import Network
from fairmend.prove.certificate import certificate_of_fair
from fairmend.prove.certify import certify
from fairmend.prove.result import CertifyResult, Verdict
from fairmend.spec import Spec
from fairmend.spec.sanity import spec_warnings
from fairmend.text import percent

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
    certificate: Path | None = None,
    json_output: bool = False,
) -> int:
    """Certify rows of the data and show what came of it; return the exit code."""
    spec, net = load_model(model, spec_file, activation)
    chosen, X = load_people(data, spec, net, rows, seed)
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
    doubts = spec_warnings(net.predict(X))
    claimed = None if certificate is None else _write_certificate(certificate, model, net, spec, X, result)
    if json_output:
        names = {"fairmend": __version__, "model": model.name, "data": data.name, "seed": seed, "rows": chosen}
        written = {} if certificate is None else {"certificate": certificate, "certified": claimed}
        show_json({**names, **result.as_dict(spec), **written, "warnings": doubts})
    else:
        _show(console(), result, spec, chosen, f"{model.name} on {data.name}")
        show_warnings(console(), doubts)
        if certificate is not None:
            console().print(f"\nCertificate for {claimed:,} of the {result.counts['fair']:,} FAIR: {certificate}")
    counts = result.counts
    return SOME_UNFAIR if counts["unfair"] else UNDECIDED if counts["unknown"] else ALL_FAIR


def _write_certificate(path: Path, model: Path, net: Network, spec: Spec, X: FloatArray, result: CertifyResult) -> int:
    """Write what can be proven in one piece or point by point; how many people that covers."""
    fair = np.array([verdict is Verdict.FAIR for verdict in result.verdicts])
    if not fair.any():
        raise FairmendError("nobody is FAIR, so there is nothing to certify; repair the network first")
    certificate, covered = certificate_of_fair(net, spec, X[fair])
    if certificate is None:
        raise FairmendError(
            "the FAIR verdicts needed neighbourhoods to be split, and a certificate holds whole ones only; "
            "certify without --certificate, or repair the network, which gives margins that need no splitting"
        )
    certificate.save(path, model)
    return int(covered.sum())


def _show(screen: Console, result: CertifyResult, spec: Spec, rows: npt.NDArray[np.int64], title: str) -> None:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_edge=False)
    for heading in ("verdict", "people", "share", "what it means"):
        table.add_column(heading, justify="right" if heading in ("people", "share") else "left")
    for verdict, (style, meaning) in _MEANING.items():
        count = result.counts[verdict.value]
        table.add_row(
            Text(verdict.name, style=style if count else "dim"), f"{count:,}", percent(count / len(result)), meaning
        )
    table.caption = f"{len(result):,} people, engine {result.engine}, {result.seconds:.2f} s"
    table.caption_justify = "left"
    screen.print(table)
    _show_witnesses(screen, result, spec, rows)
    reasons = [reason for reason in dict.fromkeys(result.reasons) if reason]
    for reason in reasons:
        screen.print(Text(f"Unknown for {result.reasons.count(reason):,}: {reason}", style="yellow"))


def _show_witnesses(screen: Console, result: CertifyResult, spec: Spec, rows: npt.NDArray[np.int64]) -> None:
    pairs = [(row, pair) for row, pair in zip(rows.tolist(), result.witnesses, strict=True) if pair is not None]
    if not pairs:
        return
    screen.print()
    screen.print(
        Text("Treated unequally:" if len(pairs) <= _SHOWN else f"Treated unequally, {_SHOWN} of {len(pairs):,}:")
    )
    for row, pair in pairs[:_SHOWN]:
        screen.print(Text(f"  row {row}: {pair.describe(spec)}"))

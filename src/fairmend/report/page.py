"""Draw the page from a document: one HTML file that loads nothing, with a policy that lets no other code run."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from functools import cache
from importlib.resources import files

import jinja2
from markupsafe import Markup, escape

from fairmend.auditing.result import wilson_interval
from fairmend.base import text
from fairmend.evaluate.document import Document, Pair, PairTable
from fairmend.evaluate.split import describe_scored
from fairmend.evaluate.summary import gap_widened, summarize
from fairmend.report import charts, frontier
from fairmend.report.charts import describe_curve, difference_chart, threshold_chart
from fairmend.report.what_if import what_if_data

LARGEST = 4_500_000
"""The most bytes of a page; the table of pairs is cut until it fits."""

_PAIRS_BYTES = 2_000_000
_WHAT_IF_SCRIPTS = ("what_if_functions.js", "what_if_network.js", "what_if_model.js", "what_if.js")


def render(document: Document) -> str:
    """Return the page, with as many pairs in its table as fit."""
    shown = _pairs_that_fit(document.pairs)
    while True:
        page = _render(replace(document, pairs=replace(document.pairs, rows=shown)))
        if len(page.encode("utf-8")) <= LARGEST or not shown:
            return page
        shown = shown[: len(shown) // 2]


def _pairs_that_fit(pairs: PairTable) -> list[Pair]:
    shown, size = [], 0
    for pair in pairs.rows:
        texts = [*pair.values, *(other for other in pair.others if other is not None), *pair.differs]
        size += sum(len(escape(value).encode("utf-8")) + 48 for value in texts) + 400
        if size > _PAIRS_BYTES:
            break
        shown.append(pair)
    return shown


def _render(document: Document) -> str:
    what_if = document.what_if is not None
    style = _join("style.css", *(["what_if.css"] if what_if else []))
    script = _join("script.js", *(_WHAT_IF_SCRIPTS if what_if else ()))
    return _template().render(
        doc=document,
        what_if_data=what_if_data(document),
        summary=summarize(document),
        style=style,
        script=script,
        policy=_policy(style, script),
    )


def _policy(style: str, script: str) -> str:
    """Return what the browser may do: apply this style, run this script, show the icon, and nothing else."""
    return (
        f"default-src 'none'; style-src '{_hash_source(style)}'; script-src '{_hash_source(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash_source(content: str) -> str:
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _join(*names: str) -> Markup:
    return Markup("\n".join(_asset(name) for name in names))


@cache
def _asset(name: str) -> str:
    return (files("fairmend.report") / "templates" / name).read_text(encoding="utf-8")


def _visible(value: object) -> object:
    """Return what the page shows of a value: text from files without characters that cannot be seen."""
    plain = isinstance(value, str) and not isinstance(value, Markup)
    return text.printable(value) if plain else value


def _interval(count: int, total: int) -> str:
    """Return the 95 % interval of a share that was measured on a random sample."""
    low, high = wilson_interval(count, total)
    return f"{text.percent(low)} to {text.percent(high)}"


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        finalize=_visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": text.percent,
        "at_least_percent": text.at_least_percent,
        "at_most_percent": text.at_most_percent,
        "ratio": text.ratio,
        "number": text.number,
        "score_difference": text.score_difference,
        "in_points": text.in_points,
        "count": text.count,
        "listed": text.listed,
    }
    environment.globals |= {
        "charts": charts,
        "describe_curve": describe_curve,
        "difference_chart": difference_chart,
        "frontier": frontier,
        "interval": _interval,
        "interval_of": lambda share, rows: _interval(round(share * rows), rows),
        "points": text.points,
        "probabilities": text.probabilities,
        "describe_scored": describe_scored,
        "threshold_chart": threshold_chart,
        "gap_widened": gap_widened,
    }
    return environment.get_template("report.html")

"""From a document to the page: one HTML file that loads nothing, under a policy that lets nothing else run."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from functools import cache
from importlib.resources import files

import jinja2
from markupsafe import Markup, escape

from fairmend import text
from fairmend.evaluate.claims import scope, wider
from fairmend.evaluate.document import Document, Pair, Pairs
from fairmend.report import charts

LARGEST = 4_500_000
"""Bytes of a page; with a row less in the table where it would be more."""

ROWS_BYTES = 2_000_000


def render(document: Document) -> str:
    """Return the page, with as many pairs in its table as fit."""
    shown = _fitting(document.pairs)
    while True:
        page = _render(replace(document, pairs=replace(document.pairs, rows=shown)))
        if len(page.encode("utf-8")) <= LARGEST or not shown:
            return page
        shown = shown[: len(shown) // 2]


def _fitting(pairs: Pairs) -> list[Pair]:
    shown, size = [], 0
    for pair in pairs.rows:
        words = [*pair.values, *(other for other in pair.others if other is not None), *pair.differs]
        size += sum(len(escape(word).encode("utf-8")) + 48 for word in words) + 400
        if size > ROWS_BYTES:
            break
        shown.append(pair)
    return shown


def _render(document: Document) -> str:
    style, script = Markup(_asset("style.css")), Markup(_asset("script.js"))
    return _template().render(
        doc=document,
        scope=scope(document),
        style=style,
        script=script,
        policy=_policy(style, script),
        scale=charts.score_scale([*document.ranges.before, *document.ranges.after]),
    )


def _policy(style: str, script: str) -> str:
    """What the browser may do: draw this style, run this script, show the icon, and nothing else."""
    return (
        f"default-src 'none'; style-src '{_source(style)}'; script-src '{_source(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _source(content: str) -> str:
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


@cache
def _asset(name: str) -> str:
    return (files("fairmend.report") / "templates" / name).read_text(encoding="utf-8")


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": text.percent,
        "number": text.number,
        "score": text.score,
        "count": text.count,
        "listed": text.listed,
    }
    environment.globals |= {"charts": charts, "points": text.points, "wider": wider}
    return environment.get_template("report.html")

"""Draw the page from a document: one HTML file that loads nothing, with a policy that lets no other code run."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from importlib.resources import files

import jinja2
from markupsafe import Markup, escape

from fairmend.auditing.figures import Pair, name_row
from fairmend.auditing.result import wilson_interval
from fairmend.base import text
from fairmend.evaluate.document import (
    REGRESSION_ERRORS,
    UTILITY_NAMES,
    Document,
    NearestPair,
    PairTable,
    QuantifyDocument,
    UnequalBox,
    WhatIf,
)
from fairmend.evaluate.groups import SMALL
from fairmend.evaluate.proxies import describe_proxy
from fairmend.evaluate.summary import gap_widened, summarize
from fairmend.report import charts, frontier
from fairmend.report.charts import describe_curve, difference_chart, threshold_chart
from fairmend.report.report import PagedDocument

LARGEST = 4_500_000
"""The most bytes of a page; the table of pairs is cut until it fits."""

_PAIRS_BYTES = 2_000_000
_WHAT_IF_SCRIPTS = ("what_if_functions.js", "what_if_network.js", "what_if_model.js", "what_if.js")


_MOST_COLUMNS = 16


def render(document: PagedDocument) -> str:
    """Return the page, with as many pairs in its table as fit."""
    if isinstance(document, QuantifyDocument) or document.page is None or document.page.pairs is None:
        return _render(document)
    pairs = document.page.pairs
    shown = _pairs_that_fit(pairs)
    while True:
        page = _render(replace(document, page=replace(document.page, pairs=replace(pairs, rows=shown))))
        if len(page.encode("utf-8")) <= LARGEST or not shown:
            return page
        shown = shown[: len(shown) // 2]


def _pairs_that_fit(pairs: PairTable) -> list[NearestPair]:
    shown, size = [], 0
    for pair in pairs.rows:
        texts = [*pair.values, *(other for other in pair.others if other is not None), *pair.differs]
        size += sum(len(escape(value).encode("utf-8")) + 48 for value in texts) + 400
        if size > _PAIRS_BYTES:
            break
        shown.append(pair)
    return shown


def _render(document: PagedDocument) -> str:
    what_if = None
    if not isinstance(document, QuantifyDocument) and document.page is not None:
        what_if = document.page.what_if
    style = _join("style.css", *(["what_if.css"] if what_if else []))
    script = _join("script.js", *(_WHAT_IF_SCRIPTS if what_if else ()))
    return (
        _environment()
        .get_template("report.html")
        .render(
            doc=document,
            what_if_data="" if what_if is None else what_if_data(what_if, document.class_names),
            summary=summarize(document),
            style=style,
            script=script,
            policy=_policy(style, script),
        )
    )


def what_if_data(what_if: WhatIf, answers: Sequence[str]) -> str:
    """Return what the page's script reads, as JSON in ASCII; `answers` are the names of the classes."""
    return json.dumps({**asdict(what_if), "answers": answers}, separators=(",", ":"))


# People and boxes in words


def class_name(document: Document, number: int) -> str:
    """Return what a class means."""
    names = document.class_names
    return names[number] if number < len(names) else f"class {number}"


def pair_columns(pair: Pair, document: Document) -> tuple[list[tuple[str, str, str]], int]:
    """Return features with the values of both people, under their names, and how many more there are.

    Those come first in which similar people may differ.
    """
    similar = document.similar
    varying = {*similar.protected, *similar.tolerances, *similar.bands, *similar.linked}
    names = sorted(pair.values, key=lambda name: text.short(name) not in varying)
    shown = [
        (
            text.short(name),
            _shown(document, pair, name, pair.values[name]),
            _shown(document, pair, name, pair.other_values[name]),
        )
        for name in names[:_MOST_COLUMNS]
    ]
    return shown, len(names) - len(shown)


def _shown(document: Document, pair: Pair, name: str, value: object) -> str:
    called, imputed = document.called(pair, name, value)
    return f"{text.plain_value(called)}{imputed}"


def describe_pair(pair: Pair, document: Document) -> str:
    """Return both people of a pair with their predictions and scores."""
    claimed, values = document.claim.on, pair.scores or ()
    difference, name = (text.capitalized(part) for part in (pair.difference, name_row(pair.row, pair.id)))
    if claimed is not None or pair.answers is None:
        own, other = (_describe_score(value, claimed) for value in values)
        which = "" if pair.output is None else f", output {pair.output}"
        return text.short(f"{name}{which}: {own}. {difference}: {other}.", 600)
    first, second = (class_name(document, answer) for answer in pair.answers)
    two = pair.output is None
    what = "score" if two else f"probability of “{first}”"
    scores = text.probabilities(values, document.threshold if two else None, score_range=document.score_range)
    own, other = (f"“{answer}” ({what} {value})" for answer, value in zip((first, second), scores, strict=True))
    return text.short(f"{name}: {own}. {difference}: {other}.", 600)


def _describe_score(value: float, claimed: str | None) -> str:
    if claimed == "probability":
        return f"probability {text.percent(value, 2)}"
    return f"{claimed or 'score'} {text.number(value)}"


def describe_box(box: UnequalBox, document: Document) -> str:
    """Return which protected values give which prediction, or a higher and a lower score."""
    changes = ""
    if box.classes is not None:
        sides = zip(box.classes, (box.positive, box.negative), strict=True)
        changes = "; ".join(f"{class_name(document, label)} with {_values(box, values)}" for label, values in sides)
    elif box.decides:  # a claim about scores
        changes = f"higher with {_values(box, box.positive)}; lower with {_values(box, box.negative)}"
    return text.short(changes, 1_000)


def _values(box: UnequalBox, values: Mapping[str, object]) -> str:
    """Return the protected values that differ: "sex Female"."""
    return text.listed([f"{name} {value}" for name, value in values.items() if name in box.decides])


# The file


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
    return Markup("\n".join(asset(name) for name in names))


@cache
def asset(name: str) -> str:
    """Return the text of a template, a style sheet or a script."""
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
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(asset),
        autoescape=True,
        finalize=_visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    describe_with(environment)
    return environment


def describe_with(environment: jinja2.Environment) -> None:
    """Give the templates of an environment the words and the numbers of a report."""
    environment.filters |= {
        "percent": text.percent,
        "at_least_percent": text.at_least_percent,
        "at_most_percent": text.at_most_percent,
        "ratio": text.ratio,
        "number": text.number,
        "score_difference": text.score_difference,
        "in_points": text.in_points,
        "plain": lambda value: text.number(value).replace(",", ""),  # as values of features are written elsewhere
        "signed": text.signed_difference,
        "count": text.count,
        "listed": text.listed,
        "describe_proxy": describe_proxy,
    }
    environment.globals |= {
        "charts": charts,
        "class_name": class_name,
        "describe_box": describe_box,
        "describe_curve": describe_curve,
        "describe_pair": describe_pair,
        "difference_chart": difference_chart,
        "frontier": frontier,
        "interval": _interval,
        "interval_of": lambda share, rows: _interval(round(share * rows), rows),
        "pair_columns": pair_columns,
        "points": text.points,
        "probabilities": text.probabilities,
        "regression_errors": REGRESSION_ERRORS,
        "utility_names": UTILITY_NAMES,
        "threshold_chart": threshold_chart,
        "gap_widened": gap_widened,
        "small": SMALL,
        "loss": text.loss,
    }


def render_static(name: str, *styles: str, **content: object) -> str:
    """Return a page without a script, from the template of this name, and styles beside that of the report."""
    style = _join("style.css", *styles)
    policy = (
        f"default-src 'none'; style-src '{_hash_source(style)}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    return _environment().get_template(name).render(**content, style=style, policy=policy)

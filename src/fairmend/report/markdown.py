"""Markdown from templates, in which nothing from a file is Markdown or HTML, such as the model card of Hugging Face."""

from __future__ import annotations

import json
import re
from functools import cache

import jinja2
from markupsafe import Markup

from fairmend.base.text import printable
from fairmend.evaluate.summary import summarize
from fairmend.report.page import asset, describe_with
from fairmend.report.report import PagedDocument

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~$&])")


def escape(text: str) -> str:
    """Return a text of one line in which nothing is Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", printable(text)).replace("\\<", "&lt;").replace("\\>", "&gt;").replace("\\&", "&amp;")


def render_markdown(name: str, **content: object) -> str:
    """Return the text of the template of this name; each value in it is escaped."""
    return _environment().get_template(name).render(**content).rstrip() + "\n"


def _escaped(value: object) -> object:
    return value if isinstance(value, Markup) else Markup(escape(str(value)))


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(asset),
        autoescape=True,  # but what `_escaped` returns is not escaped once more
        finalize=_escaped,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    describe_with(environment)
    environment.filters |= {
        "json_text": lambda text: Markup(json.dumps(printable(text))),  # a JSON text is also a YAML text
        "one_line": lambda text: Markup(printable(text)),
    }
    return environment


def model_card(document: PagedDocument) -> str:
    """Return the card; its head names the model, and its first lines are those of the page."""
    return render_markdown("card.md", doc=document, summary=summarize(document))

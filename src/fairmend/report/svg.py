"""Write SVG element by element. Every attribute and every text is escaped here, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from fairmend.base.text import printable


def element(name: str, *children: object, **attributes: object) -> Markup:
    """Return an element; `class_` is class, `text_anchor` is text-anchor, and None leaves an attribute out."""
    given = Markup("").join(
        Markup(' {}="{}"').format(Markup(key.rstrip("_").replace("_", "-")), _plain(value))
        for key, value in attributes.items()
        if value is not None
    )
    inner = Markup("").join(child if isinstance(child, Markup) else escape(printable(child)) for child in children)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), given, inner)


def drawing(width: int, height: int, label: str, *children: object, class_: str = "chart") -> Markup:
    """Return an image of `width` by `height` units that scales to its place; screen readers read `label`."""
    # viewBox keeps its capital letter, which HTML parsers require.
    attributes = {"viewBox": f"0 0 {width} {height}", "role": "img", "aria_label": label, "class_": class_}
    return element("svg", *children, **attributes)


def strip(label: str, *children: object) -> Markup:
    """Return an image one line high and as wide as its place; its children have places in per cent."""
    return element("svg", *children, class_="strip", role="img", aria_label=label)


def text(x: float, y: float, content: object, *, class_: str = "", anchor: str | None = None) -> Markup:
    """Return a text element."""
    return element("text", content, x=x, y=y, class_=class_ or None, text_anchor=anchor)


def line(x1: object, y1: object, x2: object, y2: object, class_: str) -> Markup:
    """Return a line element."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def path(steps: Iterable[str], class_: str, **attributes: object) -> Markup:
    """Return a path element of all steps, or nothing if there are none."""
    shape = "".join(steps)
    return element("path", d=shape, class_=class_, **attributes) if shape else Markup("")


def _plain(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else printable(value)

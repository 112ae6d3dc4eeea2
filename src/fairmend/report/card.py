"""The report as a model card: Markdown with the head that Hugging Face reads, from the same document as the page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from fairmend.auditing.figures import DisparityFigures
from fairmend.base.text import (
    at_least_percent,
    at_most_percent,
    count,
    in_points,
    listed,
    number,
    percent,
    printable,
    ratio,
    short,
    signed_difference,
)
from fairmend.evaluate.document import (
    AuditDocument,
    Document,
    NetworkFigures,
    Outcomes,
    OutcomeTable,
    ProxyTable,
    QuantifyDocument,
    RepairDocument,
    Selection,
    UtilityFigures,
    ValueEffect,
)
from fairmend.evaluate.proxies import describe_proxy
from fairmend.evaluate.summary import summarize
from fairmend.report.markdown import escape, table_lines
from fairmend.report.page import REGRESSION_ERRORS, class_name, pair_columns
from fairmend.report.report import PagedDocument

_MOST_WARNINGS = 50
_MOST_BOXES = 10


def model_card(document: PagedDocument) -> str:
    """Return the card; its head names the model, and its first lines are those of the page."""
    summary = summarize(document)
    lines = [
        *_head(document),
        f"# {escape(document.about.name or document.title)}",
        "",
        f"**{escape(summary.headline)}**",
        "",
        *table_lines(("The model", ""), _about(document)),
    ]
    for section in summary.sections:
        lines += [f"## {section.heading}", "", *(f"- {escape(text)}" for text in section.paragraphs), ""]
    if document.warnings:
        lines += ["## Warnings", "", *(f"- {escape(text)}" for text in document.warnings[:_MOST_WARNINGS]), ""]
    lines += ["## Figures", "", *_figures(document)]
    if not isinstance(document, QuantifyDocument):
        lines += list(_effects(document))
        lines += [] if document.outcomes is None else list(_outcomes(document, document.outcomes))
        lines += list(_proxies(document.proxies))
    lines += [*_check(document), "## Origin", "", *table_lines(("", ""), _origin(document))]
    return "\n".join(lines).rstrip() + "\n"


def _head(document: Document) -> list[str]:
    """Return the YAML that Hugging Face reads; a JSON text is also a YAML text."""
    task = "tabular-regression" if document.claim.on == "output" else "tabular-classification"
    name = document.about.name or document.title
    tags = ["fairness", "individual-fairness", "fairmend", f"fairmend-{document.kind}"]
    return [
        "---",
        "library_name: fairmend",
        f"model_name: {json.dumps(printable(name))}",
        f"pipeline_tag: {task}",
        "tags:",
        *(f"- {tag}" for tag in tags),
        "---",
        "",
    ]


def _about(document: Document) -> Iterator[tuple[str, str]]:
    about, blank = document.about, "not given"
    yield "Model", about.name or blank
    yield "Version", about.version or blank
    yield "Owner", about.owner or blank
    yield "Contact", about.contact or blank
    yield "Purpose", about.purpose or blank
    yield "Approved by", about.approved_by or blank
    yield "Date of approval", about.date or blank
    yield "Report", f"{document.kind} of {document.title}, {document.origin.created}, fairmend {document.fairmend}"


# Figures


def _figures(document: PagedDocument) -> list[str]:
    if isinstance(document, QuantifyDocument):
        return list(_shares(document))
    if isinstance(document, RepairDocument):
        before, after = (list(_of_network(figures, document)) for figures in (document.before, document.after))
        compared = [(name, old, new) for (name, old), (_, new) in zip(before, after, strict=True)]
        return [
            *table_lines(("Figure", "Before", "After"), compared),
            f"Accuracy and the positive rate are measured on {escape(document.scored_on)}.",
            "",
            *_worst_pair(document, document.before.disparity, " before"),
            *_worst_pair(document, document.after.disparity, " after"),
        ]
    return _audit_figures(document)


def _audit_figures(audit: AuditDocument) -> list[str]:
    least = "" if audit.exact else "at least "
    rows = [
        ("Audited", f"{count(audit.total)} {'samples' if audit.sampled else 'people'}"),
        ("Treated unequally", f"{least}{count(audit.count)} ({percent(audit.idi_rate, 2)})"),
        *_disparity(audit.disparity),
    ]
    rows += [] if audit.utility is None else list(_utility(audit.utility, audit.utility))
    return [*table_lines(("Figure", "Value"), rows), *_worst_pair(audit, audit.disparity)]


def _shares(shares: QuantifyDocument) -> Iterator[str]:
    """Yield the shares of all people, and the boxes with the largest ones that are treated unequally."""
    rows = shares.rows
    names = (("equally", "fair"), ("unequally", "unfair"), ("undecided", "undecided"))
    figures = [
        (
            f"Proven to be treated {name}" if name != "undecided" else "Undecided",
            (at_most_percent if key == "undecided" else at_least_percent)(getattr(shares, key)),
            "" if rows is None else count(getattr(rows, key)),
        )
        for name, key in names
    ]
    yield from table_lines(("Figure", "Of all people", "" if rows is None else "Rows of the data"), figures)
    if shares.boxes:
        yield "Where people are treated unequally, the largest shares first:"
        yield ""
        yield from (f"- {escape(box.text)} ({at_least_percent(box.share)})" for box in shares.boxes[:_MOST_BOXES])
        yield ""


def _disparity(figures: DisparityFigures) -> Iterator[tuple[str, str]]:
    """Yield how far the scores of similar people differ: quantiles over the people, the largest, and shares above."""
    least, points = "" if figures.exact else "at least ", figures.on == "probability"
    for name, value in (
        ("half of the people have at most", figures.median),
        ("90 % have at most", figures.p90),
        ("95 % have at most", figures.p95),
        ("99 % have at most", figures.p99),
        ("the largest", figures.largest),
    ):
        yield f"Score disparity: {name}", f"{least}{in_points(value) if points else number(value)}"
    for limit in figures.above:
        unit = "point" if limit.points == 1 else "points"
        yield f"Score disparity: more than {limit.points} {unit}", f"{least}{percent(limit.share)}"


def _worst_pair(document: Document, figures: DisparityFigures, when: str = "") -> list[str]:
    """Return a sentence about the two similar people whose scores differ most, if there are any."""
    pair, points = figures.worst, figures.on == "probability"
    if pair is None:
        return []
    first, second = (percent(score) if points else number(score) for score in pair.scores or ())
    name = class_name(document, 1 if pair.output is None else pair.output)
    score = f"the probability of “{name}”" if points else "the output"
    columns, _ = pair_columns(pair, document)
    changed = [f"{name} {other} instead of {own}" for name, own, other in columns if own != other]
    where = f"row {pair.row}{f' ({short(pair.id, 40)})' if pair.id else ''}"
    sentence = f"Largest score disparity{when}, {where}: {score} is {second} instead of {first}"
    return [escape(f"{sentence} with {', '.join(changed)}."), ""]


def _of_network(figures: NetworkFigures, repair: RepairDocument) -> Iterator[tuple[str, str]]:
    inputs, data = figures.repair_inputs, figures.data
    least = "" if inputs.exact else "at least "
    yield "Repair inputs treated unequally", f"{least}{count(inputs.count)} of {count(inputs.total)}"
    least = "" if data.exact else "at least "
    unequal = f"{least}{count(data.count)} of {count(data.total)} ({percent(data.idi_rate, 2)})"
    yield "People in the data treated unequally", unequal
    yield from _utility(repair.before.utility, figures.utility)
    yield from _disparity(figures.disparity)


def _utility(known: UtilityFigures, figures: UtilityFigures) -> Iterator[tuple[str, str]]:
    """Yield the figures that `known` has, with the values of `figures`."""
    for key in ("accuracy", "balanced_accuracy", "positive_rate"):
        if getattr(known, key) is not None:
            yield key.replace("_", " ").capitalize(), percent(getattr(figures, key))
    for name, key in REGRESSION_ERRORS:
        if getattr(known, key) is not None:
            yield name, number(getattr(figures, key))


# Effects


def _effects(document: AuditDocument | RepairDocument) -> Iterator[str]:
    """Yield what each value of the protected features adds to score and decision, with 95 % intervals."""
    sides = [document.effects] if isinstance(document, AuditDocument) else []
    if isinstance(document, RepairDocument):
        sides = [document.before.effects, document.after.effects]
    if not sides[0]:
        return
    on = "output" if document.claim.on == "output" else "probability"
    judged = document.favourable is not None
    yield "## Who loses, and by how much" if judged else "## Who gets more, and how much"
    yield ""
    linked = " but for what is linked to it" if document.similar.linked else ""
    yield (
        "What each value of a protected feature adds on average, with its 95 % interval: the score of a person with it "
        f"minus the mean over all values, everything else equal{linked}"
        f"{', in percentage points' if on == 'probability' else ''}. "
        f"{'' if judged else 'Whether more is good for a person, the spec does not say. '}Nothing here is proven."
    )
    yield ""
    figures = ["Output"] if on == "output" else ["Probability", "Share who get it"]
    heads = [
        f"{name}{when}"
        for when in ((" before", " after") if len(sides) > 1 else ("",))
        for name in (*figures, "Result")
    ]
    for compared in zip(*sides, strict=True):
        first = compared[0]
        yield f"### {escape(first.feature)}{f': effect on “{escape(first.answer)}”' if first.answer else ''}"
        yield ""
        rows = [
            (values[0].value, *(text for value in values for text in _value_effect(value, on)))
            for values in zip(*(effects.values for effects in compared), strict=True)
        ]
        yield from table_lines(("Value", *heads), rows)
        if first.values_left_out:
            yield f"{count(first.values_left_out)} rarer values are not shown."
            yield ""


def _value_effect(value: ValueEffect, on: str) -> Iterator[str]:
    for effect in (value.score, value.decision):
        if effect is not None:
            mean, low, high = (signed_difference(part, on) for part in (effect.mean, effect.low, effect.high))
            yield f"{mean} ({low} to {high})"
    yield "no clear effect" if value.direction == "neither" else value.direction


def _proxies(proxies: Sequence[ProxyTable]) -> Iterator[str]:
    """Yield how well the features predict columns that the model does not read, and which of them."""
    if proxies:
        yield from ("## Features that stand for others", "")
        yield from (f"- {escape(describe_proxy(each))}" for each in proxies)
        yield ""


# Outcomes


def _outcomes(document: Document, outcomes: Outcomes) -> Iterator[str]:
    one = document.favourable is not None
    selected = f"the prediction “{document.favourable}”" if one else "the class that the table names"
    yield "## Equal outcomes: selection rates and impact ratios"
    yield ""
    yield (
        "Equal treatment and equal outcomes are different questions: a model can give every person the same prediction "
        f"whatever the person's {escape(listed(document.similar.protected, 'or'))}, and still select one group less "
        "often, because the groups differ in other features. The selection rate is the share of a group that gets "
        f"{escape(selected)}, with its 95 % interval (Wilson). The impact ratio is this rate divided by the highest "
        f"one in the table. By the four-fifths rule, a ratio below {number(outcomes.limit)} is a sign of adverse "
        f"impact, if the prediction is favourable. Groups with less than {percent(outcomes.small, 0)} of the "
        f"{count(outcomes.rows)} rows have no ratio."
    )
    yield ""
    for table in outcomes.tables:
        yield from _outcome_table(table, one)
    if outcomes.tables_left_out:
        yield f"{count(outcomes.tables_left_out)} further tables are not shown."
        yield ""


def _outcome_table(table: OutcomeTable, one: bool) -> Iterator[str]:
    answer = "" if one else f": predicted “{escape(table.answer)}”"
    yield f"### {escape(' × '.join(table.features))}{answer}"
    yield ""
    sides = ("",) if table.flagged_after is None else (" before", " after")
    heads = [f"{name}{side}" for side in sides for name in ("Selected", "Selection rate", "Impact ratio")]
    rows = []
    for group in table.groups:
        figures = [text for side in (group.before, group.after) if side is not None for text in _selection(side)]
        rows.append((*group.values, f"{count(group.rows)}{' (small)' if group.small else ''}", *figures))
    yield from table_lines((*table.features, "People", *heads), rows)
    if table.groups_left_out:
        yield f"{count(table.groups_left_out)} smaller groups are not shown."
        yield ""


def _selection(selection: Selection) -> tuple[str, str, str]:
    interval = f"{percent(selection.low)} to {percent(selection.high)}"
    flag = " (below 4/5)" if selection.flagged else ""
    return count(selection.count), f"{percent(selection.rate)} ({interval})", f"{ratio(selection.ratio)}{flag}"


# Origin


def _check(document: Document) -> list[str]:
    if not isinstance(document, RepairDocument) or document.certificate is None:
        return []
    certificate = document.certificate
    lines = ["## Check it yourself", "", f"The certificate states: {escape(certificate.claim)}", ""]
    if certificate.command:
        # Indented code ends only with the line, whatever the names of the files are.
        lines += [
            "This command checks it against the model file, from these two files alone:",
            "",
            f"    {printable(certificate.command)}",
            "",
        ]
    return lines


def _origin(document: Document) -> Iterator[tuple[str, str]]:
    origin = document.origin
    if origin.command:
        yield "Command", origin.command
    if origin.seed is not None:
        yield "Seed", str(origin.seed)
    for file in origin.files:
        yield file.role.capitalize(), f"{file.name}{f', sha256 {file.sha256}' if file.sha256 else ''}"
    versions = {"fairmend": document.fairmend, **origin.versions}
    yield "Versions", ", ".join(f"{name} {version}" for name, version in versions.items())

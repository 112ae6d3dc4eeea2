"""Check that every number on a report's page, and on its model card, is a figure of report.json as it is written there.

report.json is compared with recomputed figures in expected.py. Each part of a page may only show the figures
that belong to it: a row of a table those of its group or pair, a section those of its subject.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup, Tag
from scipy.stats import binomtest

TOKEN = re.compile(r"(?:[<>] )?[+−-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?:\s%|\spoints?)?")
NOT_FIGURES = {
    "warnings": "sentences about the data and the candidates, which report.json has as text",
    "check": "the command, the date, versions and digests, which report.json has as text",
    "condition": "the steps as which a state dict is read, which report.json has as the same text",
    "what-if": "computed by the page itself; tests/report/test_what_if_browser.py compares it with ONNX Runtime",
}
"""Sections whose numbers are not compared here, and why."""

WORDS = {
    "": ["95 %"],
    "top": ["1"],
    "ranges": ["0 %", "25 %", "50 %", "75 %", "100 %"],
    "disparity": ["90 %", "95 %", "99 %", "1 point", "5 points", "10 points", "0", "0.25", "0.5", "0.75", "1"],
    "figures": ["10 points"],
    "outcomes": ["0.8", "4", "5", "2 %", "144"],
    "pairs": ["1", "30"],
    "training": ["1", "2", "0"],
    "terms": ["1927", "5", "100", "0.5", "0.8"],
}
"""Numbers in fixed sentences and on axes, by section."""


@dataclass
class PageTally:
    """How many numbers were checked, those that are no figure of their part, and how many changed ones would pass."""

    answers: set[str]  # numbers that are names of classes, which any part may show
    checked: int = 0
    strange: list[str] = field(default_factory=list)
    unrecomputed: int = 0
    unnoticed: int = 0

    def add(self, where: str, text: str, allowed: set[str], unknown: Iterable[str] = ()) -> None:
        """Check the numbers in a text; those in `unknown` are figures that cannot be recomputed."""
        given = set(unknown)
        for token in tokens(text):
            if token in allowed or token in self.answers:
                self.checked += 1
                self.unnoticed += changed(token) in allowed
            elif token in given:
                self.unrecomputed += 1
            else:
                self.checked += 1
                self.strange.append(f"{where}: {token} in “{' '.join(text.split())[:90]}”")


def answers(report: dict[str, Any]) -> set[str]:
    return {token for answer in report["answers"] for token in tokens(answer)}


def tokens(text: str) -> Iterator[str]:
    """Yield the numbers in a text with their units, but not those that are part of a word."""
    for match in TOKEN.finditer(text.replace("\N{NO-BREAK SPACE}", " ")):
        before = text[match.start() - 1 : match.start()]
        if not (before.isalpha() or before in ("_", "-", ".")):
            yield " ".join(match[0].split()).rstrip(",")


def changed(token: str) -> str:
    """Return the number with another last digit."""
    last = max(place for place, char in enumerate(token) if char.isdigit())
    return f"{token[:last]}{(int(token[last]) + 1) % 10}{token[last + 1 :]}"


# How figures are written


def percent(share: float | None, *digits: int) -> Iterator[str]:
    if share is None:
        return
    for places in digits or (1,):
        rounded, least = f"{100 * share:.{places}f}", 10.0**-places
        rounded = f"< {least:g}" if share and float(rounded) == 0 else rounded
        rounded = f"> {100 - least:g}" if share < 1 and float(rounded.strip("<> ")) == 100 else rounded
        yield f"{100 * share:.0f} %" if share in (0, 1) else f"{rounded} %"


def points(difference: float) -> str:
    rounded = f"{100 * difference:.1f}"
    return f"{'0' if difference == 0 else '< 0.1' if rounded == '0.0' else rounded} points"


def number(value: float) -> str:
    return (f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}").replace("-", "−")


def count(*values: int | None) -> Iterator[str]:
    yield from (f"{value:,}" for value in values if value is not None)


def apart(shares: list[float], threshold: float | None) -> list[str]:
    """Return probabilities with enough digits to tell them apart, and from the threshold."""
    different = {*shares} if threshold is None else {*shares, threshold}
    for digits in range(1, 7):
        texts = {value: next(percent(value, digits)) for value in different}
        if len(set(texts.values())) == len(different) or digits == 6:
            return [texts[value] for value in shares]
    return []


def wilson(share: float, rows: int) -> Iterator[str]:
    interval = binomtest(round(share * rows), rows).proportion_ci(method="wilson")
    yield from (*percent(interval.low), *percent(interval.high))


def change(before: float, after: float) -> str:
    """Return the change in points, of the shares as they are written."""
    return f"{round(100 * after, 1) - round(100 * before, 1):+.1f} points".replace("-", "−")


# What each part may show


def top(report: dict[str, Any]) -> Iterator[str]:
    audit, repair = report["audit"], report["repair"]
    if audit:
        yield from (*count(audit["count"], audit["total"], audit["evaluations"]), *percent(audit["rate"], 2))
        return
    after = repair["after"]
    yield from count(repair["inputs"], repair["proven"], repair["data_rows"], after["unfair_rows"])
    yield from percent(after["unfair_rate"], 1, 2)


def figures(report: dict[str, Any]) -> Iterator[str]:
    audit, repair = report["audit"], report["repair"]
    for side in [audit] if audit else [repair["before"], repair["after"]]:
        yield from (*percent(side["accuracy"]), *percent(side["balanced_accuracy"]), *percent(side["positive_rate"]))
        yield f"{side['auc']:.3f}"
        yield from percent(side["disparity"]["above"]["10"])
        yield points(side["disparity"]["largest"])
    if audit:
        yield from (*percent(audit["rate"], 2), *count(audit["count"], audit["total"], audit["labelled_rows"]))
        return
    for side in (repair["before"], repair["after"]):
        yield from (*count(side["unfair_inputs"], side["unfair_rows"]), *percent(side["unfair_rate"]))
    yield change(repair["before"]["accuracy"], repair["after"]["accuracy"])
    yield from count(repair["inputs"], repair["data_rows"], repair["scored_rows"])
    yield from percent(repair["changed_predictions"])


def ranges(report: dict[str, Any]) -> Iterator[str]:
    shown = report["ranges"]
    for side in (shown["before"], shown["after"]):
        yield from count(len(side), sum(entry["state"] == "two" for entry in side))
    yield from count(shown["total"], len(report["answers"]))


def disparity(report: dict[str, Any]) -> Iterator[str]:
    repair = report["repair"]
    sides = [repair["before"], repair["after"]] if repair else [report["audit"]]
    for side in (each["disparity"] for each in sides):
        yield from (points(side[name]) for name in ("median", "p90", "p95", "p99", "largest"))
        yield from (text for share in side["above"].values() for text in percent(share))
        yield from (*count(max(1, *side["counts"])), f"{number(100 * side['edges'][-1])} points", "0 points")
        if side["thresholds"]:
            most = max(side["unequal"])
            at = side["thresholds"][side["unequal"].index(most)]
            yield from (*percent(most), *percent(side["unequal"][side["thresholds"].index(0.5)]), f"{at:g}")
            ends = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
            end = next(end for end in ends if end >= most or end == 1.0)
            digits = 0 if end >= 0.1 else max(0, 1 - math.floor(math.log10(100 * end)))
            yield from (text for share in (0, end / 2, end) for text in percent(share, digits))
    yield from count(repair["data_rows"]) if repair else ()


def flips(report: dict[str, Any]) -> Iterator[str]:
    shown = report["flips"]
    for who in (*shown["alone"].values(), shown["together"]):
        yield from (*count(who, shown["looked_at"]), *percent(who / shown["looked_at"]))


def utility(report: dict[str, Any]) -> Iterator[str]:
    repair = report["repair"]
    before, after, rows = repair["before"], repair["after"], repair["scored_rows"]
    yield from count(rows)
    for name in ("accuracy", "balanced_accuracy", "positive_rate"):
        if before[name] is not None:
            yield from (*percent(before[name]), *percent(after[name]), change(before[name], after[name]))
            yield from (*wilson(before[name], rows), *wilson(after[name], rows)) if name != "balanced_accuracy" else ()
    yield from (f"{side['auc']:.3f}" for side in (before, after))
    yield f"{round(after['auc'], 3) - round(before['auc'], 3):+.3f}".replace("-", "−")


def training(report: dict[str, Any]) -> Iterator[str]:
    repair, weights = report["repair"], report["repair"]["weights"]
    yield from count(repair["changed_weights"], repair["total_weights"])
    for layer in weights["layers"]:
        yield from count(layer["inputs"], layer["outputs"], layer["changed"], layer["total"])
        yield from (number(layer["l1"]), number(layer["largest"]))
        yield from tokens(layer["name"])
    for column in weights["columns"]:
        yield from (number(column["before"]), number(column["after"]), *tokens(column["name"]))


def appendix(report: dict[str, Any]) -> Iterator[str]:
    for weight in report["repair"]["weights"]["head"]:
        yield from (number(weight["before"]), number(weight["after"]), *tokens(weight["name"]))


def unrecomputed_in_candidates(report: dict[str, Any]) -> Iterator[str]:
    for place, candidate in enumerate(report["repair"]["candidates"], start=1):
        yield str(place)
        for name in ("unfair_rate", "accuracy", "balanced_accuracy", "agreement"):
            yield from percent(candidate[name], 1)
        yield from tokens(candidate["why"])
    policy = report["repair"]["policy"]
    yield from (*tokens(policy["words"]), *percent(policy["original"], 0, 1))
    yield str(sum(not candidate["ran"] for candidate in report["repair"]["candidates"]))


SECTIONS = {
    "figures": figures, "ranges": ranges, "disparity": disparity, "flips": flips, "utility": utility,
    "training": training, "appendix": appendix, "terms": lambda _: (),
}  # fmt: skip


# The page


def rendered(page: Path) -> str:
    """Return the page as Chromium renders it, or as it is written without Chromium."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        return page.read_text(encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    done = subprocess.run([browser, *flags, page.resolve().as_uri()], capture_output=True, text=True, check=True)
    return done.stdout


def check_page(page: Path, report: dict[str, Any]) -> PageTally:
    """Check every number of the page."""
    soup, tally = BeautifulSoup(rendered(page), "html.parser"), PageTally(answers(report))
    for hidden in soup.select("script, style, dl.model, .brand, .about"):
        hidden.decompose()
    header = soup.select_one("header")
    assert header is not None
    for paragraph in header.select("p"):
        if words(paragraph).casefold() == report.get("condition", "").casefold():
            paragraph.decompose()
    tally.add("top", words(header), {*top(report), *WORDS[""], *WORDS["top"]})
    for section in soup.select("main > section"):
        name = str(section["id"])
        if name in NOT_FIGURES:
            continue
        allowed = {
            *WORDS[""],
            *WORDS.get(name, []),
            *(token for answer in report["answers"] for token in tokens(answer)),
        }
        if name == "outcomes":
            check_outcomes(section, report, allowed, tally)
        elif name == "groups":
            check_groups(section, report, allowed, tally)
        elif name == "pairs":
            check_pairs(section, report, allowed, tally)
        elif name == "worst":
            check_worst(section, report, allowed, tally)
        elif name == "candidates":
            for chart in section.select("svg"):  # its axis
                chart.decompose()
            tally.add(name, words(section), allowed, unrecomputed_in_candidates(report))
        else:
            if name == "disparity":
                check_worst_scores(section, report, tally)
            seconds = [] if report["repair"] is None else [f"{report['repair']['seconds']['total']:.1f}"]
            unknown = [*seconds, *losses(report)] if name == "training" else []
            tally.add(name, words(section), {*allowed, *SECTIONS[name](report)}, unknown)
    return tally


def losses(report: dict[str, Any]) -> Iterator[str]:
    for name in ("fair_loss", "task_loss"):
        found = report["repair"][name]
        yield from (str(len(found)), f"{max(found):.2g}") if found else ()
    yield number(report["repair"]["head_change"])
    yield from percent(report["repair"]["gap"])


def words(element: Tag) -> str:
    """Return the text of an element, with a space between its parts."""
    return element.get_text(" ", strip=True)


def check_outcomes(section: Tag, report: dict[str, Any], allowed: set[str], tally: PageTally) -> None:
    for table, shown in zip(section.select("table"), report["outcomes"]["tables"], strict=True):
        for row, group in zip(table.select("tbody tr"), shown["groups"], strict=True):
            tally.add("outcomes", words(row), group_figures(group))
        flagged = {*count(shown["flagged_before"], shown["flagged_after"])}
        tally.add("outcomes", words(table.caption), flagged)
        table.decompose()
    rows = set(count(report["outcomes"]["rows"]))
    tally.add("outcomes", words(section), allowed | rows)


def check_groups(section: Tag, report: dict[str, Any], allowed: set[str], tally: PageTally) -> None:
    for figure, feature in zip(section.select("figure"), report["groups"], strict=True):
        for row, group in zip(figure.select("tbody tr"), feature["groups"], strict=True):
            shares = [group["positive_before"], group["positive_after"], group["unfair_rate"]]
            shares += [*group["classes_before"], *group["classes_after"]]
            figures = {*count(group["rows"]), *tokens(group["name"])} | {t for s in shares for t in percent(s)}
            tally.add("groups", words(row), figures)
            row.decompose()
        gaps = [feature[f"{name}_{when}"] for name in ("parity", "odds") for when in ("before", "after")]
        figures = {token for gap in gaps for token in percent(gap)} | {str(len(feature["groups"]))}
        tally.add("groups", words(figure), figures)
        figure.decompose()
    people = report["audit"]["total"] if report["audit"] else report["repair"]["scored_rows"]
    tally.add("groups", words(section), allowed | set(count(people)))


def check_pairs(section: Tag, report: dict[str, Any], allowed: set[str], tally: PageTally) -> None:
    shown = report["pairs"]
    threshold = report["threshold"] if report["ranges"]["score"] == "positive" else None
    by_row = {str(pair["row"]): pair for pair in shown["rows"]}
    for row in section.select("tbody tr"):
        pair = by_row[row.td.get_text()]
        texts = [str(pair["row"]), pair["id"] or "", *pair["values"], *(other or "" for other in pair["others"])]
        figures = {token for text in texts for token in tokens(text)}
        figures |= {*apart(pair["scores"], threshold), *apart(pair["scores_after"] or [], threshold)}
        tally.add("pairs", words(row), figures)
        row.decompose()
    for cell in section.select("form, thead"):
        cell.decompose()
    rows = set(count(shown["total"], len(shown["rows"])))
    tally.add("pairs", words(section), allowed | rows | set(percent(report["threshold"])))


def check_worst(section: Tag, report: dict[str, Any], allowed: set[str], tally: PageTally) -> None:
    """Check the list of largest differences; its sentences are those of report.json, compared before."""
    for item, sentence in zip(section.select("li"), report["audit"]["worst"], strict=True):
        tally.add("worst", words(item), set(tokens(sentence)))


def check_worst_scores(section: Tag, report: dict[str, Any], tally: PageTally) -> None:
    repair = report["repair"]
    sides = [repair["before"], repair["after"]] if repair else [report["audit"]]
    found = [side["disparity"]["worst"] for side in sides]
    for figure in section.select("figure"):
        if "differ most" not in words(figure.figcaption):
            continue
        pair = found.pop(0)
        if pair is not None:
            texts = [str(pair["row"]), pair["id"] or "", *pair["values"], *pair["others"], *pair["columns"]]
            scores = {text for score in pair["scores"] for text in percent(score)}
            tally.add("worst pair", words(figure), scores | {token for text in texts for token in tokens(text)})
        figure.decompose()


def check_card(card: str, report: dict[str, Any]) -> PageTally:
    """Check every number of the model card: its tables row by row."""
    tally, tables = PageTally(answers(report)), iter(report["outcomes"]["tables"])
    body = card.split("## Origin")[0].split("## Check it yourself")[0].partition("\n---\n")[2].replace("\\", "")
    body = unescape(body)
    body = re.sub(r"\n\| Report \|[^\n]*", "", body)
    body = re.sub(r"\n## Warnings\n.*?(?=\n## )", "", body, flags=re.DOTALL)
    whole = {*WORDS[""], *WORDS["outcomes"], *WORDS["disparity"], *top(report), *figures(report), *disparity(report)}
    whole |= {*count(report["outcomes"]["rows"])} | ({*utility(report)} if report["repair"] else set())
    sides = [report["repair"]["before"], report["repair"]["after"]] if report["repair"] else [report["audit"]]
    for pair in filter(None, (side["disparity"]["worst"] for side in sides)):
        whole |= {text for score in pair["scores"] for text in percent(score)} | {str(pair["row"])}
        whole |= {token for text in (*pair["values"], *pair["others"], pair["id"] or "") for token in tokens(text)}
    for side in sides:
        whole |= {*percent(side.get("unfair_rate", side.get("rate")), 1, 2)}
    groups: list[dict[str, Any]] = []
    for line in body.splitlines():
        if line.startswith("### "):
            groups = list(next(tables)["groups"])
        tally.add("card", line, whole | _group_of_line(line, groups))
    return tally


def _group_of_line(line: str, groups: list[dict[str, Any]]) -> set[str]:
    """Return the figures of the group that a line of a table is about."""
    cells = [cell.strip() for cell in line.strip("| ").split("|")]
    found = [group for group in groups if cells[: len(group["values"])] == group["values"]]
    return group_figures(found[0]) if found else set()


def group_figures(group: dict[str, Any]) -> set[str]:
    """Return the figures of one group in a table of outcomes."""
    found = {*count(group["rows"]), "2 %" if group["small"] else "", "4", "5"}
    found |= {token for value in group["values"] for token in tokens(value)}
    for side in filter(None, (group["before"], group["after"])):
        shares = (side["rate"], side["low"], side["high"])
        found |= {*count(side["count"]), *(text for share in shares for text in percent(share))}
        ratio = side["ratio"]
        below = ratio is not None and ratio < 0.8 and f"{ratio:.2f}" == "0.80"
        found |= set() if ratio is None else {"< 0.80" if below else f"{ratio:.2f}"}
    return found

"""Check that every number on a report's page, and on its model card, is a figure of result.json as it is written there.

result.json is compared with recomputed figures in expected.py. Each part of a page may only show the figures
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
    "warnings": "sentences about the data and the candidates, which result.json has as text",
    "check": "the command, the date, versions and digests, which result.json has as text",
    "condition": "the steps as which a state dict is read, which result.json has as the same text",
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


def answers(document: dict[str, Any]) -> set[str]:
    return {token for answer in document["class_names"] for token in tokens(answer)}


def networks(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the figures of the network that was audited, or of those before and after the repair."""
    return [document] if document["kind"] == "audit" else [document["before"], document["after"]]


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


def top(document: dict[str, Any]) -> Iterator[str]:
    if document["kind"] == "audit":
        yield from count(document["count"], document["total"], document["evaluations"])
        yield from percent(document["idi_rate"], 2)
        return
    after = document["after"]["data"]
    yield from count(document["repair_inputs"], document["proven_repair_inputs"], after["total"], after["count"])
    yield from percent(after["idi_rate"], 1, 2)


def figures(document: dict[str, Any]) -> Iterator[str]:
    for network in networks(document):
        known, differ = network["utility"], network["disparity"]
        for name in ("accuracy", "balanced_accuracy", "positive_rate"):
            yield from percent(known[name])
        yield f"{known['auc']:.3f}"
        yield from percent(*(limit["share"] for limit in differ["above"] if limit["points"] == 10))
        yield points(differ["largest"])
    if document["kind"] == "audit":
        yield from (*percent(document["idi_rate"], 2), *count(document["count"], document["total"]))
        yield from count(document["labelled_rows"])
        return
    for network in networks(document):
        inputs, data = network["repair_inputs"], network["data"]
        yield from (*count(inputs["count"], data["count"]), *percent(data["idi_rate"]))
    yield change(*(network["utility"]["accuracy"] for network in networks(document)))
    yield from count(document["repair_inputs"], document["data_rows"], document["scored_rows"])
    yield from percent(document["changed_predictions"])


def ranges(document: dict[str, Any]) -> Iterator[str]:
    shown = document["page"]["ranges"]
    for entries in (shown["before"], shown["after"]):
        yield from count(len(entries), sum(entry["state"] == "two" for entry in entries))
    yield from count(shown["total"], len(document["class_names"]))


def disparity(document: dict[str, Any]) -> Iterator[str]:
    for shown in (network["disparity"] for network in networks(document)):
        yield from (points(shown[name]) for name in ("median", "p90", "p95", "p99", "largest"))
        yield from (text for limit in shown["above"] for text in percent(limit["share"]))
        yield from (*count(max(1, *shown["counts"])), f"{number(100 * shown['edges'][-1])} points", "0 points")
        if shown["curve"]:
            peak = max(shown["curve"], key=lambda entry: (entry["share"], -entry["threshold"]))
            most, middle = peak["share"], (entry["share"] for entry in shown["curve"] if entry["threshold"] == 0.5)
            yield from (*percent(most), *percent(*middle), f"{peak['threshold']:g}")
            ends = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
            end = next(end for end in ends if end >= most or end == 1.0)
            digits = 0 if end >= 0.1 else max(0, 1 - math.floor(math.log10(100 * end)))
            yield from (text for share in (0, end / 2, end) for text in percent(share, digits))
    yield from count(document.get("data_rows"))


def flips(document: dict[str, Any]) -> Iterator[str]:
    shown = document["page"]["flips"]
    for who in (*shown["alone"].values(), shown["together"]):
        yield from (*count(who, shown["looked_at"]), *percent(who / shown["looked_at"]))


def utility(document: dict[str, Any]) -> Iterator[str]:
    before, after = (network["utility"] for network in networks(document))
    rows = document["scored_rows"]
    yield from count(rows)
    for name in ("accuracy", "balanced_accuracy", "positive_rate"):
        if before[name] is not None:
            yield from (*percent(before[name]), *percent(after[name]), change(before[name], after[name]))
            yield from (*wilson(before[name], rows), *wilson(after[name], rows)) if name != "balanced_accuracy" else ()
    yield from (f"{known['auc']:.3f}" for known in (before, after))
    yield f"{round(after['auc'], 3) - round(before['auc'], 3):+.3f}".replace("-", "−")


def training(document: dict[str, Any]) -> Iterator[str]:
    weights = document["weights"]
    yield from count(document["changed_weights"], document["total_weights"])
    for layer in weights["layers"]:
        yield from count(layer["inputs"], layer["outputs"], layer["changed"], layer["total"])
        yield from (number(layer["l1"]), number(layer["largest"]))
        yield from tokens(layer["name"])
    for column in weights["columns"]:
        yield from (number(column["before"]), number(column["after"]), *tokens(column["name"]))


def appendix(document: dict[str, Any]) -> Iterator[str]:
    for weight in document["weights"]["head"]:
        yield from (number(weight["before"]), number(weight["after"]), *tokens(weight["name"]))


def unrecomputed_in_candidates(document: dict[str, Any]) -> Iterator[str]:
    candidates = document["candidates"]
    for place, candidate in enumerate(candidates, start=1):
        yield str(place)
        for name in ("unfair_rate", "accuracy", "balanced_accuracy", "agreement"):
            yield from percent(candidate[name], 1)
        if candidate["fall"] is not None:  # the column "Loses about"
            yield f"{round(100 * candidate['fall'], 1) + 0.0:.1f}".replace("-", "−")
        yield from tokens(candidate["reason"] or candidate["problem"])
    yield from tokens(document["policy"]["text"])
    yield str(sum(not candidate["ran"] for candidate in candidates))


def effects(document: dict[str, Any]) -> Iterator[str]:
    """Yield the mean effects in points, with their intervals, and how many people they are a mean over."""
    yield "95 %"
    for network in networks(document):
        for feature in network["effects"]:
            yield from count(feature["rows"])
            for value in feature["values"]:
                yield from tokens(value["value"])
                for effect in filter(None, (value["score"], value["decision"])):
                    for name in ("mean", "low", "high"):
                        shown = f"{100 * abs(effect[name]):.1f}"
                        yield from (shown, f"+{shown}", f"−{shown}", "0")
    if document["kind"] == "repair":
        yield from count(document["scored_rows"])


SECTIONS = {
    "effects": effects, "figures": figures, "ranges": ranges, "disparity": disparity, "flips": flips,
    "utility": utility, "training": training, "appendix": appendix, "terms": lambda _: (),
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


def check_page(page: Path, document: dict[str, Any]) -> PageTally:
    """Check every number of the page."""
    soup, tally = BeautifulSoup(rendered(page), "html.parser"), PageTally(answers(document))
    for hidden in soup.select("script, style, dl.model, .brand, .about"):
        hidden.decompose()
    header = soup.select_one("header")
    assert header is not None
    for paragraph in header.select("p"):
        if words(paragraph).casefold() == document["condition"].casefold():
            paragraph.decompose()
    tally.add("top", words(header), {*top(document), *WORDS[""], *WORDS["top"]})
    for section in soup.select("main > section"):
        name = str(section["id"])
        if name in NOT_FIGURES:
            continue
        allowed = {*WORDS[""], *WORDS.get(name, []), *tally.answers}
        if name == "outcomes":
            check_outcomes(section, document, allowed, tally)
        elif name == "groups":
            check_groups(section, document, allowed, tally)
        elif name == "pairs":
            check_pairs(section, document, allowed, tally)
        elif name == "worst":
            check_worst(section, document, allowed, tally)
        elif name == "candidates":
            for chart in section.select("svg"):  # its axis
                chart.decompose()
            allowed |= {*percent(document["policy"]["original_balanced_accuracy"], 0, 1)}
            tally.add(name, words(section), allowed, unrecomputed_in_candidates(document))
        else:
            if name == "disparity":
                check_worst_scores(section, document, tally)
            unknown = [f"{document['seconds']['total']:.1f}", *losses(document)] if name == "training" else []
            tally.add(name, words(section), {*allowed, *SECTIONS[name](document)}, unknown)
    return tally


def losses(document: dict[str, Any]) -> Iterator[str]:
    for found in document["history"].values():
        yield from (str(len(found)), f"{max(found):.2g}") if found else ()
    yield number(document["head_change"])
    yield from percent(document["gap"])


def words(element: Tag) -> str:
    """Return the text of an element, with a space between its parts."""
    return element.get_text(" ", strip=True)


def check_outcomes(section: Tag, document: dict[str, Any], allowed: set[str], tally: PageTally) -> None:
    for table, shown in zip(section.select("table"), document["outcomes"]["tables"], strict=True):
        for row, group in zip(table.select("tbody tr"), shown["groups"], strict=True):
            tally.add("outcomes", words(row), group_figures(group))
        flagged = {*count(shown["flagged_before"], shown["flagged_after"])}
        tally.add("outcomes", words(table.caption), flagged)
        table.decompose()
    rows = set(count(document["outcomes"]["rows"]))
    tally.add("outcomes", words(section), allowed | rows)


def check_groups(section: Tag, document: dict[str, Any], allowed: set[str], tally: PageTally) -> None:
    features = zip(*(network["groups"] for network in networks(document)), strict=True)
    for figure, sides in zip(section.select("figure"), features, strict=True):
        groups = list(zip(*(side["groups"] for side in sides), strict=True))
        for row, each in zip(figure.select("tbody tr"), groups, strict=True):
            shares = [share for group in each for share in (group["selection_rate"], group["unfair_rate"])]
            shares += [share for group in each for share in group["class_rates"]]
            found = {*count(each[0]["rows"]), *tokens(each[0]["name"])} | {t for s in shares for t in percent(s)}
            tally.add("groups", words(row), found)
            row.decompose()
        names = ("demographic_parity_difference", "equalized_odds_difference", "widest_difference")
        gaps = {points(side[name]) for side in sides for name in names if side[name] is not None}
        left_out = {*count(sides[0]["small_groups"]), "2 %"} if sides[0]["small_groups"] else set()
        tally.add("groups", words(figure), gaps | left_out | {str(len(groups))})
        figure.decompose()
    people = document["total"] if document["kind"] == "audit" else document["scored_rows"]
    tally.add("groups", words(section), allowed | set(count(people)))


def check_pairs(section: Tag, document: dict[str, Any], allowed: set[str], tally: PageTally) -> None:
    shown = document["page"]["pairs"]
    threshold = document["threshold"] if len(document["class_names"]) == 2 else None
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
    tally.add("pairs", words(section), allowed | rows | set(percent(document["threshold"])))


def check_worst(section: Tag, document: dict[str, Any], allowed: set[str], tally: PageTally) -> None:
    """Check the list of largest differences: a sentence for each pair."""
    for item, pair in zip(section.select("li"), document["pairs"], strict=True):
        threshold = document["threshold"] if pair["output"] is None else None
        tally.add("worst", words(item), pair_texts(pair, document) | set(apart(pair["scores"], threshold)))


def check_worst_scores(section: Tag, document: dict[str, Any], tally: PageTally) -> None:
    found = [network["disparity"]["worst"] for network in networks(document)]
    for figure in section.select("figure"):
        if "differ most" not in words(figure.figcaption):
            continue
        pair = found.pop(0)
        if pair is not None:
            tally.add("worst pair", words(figure), pair_figures(pair, document))
        figure.decompose()


def pair_texts(pair: dict[str, Any], document: dict[str, Any]) -> set[str]:
    """Return the numbers in the names and values of two people."""
    texts = [str(pair["row"]), pair["id"] or "", *pair["values"]]
    for values in (pair["values"], pair["other_values"]):
        for name, value in values.items():
            text = value if isinstance(value, str) else f"{value:.6g}"
            texts.append(document["value_names"].get(name, {}).get(text, text))
    return {token for text in texts for token in tokens(text)}


def pair_figures(pair: dict[str, Any], document: dict[str, Any]) -> set[str]:
    return pair_texts(pair, document) | {text for score in pair["scores"] for text in percent(score)}


def check_card(card: str, document: dict[str, Any]) -> PageTally:
    """Check every number of the model card: its tables row by row."""
    tally, tables = PageTally(answers(document)), iter(document["outcomes"]["tables"])
    body = card.split("## Origin")[0].split("## Check it yourself")[0].partition("\n---\n")[2].replace("\\", "")
    body = unescape(body)
    body = re.sub(r"\n\| Report \|[^\n]*", "", body)
    body = re.sub(r"\n## Warnings\n.*?(?=\n## )", "", body, flags=re.DOTALL)
    whole = {
        *WORDS[""],
        *WORDS["outcomes"],
        *WORDS["disparity"],
        *top(document),
        *figures(document),
        *disparity(document),
        *effects(document),
    }
    whole |= {*count(document["outcomes"]["rows"])} | ({*utility(document)} if document["kind"] == "repair" else set())
    for network in networks(document):
        pair, found = network["disparity"]["worst"], network.get("data", network)
        whole |= pair_figures(pair, document) if pair else set()
        whole |= {*percent(found["idi_rate"], 1, 2)}
    groups: list[dict[str, Any]] = []
    for line in body.splitlines():
        if line.startswith("### ") and ": effect on " not in line:
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

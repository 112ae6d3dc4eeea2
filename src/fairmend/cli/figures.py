"""Figures and sentences that several commands show: warnings, pairs, groups, effects, and the disparity of scores."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fairmend.base.text import (
    capitalized,
    listed,
    number,
    percent,
    printable,
    probabilities,
    signed_difference,
    without_unit,
)
from fairmend.cli.console import Rows, figures_table, show_warnings
from fairmend.evaluate.document import UTILITY_NAMES

if TYPE_CHECKING:
    from fairmend import CheckResult
    from fairmend.auditing.figures import DisparityFigures, Pair
    from fairmend.evaluate.document import (
        Document,
        FeatureEffects,
        FeatureGroups,
        FeatureMeans,
        OutOfRangeValues,
        ProxyTable,
        UtilityFigures,
        ValueEffect,
    )
    from fairmend.models import RunModel
    from fairmend.network import Network


ROW_NUMBERS = "Rows are numbered as in a spreadsheet: the header is row 1."

_MOST_DIGITS = 6  # after the point of a probability in per cent
_BLOCKS = "▁▂▃▄▅▆▇█"
_NOTHING = "·"
_WIDTH = 33  # characters of the curve, each for three thresholds
_NAMED = (0.1, 0.3, 0.5, 0.7)
_COLOURS = {"loses": "red", "gains": "green"}


def show_doubts(screen: Console, document: Document) -> None:
    """Print the warnings that make the figures doubtful: before the first figure."""
    show_warnings(screen, document.doubts)
    if document.doubts:
        screen.print()


def show_other_warnings(screen: Console, document: Document) -> None:
    """Print the warnings after the figures."""
    show_warnings(screen, document.warnings[len(document.doubts) :])


def show_out_of_range(screen: Console, done: OutOfRangeValues | None, spec_file: Path | None = None) -> None:
    """Print what was done about values out of range, and where the spec with wider ranges is; nothing without any."""
    if done is None or not done.rows:
        return
    screen.print(Text(done.text, style="yellow"), soft_wrap=True)
    if spec_file is not None:
        screen.print(Text.assemble("The spec with wider ranges: ", (str(spec_file), "bold")), soft_wrap=True)


def show_files(screen: Console, out: Path, files: Mapping[str, str]) -> None:
    """Print where the files are and what each contains."""
    screen.print()
    screen.print(Text.assemble("Saved in ", (str(out), "bold"), ":"), soft_wrap=True)
    lines = Rows.grid(padding=(0, 2))
    for name, what in files.items():
        lines.add_row("", Text(name, style="cyan"), Text(what))
    screen.print(lines)


def show_check(
    screen: Console, result: CheckResult, certificate: Path, model: Path, covers: str = "", *, real: bool = False
) -> None:
    """Print that the certificate was checked, and how to check it; `covers` names the inputs if not all are covered.

    `real` means that it claims exact arithmetic only.
    """
    screen.print()
    scope = f" for {covers} only" if covers else ""
    scope += ", in exact arithmetic only: rounding may change a prediction in inference" if real else ""
    colour = "bold yellow" if scope else "bold green"
    sentence = (f"The certificate is valid{scope}", colour)
    took = "less than 0.01" if result.seconds < 0.01 else f"{result.seconds:.2f}"
    screen.print(Text.assemble(sentence, f" (checked in {took} s). To check it yourself, run:"))
    typed = shlex.join(["fairmend", "check", str(certificate), str(model), *(["--real"] if real else [])])
    screen.print(Text(f"  {typed}", style="bold"), soft_wrap=True)
    show_condition(screen, result.condition)


def show_condition(screen: Console, condition: str) -> None:
    """Print what must be true of the program that runs the model, if its file leaves that open."""
    if condition:
        screen.print(Text(f"Condition: {condition}"))


def show_unit(screen: Console, document: Document) -> None:
    """Print what the scores of a model have to do with the probabilities that are shown, if they are none."""
    if document.unit:
        screen.print(Text(f"Scores: {document.unit}"))


def show_runtime(screen: Console, model: Network | RunModel) -> None:
    """Print what runs a model that is not read as a network, and why it is not."""
    from fairmend.models import RunModel

    if isinstance(model, RunModel):
        screen.print(Text(f"{model.runner.name} is run by {model.runtime}: {model.why_only_run}."), soft_wrap=True)


def show_report(screen: Console, page: Path, *, browser: bool = True) -> None:
    """Print where the page is."""
    screen.print()
    screen.print(
        Text.assemble("Report (open it in a browser): " if browser else "Report: ", (str(page), "bold")), soft_wrap=True
    )


# Figures of a network


def kept_figures(utility: UtilityFigures) -> list[tuple[str, str]]:
    """Return the name of each figure of a network's utility that is known, and its value."""
    known = {key: getattr(utility, key) for key in UTILITY_NAMES}
    return [(UTILITY_NAMES[key], _shown(key, value)) for key, value in known.items() if value is not None]


def _shown(key: str, value: float) -> str:
    if key in ("auc", "r2"):
        return f"{value:.3f}"
    return f"{value:.4g}" if key.endswith("_error") else percent(value)


def group_heading(group: FeatureGroups) -> str:
    """Return the heading of the group figures of one feature."""
    what = "parity / odds" if group.widest_class is None else "widest of a class"
    bins = f" in {len(group.groups) + group.groups_left_out} bins" if group.binned else ""
    small = f", without {group.small_groups} small" if group.small_groups else ""
    return f"Gaps by {group.feature}{bins} ({what}{small}), points"


def group_figures(group: FeatureGroups) -> str:
    """Return the differences in demographic parity and in equalized odds; with many classes, that of the widest one."""
    if group.widest_class is not None:
        return printable(f"{without_unit(group.widest_difference)} ({group.widest_class})")
    return f"{without_unit(group.demographic_parity_difference)} / {without_unit(group.equalized_odds_difference)}"


def show_means(screen: Console, before: Sequence[FeatureMeans], after: Sequence[FeatureMeans] | None = None) -> None:
    """Print the mean output of a regression network for each group, in an audit with 95 % intervals."""
    if not before:
        return
    compared = after is not None
    columns = ("before", "after") if compared else ("mean", "95 % interval")
    table = figures_table("Mean output of each group", "", " ", "people", *columns, right=("people", *columns))
    for place, feature in enumerate(before):
        now = after[place] if after is not None else None
        name = feature.feature if feature.output is None else f"{feature.feature}, output {feature.output}"
        for at, group in enumerate(feature.groups):
            later = None if now is None else now.groups[at]
            size = f"{group.rows:,}{' (small)' if group.small else ''}"
            second = _interval_text(group.low, group.high) if later is None else number(later.mean)
            table.add_row(name, group.name, size, number(group.mean), second)
            name = ""
        if feature.difference is not None:
            gap = feature.difference
            second = _interval_text(gap.low, gap.high)
            if now is not None:
                second = "" if now.difference is None else number(now.difference.mean)
            table.add_row("", "largest difference", "", number(gap.mean), second)
        table.add_section()
    screen.print()
    screen.print(table)


def _interval_text(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{number(low)} to {number(high)}"


def show_effects(
    screen: Console, document: Document, before: Sequence[FeatureEffects], after: Sequence[FeatureEffects] | None = None
) -> None:
    """Print who gains or loses: the mean effect of each protected value, in an audit with 95 % intervals."""
    if not before:
        return
    answer, on = before[0].answer, "output" if document.claim.on == "output" else "probability"
    columns = ("before", "after") if after is not None else ("output",) if answer is None else ("probability", "share")
    table = figures_table(
        "Mean effect of each value", "", " ", *columns, *(["  "] if after is None else []), right=columns
    )
    for place, feature in enumerate(before):
        name = feature.feature if feature.answer == answer else f"{feature.feature} ({feature.answer})"
        for at, value in enumerate(feature.values):
            later = None if after is None else after[place].values[at]
            cells = _intervals(value, on) if later is None else [_effect(each, on) for each in (value, later)]
            table.add_row(name, value.value, *cells)
            name = ""
        table.add_section()
    if after is None:
        what = f'in points, on the probability of "{answer}" and the share who get it'
        rest = ", with 95 % intervals: the same person with each value"
    else:
        what = f'in points, on the share who get "{answer}"'
        rest = ": the same person with each value. report.html has the intervals"
    table.caption = f"{'on the output' if answer is None else what}{rest}"
    screen.print()
    screen.print(table)


def _effect(value: ValueEffect, on: str) -> Text:
    """Return the effect of a value on the decision, or on the output, and who gains or loses by it."""
    effect = value.score if value.decision is None else value.decision
    mean = signed_difference(effect.mean, on)
    if value.direction == "neither" or mean == "0":  # a value may gain in score alone: the report shows both
        return Text(mean)
    return Text(f"{mean} {value.direction}", style=_COLOURS.get(value.direction, ""))


def _intervals(value: ValueEffect, on: str) -> list[Text]:
    """Return the effects of a value with their intervals, and who gains or loses by it."""
    cells = []
    for effect in (value.score, value.decision):
        if effect is not None:
            mean, low, high = (signed_difference(each, on) for each in (effect.mean, effect.low, effect.high))
            cells.append(Text(f"{mean} ({low} to {high})"))
    direction = "" if value.direction == "neither" else value.direction
    return [*cells, Text(direction, style=_COLOURS.get(direction, ""))]


def show_proxies(screen: Console, proxies: Sequence[ProxyTable]) -> None:
    """Print how well the features predict the columns of --group, and which of them."""
    from fairmend.evaluate.proxies import describe_proxy

    for proxy in proxies:
        screen.print()
        screen.print(Text(describe_proxy(proxy)))


# Pairs of people


def show_pairs(screen: Console, document: Document, pairs: Sequence[Pair], what: str) -> None:
    """Print pairs in the user's values, one line each; `what` is the name of what their numbers count."""
    if document.claim.is_score:
        _show_score_pairs(screen, document, pairs, what)
        return
    lines = Rows.grid(padding=(0, 1))
    threshold = document.threshold if len(document.class_names) <= 2 else None
    for pair in pairs:
        assert pair.answers is not None
        assert pair.scores is not None
        scores = probabilities(pair.scores, threshold, score_range=document.score_range)
        answers = map(document.quoted_class, pair.answers)
        first, second = (f"{name} ({score})" for name, score in zip(answers, scores, strict=True))
        difference = capitalized(pair.difference)
        lines.add_row(" ", Text(f"{name_pair(pair, what)}: {first}. {difference}: {second}."))
    meaning = "the probability of the first prediction"
    if threshold is not None:
        positive, score = document.quoted_class(1), "score of the model" if document.in_points else "probability of"
        shown = document.threshold_words if document.in_points else percent(threshold, _digits(threshold))
        score += "" if document.in_points else f" {positive}"
        meaning = f"the {score}; from {shown}, the prediction is {positive}"
    lines.add_row(" ", Text(f"In parentheses: {meaning}. {_numbering(what)}", style="dim"))
    screen.print(lines)


def _digits(share: float) -> int:
    """Return how many digits after the point a share has in per cent."""
    return next((digits for digits in range(_MOST_DIGITS) if round(share, digits + 2) == share), _MOST_DIGITS)


def _show_score_pairs(screen: Console, document: Document, pairs: Sequence[Pair], what: str) -> None:
    """Print the two people of each neighbourhood whose scores differ most."""
    lines = Rows.grid(padding=(0, 1))
    for pair in pairs:
        output = "" if pair.output is None else f"output {pair.output}, "
        first, second = (
            f"{score:.5g} with {values}"
            for score, values in zip(pair.scores or (), document.differing_values(pair), strict=True)
        )
        where = f"  {name_pair(pair, what)}: {output}differs by {pair.gap:.4g}."
        lines.add_row(Text(where), Text(printable(f"{first}; {second}.")))
    screen.print(lines)
    screen.print(Padding(Text(f"The score is the {document.claim.on}. {_numbering(what)}", style="dim"), (0, 0, 0, 2)))


def name_pair(pair: Pair, what: str) -> str:
    """Return the number of a pair: "row 5", or "sample 5" if that is what its number counts."""
    return pair.name if what == "row" else f"{what} {pair.row}"


def _numbering(what: str) -> str:
    return ROW_NUMBERS if what == "row" else f"{what.capitalize()}s are numbered from 1."


# The disparity of scores


def add_disparity(table: Table, disparity: DisparityFigures, after: DisparityFigures | None = None) -> None:
    """Add the distribution of the differences to a table of figures, and of those after a repair in a third column."""
    table.add_section()
    columns = [side.rows() for side in (disparity, after) if side is not None]
    for (name, value), *others in zip(*columns, strict=True):
        table.add_row(name, value, *(other for _, other in others))


def describe_worst(document: Document, pair: Pair, what: str) -> str:
    """Return where the two are, and the score of each with the values in which they differ."""
    probability = pair.on == "probability"
    name = document.quoted_class(1 if pair.output is None else pair.output)
    score_name = f"{name} has probability" if probability else "the output is"
    first, second = (
        f"{percent(score) if probability else number(score)} with {values}"
        for score, values in zip(pair.scores or (), document.differing_values(pair), strict=True)
    )
    return printable(f"{name_pair(pair, what)}: {score_name} {first}; {second}.")


def show_curve(screen: Console, disparity: DisparityFigures, decision: float) -> None:
    """Print the share treated unequally against the threshold: one line of blocks, and a few figures."""
    title, peak = "Treated unequally at each threshold:", disparity.peak
    at, most = peak.threshold, peak.share
    screen.print()
    if most == 0:
        screen.print(Text(f"{title} {percent(most)}"))
        return
    line = f"0 {sparkline([point.share for point in disparity.curve])} 1"
    if len(title) + 1 + len(line) <= screen.width:
        screen.print(Text(f"{title} {line}"))
    else:
        screen.print(Text(title))
        screen.print(Text(f"  {line}"))
    shares = {named: percent(disparity.share_at(named)) for named in (*_NAMED, decision)} | {at: percent(most)}
    remarks: dict[float, list[str]] = {named: [] for named in shares} | {at: ["most"]}
    remarks[decision].insert(0, "yours")
    shown = (
        f"{named:g}{f' ({listed(remarks[named])})' if remarks[named] else ''}: {share}"
        for named, share in sorted(shares.items())
    )
    screen.print(Padding(Text(f"at {', '.join(shown)}", style="dim"), (0, 0, 0, 2)))


def sparkline(shares: Sequence[float]) -> str:
    """Return shares as a line of blocks, the highest of each few; a dot is 0."""
    size = max(1, len(shares) // _WIDTH)
    heights = [max(shares[start : start + size]) for start in range(0, len(shares), size)]
    top = max(heights) or 1.0
    return "".join(
        _NOTHING if height == 0 else _BLOCKS[min(len(_BLOCKS) - 1, int(height / top * len(_BLOCKS)))]
        for height in heights
    )

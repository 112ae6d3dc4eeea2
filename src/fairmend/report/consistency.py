"""What makes a result.json unusable although each of its fields is valid: parts that do not fit together.

The page could not be drawn from it, or the script of its part "What if?" could not compute with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fairmend.auditing.figures import DisparityFigures, Pair, ScoreFigures
from fairmend.base.errors import FairmendError
from fairmend.evaluate.document import (
    AuditDocument,
    CarriedNetwork,
    FeatureGroups,
    NearestPair,
    Outcomes,
    Page,
    QuantifyDocument,
    RepairDocument,
    WhatIf,
    WhatIfFeature,
    WhatIfLink,
)
from fairmend.network.description import unpacked
from fairmend.network.formats.torch.steps import replay
from fairmend.report.frontier import GUARANTEES

if TYPE_CHECKING:
    from fairmend.report.report import PagedDocument

_STATES = ("one", "two", "open")
_SCORES = ("positive", "own")
_PREFERENCES = ("accuracy", "decisions")


def inconsistencies(document: PagedDocument) -> Iterator[str]:
    """Yield what the reader cannot find, because each field by itself is valid."""
    if len(document.class_names) < 2:
        yield "class_names: at least two are needed"
    if not 0 < document.threshold < 1:
        yield f"threshold: {document.threshold:g} is not a probability above 0 and below 1"
    if isinstance(document, QuantifyDocument):
        if not all(0 <= share <= 1 for share in (document.fair, document.unfair, document.undecided)):
            yield "a share is not from 0 to 1"
        return
    repaired = isinstance(document, RepairDocument)
    if document.page is None:
        yield "page: nothing to draw a page from"
    else:
        yield from _page_problems(document.page, repaired, document.claim.is_score)
    if document.outcomes is not None:
        yield from _outcome_problems(document.outcomes, repaired)
    if isinstance(document, AuditDocument):
        if document.interval is not None and len(document.interval) != 2:
            yield "interval: must hold a lower and an upper end"
        figures = {"": (document.scores, document.disparity, document.groups)}
        pairs = document.pairs
    else:
        yield from _candidate_problems(document)
        sides = {"before.": document.before, "after.": document.after}
        figures = {where: (side.scores, side.disparity, side.groups) for where, side in sides.items()}
        pairs = []
        if [len(f.groups) for f in document.before.groups] != [len(f.groups) for f in document.after.groups]:
            yield "groups: those before and after do not fit"
        if [len(f.values) for f in document.before.effects] != [len(f.values) for f in document.after.effects]:
            yield "effects: those before and after do not fit"
    yield from (f"pairs[{i}]: its answers and scores do not fit" for i, pair in enumerate(pairs) if not _is_two(pair))
    for where, (scores, disparity, groups) in figures.items():
        if (scores is not None) != document.claim.is_score:
            yield f"{where}scores: must be given for a claim about scores, and only then"
        for problem in [] if scores is None else _histogram_problems(scores):
            yield f"{where}scores: {problem}"
        yield from (f"{where}disparity: {problem}" for problem in _disparity_problems(disparity))
        for feature in groups:
            if not _shares_fit(feature, len(document.class_names)):
                yield f"{where}groups of {feature.feature!r:.40}: the shares of classes do not fit the class names"


def _page_problems(page: Page, repaired: bool, score: bool) -> Iterator[str]:
    if any((part is None) != score for part in (page.ranges, page.flips, page.pairs)):
        yield "page: ranges, flips and pairs must be given unless the claim is about scores"
    if page.ranges is not None:
        if page.ranges.score not in _SCORES:
            yield f"page.ranges.score: {page.ranges.score!r:.40} is not one of {', '.join(_SCORES)}"
        if any(entry.state not in _STATES for entry in (*page.ranges.before, *page.ranges.after)):
            yield f"page.ranges: a state is not one of {', '.join(_STATES)}"
    for number, pair in enumerate([] if page.pairs is None else page.pairs.rows):
        if not _fits(pair, len(page.pairs.columns if page.pairs else ()), repaired):
            yield f"page.pairs.rows[{number}]: its values, answers and scores do not fit the columns"
    if page.what_if is not None:
        yield from (f"page.{problem}" for problem in what_if_problems(page.what_if, repaired))


def _candidate_problems(document: RepairDocument) -> Iterator[str]:
    if any(candidate.proven and candidate.guarantee not in GUARANTEES for candidate in document.candidates):
        yield f"candidates: a guarantee is not one of {'; '.join(GUARANTEES)}"
    if document.policy is None:
        yield from ["policy: must be given with candidates"] if document.candidates else []
    elif document.policy.prefer not in _PREFERENCES:
        yield f"policy.prefer: {document.policy.prefer!r:.40} is not one of {', '.join(_PREFERENCES)}"


def _histogram_problems(figures: ScoreFigures | DisparityFigures) -> Iterator[str]:
    if len(figures.edges) != len(figures.counts) + 1 or not figures.edges[-1] > 0:
        yield "the edges and the counts do not fit"


def _disparity_problems(disparity: DisparityFigures) -> Iterator[str]:
    if disparity.on not in ("probability", "output"):
        yield f"on = {disparity.on!r:.40} is not one of probability, output"
    yield from _histogram_problems(disparity)
    thresholds = [entry.threshold for entry in disparity.curve]
    if (disparity.threshold is None) != (not thresholds):
        yield "the threshold and the curve do not fit"
    elif disparity.threshold is not None and disparity.threshold not in thresholds:
        yield "the threshold that decides is not one of the curve's"
    if disparity.on == "probability" and [entry.points for entry in disparity.above] != [1, 5, 10]:
        yield "the shares above 1, 5 and 10 points are needed"
    if disparity.worst is not None and not _is_two(disparity.worst):
        yield "the values and scores of the worst pair do not fit"


def _is_two(pair: Pair) -> bool:
    """Return whether there are two people with a value of each feature, two scores and two answers, if any."""
    two = all(values is None or len(values) == 2 for values in (pair.answers, pair.answer_names))
    return two and pair.scores is not None and len(pair.scores) == 2 and pair.values.keys() == pair.other_values.keys()


def _outcome_problems(outcomes: Outcomes, repaired: bool) -> Iterator[str]:
    """Yield the tables whose groups lack a value of a feature, or figures of a network."""
    for table in outcomes.tables:
        fits = (table.flagged_after is not None) == repaired and all(
            len(group.values) == len(table.features) and (group.after is not None) == repaired for group in table.groups
        )
        if not fits:
            yield f"outcomes of {', '.join(table.features)!r:.40}: the groups do not fit the features or the networks"


def _shares_fit(feature: FeatureGroups, classes: int) -> bool:
    """Return whether every group has the shares of the same classes."""
    counts = [len(group.class_rates) for group in feature.groups]
    return len(set(counts)) <= 1 and max(counts, default=0) <= classes


def _fits(pair: NearestPair, columns: int, repaired: bool) -> bool:
    twos: list[list[int] | list[float]] = [pair.answers, pair.scores]
    if repaired:
        twos += [pair.answers_after or [], pair.scores_after or []]
    both = all(len(two) == 2 for two in twos) and min(pair.answers) >= 0
    return both and len(pair.values) == len(pair.others) == columns


# The part "What if?"


_PRECISIONS = ("float32", "float64")
_KINDS = ("continuous", "integer", "categorical")
_STEPS = {"input", "affine", "scale", "function", "sum", "concatenate", "columns", "lookup"}  # without batch norms
_STEPS |= {"product", "softmax", "normalise"}


def what_if_problems(what_if: WhatIf, repaired: bool) -> Iterator[str]:
    """Yield what the script could not compute with, although each field by itself is valid."""
    features = what_if.features
    for number, feature in enumerate(features):
        if not _is_valid(feature) or feature.marks not in {None, *range(len(features))} - {number}:
            yield f"what_if.features[{number}]: its values and its encoding do not fit"
    for number, link in enumerate(what_if.links):
        if not _link_fits(link, features):
            yield f"what_if.links[{number}]: does not fit the features"
    if (what_if.after is not None) != repaired:
        yield "what_if.after: must be given for a repair, and only then"
    width = sum(_width(feature) for feature in features)
    outputs = 2 if not what_if.regression and len(what_if.scores) == 1 else len(what_if.scores)
    for name, network in (("before", what_if.before), ("after", what_if.after)):
        if network is not None and not _runs(network, width, {outputs, len(what_if.scores)}):
            yield f"what_if.{name}: not a network that reads {width} columns and gives these scores"
        error = None if network is None else network.margin_error
        if error is not None and (error < 0 or what_if.regression):
            yield f"what_if.{name}.margin_error: must not be negative, and is null for a regression network"
    single = len(what_if.scores) == 1 and not what_if.regression
    if (what_if.threshold is not None) != single or (single and not 0 < (what_if.threshold or 0) < 1):
        yield "what_if.threshold: must be between 0 and 1 for a single probability, and null otherwise"
    for number, person in enumerate(what_if.people):
        if len(person.values) != len(features) or not all(map(_has_value, features, person.values)):
            yield f"what_if.people[{number}]: its values do not fit the features"


def _is_valid(feature: WhatIfFeature) -> bool:
    codes = (0, len(feature.categories) - 1)
    categorical = feature.kind == "categorical"
    return (
        feature.kind in _KINDS
        and categorical == bool(feature.categories)
        and (not categorical or (feature.low, feature.high) == codes)
        and (categorical or not feature.one_hot)
        and (feature.dropped is None or (feature.one_hot and feature.dropped in range(len(feature.categories))))
        and feature.low <= feature.high
        and feature.factor != 0
        and feature.reach >= 0
        and all(run and len(run) == 2 and run[0] <= run[1] for band in feature.bands for run in band)
        and (feature.missing is None or _has_value(feature, feature.missing))
        and (not feature.names or (feature.kind == "integer" and _names_every_value(feature)))
    )


def _names_every_value(feature: WhatIfFeature) -> bool:
    count = len(feature.names)
    values = range(int(feature.low), int(feature.low) + count)
    return feature.high - feature.low + 1 == count and all(str(value) in feature.names for value in values)


def _has_value(feature: WhatIfFeature, value: float) -> bool:
    return feature.low <= value <= feature.high and (feature.kind == "continuous" or value == round(value))


def _width(feature: WhatIfFeature) -> int:
    return len(feature.categories) - (feature.dropped is not None) if feature.one_hot else 1


def _link_fits(link: WhatIfLink, features: list[WhatIfFeature]) -> bool:
    known = range(len(features))
    for condition in link.when:
        if condition.feature not in known or any(len(run) != 2 for run in condition.runs):
            return False
    for change in link.then:
        if change.feature not in known:
            return False
        codes = range(len(features[change.feature].categories))
        by_category = change.how == "categories"
        if by_category != bool(codes) or by_category != bool(change.replaces):
            return False
        if any(code not in codes for new in change.replaces.values() for code in new):
            return False
        if not by_category and (change.how not in ("range", "offset") or len(change.ends) != 2):
            return False
    return True


def _runs(network: CarriedNetwork, width: int, outputs: set[int]) -> bool:
    """Return whether the steps are a network that reads so many columns, of kinds that the script computes."""
    known = all(step.get("kind") in _STEPS and not _names_more(step) for step in network.steps)
    if not known or any(tensor.dtype != network.precision for tensor in network.tensors.values()):
        return False
    try:
        built = replay(
            network.steps, unpacked({key: asdict(tensor) for key, tensor in network.tensors.items()}), "what_if"
        )
    except (FairmendError, ValueError, KeyError, TypeError):  # steps or numbers that do not fit
        return False
    same = network.precision in _PRECISIONS and built.dtype == network.precision and built.closing == "none"
    return same and built.inputs == width and built.outputs in outputs


def _names_more(step: dict[str, Any]) -> bool:
    """Return whether a step has its numbers in a way that only a state dict needs."""
    return bool(step.get("transposed")) or isinstance(step.get("parameters"), str)

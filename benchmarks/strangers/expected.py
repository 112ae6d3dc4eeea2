"""Recompute every figure of a result, from the CSV files and the models in their own frameworks, without fairmend.

`expected_document` returns the figures in the same places as in result.json. The names of groups, and which people and
pairs are shown, come from the document; the figures about them do not.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomllib
from scipy.stats import binomtest
from sklearn.metrics import accuracy_score, average_precision_score, balanced_accuracy_score, roc_auc_score

from benchmarks.strangers.data import Stranger
from benchmarks.strangers.models import Encoding, affine_layers, run

NEAR = 1e-5
"""Scores of two programs may differ by so much: they round, and `spec init` fits scales to scores."""

FIRST_ROW = 2  # as a spreadsheet counts
MOST_RANGES = 240
BINS = 40
MOST_PAIRS = 5  # of an audit
FEW_VALUES = 8  # of a number that all have a row in the table of effects
ROUNDED_EFFECT = 1e-6  # an effect below is how programs round


@dataclass(frozen=True)
class Between:
    """A count or share that rounding of scores decides: any figure from `low` to `high` is right."""

    low: float
    high: float


@dataclass(frozen=True)
class Exactly:
    """A number as it stands in the data: no other number is right, however near it is."""

    value: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | float) and other == self.value


@dataclass(frozen=True)
class ImputedText:
    """What replaces a missing number, with six digits and a remark; `spec init` fits it to scores."""

    value: float

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str) or not other.endswith(" (imputed)"):
            return False
        return abs(float(other.removesuffix(" (imputed)")) - self.value) <= 1e-3 * max(1.0, abs(self.value))


@dataclass(frozen=True)
class OneOf:
    """Any of these is right, because the scores are as good as equal."""

    values: tuple[Any, ...]


class Measured:
    """A model on some people: their scores, and the scores of all their counterfactuals (combinations, people, …)."""

    def __init__(self, world: World, model: Path, frame: pd.DataFrame) -> None:
        self.model, self.frame, self.several = model, frame, len(world.people.classes) > 2
        self.own = world.run(model, frame)
        self.each = np.stack([world.run(model, other) for _, other in world.counterfactuals(frame)])
        self.decision, self.decisions = self.decide(self.own), self.decide(self.each)
        self.unequal = (self.decisions != self.decision).any(axis=0)
        spread = self.each.max(axis=0) - self.each.min(axis=0)
        self.spread = spread.max(axis=1) if self.several else spread

    def decide(self, scores: np.ndarray) -> np.ndarray:
        return scores.argmax(axis=-1) if self.several else (scores >= 0.5).astype(int)

    def of_own_class(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability that is shown (…, people): of the positive class, or of the person's own of many."""
        if not self.several:
            return scores
        return np.take_along_axis(scores, np.broadcast_to(self.decision, scores.shape[:-1])[..., None], axis=-1)[..., 0]


class World:
    """A table, a framework, and the files that fairmend read and wrote."""

    def __init__(self, people: Stranger, framework: str, encode: Encoding, folder: Path) -> None:
        self.people, self.framework, self.encode, self.folder = people, framework, encode, folder
        spec = tomllib.loads((folder / "spec.toml").read_text(encoding="utf-8"))
        self.features = {feature["name"]: feature for feature in spec["feature"]}
        self.id_column = spec.get("table", {}).get("id")
        self.outputs = 1 if len(people.classes) == 2 else len(people.classes)
        self._known: dict[tuple[str, str], Measured] = {}

    def run(self, model: Path, frame: pd.DataFrame) -> np.ndarray:
        return run(self.framework, model, self.encode(frame), self.outputs).astype(np.float64)

    def measured(self, model: Path, name: str, frame: pd.DataFrame) -> Measured:
        """Return the model on the people of a file; each is run once."""
        key = (str(model), name)
        if key not in self._known:
            self._known[key] = Measured(self, model, frame)
        return self._known[key]

    def combinations(self) -> list[dict[str, Any]]:
        """Return each combination of the protected values."""
        values = []
        for name in self.people.protected:
            known = self.people.frame[name]
            number = name in self.people.numbers
            values.append(range(int(known.min()), int(known.max()) + 1) if number else sorted(known.dropna().unique()))
        return [dict(zip(self.people.protected, each, strict=True)) for each in product(*values)]

    def counterfactuals(self, frame: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
        for combination in self.combinations():
            yield combination, frame.assign(**combination)

    def place(self, shown: dict[str, str]) -> int:
        """Return the number of the combination with these protected values, as the report names them."""
        return next(
            number
            for number, each in enumerate(self.combinations())
            if all(self.shown(name, value) == shown[name] for name, value in each.items())
        )

    def labels(self, frame: pd.DataFrame) -> np.ndarray:
        numbers = {str(value): number for number, value in enumerate(self.people.classes)}
        return frame[self.people.label].astype(str).map(numbers).to_numpy()

    def shown(self, feature: str, value: Any) -> str:
        """Return a value as the report names it."""
        return str(self.features[feature].get("names", {}).get(str(value), value))

    def value(self, feature: str, value: Any) -> Any:
        """Return the value of a person as the network reads it: what replaces it if it is missing."""
        if feature not in self.people.numbers:
            return str(self.people.frame[feature].mode()[0] if pd.isna(value) else value)
        missing = bool(pd.isna(value))
        # `spec init` fits what replaces a missing value to the scores, so that it is right up to rounding.
        return Approximately(self.encode.scales()[feature][2] if missing else float(value), 1e-3 if missing else 1e-6)

    def stated(self, feature: str, value: Any) -> Any:
        """Return the value of a person as it stands in the data: exactly this number, and None if it is missing."""
        if pd.isna(value):
            return None
        return str(value) if feature not in self.people.numbers else Exactly(float(value))

    def imputed(self, row: pd.Series) -> dict[str, Any]:
        """Return what replaces the missing values of a person."""
        return {name: self.value(name, row[name]) for name in self.features if pd.isna(row[name])}

    def text(self, feature: str, value: Any) -> Any:
        """Return the value of a person as the page writes it."""
        known = self.value(feature, value)
        if not isinstance(known, Approximately):
            return self.shown(feature, known) + (" (imputed)" if pd.isna(value) else "")
        return ImputedText(known.value) if pd.isna(value) else f"{float(value):.6g}"

    def members(self, frame: pd.DataFrame, feature: str, group: str) -> np.ndarray:
        """Return who of the people (people,) belongs to a group: a value, or a range such as "18 to 31"."""
        low, to, high = group.partition(" to ")
        if to:
            return frame[feature].between(float(low), float(high)).to_numpy()
        return (frame[feature].map(lambda value: self.shown(feature, value)) == group).to_numpy()


# Parts of a document


def some_people(sure: np.ndarray, maybe: np.ndarray) -> dict[str, Any]:
    """Return the count and the share of people, of whom those that are not sure may be counted or not."""
    counts = int(sure.sum()), int(maybe.sum())
    return {"count": Between(*counts), "share": Between(counts[0] / len(sure), counts[1] / len(sure))}


def disparity(world: World, shown: dict[str, Any], measured: Measured, end: float) -> dict[str, Any]:
    spread = measured.spread
    edges = np.linspace(0, end or 1.0, BINS + 1)
    bins = []
    for number, (low, high) in enumerate(pairwise(edges)):
        last = number == BINS - 1
        sure = (spread >= low + NEAR * bool(number)) & ((spread < high - NEAR) | last)
        maybe = (spread >= low - NEAR) & ((spread < high + NEAR) | last)
        bins.append(Between(int(sure.sum()), int(maybe.sum())))
    limits = (1, 5, 10)
    found: dict[str, Any] = {
        **dict(zip(("median", "p90", "p95", "p99"), np.quantile(spread, [0.5, 0.9, 0.95, 0.99]), strict=True)),
        "largest": spread.max(),
        "above": [
            {"points": limit, **some_people(spread > limit / 100 + NEAR, spread > limit / 100 - NEAR)}
            for limit in limits
        ],
        "edges": edges,
        "counts": bins,
        "worst": None,
        "threshold": None,
        "curve": [],
    }
    if spread.max() > NEAR:
        widest = np.flatnonzero(spread > spread.max() - NEAR) + FIRST_ROW
        found["worst"] = pair(world, shown["worst"], measured) if shown["worst"] else {}
        found["worst"] |= {"row": OneOf(tuple(widest.tolist())), "output": None, "gap": spread.max()}
        if measured.several:
            by_class = np.ptp(measured.each, axis=0).max(axis=0)
            found["worst"]["output"] = OneOf(tuple(np.flatnonzero(by_class > spread.max() - NEAR).tolist()))
    if not measured.several:
        low, high = measured.each.min(axis=0), measured.each.max(axis=0)
        found["threshold"] = 0.5
        for cut in np.arange(1, 100) / 100:
            sure, maybe = ((low < cut - near) & (high > cut + near) for near in (NEAR, -NEAR))
            found["curve"].append({"threshold": cut, **some_people(sure, maybe)})
        found["curve"][49] |= some_people(measured.unequal, measured.unequal)
    return found


def pair(world: World, shown: dict[str, Any], measured: Measured) -> dict[str, Any]:
    """Return the figures of two similar people: the person of a row with two combinations of protected values."""
    person, combinations = shown["row"] - FIRST_ROW, world.combinations()
    row = measured.frame.iloc[person]
    named = [{n: world.shown(n, v) for n, v in shown[side].items()} for side in ("values", "other_values")]
    where = [world.place(values) for values in named]
    scores = measured.each[where, person]
    scores = scores[:, shown["output"]] if measured.several else scores
    answers = measured.decisions[where, person].tolist()
    both = [pd.Series({**row, **combinations[place]}) for place in where]
    values = [{name: world.stated(name, other[name]) for name in world.features} for other in both]
    differing = [name for name in world.features if named[0][name] != named[1][name]]
    changes = [f"{name} {named[1][name]} instead of {named[0][name]}" for name in differing]
    return {
        "row": shown["row"], "id": row[world.id_column] if world.id_column else None,
        "values": values[0], "other_values": values[1], "imputed": world.imputed(both[0]) | world.imputed(both[1]),
        "answers": answers, "answer_names": [world.people.classes[answer] for answer in answers],
        "scores": scores, "gap": abs(scores[1] - scores[0]), "difference": ", ".join(["the same person", *changes]),
    }  # fmt: skip


def worst_pairs(world: World, shown: list[dict[str, Any]], measured: Measured) -> list[dict[str, Any]]:
    """Return the people whose score differs most from that of a counterfactual with another prediction.

    Of people with equal values, only one is shown.
    """
    mine, theirs = measured.of_own_class(measured.own), measured.of_own_class(measured.each)
    gap = np.where(measured.decisions != measured.decision, np.abs(theirs - mine), 0).max(axis=0)
    _, different = np.unique(world.encode(measured.frame), axis=0, return_index=True)
    largest, found = np.sort(gap[different])[::-1], []
    for number in range(min(MOST_PAIRS, int(measured.unequal[different].sum()))):
        entry = pair(world, shown[number], measured) if number < len(shown) else {}
        person = shown[number]["row"] - FIRST_ROW if entry else 0
        own = {name: world.stated(name, measured.frame[name].iloc[person]) for name in world.features}
        output = int(measured.decision[person]) if measured.several else None
        found.append({**entry, "values": own, "output": output, "gap": largest[number]})
    return found


def unequal(measured: Measured) -> dict[str, Any]:
    who = measured.unequal
    return {"count": int(who.sum()), "total": len(who), "idi_rate": who.mean()}


def utility(world: World, measured: Measured) -> dict[str, Any]:
    true, answers = world.labels(measured.frame), measured.decision
    return {
        "accuracy": accuracy_score(true, answers),
        "balanced_accuracy": balanced_accuracy_score(true, answers),
        "positive_rate": None if measured.several else answers.mean(),
        **ranking(true, measured.own),
        "r2": None,
        "mean_absolute_error": None,
        "root_mean_squared_error": None,
    }


_ROUNDING = 1e-9  # of the computation of a ranking


def ranking(true: np.ndarray, scores: np.ndarray) -> dict[str, Any]:
    """Return the least and greatest AUC and average precision of scores that differ from these by at most NEAR.

    Of several classes, it is the mean. A pair of scores that are closer may be ranked either way. Such pairs are
    common: people with equal values have equal scores here, but other last bits in fairmend, where BLAS rounds the
    rows of a product differently.
    """
    columns = {1: scores} if scores.ndim == 1 else dict(enumerate(scores.T))
    areas, precisions, exact = [], [], []
    for number, values in columns.items():
        chosen, others = np.sort(values[true == number]), np.sort(values[true != number])
        near = (chosen - 2 * NEAR, chosen + 2 * NEAR)
        areas.append([np.searchsorted(others, cut).mean() / len(others) for cut in near])
        right, wrong = ([len(sorted_) - np.searchsorted(sorted_, cut) for cut in near] for sorted_ in (chosen, others))
        fewest, most = np.maximum(right[1], 1), right[0]
        precisions.append([(fewest / (fewest + wrong[0])).mean(), (most / (most + wrong[1])).mean()])
        exact.append(average_precision_score(true == number, values))
    found = {}
    known = roc_auc_score(true, scores, multi_class="ovr"), np.mean(exact)
    for name, ends, value in zip(("auc", "average_precision"), (areas, precisions), known, strict=True):
        low, high = np.mean(ends, axis=0) + np.array([-_ROUNDING, _ROUNDING])
        assert low <= value <= high
        found[name] = Between(low, high)
    return found


def rates(answers: np.ndarray, masks: list[np.ndarray]) -> list[float]:
    return [float(answers[mask].mean()) for mask in masks]


def groups(world: World, shown: list[dict[str, Any]], measured: Measured, unfair: bool) -> list[dict[str, Any]]:
    """Return sizes, rates and gaps of the groups of each protected feature."""
    found, true = [], world.labels(measured.frame)
    for entry in shown:
        masks = [world.members(measured.frame, entry["feature"], group["name"]) for group in entry["groups"]]
        large = [bool(mask.sum() >= 0.02 * len(true)) for mask in masks]  # the gaps leave the others out
        listed: list[dict[str, Any]] = [
            {
                "rows": int(mask.sum()), "selection_rate": None, "class_rates": [],
                "unfair_rate": measured.unequal[mask].mean() if unfair else None,
            }
            for mask in masks
        ]  # fmt: skip
        expected: dict[str, Any] = {
            "groups": listed, "groups_left_out": 0, "demographic_parity_difference": None,
            "equalized_odds_difference": None, "widest_class": None, "widest_difference": None,
            "small_groups": large.count(False),
        }  # fmt: skip
        if measured.several:
            by_class = np.array([rates(measured.decision == number, masks) for number in range(world.outputs)])
            for group, shares in zip(listed, by_class.T, strict=True):
                group["class_rates"] = shares
            gaps = np.ptp(by_class[:, large], axis=1)
            expected |= {"widest_class": world.people.classes[gaps.argmax()], "widest_difference": gaps.max()}
        else:
            selected = rates(measured.decision, masks)
            for group, rate in zip(listed, selected, strict=True):
                group["selection_rate"] = rate
            compared = [mask for mask, enough in zip(masks, large, strict=True) if enough]
            by_label = [rates(measured.decision, [mask & (true == label) for mask in compared]) for label in (0, 1)]
            expected["demographic_parity_difference"] = np.ptp(np.array(selected)[large])
            expected["equalized_odds_difference"] = max(max(each) - min(each) for each in by_label)
        found.append(expected)
    return found


def selection(selected: np.ndarray, masks: list[np.ndarray], small: list[bool]) -> list[dict[str, Any]]:
    """Return counts, rates, 95 % intervals (SciPy's Wilson) and impact ratios of groups for one model."""
    counts, sizes = [int(selected[mask].sum()) for mask in masks], [int(mask.sum()) for mask in masks]
    highest = max((c / n for c, n, few in zip(counts, sizes, small, strict=True) if not few), default=0)
    found = []
    for count, size, few in zip(counts, sizes, small, strict=True):
        interval = binomtest(count, size).proportion_ci(method="wilson")
        ratio = None if few or not highest else count / size / highest
        figures = {"count": count, "rate": count / size, "low": interval.low, "high": interval.high, "ratio": ratio}
        found.append({**figures, "flagged": ratio is not None and ratio < 0.8})
    return found


def outcomes(world: World, shown: dict[str, Any], sides: list[Measured]) -> dict[str, Any]:
    frame, people = sides[0].frame, len(sides[0].frame)
    tables = []
    for table in shown["tables"]:
        masks = [
            np.logical_and.reduce(
                [
                    world.members(frame, name, value)
                    for name, value in zip(table["features"], group["values"], strict=True)
                ]
            )
            for group in table["groups"]
        ]
        small = [bool(mask.sum() < 0.02 * people) for mask in masks]
        answer = world.people.classes.index(table["answer"])
        listed = [{"rows": int(mask.sum()), "small": few} for mask, few in zip(masks, small, strict=True)]
        expected: dict[str, Any] = {"groups": listed, "groups_left_out": 0, "flagged_after": None}
        for when, side in zip(("before", "after"), sides, strict=False):
            figures = selection(side.decision == answer, masks, small)
            for group, entry in zip(listed, figures, strict=True):
                group[when] = entry
            expected[f"flagged_{when}"] = sum(entry["flagged"] for entry in figures)
        # Everyone is in one of the groups shown, so none is left out.
        expected["groups_left_out"] = 0 if sum(group["rows"] for group in listed) == people else None
        tables.append(expected)
    each_class = len(world.people.classes) if sides[0].several else 1
    every = (2 ** len(world.people.protected) - 1) * each_class
    return {
        "rows": people, "limit": 0.8, "small": 0.02, "tables": tables, "tables_left_out": every - len(tables),
    }  # fmt: skip


def nearest_pairs(world: World, shown: dict[str, Any], before: Measured, after: Measured | None) -> dict[str, Any]:
    """Return the scores and predictions of each pair, if no other counterfactual is nearer, or as near and worse."""
    combinations, listed = world.combinations(), []
    own_values = before.frame[list(world.people.protected)]
    changed = np.stack([(own_values != pd.Series(each)).sum(axis=1).to_numpy() for each in combinations])
    mine, theirs = before.of_own_class(before.own), before.of_own_class(before.each)
    other = before.decisions != before.decision
    fewest = np.where(other, changed, np.inf).min(axis=0)
    gap = np.abs(theirs - mine)
    widest = np.where(other & (changed == fewest), gap, -1).max(axis=0)
    for entry in shown["rows"]:
        person = entry["row"] - FIRST_ROW
        values = {
            name: (other_value if other_value is not None else value)
            for name, value, other_value in zip(shown["columns"], entry["values"], entry["others"], strict=True)
        }
        where, row = world.place(values), before.frame.iloc[person]
        nearest = changed[where, person] == fewest[person] and gap[where, person] > widest[person] - NEAR
        found: dict[str, Any] = {
            "row": entry["row"] if before.unequal[person] and nearest else None,
            "id": row[world.id_column] if world.id_column else None,
            "values": [world.text(name, row[name]) for name in shown["columns"]],
        }
        for when, side in (("", before), ("_after", after)):
            found |= {f"answers{when}": None, f"scores{when}": None}
            if side is not None:
                both = side.of_own_class(side.own)[person], side.of_own_class(side.each)[where, person]
                found[f"answers{when}"] = [int(side.decision[person]), int(side.decisions[where, person])]
                found[f"scores{when}"] = list(both)
        listed.append(found)
    kept = min(1000, int(before.unequal.sum()))
    largest = np.sort(widest[before.unequal])[::-1][:kept]
    shown_gaps = np.array([abs(entry["scores"][0] - entry["scores"][1]) for entry in shown["rows"]])
    in_order = len(largest) == len(shown_gaps) and np.allclose(largest, shown_gaps, atol=2 * NEAR)
    return {
        "total": int(before.unequal.sum()) if in_order else None, "varying": len(world.people.protected),
        "columns_left_out": 0, "rows": listed, "id_column": world.id_column, "first_row": FIRST_ROW,
    }  # fmt: skip


def effects(world: World, sides: list[Measured]) -> list[list[dict[str, Any]]]:
    """Return for each model what each value of each protected feature adds, compared with the person's mean.

    They are about the positive one of two classes, or about that of several on which the first model's values differ
    most. Of many numbers, the values are five quantiles of the people's own.
    """
    found: list[list[dict[str, Any]]] = [[] for _ in sides]
    for name in world.people.protected:
        own = sides[0].frame[name]
        values = sorted(own.dropna().unique() if name in world.people.numbers else world.people.frame[name].unique())
        if name in world.people.numbers and len(values) > FEW_VALUES:
            # The least value that so many have or are below, without rounding errors of a share.
            values = sorted(
                own.sort_values().iloc[[-(-len(own) * tenths // 10) - 1 for tenths in (1, 3, 5, 7, 9)]].unique()
            )
        frames = [sides[0].frame.assign(**{name: value}) for value in values]
        scores = [[world.run(side.model, frame) for frame in frames] for side in sides]  # (people[, classes]) of each
        number = 1
        if sides[0].several:
            number = int(np.ptp([each.mean(axis=0) for each in scores[0]], axis=0).argmax())
        for entries, side, of_side in zip(found, sides, scores, strict=True):
            of_class = [each[:, number] if side.several else each for each in of_side]
            on_score = mean_effects(of_class)
            on_decision = mean_effects([(side.decide(each) == number).astype(float) for each in of_side])
            listed = [
                {"value": world.shown(name, value), "rows": int((own == value).sum()), "score": score,
                 "decision": decision, "direction": direction(side, decision, score)}
                for value, score, decision in zip(values, on_score, on_decision, strict=True)
            ]  # fmt: skip
            entries.append(
                {"feature": name, "linked": [], "answer": world.people.classes[number], "rows": len(own),
                 "values": listed, "values_left_out": 0}
            )  # fmt: skip
    return found


def mean_effects(outcomes: list[np.ndarray]) -> list[dict[str, float]]:
    """Return the mean over people of each outcome less the person's mean, with its 95 % interval."""
    table = pd.DataFrame(np.column_stack(outcomes))
    own = table.sub(table.mean(axis=1), axis=0)
    mean, error = own.mean(), 1.96 * own.sem()
    return pd.DataFrame({"mean": mean, "low": mean - error, "high": mean + error}).to_dict("records")


def direction(side: Measured, *effects: dict[str, float]) -> str:
    """Return who gains and who loses, by the first effect whose interval does not contain 0.

    None of several classes is favourable in these tables, so that an effect on one is higher or lower.
    """
    up, down = ("higher", "lower") if side.several else ("gains", "loses")
    clear = (e for e in effects if abs(e["mean"]) > ROUNDED_EFFECT and e["low"] * e["high"] > 0)
    first = next(clear, None)
    return "neither" if first is None else up if first["mean"] > 0 else down


def flips(world: World, before: Measured) -> dict[str, Any]:
    """Return how many people get another prediction if one protected feature changes by itself."""
    own = before.frame[list(world.people.protected)]
    changed = np.stack([(own != pd.Series(each)).to_numpy() for each in world.combinations()])
    other = before.decisions != before.decision
    alone = {
        name: (other & changed[:, :, place] & (changed.sum(axis=2) == 1)).any(axis=0)
        for place, name in enumerate(world.people.protected)
    }
    together = before.unequal & ~np.logical_or.reduce(list(alone.values()))
    return {
        "looked_at": int(before.unequal.sum()), "alone": {name: int(who.sum()) for name, who in alone.items()},
        "together": int(together.sum()),
    }  # fmt: skip


def ranges(shown: dict[str, Any], sides: list[Measured]) -> dict[str, Any]:
    """Return the scores of the people in the chart: evenly spaced in the order of their scores before."""
    columns = []
    for side in sides:
        own, each = side.of_own_class(side.own), side.of_own_class(side.each)
        if side.several:  # of the class that this model predicts for the person
            each = np.concatenate([each, own[None]])
        low, high = each.min(axis=0), each.max(axis=0)
        columns.append({"own": own, "seen_low": low, "seen_high": high, "low": low, "high": high})
    order = np.sort(columns[0]["own"])
    places = np.unique(np.linspace(0, len(order) - 1, min(MOST_RANGES, len(order))).round().astype(int))
    expected: dict[str, Any] = {"total": len(order), "before": [], "after": []}
    for number, place in enumerate(places):
        entries = [shown[when][number] for when in ("before", "after")[: len(sides)]]
        distance = sum(
            np.abs(values - entry[name])
            for entry, column in zip(entries, columns, strict=True)
            for name, values in column.items()
        )
        candidates = np.abs(columns[0]["own"] - order[place]) <= NEAR
        person = int(np.where(candidates, distance, np.inf).argmin())
        for when, side, column in zip(("before", "after"), sides, columns, strict=False):
            state = "two" if side.unequal[person] else "one"
            expected[when].append({name: values[person] for name, values in column.items()} | {"state": state})
    return expected


def what_if(world: World, shown: dict[str, Any], data: pd.DataFrame, models: list[Path]) -> dict[str, Any]:
    """Return the features, the people to start from, and the sizes of the networks that the page carries."""
    scales = world.encode.scales()
    features = []
    for feature in shown["features"]:
        name = feature["name"]
        if name in world.people.numbers:
            known = data[name].dropna()
            mean, std, median = scales[name]
            # `spec init` fits these to the scores, so that they are right up to rounding.
            near = {"offset": Approximately(mean), "factor": Approximately(std)}
            missing = Approximately(median) if data[name].isna().any() else None
            features.append({"low": known.min(), "high": known.max(), **near, "missing": missing})
        else:
            categories = sorted(str(value) for value in data[name].dropna().unique())
            common = data[name].dropna().astype(str).mode()[0]
            missing = categories.index(common) if data[name].isna().any() else None
            features.append({"low": 0, "high": len(categories) - 1, "offset": 0, "factor": 1, "missing": missing})
        features[-1] |= {"reach": 0, "dropped": None, "marks": None}
    people = []
    for person in shown["people"]:
        row = data.iloc[int(person["name"].split()[1].strip(",")) - FIRST_ROW]
        values = []
        for feature, entry in zip(shown["features"], features, strict=True):
            value = row[feature["name"]]
            if pd.isna(value):
                values.append(entry["missing"])
            elif feature["name"] in world.people.numbers:
                values.append(Approximately(float(value), 1e-6))
            else:
                values.append(sorted(str(v) for v in data[feature["name"]].dropna().unique()).index(str(value)))
        people.append({"values": values})
    found: dict[str, Any] = {"features": features, "people": people, "threshold": None}
    if world.outputs == 1:
        found["threshold"] = 0.5
    for when, model in zip(("before", "after"), models, strict=False):
        found[when] = carried(shown[when], affine_layers(world.framework, model))
    return found


def carried(shown: dict[str, Any], layers: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """Return the sources of a network's steps, one after the other, and shapes of tensors as in the model's layers."""
    affine = [step for step in shown["steps"] if step["kind"] == "affine"]
    steps = [{"sources": [number - 1] if number else []} for number in range(len(shown["steps"]))]
    steps[0] |= {"columns": layers[0][0].shape[1]}
    tensors = {}
    for step, (weight, bias) in zip(affine, layers, strict=True):
        tensors |= {step["weight"]: {"shape": list(weight.shape)}, step["bias"]: {"shape": list(bias.shape)}}
    return {"steps": steps, "tensors": tensors}


@dataclass(frozen=True)
class Approximately:
    """A number, up to a relative error."""

    value: float
    relative: float = 1e-3

    def __eq__(self, other: object) -> bool:
        number = isinstance(other, int | float)
        return number and abs(other - self.value) <= self.relative * max(1.0, abs(self.value))


def weights(world: World, shown: dict[str, Any], models: list[Path]) -> dict[str, Any]:
    """Return the changes of weights, from the model files as the frameworks read them, with norms folded in."""
    before, after = (affine_layers(world.framework, model) for model in models)
    layers = []
    for (old, old_bias), (new, new_bias) in zip(before, after, strict=True):
        was, now = np.append(old.ravel(), old_bias), np.append(new.ravel(), new_bias)
        distance = np.abs(now - was)
        layers.append(
            {"inputs": old.shape[1], "outputs": old.shape[0], "changed": int((was != now).sum()), "total": was.size,
             "l1": Approximately(distance.sum()), "largest": Approximately(distance.max())}
        )  # fmt: skip
    columns = [np.abs(side[0][0]).sum(axis=0) for side in (before, after)]
    heads = [np.column_stack(side[-1]).ravel() for side in (before, after)]
    head_names = [
        f"{f'class {number}, ' if world.outputs > 1 else ''}{what}"
        for number in range(world.outputs)
        for what in (*(f"unit {unit + 1}" for unit in range(before[-1][0].shape[1])), "bias")
    ]
    names = {"columns": [entry["name"] for entry in shown["columns"]], "head": head_names}
    found: dict[str, Any] = {"layers": layers}
    for part, sides in (("columns", columns), ("head", heads)):
        by_name = dict(zip(names[part], zip(*sides, strict=True), strict=True))
        found[part] = [_weight(by_name[entry["name"]]) for entry in shown[part]]
        found[f"{part}_left_out"] = len(by_name) - len(shown[part])
    return found


def _weight(sides: tuple[float, float]) -> dict[str, Any]:
    before, after = (Approximately(value, 1e-4) for value in sides)
    return {"before": before, "after": after}


def carried_scores(network: dict[str, Any], X: np.ndarray) -> np.ndarray:
    """Run a network that the page carries, in NumPy; return probabilities."""
    values = X.astype(np.float64)
    for step in network["steps"][1:]:
        if step["kind"] == "function":
            assert step["name"] == "relu", step["name"]
            values = np.maximum(values, 0)
            continue
        assert step["kind"] == "affine", step["kind"]
        tensors = [network["tensors"][step[name]] for name in ("weight", "bias")]
        weight, bias = (np.frombuffer(base64.b64decode(t["values"]), "<f4").reshape(t["shape"]) for t in tensors)
        values = values @ weight.T.astype(np.float64) + bias
    if values.shape[1] == 1:
        return 1 / (1 + np.exp(-values[:, 0]))
    shares = np.exp(values - values.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


# Whole documents


def expected_document(world: World, shown: dict[str, Any], frames: dict[str, pd.DataFrame], models: list[Path]) -> Any:
    """Return the figures of a result, by the places in result.json; `models` are that before, and that after."""
    files = [{"sha256": _digest(world, file)} for file in shown["origin"]["files"]]
    common = {
        "version": 2,
        "threshold": 0.5,
        "score_range": [0.0, 1.0],
        "origin": {"seed": 0, "files": files},
        "class_names": world.people.classes,
        "out_of_range": {"rows": 0},
    }
    of_kind = expected_audit if len(models) == 1 else expected_repair
    return {**common, **of_kind(world, shown, frames, *models), "page": page(world, shown["page"], frames, models)}


def page(world: World, shown: dict[str, Any], frames: dict[str, pd.DataFrame], models: list[Path]) -> dict[str, Any]:
    """Return the figures that only the page shows; its chart of scores is about the repair inputs if there are any."""
    on_data = [world.measured(model, "data", frames["data"]) for model in models]
    in_chart = "data" if len(models) == 1 else "repair"
    return {
        "looked_at": len(frames["data"]),
        "ranges": ranges(shown["ranges"], [world.measured(model, in_chart, frames[in_chart]) for model in models]),
        "flips": flips(world, on_data[0]),
        "pairs": nearest_pairs(world, shown["pairs"], on_data[0], on_data[1] if len(models) > 1 else None),
        "what_if": what_if(world, shown["what_if"], frames["data"], models),
    }


def expected_audit(world: World, shown: dict[str, Any], frames: dict[str, pd.DataFrame], model: Path) -> dict[str, Any]:
    measured = world.measured(model, "data", frames["data"])
    return {
        **unequal(measured), "interval": None, "unknown": 0, "exact_seconds": None, "scores": None,
        "disparity": disparity(world, shown["disparity"], measured, measured.spread.max()),
        "labelled_rows": int(frames["data"][world.people.label].notna().sum()), "utility": utility(world, measured),
        "groups": groups(world, shown["groups"], measured, unfair=True), "mean_outputs": [],
        "outcomes": outcomes(world, shown["outcomes"], [measured]),
        "pairs": worst_pairs(world, shown["pairs"], measured), "effects": effects(world, [measured])[0],
    }  # fmt: skip


def expected_repair(
    world: World, shown: dict[str, Any], frames: dict[str, pd.DataFrame], *models: Path
) -> dict[str, Any]:
    data, people, inputs = frames["data"], len(frames["data"]), len(frames["repair"])
    before, after = (world.measured(model, "data", data) for model in models)
    tested = [world.measured(model, "test", frames["test"]) for model in models]
    by_value = effects(world, tested)
    end = max(before.spread.max(), after.spread.max())
    changes = weights(world, shown["weights"], models)
    used, calibration = set(shown["repair_rows"]), shown["calibration_rows"]
    calibrated = world.measured(models[0], "calibration", data.iloc[np.array(calibration) - FIRST_ROW])
    original = utility(world, calibrated)
    regions = 0 if shown["everyone"] else inputs
    found: dict[str, Any] = {
        "repair_inputs": inputs, "proven_repair_inputs": inputs, "data_rows": people,
        "certificate": {"inputs": regions, "check": {"regions": regions, "boxes": 0}},
        "repair_rows": _rows_of_inputs(world, shown["repair_rows"]),
        "calibration_rows": [row if row not in used else None for row in calibration],
        "unlabelled_rows": people - inputs - len(set(calibration)), "scored_rows": len(frames["test"]),
        "outcomes": outcomes(world, shown["outcomes"], tested),
        "changed_predictions": (before.decision != after.decision).mean(),
        "changed_weights": sum(layer["changed"] for layer in changes["layers"]),
        "total_weights": sum(layer["total"] for layer in changes["layers"]),
        "classes": world.measured(models[1], "repair", frames["repair"]).decision.tolist(),
        "weights": changes,
        "policy": {f"original_{name}": original[name] for name in ("accuracy", "balanced_accuracy")},
    }  # fmt: skip
    for when, model, on_data, on_test, effect in zip(
        ("before", "after"), models, (before, after), tested, by_value, strict=True
    ):
        found[when] = {
            "repair_inputs": unequal(world.measured(model, "repair", frames["repair"])), "data": unequal(on_data),
            "scores": None, "largest_difference": None,
            "disparity": disparity(world, shown[when]["disparity"], on_data, end), "utility": utility(world, on_test),
            "groups": groups(world, shown[when]["groups"], on_test, unfair=False), "mean_outputs": [],
            "effects": effect,
        }  # fmt: skip
    return found


def _rows_of_inputs(world: World, shown: list[int]) -> list[int | None]:
    """Return the rows if the data has the repair inputs there."""
    data, inputs = (
        (world.folder / name).read_text(encoding="utf-8").splitlines()
        for name in ("people.csv", "repaired/repair_inputs.csv")
    )
    return [row if data[row - 1] == line else None for row, line in zip(shown, inputs[1:], strict=True)]


def _digest(world: World, file: dict[str, str]) -> str:
    folder = world.folder / "repaired" if file["role"] in ("repaired model", "certificate") else world.folder
    return sha256((folder / file["name"]).read_bytes()).hexdigest()


# Comparison


@dataclass
class Tally:
    """How many figures were compared, which differ, and which cannot be recomputed (by name, and how many)."""

    compared: int
    different: list[str]
    unknown: dict[str, int]


def compare(shown: Any, expected: Any, name: str, tally: Tally) -> None:
    """Walk through all figures of a document and compare each with the one that was recomputed."""
    if isinstance(shown, dict) and (isinstance(expected, dict) or expected is _UNKNOWN):
        missing = sorted(set(expected) - set(shown)) if isinstance(expected, dict) else []
        tally.different += [f"{name}: {key} is missing" for key in missing]
        for key, value in shown.items():
            inner = expected.get(key, _UNKNOWN) if isinstance(expected, dict) else _UNKNOWN
            compare(value, inner, f"{name}.{key}" if name else key, tally)
        return
    if isinstance(shown, list) and not isinstance(expected, Between | OneOf) and expected is not None:
        known = [] if expected is _UNKNOWN else list(expected)
        if expected is not _UNKNOWN and len(known) != len(shown):
            tally.different.append(f"{name}: {len(shown)} entries, recomputed {len(known)}")
        for number, value in enumerate(shown):
            compare(value, known[number] if number < len(known) else _UNKNOWN, f"{name}[]", tally)
        return
    figure = isinstance(shown, int | float) and not isinstance(shown, bool)
    if expected is _UNKNOWN:
        if figure:
            tally.unknown[name] = tally.unknown.get(name, 0) + 1
        return
    tally.compared += 1
    if not _same(shown, expected):
        tally.different.append(f"{name}: fairmend says {shown}, recomputed {expected}")


_UNKNOWN = object()


def _same(shown: Any, expected: Any) -> bool:
    if isinstance(expected, Between):
        return isinstance(shown, int | float) and expected.low - 1e-12 <= shown <= expected.high + 1e-12
    if isinstance(expected, OneOf):
        return any(_same(shown, value) for value in expected.values)
    if isinstance(expected, Approximately | Exactly | ImputedText):
        return expected == shown
    if shown is None or expected is None or isinstance(expected, str | bool | np.bool_):
        return bool(shown == expected)
    if isinstance(shown, dict | list):
        return False
    if isinstance(expected, int | np.integer):
        return bool(shown == expected)
    return bool(abs(shown - expected) <= NEAR * max(1.0, abs(expected)))

"""Search the encoding with which a network reproduces the scores that the model gave.

The common encodings of libraries come first, then fitted scales, then soft orders, which find any order of the columns,
and last a descent by small changes. Some rows guide the search; an encoding counts only if it reproduces the scores of
all rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from fairmend.base.arrays import Floats
from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.base.text import count
from fairmend.evaluate.encoding.candidates import Column, State, Style, build, columns_of, common_styles, related_styles
from fairmend.evaluate.encoding.fit import LEFT_OPEN, fit_scales
from fairmend.evaluate.encoding.given import ScoreMatch, match_scores
from fairmend.evaluate.encoding.moves import Distance, Move, all_moves, descend
from fairmend.evaluate.encoding.soft_order import soft_order
from fairmend.evaluate.encoding.tables import fits_tables, mark_spare_rows, place_in_tables, tables_of
from fairmend.network import Network
from fairmend.spec.draft.draft import Draft, DraftFeature

_MOST_OTHERS = 5
_MOST_SHOWN = 8  # readings in an error message
_RANGE = "range: the lowest and highest value in the data; widen it to all possible values"


_GUIDING_ROWS = 64  # that rank encodings; rows with rare categories and missing values are added
_MOST_GUIDING_ROWS = 160
_FITTING_ROWS = 600  # that scales are fitted to
_CHECKED_ROWS = 2_000  # that an encoding is tried on before all rows
_REFINED = 24  # common styles whose finer choices are tried
_VERIFIED = 12  # nearest states that are compared with the scores themselves
_FITTED = 6  # states whose scales are fitted
_MOST_STARTS = 400  # states from which other orders are searched
_KINDS = 60  # of encodings, whose order is searched
_IMPROVED = 8  # states from which all small changes are tried
_ROUNDS = 3  # of all moves and fitted scales
_NEAR = 1e-6  # the distance of a state that may reproduce the scores
_FAR = 0.3  # the distance, in the search, beyond which fitting scales is hopeless
_SECONDS = 8.0  # of processor time, after which no other order is tried: then the user has to say more
_SOFT_ROWS = 800  # that soft orders are fitted to; more of wide networks
_SOFT_STARTS = 8  # of each kind of encoding
_MOST_SOFT = 80  # starts of all other kinds
_DIFFERENT = 0.01  # a difference of encoded values that is more than rounding or a sample's degrees of freedom


@dataclass(frozen=True, eq=False)
class FoundEncoding:
    """The encoding that comes nearest to the scores.

    Attributes
    ----------
    state : the readings of the columns, in the order of the network's inputs
    match : how the network compares with the scores, over all rows
    others : other encodings that reproduce the scores as well, in words
    tried : how many encodings were tried
    """

    state: State
    match: ScoreMatch
    others: tuple[str, ...]
    tried: int


def search_encoding(
    columns: Sequence[Column],
    frame: pd.DataFrame,
    net: Network,
    given: Floats,
    *,
    regression: bool = False,
    fixed_order: bool = False,
    progress: Progress = lambda stage, done, total: None,
) -> FoundEncoding:
    """Return the encoding of the columns that comes nearest to the given scores (rows, 1 or classes).

    With ``fixed_order``, the network reads the columns in the given order. ``progress`` gets the stage
    and how far it is.
    """
    search = _Search(columns, frame, net, given, regression=regression, fixed_order=fixed_order, progress=progress)
    state, verified = search.run()
    match = _match_all(state, search, frame, given)
    others: list[str] = []
    if match.verified:
        others = [_difference(state, other) for other in verified[1:] if search._differs(state, other)]
        others += search.changes(state)
    return FoundEncoding(state, match, tuple(dict.fromkeys(others)), search.tried)


def draft_from_scores(
    draft: Draft,
    frame: pd.DataFrame,
    net: Network,
    given: Floats,
    *,
    scales: Mapping[str, Mapping[str, float]] | None = None,
    codes: bool = True,
    fixed_order: bool = False,
    first_row: int = 0,
    progress: Progress = lambda stage, done, total: None,
) -> tuple[Draft, ScoreMatch]:
    """Return the draft with the encoding and order that reproduce the given scores; raise an error if none is found.

    ``codes`` says whether whole numbers may be codes of categories; with ``fixed_order``, the order is known. Error
    messages count rows from ``first_row``.
    """
    ids = [name for name, reason in draft.left_out if "look like ids" in reason and not fixed_order]
    columns = columns_of(draft, frame, scales=scales, codes=codes, optional=ids)
    found = search_encoding(
        columns, frame, net, given, regression=draft.claim.on == "output", fixed_order=fixed_order, progress=progress
    )
    if not found.match.verified:
        match = replace(found.match, differing=found.match.differing + first_row)
        raise FairmendError(
            f"none of {count(found.tried)} encodings reproduces the scores. The nearest, {_shown(found)}, is "
            f"{match}. Check that this model gave the scores for these rows, in this order. Leave out the columns that "
            "the model does not read with --drop; name the columns in the order in which the model reads them with "
            "--order, and --categorical or --scaler; or pass the matrix that the model read with --encoded, which "
            "takes no search."
        )
    before = {drafted.feature.name: drafted for drafted in draft.features}
    features = []
    for reading in found.state:
        notes = before[reading.feature.name].notes[:1] if reading.feature.name in before else ()
        notes += () if reading.feature.categories or reading.feature.indicates else (_RANGE,)
        features.append(DraftFeature(reading.feature, (*notes, f"read as: {reading.words}; verified with scores")))
    used = {drafted.feature.name for drafted in features}
    review = [line for line in draft.review if line.startswith("claim")]
    if found.others:
        more = f" and {len(found.others) - _MOST_OTHERS} others" if len(found.others) > _MOST_OTHERS else ""
        review.append(
            f"These rows do not tell this encoding from others that reproduce the scores as well: "
            f"{'; '.join(found.others[:_MOST_OTHERS])}{more}. Give the scores of more rows."
        )
    left_open = [reading.feature.name for reading in found.state if LEFT_OPEN in reading.style]
    if left_open:
        names = ", ".join(left_open[:_MOST_SHOWN]) + (", …" if len(left_open) > _MOST_SHOWN else "")
        review.append(
            f"The scores leave the scales of {count(len(left_open))} columns open ({names}): others give this network "
            "the same scores, but a repaired one, whose weights differ, other scores. Pass the scaler of the model "
            "(--scaler), or the matrix that it read (--encoded)."
        )
    left_out = tuple((name, reason) for name, reason in draft.left_out if name not in used)
    several = bool(found.others or left_open)
    made = replace(draft, features=tuple(features), review=tuple(review), left_out=left_out, several=several)
    return mark_spare_rows(made, tables_of(net)), found.match


def _shown(found: FoundEncoding) -> str:
    shown = [f"{reading.feature.name} ({reading.words})" for reading in found.state[:_MOST_SHOWN]]
    more = len(found.state) - _MOST_SHOWN
    return ", ".join(shown) + (f" and {more} others" if more > 0 else "")


class _Search:
    """The rows that guide a search, the rows that scales are fitted to, and the rows that an encoding is tried on."""

    def __init__(
        self,
        columns: Sequence[Column],
        frame: pd.DataFrame,
        net: Network,
        given: Floats,
        *,
        regression: bool,
        fixed_order: bool,
        progress: Progress,
    ) -> None:
        known = np.flatnonzero(np.isfinite(given).all(axis=1))
        self.columns, self.net, self.regression, self.fixed_order = columns, net, regression, fixed_order
        self._tables, self._started = tables_of(net), time.process_time()
        self.frame, self.given = frame.iloc[known].reset_index(drop=True), given[known]
        rng = np.random.default_rng(0)
        order = rng.permutation(len(known))
        self._guide = self._distance(_guiding_rows(self.frame, columns, order))
        self._fit_rows = np.union1d(order[:_FITTING_ROWS], _guiding_rows(self.frame, columns, order))
        self._check = self._distance(np.sort(order[:_CHECKED_ROWS]))
        self._check_given = self.given[np.sort(order[:_CHECKED_ROWS])]
        self._progress, self.tried = progress, 0

    def _distance(self, rows: np.ndarray) -> Distance:
        frame = self.frame.iloc[rows].reset_index(drop=True)
        possible = self._is_possible
        return Distance(self.net, frame, self.given[rows], regression=self.regression, possible=possible)

    def _is_possible(self, state: State) -> bool:
        return not self._tables or fits_tables(state, self._tables)

    @property
    def _late(self) -> bool:
        """Whether no other order is tried."""
        return time.process_time() - self._started > _SECONDS

    def run(self) -> tuple[State, list[State]]:
        """Return the nearest state, and all states that reproduce the scores of the checked rows."""
        ranked = self._rank(self._common())
        if not ranked:
            raise FairmendError(
                f"no common encoding of the data gives the {self.net.inputs} columns that the network reads. Drop the "
                "columns that it does not read (--drop), or name codes of categories (--categorical). Or pass the "
                "matrix that it read (--encoded); with --data-out, columns of it may be computed in any way."
            )
        starts = _starts(ranked, {column.name for column in self.columns if column.optional})
        finer = [
            (style, made)
            for _, _, origin in ranked[:_REFINED]
            for style in related_styles(origin, self.columns)
            if (made := self._build(style)) is not None and _width(made) == self.net.inputs
        ]
        ranked = self._rank([*finer, *((style, state) for _, state, style in ranked)])
        best = [state for _, state, _ in ranked[:_VERIFIED]]
        verified = [state for state in best if self.matches(state)]
        if verified:
            return verified[0], verified
        fitted = self._fit(ranked, starts)
        if fitted is not None:
            return fitted, [fitted]
        if not self.fixed_order and not self._tables:
            ordered = self._soft(starts)
            if ordered is not None:
                return ordered, [ordered]
        if self._late:
            return best[0], []
        return self._descend(starts)

    def _soft(self, starts: list[State]) -> State | None:
        """Return a state in another order that reproduces the scores, from soft orders; None if none does."""
        kinds = sorted(starts[:_KINDS], key=_rarity)
        rows = min(len(self.frame), max(_SOFT_ROWS, 10 * self.net.inputs))
        distance = self._distance(np.sort(np.random.default_rng(1).permutation(len(self.frame))[:rows]))
        kinds = list({_kind(state): state for state in reversed(kinds)}.values())[::-1]  # the first of each
        # The commonest kind comes first, and again when every kind has had its turns.
        others = [(place, seed) for seed in range(_SOFT_STARTS) for place in range(1, len(kinds))]
        commonest = [(0, seed) for seed in range(2 * _SOFT_STARTS)]
        turns = [*commonest[:_SOFT_STARTS], *others[:_MOST_SOFT], *commonest[_SOFT_STARTS:]]
        for number, (place, seed) in enumerate(turns):
            if self._late:
                return None
            self._progress("search the order of the columns", number, len(turns))
            state = soft_order(kinds[place], distance, seed)
            self.tried += state is not None
            for made in () if state is None else (state, self._fitted(state)):
                if made is not None and self.matches(made):
                    return made
        return None

    def _descend(self, starts: list[State]) -> tuple[State, list[State]]:
        """Return the nearest state that a descent reaches, and the one that reproduces the scores, if it does."""
        nearest: list[tuple[float, State]] = []
        for number, state in enumerate(starts[:_IMPROVED]):
            if self._late and nearest:
                break
            self._progress("improve the nearest encodings", number, _IMPROVED)
            for made in self._improved(state):
                nearest.append((float(self._guide.of([made])[0]), made))
                if self.matches(made):
                    return made, [made]
        return min(nearest, key=lambda pair: pair[0])[1], []

    def _improved(self, state: State) -> Iterator[State]:
        """Yield better and better states: with fitted scales, after all moves, and with fitted scales again."""
        for _ in range(_ROUNDS):
            fitted = self._fitted(state)
            if fitted is not None:
                yield fitted
            before = float(self._guide.of([state])[0])
            state, error = descend(state, self._moves, self._guide)
            yield state
            if error >= before:
                break
        fitted = self._fitted(state)
        if fitted is not None:
            yield fitted

    def _moves(self, state: State) -> list[Move]:
        return all_moves(state, self.columns, fixed_order=self.fixed_order)

    def _common(self) -> Iterator[tuple[Style, State]]:
        seen: set[tuple[object, ...]] = set()
        for style in common_styles(self.columns, self.net.inputs, fixed_order=self.fixed_order):
            state = self._build(style)
            if state is None or _width(state) != self.net.inputs:
                continue
            key = tuple(id(reading) for reading in state) if not style.indicators and not self._tables else (style,)
            if key not in seen:
                seen.add(key)
                yield style, state

    def _build(self, style: Style) -> State | None:
        state = build(self.columns, style)
        if state is None or not self._tables:
            return state
        order, missing = style.order, style.missing
        return place_in_tables(
            state, self.columns, self._tables, fixed_order=self.fixed_order, order=order, missing=missing
        )

    def _rank(
        self, states: Iterator[tuple[Style, State]] | list[tuple[Style, State]]
    ) -> list[tuple[float, State, Style]]:
        """Return the states by their distance, the nearest first."""
        listed = list(states)
        found = self._guide.of([state for _, state in listed]) if listed else np.zeros(0)
        self.tried += len(listed)
        order = np.argsort(found, kind="stable")
        return [(float(found[place]), listed[place][1], listed[place][0]) for place in order]

    def _fit(self, ranked: list[tuple[float, State, Style]], starts: list[State]) -> State | None:
        """Return a common state that reproduces the scores once its scales are fitted; None if there is none."""
        near = [state for error, state, _ in ranked[:_FITTED] if error < _FAR]
        near += [state for state in starts[:_FITTED] if state not in near and self._guide.of([state])[0] < _FAR]
        for state in near:
            made = self._fitted(state)
            if made is not None and self.matches(made):
                return made
        return None

    def _fitted(self, state: State) -> State | None:
        rows = self.frame.iloc[self._fit_rows].reset_index(drop=True)
        self.tried += 1
        return fit_scales(state, self._distance(self._fit_rows), rows, self._tables)

    def matches(self, state: State) -> bool:
        """Return whether a state reproduces the scores of the checked rows."""
        if not self._is_possible(state):
            return False
        X = self._check.encode(state)
        return match_scores(self.net, X, self._check_given, regression=self.regression).verified

    def changes(self, state: State) -> list[str]:
        """Return the small changes of a state, in words, that reproduce the scores although they encode otherwise."""
        states = [(move.words, made) for move in self._moves(state) if (made := move.apply(state)) is not None]
        self.tried += len(states)
        found = self._guide.of([made for _, made in states]) if states else np.zeros(0)
        near = [states[place] for place in np.flatnonzero(found < _NEAR)]
        return [words for words, made in near if self._differs(state, made) and self.matches(made)]

    def _differs(self, state: State, other: State) -> bool:
        """Return whether two states differ in more than rounding, in columns that the network reads."""
        weights = self._first_weights()
        change = self._check.encode(other) - self._check.encode(state)
        if np.abs(change).max() > _DIFFERENT:
            return bool(np.abs(change @ weights.T).max() > _NEAR)
        if [r.feature.name for r in other] == [r.feature.name for r in state]:
            return False
        # The columns hold the same values in these rows, but the network reads them elsewhere.
        ours, theirs = _places(state), _places(other)
        return any(not np.array_equal(weights[:, ours[name]], weights[:, theirs[name]]) for name in ours)

    def _first_weights(self) -> Floats:
        """Return weights (units, inputs) that tell columns apart: those of a chain's first layer, else 1 or 0."""
        if self.net.is_chain:
            return self.net.affines[0].weight.astype(np.float64)
        return np.diag(self.net.read_columns.astype(np.float64))


def changes_that_verify(
    state: State,
    columns: Sequence[Column],
    frame: pd.DataFrame,
    net: Network,
    given: Floats,
    *,
    regression: bool = False,
) -> list[str]:
    """Return the small changes of a wrong encoding, in words, each of which reproduces the given scores."""
    search = _Search(
        columns, frame, net, given, regression=regression, fixed_order=False, progress=lambda stage, done, total: None
    )
    return search.changes(state)


def _match_all(state: State, search: _Search, frame: pd.DataFrame, given: Floats) -> ScoreMatch:
    known = np.flatnonzero(np.isfinite(given).all(axis=1))
    whole = Distance(search.net, search.frame, search.given, regression=search.regression)
    match = match_scores(search.net, whole.encode(state), search.given, regression=search.regression)
    return replace(match, differing=known[match.differing])


def _kind(state: State) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return how the columns are read, without their order."""
    return tuple(sorted((reading.feature.name, reading.style) for reading in state))


def _rarity(state: State) -> int:
    """Return 0 for the commonest kinds of encodings: scaled numbers and one-hot categories."""
    styles = {reading.style[0] for reading in state}
    scales = ("standard", "as given", "min-max", "none")
    scale = next((place for place, name in enumerate(scales) if name in styles), len(scales))
    return scale + sum(name in styles for name in ("ordinal, standard", "ordinal, min-max", "drop last"))


def _width(state: State) -> int:
    return sum(reading.feature.width for reading in state)


def _places(state: State) -> dict[str, list[int]]:
    found, start = {}, 0
    for reading in state:
        found[reading.feature.name] = list(range(start, start + reading.feature.width))
        start += reading.feature.width
    return found


def _difference(state: State, other: State) -> str:
    """Return how another state differs, in words."""
    ours, theirs = ({r.feature.name: r for r in readings} for readings in (state, other))
    changed = [
        f'"{name}" read as {reading.words}'
        for name, reading in theirs.items()
        if name not in ours or ours[name].feature != reading.feature
    ]
    if list(ours) != list(theirs):
        changed.append("the columns in the order " + ", ".join(theirs))
    return "; ".join(changed)


def _starts(ranked: list[tuple[float, State, Style]], optional: set[str]) -> list[State]:
    """Return states from which to descend: the nearest of each kind of encoding first, then their other orders.

    Columns that look like ids are left out, if the network reads enough columns without them.
    """
    ranked = [entry for entry in ranked if not optional & entry[2].changed] or ranked
    first: dict[tuple[object, ...], State] = {}
    for _, state, style in ranked:
        kind = (style.scale, style.two, style.more, style.missing, bool(style.indicators), style.changed)
        first.setdefault(kind, state)
    others = [state for _, state, _ in ranked if not any(state is known for known in first.values())]
    return [*first.values(), *others][:_MOST_STARTS]


def _guiding_rows(frame: pd.DataFrame, columns: Sequence[Column], order: np.ndarray) -> np.ndarray:
    """Return some rows, with rows of each category and with missing values among them."""
    rows = list(order[:_GUIDING_ROWS])
    for column in columns:
        if column.fixed is not None:
            continue
        raw = frame[column.name].iloc[order]
        if column.gap_share > 0:
            rows += list(order[raw.isna().to_numpy(bool)][:3])
        if column.categories:
            rows += list(order[~raw.duplicated().to_numpy(bool)][:12])
    return np.sort(np.array(list(dict.fromkeys(rows))[:_MOST_GUIDING_ROWS]))

"""Classes of people: those whom chains of similar people connect.

A network whose output depends on a person's class only treats similar people alike. Each feature has its part in the
class. A protected feature, or one with a tolerance, has none: chains connect all its values. One with bands has its
band. A linked feature has a number that is the same for all its values to which links lead, in both directions, given
the cells of the protected values on which they depend.

Linked features are taken one by one. Chains that move two of them at once may connect fewer people than this allows:
a class is then a union of such sets of people, never a part of one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING

import numpy as np

from fairmend.base.arrays import Bools, Ints
from fairmend.base.text import listed, printable
from fairmend.spec.describe import describe_bands
from fairmend.spec.features import Feature
from fairmend.spec.links import Link, Run, ends_of, find_runs, match_links

if TYPE_CHECKING:
    from fairmend.spec.spec import Spec

MOST_ENTRIES = 1_000_000
"""Of the table of a linked feature; a larger one is not computed, and the feature has no part in the class."""

_MOST_EDGES = 20_000_000  # of the graph whose components are the classes
_MOST_NAMED = 6  # classes of a feature in words

Bands = tuple[tuple[int, ...], ...] | tuple[float, ...]


@dataclass(frozen=True, eq=False)
class LinkedClasses:
    """The class of a linked feature, by the cells of protected values and its own value.

    Attributes
    ----------
    feature : the linked feature; its own values are numbered from 0, from the lowest number or the first category
    conditions : the protected features on whose values the class depends; empty if the own value alone decides
    cells : for each of them its cells, which hold all its values, or codes, as runs of consecutive ones
    table : int64 (cells of the first of ``conditions``, …, own values), the number of the class
    """

    feature: Feature
    conditions: tuple[Feature, ...]
    cells: tuple[tuple[tuple[Run, ...], ...], ...]
    table: Ints

    @property
    def when(self) -> tuple[str, ...]:
        """The names of the protected features on whose values the class depends."""
        return tuple(f.name for f in self.conditions)

    @property
    def count(self) -> int:
        """The number of classes."""
        return int(self.table.max()) + 1

    def members(self, number: int) -> list[tuple[tuple[int, ...], int]]:
        """Return who is in a class: the cell of each condition, and the number of the own value."""
        places = np.argwhere(self.table == number).tolist()
        return [(tuple(place[:-1]), place[-1]) for place in places]

    def words(self) -> list[str]:
        """Return a sentence for each class of several values: "Husband with sex Male and Wife with …"."""
        sentences = []
        for number in range(self.count):
            members = self.members(number)
            if len({value for _, value in members}) > 1:
                sentences.append(f"{listed(self._people(members), most=_MOST_NAMED)} are one class.")
        left = len(sentences) - _MOST_NAMED
        return sentences[:_MOST_NAMED] + ([f"{self.feature.name} has {left:,} more such classes."] if left > 0 else [])

    def _people(self, members: Sequence[tuple[tuple[int, ...], int]]) -> list[str]:
        """Return the members in words; consecutive numbers with the same cells are one of them."""
        runs: list[tuple[tuple[int, ...], int, int]] = []
        for cells, value in sorted(members):
            if runs and not self.feature.categories and runs[-1][0] == cells and runs[-1][2] == value - 1:
                runs[-1] = (cells, runs[-1][1], value)
            else:
                runs.append((cells, value, value))
        people = []
        for cells, first, last in runs:
            own = _shown(self.feature, first) if self.feature.categories else f"{self.feature.name} "
            if not self.feature.categories:
                own += _between(self.feature, *(int(self.feature.bounds[0]) + number for number in (first, last)))
            with_ = [
                f"{feature.name} {listed([_between(feature, *run) for run in self.cells[i][cell]], 'or', most=None)}"
                for i, (feature, cell) in enumerate(zip(self.conditions, cells, strict=True))
            ]
            people.append(own + (f" with {listed(with_, most=None)}" if with_ else ""))
        return people


@dataclass(frozen=True, eq=False)
class SimilarityClasses:
    """What of a person makes up the class.

    Attributes
    ----------
    free : the features that have no part in it: protected, with a tolerance, and ``swallowed``
    swallowed : linked features of which links connect all values, or which are continuous or have too many
    banded : the features that count by their band: the lower ends of a number, the codes of categories
    linked : the linked features whose class `LinkedClasses` tells
    """

    free: tuple[str, ...]
    swallowed: tuple[str, ...]
    banded: dict[str, Bands]
    linked: dict[str, LinkedClasses]
    _features: tuple[Feature, ...]

    def words(self) -> list[str]:
        """Return sentences that say who is in one class."""
        sentences = []
        protected = [f.name for f in self._features if f.protected]
        steps = [name for name in self.free if name not in protected and name not in self.swallowed]
        for names, why in (
            (protected, "protected"),
            (steps, "a tolerance connects all values, step by step"),
            (self.swallowed, "links connect all values"),
        ):
            if names:
                what = "does" if len(names) == 1 else "do"
                sentences.append(f"{listed(names, most=None)} {what} not count ({why}).")
        return [printable(sentence) for sentence in sentences] + [f"{each}." for each in self.kept_words()]

    def kept_words(self) -> list[str]:
        """Return what of the other features counts, in sentences without full stops: bands, and linked values."""
        words = [f"{f.name} counts in {describe_bands(f)}" for f in self._features if f.name in self.banded]
        for classes in self.linked.values():
            words += [sentence.removesuffix(".") for sentence in classes.words()]
        return [printable(each) for each in words]


def similarity_classes(spec: Spec) -> SimilarityClasses:
    """Return what of a person makes up the class."""
    free, swallowed, linked = [], [], {}
    for feature in spec.features:
        if feature in spec.linked:
            classes = _linked_classes(feature, spec)
            if classes is None:
                swallowed.append(feature.name)
            else:
                linked[feature.name] = classes
        elif feature.varies and feature.bands is None:
            free.append(feature.name)
    names = [f.name for f in spec.features if f.name in {*free, *swallowed}]
    banded: dict[str, Bands] = {f.name: f.groups or f.lower_ends for f in spec.banded}
    return SimilarityClasses(tuple(names), tuple(swallowed), banded, linked, spec.features)


@dataclass(frozen=True)
class _Cell:
    """Values of a protected feature that match the same links.

    Attributes
    ----------
    options : the sets of links that can apply to someone who gets such a value. Of a continuous feature, those of the
        values beside an end apply to the end as well: neighbourhoods are closed.
    several : whether someone with such a value can get another one of them, or the links of it
    """

    run: Run
    options: frozenset[frozenset[int]]
    several: bool


def _cells(feature: Feature, links: Sequence[Link]) -> list[_Cell]:
    """Return disjoint cells that cover the values of a protected feature."""
    points, matching = match_links(links, feature)
    if feature.kind != "continuous":
        spans = [(a, b - 1) for a, b in pairwise([*points, feature.bounds[1] + 1])]
        # Of two values, every move leads to the other: an even number of moves leads back. Of three, any number does.
        spans = [each for a, b in spans for each in ([(a, a), (b, b)] if b - a == 1 else [(a, b)])]
        return [_Cell((a, b), frozenset([matching(a, a)]), a < b) for a, b in spans]
    between = list(pairwise(points))
    cells = [_Cell(each, frozenset([matching(*each)]), True) for each in between]
    for point in points:
        beside = [matching(a, b) for a, b in between if a <= point <= b]
        cells.append(_Cell((point, point), frozenset([matching(point, point), *beside]), True))
    return cells


def _linked_classes(feature: Feature, spec: Spec) -> LinkedClasses | None:
    """Return the classes of a linked feature; None if there is only one, or if they are not told apart."""
    links = [link for link in spec.links if feature.name in link.then]
    if feature.kind == "continuous":
        return None
    when = [f for f in spec.features if any(f.name in link.when for link in links)]
    cells = [_cells(f, links) for f in when]
    values = int(feature.bounds[1] - feature.bounds[0]) + 1
    shape = (*map(len, cells), values)
    if math.prod(shape) > MOST_ENTRIES or math.prod(shape) * math.prod(shape[:-1]) > _MOST_EDGES:
        return None
    table = _components(_edges(feature, links, when, cells, shape), shape)
    return None if table.max() == 0 else _reduced(feature, when, cells, table)


def _edges(
    feature: Feature,
    links: Sequence[Link],
    when: Sequence[Feature],
    cells: Sequence[list[_Cell]],
    shape: tuple[int, ...],
) -> Iterator[tuple[Ints, Ints]]:
    """Yield pairs of entries of the table, as flat numbers, between which someone can move, or chains of them.

    Whoever moves to a combination of cells gets there what the link says that applies to it. It applies to those who
    differ in a feature of its ``when``: who come from another cell of it, or from a cell of several values.
    """
    places = np.indices(shape[:-1]).reshape(len(cells), -1)
    values = np.arange(shape[-1])
    several = [np.array([cell.several for cell in each]) for each in cells]
    for target, where in enumerate(zip(*places.tolist(), strict=True)):
        there = [cell[i].options for cell, i in zip(cells, where, strict=True)]
        for link in {_applying(links, when, options) for options in product(*there)}:
            same = np.ones(places.shape[1], np.bool_)  # who comes with the same cells of what the link depends on
            can_differ = np.zeros(places.shape[1], np.bool_)
            for axis, each in enumerate(when):
                if link is not None and each.name in links[link].when:
                    same &= places[axis] == where[axis]
                    can_differ |= several[axis][places[axis]]
            if link is None:
                yield _pairs(np.arange(places.shape[1]), values, target, values, shape)
                continue
            stay = np.flatnonzero(same)
            yield _pairs(stay, values, target, values, shape)
            come = np.flatnonzero(~same | can_differ)
            first, joined = _outcomes(feature, links[link])
            if len(come):
                yield _pairs(come, values, target, first, shape)
                for own, other in joined:
                    yield _pairs(np.array([target]), own, target, other, shape)


def _applying(links: Sequence[Link], when: Sequence[Feature], options: Sequence[frozenset[int]]) -> int | None:
    """Return the number of the link that applies to these cells; there is at most one."""
    matched = dict(zip((f.name for f in when), options, strict=True))
    return next((i for i, link in enumerate(links) if all(i in matched[name] for name in link.when)), None)


def _pairs(sources: Ints, own: Ints, target: int, new: Ints, shape: tuple[int, ...]) -> tuple[Ints, Ints]:
    """Return the flat numbers of (source, own value) and (target, new value) for all sources and values."""
    first = (sources[:, None] * shape[-1] + own).ravel()
    return first, np.broadcast_to(target * shape[-1] + new, (len(sources), len(own))).ravel()


def _outcomes(feature: Feature, link: Link) -> tuple[Ints, list[tuple[Ints, Ints]]]:
    """Return a value that a link gives for each own value (values,), and pairs of values that it gives together."""
    change, low = link.then[feature.name], int(feature.bounds[0])
    values = np.arange(int(feature.bounds[1]) - low + 1)
    if feature.categories:
        first, joined = values.copy(), []
        for own, new in change.items():
            codes = [code for a, b in find_runs(feature, new) for code in range(int(a), int(b) + 1)]
            first[feature.categories.index(own)] = codes[0]
            joined.append((np.array(codes[:-1], np.int64), np.array(codes[1:], np.int64)))
        return first, joined
    least, most = map(int, ends_of(change["range"] if "range" in change else change["offset"]))
    base = np.zeros_like(values) if "range" in change else values + low
    lowest, highest = (np.clip(base + by - low, 0, values[-1]) for by in (least, most))
    # Every step of 1 from the lowest to the highest value is within one of the windows, if they have any.
    steps = np.arange(lowest.min(), highest.max() if most > least else lowest.min())
    return lowest, [(steps, steps + 1)]


def _components(edges: Iterable[tuple[Ints, Ints]], shape: tuple[int, ...]) -> Ints:
    """Return the number of the component of each entry, in the order of their first entries."""
    from scipy.sparse import coo_array  # a slow import
    from scipy.sparse.csgraph import connected_components

    first, second = (np.concatenate(each) for each in zip(*edges, strict=True))
    size = math.prod(shape)
    graph = coo_array((np.ones(len(first), np.bool_), (first, second)), shape=(size, size))
    found = connected_components(graph.tocsr(), directed=False)[1]
    _, at, which = np.unique(found, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(at))
    return np.asarray(order[which.ravel()].reshape(shape), dtype=np.int64)


def _reduced(feature: Feature, when: Sequence[Feature], cells: Sequence[list[_Cell]], table: Ints) -> LinkedClasses:
    """Return the table without what makes no difference: cells with the same classes are one, or none."""
    kept: list[tuple[Feature, tuple[tuple[Run, ...], ...]]] = []
    for each, of_feature in zip(when, cells, strict=True):
        axis = len(kept)
        slices = np.moveaxis(table, axis, 0).reshape(len(of_feature), -1)
        _, at, which = np.unique(slices, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(at)
        table = np.take(table, at[order], axis=axis)
        if len(at) == 1:
            table = np.take(table, 0, axis=axis)
            continue
        merged = tuple(_joined(of_feature, which.ravel() == number) for number in order)
        kept.append((each, merged))
    return LinkedClasses(feature, tuple(f for f, _ in kept), tuple(each for _, each in kept), table)


def _joined(cells: Sequence[_Cell], chosen: Bools) -> tuple[Run, ...]:
    """Return the values of some cells of a feature that is not continuous as runs."""
    runs: list[Run] = []
    for i in np.flatnonzero(chosen).tolist():
        low, high = cells[i].run
        if runs and runs[-1][1] + 1 == low:
            runs[-1] = (runs[-1][0], high)
        else:
            runs.append((low, high))
    return tuple(runs)


def _shown(feature: Feature, value: float) -> str:
    return str(feature.show((feature.categories or ())[int(value)] if feature.categories else f"{value:.10g}"))


def _between(feature: Feature, low: float, high: float) -> str:
    """Return a run of values in words."""
    if low == high:
        return _shown(feature, low)
    if feature.categories:
        return listed([_shown(feature, code) for code in range(int(low), int(high) + 1)], "or", most=None)
    return f"{low:.10g} to {high:.10g}"

"""An entry is constant on classes exactly if everyone's neighbourhood is the same behind it, bit for bit."""

import itertools
import math

import numpy as np
import pytest

from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.kernel.certificate import ClassCertificate
from fairmend_check.kernel.classes import ignored_features, why_not_constant
from fairmend_check.kernel.entry import array_of, read_entry
from fairmend_check.kernel.neighbourhood import batches, encode, encode_one_hot, neighbourhoods
from fairmend_check.kernel.spec import read_spec
from fairmend_check.kernel.statement import describe_claim

SEX = {"name": "sex", "kind": "categorical", "categories": ["F", "M"], "protected": True}
KIN = {"name": "kin", "kind": "categorical", "categories": ["h", "w", "u"]}
CLUB = {"name": "club", "kind": "categorical", "categories": ["a", "b", "c"], "encoding": "one-hot", "dropped": "b"}
AGE = {"name": "age", "kind": "integer", "range": [3, 8], "protected": True}
HOURS = {"name": "hours", "kind": "integer", "range": [0, 4], "tolerance": 1, "scale": {"mean": 2.5, "std": 1.25}}
YEARS = {"name": "years", "kind": "integer", "range": [0, 5]}
MONEY = {"name": "money", "kind": "continuous", "range": [0, 9]}

PAY = {"name": "pay", "kind": "integer", "range": [0, 6], "bands": [0, 2, 5]}
TOWN = {"name": "town", "kind": "categorical", "categories": ["a", "b", "c", "d"], "bands": [["a", "c"], ["b", "d"]]}

LINKS = [
    [],
    [{"when": {"sex": ["F", "M"]}, "then": {"kin": {"h": "w", "w": "h"}}}],
    [{"when": {"sex": "F"}, "then": {"kin": {"h": "w"}}}],
    [{"when": {"age": [3, 4]}, "then": {"years": {"range": [0, 1]}}}],
    [{"when": {"age": [3, 4]}, "then": {"years": {"offset": [-1, 0]}}}],
    [{"when": {"age": 8, "sex": "M"}, "then": {"kin": {"u": ["h", "w"]}, "club": {"a": "c"}}}],
    [{"when": {"sex": sex}, "then": {"club": {"a": "c", "c": "a"}}} for sex in ("F", "M")],
]


def spec_of(features, links=()):
    return {"feature": features, **({"link": list(links)} if links else {})}


def entry_of(spec, cuts=(), lookups=(), kind="float64", name="X"):
    read = read_spec(spec, "spec")
    names = [feature["name"] for feature in spec["feature"]]
    port = {"name": name, "type": kind, "rank": 2, "width": read.width, "features": names}
    return read, {"ports": [port], "cuts": list(cuts), "lookups": list(lookups)}


def code_of(spec, name):
    """A code that tells all values of a feature apart."""
    feature, start = spec.places[name]
    columns = list(range(start, start + feature.width))
    if feature.one_hot:
        weights = [1 + at for at in range(len(columns))]
        return {"port": 0, "columns": columns, "compare": ">=", "with": [0.5] * len(columns), "weights": weights}
    values = np.arange(feature.low, feature.high + 1)
    exact = encode(feature, values, np.dtype("float64"))
    limits = ((exact[1:] + exact[:-1]) / 2).tolist()
    return {"port": 0, "columns": columns, "compare": ">=", "with": limits, "weights": [1] * len(limits)}


def behind(entry, X):
    """What stands behind the entry, by the definition of the data alone."""
    found = X.copy()
    for cut in entry.cuts:
        found[:, cut.column] = cut.value
    for lookup in entry.lookups:
        index = np.zeros(len(X), dtype=np.int64)
        for code in lookup.codes:
            total = np.zeros(len(X), dtype=np.int64)
            for column, constant, weight in code.comparisons:
                x = X[:, column]
                total += weight * (x >= constant if code.compare == ">=" else x == constant)
            index = index * (code.most + 1) + np.minimum(total, code.most)
        found[:, lookup.columns] = array_of(lookup.table, "float64")[index]
    return [row.tobytes() for row in found]


def everyone(spec):
    """All people of a spec of whole numbers, encoded."""
    columns = []
    for feature in spec.features:
        values = np.arange(int(feature.low), int(feature.high) + 1)
        one = encode_one_hot(feature, values) if feature.one_hot else None
        columns.append(encode(feature, values.astype(float), np.dtype("float64"))[:, None] if one is None else one)
    return np.array([np.concatenate(person) for person in itertools.product(*columns)])


def differs_by_enumeration(spec, entry):
    X = everyone(spec)
    own = behind(entry, X)
    for mine, products in zip(own, neighbourhoods(spec, X, "float64"), strict=True):
        for _, people, _ in batches([(0, products, True)], 10_000):
            if set(behind(entry, people)) != {mine}:
                return True
    return False


def random_entry(links, rng):
    """A table with few different rows, so that it may be constant on classes, or nearly so."""
    linked = sorted({name for link in links for name in link["then"]}) or ["kin"]
    needed = {*linked, *(name for link in links for name in link["when"])}
    some = [SEX, KIN, CLUB, AGE, HOURS, YEARS]
    features = [f for f in some if f["name"] in needed or (f in (SEX, KIN, HOURS) and rng.random() < 0.4)]
    features += [] if any(f.get("protected") for f in features) else [SEX]
    spec, data = entry_of(spec_of(features, links))
    for feature, start in spec.columns():
        if feature in spec.varying and feature.name != linked[0]:
            data["cuts"] += [{"port": 0, "column": start + at, "value": 0.5} for at in range(feature.width)]
    feature, start = spec.places[linked[0]]
    others = [f["name"] for f in features if f["name"] != linked[0] and rng.random() < 0.5]
    codes = [code_of(spec, each) for each in [*others[:2], linked[0]]]
    *_, own = sizes = [1 + (len(c["weights"]) if set(c["weights"]) == {1} else max(c["weights"])) for c in codes]
    rows = [[number] * feature.width for number in (1.0, 0.0, -0.0)]
    pattern = rng.integers(rng.integers(1, 4), size=own)
    table = [rows[pattern[at % own]] for at in range(math.prod(sizes))]
    if rng.random() < 0.5:
        table[int(rng.integers(len(table)))] = rows[int(rng.integers(len(rows)))]
    columns = list(range(start, start + feature.width))
    data["lookups"] = [{"port": 0, "columns": columns, "codes": codes, "table": table}]
    return spec, data


@pytest.mark.parametrize("links", LINKS, ids=range(len(LINKS)))
def test_the_verdict_is_that_of_enumeration(links):
    rng, verdicts = np.random.default_rng(len(str(links))), set()
    for _ in range(40):
        spec, data = random_entry(links, rng)
        entry = read_entry(data, spec)
        expected = differs_by_enumeration(spec, entry)
        assert bool(why_not_constant(spec, entry)) == expected, data
        verdicts.add(expected)
    assert verdicts == {True, False}


@pytest.mark.parametrize("banded", [PAY, TOWN, {**TOWN, "encoding": "one-hot"}, {**PAY, "scale": {"min": 1, "max": 8}}])
def test_the_verdict_on_bands_is_that_of_enumeration(banded):
    rng, verdicts = np.random.default_rng(0), set()
    for _ in range(40):
        spec, data = entry_of(spec_of([SEX, banded]), [{"port": 0, "column": 0, "value": 0.5}])
        codes, width = [code_of(spec, banded["name"])], spec.width - 1
        most = len(codes[0]["weights"]) if set(codes[0]["weights"]) == {1} else max(codes[0]["weights"])
        bands = (0, 0, 1, 1, 1, 2, 2) if most == 6 else (0, 1, 0, 1) if most == 3 else (2, 0, 1, 0, 1)
        rows = [[float(number)] * width for number in rng.integers(3, size=3)]
        table = [rows[band] for band in bands]
        if rng.random() < 0.7:
            table[int(rng.integers(len(table)))] = [-0.0] * width
        data["lookups"] = [{"port": 0, "columns": list(range(1, 1 + width)), "codes": codes, "table": table}]
        entry = read_entry(data, spec)
        expected = differs_by_enumeration(spec, entry)
        assert bool(why_not_constant(spec, entry)) == expected, data
        verdicts.add(expected)
    assert verdicts == {True, False}


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_band_of_numbers_begins_exactly_at_its_lower_end(kind):
    """The last number below an edge belongs to the band before it."""
    money = {**MONEY, "bands": [0, 3.3, 7], "scale": {"mean": 4.1, "std": 2.7}}
    spec, data = entry_of(spec_of([SEX, money]), [{"port": 0, "column": 0, "value": 0.5}], kind=kind)
    edges = encode(spec.features[1], np.array([3.3, 7.0]), np.dtype(kind))
    step = np.dtype(kind).type
    for by, refused in ((0, False), (-1, True), (1, True)):
        moved = float(np.nextafter(step(edges[0]), step(by * np.inf))) if by else float(edges[0])
        code = {"port": 0, "columns": [1], "compare": ">=", "with": [moved, float(edges[1])], "weights": [1, 1]}
        lookup = {"port": 0, "columns": [1], "codes": [code], "table": [[0.0], [1.0], [2.0]]}
        assert bool(why_not_constant(spec, read_entry({**data, "lookups": [lookup]}, spec))) == refused


def test_a_counterfactual_reads_the_protected_value():
    """The row of someone is that of whom links make of them: an orbit of sex and kin."""
    spec, data = entry_of(spec_of([SEX, KIN], LINKS[1]))
    h, w, u = [0.0], [1.0], [2.0]
    cut = {"port": 0, "column": 0, "value": 0.0}
    lookup = {"port": 0, "columns": [1], "codes": [code_of(spec, "sex"), code_of(spec, "kin")]}
    good = {**data, "cuts": [cut], "lookups": [{**lookup, "table": [w, h, u, h, w, u]}]}
    assert why_not_constant(spec, read_entry(good, spec)) == []
    bad = {**data, "cuts": [cut], "lookups": [{**lookup, "table": [h, w, u, h, w, u]}]}
    (reason,) = why_not_constant(spec, read_entry(bad, spec))
    assert "sex = F, kin = h" in reason or "sex = M, kin = h" in reason


def test_a_kept_column_of_a_feature_that_varies_is_named():
    spec, data = entry_of(spec_of([SEX, KIN, HOURS], LINKS[2]))
    reasons = why_not_constant(spec, read_entry(data, spec))
    assert [reason.split('"')[1] for reason in reasons] == ["sex", "kin", "hours"]


def test_whole_numbers_that_are_no_doubles_are_no_constants():
    """2^53 + 1 compared as a double is 2^53: with the table 0, 7, 0 the people of 2^53 - 1 and 2^53 were one class."""
    most = 2**53
    spec = spec_of([{"name": "a", "kind": "integer", "range": [most - 1, most], "protected": True}])

    def entry(constants, table):
        code = {"port": 0, "columns": [0], "compare": "==", "with": constants, "weights": [1] * len(constants)}
        lookup = {"port": 0, "columns": [0], "codes": [code], "table": table}
        read, data = entry_of(spec, lookups=[lookup], kind="int64")
        return read, read_entry(data, read)

    with pytest.raises(CheckError, match="9007199254740993"):
        entry([most, most + 1], [[0], [7], [0]])
    assert why_not_constant(*entry([most], [[0], [7]]))
    assert not why_not_constant(*entry([most], [[7], [7]]))


def test_what_is_cut_and_not_read_is_ignored():
    spec, data = entry_of(spec_of([SEX, KIN]), [{"port": 0, "column": 0, "value": 1.0}])
    assert [feature.name for feature in ignored_features(spec, read_entry(data, spec))] == ["sex"]


@pytest.mark.parametrize("limit", [1.0, float(np.nextafter(1.0, 0)), 1 + 2.0**-21])
def test_a_threshold_within_the_rounding_of_a_value_is_refused(limit):
    """A pipeline that scales in float32 could put a value on either side of it."""
    spec, data = entry_of(spec_of([SEX, KIN], LINKS[2]), [{"port": 0, "column": 0, "value": 1.0}])
    code = {"port": 0, "columns": [1], "compare": ">=", "with": [limit], "weights": [1]}
    lookup = {"port": 0, "columns": [1], "codes": [code], "table": [[0.0], [0.0]]}
    (reason,) = why_not_constant(spec, read_entry({**data, "lookups": [lookup]}, spec))
    assert "scaled in float32" in reason


def test_a_large_whole_number_may_be_off_by_a_quarter():
    money = {"name": "money", "kind": "integer", "range": [10_000_000, 10_000_004]}
    spec, data = entry_of(spec_of([SEX, money]), [{"port": 0, "column": 0, "value": 1.0}])
    lookup = {"port": 0, "columns": [1], "table": [[0.0], [1.0]]}
    for limit, refused in ((10_000_001.5, False), (10_000_002.2, True)):
        code = {"port": 0, "columns": [1], "compare": ">=", "with": [limit], "weights": [1]}
        entry = read_entry({**data, "lookups": [{**lookup, "codes": [code]}]}, spec)
        assert bool(why_not_constant(spec, entry)) == refused


@pytest.mark.parametrize(("kind", "value"), [("continuous", 4.0), ("integer", 4.5)])
def test_a_code_of_a_protected_number_must_not_count(kind, value):
    age = {**AGE, "kind": kind}
    spec, data = entry_of(spec_of([age, KIN]), [{"port": 0, "column": 0, "value": 1.0}])
    code = {"port": 0, "columns": [0], "compare": ">=", "with": [value], "weights": [1]}
    for table, refused in (([[0.0], [1.0]], True), ([[1.0], [1.0]], False)):
        lookup = {"port": 0, "columns": [1], "codes": [code], "table": table}
        assert bool(why_not_constant(spec, read_entry({**data, "lookups": [lookup]}, spec))) == refused


def test_of_a_link_by_a_continuous_feature_it_is_open_whether_it_applies():
    age = {"name": "age", "kind": "continuous", "range": [0, 90], "protected": True}
    links = [{"when": {"age": [18, 25]}, "then": {"kin": {"h": "w"}}}]
    spec, data = entry_of(spec_of([age, KIN], links), [{"port": 0, "column": 0, "value": 1.0}])
    code = code_of(spec, "kin")
    for table, refused in (([[0.0], [0.0], [1.0]], False), ([[0.0], [1.0], [1.0]], True)):
        lookup = {"port": 0, "columns": [1], "codes": [code], "table": table}
        assert bool(why_not_constant(spec, read_entry({**data, "lookups": [lookup]}, spec))) == refused


def test_what_links_set_by_continuous_numbers_may_have_any_value():
    links = [{"when": {"sex": "F"}, "then": {"money": {"offset": -1}}}]
    spec, data = entry_of(spec_of([SEX, MONEY], links), [{"port": 0, "column": 0, "value": 1.0}])
    code = {"port": 0, "columns": [1], "compare": ">=", "with": [5.0], "weights": [1]}
    for table, refused in (([[0.0], [1.0]], True), ([[1.0], [1.0]], False)):
        lookup = {"port": 0, "columns": [1], "codes": [code], "table": table}
        assert bool(why_not_constant(spec, read_entry({**data, "lookups": [lookup]}, spec))) == refused


@pytest.mark.parametrize(
    ("links", "codes", "table", "said"),
    [
        (LINKS[2], ["kin"], [0, 0, 1], "kin h and kin w are one class"),
        (LINKS[2], ["sex", "kin"], [0, 0, 1, 0, 0, 1], "kin h and kin w are one class"),
        (LINKS[1], ["sex", "kin"], [1, 0, 2, 0, 1, 2], "kin h with sex F and kin w with sex M are one class"),
    ],
)
def test_the_claim_names_the_values_that_are_one_class(links, codes, table, said):
    pay = {**PAY, "bands": [0, 4]}
    spec, data = entry_of(spec_of([SEX, KIN, pay], links), [{"port": 0, "column": 0, "value": 0.0}])
    band = {"port": 0, "columns": [2], "compare": ">=", "with": [3.5], "weights": [1]}
    data["lookups"] = [
        {
            "port": 0,
            "columns": [1],
            "codes": [code_of(spec, name) for name in codes],
            "table": [[float(n)] for n in table],
        },
        {"port": 0, "columns": [2], "codes": [band], "table": [[1.0], [5.0]]},
    ]
    entry = read_entry(data, spec)
    assert why_not_constant(spec, entry) == []
    claim = describe_claim(ClassCertificate("", spec, entry))
    assert said in claim
    assert "pay counts by its band" in claim
    assert ("it does not depend on sex" in claim) == (codes == ["kin"])


def changed(data, *path, to):
    """The data with another value in one place."""
    made = [*data] if isinstance(data, list) else {**data}
    made[path[0]] = to if len(path) == 1 else changed(made[path[0]], *path[1:], to=to)
    return made


@pytest.mark.parametrize(
    ("path", "to", "said"),
    [
        (("ports", 0, "type"), "float16", "type"),
        (("ports", 0, "rank"), 3, "rank"),
        (("ports", 0, "width"), 3, "width"),
        (("ports", 0, "features"), ["sex"], "columns"),
        (("ports", 0, "features"), ["kin", "sex"], "order"),
        (("ports", 0, "features"), ["sex", "other"], "features of the spec"),
        (("ports",), [], "ports"),
        (("cuts", 0, "port"), 1, "port"),
        (("cuts", 0, "column"), 2, "column"),
        (("cuts", 0, "column"), 1, "twice"),
        (("cuts", 0, "value"), 0.1, "float32"),
        (("cuts", 0, "value"), "x", "float32"),
        (("cuts", 0, "more"), 1, "unknown key"),
        (("lookups", 0, "columns"), [1, 1], "twice"),
        (("lookups", 0, "table"), [[0.0]], "rows"),
        (("lookups", 0, "table", 1), [0.0, 1.0], "rows"),
        (("lookups", 0, "codes"), [], "codes"),
        (("lookups", 0, "codes", 0, "compare"), ">", "compare"),
        (("lookups", 0, "codes", 0, "weights"), [1, 0], "weights"),
        (("lookups", 0, "codes", 0, "weights"), [1], "weight"),
        (("lookups", 0, "codes", 0, "weights"), [1, 10**9], "weights"),
        (("lookups", 0, "codes", 0, "columns"), [], "columns"),
        (("lookups", 0, "codes", 0, "with"), [0.5, 1.1], "float32"),
    ],
)
def test_data_that_do_not_fit_are_refused(path, to, said):
    spec, data = entry_of(spec_of([SEX, KIN]), [{"port": 0, "column": 0, "value": 1.0}], kind="float32")
    code = {"port": 0, "columns": [1], "compare": ">=", "with": [0.5, 1.5], "weights": [1, 1]}
    data["lookups"] = [{"port": 0, "columns": [1], "codes": [code], "table": [[0.0], [1.0], [2.0]]}]
    assert why_not_constant(spec, read_entry(data, spec)) == []
    with pytest.raises(CheckError, match=said):
        read_entry(changed(data, *path, to=to), spec)


@pytest.mark.parametrize(
    ("kind", "feature"),
    [("string", AGE), ("string", CLUB), ("int64", HOURS), ("bool", AGE), ("int32", MONEY)],
)
def test_a_port_holds_only_what_its_type_can(kind, feature):
    spec, data = entry_of(spec_of([SEX, feature]), kind=kind)
    with pytest.raises(CheckError, match="cannot be read by an input of the type"):
        read_entry(data, spec)


def test_the_spec_says_which_input_reads_a_feature():
    spec, data = entry_of(spec_of([{**SEX, "input": "other"}, KIN]))
    with pytest.raises(NotConfirmedError, match="another one"):
        read_entry(data, spec)


def test_every_feature_is_read_by_one_input():
    """Two inputs that read one feature leave out another; what they really hold may be that one."""
    spec = read_spec(spec_of([YEARS, AGE]), "spec")
    port = {"type": "float32", "rank": 2, "width": 1, "features": ["years"]}
    data = {"ports": [{"name": "X", **port}, {"name": "Z", **port}], "cuts": [], "lookups": []}
    with pytest.raises(NotConfirmedError, match="by no input, or by several"):
        read_entry(data, spec)

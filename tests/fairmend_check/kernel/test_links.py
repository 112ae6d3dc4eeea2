"""Links: the checker's neighbourhoods are the union of counterfactuals that docs/certificate.md describes."""

from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairmend
from fairmend.network import Network
from fairmend.prove.certificate import certificate_of_fair
from fairmend.spec import Spec
from fairmend_check.errors import CheckError
from fairmend_check.kernel.links import MAX_NAMES
from fairmend_check.kernel.neighbourhood import _own_values, count_boxes, neighbourhood
from fairmend_check.kernel.spec import first_difference, read_spec
from support.checker_cases import Case, class_of, margin_of, sign_network, write
from support.coverage import find_uncovered
from support.examples import examples
from support.neighbourhood_cases import points_of
from support.strategies import random_network

SEX = {"name": "sex", "kind": "categorical", "categories": ["m", "f", "x"], "protected": True}
AGE = {"name": "age", "kind": "integer", "range": [18, 22], "protected": True}
WEALTH = {"name": "wealth", "kind": "continuous", "range": [0, 8], "protected": True}
ROLE = {"name": "role", "kind": "categorical", "categories": ["husband", "wife", "own child"], "encoding": "one-hot"}
STATUS = {"name": "status", "kind": "categorical", "categories": ["a", "b", "c"], "scale": {"mean": 1, "std": 0.7}}
YEARS = {"name": "years", "kind": "integer", "range": [0, 6], "scale": {"min": 0, "max": 6}}
HOURS = {"name": "hours", "kind": "integer", "range": [0, 3], "tolerance": 1}
PAY = {"name": "pay", "kind": "continuous", "range": [0, 100]}
FEATURES = [SEX, AGE, ROLE, STATUS, YEARS, HOURS]
WIFE = {"when": {"sex": "f"}, "then": {"role": {"husband": "wife"}}}


def linked(*links, features=(SEX, AGE, ROLE, YEARS)):
    return {"feature": list(features), "link": list(links)}


# Neighbourhoods, by enumeration


def number_of(feature, category):
    return feature["categories"].index(category)


def matches(feature, value, condition):
    if feature["kind"] == "categorical":
        return value in [number_of(feature, c) for c in (condition if isinstance(condition, list) else [condition])]
    low, high = condition if isinstance(condition, list) else (condition, condition)
    return low <= value <= high


def replaced(feature, own, change):
    """The values that `then` gives to a person with this value."""
    if feature["kind"] == "categorical":
        targets = change.get(feature["categories"][own], feature["categories"][own])
        return {number_of(feature, c) for c in (targets if isinstance(targets, list) else [targets])}
    low, high = feature["range"]
    if "range" in change:
        return {v for v in range(low, high + 1) if change["range"][0] <= v <= change["range"][1]}
    first, last = change["offset"] if isinstance(change["offset"], list) else [change["offset"]] * 2
    return {min(max(own + by, low), high) for by in range(-20, 21) if first <= by <= last}


def counterfactuals(spec, own):
    """The neighbourhood of a person: a value for each feature, and a category is its number."""
    features = {feature["name"]: feature for feature in spec["feature"]}
    protected = [name for name, feature in features.items() if feature.get("protected")]
    everyone = {
        name: range(len(f["categories"])) if "categories" in f else range(f["range"][0], f["range"][1] + 1)
        for name, f in features.items()
    }
    found = {tuple(own.values())}
    for chosen in product(*(everyone[name] for name in protected)):
        person = {**own, **dict(zip(protected, chosen, strict=True))}
        values = {name: {value} for name, value in person.items()}
        for name, feature in features.items():
            if "tolerance" in feature:
                values[name] = {v for v in everyone[name] if abs(v - own[name]) <= feature["tolerance"]}
        for link in spec.get("link", []):
            same = all(person[name] == own[name] for name in link["when"])
            if not same and all(matches(features[name], person[name], c) for name, c in link["when"].items()):
                for name, change in link["then"].items():
                    values[name] = replaced(features[name], own[name], change)
        found |= set(product(*values.values()))
    return found


def encoded(spec, person):
    columns = []
    for feature, value in zip(spec["feature"], person, strict=True):
        scale = list(feature.get("scale", {}).items())
        if feature.get("encoding") == "one-hot":
            columns += [1.0 if i == value else 0.0 for i in range(len(feature["categories"]))]
        elif not scale:
            columns.append(float(value))
        elif scale[0][0] == "mean":
            columns.append(float(np.float32((value - scale[0][1]) / scale[1][1])))
        else:
            columns.append(float(np.float32((value - scale[0][1]) / (scale[1][1] - scale[0][1]))))
    return tuple(columns)


CATEGORIES = {f["name"]: f["categories"] for f in FEATURES if "categories" in f}
CONDITIONS = {
    "sex": st.sampled_from(CATEGORIES["sex"]) | st.lists(st.sampled_from(CATEGORIES["sex"]), min_size=1, max_size=2),
    "age": st.integers(18, 22) | st.tuples(st.integers(17, 20), st.integers(20, 23)).map(list),
}
OFFSETS = st.integers(-4, 4)
NUMBERS = st.builds(lambda low, more: {"range": [low, low + more]}, st.integers(0, 5), st.integers(0, 3)) | st.builds(
    lambda low, more: {"offset": low if more == 0 else [low, low + more]}, OFFSETS, st.integers(0, 2)
)


def maps(name):
    one = st.sampled_from(CATEGORIES[name])
    return st.dictionaries(one, one | st.lists(one, min_size=1, max_size=3), min_size=1, max_size=3)


EFFECTS = {"role": maps("role"), "status": maps("status"), "years": NUMBERS}


def chosen(draw, options):
    names = draw(st.lists(st.sampled_from(sorted(options)), min_size=1, max_size=2, unique=True))
    return {name: draw(options[name]) for name in names}


@examples(25)
@given(st.data())
def test_the_neighbourhood_is_the_union_of_the_counterfactuals(data):
    links = [
        {"when": chosen(data.draw, CONDITIONS), "then": chosen(data.draw, EFFECTS)}
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    spec = {"feature": FEATURES, "link": links}
    try:
        ours = read_spec(spec, "spec")
    except CheckError:  # ambiguous, or without effect
        return
    own = {
        f["name"]: data.draw(st.integers(*(f["range"] if "range" in f else (0, len(f["categories"]) - 1))))
        for f in FEATURES
    }
    around = neighbourhood(ours, np.array(encoded(spec, own.values())), "float32")
    expected = {encoded(spec, person) for person in counterfactuals(spec, own)}
    found = np.concatenate(points_of(around, 7))
    assert {tuple(point) for point in found.tolist()} == expected
    assert len(found) == count_boxes(around, each_whole=True) == len(expected)
    # Boxes around the points cover it, and no fewer do.
    lower = np.array(sorted(expected))
    assert find_uncovered(around, lower, lower, "float32") is None
    left_out = data.draw(st.integers(0, len(lower) - 1))
    fewer = np.delete(lower, left_out, axis=0)
    assert not len(fewer) or find_uncovered(around, fewer, fewer, "float32") is not None


def test_a_husband_becomes_a_wife():
    spec = read_spec(linked(WIFE, features=(SEX, ROLE)), "spec")

    def points(*x):
        return sorted(map(tuple, np.concatenate(points_of(neighbourhood(spec, np.array(x), "float32"), 9)).tolist()))

    assert points(0.0, 1, 0, 0) == [(0, 1, 0, 0), (1, 0, 1, 0), (2, 1, 0, 0)]
    assert points(0.0, 0, 0, 1) == [(0, 0, 0, 1), (1, 0, 0, 1), (2, 0, 0, 1)]  # a category that is not named stays
    assert points(1.0, 1, 0, 0) == [(0, 1, 0, 0), (1, 1, 0, 0), (2, 1, 0, 0)]  # and so does who is female already


def test_the_bits_of_the_input_belong_to_its_own_protected_value_only():
    """A person who was scaled elsewhere: age 20 is e(20) and the number in x, every other age is e(v) alone."""
    age = {**AGE, "scale": {"mean": 20.3, "std": 1.7}}
    older = {"when": {"age": [20, 22]}, "then": {"years": {"offset": 1}}}
    spec = read_spec(linked(older, features=(age, {**YEARS, "scale": {"mean": 3.1, "std": 0.9}})), "spec")
    encode = [float(np.float32((v - 20.3) / 1.7)) for v in range(18, 23)]
    own = float(np.nextafter(np.float32(encode[2]), np.float32(9)))
    years = float(np.nextafter(np.float32((2 - 3.1) / 0.9), np.float32(9)))
    more = float(np.float32((3 - 3.1) / 0.9))
    around = neighbourhood(spec, np.array([own, years]), "float32")
    found = {tuple(point) for batch in points_of(around, 3) for point in batch.tolist()}
    stays, changes = {(v, years) for v in [*encode[:3], own]}, {(v, more) for v in encode[3:]}
    assert found == stays | changes


def covered(spec, x, *boxes):
    lower, upper = (np.array([box[side] for box in boxes], dtype=np.float64) for side in (0, 1))
    around = neighbourhood(read_spec(spec, "spec"), np.array(x, dtype=np.float64), "float32")
    return find_uncovered(around, lower, upper, "float32") is None


def test_cells_of_a_continuous_protected_feature_are_closed():
    rich = {"when": {"wealth": [2, 4]}, "then": {"pay": {"range": [50, 60]}}}
    spec = linked(rich, features=(WEALTH, PAY))
    low, high, within = ([0, 10], [2, 10]), ([4, 10], [8, 10]), ([2, 50], [4, 60])
    assert covered(spec, [1, 10], low, high, within)
    for less in (([2.000001, 50], [4, 60]), ([2, 50], [4, 59.9]), ([2, 50.1], [4, 60])):
        assert not covered(spec, [1, 10], low, high, less)
    assert not covered(spec, [1, 10], low, within)
    assert not covered(spec, [1, 10], ([0, 10], [1.9999, 10]), high, within)
    # For an input whose own value matches, the own pay stays at that one value.
    assert not covered(spec, [3, 10], low, high, within)
    assert covered(spec, [3, 10], low, high, within, ([3, 10], [3, 10]))


def test_at_an_end_that_two_links_share_both_apply():
    some = {"when": {"wealth": [2, 4]}, "then": {"pay": {"range": [50, 60]}}}
    more = {"when": {"wealth": [4, 6]}, "then": {"years": {"range": [5, 6]}}}
    spec = linked(some, more, features=(WEALTH, PAY, {**YEARS, "scale": {"min": 0, "max": 1}}))
    parts = [([0, 10, 2], [8, 10, 2]), ([2, 50, 2], [4, 60, 2]), ([4, 10, 5], [6, 10, 6])]
    assert not covered(spec, [1, 10, 2], *parts)
    assert covered(spec, [1, 10, 2], *parts, ([4, 50, 5], [4, 60, 6]))


def test_a_single_continuous_value_can_be_a_condition():
    broke = {"when": {"wealth": 0.5}, "then": {"pay": {"offset": [-5, 200]}}}
    spec = linked(broke, features=(WEALTH, PAY))
    everywhere = ([0, 10], [8, 10])
    assert not covered(spec, [1, 10], everywhere)
    assert not covered(spec, [1, 10], everywhere, ([0.5, 5], [0.5, 99]))
    assert covered(spec, [1, 10], everywhere, ([0.5, 4.99], [0.5, 100]))  # cut off at the range
    assert not covered(spec, [1, 10], everywhere, ([0.5, 5], [0.5, 100]))  # 10 - 5, for what may be rounded to 10
    assert covered(spec, [0.5, 10], everywhere)  # but the cell that is the own value stays


# What is refused


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ({}, 'has no "when"'),
        ({"when": {}, "then": {"years": {"offset": 1}}}, "is empty"),
        ({"when": {"sex": "f"}, "then": {}}, "is empty"),
        ({**WIFE, "unless": {}}, "unknown key"),
        ({"when": "sex", "then": {}}, "must be an object"),
        ({"when": {"gender": "f"}, "then": {"years": {"offset": 1}}}, 'when names the unknown feature "gender"'),
        ({"when": {"sex": "f"}, "then": {"rol": {"husband": "wife"}}}, 'then names the unknown feature "rol"'),
        ({"when": {"years": 3}, "then": {"role": {"husband": "wife"}}}, 'when names "years", which is not protected'),
        ({"when": {"sex": "f"}, "then": {"age": {"offset": 1}}}, "links cannot chain"),
        ({"when": {"sex": "f"}, "then": {"sex": {"f": "m"}}}, "links cannot chain"),
        ({"when": {"sex": "f"}, "then": {"hours": {"offset": 1}}}, "has a tolerance"),
        ({"when": {"sex": "female"}, "then": {"years": {"offset": 1}}}, 'names "female", which is not a category of'),
        ({"when": {"sex": []}, "then": {"years": {"offset": 1}}}, "names no category"),
        ({"when": {"sex": None}, "then": {"years": {"offset": 1}}}, "not a text"),
        ({"when": {"sex": {"f": "f"}}, "then": {"years": {"offset": 1}}}, "not a text"),
        ({"when": {"age": [30, 40]}, "then": {"years": {"offset": 1}}}, 'holds no possible value of "age"'),
        ({"when": {"age": [20, 19]}, "then": {"years": {"offset": 1}}}, 'holds no possible value of "age"'),
        ({"when": {"age": 20.5}, "then": {"years": {"offset": 1}}}, 'holds no possible value of "age"'),
        ({"when": {"age": [18, 19, 20]}, "then": {"years": {"offset": 1}}}, "3 entries instead of 2"),
        ({"when": {"age": True}, "then": {"years": {"offset": 1}}}, "not a number"),
        ({"when": {"age": "20"}, "then": {"years": {"offset": 1}}}, "not a number"),
        ({"when": {"sex": "f"}, "then": {"role": {"husbnd": "wife"}}}, 'names "husbnd", which is not a category'),
        ({"when": {"sex": "f"}, "then": {"role": {"husband": "wif"}}}, 'names "wif", which is not a category'),
        ({"when": {"sex": "f"}, "then": {"role": {"husband": []}}}, "names no category"),
        ({"when": {"sex": "f"}, "then": {"role": {"wife": "wife"}}}, "no effect"),
        ({"when": {"sex": "f"}, "then": {"role": {"wife": "husband", "wife ": "wife"}}}, "twice"),
        ({"when": {"sex": "f"}, "then": {"role": {"offset": 1}}}, 'names "offset", which is not a category'),
        ({"when": {"sex": "f"}, "then": {"role": "wife"}}, "must be an object"),
        ({"when": {"sex": "f"}, "then": {"years": {}}}, "must be an object that is not empty"),
        ({"when": {"sex": "f"}, "then": {"years": {"offset": 0}}}, "no effect"),
        ({"when": {"sex": "f"}, "then": {"years": {"offset": [0, 0]}}}, "no effect"),
        ({"when": {"sex": "f"}, "then": {"years": {"offset": 0.5}}}, 'holds no possible value of "years"'),
        ({"when": {"sex": "f"}, "then": {"years": {"offset": [2, 1]}}}, 'holds no possible value of "years"'),
        ({"when": {"sex": "f"}, "then": {"years": {"range": [7, 9]}}}, 'holds no possible value of "years"'),
        ({"when": {"sex": "f"}, "then": {"years": {"range": 3}}}, "must be a list of numbers"),
        ({"when": {"sex": "f"}, "then": {"years": {"range": [1, 2], "offset": 1}}}, "either a range or an offset"),
        ({"when": {"sex": "f"}, "then": {"years": {"ofset": 1}}}, "either a range or an offset"),
    ],
)
def test_links_that_are_none(link, reason):
    with pytest.raises(CheckError, match=r"link\[0\]") as error:
        read_spec(linked(link, features=FEATURES), "spec")
    assert reason in str(error.value)


def test_two_links_may_set_the_same_feature_only_if_they_exclude_each_other():
    read_spec(linked(WIFE, {"when": {"sex": ["m", "x"]}, "then": {"role": {"wife": "husband"}}}), "spec")
    young = {"when": {"age": [18, 20], "sex": "f"}, "then": {"role": {"husband": "own child"}}}
    old = {"when": {"age": [21, 22], "sex": "f"}, "then": {"role": {"husband": "wife"}}}
    read_spec(linked(young, old), "spec")
    for other in (young, WIFE, {"when": {"age": [20, 22]}, "then": {"role": {"husband": "own child"}}}):
        with pytest.raises(CheckError, match='are ambiguous: both can apply to a person and set "role"'):
            read_spec(linked(WIFE, other), "spec")
    read_spec(linked(WIFE, {"when": {"sex": "f"}, "then": {"years": {"offset": 1}}}), "spec")


def test_too_many_links_are_refused():
    with pytest.raises(CheckError, match="must name 1 to"):
        read_spec(linked(), "spec")
    with pytest.raises(CheckError, match="must name 1 to"):
        read_spec(linked(*[WIFE] * (MAX_NAMES // 5)), "spec")
    sexes = [{**SEX, "name": f"sex{i}", "categories": [f"c{j}" for j in range(10)]} for i in range(6)]
    each = [
        {"when": {f["name"]: ["c1", "c3", "c5"]}, "then": {f"years{i}": {"offset": 1}}} for i, f in enumerate(sexes)
    ]
    years = [{**YEARS, "name": f"years{i}"} for i in range(6)]
    with pytest.raises(CheckError, match="divide a neighbourhood into more than 100,000 parts"):
        read_spec(linked(*each, features=[*sexes, *years]), "spec")
    read_spec(linked(*each[:5], features=[*sexes[:5], *years[:5]]), "spec")


def test_specs_with_other_links_are_others():
    ours = read_spec(linked(WIFE), "spec")
    same = {"then": {"role": {"husband ": ["wife"]}}, "when": {"sex": ["f"]}}
    assert first_difference(ours, read_spec(linked(same), "spec")) is None
    for other in (linked({"when": {"sex": "x"}, "then": WIFE["then"]}), {"feature": linked()["feature"]}):
        assert first_difference(ours, read_spec(other, "spec")) == "the links are others"


# Certificates, and attacks on them


@cache
def linked_case():
    """A certificate of people whose role follows their sex, written by fairmend."""
    spec = Spec.from_dict(linked(WIFE, {"when": {"age": [18, 19]}, "then": {"years": {"range": [0, 1]}}}))
    rng = np.random.default_rng(1)
    network = random_network(rng, spec.width, (6, 5), 1, "relu", "float32")
    X = spec.sample_inputs(60, rng, np.float32)
    certificate, covered = certificate_of_fair(network, spec, X[X[:, 2] == 1][:9])  # husbands
    assert covered.sum() > 3
    return Case(network, spec, certificate)


@pytest.fixture
def attack(tmp_path):
    made = linked_case()
    made.network.save(tmp_path / "model.onnx")
    made.spec.save(tmp_path / "spec.toml")

    def reasons(content, *spec, **options):
        return fairmend.check(write(tmp_path, content), tmp_path / "model.onnx", *spec, **options).reasons

    return made, made.content, reasons


def test_a_certificate_with_links_is_valid_and_names_them(attack, tmp_path):
    made, content, reasons = attack
    assert reasons(content, tmp_path / "spec.toml") == ()
    assert is_true(made, content)
    claim = fairmend.check(write(tmp_path, content), tmp_path / "model.onnx").claim
    assert (
        "whatever its sex or age. Linked features change too: with another sex, where sex is f, role husband becomes "
        "wife; with another age, where age is 18 to 19, years becomes 0 to 1. This holds in"
    ) in claim


def is_true(made, content):
    """Whether everyone in the neighbourhoods gets the class of the input, by enumeration."""
    spec = content["spec"]
    ours = read_spec(spec, "spec")
    for x in content["inputs"]:
        own = {f.name: int(_own_values(f, x[None, at : at + f.width])[0][0]) for f, at in ours.columns()}
        points = np.array([encoded(spec, person) for person in counterfactuals({"link": [], **spec}, own)])
        if margin_of(made.network, points, class_of(made.network, x)) <= 0:
            return False
    return True


def test_an_input_with_an_unequal_counterfactual_is_refused(attack, tmp_path):
    """The model ignores sex and age, but treats the wives that husbands become differently."""
    made, content, reasons = attack
    first = made.network.affines[0]
    ignoring = type(first)(first.weight * np.float32([0, 0, 1, 1, 1, 1]), first.bias)
    net = made.network.with_affines([ignoring, *made.network.affines[1:]])
    middle = np.median(net.logits(made.spec.sample_inputs(100, np.random.default_rng(0))))
    net = net.with_affines([*net.affines[:-1], type(first)(net.head.weight, net.head.bias - middle)])
    net.save(tmp_path / "model.onnx")
    rng, unequal = np.random.default_rng(1), 0
    for x in made.spec.sample_inputs(200, rng):
        one = {**sign_network(content, net), "inputs": x[None]}
        unlinked = {**one, "spec": {"feature": one["spec"]["feature"]}}
        if not reasons(unlinked) and not is_true(replace(made, network=net), one):
            assert "input 0: that similar people get one prediction is not confirmed" in reasons(one)[0]
            unequal += 1
    assert unequal > 5  # else links made no difference


def test_links_that_are_dropped_or_changed(attack, tmp_path):
    made, content, reasons = attack
    for change in (
        lambda spec: spec.pop("link"),
        lambda spec: spec["link"].pop(0),
        lambda spec: spec["link"][0]["then"]["role"].update(husband="own child"),
        lambda spec: spec["link"][0]["when"].update(sex="x"),
        lambda spec: spec["link"][1]["when"].update(age=[18, 21]),
        lambda spec: spec["link"][1]["then"]["years"].update(range=[0, 2]),
    ):
        changed = deepcopy(content)
        change(changed["spec"])
        assert reasons(changed) or is_true(made, changed)
        assert "not the spec of the certificate: the links are others" in reasons(changed, tmp_path / "spec.toml")[0]


def test_when_and_then_are_not_interchangeable(attack):
    _, content, reasons = attack
    link = content["spec"]["link"][0]
    link["when"], link["then"] = {"role": "husband"}, {"sex": {"m": "f"}}
    assert 'when names "role", which is not protected' in reasons(content)[0]


def test_a_model_that_ignores_the_linked_features_too_needs_no_regions(attack, tmp_path):
    made, content, _ = attack
    weight = made.network.affines[0].weight.copy()
    weight[:, [0, 1, 2, 3, 4]] = 0
    first = type(made.network.affines[0])(weight, made.network.affines[0].bias)
    net = Network([first, *made.network.affines[1:]], made.network.activations)
    net.save(tmp_path / "blind.onnx")
    content.update({"inputs": content["inputs"][:0], "global": {"columns": [0, 1, 2, 3, 4]}})
    result = fairmend.check(write(tmp_path, sign_network(content, net)), tmp_path / "blind.onnx")
    assert result.valid
    assert "the output of this model does not depend on sex, age or role." in result.claim
    for columns in ([0, 1, 2, 3], [0, 1, 2, 3, 4, 5]):
        content["global"]["columns"] = columns
        assert not fairmend.check(write(tmp_path, content), tmp_path / "blind.onnx").valid


def test_whatever_is_accepted_after_random_edits_is_true(attack):
    made, start, reasons = attack
    rng = np.random.default_rng(5)
    accepted = 0
    for _ in range(25):
        content = deepcopy(start)
        links = content["spec"]["link"]
        kind = rng.integers(5)
        if kind == 0:
            links[0]["when"]["sex"] = list(rng.choice(["m", "f", "x"], size=2, replace=False).tolist())
        elif kind == 1:
            links[0]["then"]["role"] = {
                str(rng.choice(["husband", "wife", "own child"])): str(rng.choice(["wife", "own child"]))
            }
        elif kind == 2:
            links[1]["then"]["years"] = {"offset": int(rng.integers(-3, 2))}
        elif kind == 3:
            links[1]["when"]["age"] = sorted(int(v) for v in rng.integers(18, 23, 2))
        else:
            del links[int(rng.integers(2))]
        content["inputs"] = content["inputs"][rng.permutation(len(content["inputs"]))[:2]]
        content["inputs"][0, -1] = rng.choice(content["inputs"][:, -1])
        if not reasons(content):
            accepted += 1
            assert is_true(made, content)
    assert accepted > 5  # else nothing was tested

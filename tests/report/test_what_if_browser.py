"""What if?, in a real browser: the page computes what spec.encode, spec.points and ONNX Runtime do."""

import re
from dataclasses import asdict

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import fairmend
from fairmend.evaluate.what_if import add_what_if
from fairmend.network import Activation, Affine, Input, Network, Node, Scale, Sum, load_network
from fairmend.network.folding import Norm
from fairmend.network.scores import compute_scores
from fairmend.report import audit_report
from fairmend.report.what_if import what_if_data
from fairmend.spec import Claim, Feature, Label, Spec
from support.browser import NO_CHROMIUM, Opened, launch
from support.cli_case import small_people
from support.functions import FUNCTIONS
from support.graphs import residual_network
from support.link_cases import HOURS, family_spec
from support.report_cases import audit_of, repair_of, repaired
from support.what_if_cases import (
    asked_audit,
    asked_network,
    every_kind,
    graph_for,
    network_for,
    people_of_every_kind,
)

pytestmark = pytest.mark.skipif(NO_CHROMIUM is not None, reason=str(NO_CHROMIUM))

CASES = {
    "one logit": {},
    "two logits": {"outputs": 2, "activation": "leaky_relu"},
    "three classes": {"outputs": 3, "activation": "tanh"},
    "regression": {"activation": "sigmoid", "regression": True},
    "float64": {"activation": "tanh", "dtype": "float64"},
    "ten layers": {"activation": "tanh", "hidden": (12,) * 9},
}
DONE = "[data-cell=people]:text-matches('computed\\\\.|drawn')"
# Sets every control as a user would, and reads what is shown.
TYPE = """people => {
  const controls = [...document.querySelectorAll("#what-if [data-feature]")];
  controls.sort((a, b) => a.dataset.feature - b.dataset.feature);
  return people.map((person) => {
    person.forEach((value, i) => { controls[i].value = value; });
    controls[0].dispatchEvent(new Event("input", { bubbles: true }));
    return [...document.querySelectorAll("#what-if [data-cell^=score], #what-if [data-cell^=decision]")]
      .map((cell) => cell.textContent);
  });
}"""
# Runs a function of the page's own script for people, with the data that a page would carry.
COMPUTE = """([data, people, what]) => {
  const model = whatIfModel.readModel(data);
  const encode = (person) => [...whatIfModel.encode(model, person)];
  const scores = (person) => whatIfModel.computeScores(model, model.networks[0], whatIfModel.encode(model, person));
  const actions = {
    encode: encode,
    similar: (person) => Array.from(whatIfModel.listSimilar(model, person), encode),
    drawn: (person) => Array.from(whatIfModel.drawSimilar(model, person, 300), encode),
    scores: scores,
    unfolded: (person) => {
      for (const node of model.networks[0].nodes) node.rounding = null;
      return scores(person);
    },
    shown: (person) => scores(person).map((score) => whatIfModel.describe(model, score)),
  };
  return people.map(actions[what]);
}"""


@pytest.fixture(scope="module")
def browser():
    with launch() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def open_report(browser, tmp_path_factory):
    folder, opened = tmp_path_factory.mktemp("pages"), {}

    def open_(report, name, **options):
        """Open a report, once for each name."""
        if name not in opened:
            report.save(folder / f"{name}.html")
            opened[name] = Opened(browser, folder / f"{name}.html", **options)
        return opened[name].page

    yield open_
    for one in opened.values():
        assert one.said == []
        one.context.close()


@pytest.fixture(scope="module")
def page(open_report):
    """The page of a repair."""
    return open_report(repair_of(), "repair")


@pytest.fixture(scope="module")
def audit_page(open_report):
    """The page of an audit of people with every kind of feature."""
    return open_report(asked_audit()[0], "audit")


@pytest.fixture
def compute(audit_page):
    def compute_(spec, net, people, what):
        """Let the page compute something about people, with this network."""
        X = spec.sample_inputs(600, np.random.default_rng(0))
        document = add_what_if(audit_of().document, spec, X, net)
        data = what_if_data(document.page.what_if, document.class_names)
        return audit_page.evaluate(COMPUTE, [data, people, what])

    return compute_


def run_onnx(net, X, folder):
    """Return the outputs (rows, outputs) of ONNX Runtime, float64."""
    net.save(folder / "net.onnx")
    session = onnxruntime.InferenceSession(folder / "net.onnx", providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: X})[0].astype(np.float64).reshape(len(X), -1)


def typed(spec, frame):
    """Return what a user types or chooses for each feature with a control: an empty text for a missing value."""
    features = [f for f in spec.features if f.indicates is None]
    values = frame[[f.name for f in features]].astype(object).to_numpy().tolist()
    return [
        ["" if value != value else str(f.categories.index(value) if f.categories else value) for f, value in row]
        for row in (list(zip(features, row, strict=True)) for row in values)
    ]


def as_numbers(spec, frame):
    """Return values, or codes of categories, with missing ones replaced."""
    filled = {f.name: frame[f.name].fillna(f.missing) for f in spec.features if f.missing is not None}
    rows = typed(spec, frame.assign(**filled))
    marks = [frame[f.indicates].isna().to_numpy() for f in spec.features if f.indicates is not None]
    return [[*map(float, row), *(float(mark[i]) for mark in marks)] for i, row in enumerate(rows)]


def as_shown(value, text):
    """Return a number rounded to the digits that the text shows, as the page writes it."""
    digits = len(text.partition(".")[2].rstrip("\N{NO-BREAK SPACE}%"))
    if "%" not in text:
        plain = f"{value:.{digits}f}"
        return plain.replace("-", "\N{MINUS SIGN}") if abs(value) < 10_000 else f"{value:,.{digits}f}"
    rounded = f"{100 * value:.{digits}f}"
    if text[0] in "<>":
        digits = len(text[2:].partition(".")[2].rstrip("\N{NO-BREAK SPACE}%"))
        beyond = float(f"{100 * value:.{digits}f}") == (0 if text[0] == "<" else 100)
        return text if beyond else rounded
    return f"{rounded}\N{NO-BREAK SPACE}%"


def test_what_is_shown_of_a_thousand_people_is_what_onnx_runtime_computes(page, tmp_path):
    """Every digit shown, before and after a repair, and every prediction that the page calls certain."""
    result, spec, original, _, _ = repaired()
    frame = small_people(1_000)
    shown = page.evaluate(TYPE, typed(spec, frame))
    assert {len(row) for row in shown} == {4}
    for number, net in enumerate((original, result.network)):
        logits = run_onnx(net, spec.encode(frame), tmp_path)[:, 0]
        scores = 1 / (1 + np.exp(-logits))
        texts = [row[number] for row in shown]
        assert texts == [as_shown(score, text) for score, text in zip(scores, texts, strict=True)]
        assert sum(text.count(".") for text in texts) == 1_000
        assert len(set(texts)) > 100
        sure = [
            (row[2 + number], logit >= 0)
            for row, logit in zip(shown, logits, strict=True)
            if " (" not in row[2 + number]
        ]
        assert len(sure) > 990
        assert all(text == ("yes" if positive else "no") for text, positive in sure)


@pytest.mark.parametrize("case", CASES)
def test_all_networks_give_the_digits_of_onnx_runtime(compute, tmp_path, case):
    net, spec = asked_network(**CASES[case])
    frame = people_of_every_kind(1_000, seed=6, missing=0.2)
    shown = compute(spec, net, as_numbers(spec, frame), "shown")
    computed = run_onnx(net, spec.encode(frame, net.dtype), tmp_path)
    scores = computed[:, 1:] if net.outputs == 2 and not spec.regression else computed
    assert shown == [
        [as_shown(score, text) for score, text in zip(*row, strict=True)] for row in zip(scores, shown, strict=True)
    ]
    decimals = [len(text.partition(".")[2].rstrip("\N{NO-BREAK SPACE}%")) for row in shown for text in row]
    assert np.mean(np.array(decimals) >= (3 if spec.regression else 1)) > 0.99


@pytest.mark.parametrize("case", ["one logit", "float64"])
def test_a_person_is_encoded_as_the_spec_does(compute, case):
    net, spec = asked_network(**CASES[case])
    frame = people_of_every_kind(300, seed=7, missing=0.2)
    encoded = compute(spec, net, as_numbers(spec, frame), "encode")
    assert np.array_equal(np.array(encoded), spec.encode(frame, net.dtype).astype(np.float64))


def test_typing_a_missing_value_is_encoded_as_the_spec_does(audit_page):
    _, net, spec = asked_audit()
    frame = people_of_every_kind(30, seed=8, missing=1.0)
    shown = audit_page.evaluate(TYPE, typed(spec, frame))
    scores = compute_scores(net, spec.encode(frame), "probability")[:, 0]
    assert [row[0] for row in shown] == [as_shown(s, row[0]) for s, row in zip(scores, shown, strict=True)]


def rows_of(points):
    return sorted(map(tuple, np.asarray(points, np.float64).tolist()))


def test_similar_people_are_those_of_the_spec_with_tolerances_and_links(compute):
    net, spec = asked_network()
    frame = people_of_every_kind(5, seed=9)
    frame.loc[:2, ["age", "gender"]] = [[60, "m"], [19, "f"], [60, "f"]]
    listed = compute(spec, net, as_numbers(spec, frame), "similar")
    owners, points = (np.concatenate(parts) for parts in zip(*spec.points(spec.encode(frame)), strict=True))
    for row, found in enumerate(listed):
        assert rows_of(found) == rows_of(points[owners == row])


def test_similar_people_of_a_family_are_those_of_the_spec(compute):
    spec = family_spec(HOURS)
    X = spec.sample_inputs(8, np.random.default_rng(2))
    people = [
        [
            float(f.categories.index(value) if f.categories else value)
            for f, value in zip(spec.features, row, strict=True)
        ]
        for row in spec.decode(X).to_numpy().tolist()
    ]
    listed = compute(spec, network_for(spec), people, "similar")
    owners, points = (np.concatenate(parts) for parts in zip(*spec.points(X), strict=True))
    for row, found in enumerate(listed):
        assert rows_of(found) == rows_of(points[owners == row])


def infinite_spec() -> Spec:
    return every_kind(tolerance=4.5)


def test_people_who_are_drawn_are_similar_and_the_page_says_so(open_report, compute):
    spec, frame = infinite_spec(), people_of_every_kind(6, seed=3)
    net = network_for(spec)
    page = open_report(audit_report(fairmend.audit(net, spec, frame, pairs=0), net, spec, frame), "drawn")
    X = spec.encode(frame)
    for row, found in enumerate(compute(spec, net, as_numbers(spec, frame), "drawn")):
        others = np.array(found, np.float32)
        assert spec.are_similar(np.repeat(X[row : row + 1], len(others), axis=0), others).all()
        assert len(np.unique(others, axis=0)) > 100
    page.locator(DONE).wait_for()
    assert "10,000 were drawn at random" in page.locator("[data-cell=people]").inner_text()
    assert page.locator("[data-cell=range-before-0]").inner_text().endswith(("or further", "that were drawn"))


def add_in_order(values, weight, bias, order, reverse):
    """Return an affine layer in float32, each sum taken term by term in one order, the bias first or last."""
    out = np.zeros((len(values), len(bias)), np.float32) if reverse else np.tile(bias, (len(values), 1))
    for column in order:
        out = (out + values[:, [column]] * weight[:, column]).astype(np.float32)
    return out + bias if reverse else out


@pytest.mark.parametrize(("hidden", "scale"), [((20, 20), 30), ((16,) * 9, 1)])
def test_every_order_of_adding_stays_within_the_bounds_of_a_score(compute, hidden, scale):
    """Large weights that cancel make rounding matter; what other programs compute stays inside the bounds."""
    spec, rng = every_kind(regression=True), np.random.default_rng(4)
    tame = network_for(spec, hidden=hidden)
    wild = [Affine(affine.weight * np.float32(scale), affine.bias * np.float32(scale)) for affine in tame.affines]
    net = Network(wild, tame.activations)
    frame = people_of_every_kind(100, seed=11)
    scores = compute(spec, net, as_numbers(spec, frame), "scores")
    low, high = (np.array([row[0][end] for row in scores]) for end in ("low", "high"))
    for attempt in range(20):
        values = spec.encode(frame)
        for i, affine in enumerate(net.affines):
            order = rng.permutation(values.shape[1])
            values = add_in_order(values, affine.weight, affine.bias, order, attempt % 2)
            values = np.maximum(values, 0) if i < len(hidden) else values
        assert ((low <= values[:, 0]) & (values[:, 0] <= high)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_activation_stays_within_the_bounds_of_a_score(compute, dtype):
    """And in float32 the bounds are narrow: the page computes the same functions."""
    spec, frame = every_kind(regression=True), people_of_every_kind(60, seed=12)
    X, people = spec.encode(frame, np.dtype(dtype)), as_numbers(spec, frame)
    for activation in (a for a in FUNCTIONS if a.name != "prelu"):
        net = network_for(spec, activation=activation, hidden=(12, 7), dtype=dtype)
        scores = compute(spec, net, people, "scores")
        low, high = (np.array([row[0][end] for row in scores]) for end in ("low", "high"))
        computed = [net.logits(X), net.astype(np.float64).logits(X) if dtype == "float32" else net.logits(X)]
        for values in computed:
            assert ((low <= values) & (values <= high)).all(), str(activation)
        assert np.median(high - low) < (2e-3 if dtype == "float32" else 1e-5), str(activation)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_graph_of_every_operation_gives_the_outputs_of_the_network(compute, tmp_path, dtype):
    """The page computes them in float64, and the bounds around them hold what NumPy and ONNX Runtime compute."""
    spec, frame = every_kind(regression=True), people_of_every_kind(300, seed=12)
    net, X = graph_for(spec, dtype), spec.encode(frame, np.dtype(dtype))
    scores = compute(spec, net, as_numbers(spec, frame), "scores")
    value, low, high = (np.array([row[0][key] for row in scores]) for key in ("value", "low", "high"))
    assert value == pytest.approx(net.logits(X), rel=1e-5 if dtype == "float32" else 1e-12, abs=1e-6)
    assert value == pytest.approx(net.astype(np.float64).logits(X), rel=1e-5 if dtype == "float32" else 1e-12)
    others = [run_onnx(net, X, tmp_path)[:, 0]] if dtype == "float32" else []  # ONNX rounds parameters to float32
    for computed in (net.logits(X), *others):
        assert ((low <= computed) & (computed <= high)).all()
    assert np.median(high - low) < (1e-2 if dtype == "float32" else 1e-5)


def test_a_deep_graph_is_bounded_through_its_skips(compute, tmp_path):
    spec, frame = every_kind(regression=True), people_of_every_kind(200, seed=12)
    net = residual_network(np.random.default_rng(0), spec.width, 8, blocks=5)
    scores = compute(spec, net, as_numbers(spec, frame), "scores")
    low, high = (np.array([row[0][end] for row in scores]) for end in ("low", "high"))
    computed = run_onnx(net, spec.encode(frame), tmp_path)[:, 0]
    assert ((low <= computed) & (computed <= high)).all()
    assert np.median((high - low) / np.abs(computed)) < 1e-3


def test_the_terms_of_a_layer_may_be_added_to_the_other_parts_of_a_sum(compute):
    """2^24 + 0.25 + 0.25 + … stays 2^24 in float32."""
    spec, one = every_kind(regression=True), np.ones(1, np.float32)
    wide = Affine(np.zeros((2000, spec.width), np.float32), np.ones(2000, np.float32))
    skip = Affine(np.zeros((1, spec.width), np.float32), one * 2**24)
    small, head = (Affine(np.full((1, width), share, np.float32), one * 0) for width, share in ((2000, 0.25), (1, 1)))
    steps = [(wide, 0), (Activation("relu"), 1), (small, 2), (skip, 0)]
    nodes = [
        Node(Input(spec.width)),
        *(Node(operation, (source,), f"n{i}") for i, (operation, source) in enumerate(steps)),
    ]
    net = Network.from_nodes([*nodes, Node(Sum(), (3, 4)), Node(head, (5,), "head")])
    (score,) = compute(spec, net, as_numbers(spec, people_of_every_kind(1, seed=1)), "scores")[0]
    assert score["low"] <= 2**24 < score["value"] <= score["high"]


def test_a_node_may_be_computed_once_for_each_of_its_readers(compute):
    """ONNX Runtime makes a scaling part of one of its readers, and rounds the factor to float32 there."""
    spec, one = every_kind(regression=True), np.ones(1)
    constant = Affine(np.zeros((1, spec.width)), one)
    third, same, minus = (
        Scale((Norm("third", 0 * one, None, one / 3, None),), 1, np.dtype(float)),
        *(Affine(np.full((1, 1), factor), 0 * one) for factor in (1.0, -1.0)),
    )
    steps = [(constant, (0,)), (Activation("relu"), (1,)), (third, (2,)), (same, (3,)), (minus, (3,)), (Sum(), (4, 5))]
    nodes = [Node(operation, sources, f"n{i}") for i, (operation, sources) in enumerate(steps)]
    net = Network.from_nodes([Node(Input(spec.width)), *nodes, Node(same, (6,), "head")])
    (score,) = compute(spec, net, as_numbers(spec, people_of_every_kind(1, seed=1)), "scores")[0]
    assert score["value"] == 0
    assert score["high"] >= float(np.float32(1 / 3)) - 1 / 3


def test_a_number_that_no_row_of_a_table_has_gives_no_score(compute):
    spec = every_kind(regression=True)
    people = as_numbers(spec, people_of_every_kind(1))
    assert compute(spec, graph_for(spec), people, "shown") != [["unknown: rounding changes it too much"]]
    people[0][6] = 13
    assert compute(spec, graph_for(spec), people, "shown") == [["unknown: rounding changes it too much"]]


def test_the_sliders_of_a_graph_move_its_scores(open_report):
    spec, frame = every_kind(), people_of_every_kind(40)
    net = graph_for(spec, closing="sigmoid")
    page = open_report(audit_report(fairmend.audit(net, spec, frame, pairs=0), net, spec, frame), "graph")
    page.get_by_label("Start from").select_option("0")
    person = frame.iloc[[int(page.locator("#what-if-start option[value='0']").inner_text().split()[1])]]
    page.get_by_label("hours, slider").focus()
    page.keyboard.press("Home")
    for hours in range(3):
        assert page.get_by_label("hours", exact=True).input_value() == str(hours)
        text = page.locator("[data-cell=score-before-0]").inner_text()
        score = compute_scores(net, spec.encode(person.assign(hours=hours)), "probability")[0, 0]
        assert text == as_shown(score, text)
        page.keyboard.press("ArrowRight")
    page.locator(DONE).wait_for()


def test_slopes_for_each_unit_are_those_of_the_units(compute):
    spec, frame = every_kind(regression=True), people_of_every_kind(60, seed=12)
    slopes = Activation("prelu", parameters=tuple(np.linspace(-0.5, 1.5, 12)))
    net = network_for(spec, activation=slopes, hidden=(12,))
    scores = compute(spec, net, as_numbers(spec, frame), "scores")
    low, high = (np.array([row[0][end] for row in scores]) for end in ("low", "high"))
    values = net.logits(spec.encode(frame))
    assert ((low <= values) & (values <= high)).all()
    assert (high - low).max() < 1e-2


def test_a_network_with_batch_normalisation_is_bounded_as_pytorch_computes_it(compute):
    """PyTorch computes the norm as a step of its own, in which large numbers cancel; here it is folded."""
    spec, frame = every_kind(regression=True), people_of_every_kind(300, seed=13)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(spec.width, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 1)).eval()
    with torch.no_grad():
        module[0].bias += 3_000
        module[1].running_mean += 3_000
        computed = module(torch.from_numpy(spec.encode(frame))).numpy()[:, 0]
    net = load_network(module)
    for what, holds in (("scores", True), ("unfolded", False)):
        scores = compute(spec, net, as_numbers(spec, frame), what)
        low, high = (np.array([row[0][end] for row in scores]) for end in ("low", "high"))
        assert ((low <= computed) & (computed <= high)).all() == holds


def test_rounding_at_its_worst_reaches_the_bound_and_not_more(compute):
    """Added to 1 one by one, halves of its last place are lost; added up first, they count."""
    features = [Feature(f"f{i}", "integer", range=(0, 1), protected=i == 0) for i in range(60)]
    spec = Spec(features, Label("price"), Claim("score", 1.0, "output"))
    weight = np.full((1, 60), 2.0**-24, np.float32)
    weight[0, 0] = 1
    net = Network([Affine(weight, np.zeros(1, np.float32))], [])
    X = np.ones((1, 60), np.float32)
    ((score,),) = compute(spec, net, [[1] * 60], "scores")
    one_by_one = add_in_order(X, weight, np.zeros(1, np.float32), range(60), False)[0, 0]
    assert one_by_one == 1
    assert score["value"] == 1 + 59 * 2.0**-24
    assert 0.9 < (score["value"] - one_by_one) / (score["value"] - score["low"]) < 1


def test_range_others_and_the_value_that_moves_most_are_those_of_all_similar_people(audit_page):
    page, (_, net, spec) = audit_page, asked_audit()
    frame = people_of_every_kind(1, seed=12)
    page.evaluate(TYPE, typed(spec, frame))
    page.locator(DONE).wait_for()
    X = spec.encode(frame)
    (_, points), *none = spec.points(X)
    scores, own = (compute_scores(net, part, "probability")[:, 0] for part in (points, X))
    shown = page.locator("[data-cell=range-before-0]").inner_text()
    assert shown.split(" to ") == [
        as_shown(end, text) for end, text in zip((scores.min(), scores.max()), shown.split(" to "), strict=True)
    ]
    others = int(((scores >= 0.3) != (own[0] >= 0.3)).sum())
    assert page.locator("[data-cell=others-before]").inner_text() == f"{others:,} of {len(points):,}"
    assert none == []
    best = max(
        (abs(score - own[0]) for f in spec.protected for score in scores[_only(f.name, spec, X, points)]),
    )
    moved = page.locator("[data-cell=moves-before]").inner_text()
    assert any(
        abs(own[0] + sign * best - float(moved.rsplit(":", 1)[1].strip("\N{NO-BREAK SPACE}% ")) / 100) < 1e-3
        for sign in (1, -1)
    )
    assert " instead of " in moved


def _only(name, spec, X, points):
    """Return the points in which no other protected feature differs, nor one with a tolerance."""
    same = np.ones(len(points), bool)
    for f in spec.features:
        if f.name != name and (f.protected or f.tolerance):
            where = spec.columns(f.name)
            same &= (points[:, where] == X[0, where]).all(axis=1)
    return same


def test_it_is_used_by_keyboard_and_read_aloud(page):
    start = page.get_by_label("Start from")
    start.select_option("0")
    start.focus()
    seen = []
    for _ in range(6):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate(
                "document.activeElement.getAttribute('aria-label') ?? document.activeElement.labels[0].textContent"
            )
        )
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert seen[:6] == ["age, slider", "age", "gender", "income, slider", "income", "credits, slider"]
    age = page.get_by_label("age", exact=True)
    before = int(age.input_value())
    page.get_by_label("age, slider").focus()
    page.keyboard.press("ArrowLeft")
    assert int(age.input_value()) == before - 1
    assert start.input_value() == ""
    page.locator("[role=status]:text-matches('All ')").wait_for(state="attached")
    spoken = page.locator("#what-if [role=status]").text_content()
    assert re.search(r"Before\. Probability of “yes”: [\d.]+.%\. .*After\. Probability of “yes”: ", spoken)
    assert "All " in spoken
    controls = "[...document.querySelectorAll('#what-if input, #what-if select')]"
    assert page.evaluate(f"{controls}.filter((one) => !one.labels.length && !one.ariaLabel).length") == 0


def test_a_wrong_value_is_named_and_nothing_is_shown_for_it(page):
    age = page.get_by_label("age", exact=True)
    for text in ("17", "76", "30.5", ""):
        age.fill(text)
        assert page.get_by_role("alert").inner_text() == "age: type a whole number from 18 to 75."
        assert age.get_attribute("aria-invalid") == "true"
        assert page.locator("[data-cell=score-before-0]").inner_text() == "–"
        assert page.locator("[data-cell=range-after-0]").inner_text() == "–"
    age.fill("30")
    assert page.get_by_role("alert").inner_text() == ""
    assert "%" in page.locator("[data-cell=score-before-0]").inner_text()


def test_codes_with_names_are_chosen_by_name_and_moves_are_told_with_them(open_report):
    sex = Feature("sex", "integer", range=(1, 2), protected=True, names={1: "male", 2: "female"})
    spec = Spec([sex, Feature("income", "integer", range=(0, 9), missing=3)], Label("good", "yes"))
    net = Network([Affine(np.array([[1, 1]], np.float32), np.zeros(1, np.float32))], [])
    X = np.array([[1, 5]], np.float32)
    page = open_report(audit_report(fairmend.audit(net, spec, X), net, spec, X), "names")
    assert page.get_by_label("sex").locator("option").all_inner_texts() == ["male", "female"]
    page.get_by_label("sex").select_option("female")
    page.locator(DONE).wait_for()
    assert page.locator("[data-cell=moves-before]").inner_text().startswith("sex male instead of female: ")


def test_a_person_of_the_list_has_the_values_of_that_row(audit_page):
    page, (report, _, spec) = audit_page, asked_audit()
    people = report.document.page.what_if.people
    frame = people_of_every_kind(40)
    for number in (0, len(people) - 1):
        page.get_by_label("Start from").select_option(str(number))
        row = int(people[number].name.removeprefix("Row "))
        expected = typed(spec, frame.iloc[[row]])[0]
        for i, text in enumerate(expected):
            assert np.float32(page.locator(f"[data-feature='{i}']").input_value()) == np.float32(text)
    assert page.get_by_label("income", exact=True).input_value() == expected[5]


def test_on_paper_and_without_scripts_there_are_no_controls(open_report, page):
    page.emulate_media(media="print")
    assert not page.locator("#what-if form").is_visible()
    assert page.locator("#what-if .on-paper").is_visible()
    page.emulate_media(media="screen")
    page = open_report(repair_of(), "no script", java_script_enabled=False)
    assert not page.locator("#what-if form").is_visible()
    assert "needs JavaScript" in page.locator("#what-if noscript").inner_text()


def test_the_data_in_the_page_is_the_document(page):
    model = page.evaluate("JSON.parse(document.getElementById('what-if').dataset.model)")
    assert model == {**asdict(repair_of().document.page.what_if), "answers": ["no", "yes"]}

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
from fairmend.network import Activation, Affine, Network, load_network
from fairmend.network.model import compute_scores
from fairmend.report import audit_report
from fairmend.report.page import what_if_data
from fairmend.spec import Feature, Label, Spec
from support.browser import NO_CHROMIUM, Opened, launch
from support.cli_case import small_people
from support.functions import FUNCTIONS, PARTIAL, WHOLE
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
  const assess = (person) => whatIfModel.assess(model, model.networks[0], whatIfModel.encode(model, person));
  const actions = {
    encode: encode,
    similar: (person) => Array.from(whatIfModel.listSimilar(model, person), encode),
    drawn: (person) => Array.from(whatIfModel.drawSimilar(model, person, 300), encode),
    assess: assess,
    outputs: (person) => [...whatIfNetwork.computeOutputs(model.networks[0], whatIfModel.encode(model, person))],
    shown: (person) => assess(person).scores.map((score) => whatIfModel.describe(model, score)),
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


def carried(spec, net):
    """Return what a page has of a network and its spec, and the names of the classes."""
    X = spec.sample_inputs(600, np.random.default_rng(0))
    document = add_what_if(audit_of().document, spec, X, net)
    return document.page.what_if, document.class_names


@pytest.fixture
def compute(audit_page):
    def compute_(spec, net, people, what):
        """Let the page compute something about people, with this network."""
        return audit_page.evaluate(COMPUTE, [what_if_data(*carried(spec, net)), people, what])

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


def shows(text, value):
    """Return whether a text is a number rounded as the page writes it; other programs may round its last digit."""
    plain = text.replace("\N{MINUS SIGN}", "-").replace(",", "").removesuffix("\N{NO-BREAK SPACE}%")
    value = 100 * value if "%" in text else value
    if plain[0] in "<>":
        return value < 0.0501 if plain == "< 0.1" else plain == "> 99.9" and value > 99.9499
    digits = len(plain.partition(".")[2])
    return abs(float(plain) - value) <= 10.0**-digits / 2 + 1e-4 * abs(value)


def test_what_is_shown_of_a_thousand_people_is_what_onnx_runtime_computes(page, tmp_path):
    """Before and after a repair, and every prediction that the page does not call close."""
    result, spec, original, _, _ = repaired()
    frame = small_people(1_000)
    shown = page.evaluate(TYPE, typed(spec, frame))
    assert {len(row) for row in shown} == {4}
    for number, net in enumerate((original, result.network)):
        logits = run_onnx(net, spec.encode(frame), tmp_path)[:, 0]
        scores = 1 / (1 + np.exp(-logits))
        texts = [row[number] for row in shown]
        assert all(map(shows, texts, scores))
        assert len(set(texts)) > 100
        plain = [
            (row[2 + number], logit >= 0)
            for row, logit in zip(shown, logits, strict=True)
            if " (" not in row[2 + number]
        ]
        assert len(plain) > 990
        assert all(text == ("yes" if positive else "no") for text, positive in plain)


@pytest.mark.parametrize("case", CASES)
def test_all_networks_give_the_scores_of_onnx_runtime(compute, tmp_path, case):
    net, spec = asked_network(**CASES[case])
    frame = people_of_every_kind(1_000, seed=6, missing=0.2)
    people = as_numbers(spec, frame)
    shown = compute(spec, net, people, "shown")
    computed = run_onnx(net, spec.encode(frame, net.dtype), tmp_path)
    scores = computed[:, 1:] if net.outputs == 2 and not spec.regression else computed
    assert all(shows(text, score) for row in zip(shown, scores, strict=True) for text, score in zip(*row, strict=True))
    if not spec.regression:
        predicted = scores.argmax(axis=1) if net.outputs > 2 else scores[:, 0] >= 0.3
        found = compute(spec, net, people, "assess")
        assert np.mean([one["close"] for one in found]) < 0.01
        pairs = zip(found, predicted.tolist(), strict=True)
        assert all(one["close"] or one["answer"] == answer for one, answer in pairs)


class Gated(nn.Module):
    """A gated layer, a normalisation and a mixture of experts."""

    def __init__(self, width):
        super().__init__()
        self.both, self.norm, self.gate = nn.Linear(width, 8), nn.LayerNorm(4), nn.Linear(4, 2)
        self.experts, self.head = nn.Linear(4, 6), nn.Linear(3, 1)

    def forward(self, x):
        x = self.norm(nn.functional.glu(self.both(x)))
        experts = torch.tanh(self.experts(x)).reshape(-1, 2, 3)
        return self.head((self.gate(x).softmax(-1).unsqueeze(-1) * experts).sum(1))


class Attends(nn.Module):
    """A token for each column and one for the class, as in FT-Transformer, and attention with two heads."""

    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = (nn.Parameter(torch.randn(width, 4) / 2) for _ in range(2))
        self.token, self.norm = nn.Parameter(torch.randn(1, 1, 4)), nn.LayerNorm(4)
        self.attention, self.head = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 1)

    def forward(self, x):
        tokens = torch.cat([x[:, :, None] * self.weight + self.bias, self.token.expand(x.shape[0], -1, -1)], 1)
        normal = self.norm(tokens)
        return self.head(torch.relu((tokens + self.attention(normal, normal, normal)[0])[:, -1]))


@pytest.mark.parametrize("kind", [Gated, Attends])
def test_networks_that_multiply_give_the_scores_of_onnx_runtime(compute, tmp_path, kind):
    torch.manual_seed(0)
    spec, frame = asked_network()[1], people_of_every_kind(200, seed=6, missing=0.2)
    net = load_network(kind(spec.width).eval())
    people, X = as_numbers(spec, frame), spec.encode(frame)
    outputs = np.array(compute(spec, net, people, "outputs"))
    np.testing.assert_allclose(outputs[:, 0], net.logits(X), atol=1e-5)
    np.testing.assert_allclose(outputs, run_onnx(net, X, tmp_path), atol=1e-5)
    found = compute(spec, net, people, "assess")
    assert np.mean([one["close"] for one in found]) < 0.05
    answers = 1 / (1 + np.exp(-net.logits(X))) >= spec.threshold
    assert all(one["close"] or one["answer"] == answer for one, answer in zip(found, answers.tolist(), strict=True))


def test_a_prediction_close_to_the_threshold_is_called_so(open_report):
    """The bound of rounding is not 0, and a score of half is within it."""
    sex = Feature("sex", "categorical", categories=("f", "m"), protected=True)
    spec = Spec([sex, Feature("income", "integer", range=(0, 9))], Label("good", "yes"))
    net = Network([Affine(np.array([[1, 1]], np.float32), np.float32([-3]))], [])
    X = np.array([[0, 3], [1, 9]], np.float32)
    page = open_report(audit_report(fairmend.audit(net, spec, X), net, spec, X), "close")
    for income, decision, others in (
        (
            "3",
            "yes (close to the threshold: the model’s own program may decide otherwise)",
            "0 of 2; 1 close to the th",
        ),
        ("5", "yes", "0 of 2"),
    ):
        page.get_by_label("sex").select_option("f")
        page.get_by_label("income", exact=True).fill(income)
        page.locator(DONE).wait_for()
        assert page.locator("[data-cell=decision-before]").inner_text() == decision
        assert page.locator("[data-cell=others-before]").inner_text().startswith(others)
    assert "within a proven bound of what rounding can change" in page.locator(".ask-note").inner_text()


def test_without_a_useful_bound_the_page_names_its_rule_of_thumb(open_report):
    net, spec = asked_network(**CASES["ten layers"])
    frame = people_of_every_kind(40)
    page = open_report(audit_report(fairmend.audit(net, spec, frame, pairs=0), net, spec, frame), "thumb")
    note = page.locator(".ask-note").inner_text()
    assert "“Close to the threshold” is a rule of thumb here" in note
    assert "proven" not in note


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
    assert all(shows(row[0], score) for score, row in zip(scores, shown, strict=True))


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


def test_every_order_of_adding_stays_within_the_bound_of_a_margin(compute):
    """Large weights that cancel make rounding matter; what other programs compute stays inside the bound."""
    spec, rng = every_kind(), np.random.default_rng(4)
    tame = network_for(spec, hidden=(20, 20))
    wild = [Affine(affine.weight * np.float32(30), affine.bias * np.float32(30)) for affine in tame.affines]
    net = Network(wild, tame.activations)
    frame = people_of_every_kind(100, seed=11)
    outputs = np.array(compute(spec, net, as_numbers(spec, frame), "outputs"))[:, 0]
    bound = carried(spec, net)[0].before.margin_error
    for attempt in range(20):
        values = spec.encode(frame)
        for i, affine in enumerate(net.affines):
            order = rng.permutation(values.shape[1])
            values = add_in_order(values, affine.weight, affine.bias, order, attempt % 2)
            values = np.maximum(values, 0) if i < 2 else values
        assert np.abs(outputs - values[:, 0]).max() <= bound


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_page_computes_every_activation(compute, dtype):
    spec, frame = every_kind(), people_of_every_kind(60, seed=12)
    X, people = spec.encode(frame, np.dtype(dtype)), as_numbers(spec, frame)
    slopes = Activation("prelu", parameters=tuple(np.linspace(-0.5, 1.5, 12)))
    cases = [*((a, (12, 7)) for a in FUNCTIONS if a.name != "prelu"), (slopes, (12,))]
    for activation, hidden in cases:
        net = network_for(spec, activation=activation, hidden=hidden, dtype=dtype)
        outputs = np.array(compute(spec, net, people, "outputs"))[:, 0]
        bound = carried(spec, net)[0].before.margin_error
        assert bound < (1e-2 if dtype == "float32" else 1e-4), str(activation)
        for values in (net.logits(X), net.astype(np.float64).logits(X)):
            assert np.abs(outputs - values).max() <= bound, str(activation)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_page_computes_elementary_functions(compute, dtype):
    spec, frame = every_kind(), people_of_every_kind(60, seed=12)
    X, people = spec.encode(frame, np.dtype(dtype)), as_numbers(spec, frame)
    for activation in (*WHOLE, *PARTIAL):
        net = network_for(spec, activation=activation, hidden=(12,), dtype=dtype)
        first, head = net.affines
        near_2 = type(first)(first.weight / 64, np.full(12, 2, first.weight.dtype))
        net = net.with_affines([near_2, head])
        outputs = np.array(compute(spec, net, people, "outputs"))[:, 0]
        bound = carried(spec, net)[0].before.margin_error
        assert bound < (1e-2 if dtype == "float32" else 1e-4), str(activation)
        for values in (net.logits(X), net.astype(np.float64).logits(X)):
            assert np.abs(outputs - values).max() <= bound, str(activation)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_graph_of_every_operation_gives_the_outputs_of_the_network(compute, tmp_path, dtype):
    """The page computes them in float64, and NumPy and ONNX Runtime no more than the bound away."""
    spec, frame = every_kind(), people_of_every_kind(300, seed=12)
    net, X = graph_for(spec, dtype), spec.encode(frame, np.dtype(dtype))
    outputs = np.array(compute(spec, net, as_numbers(spec, frame), "outputs"))[:, 0]
    assert outputs == pytest.approx(net.astype(np.float64).logits(X), rel=1e-5 if dtype == "float32" else 1e-12)
    bound = carried(spec, net)[0].before.margin_error
    others = [run_onnx(net, X, tmp_path)[:, 0]] if dtype == "float32" else []  # ONNX rounds parameters to float32
    for computed in (net.logits(X), *others):
        assert np.abs(outputs - computed).max() <= bound


def test_skips_are_computed_as_onnx_runtime_does(compute, tmp_path):
    spec, frame = every_kind(regression=True), people_of_every_kind(200, seed=12)
    net = residual_network(np.random.default_rng(0), spec.width, 8, blocks=5)
    outputs = np.array(compute(spec, net, as_numbers(spec, frame), "outputs"))[:, 0]
    assert outputs == pytest.approx(run_onnx(net, spec.encode(frame), tmp_path)[:, 0], rel=1e-4)


def test_a_network_with_batch_normalisation_is_bounded_as_pytorch_computes_it(compute):
    """PyTorch computes the norm as a step of its own, in which large numbers cancel; here it is folded."""
    spec, frame = every_kind(), people_of_every_kind(300, seed=13)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(spec.width, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 1)).eval()
    with torch.no_grad():
        module[0].bias += 300
        module[1].running_mean += 300
        computed = module(torch.from_numpy(spec.encode(frame))).numpy()[:, 0]
    net = load_network(module)
    outputs = np.array(compute(spec, net, as_numbers(spec, frame), "outputs"))[:, 0]
    assert np.abs(outputs - computed).max() <= carried(spec, net)[0].before.margin_error


def test_a_number_that_no_row_of_a_table_has_gives_no_score(compute):
    spec = every_kind(regression=True)
    people = as_numbers(spec, people_of_every_kind(1))
    assert compute(spec, graph_for(spec), people, "shown") != [["unknown"]]
    people[0][6] = 13
    assert compute(spec, graph_for(spec), people, "shown") == [["unknown"]]


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
        assert shows(text, score)
        page.keyboard.press("ArrowRight")
    page.locator(DONE).wait_for()


def test_range_others_and_the_value_that_moves_most_are_those_of_all_similar_people(audit_page):
    page, (_, net, spec) = audit_page, asked_audit()
    frame = people_of_every_kind(1, seed=12)
    page.evaluate(TYPE, typed(spec, frame))
    page.locator(DONE).wait_for()
    X = spec.encode(frame)
    (_, points), *none = spec.points(X)
    scores, own = (compute_scores(net, part, "probability")[:, 0] for part in (points, X))
    shown = page.locator("[data-cell=range-before-0]").inner_text()
    assert all(shows(text, end) for text, end in zip(shown.split(" to "), (scores.min(), scores.max()), strict=True))
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

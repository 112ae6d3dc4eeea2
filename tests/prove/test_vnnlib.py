"""The problems written for other verifiers say exactly what fairmend means by fair."""

import csv
import itertools
import json
import re

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairmend
from fairmend import FairmendError, Feature, Network, Spec, Verdict
from fairmend.network import Activation, Affine
from fairmend.prove.vnnlib import _number, _other_predictions, export_vnnlib, region_boxes
from support.cli_case import Case, run, small_network, small_people, small_spec
from support.huge_cases import SPECS as HUGE
from support.huge_cases import people as huge_people
from support.link_cases import family_case
from support.price_case import price_network, price_people, price_spec
from support.strategies import random_network
from support.strategies_spec import specs_and_inputs


def parsed(text):
    """A property as nested lists: [["declare-const", "X_0", "Real"], ["assert", [">=", "X_0", "0.0"]], …]."""
    lines = [line.split(";")[0] for line in text.split("\n")]
    stack = [[]]
    for token in re.findall(r"[()]|[^\s()]+", "\n".join(lines)):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    assert len(stack) == 1
    return stack[0]


def holds(term, values):
    """Whether a term is true, with exact comparison of doubles."""
    operator, *rest = term
    if operator == "and":
        return all(holds(part, values) for part in rest)
    if operator == "or":
        return any(holds(part, values) for part in rest)
    left, right = (values[word] if word in values else float(word) for word in rest)
    return left >= right if operator == ">=" else left <= right


def satisfied(statements, x, y):
    values = {f"X_{i}": float(v) for i, v in enumerate(x)} | {f"Y_{i}": float(v) for i, v in enumerate(y)}
    declared = {statement[1] for statement in statements if statement[0] == "declare-const"}
    assert declared == set(values)
    return all(holds(statement[1], values) for statement in statements if statement[0] == "assert")


def boxes_of(statements, width):
    """The boxes (lower, upper) that the clauses of the property describe."""
    hull = [[-np.inf, np.inf] for _ in range(width)]

    def narrow(box, term):
        operator, variable, value = term
        if variable.startswith("X_"):
            side, better = (0, max) if operator == ">=" else (1, min)
            box[int(variable[2:])][side] = better(box[int(variable[2:])][side], float(value))

    clauses = [[]]
    for statement in statements:
        if statement[0] != "assert":
            continue
        if statement[1][0] == "or":
            clauses = [clause[1:] for clause in statement[1][1:]]
        else:
            narrow(hull, statement[1])
    found = []
    for clause in clauses:
        box = [list(ends) for ends in hull]
        for term in clause:
            narrow(box, term)
        found.append((tuple(low for low, _ in box), tuple(high for _, high in box)))
    return found


def finite_spec(rng):
    features = [
        Feature("a", "integer", range=(0, int(rng.integers(1, 6))), scale={"mean": 1.3, "std": 0.7}, protected=True)
    ]
    if rng.random() < 0.5:
        features.append(Feature("b", "categorical", categories=("x", "y", "z"), encoding="one-hot", protected=True))
    if rng.random() < 0.5:
        features.append(Feature("c", "categorical", categories=("x", "y"), protected=bool(rng.random() < 0.5)))
    features.append(Feature("d", "integer", range=(-3, 3), tolerance=float(rng.integers(0, 3))))
    features.append(Feature("e", "continuous", range=(-1, 1)))
    return Spec(features)


def unfair_rows(net, spec, X):
    own = net.predict(X)
    unfair = np.zeros(len(X), dtype=bool)
    for rows, points in spec.points(X, dtype=net.dtype):
        unfair[rows] |= net.predict(points) != own[rows]
    return unfair


@pytest.mark.parametrize("seed", range(25))
def test_the_property_is_satisfied_by_a_point_of_the_neighbourhood_iff_its_answer_differs(tmp_path, seed):
    rng = np.random.default_rng(seed)
    spec, outputs = finite_spec(rng), int(rng.choice([1, 2, 4]))
    net = random_network(rng, spec.width, [6, 5], outputs, str(rng.choice(["relu", "tanh"])))
    X = spec.sample_inputs(5, rng)
    export = export_vnnlib(net, spec, X, tmp_path)
    own = net.predict(X)
    texts = [parsed((tmp_path / problem.file).read_text()) for problem in export.problems]
    for rows, points in spec.points(X):
        logits = net.logits(points).reshape(len(points), -1)
        for row, x, y, answer in zip(rows, points, logits, net.predict(points), strict=True):
            assert satisfied(texts[row], x, y) == (answer != own[row])  # no ties among random logits
    for row, problem in enumerate(export.problems):
        points = {tuple(map(float, p)) for _, batch in spec.points(X[row : row + 1]) for p in batch}
        found = boxes_of(texts[row], spec.width)
        assert all(lower == upper for lower, upper in found)
        assert {lower for lower, _ in found} == points  # exactly the neighbourhood
        assert (problem.row, problem.answer, problem.relaxed) == (row, own[row], ())
        assert problem.boxes == len(points)


@pytest.mark.parametrize("outputs", [1, 2, 3, 4])
def test_conditions_on_the_outputs_with_every_tie_there_is(outputs):
    net = random_network(np.random.default_rng(0), 2, (), outputs)
    for y in itertools.product([-1.0, 0.0, 1.0], repeat=outputs):
        predicted = int(y[0] >= 0) if outputs == 1 else int(np.argmax(y))
        for own in range(max(2, outputs)):
            conditions, tie_is_sat = _other_predictions(own, net)
            sat = any(holds(parsed(c)[0], {f"Y_{i}": v for i, v in enumerate(y)}) for c in conditions)
            if predicted != own:
                assert sat  # no counterexample is lost
            elif sat:
                assert tie_is_sat  # and what is added is named
                assert y[0] == 0 if outputs == 1 else sorted(y)[-1] == sorted(y)[-2]


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_property_at_a_threshold_has_all_counterexamples_in_exact_arithmetic(outputs, tmp_path):
    spec = small_spec().at_threshold(0.3)
    net = small_network(outputs)
    X = spec.as_inputs(small_people(12), np.float32)
    export = export_vnnlib(net, spec, X, tmp_path)
    verdicts = fairmend.certify(net, spec, X).verdicts
    at = net.at_threshold(0.3)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    for x, verdict, problem in zip(X, verdicts, export.problems, strict=True):
        text = (tmp_path / problem.file).read_text()
        points = np.concatenate([chunk for _, chunk in spec.points(x[None], dtype=np.float32)])
        leads = [session.run(None, {session.get_inputs()[0].name: point[None]})[0].item() for point in points]
        condition = re.search(r"\((>=|<=) Y_0 (-?[0-9.]+)\)", text)
        bound = float(condition[2])
        assert abs(bound - at.offset) < 1e-15
        sat = any(lead >= bound if condition[1] == ">=" else lead <= bound for lead in leads)
        assert sat == (verdict is Verdict.UNFAIR)
        assert problem.answer == at.predict(x[None])[0]


def test_beyond_the_most_boxes_features_are_relaxed_and_that_is_said(tmp_path):
    spec = Spec(
        [
            Feature("age", "integer", range=(18, 75), scale={"min": 18, "max": 75}, protected=True),
            Feature("race", "categorical", categories=tuple("abcde"), encoding="one-hot", protected=True),
            Feature("job", "categorical", categories=tuple("xyz"), protected=True),
        ]
    )
    X = spec.sample_inputs(3, np.random.default_rng(0))
    net = random_network(np.random.default_rng(1), spec.width, [6], 1, "relu")
    expected = {1000: ((), 58 * 5 * 3), 100: (("age",), 15), 10: (("age", "job"), 5), 3: (("age", "race", "job"), 1)}
    for most, (relaxed, boxes) in expected.items():
        export = export_vnnlib(net, spec, X, tmp_path / str(most), most_boxes=most)
        assert [(p.relaxed, p.boxes) for p in export.problems] == [(relaxed, boxes)] * 3
        manifest = json.loads((tmp_path / str(most) / "manifest.json").read_text())
        for row, problem in enumerate(export.problems):
            text = (tmp_path / str(most) / problem.file).read_text()
            assert ("relaxed to intervals" in text) == bool(relaxed)
            assert manifest["problems"][row]["relaxed"] == list(relaxed)
            lower, upper = (np.array(side) for side in zip(*boxes_of(parsed(text), spec.width), strict=True))
            for _, points in spec.points(X[row : row + 1]):
                for point in points:  # a relaxation may add people, never lose one
                    assert ((lower <= point) & (point <= upper)).all(axis=1).any()


def test_continuous_columns_are_intervals(tmp_path):
    spec = Spec(
        [
            Feature("age", "integer", range=(0, 3), protected=True),
            Feature("income", "continuous", range=(0, 10), tolerance=0.5, scale={"mean": 3, "std": 2}),
        ]
    )
    X = spec.sample_inputs(4, np.random.default_rng(3))
    regions = spec.regions(X)
    for row in range(4):
        lower, upper, relaxed = region_boxes(spec, X[row], 100)
        assert (len(lower), relaxed) == (4, ())
        assert (lower[:, 1] == regions.lower[row, 1]).all()
        assert (upper[:, 1] == regions.upper[row, 1]).all()
        assert sorted(lower[:, 0].tolist()) == [0, 1, 2, 3]


def test_an_input_keeps_its_own_bits(tmp_path):
    spec = Spec([Feature("age", "integer", range=(0, 9), scale={"mean": 3.3, "std": 1.7}, protected=True)])
    x = np.nextafter(spec.sample_inputs(1, np.random.default_rng(0)), np.float32(9))
    lower, _, _ = region_boxes(spec, x[0], 100)
    assert x[0, 0] in lower[:, 0]


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_numbers_are_exact_and_have_no_exponent(double, single):
    for value in (np.float64(double), np.float32(single)):
        text = _number(value)
        assert re.fullmatch(r"-?\d+\.\d+", text)
        assert float(text) == value


def test_the_model_takes_one_input_and_gives_logits(tmp_path):
    closed = Network(small_network(3).affines, small_network(3).activations, "softmax")
    X = small_spec().encode(small_people(5))
    export_vnnlib(closed, small_spec(), X, tmp_path)
    graph = onnx.load(tmp_path / "model.onnx").graph
    assert [d.dim_value for d in graph.input[0].type.tensor_type.shape.dim] == [1, small_spec().width]
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for x in X:
        [y] = session.run(None, {graph.input[0].name: x[None]})
        assert y[0] == pytest.approx(closed.logits(x[None])[0], rel=1e-5, abs=1e-6)


def test_a_name_cannot_smuggle_anything_into_the_property(tmp_path):
    evil = 'age\n(assert (<= X_0 -5.0))\u2028(assert (<= X_0 -5.0)) ; ) "'
    spec = Spec([Feature(evil, "integer", range=(0, 300), protected=True)])
    net = Network([Affine(np.ones((1, 1), np.float32), np.full(1, -7, np.float32))], [])
    for most in (1, 1000):
        export = export_vnnlib(net, spec, np.array([[3.0]]), tmp_path / str(most), most_boxes=most)
        statements = parsed((tmp_path / str(most) / export.problems[0].file).read_text())
        assert satisfied(statements, [300.0], [293.0])


def marabou(folder, seconds=30):
    """What Marabou makes of each instance, through its own reader of properties: answer and point."""
    from maraboupy import Marabou

    options = Marabou.createOptions(verbosity=0, timeoutInSeconds=seconds)
    for model, prop, _ in csv.reader((folder / "instances.csv").read_text().splitlines()):
        network = Marabou.read_onnx(str(folder / model))
        answer, values, _ = network.solve(propertyFilename=str(folder / prop), options=options, verbose=False)
        variables = np.array(network.inputVars[0]).ravel()
        yield answer, np.array([[values[v] for v in variables]]) if answer == "sat" else None


@pytest.mark.filterwarnings("ignore:Tensorflow parser")
@pytest.mark.parametrize("seed", range(8))
def test_marabou_agrees_with_certify(tmp_path, seed):
    pytest.importorskip("maraboupy")
    rng = np.random.default_rng(seed)
    features = list(finite_spec(rng).features)
    if seed % 2:
        features[-1] = Feature("e", "continuous", range=(-1, 1), tolerance=0.3)
    spec = Spec(features)
    net = random_network(rng, spec.width, [6, 4], 1 if seed % 4 < 2 else 3, "relu")
    X = spec.sample_inputs(6, rng)
    export = export_vnnlib(net, spec, X, tmp_path)
    verdicts = fairmend.certify(net, spec, X, engine="branch").verdicts
    answers = list(marabou(tmp_path))
    assert len(answers) == len(verdicts)
    for problem, verdict, (answer, point) in zip(export.problems, verdicts, answers, strict=True):
        assert answer in ("sat", "unsat")
        assert verdict is not Verdict.UNKNOWN
        assert (answer == "sat") == (verdict is Verdict.UNFAIR)
        if point is not None:
            logits = np.atleast_1d(net.astype(np.float64).logits(point)[0])
            margin = abs(logits[0]) if len(logits) == 1 else np.sort(logits)[-1] - np.sort(logits)[-2]
            assert margin < 1e-4 or net.astype(np.float64).predict(point)[0] != problem.answer


def test_what_does_not_fit_is_refused(tmp_path):
    net, spec, X = small_network(), small_spec(), small_spec().encode(small_people(3))
    with pytest.raises(FairmendError, match="reads 3 columns"):
        export_vnnlib(Network([Affine(np.ones((1, 3)), np.ones(1))], []), spec, X, tmp_path)
    with pytest.raises(FairmendError, match="different numbers"):
        export_vnnlib(net, spec, X, tmp_path, rows=[1, 1, 2])
    with pytest.raises(FairmendError, match="at least 1"):
        export_vnnlib(net, spec, X, tmp_path, most_boxes=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(FairmendError, match="cannot create the folder"):
        export_vnnlib(net, spec, X, tmp_path / "file")


@pytest.mark.parametrize("activation", ["leaky_relu", "sigmoid", "identity"])
def test_every_activation_is_written(tmp_path, activation):
    slope = 0.1 if activation == "leaky_relu" else 0.0
    affines = small_network().affines
    net = Network(affines, [Activation(activation, slope)] * (len(affines) - 1))
    fairmend.export_vnnlib(net, small_spec(), small_people(2), tmp_path)
    X = small_spec().encode(small_people(2))
    assert fairmend.load_network(tmp_path / "model.onnx").logits(X) == pytest.approx(net.logits(X))


def test_the_command_writes_the_same_rows_as_certify_decides(tmp_path):
    case = Case(tmp_path)
    arguments = [case.model, "--spec", case.spec, "--data", case.data, "--rows", 7, "--seed", 3, "--json"]
    result = run("export-vnnlib", *arguments, "--out", case.out, "--timeout", 60)
    assert result.exit_code == 0, result.stderr
    shown = json.loads(result.stdout)
    certified = json.loads(run("certify", *arguments).stdout)
    assert [problem["row"] for problem in shown["problems"]] == certified["rows"]
    lines = (case.out / "instances.csv").read_text().splitlines()
    assert lines == [f"model.onnx,{problem['file']},60" for problem in shown["problems"]]
    assert sorted(p.name for p in case.out.iterdir()) == sorted(
        ["model.onnx", "instances.csv", "manifest.json", *(problem["file"] for problem in shown["problems"])]
    )
    text = run("export-vnnlib", *arguments[:-1], "--out", case.out, "--most-boxes", 4)
    assert text.exit_code == 0
    assert "7 properties in " in text.stdout
    assert "relaxed (age)" in text.stdout


def test_the_command_does_not_overwrite_its_own_input(tmp_path):
    case = Case(tmp_path)
    before = case.listing()
    result = run("export-vnnlib", case.model, "--spec", case.spec, "--data", case.data, "--out", case.folder)
    assert result.exit_code == 2
    assert "would overwrite an input file" in result.stderr
    assert case.listing() == before


@given(specs_and_inputs(finite=True), st.integers(1, 400))
def test_boxes_of_any_finite_neighbourhood_are_its_points_or_contain_them(case, most):
    spec, X = case
    for x in X:
        points = np.concatenate([batch for _, batch in spec.points(x[None], dtype=x.dtype)])
        lower, upper, relaxed = region_boxes(spec, x, most)
        assert len(lower) <= most
        if relaxed:
            inside = (lower[None] <= points[:, None]) & (points[:, None] <= upper[None])
            assert inside.all(axis=2).any(axis=1).all()
            assert len(points) > most
        else:
            assert (lower == upper).all()
            assert {tuple(row) for row in lower.tolist()} == {tuple(row) for row in points.tolist()}


@given(specs_and_inputs(), st.integers(1, 50), st.integers(0, 2**32 - 1))
def test_boxes_of_any_neighbourhood_contain_its_regions(case, most, seed):
    """Every sampled point of every piece that is a possible person lies in a box."""
    spec, X = case
    rng = np.random.default_rng(seed)
    continuous = [spec.columns(f.name).start for f in spec.features if f.kind == "continuous"]
    for x in X:
        lower, upper, _ = region_boxes(spec, x, most)
        regions = spec.regions(x[None], dtype=x.dtype)
        for low, high in zip(regions.lower, regions.upper, strict=True):
            point = np.where(rng.random(len(low)) < 0.5, low, high)
            point[continuous] = (low + rng.random(len(low)) * (high - low)).astype(x.dtype)[continuous]
            point = np.clip(point, low, high)
            assert ((lower <= point) & (point <= upper)).all(axis=1).any()


@pytest.mark.parametrize("name", HUGE)
def test_huge_neighbourhoods_are_relaxed(name, tmp_path):
    net, X, _ = huge_people(HUGE[name])
    (problem,) = export_vnnlib(net, HUGE[name], X[:1], tmp_path).problems
    assert problem.relaxed
    assert problem.boxes <= 1000


def test_links_are_written_as_their_union():
    spec, _, X = family_case(rows=6)
    for x in X:
        _, points = next(spec.points(x[None]))
        lower, upper, relaxed = region_boxes(spec, x, 1000)
        assert relaxed == ()
        assert {tuple(p) for p in lower.tolist()} == {tuple(p) for p in points.tolist()}
        assert np.array_equal(lower, upper)
        for most in (40, 10, 2):
            lower, upper, relaxed = region_boxes(spec, x, most)
            assert len(lower) <= most
            assert relaxed or most == 40
            inside = (lower[:, None] <= points) & (points <= upper[:, None])
            assert inside.all(axis=2).any(axis=0).all()


def test_a_claim_about_scores_is_refused(tmp_path):
    spec = price_spec()
    with pytest.raises(FairmendError, match="VNN-LIB compares classes"):
        export_vnnlib(price_network(), spec, spec.encode(price_people(3)), tmp_path / "out")
    assert not (tmp_path / "out").exists()

"""Products, softmax and normalisation: bounds against exact and 50-digit values, errors against float32 programs."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch

from fairmend_check.errors import CheckError
from fairmend_check.kernel import bounds
from fairmend_check.kernel.assemble import Graph
from fairmend_check.kernel.bounds import form_bounds, interval_layers, point_bounds
from fairmend_check.kernel.functions import Activation, function_of
from fairmend_check.kernel.inference_error import output_errors
from fairmend_check.kernel.operations.affine import Dense, Scale
from fairmend_check.kernel.operations.base import Form, Nonlinear, mirrored
from fairmend_check.kernel.operations.columns import Columns, Sum
from fairmend_check.kernel.operations.groups import Grouped, Normalise, Softmax
from fairmend_check.kernel.operations.product import Product
from fairmend_check.kernel.rounding import Precision

mpmath.mp.dps = 50


def exact(operation, point):
    """The values at a point (width,) of each source: of a product in rationals, of the others in 50 digits."""
    if isinstance(operation, Product):
        shape = operation.groups, -1, operation.length
        a, b = (np.array([Fraction(number) for number in part.tolist()]).reshape(shape) for part in point)
        return [sum(row * column) for left, right in zip(a, b, strict=True) for row in left for column in right]
    found = []
    for start in range(0, len(point[0]), operation.size):
        group = [mpmath.mpf(number) for number in point[0][start : start + operation.size].tolist()]
        if isinstance(operation, Softmax):
            parts = [mpmath.exp(number - max(group)) for number in group]
            found += [part / mpmath.fsum(parts) for part in parts]
        else:
            middle = mpmath.fsum(group) / len(group) if operation.centred else 0
            apart = [number - middle for number in group]
            spread = mpmath.sqrt(mpmath.fsum(c * c for c in apart) / len(apart) + mpmath.mpf(operation.epsilon))
            found += [c / spread for c in apart]
    return found


OPERATIONS = [
    (Product(3), (3, 3)),
    (Product(1, 2, 3, 4), (8, 12)),
    (Product(2, 2, 1, 3), (12, 6)),
    (Softmax(1), (2,)),
    (Softmax(3), (6,)),
    (Softmax(5), (5,)),
    (Normalise(4, 1e-5), (8,)),
    (Normalise(2, 1e-3), (4,)),
    (Normalise(1, 1e-3), (2,)),
    (Normalise(3, 1e-6, centred=False), (6,)),
]


def boxes(rng, widths, count):
    """Boxes of very different places and sizes; some numbers do not vary."""
    found = []
    for width in widths:
        centre = rng.normal(size=(count, width)) * 10.0 ** rng.uniform(-2, 1.3, (count, 1))
        radius = np.abs(rng.normal(size=(count, width))) * 10.0 ** rng.uniform(-6, 1, (count, 1))
        radius *= rng.random((count, width)) < 0.8
        found.append((centre - radius, centre + radius))
    return found


def with_asked(operation, reads):
    """The intervals with the ranges of the forms that the operation asks for, over these boxes."""
    found = list(reads)
    while (forms := operation.asked(found)) is not None:
        middle, radius = (reads[0][0] + reads[0][1]) / 2, (reads[0][1] - reads[0][0]) / 2
        spread = (np.abs(forms) @ (radius + 1e-14 * np.abs(middle))[..., None])[..., 0] * (1 + 1e-14)
        centre = (forms @ middle[..., None])[..., 0]
        found.append((centre - spread, centre + spread))
    return found


@pytest.mark.parametrize(("asks", "scale"), [(False, 1.0), (True, 1.0), (False, 1e-140), (False, 1e110)])
@pytest.mark.parametrize(("operation", "widths"), OPERATIONS)
def test_values_are_within_intervals_and_above_linear_forms(operation, widths, asks, scale):
    """Beyond 1e100, the slopes of 1 / sqrt(v) by v are 0 in double precision."""
    rng = np.random.default_rng(1)
    only = [(low * scale, high * scale) for low, high in boxes(rng, widths, 25 if scale == 1 else 4)]
    reads = with_asked(operation, only) if asks else only
    with np.errstate(all="ignore"):
        low, high = operation.interval(reads)
        shape = len(low), 3, low.shape[1]
        forms = rng.normal(size=shape) * (rng.random(shape) < 0.7)
        form = Form({})
        parts = operation.substitute(forms, operation.relaxed(reads), form)
    for turn in range(6):
        shares = [rng.random(low.shape) if turn % 2 else rng.integers(0, 2, low.shape) for low, _ in only]
        points = [np.clip(a + t * (b - a), a, b) for (a, b), t in zip(only, shares, strict=True)]
        for box in range(len(low)):
            values = exact(operation, [point[box] for point in points])
            assert all(value >= least for value, least in zip(values, low[box].tolist(), strict=True))
            assert all(value <= most for value, most in zip(values, high[box].tolist(), strict=True))
            for number, coefficients in enumerate(forms[box]):
                numbers = [mpmath.mpf(c) * to_mpf(v) for c, v in zip(coefficients.tolist(), values, strict=True)]
                terms = [
                    mpmath.mpf(c) * mpmath.mpf(x)
                    for part, point in zip(parts, points, strict=True)
                    for c, x in zip(part[box, number].tolist(), point[box].tolist(), strict=True)
                ]
                below = mpmath.fsum(terms) + mpmath.mpf(float(form.const[box, number] - form.slip[box, number]))
                assert mpmath.fsum(numbers) >= below - abs(below) * mpmath.mpf(2) ** -50


@pytest.mark.parametrize(
    ("operation", "widths"),
    [*OPERATIONS, (Activation("relu"), (5,)), (Activation("sigmoid"), (5,)), (Sum(), (4, 4)), (Columns((2, 0)), (3,))],
)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_mirrored_forms_are_the_forms_and_their_negatives(operation, widths, shared, sparse):
    """With few coefficients, some groups of numbers are used by no form."""
    rng = np.random.default_rng(6)
    reads = with_asked(operation, boxes(rng, widths, 8)) if isinstance(operation, Nonlinear) else boxes(rng, widths, 8)
    shape = 8, 3, operation.width(widths)
    forms = np.broadcast_to(rng.normal(size=shape[1:]), shape) if shared else rng.normal(size=shape)
    forms = forms * (np.arange(shape[2]) == 1) if sparse else forms
    assert operation.mirrors
    before, const, slip = rng.normal(size=(8, 3, 2)), rng.normal(size=shape[:2]), rng.random(shape[:2])
    found = Form({0: before}, const, slip, mirrored=True)
    alone = Form({0: mirrored(before)}, mirrored(const), mirrored(slip, sign=1))
    with np.errstate(all="ignore"):
        parts = operation.substitute(forms, operation.relaxed(reads), found)
        wanted = operation.substitute(mirrored(forms), operation.relaxed(reads), alone)
    if found.mirrored:  # every part is still the negative for the negative of a form
        parts = [mirrored(part) for part in parts]
        found.unfold(parts[0])
    pairs = [*zip(parts, wanted, strict=True), (found.coefficients[0], alone.coefficients[0])]
    for part, whole in [*pairs, (found.const, alone.const), (found.slip, alone.slip)]:
        np.testing.assert_allclose(part, whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("operation", [Softmax(3), Normalise(3, 1e-5), Normalise(3, 1e-5, centred=False)])
def test_groups_that_no_form_uses_change_nothing(operation):
    rng = np.random.default_rng(8)
    reads = with_asked(operation, boxes(rng, (15,), 8))
    forms = rng.normal(size=(8, 2, 15))
    forms[:, 0, :3] = forms[:, 0, 9:] = 0.0  # the first form uses the second and the third group
    relaxed = operation.relaxed(reads)
    alone, among = Form({}), Form({})
    (part,), (whole,) = (
        operation.substitute(*each) for each in ((forms[:, :1], relaxed, alone), (forms, relaxed, among))
    )
    assert part.shape == (8, 1, 15)
    np.testing.assert_allclose(part, whole[:, :1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(alone.const - alone.slip, (among.const - among.slip)[:, :1], rtol=1e-12, atol=1e-12)
    (none,) = operation.substitute(0 * forms, relaxed, Form({}))
    assert not none.any()


@pytest.mark.parametrize("name", ["sigmoid", "tanh"])
def test_below_parallel_lines_mirrored_forms_stay_mirrored_and_sound(name):
    rng, operation = np.random.default_rng(7), Activation(name)
    (ends,) = boxes(rng, (5,), 40)
    lines, forms = operation.lines(ends, function_of(operation).chords), rng.normal(size=(40, 3, 5))
    form = Form({}, mirrored=True)
    (part,) = operation.substitute(forms, lines, form)
    assert lines.parallel
    assert form.mirrored
    for share in (0.0, 0.3, 0.5, 0.9, 1.0):
        points = np.clip(ends[0] + share * (ends[1] - ends[0]), *ends)
        for box, point in enumerate(points.tolist()):
            values = [mpmath.tanh(x) if name == "tanh" else 1 / (1 + mpmath.exp(-x)) for x in map(mpmath.mpf, point)]
            for number in range(3):
                exactly, line = (
                    mpmath.fdot(coefficients[box, number].tolist(), numbers)
                    for coefficients, numbers in ((forms, values), (part, point))
                )
                const, slip = float(form.const[box, number]), float(form.slip[box, number])
                assert exactly >= line + const - slip
                assert -exactly >= -line - const - slip


@pytest.mark.parametrize(("operation", "widths"), OPERATIONS)
def test_numbers_of_which_squares_overflow_are_within_the_bounds(operation, widths):
    rng = np.random.default_rng(5)
    points = [rng.choice([0.0, 1e-300, -1.0, 1e154, -1e200, 1e300], size=(20, width)) for width in widths]
    with np.errstate(all="ignore"):
        low, high = operation.interval([(point, point) for point in points])
        slopes = operation.slopes([(point, point) for point in points])
    for box in range(len(low)):
        for value, least, most in zip(exact(operation, [p[box] for p in points]), low[box], high[box], strict=True):
            assert least <= to_mpf(value) <= most
    if isinstance(operation, Normalise):
        assert (np.diagonal(slopes.most, axis1=2, axis2=3) > 1e-160).all()  # 1 / sqrt(v + epsilon) is not 0


@pytest.mark.parametrize(("operation", "widths"), OPERATIONS)
def test_without_ends_bounds_are_infinite_and_never_nan(operation, widths):
    shapes = [(2, width) for width in widths]
    reads = [(np.full(shape, -np.inf), np.full(shape, np.inf)) for shape in shapes]
    reads[0][0][0], reads[0][1][0] = 0.0, 0.0
    with np.errstate(all="ignore"):
        low, high = operation.interval(reads)
        slopes, kind = operation.slopes(reads), Precision.of("float32")
        errors = [np.resize([0.0, 1.0], shape) for shape in shapes]
        carried, own = operation.carried(slopes, errors), operation.rounding(reads, kind, 1.0)
        ones = np.ones((2, 1, low.shape[1]))
        derivatives = operation.derivatives((0 * ones, ones, ones), list(widths), slopes)
    assert not any(
        np.isnan(part).any() for part in (low, high, carried, own, *(end for by in derivatives for end in by))
    )


def test_a_coefficient_that_underflows_is_within_what_is_lost():
    """-1e-200 times 1e-200 is 0, but not with a number of 1e300."""
    reads = [(np.full((1, 1), number), np.full((1, 1), number)) for number in (1e300, 1e-200)]
    form = Form({})
    parts = Product(1).substitute(np.full((1, 1, 1), -1e-200), Product(1).relaxed(reads), form)
    a, b = Fraction(1e300), Fraction(1e-200)
    below = Fraction(parts[0][0, 0, 0]) * a + Fraction(parts[1][0, 0, 0]) * b
    below += Fraction(float(form.const[0, 0])) - Fraction(float(form.slip[0, 0]))
    assert below <= -b * a * b


def to_mpf(value):
    return mpmath.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else value


def test_a_normalised_group_is_as_tight_as_sums_of_its_numbers_are():
    """The spread of a group is known better than its numbers, which move together: bounds must not lose that."""
    rng = np.random.default_rng(6)
    columns, width = 8, 32
    graph = Graph(columns)
    hidden = graph.affine(graph.input, rng.normal(size=(width, columns)))
    model = graph.finish(graph.affine(graph.apply(Normalise(width, 1e-5), hidden), rng.normal(size=(1, width))))
    centre = rng.normal(size=(10, columns))
    forms = np.broadcast_to(np.array([[1.0], [-1.0]]), (10, 2, 1))
    least, _ = form_bounds(model, forms, centre - 0.05, centre + 0.05)
    corners = centre + 0.05 * np.sign(rng.normal(size=(500, 10, columns)))
    values = point_bounds(model, corners.reshape(-1, columns))[0].reshape(500, 10)
    assert (-least.sum(axis=1) < 3 * np.ptp(values, axis=0)).all()


@pytest.mark.parametrize(("operation", "widths"), OPERATIONS)
def test_what_changes_is_within_the_derivatives(operation, widths):
    rng = np.random.default_rng(2)
    reads = boxes(rng, widths, 40)
    slopes = operation.slopes(reads)
    first = [np.clip(low + rng.random(low.shape) * (high - low), low, high) for low, high in reads]
    second = [np.clip(low + rng.random(low.shape) * (high - low), low, high) for low, high in reads]
    carried = operation.carried(slopes, [np.abs(a - b) for a, b in zip(first, second, strict=True)])
    for box in range(len(carried)):
        values = [exact(operation, [point[box] for point in points]) for points in (first, second)]
        apart = np.array([abs(float(a - b)) for a, b in zip(*values, strict=True)])
        assert (apart <= carried[box] * (1 + 1e-12) + 1e-300).all()
        moved = [np.linalg.norm(a[box] - b[box]) for a, b in zip(first, second, strict=True)]
        stretched = sum(operation.stretch(side, slopes)[box] * each for side, each in enumerate(moved))
        assert np.linalg.norm(apart) <= stretched * (1 + 1e-12) + 1e-300


@pytest.mark.parametrize("seed", range(2))
def test_over_wide_boxes_errors_are_about_those_at_points(seed):
    rng = np.random.default_rng(seed)
    graph, width = Graph(32), 32
    layers = [((rng.normal(size=(width, width)) / 6).astype(np.float32), None) for _ in range(3)]
    y = graph.affine(graph.input, *layers[0])
    for layer in layers[1:]:
        normed = graph.apply(Normalise(width, 1e-5), y)
        y = graph.sum(y, graph.function(graph.affine(normed, *layer), Activation("relu")))
    model = graph.finish(graph.affine(y, rng.normal(size=(1, width)).astype(np.float32), None))
    centre, forms = rng.normal(size=(5, 32)), np.ones((5, 1, 1))
    found = []
    for radius in (0.0, 0.05):
        ends = centre - radius, centre + radius
        nodes = form_bounds(model, forms, *ends)[1]
        found.append(output_errors(model, *ends, nodes, forms, thorough=True))
    assert (found[1] < 8 * found[0]).all()


@pytest.mark.parametrize(("operation", "widths"), OPERATIONS)
def test_where_nothing_varies_bounds_are_close(operation, widths):
    rng = np.random.default_rng(3)
    reads = [(part, part) for part in (rng.normal(size=(20, width)) for width in widths)]
    low, high = operation.interval(reads)
    assert (high - low < 1e-12).all()
    form = Form({})
    parts = operation.substitute(
        np.broadcast_to(np.eye(low.shape[1]), (20, *[low.shape[1]] * 2)), operation.relaxed(reads), form
    )
    below = sum((part * read[0][:, None]).sum(axis=2) for part, read in zip(parts, reads, strict=True))
    assert (low - (below + form.const - form.slip) < 1e-11).all()


def in_float32(operation, points):
    """What PyTorch computes in float32, in all the ways that programs have."""
    tensors = [torch.tensor(point, dtype=torch.float32) for point in points]
    if isinstance(operation, Product):
        a = tensors[0].reshape(-1, operation.groups, operation.rows, operation.length)
        b = tensors[1].reshape(-1, operation.groups, operation.columns, operation.length)
        yield a @ b.mT
        yield (a.unsqueeze(3) * b.unsqueeze(2)).sum(-1)
        return
    x = tensors[0].reshape(len(tensors[0]), -1, operation.size)
    if isinstance(operation, Softmax):
        yield x.softmax(-1)
        yield (1.4426950408889634 * x - 1.4426950408889634 * x.amax(-1, keepdim=True)).exp2() / (
            1.4426950408889634 * (x - x.amax(-1, keepdim=True))
        ).exp2().sum(-1, keepdim=True)
        return
    if operation.centred:
        yield torch.nn.functional.layer_norm(x, (operation.size,), eps=operation.epsilon)
        mean = x.mean(-1, keepdim=True)
        yield (x - mean) * ((x * x).mean(-1, keepdim=True) - mean * mean + operation.epsilon).rsqrt()
        yield x * (var := ((x - mean) ** 2).mean(-1, keepdim=True) + operation.epsilon).rsqrt() - mean / var.sqrt()
    else:
        yield x / ((x * x).mean(-1, keepdim=True) + operation.epsilon).sqrt()


@pytest.mark.parametrize(("operation", "widths"), OPERATIONS)
def test_programs_in_float32_stay_within_the_rounding(operation, widths):
    rng = np.random.default_rng(4)
    points = [rng.normal(size=(60, width)) * 10.0 ** rng.uniform(-2, 1, (60, 1)) for width in widths]
    points = [point.astype(np.float32).astype(np.float64) for point in points]
    own = operation.rounding([(point, point) for point in points], Precision.of("float32"), 1.0)
    for computed in in_float32(operation, points):
        values = computed.double().numpy().reshape(len(own), -1)
        for row, (value, room) in enumerate(zip(values, own, strict=True)):
            wanted = exact(operation, [point[row] for point in points])
            off = np.array([abs(float(to_mpf(a) - mpmath.mpf(b))) for a, b in zip(wanted, value.tolist(), strict=True)])
            assert (off <= room).all()


def attention(rng, dtype, tokens=4, width=6, outputs=1):
    """A transformer of one block with a gate, as a model of the checker and as a function of PyTorch."""
    columns, all_ = 3, tokens * width

    def numbers(*shape):
        return (rng.normal(size=shape) * 0.5).astype(dtype)

    first, shift = numbers(all_, columns), numbers(all_)
    q, k, v, gate = (numbers(width, width) for _ in range(4))
    head = numbers(outputs, all_)
    graph = Graph(columns)
    x = graph.affine(graph.input, first, shift)
    normed = graph.apply(Normalise(width, 1e-5), x)
    parts = [graph.affine(normed, np.kron(np.eye(tokens), part).astype(dtype)) for part in (q, k, v, gate)]
    scores = graph.apply(Product(1, tokens, tokens, width), parts[0], parts[1])
    turned = graph.columns(parts[2], [token * width + unit for unit in range(width) for token in range(tokens)])
    mixed = graph.apply(Product(1, tokens, width, tokens), graph.apply(Softmax(tokens), scores), turned)
    gated = graph.apply(Product(all_), mixed, graph.function(parts[3], Activation("sigmoid")))
    model = graph.finish(graph.affine(graph.sum(gated, x), head, None))

    def run(rows):
        kind = getattr(torch, dtype)
        rows, *weights = (torch.tensor(part).to(kind) for part in (rows, first, shift, q, k, v, gate, head))
        a, b, wq, wk, wv, wg, last = weights
        x = (rows @ a.T + b).reshape(-1, tokens, width)
        y = torch.nn.functional.layer_norm(x, (width,))
        mixed = torch.nn.functional.scaled_dot_product_attention(y @ wq.T, y @ wk.T, y @ wv.T, scale=1.0)
        return (mixed * (y @ wg.T).sigmoid() + x).reshape(len(rows), -1) @ last.T

    return model, run


@pytest.mark.parametrize("seed", range(6))
def test_bounds_of_a_transformer_enclose_what_it_computes(seed):
    rng = np.random.default_rng(seed)
    model, run = attention(rng, "float64")
    centre, radius = rng.normal(size=(4, 3)), np.array([[0.0], [0.01], [0.2], [1.0]])
    lower, upper = centre - radius, centre + radius
    forms = np.broadcast_to(np.array([[1.0], [-1.0]]), (4, 2, 1))
    least, _ = form_bounds(model, forms, lower, upper)
    boxes = interval_layers(model, lower, upper)[-1]
    points = np.clip(lower + rng.random((200, 4, 3)) * (upper - lower), lower, upper)
    values = run(points.reshape(-1, 3)).numpy().reshape(200, 4)
    assert (values >= least[:, 0] - 1e-9).all()
    assert (values <= -least[:, 1] + 1e-9).all()
    assert (values >= boxes[0][:, 0] - 1e-9).all()
    assert (-least[:, 1] - least[:, 0] <= (boxes[1] - boxes[0])[:, 0] + 1e-9).all()
    assert -least[0, 1] - least[0, 0] < 1e-9
    low, high, _ = point_bounds(model, points[0])
    assert (np.abs(low[:, 0] - values[0]) < 1e-3).all()  # all points at once, which are far apart
    assert (low[:, 0] <= values[0] + 1e-9).all()
    assert (high[:, 0] >= values[0] - 1e-9).all()


def test_bounds_of_nodes_are_those_without_mirrored_forms(monkeypatch):
    """Forms that are written out at once give the same bounds, but for the last digits."""
    rng = np.random.default_rng(3)
    model, _ = attention(rng, "float64", tokens=3, width=4)
    centre = rng.normal(size=(5, 3))
    _, found = form_bounds(model, np.ones((5, 1, 1)), centre - 0.1, centre + 0.1)
    for operation in (Dense, Scale, Sum, Columns, Product, Activation, Grouped):
        monkeypatch.setattr(operation, "mirrors", False)
    _, wanted = form_bounds(model, np.ones((5, 1, 1)), centre - 0.1, centre + 0.1)
    for (low, high), (least, most) in zip(found, wanted, strict=True):
        np.testing.assert_allclose(low, least, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(high, most, rtol=1e-10, atol=1e-10)


def test_layers_that_read_one_node_are_bounded_as_one(monkeypatch):
    """A function that reads it as well stays by itself, and so does a layer that no function reads."""
    rng = np.random.default_rng(3)
    graph = Graph(4)
    x = graph.function(graph.affine(graph.input, rng.normal(size=(6, 4))), Activation("tanh"))
    cut = graph.function(x, Activation("relu"))
    first, second, alone, narrow = (graph.affine(x, rng.normal(size=(n, 6)), rng.normal(size=n)) for n in (6, 6, 6, 2))
    gated = graph.apply(Product(6), graph.function(first, Activation("sigmoid")), second)
    whole = graph.concatenate(graph.sum(gated, alone, cut), graph.function(narrow, Activation("relu")))
    model = graph.finish(graph.affine(whole, np.ones((1, 8))))
    together = [set(bounds._beside(model, number, set(range(20)) - {alone})) for number in range(len(model.nodes) - 1)]
    assert together.count({first, second, narrow}) == 1
    lower = rng.normal(size=(3, 4))
    least, found = form_bounds(model, np.ones((3, 1, 1)), lower, lower + 0.3)
    monkeypatch.setattr(bounds, "_beside", lambda *_: {})
    wanted, nodes = form_bounds(model, np.ones((3, 1, 1)), lower, lower + 0.3)
    np.testing.assert_allclose(least, wanted, rtol=1e-12)
    for (low, high), (below, above) in zip(found, nodes, strict=True):
        np.testing.assert_allclose(low, below, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(high, above, rtol=1e-12, atol=1e-12)


def test_a_layer_over_tokens_multiplies_by_its_block():
    rng = np.random.default_rng(4)
    block, forms = rng.normal(size=(2, 3)), rng.normal(size=(5, 4, 8))
    changed = np.kron(np.eye(4), block)
    changed[7, 0] = 1.0
    for weight, wanted in ((np.kron(np.eye(4), block), block), (changed, changed), (block, block)):
        layer, width = Dense(weight, np.ones(len(weight))), weight.shape[1]
        np.testing.assert_array_equal(layer._block, wanted)
        reads = [(np.zeros((5, width)), np.ones((5, width)))]
        (found,) = layer.substitute(forms[:, :, : len(weight)], layer.relaxed(reads), Form({}))
        np.testing.assert_allclose(found, forms[:, :, : len(weight)] @ weight, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("seed", range(6))
def test_a_transformer_in_float32_stays_within_its_error(seed):
    rng = np.random.default_rng(seed)
    model, run = attention(rng, "float32")
    rows = rng.normal(size=(200, 3)).astype(np.float32).astype(np.float64)
    exactly = point_bounds(model, rows)
    layers = interval_layers(model, rows, rows)
    error = output_errors(model, rows, rows, layers, np.ones((200, 1, 1)))
    thorough = output_errors(model, rows, rows, layers, np.ones((200, 1, 1)), thorough=True)
    off = np.abs(run(rows).double().numpy() - exactly[0])
    assert (off <= error).all()
    assert (off <= thorough).all()
    assert np.median(thorough) < 1e-3


def test_what_does_not_fit_is_refused():
    for operation, widths in [
        (Product(2), (2, 3)),
        (Product(0), (0, 0)),
        (Product(1, 2, 3, 4), (12, 8)),
        (Softmax(4), (6,)),
        (Normalise(4, 1e-5), (6,)),
        (Normalise(3, 0.0), (6,)),
        (Normalise(3, float("nan")), (6,)),
    ]:
        with pytest.raises(CheckError):
            operation.width(widths)


def test_a_model_may_end_with_a_product_but_not_with_a_softmax():
    graph = Graph(2)
    hidden = graph.affine(graph.input, np.ones((2, 2), np.float32))
    product = graph.apply(Product(2), hidden, graph.input)
    assert isinstance(graph.finish(product).nodes[-1].operation, Scale)
    with pytest.raises(CheckError, match="end with an affine layer"):
        graph.finish(graph.apply(Softmax(2), hidden))


def test_a_product_of_several_factors_is_covered_in_any_order():
    """1e20 times 1e-20 is 1, and 1e-20 times 1e-20 is 0 in float32, whatever comes after it."""
    graph = Graph(3)
    factors = [graph.columns(graph.input, [column]) for column in range(3)]
    hidden = graph.apply(Product(1), graph.apply(Product(1), factors[0], factors[1]), factors[2])
    model = graph.finish(graph.affine(hidden, np.full((1, 1), 2.0**60, np.float32)))
    x = np.array([[1e20, 1e-20, 1e-20]])
    a, b, c = x[0].astype(np.float32)
    computed = [float(value) * 2.0**60 for value in ((a * b) * c, (b * c) * a)]
    _, nodes = form_bounds(model, np.ones((1, 1, 1)), x, x)
    bound = output_errors(model, x, x, nodes, np.ones((1, 1, 1)))[0, 0]
    assert bound >= abs(computed[0] - computed[1]) > 0


def test_what_is_multiplied_by_itself_is_a_square():
    graph = Graph(2)
    twice = graph.apply(Product(2), graph.input, graph.input)
    model = graph.finish(graph.affine(twice, np.ones((1, 2), np.float32)))
    assert [node.operation for node in model.nodes[1:-1]] == [Activation("square")]


def online_softmax(scores, blocks):
    """A softmax block by block in base 2, as fused attention computes it; one of two products is not rounded."""
    scale, base = np.float32(1 / np.log(2)), scores.astype(np.float32)
    most = np.full(len(base), -np.inf, np.float32)
    total, parts = np.zeros(len(base), np.float32), []
    for block in blocks:
        new = np.maximum(most, base[:, block].max(axis=1))
        exact = base[:, block].astype(np.float64) * np.float64(scale) - (new * scale).astype(np.float64)[:, None]
        powers = np.exp2(exact.astype(np.float32))  # the product is not rounded, as in a fused operation
        factor = np.exp2((most - new) * scale)
        total = total * factor + powers.sum(axis=1, dtype=np.float32)
        parts = [part * factor[:, None] for part in parts] + [powers]
        most = new
    return np.concatenate(parts, axis=1) / total[:, None]


@pytest.mark.parametrize("mask", [-1e4, -1e6, -1e9])
def test_numbers_far_below_the_largest_do_not_make_a_softmax_inexact(mask):
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(6, 4)).astype(np.float32)
    bias = np.array([mask, mask, mask, 0, 0.5, mask], np.float32)
    graph = Graph(4)
    model = graph.finish(graph.affine(graph.apply(Softmax(6), graph.affine(graph.input, weight, bias)), np.eye(6)[3:]
                                      .astype(np.float32)))  # fmt: skip
    X = rng.normal(size=(200, 4)).astype(np.float32)
    rows = X.astype(np.float64)
    forms = np.broadcast_to(np.eye(3), (len(X), 3, 3))
    with np.errstate(over="ignore", invalid="ignore"):
        error = output_errors(model, rows, rows, interval_layers(model, rows, rows), forms)
    assert np.isfinite(error).all()
    assert error.max() < 1e-4
    scores = rows @ weight.T.astype(np.float64) + bias
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    exact = (powers / powers.sum(axis=1, keepdims=True))[:, 3:]
    computed = X @ weight.T + bias
    orders = [[slice(0, 6)], [slice(0, 3), slice(3, 6)], [slice(0, 1), slice(1, 3), slice(3, 5), slice(5, 6)]]
    found = [online_softmax(computed, blocks)[:, 3:] for blocks in orders]
    found += [torch.softmax(torch.from_numpy(computed), 1).numpy()[:, 3:]]
    for each in found:
        assert np.isfinite(each).all()
        assert (np.abs(each - exact) <= error).all()


def test_a_mask_whose_rounding_may_overflow_is_not_covered():
    graph = Graph(2)
    layer = graph.affine(graph.input, np.eye(2, dtype=np.float32), np.array([-1e10, 0], np.float32))
    model = graph.finish(graph.affine(graph.apply(Softmax(2), layer), np.ones((1, 2), np.float32)))
    rows = np.zeros((1, 2))
    with np.errstate(over="ignore", invalid="ignore"):
        error = output_errors(model, rows, rows, interval_layers(model, rows, rows), np.ones((1, 1, 1)))
    assert np.isinf(error).all()

"""What any program may compute at a row: the outputs of real ones are inside, those of other networks are not."""

import numpy as np
import pytest
import torch

from fairmend_check.kernel.assemble import Graph
from fairmend_check.kernel.functions import Activation
from fairmend_check.run.enclosure import certain_classes, close_outputs, enclose_outputs


def model_and_weights(outputs=1, closing="", seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=shape).astype(dtype) for shape in ((8, 4), (8,), (outputs, 8), (outputs,))]
    graph = Graph(4)
    hidden = graph.function(graph.affine(graph.input, *weights[:2]), Activation("relu"))
    value = graph.affine(hidden, *weights[2:])
    name = closing.removeprefix("second ")
    value = graph.function(value, Activation(name)) if name else value
    value = graph.columns(value, [1]) if closing.startswith("second") else value
    return graph.finish(value), weights


CLOSINGS = {"": lambda z: z, "sigmoid": torch.sigmoid, "softmax": lambda z: z.softmax(1)}
CLOSINGS |= {"log_softmax": lambda z: z.log_softmax(1), "second softmax": lambda z: z.softmax(1)[:, 1:]}


@pytest.mark.parametrize(
    ("closing", "outputs"),
    [("", 1), ("", 3), ("sigmoid", 1), ("softmax", 3), ("log_softmax", 3), ("second softmax", 2)],
)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
def test_outputs_of_pytorch_are_inside_and_others_outside(closing, outputs, scale):
    model, (w1, b1, w2, b2) = model_and_weights(outputs, closing)
    assert model.closing == closing
    X = (scale * np.random.default_rng(1).normal(size=(200, 4))).astype(np.float32)
    with torch.no_grad():
        hidden = torch.relu(torch.from_numpy(X) @ torch.from_numpy(w1).T + torch.from_numpy(b1))
        found = CLOSINGS[closing](hidden @ torch.from_numpy(w2).T + torch.from_numpy(b2)).double().numpy()
    low, high = enclose_outputs(model, X.astype(np.float64))
    least, most = close_outputs(low, high, closing, model.dtype, found.shape[1])
    assert ((least <= found) & (found <= most)).all()
    assert (most - least).max() < 1e-3 * max(1.0, scale)
    wrong = np.roll(found, 1, axis=0)
    differs = np.abs(wrong - found).max(axis=1) > 1e-3 * max(1.0, scale)
    outside = ~((least <= wrong) & (wrong <= most)).all(axis=1)
    assert outside[differs].all()


def test_both_probabilities_of_one_output():
    model, _ = model_and_weights(1, "sigmoid")
    low, high = enclose_outputs(model, np.zeros((1, 4)))
    ((rest, one),), _ = close_outputs(low, high, "sigmoid", model.dtype, 2)
    assert rest + one == pytest.approx(1, abs=1e-4)
    assert close_outputs(low, high, "sigmoid", model.dtype, 3) is None


def test_there_is_no_bound_where_inference_may_overflow():
    model, _ = model_and_weights()
    low, high = enclose_outputs(model, np.full((1, 4), 3e38))
    assert (low, high) == (-np.inf, np.inf)


@pytest.mark.parametrize("threshold", [0.5, 0.3, 0.9])
def test_a_class_is_certain_only_where_every_program_decides_so(threshold):
    model, _ = model_and_weights(1)
    limit = np.log(threshold / (1 - threshold))
    middle = np.array([[limit - 1], [limit - 1e-9], [limit], [limit + 1e-9], [limit + 1]])
    assert certain_classes(model, middle, middle, threshold).tolist() == [0, -1, -1, -1, 1]
    assert certain_classes(model, middle - 2, middle + 2, threshold).tolist() == [-1] * 5


def test_the_largest_of_several_outputs_is_certain_if_it_leads():
    model, _ = model_and_weights(3)
    low = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 1.5]])
    assert certain_classes(model, low, low + 0.6).tolist() == [2, -1]

"""A model from steps: where norms and activations may stand, and what may close it."""

import numpy as np
import pytest

from fairmend_check.assemble import Affine, assemble
from fairmend_check.errors import CheckError
from fairmend_check.model import Activation
from fairmend_check.norms import scaling

RELU, SIGMOID = Activation("relu"), Activation("sigmoid")
WIDE, LAST = Affine(np.ones((2, 3), np.float32), None), Affine(np.ones((1, 2), np.float32), None)
DOUBLED = scaling(0.0, 2.0, None)


def test_norms_belong_to_the_layer_before_or_after_them():
    model = assemble([DOUBLED, WIDE, DOUBLED, DOUBLED, RELU, DOUBLED, LAST, DOUBLED, SIGMOID])
    assert np.array_equal(model.weights[0], np.full((2, 3), 8.0))
    assert np.array_equal(model.weights[1], np.full((1, 2), 4.0))
    assert model.activations == (RELU,)
    assert model.closed
    assert [fold is not None for fold in model.folds] == [True, True]


def test_without_norms_nothing_is_folded():
    model = assemble([WIDE, LAST])
    assert model.folds == (None, None)
    assert model.activations == (Activation("identity"),)
    assert not model.closed


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([WIDE, RELU, RELU, LAST], "the activation relu is in a position"),
        ([RELU, WIDE], "the activation relu is in a position"),
        ([WIDE, RELU, DOUBLED, RELU, LAST], "the activation relu is in a position"),
        ([WIDE, RELU, DOUBLED], "scaling is in a position"),
        ([WIDE, SIGMOID], "ends with sigmoid"),
        ([WIDE, RELU, LAST, Activation("softmax")], "ends with softmax"),
        ([DOUBLED], "scaling is in a position"),
        ([], "no layers"),
    ],
)
def test_other_orders_are_refused(steps, reason):
    with pytest.raises(CheckError, match=reason):
        assemble(steps)

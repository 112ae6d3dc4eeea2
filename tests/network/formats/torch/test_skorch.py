"""Nets of skorch: the network decides as the net does, or the net is refused."""

import numpy as np
import pytest
import torch
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from fairmend.base.errors import FairmendError
from fairmend.network import Affine, load_network
from fairmend.network.formats.sklearn import to_estimator

X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)


class NeuralNet:
    """What fairmend reads of a net of skorch 1.x, and how it decides."""

    def __init__(self, module=None, criterion=None, predict_nonlinearity="auto", threshold=0.5):
        self.predict_nonlinearity, self.threshold = predict_nonlinearity, threshold
        if module is not None:
            self.module_, self.criterion_ = module, criterion

    def predict(self, X):
        with torch.no_grad():
            return (self.module_(torch.from_numpy(X)).sigmoid()[:, 0] > self.threshold).numpy().astype(int)


class NeuralNetClassifier(NeuralNet):
    pass


class NeuralNetBinaryClassifier(NeuralNetClassifier):
    pass


for kind in (NeuralNet, NeuralNetClassifier, NeuralNetBinaryClassifier):
    kind.__module__ = "skorch.classifier"


def module(outputs=1, *closing):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, outputs), *closing).eval()


def test_a_net_decides_at_its_threshold():
    net = NeuralNetBinaryClassifier(module(), nn.BCEWithLogitsLoss(), threshold=0.4)
    network = load_network(net)
    assert network.threshold == 0.4
    assert np.array_equal(network.predict(X), net.predict(X))
    assert not np.array_equal(network.predict(X), load_network(net.module_).predict(X))
    assert load_network(NeuralNetBinaryClassifier(module(1, nn.Sigmoid()), nn.BCELoss())).closing == "sigmoid"


@pytest.mark.parametrize(
    ("net", "words"),
    [
        (NeuralNetClassifier(), "is not fitted; call fit first"),
        (NeuralNetBinaryClassifier(module(), nn.BCELoss()), "does not decide by the sigmoid"),
        (NeuralNetBinaryClassifier(module(1, nn.Sigmoid()), nn.BCEWithLogitsLoss()), "does not decide by the sigmoid"),
        (NeuralNetBinaryClassifier(module(), nn.BCEWithLogitsLoss(), None), "does not decide by the sigmoid"),
        (NeuralNetBinaryClassifier(module(2), nn.BCEWithLogitsLoss()), "does not decide by the sigmoid"),
        (NeuralNetClassifier(module(), nn.NLLLoss()), "has 1 output, so that it always predicts class 0"),
    ],
)
def test_a_net_that_decides_by_other_numbers_is_refused(net, words):
    with pytest.raises(FairmendError, match=words):
        load_network(net)


def test_a_net_at_the_end_of_a_pipeline_or_in_a_search_is_read_and_copied():
    net = NeuralNetBinaryClassifier(module(), nn.BCEWithLogitsLoss())
    pipeline = Pipeline([("scale", StandardScaler()), ("net", net)])
    search = GridSearchCV(pipeline, {})
    search.best_estimator_ = pipeline
    network = load_network(search)
    assert network == load_network(net)
    changed = network.with_affines([Affine(a.weight * 2, a.bias + 1) for a in network.affines])
    copied = to_estimator(changed, pipeline)
    assert np.array_equal(copied.steps[1][1].predict(X), changed.predict(X))
    assert load_network(pipeline) == network


def test_a_net_that_is_no_classifier_is_its_module():
    assert load_network(NeuralNet(module(2))) == load_network(module(2))

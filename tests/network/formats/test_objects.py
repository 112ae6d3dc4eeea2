"""Models in memory: what is no module or MLPClassifier is refused with the way to get a network from it."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairmend.errors import FairmendError
from fairmend.network import Affine, Network, load_network
from support.keras_files import import_keras, quiet


def test_objects_that_hold_no_network_are_refused_by_type():
    with pytest.raises(FairmendError, match=r"from dict; give the path .* nn\.Module"):
        load_network({})


@quiet
def test_a_keras_model_is_to_be_saved_first():
    keras = import_keras()
    row = keras.Input((4,))
    for model in (keras.Sequential([row, keras.layers.Dense(1)]), keras.Model(row, keras.layers.Dense(1)(row))):
        with pytest.raises(FairmendError, match=r'Keras model in memory.*model\.save\("model\.keras"\)') as caught:
            load_network(model)
        assert "trace" not in str(caught.value)


def test_a_pipeline_is_refused_with_its_last_step_and_the_classifier_that_repairs_it():
    pipeline = make_pipeline(StandardScaler(), MLPClassifier((2,)))
    with pytest.raises(FairmendError, match=r"from Pipeline; .*load_network\(pipeline\[-1\]\).*FairRepairClassifier"):
        load_network(pipeline)


@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV])
def test_a_search_is_refused_with_its_best_estimator(search):
    with pytest.raises(FairmendError, match=rf"from {search.__name__}; .*best_estimator_.*FairRepairClassifier"):
        load_network(search(MLPClassifier(), {"alpha": [1, 2]}))


def test_a_linear_classifier_is_a_network_of_one_layer():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = LogisticRegression().fit(X, X[:, 0] > 0.3)
    with pytest.raises(FairmendError, match=r"Network\(\[fairmend\.network\.Affine\(model\.coef_, model\.intercept_\)"):
        load_network(model)
    network = Network([Affine(model.coef_, model.intercept_)], [])
    assert (network.predict(X) == model.predict(X)).all()

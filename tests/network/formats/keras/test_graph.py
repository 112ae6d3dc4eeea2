"""Keras models as graphs: predictions are Keras's own, files keep their form, the checker reads the same weights."""

import numpy as np
import pytest

from fairmend.network import Affine, load_network
from fairmend.network.description import stored_steps
from fairmend.prove.certificate import weights_digest as digest_of_network
from fairmend_check.kernel.description import described_model
from fairmend_check.kernel.model import network_digest, weights_digest
from fairmend_check.readers.read_model import read_model
from support.keras_files import import_keras, quiet
from support.keras_models import MODELS, ONLY_ARCHIVED, keras_predictions, make_model, network_predictions, rows_for

CASES = [(name, (".keras", ".h5")[i % 2]) for i, name in enumerate(MODELS) if name not in ONLY_ARCHIVED]
CASES += [(name, ".keras") for name in (*ONLY_ARCHIVED, "products")]
CASES += [("attention", ".h5"), ("ensemble", ".keras"), ("made_in_another_order", ".h5"), ("embeddings", ".keras")]


@quiet
@pytest.mark.parametrize(("name", "suffix"), sorted(set(CASES)))
def test_a_model_is_read_and_written_back_into_its_file(name, suffix, tmp_path):
    keras = import_keras()
    path, model = tmp_path / f"m{suffix}", make_model(keras, name)
    model.save(path)
    network = load_network(path)
    X = rows_for(network)
    assert np.allclose(network_predictions(network, X, name), keras_predictions(model, network, X), atol=1e-5)
    changed = network.with_affines([Affine(a.weight * 0.5, a.bias + 0.25) for a in network.affines])
    changed.save(path)
    assert load_network(path).nodes == changed.nodes
    checked = read_model(path)[0]
    assert weights_digest(checked) == digest_of_network(changed)
    assert network_digest(checked) == network_digest(described_model(*stored_steps(changed))[0])
    loaded = keras.models.load_model(path)
    assert [(layer.name, type(layer)) for layer in loaded.layers] == [
        (layer.name, type(layer)) for layer in model.layers
    ]
    assert np.allclose(network_predictions(changed, X, name), keras_predictions(loaded, network, X), atol=1e-5)

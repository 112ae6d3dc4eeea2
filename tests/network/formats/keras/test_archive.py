""".keras archives: compressed ones, and those of the first release that wrote them."""

import json
import zipfile

import h5py
import numpy as np

from fairmend.network import load_network
from support.strategies import random_network


def test_a_compressed_keras_file_is_read(tmp_path):
    network = random_network(np.random.default_rng(0), 4, [5])
    network.save(tmp_path / "m.keras")
    with zipfile.ZipFile(tmp_path / "m.keras") as old, zipfile.ZipFile(tmp_path / "z.keras", "w", 8) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert load_network(tmp_path / "z.keras").affines == network.affines


def test_the_first_keras_files_of_tensorflow_are_read(tmp_path):
    """TensorFlow 2.12 kept the weights below another name."""
    network = random_network(np.random.default_rng(0), 4, [5])
    network.save(tmp_path / "m.keras")
    with zipfile.ZipFile(tmp_path / "m.keras") as archive:
        config = json.loads(archive.read("config.json"))
    with h5py.File(tmp_path / "w.h5", "w") as file:
        for place, affine in zip(("dense", "dense_1"), network.affines, strict=True):
            group = file.create_group(f"_layer_checkpoint_dependencies/{place}/vars")
            group["0"], group["1"] = affine.weight.T, affine.bias
    with zipfile.ZipFile(tmp_path / "old.keras", "w") as archive:
        archive.writestr("config.json", json.dumps(config))
        archive.write(tmp_path / "w.h5", "model.weights.h5")
    assert load_network(tmp_path / "old.keras").affines == network.affines
